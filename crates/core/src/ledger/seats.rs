//! How many calls may be open at once: declared, learnt, and kept for people.
//!
//! A call that is not interactive may go if a seat is free **and** its kind
//! holds fewer than `cap − reserve`. So a reserved seat that an interactive
//! call uses costs nobody anything. Example: four seats, one reserved. Three
//! background calls are open: a fourth waits, an interactive one goes. One
//! interactive and two background calls are open: a third background call goes.
//!
//! A cap is learnt when the provider says that too many are open: one less
//! than were open then. After ten minutes without a refusal one more is tried;
//! each refusal doubles that patience, to six hours.

use super::call::Reason;
use crate::time::{Moment, Span};
use crate::word::Priority;

/// How long a learnt cap stands before one more is tried: at first, and at most.
const PATIENCE: (Span, Span) = (Span::from_secs(600), Span::from_secs(6 * 3600));

#[derive(Clone, Copy, Debug)]
struct Learnt {
    cap: u32,
    since: Moment,
    patience: Span,
    /// Permits up to this one were granted before the cap.
    known_from: u64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Seats {
    declared: Option<u32>,
    reserve: u32,
    learnt: Option<Learnt>,
    open: u32,
    /// Of these, calls that are not interactive.
    open_low: u32,
}

impl Seats {
    /// Other rules; open calls keep their seats.
    pub(super) fn set_policy(&mut self, declared: Option<u32>, reserve: u32) {
        self.declared = declared.map(|cap| cap.max(1));
        self.reserve = reserve;
    }

    /// Calls open now.
    pub(super) fn open(&self) -> u32 {
        self.open
    }

    /// Most calls open at once, if anybody says so.
    pub(super) fn cap(&self) -> Option<u32> {
        let learnt = self.learnt.map(|learnt| learnt.cap);
        match (self.declared, learnt) {
            (Some(declared), Some(learnt)) => Some(declared.min(learnt)),
            (declared, learnt) => declared.or(learnt),
        }
    }

    /// The learnt cap.
    pub(super) fn learnt(&self) -> Option<u32> {
        self.learnt.map(|learnt| learnt.cap)
    }

    /// What stands in the way of a call of this rank.
    pub(super) fn block(&self, priority: Priority) -> Option<(Reason, Moment)> {
        let cap = self.cap()?;
        if cap <= self.open {
            return Some((Reason::Concurrency, Moment::NEVER));
        }
        // One seat is left to the others, or they would wait for ever.
        let reserve = self.reserve.min(cap - 1);
        let full = is_low(priority) && cap - reserve <= self.open_low;
        full.then_some((Reason::Reserved, Moment::NEVER))
    }

    /// A seat is taken.
    pub(super) fn take(&mut self, now: Moment, priority: Priority) {
        self.open += 1;
        self.open_low += u32::from(is_low(priority));
        if let Some(learnt) = &mut self.learnt
            && learnt.cap <= self.open
            && learnt.since + learnt.patience <= now
        {
            learnt.cap += 1;
            learnt.since = now;
        }
    }

    /// A seat is free again.
    pub(super) fn free(&mut self, priority: Priority) {
        debug_assert!(0 < self.open, "a seat is freed once");
        self.open = self.open.saturating_sub(1);
        self.open_low = self.open_low.saturating_sub(u32::from(is_low(priority)));
    }

    /// The provider said that too many are open, the refused call included.
    /// `granted` is the refused permit's number and `newest` the newest one's.
    /// Returns the cap if it changed, and whether the refusal is an echo.
    pub(super) fn refused(
        &mut self,
        now: Moment,
        granted: u64,
        newest: u64,
    ) -> (Option<u32>, bool) {
        let cap = self.open.saturating_sub(1).max(1);
        let old = self.learnt;
        let echo = old.is_some_and(|old| granted <= old.known_from);
        let patience = match old {
            None => PATIENCE.0,
            Some(old) if echo => old.patience,
            Some(old) => old.patience.saturating_mul(2).min(PATIENCE.1),
        };
        let cap = old.map_or(cap, |old| old.cap.min(cap));
        let known_from = match old {
            Some(old) if echo => old.known_from,
            _ => newest,
        };
        self.learnt = Some(Learnt {
            cap,
            since: now,
            patience,
            known_from,
        });
        let changed = old.is_none_or(|old| old.cap != cap);
        (changed.then_some(cap), echo)
    }

    /// The provider, or a restart, names the cap. Returns whether that is news.
    pub(super) fn learn(&mut self, now: Moment, cap: u32) -> bool {
        let cap = cap.max(1);
        let news = self.learnt() != Some(cap);
        if news {
            self.learnt = Some(Learnt {
                cap,
                since: now,
                patience: PATIENCE.0,
                known_from: 0,
            });
        }
        news
    }
}

fn is_low(priority: Priority) -> bool {
    priority != Priority::Interactive
}

#[cfg(test)]
mod tests {
    use super::*;
    use Priority::{Background, Interactive, Normal};

    fn seats(cap: u32, reserve: u32) -> Seats {
        let mut seats = Seats::default();
        seats.set_policy(Some(cap), reserve);
        seats
    }

    fn check(seats: &Seats, priority: Priority, expected: Option<Reason>) {
        assert_eq!(seats.block(priority).map(|(reason, _)| reason), expected);
    }

    #[test]
    fn a_reserved_seat_waits_for_an_interactive_call() {
        let mut seats = seats(4, 1);
        (0..3).for_each(|_| seats.take(Moment::START, Background));
        check(&seats, Normal, Some(Reason::Reserved));
        check(&seats, Interactive, None);
        seats.take(Moment::START, Interactive);
        check(&seats, Interactive, Some(Reason::Concurrency));
    }

    #[test]
    fn a_reserved_seat_in_use_costs_nobody_anything() {
        let mut seats = seats(4, 1);
        seats.take(Moment::START, Interactive);
        (0..2).for_each(|_| seats.take(Moment::START, Background));
        check(&seats, Background, None);
    }

    #[test]
    fn a_reserve_of_every_seat_still_leaves_one_to_the_others() {
        let seats = seats(2, 9);
        check(&seats, Background, None);
    }

    #[test]
    fn refusals_of_one_burst_teach_the_cap_and_count_once() {
        let mut seats = Seats::default();
        (0..6).for_each(|_| seats.take(Moment::START, Normal));
        // Two of six were accepted; the four refusals come one after the other.
        let mut echoes = 0;
        for permit in 3..=6 {
            let (_, echo) = seats.refused(Moment::START, permit, 6);
            echoes += u32::from(echo);
            seats.free(Normal);
        }
        assert_eq!((seats.learnt(), echoes), (Some(2), 3));
        check(&seats, Normal, Some(Reason::Concurrency));
    }

    #[test]
    fn a_learnt_cap_is_tried_again_after_a_while_and_ever_less_often() {
        let mut seats = Seats::default();
        seats.take(Moment::START, Normal);
        seats.take(Moment::START, Normal);
        seats.refused(Moment::START, 2, 2);
        seats.free(Normal);
        let later = Moment::START + PATIENCE.0;
        seats.free(Normal);
        seats.take(later, Normal);
        assert_eq!(seats.learnt(), Some(2));
        seats.take(later, Normal);
        assert_eq!(seats.refused(later, 4, 4), (Some(1), false));
        seats.free(Normal);
        seats.free(Normal);
        seats.take(later + PATIENCE.0, Normal);
        assert_eq!(seats.learnt(), Some(1));
    }
}
