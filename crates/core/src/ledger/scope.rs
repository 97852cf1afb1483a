//! What is known of one scope: its quotas, its gate, its seats, and what they
//! learn from each answer.
//!
//! Conservation, for every quota: `cap = available + reserved + spent`, where
//! spent includes what others used. What goes beyond the cap is a debt.

use std::collections::BTreeSet;

use super::call::{Call, Origin, PermitId, Rate, Reason};
use super::discovery::Discovery;
use super::feedback::Lesson;
use super::gate::{Gate, Turn};
use super::headers::overtakes;
use super::history::History;
use super::limiter::{Limiter, Margins};
use super::seats::Seats;
use super::tally::{Promised, Tally};
use crate::cost::{Amounts, Cost, Counted, Dimension};
use crate::estimate::Pool;
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
    /// Units of the scope that surely arrived before the call, and its own as far
    /// as they count by then.
    pub(super) marks: Amounts,
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
    /// Dimensions of which any call used something; requests first.
    pub(super) tallies: Vec<Tally>,
    /// The calls in flight whose cost is a guess.
    pub(super) pool: Pool,
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
            tallies: vec![Tally::new(Dimension::Requests)],
            pool: Pool::default(),
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
    pub(super) fn set_policy(
        &mut self,
        now: Moment,
        limits: &ScopeLimits,
        reserve: u32,
        margins: Margins,
    ) {
        self.margins = margins;
        self.seats.set_policy(limits.max_concurrent, reserve);
        let (mut old, told): (Vec<Limiter>, Vec<Limiter>) = std::mem::take(&mut self.limiters)
            .into_iter()
            .partition(|limiter| limiter.origin() == Origin::Declared);
        let declared_before = old.iter().map(Limiter::quota);
        if !declared_before.eq(&limits.quotas) {
            // The operator's new word counts more than what refusals taught of the old one.
            self.discovery = None;
            self.lesson = None;
        }
        for quota in &limits.quotas {
            let known = old.iter().position(|limiter| limiter.is_like(quota));
            let limiter = match known {
                Some(index) => {
                    let mut limiter = old.swap_remove(index);
                    limiter.set(now, quota.clone(), margins);
                    limiter
                }
                None => self.seeded(now, quota, margins, old.iter().chain(&told)),
            };
            self.limiters.push(limiter);
        }
        for mut limiter in told {
            if !limits.quotas.iter().any(|quota| limiter.is_like(quota)) {
                limiter.set(now, limiter.quota().clone(), margins);
                self.limiters.push(limiter);
            }
        }
    }

    /// A limiter that knows what was sent, from whoever remembers most.
    fn seeded<'a>(
        &'a self,
        now: Moment,
        quota: &Quota,
        margins: Margins,
        others: impl Iterator<Item = &'a Limiter>,
    ) -> Limiter {
        let mut limiter = Limiter::new(quota.clone(), Origin::Declared, margins);
        let longest = others
            .chain(&self.limiters)
            .filter(|other| other.dimension() == quota.dimension)
            .max_by_key(|other| other.span());
        match longest {
            Some(other) => limiter.seed(now, other.sends()),
            None if quota.dimension == Dimension::Requests => {
                limiter.seed(now, self.history.iter());
            }
            None => {}
        }
        limiter
    }

    /// What stands in the way of a call; of several things the one that lasts longest.
    pub(super) fn block(&self, now: Moment, call: &Call<'_>) -> Option<(Reason, Moment)> {
        let first = self.shut(now, call.priority, call.probe_safe);
        if first.is_some_and(|(_, until)| until == Moment::NEVER) {
            // Nothing lasts longer, so nothing else need be asked.
            return first;
        }
        let quotas = self.limiters.iter().filter_map(|limiter| {
            let dimension = limiter.dimension();
            let units = call.cost.of(dimension);
            let promised = self.promised(dimension);
            // Each call reserves what is likely; together they may use more.
            let margin = match call.estimate {
                Some(estimate) if 0 < units => self.pool.margin_with(estimate, dimension),
                _ => 0,
            };
            let promised = Promised {
                reserved: promised.reserved.saturating_add(margin),
                taken: promised.taken.saturating_add(margin),
                ..promised
            };
            limiter.block(now, units, promised)
        });
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

    /// What of a dimension is under way.
    fn promised(&self, dimension: Dimension) -> Promised {
        self.tally(dimension)
            .map_or_else(Promised::default, Tally::promised)
    }

    /// Units of a dimension that are granted and not counted.
    pub(super) fn reserved(&self, dimension: Dimension) -> u64 {
        self.promised(dimension).reserved
    }

    /// What is known of a dimension; `None` if no call used anything of it.
    pub(super) fn tally(&self, dimension: Dimension) -> Option<&Tally> {
        self.tallies
            .iter()
            .find(|tally| tally.dimension() == dimension)
    }

    fn tally_mut(&mut self, dimension: Dimension) -> &mut Tally {
        let known = self
            .tallies
            .iter()
            .position(|tally| tally.dimension() == dimension);
        let index = known.unwrap_or_else(|| {
            self.tallies.push(Tally::new(dimension));
            self.tallies.len() - 1
        });
        &mut self.tallies[index]
    }

    /// Grants a call that nothing blocks.
    pub(super) fn grant(
        &mut self,
        now: Moment,
        permit: PermitId,
        cost: &Cost,
        priority: Priority,
    ) -> Turn {
        self.last_used = now;
        for (dimension, units) in cost.iter() {
            self.tally_mut(dimension).reserve(units);
        }
        self.seats.take(now, priority);
        for limiter in &mut self.limiters {
            limiter.grant(now, cost.of(limiter.dimension()), permit);
        }
        if let Some(discovery) = &mut self.discovery {
            discovery.grant(now, cost.of(Dimension::Requests), permit);
        }
        self.gate.grant(now, permit)
    }

    /// A granted call leaves. What is counted at its start counts as spent from now
    /// on: `counted`. Returns the marks.
    pub(super) fn left(
        &mut self,
        now: Moment,
        permit: PermitId,
        cost: &Cost,
        counted: &Amounts,
    ) -> Amounts {
        let mut marks = Amounts::default();
        for tally in &self.tallies {
            let dimension = tally.dimension();
            let mark = tally.mark(now, overtakes(self.margins.spread));
            marks.set(dimension, mark + counted.of(dimension));
        }
        for limiter in &mut self.limiters {
            limiter.left(now, cost.of(limiter.dimension()), permit);
        }
        let calls = cost.of(Dimension::Requests);
        self.history.push(now, calls);
        if let Some(discovery) = &mut self.discovery {
            discovery.left(now, calls, permit);
        }
        for (dimension, units) in counted.iter() {
            self.count(now, dimension, units, units, Counted::AtStart);
        }
        marks
    }

    /// The outcome of a granted call is in.
    pub(super) fn settle(&mut self, cost: &Cost) {
        for (dimension, units) in cost.iter() {
            self.tally_mut(dimension).settle(units);
        }
    }

    /// Nobody will say what became of a call that left: no reading need count it.
    pub(super) fn lose(&mut self, cost: &Cost) {
        for limiter in &mut self.limiters {
            let units = cost.of(limiter.dimension());
            limiter.told.lose(units);
        }
    }

    /// Units that were granted count as spent from now on, as this many.
    pub(super) fn count(
        &mut self,
        now: Moment,
        dimension: Dimension,
        granted: u64,
        units: u64,
        counted: Counted,
    ) {
        let tally = self.tally_mut(dimension);
        tally.release(granted);
        tally.count(now, units, counted);
        for limiter in self.of_mut(dimension) {
            limiter.count(now, units);
            if counted == Counted::AtEnd {
                limiter.repace(granted, units);
            }
        }
    }

    /// Fewer units were used than count as spent since `sent_at`. What a reading
    /// permits stays as it is: nobody knows whether it has them back already.
    pub(super) fn refund(&mut self, sent_at: Moment, dimension: Dimension, units: u64) {
        for limiter in self.of_mut(dimension) {
            limiter.uncount(sent_at, units);
        }
    }

    /// A granted call certainly never left: everything back. `counted` is what of
    /// it counts as spent since `sent_at`, `held` what is only granted.
    pub(super) fn take_back(
        &mut self,
        permit: PermitId,
        (held, counted): (&Amounts, &Amounts),
        sent_at: Option<Moment>,
        (priority, turn): (Priority, Turn),
    ) {
        for (dimension, units) in held.iter() {
            self.tally_mut(dimension).release(units);
        }
        if let Some(at) = sent_at {
            for (dimension, units) in counted.iter() {
                self.tally_mut(dimension).uncount(at, units);
                for limiter in self.of_mut(dimension) {
                    limiter.uncount(at, units);
                }
            }
            self.history.remove(at, counted.of(Dimension::Requests));
        }
        for limiter in &mut self.limiters {
            limiter.take_back(permit);
        }
        if let Some(discovery) = &mut self.discovery {
            let calls = held.of(Dimension::Requests) + counted.of(Dimension::Requests);
            discovery.take_back(calls, permit);
        }
        self.gate.take_back(permit, turn);
        self.seats.free(priority);
    }

    /// The limiters of a dimension.
    pub(super) fn of_mut(&mut self, dimension: Dimension) -> impl Iterator<Item = &mut Limiter> {
        self.limiters
            .iter_mut()
            .filter(move |limiter| limiter.dimension() == dimension)
    }

    /// The limiters of calls.
    pub(super) fn of_calls(&self) -> impl Iterator<Item = &Limiter> {
        self.limiters
            .iter()
            .filter(|limiter| limiter.dimension() == Dimension::Requests)
    }

    /// The slowest rate of calls that binds it for long; `None` if nothing is known.
    pub(super) fn rate(&self) -> Option<Rate> {
        let learnt = self.discovery.as_ref().map(|discovery| {
            let (units, per) = discovery.rate();
            Rate { units, per }
        });
        self.of_calls()
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
        // What counts of a declared limit would be forgotten with its place.
        let counts = self
            .limiters
            .iter()
            .any(|limiter| limiter.origin() == Origin::Declared && 0 < limiter.spent(now));
        is_free && !counts && (self.gate.is_calm(now) || forgotten)
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

    /// Sends that were made before a restart, of one dimension.
    pub(super) fn seed(&mut self, now: Moment, dimension: Dimension, sends: &[(Moment, u64)]) {
        for limiter in self.of_mut(dimension) {
            limiter.seed(now, sends.iter().copied());
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
