//! What is known of each scope now, and whether a call fits.
//!
//! Scopes nest: a call names every scope that it touches, the account's first,
//! and is admitted by all of them or by none. [`Ledger::stage`] asks without
//! touching anything; [`Ledger::secure`] is the single place where counters
//! move. Between the two nothing else happens, so no partial reservation exists.
//!
//! A permit lives through these, and ends exactly once:
//!
//! ```text
//! secure ──▶ sent ──▶ answered | lost ──▶ finished
//!    └──────────┴──▶ withdraw                (certainly not sent)
//! ```
//!
//! A slot is reserved without expiry from `secure` to `sent`, so that commit,
//! dial and TLS don't eat the margin for jitter; its window starts at `sent`.
//!
//! Cost of every call: O(log n) in the scopes of the account, and in the sends
//! of a window only where a limit is in the way.

mod gate;
mod limits;
mod pacer;
mod scope;
mod state;
mod window;

use std::collections::BTreeMap;

pub use limits::Origin;
pub use state::ScopeState;

use crate::cost::Cost;
use crate::id::Scope;
use crate::observe::{Facts, Meaning, Reach};
use crate::policy::AccountPolicy;
use crate::time::{Draw, Moment, Span};
use crate::word::{Mode, Priority};
use gate::Gate;
use scope::{Rules, ScopeLedger};

/// Scopes of one account that are known at once. Beyond it the one that was idle
/// longest is forgotten; a full map never refuses a call.
pub const SCOPES_MAX: usize = 1_000;

/// A call that asks whether it fits.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Every scope it touches; the account's first.
    pub scopes: &'a [Scope],
    /// What it costs.
    pub cost: Cost,
    /// Its rank.
    pub priority: Priority,
    /// Whether it may be the probe of a closed scope.
    pub probe_safe: bool,
}

/// A call that fits every scope, if nothing happens before it is secured.
#[derive(Clone, Debug)]
#[must_use = "nothing is reserved until it is secured"]
pub struct Staged {
    scopes: Vec<Scope>,
    cost: Cost,
}

/// What stands in the way of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The scope.
    pub scope: Scope,
    /// Why.
    pub reason: Reason,
    /// Not before this; [`Moment::NEVER`] if it waits for an event, not a time.
    pub until: Moment,
}

/// Why a scope lets nothing through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The provider refused, and the hold has not ended.
    Closed,
    /// One call is out to see whether the provider accepts again.
    Probing,
    /// The rate climbs back after a refusal.
    Ramping,
    /// The quota is used up until some of it returns.
    Quota,
    /// Calls are spaced evenly, because the limit's shape is not known.
    Pacing,
    /// As many calls are open as may be.
    Concurrency,
    /// The free seats are kept for interactive calls.
    Reserved,
}

impl Reason {
    /// The word shown to people.
    pub const fn word(self) -> &'static str {
        match self {
            Reason::Closed => "closed",
            Reason::Probing => "probing",
            Reason::Ramping => "ramping",
            Reason::Quota => "quota",
            Reason::Pacing => "pacing",
            Reason::Concurrency => "concurrency",
            Reason::Reserved => "reserved",
        }
    }
}

/// A permit of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermitId(u64);

/// So many units in so much time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Units.
    pub units: u64,
    /// In this time.
    pub per: Span,
}

/// Something that everybody may want to hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A scope's mode changed, or its hold was moved.
    Mode {
        /// The scope.
        scope: Scope,
        /// Its mode before.
        from: Mode,
        /// Its mode now.
        to: Mode,
        /// Why, in words.
        why: String,
        /// Nothing before this, if that is known.
        next_allowed_at: Option<Moment>,
    },
    /// A limit was learnt or changed.
    Learned {
        /// The scope.
        scope: Scope,
        /// What, in words.
        what: String,
    },
    /// The provider refused.
    Refused {
        /// The scope.
        scope: Scope,
        /// The status.
        status: u16,
        /// Closed until then.
        until: Moment,
        /// Whether it belongs to an event that is known already.
        echo: bool,
    },
    /// No wait that anybody may make will help: a person should know.
    Hopeless {
        /// The scope.
        scope: Scope,
        /// Why, in words.
        why: String,
    },
    /// A header did not match its grammar and was ignored; said once per scope and name.
    Malformed {
        /// The scope.
        scope: Scope,
        /// The field's name.
        field: String,
    },
}

#[derive(Clone, Debug)]
struct Permit {
    scopes: Vec<Scope>,
    cost: Cost,
    /// Each scope's epoch when it was secured.
    epochs: Vec<u64>,
    /// Scopes whose probe it is.
    probes: Vec<Scope>,
    sent: Option<u64>,
    answered: bool,
}

/// All scopes of one account.
#[derive(Clone, Debug)]
pub struct Ledger {
    account: Scope,
    policy: AccountPolicy,
    scopes: BTreeMap<Scope, ScopeLedger>,
    permits: BTreeMap<PermitId, Permit>,
    next_permit: u64,
    /// Numbers the sends, to know which came after a request.
    sends: u64,
}

impl Ledger {
    /// A ledger with what the policy declares.
    pub fn new(account: Scope, policy: &AccountPolicy) -> Ledger {
        let mut ledger = Ledger {
            account: account.clone(),
            policy: policy.clone(),
            scopes: BTreeMap::new(),
            permits: BTreeMap::new(),
            next_permit: 1,
            sends: 0,
        };
        let declared: Vec<Scope> = policy
            .scopes
            .iter()
            .map(|(scope, _)| scope.clone())
            .collect();
        for scope in declared.into_iter().chain([account]) {
            ledger.touch(Moment::START, &scope);
        }
        ledger
    }

    /// Other limits hold from now on. Permits, debts and holds stay.
    pub fn set_policy(&mut self, now: Moment, policy: &AccountPolicy) {
        self.policy = policy.clone();
        let declared: Vec<Scope> = policy
            .scopes
            .iter()
            .map(|(scope, _)| scope.clone())
            .collect();
        for scope in declared {
            self.touch(now, &scope);
        }
        for (scope, ledger) in &mut self.scopes {
            ledger.set_rules(&rules(&self.policy, &self.account, scope));
        }
    }

    /// Whether a call fits every scope that it touches. No side effect.
    ///
    /// # Errors
    /// [`Blocked`]: of several blocks the one that lasts longest.
    pub fn stage(&self, now: Moment, call: &Call<'_>) -> Result<Staged, Blocked> {
        let blocked = call
            .scopes
            .iter()
            .filter_map(|scope| self.scopes.get(scope))
            .filter_map(|s| {
                s.stage(now, call.cost, call.priority, call.probe_safe)
                    .err()
            })
            .max_by_key(|blocked| blocked.until);
        match blocked {
            Some(blocked) => Err(blocked),
            None => Ok(Staged {
                scopes: call.scopes.to_vec(),
                cost: call.cost,
            }),
        }
    }

    /// Takes what was staged. The single place where counters move.
    pub fn secure(&mut self, now: Moment, staged: Staged) -> PermitId {
        let id = PermitId(self.next_permit);
        self.next_permit += 1;
        let mut epochs = Vec::with_capacity(staged.scopes.len());
        let mut probes = Vec::new();
        for name in &staged.scopes {
            self.touch(now, name);
            if let Some(scope) = self.scopes.get_mut(name) {
                if scope.secure(now, staged.cost) {
                    probes.push(name.clone());
                }
                epochs.push(scope.epoch);
            }
        }
        let permit = Permit {
            scopes: staged.scopes,
            cost: staged.cost,
            epochs,
            probes,
            sent: None,
            answered: false,
        };
        self.permits.insert(id, permit);
        id
    }

    /// The first byte may leave now: the slot's window starts.
    pub fn sent(&mut self, now: Moment, id: PermitId) {
        let Some(permit) = self.permits.get_mut(&id) else {
            return;
        };
        if permit.sent.is_some() {
            return;
        }
        self.sends += 1;
        permit.sent = Some(self.sends);
        for name in &permit.scopes {
            if let Some(scope) = self.scopes.get_mut(name) {
                scope.limits.send(now, u64::from(permit.cost.requests));
            }
        }
    }

    /// Certainly not sent: everything is given back, as if it had never been taken.
    pub fn withdraw(&mut self, now: Moment, id: PermitId) {
        let Some(permit) = self.permits.remove(&id) else {
            debug_assert!(false, "a permit ended twice");
            return;
        };
        for name in &permit.scopes {
            if let Some(scope) = self.scopes.get_mut(name) {
                let units = u64::from(permit.cost.requests);
                scope.limits.give_back(units, permit.sent.is_some());
                scope.in_flight = scope.in_flight.saturating_sub(1);
            }
        }
        for name in &permit.probes {
            if let Some(scope) = self.scopes.get_mut(name) {
                scope.probe_withdrawn(now);
            }
        }
    }

    /// The head of an answer arrived: what it says of the limits holds from now
    /// on, before anything is scheduled again. The slot stays spent.
    pub fn answered(
        &mut self,
        now: Moment,
        draw: Draw,
        id: PermitId,
        facts: &Facts,
    ) -> Vec<Change> {
        let mut out = Vec::new();
        self.sent(now, id);
        let Some(permit) = self.permits.get_mut(&id) else {
            return out;
        };
        permit.answered = true;
        let permit = permit.clone();
        self.read(now, &permit, facts, &mut out);
        let concerned = self.concerned(&permit, facts.reach);
        let epoch = permit
            .scopes
            .iter()
            .position(|name| *name == concerned)
            .and_then(|n| permit.epochs.get(n).copied())
            .unwrap_or(0);
        let refused = matches!(
            facts.meaning,
            Meaning::RateLimited
                | Meaning::TooManyConcurrent
                | Meaning::QuotaExhausted
                | Meaning::Billing
                | Meaning::Overloaded
        );
        if let Some(scope) = self.scopes.get_mut(&concerned) {
            scope.report_malformed(facts, &mut out);
            match facts.meaning {
                Meaning::RateLimited => scope.refuse(now, draw, facts, epoch, &mut out),
                Meaning::QuotaExhausted | Meaning::Billing => {
                    scope.exhaust(now, draw, facts, &mut out);
                }
                Meaning::TooManyConcurrent => {
                    scope.learned_concurrent = Some(scope.in_flight.saturating_sub(1).max(1));
                    let what = format!("{} calls open at once", scope.in_flight.max(2) - 1);
                    out.push(Change::Learned {
                        scope: concerned.clone(),
                        what,
                    });
                }
                Meaning::Overloaded => scope.overloaded(now, draw, facts, &mut out),
                _ => {}
            }
        }
        for name in &permit.scopes {
            let Some(scope) = self.scopes.get_mut(name) else {
                continue;
            };
            let is_probe = permit.probes.contains(name) && scope.gate == Gate::Probing;
            match (refused, is_probe) {
                (false, true) => scope.probe_passed(now, draw.again(), &mut out),
                // Refused elsewhere, or overloaded without a hint: it proves nothing here.
                (true, true) => scope.probe_lost(now, draw.again(), &mut out),
                (_, false) => {}
            }
            if !refused {
                scope.limits.accept(now, u64::from(permit.cost.requests));
            }
        }
        out
    }

    /// Nobody knows what came of it: it counts as spent.
    pub fn lost(&mut self, now: Moment, draw: Draw, id: PermitId) -> Vec<Change> {
        let mut out = Vec::new();
        self.sent(now, id);
        let Some(permit) = self.permits.get_mut(&id) else {
            return out;
        };
        permit.answered = true;
        for name in permit.probes.clone() {
            if let Some(scope) = self.scopes.get_mut(&name)
                && scope.gate == Gate::Probing
            {
                scope.probe_lost(now, draw, &mut out);
            }
        }
        out
    }

    /// The upstream stream closed: the seats are free, the permit has ended.
    pub fn finished(&mut self, now: Moment, id: PermitId) -> Vec<Change> {
        let mut out = Vec::new();
        let unanswered = self.permits.get(&id).is_some_and(|permit| !permit.answered);
        if unanswered {
            out = self.lost(now, Draw::ZERO, id);
        }
        let Some(permit) = self.permits.remove(&id) else {
            debug_assert!(false, "a permit ended twice");
            return out;
        };
        for name in &permit.scopes {
            if let Some(scope) = self.scopes.get_mut(name) {
                scope.in_flight = scope.in_flight.saturating_sub(1);
            }
        }
        out
    }

    /// Time has passed: says which holds have ended.
    pub fn handle_timeout(&mut self, now: Moment, draw: Draw) -> Vec<Change> {
        let _ = draw;
        Vec::from_iter(self.scopes.values().filter_map(|scope| match scope.gate {
            Gate::Closed { until } if until <= now => Some(Change::Mode {
                scope: scope.scope.clone(),
                from: Mode::Closed,
                to: Mode::Probing,
                why: "the hold has ended; one call will see".to_owned(),
                next_allowed_at: Some(now),
            }),
            _ => None,
        }))
    }

    /// When a gate changes by itself; [`Moment::NEVER`] if none does. What a
    /// waiting call waits for is said when it is staged.
    pub fn next_change(&self, now: Moment) -> Moment {
        self.scopes
            .values()
            .filter_map(|scope| match scope.gate {
                Gate::Closed { until } if now < until => Some(until),
                _ => None,
            })
            .min()
            .unwrap_or(Moment::NEVER)
    }

    /// An operator reopens a scope: one call may see at once.
    pub fn resume(&mut self, now: Moment, name: &Scope) -> Vec<Change> {
        let mut out = Vec::new();
        if let Some(scope) = self.scopes.get_mut(name) {
            scope.hold_level = 0;
            scope.limits.ceiling = None;
            if !matches!(scope.gate, Gate::Open | Gate::Ramping { .. }) {
                let why = "an operator reopened it".to_owned();
                scope.turn(now, Gate::Closed { until: now }, why, &mut out);
            }
        }
        out
    }

    /// What a scope may send in a stretch of time; `None` if no bound is known.
    pub fn rate(&self, name: &Scope) -> Option<Rate> {
        self.scopes
            .get(name)?
            .limits
            .rate()
            .map(|(units, per)| Rate { units, per })
    }

    /// When the next call of a scope may go, as far as that is known.
    pub fn next_allowed_at(&self, now: Moment, name: &Scope) -> Option<Moment> {
        self.scopes.get(name)?.next_allowed_at(now)
    }

    /// Until when the provider itself holds a scope; `None` if it does not.
    pub fn held_until(&self, now: Moment, name: &Scope) -> Option<Moment> {
        match self.scopes.get(name)?.gate {
            Gate::Closed { until } if now < until => Some(until),
            _ => None,
        }
    }

    /// The scope whose limit an answer speaks of; where it is silent, the account.
    fn concerned(&self, permit: &Permit, reach: Reach) -> Scope {
        let kind = match reach {
            Reach::Account => return self.account.clone(),
            Reach::Model => "model:",
            Reach::Endpoint => "endpoint:",
            Reach::Credential => "credential:",
        };
        let found = permit
            .scopes
            .iter()
            .find(|scope| scope.as_str().starts_with(kind));
        found.unwrap_or(&self.account).clone()
    }

    fn read(&mut self, now: Moment, permit: &Permit, facts: &Facts, out: &mut Vec<Change>) {
        let own = permit.sent.unwrap_or(0);
        for reading in facts.readings.iter().filter(|r| r.dimension == "requests") {
            let name = self.concerned(permit, reading.reach);
            // Sent after the request that this answers, or about to be.
            let since: u64 = self
                .permits
                .values()
                .filter(|other| other.scopes.contains(&name))
                .filter(|other| other.sent.is_none_or(|sent| own < sent))
                .map(|other| u64::from(other.cost.requests))
                .sum();
            let Some(scope) = self.scopes.get_mut(&name) else {
                continue;
            };
            scope.remaining = reading.remaining.or(scope.remaining);
            scope.reset_at = reading
                .reset_after
                .map(|reset| now + reset)
                .or(scope.reset_at);
            if scope.limits.origin != Origin::Declared {
                scope.source = reading.source.to_owned();
            }
            if scope.limits.read(now, reading, since) {
                let what = format!("{} requests", reading.limit.unwrap_or(0));
                out.push(Change::Learned {
                    scope: name.clone(),
                    what,
                });
            }
        }
    }

    /// Knows a scope from now on.
    fn touch(&mut self, now: Moment, name: &Scope) {
        if self.scopes.contains_key(name) {
            return;
        }
        if SCOPES_MAX <= self.scopes.len() {
            let idle = self
                .scopes
                .values()
                .filter(|scope| {
                    scope.in_flight == 0
                        && scope.gate == Gate::Open
                        && scope.scope != self.account
                        && scope.limits.origin != Origin::Declared
                })
                .min_by_key(|scope| scope.used_at)
                .map(|scope| scope.scope.clone());
            match idle {
                Some(idle) => self.scopes.remove(&idle),
                // All are in use: the newcomer goes unknown, bounded by its account.
                None => return,
            };
        }
        let mut scope = ScopeLedger::new(name.clone(), &rules(&self.policy, &self.account, name));
        scope.used_at = now;
        self.scopes.insert(name.clone(), scope);
    }
}

fn rules<'p>(policy: &'p AccountPolicy, account: &Scope, scope: &Scope) -> Rules<'p> {
    let declared = policy
        .scopes
        .iter()
        .find(|(name, _)| name == scope)
        .map(|(_, limits)| limits);
    Rules {
        declared,
        headroom_permille: policy.headroom_permille,
        reserve_interactive: if scope == account {
            policy.reserve_interactive
        } else {
            0
        },
        minimum: policy.backoff.minimum,
    }
}
