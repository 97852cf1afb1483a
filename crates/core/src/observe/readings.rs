//! Fields become readings: what belongs to one limit is put together.
//!
//! Fields of one family, dimension, reach and name describe one limit: what
//! `x-ratelimit-limit-tokens`, `-remaining-tokens` and `-reset-tokens` say is
//! one [`Reading`]. Families stay apart, because a server that sends two of
//! them may mean two limits.
//!
//! What nobody is paced by is kept apart as well: limits that are announced and
//! not enforced, and those of which nothing is granted.

use super::dialect::{FieldRule, Standing, What, fill_name};
use super::limit::Limit;
use super::{AnsweredAt, Reading, ratelimit_fields as ietf};

/// Most readings of one answer; a provider with more limits is read in part.
pub const READINGS_MAX: usize = 32;

/// The limits of one answer while its fields come in.
#[derive(Default)]
pub(crate) struct Limits<'a> {
    limits: Vec<Limit<'a>>,
    structured: Vec<Structured<'a>>,
}

impl<'a> Limits<'a> {
    /// Takes one value. `None` if it does not match its grammar; what is beyond
    /// the bound is not read.
    pub(crate) fn take(
        &mut self,
        rule: &'a FieldRule,
        name: Option<String>,
        value: &str,
        at: AnsweredAt,
    ) -> Option<()> {
        match rule.what {
            What::State | What::Policy => match Structured::of(&mut self.structured, rule) {
                Some(pair) => pair.take(rule.what, value),
                None => Some(()),
            },
            _ => match Limit::of(&mut self.limits, rule, name) {
                Some(limit) => limit.take(rule, value, at),
                None => Some(()),
            },
        }
    }

    /// The readings that calls are paced by, and those beside them; of each the
    /// fullest first.
    pub(crate) fn finish(self) -> (Vec<Reading>, Vec<Reading>) {
        let mut all = put_together(self.limits, self.structured);
        // Stable: among equals the order of the answer stays.
        all.sort_by_key(|(_, reading)| std::cmp::Reverse(known(reading)));
        all.truncate(READINGS_MAX);
        let counts = |(standing, reading): &(Standing, Reading)| {
            *standing == Standing::Enforced && reading.limit != Some(0)
        };
        let (readings, asides): (Vec<_>, Vec<_>) = all.into_iter().partition(counts);
        let bare = |all: Vec<(Standing, Reading)>| all.into_iter().map(|(_, r)| r).collect();
        (bare(readings), bare(asides))
    }
}

fn put_together(
    limits: Vec<Limit<'_>>,
    structured: Vec<Structured<'_>>,
) -> Vec<(Standing, Reading)> {
    let mut readings = Vec::new();
    // The three fields of the older drafts are a state without a name; their
    // policies stand in a field of their own since revision -04.
    let (old_ietf, vendor): (Vec<_>, Vec<_>) = limits
        .into_iter()
        .partition(|limit| limit.source == ietf::SOURCE);
    let mut old_ietf = old_ietf;
    for mut pair in structured {
        let reach = pair.rule.reach;
        let nameless = old_ietf.iter_mut().find(|limit| limit.reach == reach);
        if let (true, Some(limit)) = (pair.states.is_empty(), nameless) {
            limit.policies.append(&mut pair.policies);
        }
        readings.extend(pair.finish());
    }
    readings.extend(old_ietf.into_iter().chain(vendor).flat_map(Limit::finish));
    readings
}

/// How much a reading says.
fn known(reading: &Reading) -> usize {
    [
        reading.limit.is_some(),
        reading.remaining.is_some(),
        reading.reset_after.is_some(),
        reading.window.is_some(),
    ]
    .into_iter()
    .filter(|known| *known)
    .count()
}

/// `RateLimit` and `RateLimit-Policy` of one prefix.
struct Structured<'a> {
    prefix: &'a str,
    rule: &'a FieldRule,
    states: Vec<ietf::State>,
    policies: Vec<ietf::Policy>,
}

impl<'a> Structured<'a> {
    /// The pair that this field belongs to. `None` beyond the bound.
    fn of<'l>(
        all: &'l mut Vec<Structured<'a>>,
        rule: &'a FieldRule,
    ) -> Option<&'l mut Structured<'a>> {
        let label = rule.place.label();
        let prefix = label.strip_suffix("-policy").unwrap_or(label);
        let at = match all.iter().position(|known| known.prefix == prefix) {
            Some(at) => at,
            None if all.len() == READINGS_MAX => return None,
            None => {
                let (states, policies) = (Vec::new(), Vec::new());
                all.push(Structured {
                    prefix,
                    rule,
                    states,
                    policies,
                });
                all.len() - 1
            }
        };
        all.get_mut(at)
    }

    /// Takes one value. `None` if it does not match its grammar.
    fn take(&mut self, what: What, value: &str) -> Option<()> {
        match what {
            What::State => self.states.extend(ietf::states(value)?),
            _ => self.policies.extend(ietf::policies(value)?),
        }
        // A repeated field counts against the same bound.
        self.states.truncate(READINGS_MAX);
        self.policies.truncate(READINGS_MAX);
        Some(())
    }

    fn finish(self) -> Vec<(Standing, Reading)> {
        let rule = self.rule;
        let mut readings = ietf::join(self.states, self.policies, rule.reach);
        for reading in &mut readings {
            // The field may name a unit of its own; silence means the rule's.
            if reading.dimension == ietf::REQUESTS {
                rule.dimension.clone_into(&mut reading.dimension);
            }
            if let Some(template) = &rule.name {
                let own = reading.name.take();
                let part = |part: &str| own.as_deref().filter(|_| part == "name");
                reading.name = fill_name(template, part);
            }
        }
        let standing = |reading| (rule.standing, reading);
        readings.into_iter().map(standing).collect()
    }
}

#[cfg(test)]
mod tests;
