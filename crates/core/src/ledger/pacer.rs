//! The universal pacer: one unit every so often, and never two at once.
//!
//! GCRA (the generic cell rate algorithm of ITU-T I.371) with a burst of one.
//! At the distance (W + J) / (Q − 1) it keeps within a sliding log, a fixed
//! window of any phase, a sliding counter and a token bucket alike, because even
//! sends never look like a burst to any of them. The ceiling is
//! (1 − 1/Q) · W / (W + J): with Q = 60 in 10 s and J = 200 ms, one send every
//! 172.9 ms, 96.4 % of the quota.

use crate::time::{Moment, Span};

/// Even spacing of the sends of one scope.
#[derive(Clone, Debug)]
pub(super) struct Pacer {
    distance: Span,
    next: Moment,
}

impl Pacer {
    /// A pacer of one unit in `distance`.
    pub(super) fn new(distance: Span) -> Pacer {
        Pacer {
            distance,
            next: Moment::START,
        }
    }

    /// The distance that is safe for `quota` in `window` of whatever kind, with
    /// delays that vary by `jitter`.
    pub(super) fn safe_distance(quota: u64, window: Span, jitter: Span) -> Span {
        let long = window + jitter;
        let units = quota.saturating_sub(1).max(1);
        // Rounded up: a microsecond too long is safe, one too short is not.
        long.scale(1, units) + Span::from_micros(1)
    }

    pub(super) fn distance(&self) -> Span {
        self.distance
    }

    pub(super) fn set_distance(&mut self, distance: Span) {
        self.distance = distance;
    }

    pub(super) fn free_at(&self, now: Moment) -> Moment {
        self.next.max(now)
    }

    /// A unit is granted.
    pub(super) fn grant(&mut self, now: Moment, units: u64) {
        self.next = self.next.max(now) + self.distance.saturating_mul(units);
    }

    /// The granted unit is really sent now: whatever the dial took is added.
    pub(super) fn send(&mut self, now: Moment, units: u64) {
        self.next = self.next.max(now + self.distance.saturating_mul(units));
    }

    /// The granted unit was certainly not sent.
    pub(super) fn give_back(&mut self, units: u64) {
        self.next = self.next.back(self.distance.saturating_mul(units));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example_holds() {
        let distance = Pacer::safe_distance(60, Span::from_secs(10), Span::from_millis(200));
        assert_eq!(distance.as_millis(), 172);
        let mut pacer = Pacer::new(distance);
        let mut now = Moment::START;
        let mut sent = 0;
        while now < Moment::START + Span::from_secs(100) {
            now = pacer.free_at(now);
            pacer.grant(now, 1);
            sent += 1;
        }
        assert!((578..=580).contains(&sent), "{sent} in 100 s");
    }

    #[test]
    fn what_was_not_sent_is_given_back() {
        let mut pacer = Pacer::new(Span::from_millis(100));
        pacer.grant(Moment::START, 1);
        pacer.give_back(1);
        assert_eq!(pacer.free_at(Moment::START), Moment::START);
    }
}
