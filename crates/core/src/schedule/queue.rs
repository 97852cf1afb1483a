//! The two plain queues under the scheduler: calls in order of arrival, and
//! calls whose time has not come.
//!
//! Nothing here knows of ranks or fairness. A [`Seat`] is a call's place in an
//! order of arrival; it is the call's own key unless the caller keeps the place
//! of an earlier ask.

use std::collections::BTreeSet;

use super::waiter::AskKey;
use crate::ring::Ring;
use crate::time::Moment;

/// A call's place among those that arrived before and after it.
///
/// Ordered by `place`; the call's own key only breaks ties, so two calls that
/// claim the same place stay two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seat {
    /// When it arrived, or when the ask arrived whose place it keeps.
    pub(super) place: AskKey,
    /// The call.
    pub(super) ask: AskKey,
}

/// One agent's calls of one rank, oldest place first.
pub(super) type Fifo = Ring<Seat>;

/// Calls that may not go yet, by the moment from which they may.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers(BTreeSet<(Moment, AskKey)>);

impl Timers {
    /// Wakes a call at a moment.
    pub(super) fn set(&mut self, at: Moment, ask: AskKey) {
        self.0.insert((at, ask));
    }

    /// Forgets a call.
    pub(super) fn cancel(&mut self, at: Moment, ask: AskKey) {
        self.0.remove(&(at, ask));
    }

    /// When the next call may go; [`Moment::NEVER`] if none waits for a time.
    pub(super) fn next(&self) -> Moment {
        self.0.first().map_or(Moment::NEVER, |(at, _)| *at)
    }

    /// Takes out the earliest call whose time has come.
    pub(super) fn pop_due(&mut self, now: Moment) -> Option<AskKey> {
        if self.next() > now {
            return None;
        }
        self.0.pop_first().map(|(_, ask)| ask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(place: AskKey, ask: AskKey) -> Seat {
        Seat { place, ask }
    }

    #[test]
    fn a_kept_place_goes_before_later_arrivals() {
        let mut fifo = Fifo::default();
        for n in [1, 2, 5, 6] {
            fifo.insert(seat(n, n));
        }
        fifo.insert(seat(3, 7));
        assert_eq!(fifo.before(seat(3, 7)), 2);
        assert_eq!(fifo.before(seat(5, 5)), 3);
        assert!(fifo.remove(seat(5, 5)) && !fifo.remove(seat(5, 5)));
        assert_eq!(fifo.first(), Some(seat(1, 1)));
    }

    #[test]
    fn two_calls_that_claim_one_place_stay_two() {
        let mut fifo = Fifo::default();
        fifo.insert(seat(4, 9));
        fifo.insert(seat(4, 8));
        assert!(fifo.remove(seat(4, 8)) && fifo.remove(seat(4, 9)) && fifo.is_empty());
    }

    #[test]
    fn a_timer_fires_at_its_moment_and_not_before() {
        let mut timers = Timers::default();
        timers.set(Moment::from_micros(20), 1);
        timers.set(Moment::from_micros(10), 2);
        assert_eq!(timers.pop_due(Moment::from_micros(9)), None);
        assert_eq!(timers.pop_due(Moment::from_micros(10)), Some(2));
        timers.cancel(Moment::from_micros(20), 1);
        assert_eq!(timers.next(), Moment::NEVER);
    }
}
