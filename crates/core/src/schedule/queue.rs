//! The two plain queues under the scheduler: calls in order of arrival, and
//! calls whose time has not come.
//!
//! Nothing here knows of ranks or fairness. A [`Seat`] is a call's place in an
//! order of arrival; it is the call's own key unless the caller keeps the place
//! of an earlier ask.

use std::collections::{BTreeSet, VecDeque};

use super::waiter::AskKey;
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

/// One agent's calls of one rank in one lane, oldest place first.
///
/// A sorted ring, not a tree, because its two hot ends are constant time and
/// because an index into it is a position. Taking one from the middle moves at
/// most half of one agent's calls, 16 bytes each: 2 KiB at the default bound of
/// 256 calls an agent.
#[derive(Clone, Debug, Default)]
pub(super) struct Fifo(VecDeque<Seat>);

impl Fifo {
    /// Puts a call at its place; at the end, if nobody kept an older place.
    pub(super) fn insert(&mut self, seat: Seat) {
        if self.0.back().is_none_or(|last| *last < seat) {
            return self.0.push_back(seat);
        }
        if let Err(at) = self.0.binary_search(&seat) {
            self.0.insert(at, seat);
        }
    }

    /// Takes a call out; whether it was there.
    pub(super) fn remove(&mut self, seat: Seat) -> bool {
        if self.0.front() == Some(&seat) {
            return self.0.pop_front().is_some();
        }
        self.0
            .binary_search(&seat)
            .is_ok_and(|at| self.0.remove(at).is_some())
    }

    /// The call that goes next.
    pub(super) fn first(&self) -> Option<Seat> {
        self.0.front().copied()
    }

    /// How many calls go before this place. O(log n).
    pub(super) fn ahead_of(&self, seat: Seat) -> usize {
        self.0.partition_point(|other| *other < seat)
    }

    /// Whether nobody is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

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
        let order: Vec<_> = fifo.0.iter().map(|s| s.ask).collect();
        assert_eq!(order, [1, 2, 7, 5, 6]);
        assert_eq!(fifo.ahead_of(seat(3, 7)), 2);
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
