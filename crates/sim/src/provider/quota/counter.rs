//! What one level has counted, in whole numbers.
//!
//! A refusal that counts is one more call in a window. A bucket has no past to
//! write it into, so it loses what it has, up to the call's cost: callers that
//! come back faster than it refills never get in.
//!
//! A call whose cost is known only in the end can overdraw a level. A window is
//! then over its limit until it ends; a bucket is in debt and must first refill
//! to zero. What is given back goes to the window that it was taken from, if
//! that still counts: a refund of yesterday's tokens helps nobody today.

use rategov_core::time::{Moment, Span, WallTime};

use super::level::{Level, Standing};
use super::log::Log;

/// A level and what it has counted.
#[derive(Clone, Debug)]
pub struct Counter {
    level: Level,
    /// The wall clock when the provider's clock began, for the calendar.
    start: WallTime,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Windows {
        index: u64,
        current: u64,
        previous: u64,
    },
    Log(Log),
    /// Parts are 1/`per` of a unit, so that the refill is a whole number each
    /// microsecond. Below zero is a debt.
    Bucket {
        parts: i128,
        at: Moment,
    },
    Open(u64),
}

impl Counter {
    /// An unused counter, on a clock that showed `start` at its beginning.
    pub fn new(level: Level, start: WallTime) -> Counter {
        let state = match level {
            Level::Fixed { .. } | Level::Calendar { .. } | Level::SlidingCounter { .. } => {
                State::Windows {
                    index: 0,
                    current: 0,
                    previous: 0,
                }
            }
            Level::SlidingLog { .. } => State::Log(Log::default()),
            Level::Bucket { capacity, per, .. } => State::Bucket {
                parts: whole(capacity, per),
                at: Moment::START,
            },
            Level::Concurrent { .. } => State::Open(0),
        };
        Counter {
            level,
            start,
            state,
        }
    }

    /// Another limit of the same kind and window: what was counted stays. For
    /// any other level counting starts anew.
    pub fn amend(&mut self, level: Level) {
        match self.level.counts_like(level) {
            true => self.level = level,
            false => *self = Counter::new(level, self.start),
        }
    }

    /// The level that it counts for.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Whether a call that needs so many units, at least one, is admitted at `now`.
    pub fn admits(&self, now: Moment, need: u64) -> bool {
        match (self.level, &self.state) {
            (Level::Fixed { limit, .. } | Level::Calendar { limit, .. }, _) => {
                self.windows(now).0.saturating_add(need) <= limit
            }
            (Level::SlidingLog { limit, window }, State::Log(log)) => {
                log.inside(now, window).saturating_add(need) <= limit
            }
            (Level::SlidingCounter { limit, window, .. }, _) => {
                self.weighed(now) + whole(need, window) <= whole(limit, window)
            }
            (Level::Bucket { per, .. }, _) => self.parts(now) >= whole(need, per),
            (Level::Concurrent { limit }, State::Open(open)) => *open < limit,
            _ => unreachable!("a counter's state is made for its level"),
        }
    }

    /// Counts what an admitted call costs.
    pub fn charge(&mut self, now: Moment, units: u64) {
        let parts = self.parts(now);
        match (self.level, &mut self.state) {
            (Level::Bucket { per, .. }, State::Bucket { parts: kept, at }) => {
                (*kept, *at) = (parts - whole(units, per), now);
            }
            (Level::SlidingLog { limit, window }, State::Log(log)) => {
                log.push(now, units, limit, window);
            }
            (Level::Concurrent { .. }, State::Open(open)) => *open += 1,
            _ => {
                let (current, previous) = self.windows(now);
                self.state = State::Windows {
                    index: self.index(now),
                    current: current.saturating_add(units),
                    previous,
                };
            }
        }
    }

    /// Counts a refused call where refusals count. A call that was never let
    /// in holds no place, so a concurrency limit has nothing to count.
    pub fn charge_refused(&mut self, now: Moment, units: u64) {
        match self.level {
            Level::Concurrent { .. } => {}
            Level::Bucket { per, .. } => {
                let held = self.parts(now);
                let lost = whole(units, per).min(held.max(0));
                self.state = State::Bucket {
                    parts: held - lost,
                    at: now,
                };
            }
            _ => self.charge(now, units),
        }
    }

    /// Gives back what a call that was charged at `at` did not use after all.
    pub fn give_back(&mut self, now: Moment, at: Moment, units: u64) {
        let (parts, taken_in) = (self.parts(now), self.index(at));
        match (self.level, &mut self.state) {
            (
                Level::Bucket { capacity, per, .. },
                State::Bucket {
                    parts: kept,
                    at: as_of,
                },
            ) => {
                (*kept, *as_of) = ((parts + whole(units, per)).min(whole(capacity, per)), now);
            }
            (_, State::Log(log)) => log.take_back(at, units),
            (
                _,
                State::Windows {
                    index,
                    current,
                    previous,
                },
            ) => match index.checked_sub(taken_in) {
                Some(0) => *current = current.saturating_sub(units),
                Some(1) => *previous = previous.saturating_sub(units),
                _ => {}
            },
            _ => {}
        }
    }

    /// One open call has ended.
    pub fn release(&mut self) {
        if let State::Open(open) = &mut self.state {
            *open = open.saturating_sub(1);
        }
    }

    /// The earliest moment, not before `now`, at which a call that needs so many
    /// units would be admitted if nobody else calls; `None` if no time helps: an
    /// open call must end, or the call is larger than the limit.
    pub fn free_at(&self, now: Moment, need: u64) -> Option<Moment> {
        if self.admits(now, need) {
            return Some(now);
        }
        match (self.level, &self.state) {
            (Level::Fixed { limit, .. } | Level::Calendar { limit, .. }, _) => {
                (need <= limit).then(|| self.next_window(now))
            }
            (Level::SlidingLog { window, limit }, State::Log(log)) => {
                log.down_to(limit.checked_sub(need)?, now, window)
            }
            (Level::SlidingCounter { limit, window, .. }, _) => {
                let kept = limit.checked_sub(need)?;
                let (current, previous) = self.windows(now);
                Some(match kept.checked_sub(current) {
                    Some(room) => now.back(self.elapsed(now)) + fade(previous, room, window),
                    None => self.next_window(now) + fade(current, kept, window),
                })
            }
            (
                Level::Bucket {
                    capacity,
                    refill,
                    per,
                },
                _,
            ) => {
                let missing = (whole(need, per) - self.parts(now)).max(0);
                (need <= capacity).then(|| now + micros(ceil(missing, refill)))
            }
            (Level::Concurrent { .. }, _) => None,
            _ => unreachable!("a counter's state is made for its level"),
        }
    }

    /// The numbers that headers show; `None` for a concurrency limit.
    pub fn standing(&self, now: Moment) -> Option<Standing> {
        Some(match (self.level, &self.state) {
            (Level::Fixed { limit, .. } | Level::Calendar { limit, .. }, _) => {
                let place = self.level.place(now, self.start)?;
                Standing {
                    limit,
                    remaining: limit.saturating_sub(self.windows(now).0),
                    reset: place.left,
                    full: place.left,
                    window: place.length,
                }
            }
            (Level::SlidingLog { limit, window }, State::Log(log)) => {
                let (reset, full) = log.leaving(now, window);
                Standing {
                    limit,
                    remaining: limit.saturating_sub(log.inside(now, window)),
                    reset,
                    full,
                    window,
                }
            }
            (Level::SlidingCounter { limit, window, .. }, _) => {
                let free = (whole(limit, window) - self.weighed(now)).max(0);
                let place = self.level.place(now, self.start)?;
                let full = match self.windows(now) {
                    (0, 0) => Span::ZERO,
                    (0, _) => place.left,
                    _ => place.left + window,
                };
                Standing {
                    limit,
                    remaining: units_of(free, window).min(limit),
                    reset: place.left,
                    full,
                    window,
                }
            }
            (
                Level::Bucket {
                    capacity,
                    refill,
                    per,
                },
                _,
            ) => {
                let parts = self.parts(now);
                let missing = micros(ceil(whole(capacity, per) - parts, refill));
                Standing {
                    limit: capacity,
                    remaining: units_of(parts.max(0), per),
                    reset: missing,
                    full: missing,
                    window: micros(ceil(whole(capacity, per), refill)),
                }
            }
            (Level::Concurrent { .. }, _) => return None,
            _ => unreachable!("a counter's state is made for its level"),
        })
    }

    /// Units counted in the window around `now` and in the one before it.
    fn windows(&self, now: Moment) -> (u64, u64) {
        let State::Windows {
            index: seen,
            current,
            previous,
        } = self.state
        else {
            return (0, 0);
        };
        match self.index(now).saturating_sub(seen) {
            0 => (current, previous),
            1 => (0, current),
            _ => (0, 0),
        }
    }

    /// Both windows of a sliding counter, the older one faded, in units times
    /// the window.
    fn weighed(&self, now: Moment) -> i128 {
        let (current, previous) = self.windows(now);
        let place = self.level.place(now, self.start);
        place.map_or(0, |place| {
            whole(previous, place.left) + whole(current, place.length)
        })
    }

    /// The bucket's parts after its refill up to `now`.
    fn parts(&self, now: Moment) -> i128 {
        match (self.level, &self.state) {
            (
                Level::Bucket {
                    capacity,
                    refill,
                    per,
                },
                State::Bucket { parts, at },
            ) => (parts + whole(refill, now.since(*at))).min(whole(capacity, per)),
            _ => 0,
        }
    }

    fn index(&self, now: Moment) -> u64 {
        let place = self.level.place(now, self.start);
        place.map_or(0, |place| place.index)
    }

    fn elapsed(&self, now: Moment) -> Span {
        let place = self.level.place(now, self.start);
        place.map_or(Span::ZERO, |place| place.elapsed)
    }

    fn next_window(&self, now: Moment) -> Moment {
        let place = self.level.place(now, self.start);
        place.map_or(now, |place| now + place.left)
    }
}

/// `n` units in parts of one microsecond of `span`.
fn whole(n: u64, span: Span) -> i128 {
    i128::from(n) * i128::from(span.as_micros())
}

fn units_of(parts: i128, span: Span) -> u64 {
    u64::try_from(parts / whole(1, span).max(1)).unwrap_or(u64::MAX)
}

/// How far into the window `previous` units have faded to at most `room`.
fn fade(previous: u64, room: u64, window: Span) -> Span {
    // previous·(W − e) ≤ room·W, so e ≥ W − room·W / previous.
    let kept = whole(room, window) / i128::from(previous.max(1));
    window.saturating_sub(micros(kept))
}

fn ceil(parts: i128, by: u64) -> i128 {
    let by = i128::from(by.max(1));
    (parts + by - 1) / by
}

fn micros(us: i128) -> Span {
    Span::from_micros(u64::try_from(us).unwrap_or(u64::MAX))
}
