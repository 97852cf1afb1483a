//! How the provider counts: the rules of its limits, and what each call finds.
//!
//! Written from the public descriptions of how providers count, and on purpose
//! without a line of the core's window code: the two must be able to disagree.
//!
//! A [`Rule`] reaches everyone, or each account, credential, model or endpoint
//! for itself, and has one or more [`Level`]s ("60 per 10 s and 10 per 1 s").
//! A call is admitted if every level of every rule that concerns it admits it,
//! all or nothing: a refused call takes a unit nowhere, except from the rules
//! that count refusals, whose levels all count it.
//!
//! Worked example: `sliding:2/10s,count-refusals`, calls at 0, 1, 9 and 10.5 s.
//! The first two pass; the third is refused and counted; at 10.5 s the window
//! (0.5, 10.5] holds the calls of 1 s and 9 s, so the fourth is refused too. With
//! refusals free it would have passed.
//!
//! A rule counts calls, or what they cost in another dimension (`amount`). What
//! a call holds of each rule is a [`Hold`]; when it is over, [`Quotas::settle`]
//! charges what it came to, or gives back what it did not use.

mod amount;
mod calendar;
mod counter;
mod level;
mod log;
mod written;

pub use amount::{Charge, Dimension, Load, Price};
pub use calendar::Page;
pub use counter::Counter;
pub use level::{Level, Standing};
pub use written::{QuotaError, parse_number, parse_span};

use std::collections::BTreeMap;

use rategov_core::time::{Moment, Span, WallTime};

use super::fault::Pattern;

/// Most rules that a provider can have.
pub const RULES_MAX: usize = 64;
/// Most counters that are kept; beyond it further scopes share one counter a rule.
pub const COUNTERS_MAX: usize = 10_000;

/// Whose calls share a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All calls of the provider.
    Everyone,
    /// The calls of one account (organisation), whatever its credentials.
    Account,
    /// The calls of one credential.
    Credential,
    /// The calls of one account for one model.
    Model,
    /// The calls of one account to one endpoint.
    Endpoint,
}

/// Whether a refused call uses quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusals {
    /// Refused calls cost nothing.
    Free,
    /// Refused calls count like accepted ones (as OpenAI documents).
    Counted,
}

/// One limit of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name, for headers, errors and the ledger.
    pub name: String,
    /// Whose calls share it.
    pub reach: Reach,
    /// The calls it concerns; `None` for all.
    pub calls: Option<Pattern>,
    /// What must all admit a call; at least one.
    pub levels: Vec<Level>,
    /// Whether refusals count.
    pub refusals: Refusals,
    /// Whether header fields tell of it. Some providers enforce a finer limit
    /// than the one they tell.
    pub is_told: bool,
    /// What it counts, and when.
    pub price: Price,
    /// After a refusal of this rule everything that it concerns is refused for so
    /// long. Where refusals count, a call in that time prolongs it.
    pub penalty: Option<Span>,
}

impl Rule {
    /// A rule over each account with one level, refusals free.
    pub fn account(level: Level) -> Rule {
        Rule {
            name: "requests".to_owned(),
            reach: Reach::Account,
            calls: None,
            levels: vec![level],
            refusals: Refusals::Free,
            is_told: true,
            price: Price::default(),
            penalty: None,
        }
    }
}

/// What the provider knows of a call when it counts it.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The account that the credential belongs to.
    pub account: &'a str,
    /// The label of the credential.
    pub credential: &'a str,
    /// The model named in the body, or nothing.
    pub model: &'a str,
    /// The endpoint's template: `POST /records`.
    pub endpoint: &'a str,
    /// Method and raw path, for rules that concern some calls only.
    pub call: (&'a str, &'a str),
    /// How large it is.
    pub load: Load,
}

/// A call that is not admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The rule that refused first.
    pub rule: String,
    /// When one call alone would be admitted by all that now refuse;
    /// `None` if no time helps: another call must end, or the call is larger than
    /// the limit.
    pub free_at: Option<Moment>,
}

/// A level that a call touched, and where it stands after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The rule's name.
    pub rule: String,
    /// What it counts.
    pub dimension: Dimension,
    /// The level's numbers.
    pub standing: Standing,
}

/// What counting a call gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weighed {
    /// Why it is not admitted, if so.
    pub refusal: Option<Refusal>,
    /// Every windowed level that concerns the call and is told, in the order of the rules.
    pub readings: Vec<Reading>,
    /// What the call holds until it ends.
    pub holds: Vec<Hold>,
}

impl Weighed {
    /// The reading of a dimension with the least left, which is what one-budget
    /// dialects show.
    pub fn tightest(&self, dimension: Dimension) -> Option<&Reading> {
        self.readings
            .iter()
            .filter(|r| r.dimension == dimension)
            .min_by_key(|r| (r.standing.remaining, r.standing.limit))
    }
}

/// What a call holds of one level: units that it was charged at arrival, or a
/// place in a concurrency limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    key: CounterKey,
    level: usize,
    generation: u64,
    at: Moment,
    units: u64,
}

/// What a call came to at one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The rule's name.
    pub rule: String,
    /// Units that it was charged at arrival.
    pub at_arrival: u64,
    /// Units that it was charged in the end.
    pub in_the_end: u64,
}

type CounterKey = (usize, String);

/// The counters of one rule for those who share it.
#[derive(Clone, Debug)]
struct Counters {
    levels: Vec<Counter>,
    boxed_until: Moment,
}

/// All limits of a provider and their counters.
#[derive(Clone, Debug, Default)]
pub struct Quotas {
    rules: Vec<Rule>,
    start: WallTime,
    counters: BTreeMap<CounterKey, Counters>,
    generation: u64,
}

impl Quotas {
    /// The limits in `rules`, all unused, on a clock that showed `start` at its
    /// beginning. At most [`RULES_MAX`] are taken.
    pub fn new(mut rules: Vec<Rule>, start: WallTime) -> Quotas {
        rules.truncate(RULES_MAX);
        Quotas {
            rules,
            start,
            ..Quotas::default()
        }
    }

    /// Replaces all limits; counting starts anew.
    pub fn replace(&mut self, rules: Vec<Rule>) {
        let generation = self.generation + 1;
        *self = Quotas {
            generation,
            ..Quotas::new(rules, self.start)
        };
    }

    /// Changes the limits while they are in use: a level that keeps its kind and
    /// its window keeps what it has counted, so that a limit which is halved at
    /// noon finds the calls of the morning. Other levels start anew.
    pub fn amend(&mut self, mut rules: Vec<Rule>) {
        rules.truncate(RULES_MAX);
        for ((rule, _), counters) in &mut self.counters {
            let levels = rules.get(*rule).map_or(&[][..], |rule| &rule.levels);
            counters.levels.truncate(levels.len());
            for (n, level) in levels.iter().enumerate() {
                match counters.levels.get_mut(n) {
                    Some(counter) => counter.amend(*level),
                    None => counters.levels.push(Counter::new(*level, self.start)),
                }
            }
        }
        self.counters.retain(|(rule, _), _| *rule < rules.len());
        self.rules = rules;
    }

    /// The limits.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Counts one call at `now`; time never goes back between calls.
    ///
    /// Cost: O(rules · log counters).
    pub fn weigh(&mut self, now: Moment, caller: &Caller<'_>) -> Weighed {
        let keys: Vec<CounterKey> = (0..self.rules.len())
            .filter(|n| {
                self.rules[*n]
                    .calls
                    .as_ref()
                    .is_none_or(|p| p.matches(caller.call))
            })
            .filter(|n| caller.load.is_generation || !self.rules[*n].price.dimension.is_tokens())
            .map(|n| self.key(n, caller))
            .collect();
        let refusal = self.refusal(now, &keys, &caller.load);
        let mut weighed = Weighed {
            refusal,
            ..Weighed::default()
        };
        for key in keys {
            self.count(now, key, &caller.load, &mut weighed);
        }
        weighed
    }

    /// Why a call is refused, if so. Opens the penalty boxes of the rules that refuse.
    fn refusal(&mut self, now: Moment, keys: &[CounterKey], load: &Load) -> Option<Refusal> {
        let mut refusal: Option<Refusal> = None;
        let start = self.start;
        for key in keys {
            let rule = &self.rules[key.0];
            let need = rule.price.at_arrival(load).max(1);
            let counters = self
                .counters
                .entry(key.clone())
                .or_insert_with(|| Counters {
                    levels: (rule.levels.iter())
                        .map(|level| Counter::new(*level, start))
                        .collect(),
                    boxed_until: Moment::START,
                });
            let is_boxed = now < counters.boxed_until;
            let full: Vec<&Counter> = (counters.levels.iter())
                .filter(|counter| !counter.admits(now, need))
                .collect();
            if !is_boxed && full.is_empty() {
                continue;
            }
            let free = full.iter().map(|counter| counter.free_at(now, need));
            let mut free_at = free.fold(Some(now), later);
            if let Some(penalty) = rule.penalty
                && (!is_boxed || rule.refusals == Refusals::Counted)
            {
                counters.boxed_until = now + penalty;
            }
            free_at = later(free_at, Some(counters.boxed_until.max(now)));
            refusal = Some(match refusal.take() {
                None => Refusal {
                    rule: rule.name.clone(),
                    free_at,
                },
                Some(first) => Refusal {
                    free_at: later(first.free_at, free_at),
                    ..first
                },
            });
        }
        refusal
    }

    /// Charges one rule, and reads where it stands then.
    fn count(&mut self, now: Moment, key: CounterKey, load: &Load, weighed: &mut Weighed) {
        let rule = &self.rules[key.0];
        let units = rule.price.at_arrival(load);
        let Some(counters) = self.counters.get_mut(&key) else {
            return;
        };
        for (level, counter) in counters.levels.iter_mut().enumerate() {
            match (&weighed.refusal, rule.refusals) {
                (None, _) => {
                    counter.charge(now, units);
                    weighed.holds.push(Hold {
                        key: key.clone(),
                        level,
                        generation: self.generation,
                        at: now,
                        units,
                    });
                }
                (Some(_), Refusals::Counted) => counter.charge_refused(now, units),
                (Some(_), Refusals::Free) => {}
            }
            if let Some(standing) = counter.standing(now).filter(|_| rule.is_told) {
                weighed.readings.push(Reading {
                    rule: rule.name.clone(),
                    dimension: rule.price.dimension,
                    standing,
                });
            }
        }
    }

    /// A call is over, and its answer came to `output` tokens: places are free,
    /// and each rule is charged what the call costs in the end. What was held
    /// before the rules were replaced is gone already. Gives what each rule with
    /// windows took, once a rule.
    pub fn settle(
        &mut self,
        now: Moment,
        holds: &[Hold],
        load: &Load,
        output: u64,
    ) -> Vec<Settled> {
        let mut settled = Vec::new();
        for hold in holds.iter().filter(|h| h.generation == self.generation) {
            let Some(rule) = self.rules.get(hold.key.0) else {
                continue;
            };
            let counters = self.counters.get_mut(&hold.key);
            let Some(counter) = counters.and_then(|c| c.levels.get_mut(hold.level)) else {
                continue;
            };
            if matches!(counter.level(), Level::Concurrent { .. }) {
                counter.release();
                continue;
            }
            let in_the_end = rule.price.in_the_end(load, output);
            match in_the_end.checked_sub(hold.units) {
                Some(0) => {}
                Some(more) => counter.charge(now, more),
                None => counter.give_back(now, hold.at, hold.units - in_the_end),
            }
            if hold.level == 0 {
                settled.push(Settled {
                    rule: rule.name.clone(),
                    at_arrival: hold.units,
                    in_the_end,
                });
            }
        }
        settled
    }

    fn key(&self, rule: usize, caller: &Caller<'_>) -> CounterKey {
        let account = caller.account;
        let scope = match self.rules[rule].reach {
            Reach::Everyone => String::new(),
            Reach::Account => account.to_owned(),
            Reach::Credential => caller.credential.to_owned(),
            Reach::Model => format!("{account} {}", caller.model),
            Reach::Endpoint => format!("{account} {}", caller.endpoint),
        };
        let key = (rule, scope);
        if self.counters.len() >= COUNTERS_MAX && !self.counters.contains_key(&key) {
            return (rule, "(shared)".to_owned());
        }
        key
    }
}

/// The later of two moments, where "unknown" wins over any.
fn later(a: Option<Moment>, b: Option<Moment>) -> Option<Moment> {
    Some(a?.max(b?))
}

/// How long a refused caller must wait, seen from `now`.
pub fn wait_of(refusal: &Refusal, now: Moment) -> Option<Span> {
    refusal.free_at.map(|at| at.since(now))
}

#[cfg(test)]
mod tests;
