//! Even spacing of lower ranks, one for each scope, so that a person never waits
//! for a window that background work spent in its first second.
//!
//! # The rule
//! While a better rank was seen within the last hour, the calls below it go
//! evenly, at the pace of the whole quota with a burst of 5 % of it (one at
//! least). Otherwise they may burst. Nothing is kept free for the better rank: it
//! goes first, at any time, and evenly spent slots come back evenly.
//!
//! The spacing is one *line* (the generic cell rate algorithm): each call of cost
//! c, of whatever rank, moves the line's end by c·T, T = per / units, and a spaced
//! call may go up to (burst − c)·T before the end. Calls of the better rank count
//! too, so lower ones step back by what it used and the window never holds more
//! than Q and a burst. Calls are also counted while nobody is spaced, so that a
//! burst that was just sent is known when somebody better comes.
//!
//! A better rank that uses everything keeps the line's end ahead for ever. That
//! starves nobody, because spacing only *holds* a call ([`super::Way::Held`]): a
//! rank that is owed its floor goes all the same.
//!
//! # Example
//! 60 calls in 10.2 s: T = 170 ms, burst 3. After a rest three background calls
//! go at once, the next after 170 ms and so on. An interactive call at once uses
//! 170 ms of the line, so the next background call goes 340 ms after the latest.
//! With three interactive agents, a call every 1.5 s each, and background work
//! without end, interactive calls wait 0.2 to 0.4 s in the 95th percentile and 98 %
//! of the quota is used; with priority alone they wait 9.7 s, because the window
//! is spent when they come (both are tests of the scheduler). Counting only the
//! lower ranks' own calls on the line gives 2.4 s: they then use the whole pace
//! beside what interactive work takes, and the window fills.
//!
//! Source: ITU-T I.371, Annex A (virtual scheduling).

use super::floors::RANKS;
use crate::cost::Cost;
use crate::time::{Moment, Span};
use crate::word::Priority;

/// For how long a better rank keeps lower ones spaced after its latest call.
pub const SEEN_FOR: Span = Span::from_secs(3_600);

/// The part of the quota that may go at once: one in this many, 5 %.
const BURST_PART: u64 = 20;

/// How much a scope may send: `units` in any span of `per`. The window of the
/// quota with its margin for jitter: Q in W + J.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Units of cost; zero counts as one.
    pub units: u64,
    /// The span.
    pub per: Span,
}

impl Pace {
    /// How long `units` of cost take at this pace, rounded up.
    fn time(self, units: u64) -> Fine {
        let whole = Fine::of(self.per.as_micros()).0 * u128::from(units);
        Fine(whole.div_ceil(u128::from(self.units.max(1))))
    }

    fn burst(self) -> u64 {
        (self.units / BURST_PART).max(1)
    }
}

/// A moment or a length in 2⁻²⁰ of a microsecond.
///
/// Fine enough that rounding T for a million calls a minute moves the pace by
/// less than a millionth. A product with the largest cost stays below 2¹²⁸.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Fine(u128);

impl Fine {
    const BITS: u32 = 20;

    fn of(micros: u64) -> Fine {
        Fine(u128::from(micros) << Fine::BITS)
    }

    /// Rounded up: never early.
    fn moment(self) -> Moment {
        let micros = self.0.div_ceil(1 << Fine::BITS);
        Moment::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    fn plus(self, length: Fine) -> Fine {
        Fine(self.0.saturating_add(length.0))
    }

    fn minus(self, length: Fine) -> Fine {
        Fine(self.0.saturating_sub(length.0))
    }
}

/// The spacing of one scope. A few words of memory, constant time.
#[derive(Clone, Debug, Default)]
pub struct Spacing {
    /// The latest call of each rank.
    seen: [Option<Moment>; RANKS],
    /// The end of the line.
    end: Fine,
}

impl Spacing {
    /// A scope that has sent nothing.
    pub fn new() -> Spacing {
        Spacing::default()
    }

    /// A call of this rank came, whether or not it can go.
    pub fn seen(&mut self, now: Moment, priority: Priority) {
        let seen = &mut self.seen[priority as usize];
        *seen = (*seen).max(Some(now));
    }

    /// Until when a rank is spaced: an hour after the latest call of a better
    /// one. `None` if it may burst.
    pub fn spaced_until(&self, now: Moment, priority: Priority) -> Option<Moment> {
        let latest = self.seen[..priority as usize].iter().flatten().max()?;
        let until = *latest + SEEN_FOR;
        (until > now).then_some(until)
    }

    /// From when a call of this rank may go as far as spacing is concerned; `now`
    /// if at once. `pace` is the scope's, `None` if none is known.
    pub fn free_at(
        &self,
        now: Moment,
        priority: Priority,
        cost: Cost,
        pace: Option<Pace>,
    ) -> Moment {
        let (Some(pace), Some(until)) = (pace, self.spaced_until(now, priority)) else {
            return now;
        };
        let early = pace.burst().saturating_sub(units(cost));
        let free = self.end.minus(pace.time(early)).moment();
        free.min(until).max(now)
    }

    /// A call goes, of whatever rank: it is granted, so that a second one at the
    /// same moment finds it on the line.
    pub fn sent(&mut self, now: Moment, cost: Cost, pace: Option<Pace>) {
        let Some(pace) = pace else { return };
        let at = Fine::of(now.as_micros());
        let length = pace.time(units(cost));
        // After a pace that shrank, or a window that was overrun, the line is
        // never longer than one window: by then all of it has come back.
        let window = Fine::of(pace.per.as_micros()).max(length);
        self.end = self.end.max(at).plus(length).min(at.plus(window));
    }

    /// What was granted was certainly not sent.
    pub fn give_back(&mut self, cost: Cost, pace: Option<Pace>) {
        if let Some(pace) = pace {
            self.end = self.end.minus(pace.time(units(cost)));
        }
    }
}

fn units(cost: Cost) -> u64 {
    u64::from(cost.calls())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Priority::{Background, Interactive, Normal};

    const PACE: Pace = Pace {
        units: 60,
        per: Span::from_millis(10_200),
    };

    fn ms(ms: u64) -> Moment {
        Moment::from_micros(1_000_000_000 + ms * 1_000)
    }

    /// When calls of a rank go that all wait from 0 ms on, until `end`.
    fn goes(spacing: &mut Spacing, priority: Priority, end: Moment) -> Vec<Moment> {
        let mut went = Vec::new();
        let mut now = ms(0);
        loop {
            let free = spacing.free_at(now, priority, Cost::ONE, Some(PACE));
            if free > end || went.len() == 100 {
                return went;
            }
            now = free;
            spacing.sent(now, Cost::ONE, Some(PACE));
            went.push(now);
        }
    }

    #[test]
    fn lower_ranks_burst_while_nobody_better_was_seen() {
        let mut spacing = Spacing::new();
        spacing.seen(ms(0), Normal);
        spacing.seen(ms(0), Background);
        assert_eq!(goes(&mut spacing, Normal, ms(0)).len(), 100);
    }

    #[test]
    fn the_best_rank_is_never_spaced() {
        let mut spacing = Spacing::new();
        Priority::ALL.iter().for_each(|p| spacing.seen(ms(0), *p));
        assert_eq!(goes(&mut spacing, Interactive, ms(0)).len(), 100);
    }

    #[test]
    fn spaced_calls_go_at_the_pace_of_the_quota_after_a_small_burst() {
        let mut spacing = Spacing::new();
        spacing.seen(ms(0), Interactive);
        let went = goes(&mut spacing, Background, ms(1_000));
        assert_eq!(went, [0, 0, 0, 170, 340, 510, 680, 850].map(ms));
    }

    #[test]
    fn a_better_call_puts_the_lower_ones_off_by_what_it_used() {
        let mut spacing = Spacing::new();
        spacing.seen(ms(0), Interactive);
        goes(&mut spacing, Background, ms(0));
        spacing.sent(ms(10), Cost::ONE, Some(PACE));
        assert_eq!(
            spacing.free_at(ms(20), Background, Cost::ONE, Some(PACE)),
            ms(340)
        );
        spacing.give_back(Cost::ONE, Some(PACE));
        assert_eq!(
            spacing.free_at(ms(20), Background, Cost::ONE, Some(PACE)),
            ms(170)
        );
    }

    #[test]
    fn the_hour_ends_the_spacing() {
        let mut spacing = Spacing::new();
        spacing.seen(ms(0), Interactive);
        assert_eq!(spacing.spaced_until(ms(1), Background), Some(ms(3_600_000)));
        assert_eq!(spacing.spaced_until(ms(3_600_000), Background), None);
        let day = Pace {
            units: 10,
            per: Span::from_secs(86_400),
        };
        spacing.sent(ms(0), Cost::ONE, Some(day));
        let free = spacing.free_at(ms(1), Background, Cost::ONE, Some(day));
        assert_eq!(free, ms(3_600_000), "not later than the end of the hour");
    }

    #[test]
    fn a_burst_before_the_better_rank_came_is_remembered_for_one_window() {
        let mut spacing = Spacing::new();
        assert_eq!(goes(&mut spacing, Background, ms(0)).len(), 100);
        spacing.seen(ms(0), Interactive);
        let free = spacing.free_at(ms(0), Background, Cost::ONE, Some(PACE));
        assert_eq!(free, ms(10_200 - 340));
    }

    #[test]
    fn an_unknown_pace_spaces_nothing() {
        let mut spacing = Spacing::new();
        spacing.seen(ms(0), Interactive);
        spacing.sent(ms(0), Cost::ONE, None);
        assert_eq!(spacing.free_at(ms(0), Background, Cost::ONE, None), ms(0));
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let mut spacing = Spacing::new();
        let slow = Some(Pace {
            units: 0,
            per: Span::MAX,
        });
        let cost = Cost::requests(u32::MAX);
        spacing.seen(Moment::NEVER, Interactive);
        spacing.sent(Moment::NEVER, cost, slow);
        spacing.give_back(cost, slow);
        assert_eq!(
            spacing.free_at(Moment::NEVER, Background, cost, slow),
            Moment::NEVER
        );
    }
}
