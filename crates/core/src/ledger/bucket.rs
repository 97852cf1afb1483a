//! A token bucket as its provider keeps it, seen from here.
//!
//! The provider's bucket holds `B` units and refills with `Q` per `W`. What we
//! send may arrive closer together than it left, by the spread `J` of the way at
//! most, so we keep a bucket of `B' = B − Q·J/W` that refills at the full rate:
//! the jitter costs burst and no rate, and for long all of the quota is used.
//! Example: 60 per 10 s, B = 60, J = 200 ms: B' = 58. After a pause 58 calls leave
//! at once, then one every 166.7 ms. Where `B'` is smaller than a call there is
//! no bucket, and starts are spaced (see [`super::limiter`]).
//!
//! It is GCRA (the generic cell rate algorithm of ITU-T I.371): one number, the
//! moment at which the bucket is full again, kept in `µs·Q` so that nothing is
//! rounded. What is taken without waiting is a debt: the moment lies further
//! ahead than the bucket is deep.

use crate::time::{Moment, Span};

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    /// Units that come back per [`Bucket::per`].
    units: u64,
    per: Span,
    /// Units that it holds.
    depth: u64,
    /// When it is full again, in `µs·units`.
    full_at: u128,
}

impl Bucket {
    /// A full bucket. All must be greater than zero.
    pub(super) fn new(units: u64, per: Span, depth: u64) -> Bucket {
        debug_assert!(0 < units && !per.is_zero() && 0 < depth, "a bucket works");
        Bucket {
            units: units.max(1),
            per: per.max(Span::from_micros(1)),
            depth: depth.max(1),
            full_at: 0,
        }
    }

    /// Changes rate and depth; what is missing stays missing.
    pub(super) fn reshape(&mut self, now: Moment, units: u64, per: Span, depth: u64) {
        let behind = self.full_at.saturating_sub(self.at(now));
        let old = u128::from(self.per.as_micros());
        *self = Bucket::new(units, per, depth);
        let new = u128::from(self.per.as_micros());
        // Whole and fraction apart: the product of two lengths would not fit, and a
        // part of a unit that is rounded away each time adds up.
        let behind = behind / old * new + (behind % old * new).div_ceil(old);
        self.full_at = self.at(now) + behind;
    }

    /// The same bucket with nothing in it at a moment.
    pub(super) fn emptied_at(&self, at: Moment) -> Bucket {
        let mut empty = self.filled();
        empty.take(at, self.depth);
        empty
    }

    /// The same bucket, full.
    pub(super) fn filled(&self) -> Bucket {
        Bucket::new(self.units, self.per, self.depth)
    }

    /// Units and time of the rate.
    pub(super) fn rate(&self) -> (u64, Span) {
        (self.units, self.per)
    }

    /// Units that it lacks, rounded up; more than its depth is a debt. O(1).
    pub(super) fn missing(&self, now: Moment) -> u64 {
        let behind = self.full_at.saturating_sub(self.at(now));
        whole(behind.div_ceil(self.length(1)))
    }

    /// Units that come back in a span, rounded up.
    pub(super) fn refill(&self, span: Span) -> u64 {
        let gained = u128::from(span.as_micros()) * u128::from(self.units);
        whole(gained.div_ceil(u128::from(self.per.as_micros())))
    }

    /// When it holds so many units beside others that are promised; more than it
    /// can hold when it is full and nothing else is promised. O(1).
    pub(super) fn free_at(&self, now: Moment, units: u64, promised: u64) -> Moment {
        let room = self.depth.saturating_sub(units);
        let at = match room.checked_sub(promised) {
            Some(room) => self.full_at.saturating_sub(self.length(room)),
            None => self.full_at.max(self.at(now)) + self.length(promised - room),
        };
        let at = at.div_ceil(u128::from(self.units));
        Moment::from_micros(whole(at)).max(now)
    }

    /// When it is full, if nothing more is taken.
    pub(super) fn full_again(&self, now: Moment) -> Moment {
        self.free_at(now, self.depth, 0)
    }

    /// Takes units out, whether or not they are there.
    pub(super) fn take(&mut self, now: Moment, units: u64) {
        self.full_at = self.full_at.max(self.at(now)) + self.length(units);
    }

    /// Puts units back that were taken.
    pub(super) fn put_back(&mut self, units: u64) {
        self.full_at = self.full_at.saturating_sub(self.length(units));
    }

    fn at(&self, at: Moment) -> u128 {
        u128::from(at.as_micros()) * u128::from(self.units)
    }

    /// How long units take to come back, in `µs·units`.
    fn length(&self, units: u64) -> u128 {
        u128::from(units) * u128::from(self.per.as_micros())
    }
}

fn whole(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(ms: u64) -> Moment {
        Moment::START + Span::from_millis(ms)
    }

    #[test]
    fn it_gives_all_that_it_holds_and_then_what_comes_back() {
        let mut bucket = Bucket::new(60, Span::from_secs(10), 58);
        assert_eq!(bucket.free_at(ms(1_000), 58, 0), ms(1_000));
        bucket.take(ms(1_000), 58);
        assert_eq!(bucket.missing(ms(1_000)), 58);
        assert_eq!(
            bucket.free_at(ms(1_000), 1, 0),
            Moment::from_micros(1_166_667)
        );
        assert_eq!(bucket.free_at(ms(1_000), 30, 0), ms(6_000));
        assert_eq!(bucket.missing(ms(6_000)), 28);
    }

    #[test]
    fn what_it_can_never_hold_waits_until_it_is_full() {
        let mut bucket = Bucket::new(60, Span::from_secs(10), 58);
        bucket.take(ms(1_000), 29);
        assert_eq!(
            bucket.free_at(ms(1_000), 100, 0),
            Moment::from_micros(5_833_334)
        );
        bucket.take(ms(6_000), 100);
        // A debt of 42 is paid before anything goes.
        assert_eq!(
            bucket.free_at(ms(6_000), 1, 0),
            Moment::from_micros(13_166_667)
        );
    }

    #[test]
    fn what_is_promised_is_not_given_twice() {
        let bucket = Bucket::new(60, Span::from_secs(10), 58);
        assert_eq!(bucket.free_at(ms(1_000), 1, 57), ms(1_000));
        assert!(ms(1_000) < bucket.free_at(ms(1_000), 1, 58));
        assert_eq!(bucket.free_at(ms(1_000), 100, 0), ms(1_000));
        assert!(ms(1_000) < bucket.free_at(ms(1_000), 100, 1));
    }

    #[test]
    fn what_was_put_back_can_be_taken_again() {
        let mut bucket = Bucket::new(60, Span::from_secs(10), 58);
        bucket.take(ms(1_000), 58);
        bucket.put_back(8);
        assert_eq!(bucket.free_at(ms(1_000), 8, 0), ms(1_000));
    }

    proptest! {
        /// The promise, against a brute-force bucket of the provider's: whatever the
        /// jitter up to `J`, it never lacks what we sent.
        #[test]
        fn the_provider_always_has_what_we_send(
            limit in 1u64..200,
            window_ms in 100u64..20_000,
            burst in 1u64..300,
            spread_ms in 0u64..500,
            calls in prop::collection::vec((1u64..5, 0u64..2_000, 0u64..=1_000), 1..120),
        ) {
            let window = Span::from_millis(window_ms);
            let spread = Span::from_millis(spread_ms);
            let lost = (u128::from(spread.as_micros()) * u128::from(limit))
                .div_ceil(u128::from(window.as_micros()));
            let depth = burst.saturating_sub(whole(lost));
            prop_assume!(4 < depth);
            let mut ours = Bucket::new(limit, window, depth);
            let mut arrivals = Vec::new();
            let mut now = Moment::START;
            for (units, pause_ms, late) in calls {
                now = ours.free_at(now + Span::from_millis(pause_ms % 7 * pause_ms / 7), units, 0);
                ours.take(now, units);
                arrivals.push((now + spread.scale(late, 1_000), units));
            }
            arrivals.sort();
            // In units·window, so that nothing is rounded away.
            let per = u128::from(window.as_micros());
            let full = u128::from(burst) * per;
            let (mut level, mut last) = (full, Moment::START);
            for (at, units) in arrivals {
                level = full.min(level + u128::from(at.since(last).as_micros()) * u128::from(limit));
                last = at;
                prop_assert!(u128::from(units) * per <= level, "{units} at {at:?}");
                level -= u128::from(units) * per;
            }
        }
    }
}
