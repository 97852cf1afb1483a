//! One limit, put together from the fields that describe it.
//!
//! Where fields repeat, the cautious value counts: the smallest remainder, the
//! latest reset. A negative number is how providers say "not known": it is no
//! value. A limit of `0` is how they say "nothing granted": nothing can be paced
//! by it, so it is kept aside for whoever explains the refusal.
//!
//! A bucket says when it will be *full* ([`What::Full`]), which is not a window;
//! the reading says so, and the ledger concludes the window from several.
//!
//! A window or reset beyond a year is no value either: no provider has such a limit,
//! and whoever believed in it would send nothing that could ever correct it.
//!
//! A bucket of points may say what a call asks for and how fast points come
//! back. Worked (Shopify): 202 asked, 118 there, 50 a second restored: the call
//! fits after (202 − 118) / 50 = 1.68 s.

use super::dialect::{FieldRule, Place, Standing, What};
use super::quantity::{self, Scale};
use super::{AnsweredAt, READINGS_MAX, Reach, Reading, ratelimit_fields as ietf};
use crate::time::Span;

/// In words where a reading of this field comes from; also what keeps families apart.
fn source(place: &Place) -> &'static str {
    match place {
        Place::Body(_) => "the provider's answer body",
        Place::Header(h) | Place::OpenHeader(h) => match h {
            h if h.starts_with("ratelimit") => ietf::SOURCE,
            h if h.starts_with("x-ratelimit") || h.starts_with("x-rate-limit") => {
                "X-RateLimit header"
            }
            _ => "the provider's rate-limit header",
        },
    }
}

/// The smallest of the numbers that a proxy has joined; `None` inside if all of them
/// say "not known". All of them must be numbers, and `1,000`, which can be one number
/// or two, is neither.
fn least_of(value: &str) -> Option<Option<u64>> {
    if quantity::may_be_grouped(value) {
        return None;
    }
    let mut least = None;
    for member in value.split(',').map(str::trim) {
        if !quantity::is_negative(member) {
            let number = quantity::whole_below(member)?;
            least = Some(least.map_or(number, |known: u64| known.min(number)));
        }
    }
    Some(least)
}

/// One limit while its fields come in.
pub(crate) struct Limit<'a> {
    dimension: &'a str,
    name: Option<String>,
    standing: Standing,
    pub(crate) reach: Reach,
    pub(crate) source: &'static str,
    limit: Option<u64>,
    remaining: Option<u64>,
    used: Option<u64>,
    reset: Option<Span>,
    full: Option<Span>,
    window: Option<Span>,
    documented_window: Option<Span>,
    /// Millionths of a unit that come back each second.
    restore: Option<u64>,
    asked: Option<u64>,
    pub(crate) policies: Vec<ietf::Policy>,
    /// The limit said that it is not known.
    meaningless: bool,
}

impl<'a> Limit<'a> {
    /// The limit that this field belongs to. `None` beyond the bound.
    pub(crate) fn of<'l>(
        limits: &'l mut Vec<Limit<'a>>,
        rule: &'a FieldRule,
        name: Option<String>,
    ) -> Option<&'l mut Limit<'a>> {
        let source = source(&rule.place);
        let known = limits.iter().position(|limit| {
            limit.dimension == rule.dimension
                && limit.reach == rule.reach
                && limit.source == source
                && limit.name == name
        });
        let at = match known {
            Some(at) => at,
            None if limits.len() == READINGS_MAX => return None,
            None => {
                limits.push(Limit {
                    dimension: &rule.dimension,
                    name,
                    standing: rule.standing,
                    reach: rule.reach,
                    source,
                    limit: None,
                    remaining: None,
                    used: None,
                    reset: None,
                    full: None,
                    window: None,
                    documented_window: None,
                    restore: None,
                    asked: None,
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
        self.documented_window = self.documented_window.or(rule.window);
        if rule.what == What::Limit && quantity::is_negative(value) {
            self.meaningless = true;
        }
        if quantity::is_negative(value) {
            return Some(());
        }
        match rule.what {
            What::Limit => self.take_limit(value)?,
            What::Remaining => {
                if let Some(least) = least_of(value)? {
                    self.set_remaining(least);
                }
            }
            What::Used => self.used = self.used.max(Some(quantity::whole_above(value)?)),
            What::UsedOfLimit => {
                let (used, limit) = value.split_once('/')?;
                let used = quantity::whole_above(used.trim())?;
                let limit = quantity::whole_below(limit.trim())?;
                self.set_limit(limit);
                self.set_remaining(limit.saturating_sub(used));
            }
            What::Reset => {
                self.reset = self
                    .reset
                    .max(Some(rule.unit.span(value, at).and_then(meant)?))
            }
            What::Full => {
                self.full = self
                    .full
                    .max(Some(rule.unit.span(value, at).and_then(meant)?))
            }
            What::Window => self.window = Some(rule.unit.span(value, at).and_then(meant)?),
            // A decimal number, and a span counts in millionths as well.
            What::Restore => {
                self.restore = Some(quantity::span(value, Scale::Seconds)?.as_micros());
            }
            What::Asked => self.asked = self.asked.max(Some(quantity::whole_above(value)?)),
            // These are not fields of one limit.
            _ => {}
        }
        Some(())
    }

    fn take_limit(&mut self, value: &str) -> Option<()> {
        if let Some(limit) = quantity::whole_below(value) {
            self.set_limit(limit);
        } else if !quantity::may_be_grouped(value) {
            let (limit, policies) = ietf::limit(value)?;
            self.set_limit(limit);
            self.policies.extend(policies);
            // A repeated field counts against the same bound.
            self.policies.truncate(READINGS_MAX);
        } else {
            return None;
        }
        Some(())
    }

    fn set_limit(&mut self, limit: u64) {
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
    pub(crate) fn finish(self) -> Vec<(Standing, Reading)> {
        if self.meaningless {
            return Vec::new();
        }
        let remaining = self
            .remaining
            .or_else(|| Some(self.limit?.saturating_sub(self.used?)));
        let window = self.window.or(self.documented_window);
        let fits_after = self.fits_after(remaining);
        let state = ietf::State {
            name: None,
            limit: self.limit,
            remaining,
            reset: self.reset.max(self.full),
        };
        // A moment when new units come is worth keeping even alone; a moment
        // that has passed is not.
        let says_something = self.limit.is_some()
            || remaining.is_some()
            || state.reset.is_some_and(|reset| !reset.is_zero());
        let states = if says_something {
            vec![state]
        } else {
            Vec::new()
        };
        let own = states.len();
        // Where nothing is granted, the policies behind it grant nothing either.
        let policies = match self.limit {
            Some(0) => Vec::new(),
            _ => self.policies,
        };
        let mut readings = ietf::join(states, policies, self.reach);
        for reading in readings.iter_mut().take(own) {
            reading.window = reading.window.or(window).filter(|window| !window.is_zero());
            reading.refills = self.full.is_some() && self.reset <= self.full;
            reading.fits_after = fits_after;
            reading.name.clone_from(&self.name);
        }
        for reading in &mut readings {
            // A policy may name a unit of its own; silence means this limit's.
            if reading.dimension == ietf::REQUESTS {
                self.dimension.clone_into(&mut reading.dimension);
            }
            reading.source = self.source;
        }
        let standing = |reading| (self.standing, reading);
        readings.into_iter().map(standing).collect()
    }

    /// Until so many units are back that the call fits; `None` if it does already.
    fn fits_after(&self, remaining: Option<u64>) -> Option<Span> {
        let missing = self.asked?.checked_sub(remaining?).filter(|n| 0 < *n)?;
        let rate = self.restore.filter(|rate| 0 < *rate)?;
        let micros = u128::from(missing) * 1_000_000_000_000;
        let micros = micros.div_ceil(u128::from(rate));
        Some(Span::from_micros(micros.min(u128::from(u64::MAX)) as u64))
    }
}

/// A span of a limit, if it can be meant. A month is the longest that is documented.
pub(crate) fn meant(span: Span) -> Option<Span> {
    const LONGEST: Span = Span::from_secs(366 * 24 * 3_600);
    (span <= LONGEST).then_some(span)
}
