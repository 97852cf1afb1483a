//! Which lanes have a way for which rank, asked when the schedule wants to know.
//!
//! A lane is blocked for a rank exactly when one of its scopes would not take a
//! call of the least cost; it is held when only the even spacing of the rank
//! stands in the way. What is asked is remembered until a call starts, because
//! nothing else changes the answer during a round; what a call met that was
//! tried is remembered for the whole round.
//!
//! | in the way | whose way is blocked |
//! | --- | --- |
//! | the account's quota, gate or seats | every lane's |
//! | a narrower scope | the lanes that touch it |
//! | seats kept for interactive calls | every other rank's |
//! | even spacing | none's: the rank is held |

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use super::lanes::Lanes;
use super::output::WaitReason;
use crate::cost::Cost;
use crate::id::Scope;
use crate::ledger::{Blocked, Call, Ledger};
use crate::schedule::{Lane, Pace, Spacing, Way};
use crate::time::Moment;
use crate::word::Priority;

/// What stands in the way of a call.
#[derive(Clone, Debug)]
pub(super) struct InTheWay {
    pub(super) reason: WaitReason,
    pub(super) until: Moment,
}

impl From<Blocked> for InTheWay {
    fn from(blocked: Blocked) -> InTheWay {
        InTheWay {
            reason: WaitReason::Scope(blocked.reason),
            until: blocked.until,
        }
    }
}

/// What one round of dispatching has found out.
#[derive(Debug)]
pub(super) struct Found {
    /// Until a call starts. Lists, because a round rarely meets more than a few.
    asked: RefCell<Vec<(Lane, Priority, Way)>>,
    /// For the whole round.
    tried: Vec<(Lane, Priority, Way)>,
    /// When the first of what is in the way is over.
    wake: Cell<Moment>,
}

impl Found {
    pub(super) fn new() -> Found {
        Found {
            asked: RefCell::default(),
            tried: Vec::new(),
            wake: Cell::new(Moment::NEVER),
        }
    }

    /// A call that was picked could not go.
    pub(super) fn tried(&mut self, lane: Lane, priority: Priority, way: &InTheWay) {
        self.wake.set(self.wake.get().min(way.until));
        let found = match way.reason {
            WaitReason::Spacing => Way::Held,
            _ => Way::Blocked,
        };
        self.tried.push((lane, priority, found));
    }

    /// A call started: what was asked may be another answer now.
    pub(super) fn started(&mut self) {
        self.asked.get_mut().clear();
        self.wake.set(Moment::NEVER);
    }

    /// When to try again.
    pub(super) fn wake(&self) -> Moment {
        self.wake.get()
    }
}

/// The state that the answers are taken from.
#[derive(Clone, Copy)]
pub(super) struct Ways<'e> {
    pub(super) now: Moment,
    pub(super) ledger: &'e Ledger,
    pub(super) lanes: &'e Lanes,
    pub(super) spacings: &'e BTreeMap<Scope, Spacing>,
}

impl Ways<'_> {
    /// What a lane has for a rank.
    pub(super) fn way(&self, found: &Found, lane: Lane, priority: Priority) -> Way {
        let known = known(&found.tried, lane, priority)
            .or_else(|| known(&found.asked.borrow(), lane, priority));
        if let Some(way) = known {
            return way;
        }
        let (way, until) = self.ask(lane, priority);
        found.wake.set(found.wake.get().min(until));
        found.asked.borrow_mut().push((lane, priority, way));
        way
    }

    fn ask(&self, lane: Lane, priority: Priority) -> (Way, Moment) {
        let call = Call {
            scopes: self.lanes.scopes(lane),
            cost: Cost::ONE,
            estimate: None,
            priority,
            probe_safe: true,
        };
        if let Some(blocked) = self.ledger.block(self.now, &call) {
            return (Way::Blocked, blocked.until);
        }
        match self.spaced(&call) {
            Some((_, until)) => (Way::Held, until),
            None => (Way::Open, Moment::NEVER),
        }
    }

    /// The spacing that holds a call, and until when; of several the longest.
    pub(super) fn spaced(&self, call: &Call<'_>) -> Option<(Scope, Moment)> {
        let free = call.scopes.iter().filter_map(|scope| {
            let spacing = self.spacings.get(scope)?;
            spacing.spaced_until(self.now, call.priority)?;
            let pace = pace(self.ledger, scope);
            let until = spacing.free_at(self.now, call.priority, call.cost, pace);
            Some((scope, until))
        });
        let (scope, until) = free.max_by_key(|(_, until)| *until)?;
        (self.now < until).then(|| (scope.clone(), until))
    }
}

/// The latest answer of a list.
fn known(answers: &[(Lane, Priority, Way)], lane: Lane, priority: Priority) -> Option<Way> {
    let of = |(l, p, _): &&(Lane, Priority, Way)| (*l, *p) == (lane, priority);
    answers.iter().rev().find(of).map(|(_, _, way)| *way)
}

/// How fast a scope can be used, as the spacing wants to know it.
pub(super) fn pace(ledger: &Ledger, scope: &Scope) -> Option<Pace> {
    ledger.rate(scope).map(|rate| Pace {
        units: rate.units,
        per: rate.per,
    })
}
