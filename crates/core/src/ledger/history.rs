//! What refusals teach about a rate that nobody named.
//!
//! When a scope is refused and later accepts again, the provider took some
//! number of units in the time from the first of them until the hold was over.
//! Counted from where the provider's window began that is the true rate, and
//! counted from elsewhere it is less. So the estimate is the **largest** of
//! units/time over all beginnings: never below the provider's rate. A refusal
//! teaches only from what went shortly before it, five units at least, or three
//! if it follows another: else a scope that was hardly used, and refused because
//! of somebody else, would be throttled to that little use.
//!
//! Example: 60 per sliding 10 s, nothing declared. Sixty calls are accepted
//! within 1.0 s, the next is refused with `Retry-After: 9`. Beginning with the
//! first: 60/(1.0 + 9) = 6.0/s; with the thirty-first: 30/(0.5 + 9) = 3.2/s.
//! Measured: 6.0/s.
//! A bucket of 10 with 6/s: eleven accepted in 0.2 s, `Retry-After: 1`: 11/1.2 =
//! 9.2/s, too much by what the full bucket gave. Paced at 9/s it is refused
//! after two seconds, with 18/(2 + 1) = 6.0/s.
//! Source: our own derivation; this crate's tests run it against four kinds of provider.

use std::collections::VecDeque;

use crate::time::{Moment, Span};

/// Entries of a history; older ones are merged two by two.
const BUCKETS_MAX: usize = 256;
/// So many units prove a rate at a first refusal, and at a second one soon
/// after; from the third on a single one does.
const UNITS_BY_ROW: [u64; 2] = [5, 3];
/// They must have gone within this, or twice the hold, before the refusal.
const REACH: Span = Span::from_secs(60);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    start: Moment,
    units: u64,
}

/// What was sent since the scope last opened, coarser the longer ago.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    buckets: VecDeque<Bucket>,
}

/// How sure it is that it was our own rate that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// No rate is learnt yet.
    Row {
        /// When the refused call left.
        refused_at: Moment,
        /// How many refusals went before it, each soon after the last.
        nth: usize,
    },
    /// A learnt rate was refused.
    Known,
}

/// A rate that a refusal proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measured {
    /// Units that were accepted …
    pub(super) units: u64,
    /// … in this time.
    pub(super) span: Span,
}

impl Measured {
    /// The distance of two units at that rate, at least a microsecond.
    pub(super) fn spacing(self) -> Span {
        self.span
            .scale(1, self.units.max(1))
            .max(Span::from_micros(1))
    }
}

impl History {
    /// A call left.
    pub(super) fn push(&mut self, now: Moment, units: u64) {
        match self.buckets.back_mut() {
            Some(last) if last.start == now => last.units += units,
            _ => self.buckets.push_back(Bucket { start: now, units }),
        }
        if BUCKETS_MAX < self.buckets.len() {
            self.merge();
        }
    }

    /// A call that left was refused, or had not left after all.
    pub(super) fn remove(&mut self, sent_at: Moment, units: u64) {
        let after = self
            .buckets
            .partition_point(|bucket| bucket.start <= sent_at);
        if let Some(index) = after.checked_sub(1) {
            let bucket = &mut self.buckets[index];
            bucket.units = bucket.units.saturating_sub(units);
        }
    }

    /// Forgets what left after a call that was refused: it met a closed door too.
    pub(super) fn cut_after(&mut self, refused: Moment) {
        while self
            .buckets
            .back()
            .is_some_and(|bucket| refused < bucket.start)
        {
            self.buckets.pop_back();
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.buckets.clear();
    }

    /// Sends as far as known, oldest first; a group counts at its end.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Moment, u64)> {
        let ends = self
            .buckets
            .iter()
            .skip(1)
            .map(|bucket| bucket.start)
            .chain(self.buckets.back().map(|bucket| bucket.start));
        ends.zip(self.buckets.iter().map(|bucket| bucket.units))
    }

    /// The largest rate over all beginnings, if the provider accepts again from
    /// `opens` on. O([`BUCKETS_MAX`]).
    pub(super) fn measure(&self, opens: Moment, proof: Proof) -> Option<Measured> {
        let (since, units_min) = match proof {
            Proof::Row { refused_at, nth } => {
                let held = opens.since(refused_at);
                let reach = held.saturating_mul(2).max(REACH);
                let units = UNITS_BY_ROW.get(nth).copied().unwrap_or(1);
                (refused_at.back(reach), units)
            }
            Proof::Known => (Moment::START, 1),
        };
        let mut units = 0;
        let mut best: Option<Measured> = None;
        let near = |bucket: &&Bucket| since <= bucket.start;
        for bucket in self.buckets.iter().rev().take_while(near) {
            units += bucket.units;
            let span = opens.since(bucket.start);
            if units < units_min || span.is_zero() {
                continue;
            }
            let one = Measured { units, span };
            let faster = best.is_none_or(|best| {
                u128::from(best.units) * u128::from(span.as_micros())
                    < u128::from(units) * u128::from(best.span.as_micros())
            });
            if faster {
                best = Some(one);
            }
        }
        best
    }

    /// Halves the older half of the entries.
    fn merge(&mut self) {
        let older = BUCKETS_MAX / 2;
        for pair in 0..older / 2 {
            let (first, second) = (self.buckets[2 * pair], self.buckets[2 * pair + 1]);
            self.buckets[pair] = Bucket {
                start: first.start,
                units: first.units + second.units,
            };
        }
        self.buckets.drain(older / 2..older);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Moment {
        Moment::START + Span::from_millis(ms)
    }

    fn history(sends: impl IntoIterator<Item = u64>) -> History {
        let mut history = History::default();
        sends.into_iter().for_each(|at| history.push(ms(at), 1));
        history
    }

    fn per_second(measured: Option<Measured>) -> u64 {
        measured.map_or(0, |m| m.units * 1_000_000 / m.span.as_micros())
    }

    fn first(refused_ms: u64) -> Proof {
        Proof::Row {
            refused_at: ms(refused_ms),
            nth: 0,
        }
    }

    #[test]
    fn a_burst_of_sixty_and_a_hold_to_ten_seconds_teach_six_per_second() {
        let history = history((0..60).map(|n| n * 16));
        assert_eq!(per_second(history.measure(ms(10_000), first(1_000))), 6);
    }

    #[test]
    fn a_hardly_used_scope_is_not_throttled_to_its_little_use() {
        // One call a minute for an hour, then a refusal that holds for 10 s.
        let history = history((0..60).map(|n| n * 60_000));
        let refused = 59 * 60_000;
        assert_eq!(history.measure(ms(refused + 10_000), first(refused)), None);
        // A learnt rate that is refused must give way, and the densest use counts.
        let again = history.measure(ms(refused + 10_000), Proof::Known);
        assert_eq!(
            again.map(|m| (m.units, m.span)),
            Some((1, Span::from_secs(10)))
        );
    }

    #[test]
    fn a_long_history_is_kept_in_few_entries_and_loses_no_unit() {
        let history = history(0..100_000);
        assert!(history.buckets.len() <= BUCKETS_MAX);
        assert_eq!(history.iter().map(|(_, units)| units).sum::<u64>(), 100_000);
        assert_eq!(per_second(history.measure(ms(200_000), Proof::Known)), 500);
    }

    #[test]
    fn what_left_after_the_refused_call_does_not_count() {
        let mut history = history((0..20).map(|n| n * 10));
        history.cut_after(ms(100));
        history.remove(ms(100), 1);
        assert_eq!(
            history.measure(ms(1_000), Proof::Known).map(|m| m.units),
            Some(10)
        );
    }
}
