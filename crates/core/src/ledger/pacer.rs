//! The universal pacer: starts are evenly spaced, one at a time.
//!
//! GCRA (the generic cell rate algorithm of ITU-T I.371) at `N` units per `P`
//! with a burst of one: after a start of cost `c`, the next waits `c·P/N`.
//! With `N = Q − 1` and `P = W + J` no provider of `Q` per `W` refuses, whether
//! it counts by sliding log, fixed windows of any phase, a bucket, or the
//! weighted sum of two fixed windows. Example: 60 per 10 s, spread 200 ms:
//! 59 per 10.2 s, a start every 172.9 ms, 96.4 % of the quota. Why the weighted
//! sum stays below `Q`: let a fraction `x` of the current window have passed.
//! At most `1 + N(xW + J)/P` arrivals lie in it and `1 + N(W + xW + J)/P` in
//! both, and `(1 − x)·previous + current = (1 − x)·both + x·current`, which is
//! at most `1 + N(W + J)/P = Q`, the new one included.
//!
//! Times are exact fractions: a start's mark is kept in `µs·N`, so nothing is
//! rounded away however small the spacing is.
//!
//! The mark moves when a start is granted, so the delay from grant to first
//! byte adds to the spread; a start that leaves later than `J` after its grant
//! pushes the next one back.

use std::collections::BTreeMap;

use super::call::PermitId;
use crate::time::{Moment, Span};

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Pacer {
    units: u64,
    per: Span,
    /// How late a start may leave without moving the next.
    slack: Span,
    /// The earliest next start by all starts that left, in `µs·units`.
    base: u128,
    /// The same by starts that are granted and have not left. Marks grow with the id.
    granted: BTreeMap<PermitId, u128>,
}

impl Pacer {
    /// A pacer at `units` per `per`. Both must be greater than zero.
    pub(super) fn new(units: u64, per: Span, slack: Span) -> Pacer {
        debug_assert!(0 < units && !per.is_zero(), "a rate is greater than zero");
        Pacer {
            units: units.max(1),
            per: per.max(Span::from_micros(1)),
            slack,
            base: 0,
            granted: BTreeMap::new(),
        }
    }

    /// Changes the rate; what was granted keeps the moments it had.
    pub(super) fn reshape(&mut self, units: u64, per: Span, slack: Span) {
        let (old, new) = (u128::from(self.units), u128::from(units.max(1)));
        // Whole and fraction apart: the product of two marks would not fit.
        let scale = |mark: u128| mark / old * new + (mark % old * new).div_ceil(old);
        self.base = scale(self.base);
        self.granted
            .values_mut()
            .for_each(|mark| *mark = scale(*mark));
        self.units = units.max(1);
        self.per = per.max(Span::from_micros(1));
        self.slack = slack;
    }

    /// Units and time of the rate.
    pub(super) fn rate(&self) -> (u64, Span) {
        (self.units, self.per)
    }

    /// The next start is not before this. O(log n).
    pub(super) fn free_at(&self) -> Moment {
        let at = self.mark().div_ceil(u128::from(self.units));
        Moment::from_micros(u64::try_from(at).unwrap_or(u64::MAX))
    }

    /// A start is granted.
    pub(super) fn grant(&mut self, now: Moment, units: u64, permit: PermitId) {
        let (mark, here) = (self.mark(), self.at(now));
        // A start at `free_at` is late only by the rounding to a whole
        // microsecond, which must not add up.
        let from = if here < mark + u128::from(self.units) {
            mark
        } else {
            here
        };
        self.granted.insert(permit, from + self.distance(units));
    }

    /// A granted start left.
    pub(super) fn left(&mut self, now: Moment, units: u64, permit: PermitId) {
        let Some(mark) = self.granted.remove(&permit) else {
            return;
        };
        // Less than a microsecond is rounding and not lateness.
        let left = self.at(now.back(self.slack));
        let late = left.saturating_sub(u128::from(self.units - 1)) + self.distance(units);
        self.base = self.base.max(mark).max(late);
    }

    /// A granted start never left.
    pub(super) fn take_back(&mut self, permit: PermitId) {
        self.granted.remove(&permit);
    }

    /// Starts that were spaced for `spaced` units used another number: the next ones
    /// come that much earlier or later.
    pub(super) fn correct(&mut self, spaced: u64, used: u64) {
        let (less, more) = (
            self.distance(spaced.saturating_sub(used)),
            self.distance(used.saturating_sub(spaced)),
        );
        let correct = |mark: u128| mark.saturating_sub(less).saturating_add(more);
        self.base = correct(self.base);
        self.granted
            .values_mut()
            .for_each(|mark| *mark = correct(*mark));
    }

    /// A start that was granted elsewhere left at `at`.
    pub(super) fn note(&mut self, at: Moment, units: u64) {
        self.base = self.base.max(self.at(at) + self.distance(units));
    }

    fn mark(&self) -> u128 {
        let granted = self.granted.last_key_value().map_or(0, |(_, mark)| *mark);
        self.base.max(granted)
    }

    fn at(&self, at: Moment) -> u128 {
        u128::from(at.as_micros()) * u128::from(self.units)
    }

    fn distance(&self, units: u64) -> u128 {
        u128::from(units) * u128::from(self.per.as_micros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Moment {
        Moment::START + Span::from_millis(ms)
    }

    fn pacer() -> Pacer {
        // A start every 100 ms, 20 ms of slack.
        Pacer::new(10, Span::from_secs(1), Span::from_millis(20))
    }

    #[test]
    fn starts_are_spaced_evenly_and_idle_time_is_not_saved_up() {
        let mut pacer = pacer();
        pacer.grant(ms(1_000), 1, PermitId(1));
        pacer.left(ms(1_000), 1, PermitId(1));
        assert_eq!(pacer.free_at(), ms(1_100));
        pacer.grant(ms(9_000), 3, PermitId(2));
        assert_eq!(pacer.free_at(), ms(9_300));
    }

    #[test]
    fn a_start_that_never_left_gives_its_turn_back() {
        let mut pacer = pacer();
        pacer.grant(ms(1_000), 1, PermitId(1));
        pacer.take_back(PermitId(1));
        assert!(pacer.free_at() <= ms(1_000));
    }

    #[test]
    fn a_start_that_leaves_late_pushes_the_next_one_back() {
        let mut pacer = pacer();
        pacer.grant(ms(1_000), 1, PermitId(1));
        pacer.left(ms(1_015), 1, PermitId(1));
        assert_eq!(pacer.free_at(), ms(1_100));
        pacer.grant(ms(1_100), 1, PermitId(2));
        pacer.left(ms(1_500), 1, PermitId(2));
        assert_eq!(pacer.free_at(), ms(1_580));
    }

    #[test]
    fn another_rate_keeps_the_moments_that_were_granted() {
        let mut pacer = pacer();
        pacer.grant(ms(1_000), 1, PermitId(1));
        pacer.reshape(7, Span::from_secs(1), Span::ZERO);
        assert_eq!(pacer.free_at(), ms(1_100));
        pacer.grant(ms(1_100), 1, PermitId(2));
        assert_eq!(pacer.free_at(), Moment::from_micros(1_242_858));
    }

    #[test]
    fn a_spacing_below_a_microsecond_is_kept_exactly() {
        let mut pacer = Pacer::new(3_000_000, Span::from_secs(1), Span::ZERO);
        for n in 0..300_000 {
            let now = pacer.free_at();
            pacer.grant(now, 1, PermitId(n));
            pacer.left(now, 1, PermitId(n));
        }
        let end = pacer.free_at();
        assert!(
            Moment::from_micros(99_999) <= end && end <= Moment::from_micros(100_001),
            "{end:?}"
        );
    }
}
