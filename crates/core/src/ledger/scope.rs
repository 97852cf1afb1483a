//! What is known of one scope: its quotas, its gate, its seats, and what they
//! learn from each answer.
//!
//! Conservation, for every quota: `cap = available + reserved + spent`, where
//! spent includes what others used. What goes beyond the cap is a debt.

use std::collections::BTreeSet;

use super::call::{Origin, PermitId, Rate, Reason};
use super::discovery::Discovery;
use super::feedback::Lesson;
use super::gate::{Gate, Turn};
use super::headers::OVERTAKES;
use super::history::History;
use super::limiter::{Limiter, Margins};
use super::seats::Seats;
use super::window::Log;
use crate::id::Scope;
use crate::policy::{Quota, ScopeLimits};
use crate::time::{Moment, Span};
use crate::word::{Mode, Priority};

/// A scope that is not used for this long may be forgotten whatever it waits for.
const FORGOTTEN_AFTER: Span = Span::from_secs(600);
/// How the operator's own limits are called.
pub(super) const POLICY: &str = "policy";

/// What one permit holds of one scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    pub(super) place: usize,
    pub(super) turn: Turn,
    /// Units of the scope that surely arrived before the call, and its own.
    pub(super) mark: u64,
}

/// What a closed scope waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) until: Moment,
    /// Whether for a used-up quota, and no rate.
    exhausted: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct ScopeLedger {
    pub(super) name: Scope,
    pub(super) declared: bool,
    pub(super) gate: Gate,
    pub(super) seats: Seats,
    pub(super) limiters: Vec<Limiter>,
    pub(super) discovery: Option<Discovery>,
    pub(super) history: History,
    pub(super) lesson: Option<Lesson>,
    /// Units granted and not sent.
    pub(super) reserved: u64,
    /// Units ever sent.
    pub(super) sent: u64,
    /// Those that may still be overtaken.
    pub(super) recent: Log,
    pub(super) refusals: u64,
    pub(super) echoes: u64,
    pub(super) refused_at: Option<Moment>,
    /// Whether what it is closed for is a used-up quota, and no rate.
    pub(super) exhausted: bool,
    pub(super) row: usize,
    /// Where the last hold came from.
    pub(super) held_by: String,
    /// Why the mode is what it is.
    pub(super) why: String,
    /// The mode that was last made known.
    pub(super) announced: Mode,
    /// The hold that was last made known.
    pub(super) announced_hold: Option<Held>,
    /// When it changes by itself, as the map has it.
    pub(super) armed: Moment,
    pub(super) last_used: Moment,
    pub(super) malformed: BTreeSet<String>,
    pub(super) margins: Margins,
}

impl ScopeLedger {
    /// A scope of which nothing is known: unlimited.
    pub(super) fn new(name: Scope) -> ScopeLedger {
        ScopeLedger {
            name,
            declared: false,
            gate: Gate::default(),
            seats: Seats::default(),
            limiters: Vec::new(),
            discovery: None,
            history: History::default(),
            lesson: None,
            reserved: 0,
            sent: 0,
            recent: Log::new(OVERTAKES, u64::MAX),
            refusals: 0,
            echoes: 0,
            refused_at: None,
            exhausted: false,
            row: 0,
            held_by: String::new(),
            why: String::new(),
            announced: Mode::Normal,
            announced_hold: None,
            armed: Moment::NEVER,
            last_used: Moment::START,
            malformed: BTreeSet::new(),
            margins: Margins::default(),
        }
    }

    /// The operator's rules for it. What is spent, open or learnt stays.
    pub(super) fn set_policy(&mut self, limits: &ScopeLimits, reserve: u32, margins: Margins) {
        self.margins = margins;
        self.seats.set_policy(limits.max_concurrent, reserve);
        let (mut old, told): (Vec<Limiter>, Vec<Limiter>) = std::mem::take(&mut self.limiters)
            .into_iter()
            .partition(|limiter| limiter.origin() == Origin::Declared);
        let declared_before = old.iter().map(Limiter::quota);
        if !declared_before.eq(&limits.requests) {
            // The operator's new word counts more than what refusals taught of the old one.
            self.discovery = None;
            self.lesson = None;
        }
        for quota in &limits.requests {
            let known = old
                .iter()
                .position(|limiter| limiter.quota().window == quota.window);
            let limiter = match known {
                Some(index) => {
                    let mut limiter = old.swap_remove(index);
                    limiter.set(quota.clone(), margins);
                    limiter
                }
                None => self.seeded(quota, margins, old.iter().chain(&told)),
            };
            self.limiters.push(limiter);
        }
        for mut limiter in told {
            let is_declared = |quota: &Quota| quota.window == limiter.quota().window;
            if !limits.requests.iter().any(is_declared) {
                limiter.set(limiter.quota().clone(), margins);
                self.limiters.push(limiter);
            }
        }
    }

    /// A limiter that knows what was sent, from whoever remembers most.
    fn seeded<'a>(
        &'a self,
        quota: &Quota,
        margins: Margins,
        others: impl Iterator<Item = &'a Limiter>,
    ) -> Limiter {
        let mut limiter = Limiter::new(quota.clone(), Origin::Declared, margins);
        let longest = others
            .chain(&self.limiters)
            .max_by_key(|other| other.span());
        match longest {
            Some(other) => limiter.seed(other.sends()),
            None => limiter.seed(self.history.iter()),
        }
        limiter
    }

    /// What stands in the way of a call; of several things the one that lasts longest.
    pub(super) fn block(
        &self,
        now: Moment,
        cost: u64,
        priority: Priority,
        probe_safe: bool,
    ) -> Option<(Reason, Moment)> {
        let first = self.shut(now, priority, probe_safe);
        if first.is_some_and(|(_, until)| until == Moment::NEVER) {
            // Nothing lasts longer, so nothing else need be asked.
            return first;
        }
        let taken = self.sent + self.reserved;
        let quotas = self
            .limiters
            .iter()
            .filter_map(|limiter| limiter.block(now, cost, self.reserved, taken));
        let learnt = self
            .discovery
            .as_ref()
            .map(Discovery::free_at)
            .filter(|at| now < *at)
            .map(|at| (Reason::Pacing, at));
        longest(
            quotas.fold(first, |first, next| longest(first, Some(next))),
            learnt,
        )
    }

    /// The same as far as gate and seats are concerned.
    fn shut(&self, now: Moment, priority: Priority, safe: bool) -> Option<(Reason, Moment)> {
        let gate = self.gate.block(now, safe).map(|block| match block {
            (Reason::Closed, until) if self.exhausted => (Reason::Exhausted, until),
            block => block,
        });
        longest(gate, self.seats.block(priority))
    }

    /// Whether no call of any kind can go before something happens: there is no
    /// seat, or a probe or a person is waited for.
    pub(super) fn is_shut(&self, now: Moment) -> bool {
        let shut = self.shut(now, Priority::Interactive, true);
        shut.is_some_and(|(_, until)| until == Moment::NEVER)
    }

    /// What it waits for, if it is closed.
    pub(super) fn hold(&self, now: Moment) -> Option<Held> {
        (self.gate.mode(now) == Mode::Closed).then(|| Held {
            until: self.gate.held_until(now),
            exhausted: self.exhausted,
        })
    }

    /// Grants a call that nothing blocks.
    pub(super) fn grant(
        &mut self,
        now: Moment,
        permit: PermitId,
        cost: u64,
        priority: Priority,
    ) -> Turn {
        self.last_used = now;
        self.reserved += cost;
        self.seats.take(now, priority);
        for limiter in &mut self.limiters {
            limiter.grant(now, cost, permit);
        }
        if let Some(discovery) = &mut self.discovery {
            discovery.grant(now, cost, permit);
        }
        self.gate.grant(now, permit)
    }

    /// A granted call leaves: from now on its units count as spent. Returns the mark.
    pub(super) fn left(&mut self, now: Moment, permit: PermitId, cost: u64) -> u64 {
        debug_assert!(cost <= self.reserved, "what leaves was reserved");
        let mark = self.sent - self.recent.used(now) + cost;
        self.recent.push(now, cost);
        self.reserved = self.reserved.saturating_sub(cost);
        self.sent += cost;
        self.history.push(now, cost);
        for limiter in &mut self.limiters {
            limiter.left(now, cost, permit);
        }
        if let Some(discovery) = &mut self.discovery {
            discovery.left(now, cost, permit);
        }
        mark
    }

    /// A granted call certainly never left: everything back.
    pub(super) fn take_back(
        &mut self,
        permit: PermitId,
        (cost, priority): (u64, Priority),
        sent_at: Option<Moment>,
        turn: Turn,
    ) {
        match sent_at {
            None => self.reserved = self.reserved.saturating_sub(cost),
            Some(at) => {
                self.sent = self.sent.saturating_sub(cost);
                self.recent.take_back(at, cost);
                self.history.remove(at, cost);
            }
        }
        for limiter in &mut self.limiters {
            limiter.take_back(sent_at, cost, permit);
        }
        if let Some(discovery) = &mut self.discovery {
            discovery.take_back(cost, permit);
        }
        self.gate.take_back(permit, turn);
        self.seats.free(priority);
    }

    /// The slowest rate that binds it for long; `None` if nothing is known.
    pub(super) fn rate(&self) -> Option<Rate> {
        let learnt = self.discovery.as_ref().map(|discovery| {
            let (units, per) = discovery.rate();
            Rate { units, per }
        });
        self.limiters
            .iter()
            .map(Limiter::rate)
            .chain(learnt)
            .reduce(|slowest, next| {
                if next.is_slower_than(slowest) {
                    next
                } else {
                    slowest
                }
            })
    }

    /// Whether nothing of it is in use, so that its place may be given away.
    pub(super) fn is_idle(&self, now: Moment) -> bool {
        // Nobody may ever come to probe a scope that is not used any more.
        let forgotten =
            self.last_used + FORGOTTEN_AFTER <= now && self.gate.mode(now) != Mode::Closed;
        let is_free = !self.declared && self.seats.open() == 0;
        is_free && (self.gate.is_calm(now) || forgotten)
    }

    /// Whether something would be forgotten with it.
    pub(super) fn has_learnt(&self) -> bool {
        !self.limiters.is_empty() || self.discovery.is_some() || self.seats.learnt().is_some()
    }

    /// Whether a declared quota turned out to have another shape.
    pub(super) fn is_misdeclared(&self) -> bool {
        self.limiters.iter().any(Limiter::is_misdeclared)
    }

    /// The margins in force.
    pub(super) fn margins(&self) -> Margins {
        self.margins
    }

    /// Units ever granted.
    pub(super) fn taken(&self) -> u64 {
        self.sent + self.reserved
    }

    /// Sends that were made before a restart.
    pub(super) fn seed(&mut self, sends: &[(Moment, u64)]) {
        for limiter in &mut self.limiters {
            limiter.seed(sends.iter().copied());
        }
    }
}

/// Of two things in the way the one that lasts longer, the first of equals.
fn longest(
    first: Option<(Reason, Moment)>,
    next: Option<(Reason, Moment)>,
) -> Option<(Reason, Moment)> {
    match (first, next) {
        (Some(first), Some(next)) if first.1 < next.1 => Some(next),
        (first, next) => first.or(next),
    }
}
