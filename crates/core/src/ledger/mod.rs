//! What is known of every scope of one account now, and whether a call fits.
//!
//! A call draws on several scopes at once: the account's, perhaps a model's, an
//! endpoint's. It goes only if all of them agree, and takes from all or none:
//!
//! ```text
//! stage     does it fit? changes nothing
//! secure    takes quota, seat and turn; the only place where they are taken
//! sent      the first byte may leave: its units count as spent from now on, but for
//!           those that only the answer tells
//! withdraw  it certainly never left: everything back, as if never taken
//! answered  the head of an answer: readings correct, a refusal closes
//! lost      nobody knows; its units stay spent
//! used      what it really used: estimates are given back, or become a debt
//! finished  the upstream stream is over: the seat is free
//! ```
//!
//! A permit is withdrawn or finished, once. Between `secure` and `sent` its
//! units are reserved without expiry, so that commit, dial and TLS don't eat
//! the margin for the way to the provider.
//!
//! The rooms: `window`, `bucket` and `pacer` say when a quota has room, `shape`
//! which of them a quota needs, `limiter` keeps one quota, `headers` and `resets`
//! what the provider tells about it, and `trend` what a row of that tells of its shape
//! and of others; `tally` counts a dimension;
//! `gate` and `ramp` what a refusal does, `history` and `discovery` what
//! rate it teaches; `seats` how many calls may be open; `scope` joins them
//! for one scope, `feedback` says what it makes of an answer; `map` keeps the
//! scopes, `answer` feeds answers in, `state` shows and saves.
//!
//! Cost: O(log n) per scope and call, in what is logged and what is open.

mod answer;
mod bucket;
mod call;
mod discovery;
mod feedback;
mod gate;
mod headers;
mod history;
mod limiter;
mod map;
mod pacer;
mod ramp;
mod resets;
mod scope;
mod seats;
mod shape;
mod state;
mod tally;
#[cfg(test)]
mod tests;
mod trend;
mod window;

use std::collections::BTreeMap;

pub use call::{Blocked, Call, Change, Origin, PermitId, Rate, Reason};
pub use state::{QuotaState, ScopeState};

use crate::cost::{Amounts, Cost, Counted, Dimension};
use crate::estimate::Estimate;
use crate::id::Scope;
use crate::policy::AccountPolicy;
use crate::time::{Moment, Span};
use crate::word::Priority;
use limiter::Margins;
use map::{Rules, Scopes};
use scope::Seat;

/// The ledger of one account. See the module.
#[derive(Debug)]
pub struct Ledger {
    account: Scope,
    policy: AccountPolicy,
    spread: Option<Span>,
    scopes: Scopes,
    permits: BTreeMap<PermitId, Permit>,
    last_permit: u64,
    /// Counts what [`Ledger::secure`] and its like changed; a staged call is
    /// good only for the version that it saw.
    version: u64,
}

/// A call that fits, as long as nothing else changes.
#[derive(Debug)]
pub struct Staged {
    scopes: Vec<Scope>,
    cost: Cost,
    estimate: Option<Box<Estimate>>,
    priority: Priority,
    version: u64,
}

/// What an open call holds.
#[derive(Debug)]
struct Permit {
    cost: Cost,
    /// What of it is granted and not counted yet, and what counts as spent.
    held: Amounts,
    counted: Amounts,
    /// How far it may be off, until it is settled.
    estimate: Option<Box<Estimate>>,
    priority: Priority,
    sent_at: Option<Moment>,
    /// Whether its outcome is known, or known to be unknown.
    settled: bool,
    seats: Vec<Seat>,
}

impl Ledger {
    /// The ledger of an account of which only the policy is known. `account` is
    /// the account's own scope, which every call touches.
    pub fn new(account: Scope, policy: &AccountPolicy) -> Ledger {
        let mut ledger = Ledger {
            account,
            policy: policy.clone(),
            spread: None,
            scopes: Scopes::default(),
            permits: BTreeMap::new(),
            last_permit: 0,
            version: 0,
        };
        ledger.reset_rules(Moment::START);
        ledger
    }

    /// Other rules. Open permits stay open, what is spent stays spent (beyond a
    /// lower limit as a debt), holds stand, and what was learnt stays, but for
    /// what refusals taught about a declared quota that is another one now.
    pub fn set_policy(&mut self, now: Moment, policy: &AccountPolicy) {
        self.policy = policy.clone();
        self.reset_rules(now);
    }

    /// The spread of the one-way delay to the provider as measured (p99.9). It
    /// narrows the margin of 2 % of each window that holds without it, down to
    /// 50 ms. O(scopes).
    pub fn set_spread(&mut self, now: Moment, spread: Span) {
        self.spread = Some(spread);
        self.reset_rules(now);
    }

    fn reset_rules(&mut self, now: Moment) {
        self.version += 1;
        let rules = Rules {
            reserve: self.policy.reserve_interactive,
            margins: Margins {
                headroom_permille: self.policy.headroom_permille,
                spread: self.spread,
            },
        };
        self.scopes.set_policy(now, rules, &self.policy.scopes);
        let account = self.account.clone();
        self.scopes.ensure(now, &account);
    }

    /// Whether a call fits now. Changes nothing; all scopes or none.
    ///
    /// # Errors
    /// What stands in the way; see [`Ledger::block`].
    pub fn stage(&self, now: Moment, call: &Call<'_>) -> Result<Staged, Blocked> {
        match self.block(now, call) {
            Some(blocked) => Err(blocked),
            None => Ok(Staged {
                scopes: call.scopes.to_vec(),
                cost: call.cost,
                estimate: call.estimate.copied().map(Box::new),
                priority: call.priority,
                version: self.version,
            }),
        }
    }

    /// What stands in the way of a call; of several things the one that lasts
    /// longest, and of equals the one named first.
    pub fn block(&self, now: Moment, call: &Call<'_>) -> Option<Blocked> {
        debug_assert!(
            !call.scopes.is_empty(),
            "a call touches its account's scope"
        );
        let mut longest: Option<(&Scope, Reason, Moment)> = None;
        for scope in call.scopes {
            // A scope that has no place yet is unlimited until its first answer.
            let Some(ledger) = self.scopes.governing(scope) else {
                continue;
            };
            if let Some((reason, until)) = ledger.block(now, call)
                && longest.is_none_or(|(.., longest)| longest < until)
            {
                longest = Some((scope, reason, until));
                if until == Moment::NEVER {
                    break;
                }
            }
        }
        longest.map(|(scope, reason, until)| Blocked {
            scope: scope.clone(),
            reason,
            until,
        })
    }

    /// Whether no call on a scope can go before something happens: there is no
    /// seat, or a probe or a person is waited for. O(log n) in the scopes.
    pub fn is_shut(&self, now: Moment, scope: &Scope) -> bool {
        let ledger = self.scopes.governing(scope);
        ledger.is_some_and(|ledger| ledger.is_shut(now))
    }

    /// Takes what a staged call needs: quota as reserved, a seat and a turn in
    /// every scope. The permit must be withdrawn or finished.
    pub fn secure(&mut self, now: Moment, staged: Staged) -> PermitId {
        debug_assert_eq!(
            staged.version, self.version,
            "something changed since the call was staged"
        );
        self.version += 1;
        self.last_permit += 1;
        let id = PermitId(self.last_permit);
        let mut seats: Vec<Seat> = Vec::with_capacity(staged.scopes.len());
        for scope in &staged.scopes {
            let place = self.scopes.ensure(now, scope);
            let is_twice = seats.iter().any(|seat| seat.place == place);
            if let Some(ledger) = self.scopes.at_mut(place).filter(|_| !is_twice) {
                if let Some(estimate) = &staged.estimate {
                    ledger.pool.add(estimate);
                }
                let turn = ledger.grant(now, id, &staged.cost, staged.priority);
                seats.push(Seat {
                    place,
                    turn,
                    marks: Amounts::default(),
                });
                self.rearm(now, place);
            }
        }
        self.permits.insert(
            id,
            Permit {
                cost: staged.cost,
                held: staged.cost.amounts(),
                counted: Amounts::default(),
                estimate: staged.estimate,
                priority: staged.priority,
                sent_at: None,
                settled: false,
                seats,
            },
        );
        id
    }

    /// The first byte of a permit's call may leave from now on: its units
    /// count as spent, and their windows start, but for those that the provider
    /// counts only once the answer tells them.
    pub fn sent(&mut self, now: Moment, id: PermitId) {
        self.version += 1;
        let Some(permit) = self.permits.get_mut(&id) else {
            debug_assert!(false, "{id:?} is not open");
            return;
        };
        if permit.sent_at.is_some() {
            return;
        }
        permit.sent_at = Some(now);
        for (dimension, units) in permit.cost.iter() {
            if self.policy.charge.counted(dimension) == Counted::AtStart {
                permit.held.set(dimension, 0);
                permit.counted.set(dimension, units);
            }
        }
        for seat in &mut permit.seats {
            if let Some(ledger) = self.scopes.at_mut(seat.place) {
                seat.marks = ledger.left(now, id, &permit.cost, &permit.counted);
            }
        }
    }

    /// What a permit's call really used of what was estimated. What was too much
    /// is given back, what was too little is a debt. A later word replaces an
    /// earlier one. Nothing happens to a call that has not left.
    pub fn used(&mut self, now: Moment, id: PermitId, used: &Cost) {
        self.forget_estimate(id);
        let estimated = Dimension::AMOUNTS.into_iter();
        for dimension in estimated.filter(|dimension| dimension.is_estimated()) {
            self.correct(now, id, dimension, used.of(dimension));
        }
    }

    /// Nothing of a permit's cost is a guess any more.
    fn forget_estimate(&mut self, id: PermitId) {
        let Some(permit) = self.permits.get_mut(&id) else {
            return;
        };
        if let Some(estimate) = permit.estimate.take() {
            for seat in &permit.seats {
                if let Some(ledger) = self.scopes.at_mut(seat.place) {
                    ledger.pool.remove(&estimate);
                }
            }
        }
    }

    /// The units of one dimension that a call is now known to have used.
    fn correct(&mut self, now: Moment, id: PermitId, dimension: Dimension, units: u64) {
        let Some(permit) = self.permits.get_mut(&id) else {
            debug_assert!(false, "{id:?} is not open");
            return;
        };
        let Some(sent_at) = permit.sent_at else {
            return;
        };
        let (held, counted) = (permit.held.of(dimension), permit.counted.of(dimension));
        if held == 0 && counted == units {
            return;
        }
        self.version += 1;
        permit.held.set(dimension, 0);
        permit.counted.set(dimension, units);
        for seat in &permit.seats {
            let Some(ledger) = self.scopes.at_mut(seat.place) else {
                continue;
            };
            if 0 < held || counted < units {
                let more = units.saturating_sub(counted);
                ledger.count(now, dimension, held, more, Counted::AtEnd);
            }
            if units < counted {
                ledger.refund(sent_at, dimension, counted - units);
            }
        }
    }

    /// A permit's call certainly never left. Ends the permit; everything is as
    /// if it had never been taken.
    pub fn withdraw(&mut self, now: Moment, id: PermitId) {
        self.version += 1;
        self.forget_estimate(id);
        let Some(permit) = self.permits.remove(&id) else {
            debug_assert!(false, "{id:?} is not open");
            return;
        };
        for seat in &permit.seats {
            if let Some(ledger) = self.scopes.at_mut(seat.place) {
                let taken = (&permit.held, &permit.counted);
                let turn = (permit.priority, seat.turn);
                if !permit.settled {
                    ledger.settle(&permit.cost);
                }
                ledger.take_back(id, taken, permit.sent_at, turn);
                self.rearm(now, seat.place);
            }
        }
    }

    /// Whether a refusal closed a scope of this permit since it was granted. A
    /// call that has not left yet is better withdrawn then: it would only
    /// repeat the refusal.
    pub fn is_overtaken(&self, id: PermitId) -> bool {
        let seats = self
            .permits
            .get(&id)
            .map_or(&[][..], |permit| &permit.seats);
        seats.iter().any(|seat| {
            self.scopes
                .at(seat.place)
                .is_some_and(|ledger| ledger.gate.is_echo(seat.turn))
        })
    }

    /// Permits that are open.
    pub fn open(&self) -> usize {
        self.permits.len()
    }

    /// The earliest moment at which the ledger changes by itself and
    /// [`Ledger::handle_timeout`] is due: a hold ends, a probe falls silent, a
    /// ramp is over. Never before `now`. A call that was blocked has its own
    /// moment in [`Blocked::until`]. O(log n).
    pub fn next_change(&self, now: Moment) -> Moment {
        self.scopes.next_timer().max(now)
    }

    /// Until when a refusal holds a scope: `now` if none does, and
    /// [`Moment::NEVER`] until somebody resumes it. O(log n).
    pub fn held_until(&self, now: Moment, scope: &Scope) -> Moment {
        let ledger = self.scopes.get(scope);
        ledger.map_or(now, |ledger| ledger.gate.held_until(now))
    }

    /// How many calls may be open at once; `None` if nothing bounds them.
    pub fn seats(&self, scope: &Scope) -> Option<u32> {
        self.scopes.get(scope)?.seats.cap()
    }

    /// How long this many starts take once a scope of unknown limits opens, or
    /// from now on if it is climbing back already.
    pub fn climb(&self, now: Moment, scope: &Scope, starts: u64) -> Span {
        let climbed = self
            .scopes
            .get(scope)
            .map(|ledger| ledger.gate.climbed(now));
        ramp::blind_climb(climbed.unwrap_or(Span::ZERO), starts)
    }

    /// How fast a scope can be used for long: Q per (W + J), or what was learnt.
    /// `None` if nothing is known of it, or nothing limits it.
    pub fn rate(&self, scope: &Scope) -> Option<Rate> {
        self.scopes.get(scope)?.rate()
    }

    /// Sets when a place changes by itself; at once if its mode is not made known.
    fn rearm(&mut self, now: Moment, place: usize) {
        let Some(ledger) = self.scopes.at(place) else {
            return;
        };
        let at = if ledger.gate.mode(now) == ledger.announced {
            Some(ledger.gate.next_change()).filter(|at| now < *at)
        } else {
            Some(now)
        };
        self.scopes.arm(place, at.unwrap_or(Moment::NEVER));
    }
}
