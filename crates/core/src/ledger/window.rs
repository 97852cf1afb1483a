//! A sliding log: what was sent in the last `span`, exactly.
//!
//! Promise: if [`Log::used`] plus a cost never exceeds the quota `Q` when
//! something is sent, no interval of length `span` holds more than `Q` units.
//!
//! With `span = W + J` (window and spread of the one-way delay) that is safe at
//! the provider whether it keeps a sliding log, fixed windows of any phase, or
//! a bucket that holds `Q`. Example: 60 per 10 s, spread 200 ms. Sixty calls
//! leave at 0.0 s, the next may leave at 10.2 s: the slowest of the sixty
//! arrived by 0.2 s, so the sixty-first, arriving at 10.2 s at the earliest,
//! finds all of them outside the provider's 10 s. Use at best: 10/10.2 = 98 %.
//! Source: our own derivation; this crate's tests run it against a brute-force log
//! of each provider's rule.
//!
//! Bound: one entry per stamp. Up to [`ENTRIES_MAX`] units per span every send
//! has its own microsecond; above, stamps are rounded **up** to a granule of
//! span/65,536, so a unit is held too long by 0.002 % at most and never too short.

use std::collections::VecDeque;

use crate::time::{Moment, Span};

/// Largest quota that is logged send by send.
pub(super) const ENTRIES_MAX: u64 = 100_000;
/// Granules in a span when sends are grouped.
const GRANULES: u64 = 65_536;
/// Spans for which entries are kept, in halves, so that a late look back finds them.
const KEEP_HALF_SPANS: u64 = 3;

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// When the units count as sent.
    at: Moment,
    /// Units sent up to here, since the log began.
    total: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Log {
    span: Span,
    granule: u64,
    entries: VecDeque<Entry>,
    /// Entries, from the front, that counted no longer at the last send.
    gone: usize,
    /// Units in entries that were dropped.
    dropped: u64,
    /// Units ever sent.
    total: u64,
}

impl Log {
    /// An empty log for a quota of `cap` units per `span`.
    pub(super) fn new(span: Span, cap: u64) -> Log {
        let mut log = Log {
            span,
            granule: 1,
            entries: VecDeque::new(),
            gone: 0,
            dropped: 0,
            total: 0,
        };
        log.reshape(span, cap);
        log
    }

    /// Changes span and quota; what was sent stays.
    pub(super) fn reshape(&mut self, span: Span, cap: u64) {
        self.span = span;
        self.gone = 0;
        self.granule = if cap <= ENTRIES_MAX {
            1
        } else {
            (span.as_micros() / GRANULES).max(1)
        };
    }

    /// The span.
    pub(super) fn span(&self) -> Span {
        self.span
    }

    /// For how long a send is remembered.
    pub(super) fn kept(&self) -> Span {
        self.span.scale(KEEP_HALF_SPANS, 2)
    }

    /// Units that count now. O(log n).
    pub(super) fn used(&self, now: Moment) -> u64 {
        self.total - self.total_before(now, self.span)
    }

    /// Units sent within `span` up to and including `at`. O(log n).
    pub(super) fn used_within(&self, span: Span, at: Moment) -> u64 {
        let upto = self.entries.partition_point(|entry| entry.at <= at);
        let total = upto
            .checked_sub(1)
            .map_or(self.dropped, |last| self.entries[last].total);
        total.saturating_sub(self.total_before(at, span))
    }

    /// Units whose entry no longer counts at `now`.
    fn total_before(&self, now: Moment, span: Span) -> u64 {
        let has_left = |entry: &Entry| entry.at + span <= now;
        // The usual case: none of them left since the last send, and all before had.
        let known = self.gone;
        let is_edge = !self.entries.get(known).is_some_and(has_left)
            && known
                .checked_sub(1)
                .is_none_or(|last| self.entries.get(last).is_some_and(has_left));
        let gone = match is_edge {
            true => known,
            false => self.entries.partition_point(has_left),
        };
        match gone.checked_sub(1) {
            Some(last) => self.entries[last].total,
            None => self.dropped,
        }
    }

    /// When `units` of what counts now will have left; [`Moment::NEVER`] if
    /// fewer are logged. O(log n).
    pub(super) fn freed_at(&self, now: Moment, units: u64) -> Moment {
        if units == 0 {
            return now;
        }
        let target = self.total_before(now, self.span).saturating_add(units);
        let index = self.entries.partition_point(|entry| entry.total < target);
        self.entries
            .get(index)
            .map_or(Moment::NEVER, |entry| entry.at + self.span)
    }

    /// Logs a send. Moments never go back. Amortised O(1).
    pub(super) fn push(&mut self, now: Moment, units: u64) {
        let keep = self.kept();
        while let Some(first) = self.entries.front()
            && first.at + keep <= now
        {
            self.dropped = first.total;
            self.entries.pop_front();
            self.gone = self.gone.saturating_sub(1);
        }
        while let Some(next) = self.entries.get(self.gone)
            && next.at + self.span <= now
        {
            self.gone += 1;
        }
        let at = self.stamp(now);
        self.total += units;
        match self.entries.back_mut() {
            // An entry can lie after `at` if the granule became finer.
            Some(last) if at <= last.at => last.total = self.total,
            _ => self.entries.push_back(Entry {
                at,
                total: self.total,
            }),
        }
    }

    /// Takes back a send that certainly did not happen. O(n), and rare.
    pub(super) fn take_back(&mut self, sent_at: Moment, units: u64) {
        let at = self.stamp(sent_at);
        let index = self.entries.partition_point(|entry| entry.at < at);
        let before = match index.checked_sub(1) {
            Some(last) => self.entries[last].total,
            None => self.dropped,
        };
        let Some(entry) = self.entries.get(index).filter(|entry| entry.at == at) else {
            // It counts no longer, or was grouped: then it stays counted, to be safe.
            return;
        };
        let units = units.min(entry.total - before);
        for entry in self.entries.range_mut(index..) {
            entry.total -= units;
        }
        self.total -= units;
    }

    /// When the last send was.
    pub(super) fn last(&self) -> Option<Moment> {
        self.entries.back().map(|entry| entry.at)
    }

    /// Sends in order: when, and how many units.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Moment, u64)> {
        let mut before = self.dropped;
        self.entries.iter().map(move |entry| {
            let units = entry.total - before;
            before = entry.total;
            (entry.at, units)
        })
    }

    fn stamp(&self, at: Moment) -> Moment {
        Moment::from_micros(
            at.as_micros()
                .div_ceil(self.granule)
                .saturating_mul(self.granule),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn secs(s: u64) -> Moment {
        Moment::START + Span::from_secs(s)
    }

    #[test]
    fn a_unit_counts_until_the_span_is_over_and_not_a_microsecond_longer() {
        let mut log = Log::new(Span::from_secs(10), 5);
        log.push(secs(1), 2);
        log.push(secs(3), 1);
        assert_eq!(log.used(secs(3)), 3);
        assert_eq!(log.freed_at(secs(3), 1), secs(11));
        assert_eq!(log.freed_at(secs(3), 3), secs(13));
        assert_eq!(log.freed_at(secs(3), 4), Moment::NEVER);
        assert_eq!(log.used(Moment::from_micros(10_999_999)), 3);
        assert_eq!(log.used(secs(11)), 1);
        assert_eq!(log.used(secs(13)), 0);
    }

    #[test]
    fn a_look_back_sees_only_what_was_sent_by_then() {
        let mut log = Log::new(Span::from_secs(10), 5);
        (1..=6).for_each(|s| log.push(secs(s), 1));
        assert_eq!(log.used_within(Span::from_secs(3), secs(4)), 3);
    }

    #[test]
    fn a_send_taken_back_leaves_no_trace() {
        let mut log = Log::new(Span::from_secs(10), 5);
        log.push(secs(1), 1);
        log.push(secs(2), 3);
        log.push(secs(4), 1);
        log.take_back(secs(2), 3);
        assert_eq!(log.used(secs(4)), 2);
        assert_eq!(log.used(secs(11)), 1);
        // Long gone: nothing to take back, nothing breaks.
        log.push(secs(60), 1);
        log.take_back(secs(1), 1);
        assert_eq!(log.used(secs(60)), 1);
    }

    #[test]
    fn a_huge_quota_is_grouped_and_never_freed_early() {
        let span = Span::from_secs(60);
        let mut log = Log::new(span, 1_000_000);
        let first = Moment::from_micros(5_001);
        let last = first + Span::from_micros(10 * 199_999);
        for n in 0..200_000 {
            log.push(first + Span::from_micros(10 * n), 1);
        }
        assert!(log.entries.len() < 3_000, "{}", log.entries.len());
        assert_eq!(log.used(last), 200_000);
        let freed = log.freed_at(last, 1);
        assert!(first + span <= freed, "{freed:?}");
        assert!(
            freed.since(first) <= span + Span::from_millis(1),
            "{freed:?}"
        );
    }

    proptest! {
        #[test]
        fn the_log_agrees_with_counting_by_hand(
            steps in prop::collection::vec((0u64..3_000_000, 1u64..4, prop::bool::weighted(0.1)), 1..200),
            span_ms in 1u64..20_000,
            need in 1u64..10,
        ) {
            let span = Span::from_millis(span_ms);
            let mut log = Log::new(span, 100);
            let mut by_hand: Vec<(Moment, u64)> = Vec::new();
            let mut now = Moment::START;
            for (gap, units, back) in steps {
                now = now + Span::from_micros(gap);
                log.push(now, units);
                by_hand.push((now, units));
                if back {
                    by_hand.pop();
                    log.take_back(now, units);
                }
                let live = |at: Moment| by_hand.iter().filter(|(t, _)| at < *t + span).map(|(_, n)| n).sum::<u64>();
                prop_assert_eq!(log.used(now), live(now));
                let freed = log.freed_at(now, need);
                if freed < Moment::NEVER {
                    prop_assert!(need <= live(now) - live(freed));
                    prop_assert!(live(now) - live(Moment::from_micros(freed.as_micros() - 1)) < need);
                } else {
                    prop_assert!(live(now) < need);
                }
            }
        }
    }
}
