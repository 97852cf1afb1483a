//! One limit, put together from the fields that describe it.
//!
//! Where fields repeat, the cautious value counts: the smallest remainder, the
//! latest reset. Where a value means nothing, there is none: a limit of `0` or
//! `-1` is how providers say "none granted" or "not known", and drops the whole
//! reading; a negative remainder is only not known.
//!
//! A bucket says when it will be *full* ([`What::Full`]), which is not a window;
//! the reading says so, and the ledger concludes the window from several.

use super::dialect::{FieldRule, What};
use super::{AnsweredAt, READINGS_MAX, Reach, Reading, quantity, ratelimit_fields as ietf};
use crate::time::Span;

/// In words where a reading of this field comes from; also what keeps families apart.
fn source(header: &str) -> &'static str {
    match header {
        h if h.starts_with("ratelimit") => ietf::SOURCE,
        h if h.starts_with("x-ratelimit") || h.starts_with("x-rate-limit") => "X-RateLimit header",
        _ => "the provider's rate-limit header",
    }
}

/// One limit while its fields come in.
pub(crate) struct Limit<'a> {
    dimension: &'a str,
    pub(crate) reach: Reach,
    pub(crate) source: &'static str,
    limit: Option<u64>,
    remaining: Option<u64>,
    reset: Option<Span>,
    full: Option<Span>,
    window: Option<Span>,
    documented_window: Option<Span>,
    pub(crate) policies: Vec<ietf::Policy>,
    /// The limit said that it is none.
    meaningless: bool,
}

impl<'a> Limit<'a> {
    /// The limit that this field belongs to. `None` beyond the bound.
    pub(crate) fn of<'l>(
        limits: &'l mut Vec<Limit<'a>>,
        rule: &'a FieldRule,
    ) -> Option<&'l mut Limit<'a>> {
        let source = source(&rule.header);
        let known = limits.iter().position(|limit| {
            limit.dimension == rule.dimension && limit.reach == rule.reach && limit.source == source
        });
        let at = match known {
            Some(at) => at,
            None if limits.len() == READINGS_MAX => return None,
            None => {
                limits.push(Limit {
                    dimension: &rule.dimension,
                    reach: rule.reach,
                    source,
                    limit: None,
                    remaining: None,
                    reset: None,
                    full: None,
                    window: None,
                    documented_window: None,
                    policies: Vec::new(),
                    meaningless: false,
                });
                limits.len() - 1
            }
        };
        limits.get_mut(at)
    }

    /// Takes one value. `None` if it does not match its grammar.
    pub(crate) fn take(&mut self, rule: &FieldRule, value: &str, at: AnsweredAt) -> Option<()> {
        match rule.what {
            What::Limit => {
                self.documented_window = rule.window;
                self.take_limit(value)?;
            }
            What::Remaining => {
                for member in value.split(',').map(str::trim) {
                    if !quantity::is_negative(member) {
                        self.set_remaining(quantity::whole_below(member)?);
                    }
                }
            }
            What::UsedOfLimit => {
                let (used, limit) = value.split_once('/')?;
                let (used, limit) = (quantity::whole(used)?, quantity::whole(limit)?);
                self.documented_window = rule.window;
                self.set_limit(limit);
                self.set_remaining(limit.saturating_sub(used));
            }
            What::Reset => self.reset = self.reset.max(Some(rule.unit.span(value, at)?)),
            What::Full => self.full = self.full.max(Some(rule.unit.span(value, at)?)),
            What::Window => self.window = Some(rule.unit.span(value, at)?),
            // These are not fields of one limit.
            What::Retry | What::State | What::Policy => {}
        }
        Some(())
    }

    fn take_limit(&mut self, value: &str) -> Option<()> {
        if quantity::is_negative(value) {
            self.meaningless = true;
        } else if let Some(limit) = quantity::whole_below(value) {
            self.set_limit(limit);
        } else {
            let (limit, policies) = ietf::limit(value)?;
            self.set_limit(limit);
            self.policies.extend(policies);
            // A repeated field counts against the same bound.
            self.policies.truncate(READINGS_MAX);
        }
        Some(())
    }

    fn set_limit(&mut self, limit: u64) {
        self.meaningless |= limit == 0;
        self.limit = Some(self.limit.map_or(limit, |known| known.min(limit)));
    }

    fn set_remaining(&mut self, remaining: u64) {
        self.remaining = Some(
            self.remaining
                .map_or(remaining, |known| known.min(remaining)),
        );
    }

    /// The readings that the fields amount to: the limit's own first, then the
    /// policies that stand beside it.
    pub(crate) fn finish(self) -> Vec<Reading> {
        if self.meaningless {
            return Vec::new();
        }
        let window = self.window.or(self.documented_window);
        let refills = self.reset.max(self.full) == self.full && self.full.is_some();
        let state = ietf::State {
            name: None,
            limit: self.limit,
            remaining: self.remaining,
            reset: self.reset.max(self.full),
        };
        // A moment when new units come is worth keeping even alone; a moment
        // that has passed is not.
        let says_something = self.limit.is_some()
            || self.remaining.is_some()
            || state.reset.is_some_and(|reset| !reset.is_zero());
        let states = if says_something {
            vec![state]
        } else {
            Vec::new()
        };
        let own = states.len();
        let mut readings = ietf::join(states, self.policies, self.reach);
        for reading in readings.iter_mut().take(own) {
            reading.window = reading.window.or(window).filter(|window| !window.is_zero());
            reading.refills = refills;
        }
        for reading in &mut readings {
            // A policy may name a unit of its own; silence means this limit's.
            if reading.dimension == ietf::REQUESTS {
                self.dimension.clone_into(&mut reading.dimension);
            }
            reading.source = self.source;
        }
        readings
    }
}
