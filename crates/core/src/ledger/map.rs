//! The scopes of one account, at their places. Bounded.
//!
//! A scope that is not declared gets a place with its first call. There are
//! [`LEARNT_MAX`] such places; when all are taken the one that was idle longest
//! gives way, and if none is idle the newcomer shares the place of its kind
//! (`model:other`). So a full map never refuses a call, and a stream of
//! invented names costs nothing but their own sharing.
//!
//! Cost: O(log n) by name, O(1) by place; a newcomer to a full map O(n).

use std::collections::{BTreeMap, BTreeSet};

use super::limiter::Margins;
use super::scope::ScopeLedger;
use crate::id::Scope;
use crate::policy::ScopeLimits;
use crate::time::Moment;

/// Scopes that are tracked although nobody declared them.
pub(super) const LEARNT_MAX: usize = 1_000;

/// A scope's place; stays its own while a permit holds it.
pub(super) type Place = usize;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    places: BTreeMap<Scope, Place>,
    ledgers: Vec<Option<ScopeLedger>>,
    free: Vec<Place>,
    declared: usize,
    timers: BTreeSet<(Moment, Place)>,
    rules: Rules,
    /// What is declared of each scope of a kind that has no limits of its own, under
    /// the kind's name with its colon.
    of_each: BTreeMap<String, ScopeLimits>,
}

/// The name that stands for each scope of a kind: `model:*`.
const EACH: &str = "*";

/// What applies to every scope.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rules {
    /// Seats kept for interactive calls.
    pub(super) reserve: u32,
    /// See [`Margins`].
    pub(super) margins: Margins,
}

impl Scopes {
    /// The place of a scope that has one.
    pub(super) fn place(&self, scope: &Scope) -> Option<Place> {
        self.places.get(scope).copied()
    }

    /// What is known of a scope that has a place.
    pub(super) fn get(&self, scope: &Scope) -> Option<&ScopeLedger> {
        self.at(self.place(scope)?)
    }

    /// What governs a call on this scope: its own place, or that of its kind
    /// while the map is full. `None` for a scope of which nothing is known.
    pub(super) fn governing(&self, scope: &Scope) -> Option<&ScopeLedger> {
        match self.get(scope) {
            None if self.is_full() => self.get(&shared_name(scope)),
            known => known,
        }
    }

    /// What is known at a place.
    pub(super) fn at(&self, place: Place) -> Option<&ScopeLedger> {
        self.ledgers.get(place)?.as_ref()
    }

    /// The same, to change.
    pub(super) fn at_mut(&mut self, place: Place) -> Option<&mut ScopeLedger> {
        self.ledgers.get_mut(place)?.as_mut()
    }

    /// Every place in the order of names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Place, &ScopeLedger)> {
        self.places
            .values()
            .filter_map(|place| Some((*place, self.at(*place)?)))
    }

    /// The place of a scope, made if need be; for one without room, that of its kind.
    pub(super) fn ensure(&mut self, now: Moment, scope: &Scope) -> Place {
        if let Some(place) = self.place(scope) {
            return place;
        }
        if self.is_full() && !self.evict(now) {
            let shared = shared_name(scope);
            return match self.place(&shared) {
                Some(place) => place,
                None => self.insert(shared),
            };
        }
        self.insert(scope.clone())
    }

    fn declare(&mut self, scope: &Scope) -> Place {
        let place = match self.place(scope) {
            Some(place) => place,
            None => self.insert(scope.clone()),
        };
        if let Some(ledger) = self.at_mut(place)
            && !ledger.declared
        {
            ledger.declared = true;
            self.declared += 1;
        }
        place
    }

    /// Other rules: those of every scope, and what is declared of some.
    pub(super) fn set_policy(
        &mut self,
        now: Moment,
        rules: Rules,
        declared: &[(Scope, ScopeLimits)],
    ) {
        self.rules = rules;
        self.ledgers
            .iter_mut()
            .flatten()
            .for_each(|ledger| ledger.declared = false);
        self.declared = 0;
        self.of_each.clear();
        for (scope, limits) in declared {
            if let Some(kind) = kind_of(scope).filter(|kind| is_each(scope, kind)) {
                self.of_each.insert(kind.to_owned(), limits.clone());
                continue;
            }
            let place = self.declare(scope);
            if let Some(ledger) = self.at_mut(place) {
                ledger.set_policy(now, limits, rules.reserve, rules.margins);
            }
        }
        let others = self.ledgers.iter_mut().flatten();
        for ledger in others.filter(|ledger| !ledger.declared) {
            let limits = limits_of(&self.of_each, &ledger.name);
            ledger.set_policy(now, &limits, rules.reserve, rules.margins);
        }
    }

    /// Sets when a place changes by itself; [`Moment::NEVER`] if it does not.
    pub(super) fn arm(&mut self, place: Place, at: Moment) {
        let Some(ledger) = self.ledgers.get_mut(place).and_then(Option::as_mut) else {
            return;
        };
        if ledger.armed == at {
            return;
        }
        self.timers.remove(&(ledger.armed, place));
        ledger.armed = at;
        if at < Moment::NEVER {
            self.timers.insert((at, place));
        }
    }

    /// The earliest moment at which a place changes by itself.
    pub(super) fn next_timer(&self) -> Moment {
        self.timers.first().map_or(Moment::NEVER, |(at, _)| *at)
    }

    /// Takes a place that is due.
    pub(super) fn due(&mut self, now: Moment) -> Option<Place> {
        let (at, place) = *self.timers.first()?;
        if now < at {
            return None;
        }
        self.arm(place, Moment::NEVER);
        Some(place)
    }

    fn is_full(&self) -> bool {
        LEARNT_MAX <= self.places.len().saturating_sub(self.declared)
    }

    fn insert(&mut self, scope: Scope) -> Place {
        let place = self.free.pop().unwrap_or_else(|| {
            self.ledgers.push(None);
            self.ledgers.len() - 1
        });
        let mut ledger = ScopeLedger::new(scope.clone());
        let limits = limits_of(&self.of_each, &scope);
        ledger.set_policy(
            Moment::START,
            &limits,
            self.rules.reserve,
            self.rules.margins,
        );
        self.ledgers[place] = Some(ledger);
        self.places.insert(scope, place);
        place
    }

    /// Gives up the place that was idle longest, those that know least first.
    fn evict(&mut self, now: Moment) -> bool {
        let victim = self
            .iter()
            .filter(|(_, ledger)| ledger.is_idle(now))
            .min_by_key(|(_, ledger)| (ledger.has_learnt(), ledger.last_used))
            .map(|(place, ledger)| (place, ledger.name.clone()));
        let Some((place, name)) = victim else {
            return false;
        };
        self.arm(place, Moment::NEVER);
        self.places.remove(&name);
        self.ledgers[place] = None;
        self.free.push(place);
        true
    }
}

/// What is declared of each scope of a scope's kind.
fn limits_of(of_each: &BTreeMap<String, ScopeLimits>, scope: &Scope) -> ScopeLimits {
    kind_of(scope)
        .and_then(|kind| of_each.get(kind))
        .cloned()
        .unwrap_or_default()
}

/// The kind of a scope, with its colon.
fn kind_of(scope: &Scope) -> Option<&str> {
    let name = scope.as_str();
    name.find(':').and_then(|colon| name.get(..=colon))
}

/// Whether a scope stands for each of its kind: `endpoint:*` does, and
/// `endpoint:GET /files/*` is one endpoint.
fn is_each(scope: &Scope, kind: &str) -> bool {
    scope.as_str().strip_prefix(kind) == Some(EACH)
}

/// `KIND:other` for `KIND:NAME`.
fn shared_name(scope: &Scope) -> Scope {
    let kind = scope.as_str().split(':').next().unwrap_or_default();
    // Kinds are a closed set of the configuration; should one be too long to
    // carry the suffix, the scope keeps its own name.
    Scope::new(&format!("{kind}:other")).unwrap_or_else(|_| scope.clone())
}
