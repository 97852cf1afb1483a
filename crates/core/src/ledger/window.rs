//! A sliding log: at most `cap` units sent in any stretch of `span`.
//!
//! # Why it is safe
//! A provider counts at most Q units in a window of length W. Between our send
//! and its count lies a delay that varies by at most J. Units counted within one
//! W were therefore sent within one W + J, so at most Q sends in any W + J are at
//! most Q counts in any W, whatever the phase of the window. It holds for a
//! sliding log, for a fixed window of unknown phase, and for a token bucket that
//! holds at least Q. The price is the ceiling W / (W + J): with W = 10 s and
//! J = 200 ms, 98.04 % of the quota.
//!
//! # Worked example
//! Q = 3, W = 10 s, J = 0.2 s. Sends at 0, 1 and 2 s; a fourth may go at 10.2 s,
//! when the first can no longer share a window with it.
//!
//! Source: the moving-window argument of RFC 2697-style meters turned round;
//! derived here, and tested against a brute-force provider.

use std::collections::VecDeque;

use crate::time::{Moment, Span};

/// Sends closer together than one part in so many of the span share an entry,
/// dated at the later one: the log stays bounded whatever the quota, and errs on
/// the safe side by less than 0.03 % of the window.
const PARTS: u64 = 4_096;

/// Sends of the last `span`, and what is reserved for sends that are being made.
#[derive(Clone, Debug)]
pub(super) struct SlidingLog {
    cap: u64,
    span: Span,
    sent: VecDeque<(Moment, u64)>,
    /// Sum of `sent`.
    spent: u64,
    reserved: u64,
}

impl SlidingLog {
    pub(super) fn new(cap: u64, span: Span) -> SlidingLog {
        SlidingLog {
            cap,
            span,
            sent: VecDeque::new(),
            spent: 0,
            reserved: 0,
        }
    }

    /// Other bounds hold from now on. What was sent stays sent: a lower cap
    /// leaves a debt, which time repays.
    pub(super) fn resize(&mut self, cap: u64, span: Span) {
        self.cap = cap;
        self.span = span;
    }

    pub(super) fn cap(&self) -> u64 {
        self.cap
    }

    pub(super) fn span(&self) -> Span {
        self.span
    }

    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Units sent that still count.
    pub(super) fn spent(&self, now: Moment) -> u64 {
        let gone: u64 = self
            .sent
            .iter()
            .take_while(|(at, _)| *at + self.span <= now)
            .map(|(_, units)| units)
            .sum();
        self.spent - gone
    }

    /// When `units` more fit: `now` if at once, [`Moment::NEVER`] if only after
    /// something that is reserved is sent or given back.
    pub(super) fn free_at(&self, now: Moment, units: u64) -> Moment {
        let taken = self.reserved + units;
        if self.cap < taken {
            return Moment::NEVER;
        }
        let mut over = (self.spent + taken).saturating_sub(self.cap);
        if over == 0 {
            return now;
        }
        for (at, count) in &self.sent {
            over = over.saturating_sub(*count);
            if over == 0 {
                return (*at + self.span).max(now);
            }
        }
        now
    }

    pub(super) fn reserve(&mut self, units: u64) {
        self.reserved += units;
    }

    pub(super) fn give_back(&mut self, units: u64) {
        self.reserved = self.reserved.saturating_sub(units);
    }

    /// What was reserved is sent: its window starts.
    pub(super) fn send(&mut self, now: Moment, units: u64) {
        self.give_back(units);
        self.record(now, units);
    }

    /// A send that was never reserved here: before a restart, or of another.
    pub(super) fn record(&mut self, at: Moment, units: u64) {
        while let Some((first, count)) = self.sent.front()
            && *first + self.span <= at
        {
            self.spent -= count;
            self.sent.pop_front();
        }
        let grain = self.span.scale(1, PARTS);
        match self.sent.back_mut() {
            Some((last, count)) if at.since(*last) < grain || at < *last => {
                *last = (*last).max(at);
                *count += units;
            }
            _ => self.sent.push_back((at, units)),
        }
        self.spent += units;
    }

    /// Takes back a send of the last moments that never happened.
    pub(super) fn unsend(&mut self, units: u64) {
        if let Some((_, count)) = self.sent.back_mut() {
            let taken = units.min(*count);
            *count -= taken;
            self.spent -= taken;
            if *count == 0 {
                self.sent.pop_back();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(n: u64) -> Moment {
        Moment::START + Span::from_millis(n)
    }

    #[test]
    fn the_worked_example_holds() {
        let mut log = SlidingLog::new(3, Span::from_millis(10_200));
        for at in [0, 1_000, 2_000] {
            assert_eq!(log.free_at(ms(at), 1), ms(at));
            log.reserve(1);
            log.send(ms(at), 1);
        }
        assert_eq!(log.free_at(ms(3_000), 1), ms(10_200));
    }

    #[test]
    fn a_slot_that_is_reserved_has_no_expiry() {
        let mut log = SlidingLog::new(1, Span::from_secs(10));
        log.reserve(1);
        assert_eq!(log.free_at(ms(3_600_000), 1), Moment::NEVER);
        log.give_back(1);
        assert_eq!(log.free_at(ms(3_600_000), 1), ms(3_600_000));
    }

    #[test]
    fn a_lower_cap_leaves_a_debt() {
        let mut log = SlidingLog::new(10, Span::from_secs(10));
        for n in 0..10 {
            log.record(ms(n * 100), 1);
        }
        log.resize(2, Span::from_secs(10));
        assert_eq!(log.spent(ms(1_000)), 10);
        assert_eq!(log.free_at(ms(1_000), 1), ms(10_800));
    }

    proptest! {
        /// Whatever the arrivals and the delays within J, no window of the
        /// provider, of any phase, holds more than Q.
        #[test]
        fn no_window_of_the_provider_ever_holds_more_than_its_quota(
            quota in 1_u64..20,
            gaps in proptest::collection::vec((0_u64..900, 0_u64..200), 1..300),
        ) {
            let (window, jitter) = (10_000, 200);
            let mut log = SlidingLog::new(quota, Span::from_millis(window + jitter));
            let mut now = 0;
            let mut counted = Vec::new();
            for (gap, delay) in gaps {
                now += gap;
                let at = log.free_at(ms(now), 1);
                prop_assert_ne!(at, Moment::NEVER);
                now = now.max(at.as_micros().div_ceil(1_000));
                log.reserve(1);
                log.send(ms(now), 1);
                counted.push(now + delay);
            }
            counted.sort_unstable();
            for (n, first) in counted.iter().enumerate() {
                let within = counted[n..].iter().take_while(|at| **at < first + window).count();
                prop_assert!(within as u64 <= quota, "{within} within one window of {quota}");
            }
        }

        #[test]
        fn saturated_demand_reaches_the_ceiling(quota in 20_u64..200) {
            let span = Span::from_millis(10_200);
            let mut log = SlidingLog::new(quota, span);
            let (mut now, mut sent) = (ms(0), 0_u64);
            while now < ms(102_000) {
                let at = log.free_at(now, 1);
                if now < at {
                    now = at;
                    continue;
                }
                log.record(now, 1);
                sent += 1;
                now = now + Span::from_millis(1);
            }
            // Ten spans, and the quota in each.
            prop_assert!(quota * 10 <= sent + quota / 50 + 10, "{sent} of {}", quota * 10);
        }
    }
}
