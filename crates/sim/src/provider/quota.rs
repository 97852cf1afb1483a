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

mod level;
mod written;

pub use level::{Counter, Level, Standing};
pub use written::{QuotaError, parse_span};

use std::collections::BTreeMap;

use rategov_core::time::{Moment, Span};

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
}

/// A call that is not admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The rule that refused first.
    pub rule: String,
    /// When one call alone would be admitted by all that now refuse;
    /// `None` if only the end of another call can help.
    pub free_at: Option<Moment>,
}

/// A level that a call touched, and where it stands after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The rule's name.
    pub rule: String,
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
    /// The counters whose open-call count the call holds until it ends.
    pub seats: Vec<Seat>,
}

impl Weighed {
    /// The reading with the least left, which is what one-budget dialects show.
    pub fn tightest(&self) -> Option<&Reading> {
        self.readings
            .iter()
            .min_by_key(|r| (r.standing.remaining, r.standing.limit))
    }
}

/// A place in a concurrency limit, to be given back when the call ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    key: CounterKey,
    level: usize,
    generation: u64,
}

type CounterKey = (usize, String);

/// All limits of a provider and their counters.
#[derive(Clone, Debug, Default)]
pub struct Quotas {
    rules: Vec<Rule>,
    counters: BTreeMap<CounterKey, Vec<Counter>>,
    generation: u64,
}

impl Quotas {
    /// The limits in `rules`, all unused. At most [`RULES_MAX`] are taken.
    pub fn new(mut rules: Vec<Rule>) -> Quotas {
        rules.truncate(RULES_MAX);
        Quotas {
            rules,
            ..Quotas::default()
        }
    }

    /// Replaces all limits; counting starts anew.
    pub fn replace(&mut self, rules: Vec<Rule>) {
        let generation = self.generation + 1;
        *self = Quotas {
            generation,
            ..Quotas::new(rules)
        };
    }

    /// Changes the limits while they are in use: a level that keeps its kind and
    /// its window keeps what it has counted, so that a limit which is halved at
    /// noon finds the calls of the morning. Other levels start anew.
    pub fn amend(&mut self, mut rules: Vec<Rule>) {
        rules.truncate(RULES_MAX);
        for ((rule, _), counters) in &mut self.counters {
            let levels = rules.get(*rule).map_or(&[][..], |rule| &rule.levels);
            counters.truncate(levels.len());
            for (n, level) in levels.iter().enumerate() {
                match counters.get_mut(n) {
                    Some(counter) => counter.amend(*level),
                    None => counters.push(Counter::new(*level)),
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
            .map(|n| self.key(n, caller))
            .collect();
        let mut refusal: Option<Refusal> = None;
        for key in &keys {
            let rule = &self.rules[key.0];
            let counters = self
                .counters
                .entry(key.clone())
                .or_insert_with(|| fresh(rule));
            for counter in counters.iter().filter(|c| !c.admits(now)) {
                let free_at = counter.free_at(now);
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
        }
        let mut weighed = Weighed {
            refusal,
            readings: Vec::new(),
            seats: Vec::new(),
        };
        for key in keys {
            let rule = &self.rules[key.0];
            let Some(counters) = self.counters.get_mut(&key) else {
                continue;
            };
            for (level, counter) in counters.iter_mut().enumerate() {
                match (&weighed.refusal, rule.refusals) {
                    (None, _) => {
                        counter.charge(now);
                        if matches!(counter.level(), Level::Concurrent { .. }) {
                            let generation = self.generation;
                            weighed.seats.push(Seat {
                                key: key.clone(),
                                level,
                                generation,
                            });
                        }
                    }
                    (Some(_), Refusals::Counted) => counter.charge_refused(now),
                    (Some(_), Refusals::Free) => {}
                }
                if let Some(standing) = counter.standing(now).filter(|_| rule.is_told) {
                    weighed.readings.push(Reading {
                        rule: rule.name.clone(),
                        standing,
                    });
                }
            }
        }
        weighed
    }

    /// Gives back the places that a finished call held. Places taken before
    /// the rules were replaced are gone already.
    pub fn release(&mut self, seats: &[Seat]) {
        for seat in seats.iter().filter(|s| s.generation == self.generation) {
            if let Some(counters) = self.counters.get_mut(&seat.key) {
                counters[seat.level].release();
            }
        }
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

fn fresh(rule: &Rule) -> Vec<Counter> {
    rule.levels
        .iter()
        .map(|level| Counter::new(*level))
        .collect()
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
