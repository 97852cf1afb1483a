//! The kinds of limit, each with its counter in whole numbers.
//!
//! | kind | admits a call at `now` iff | source |
//! |---|---|---|
//! | fixed | fewer than `limit` were counted in the window `[phase + k·W, phase + (k+1)·W)` around `now` | GitHub's hourly limit |
//! | sliding log | fewer than `limit` were counted in `(now − W, now]` | "rolling window" limits |
//! | sliding counter | `previous·(W − e) + (current + 1)·W ≤ limit·W`, `e` into the current fixed window | Cloudflare, "How we built rate limiting" (2017) |
//! | bucket | the bucket, refilled evenly up to its capacity, holds one unit | OpenAI's and Anthropic's headers |
//! | concurrent | fewer than `limit` calls are open | GitHub's 100 at once |
//!
//! A refusal that counts is one more call in a window. A bucket has no past to
//! write it into, so it loses what it has, up to one unit: callers that come
//! back faster than it refills never get in.

use std::collections::VecDeque;

use rategov_core::time::{Moment, Span};

/// Largest limit or capacity of a level, in calls.
pub(super) const LIMIT_MAX: u64 = 1_000_000;

/// One limit. Spans are greater than zero, numbers between 1 and 1,000,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Windows that start anew.
    Fixed {
        /// Calls a window.
        limit: u64,
        /// The window's length.
        window: Span,
        /// Where on the provider's clock one window starts.
        phase: Span,
    },
    /// An exact log of the last window.
    SlidingLog {
        /// Calls in any window.
        limit: u64,
        /// The window's length.
        window: Span,
    },
    /// Two fixed windows, the older one fading.
    SlidingCounter {
        /// Calls a window.
        limit: u64,
        /// The window's length.
        window: Span,
        /// Where on the provider's clock one window starts.
        phase: Span,
    },
    /// A bucket, full at the start.
    Bucket {
        /// Calls it holds.
        capacity: u64,
        /// Calls that flow back, evenly, in each `per`.
        refill: u64,
        /// The time of one refill.
        per: Span,
    },
    /// Open calls.
    Concurrent {
        /// Calls that may be open at once.
        limit: u64,
    },
}

/// Where a windowed level stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Calls a window, or the bucket's capacity.
    pub limit: u64,
    /// Whole calls that would be admitted now.
    pub remaining: u64,
    /// Until the budget is whole again if nobody calls: the window's end, or
    /// the time until the bucket is full. A sliding log names the moment at
    /// which its oldest call leaves.
    pub reset: Span,
    /// The window's length; for a bucket the time to fill it from empty.
    pub window: Span,
}

/// A level and what it has counted.
#[derive(Clone, Debug)]
pub struct Counter {
    level: Level,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Windows {
        index: u64,
        current: u64,
        previous: u64,
    },
    Log(VecDeque<Moment>),
    /// Units are 1/`per` of a call, so that the refill is a whole number each microsecond.
    Bucket {
        units: u128,
        at: Moment,
    },
    Open(u64),
}

impl Counter {
    /// An unused counter.
    pub fn new(level: Level) -> Counter {
        let state = match level {
            Level::Fixed { .. } | Level::SlidingCounter { .. } => State::Windows {
                index: 0,
                current: 0,
                previous: 0,
            },
            Level::SlidingLog { .. } => State::Log(VecDeque::new()),
            Level::Bucket { capacity, per, .. } => State::Bucket {
                units: whole(capacity, per),
                at: Moment::START,
            },
            Level::Concurrent { .. } => State::Open(0),
        };
        Counter { level, state }
    }

    /// Another limit of the same kind and window: what was counted stays. For
    /// any other level counting starts anew.
    pub fn amend(&mut self, level: Level) {
        let keeps = match (self.level, level) {
            (
                Level::Fixed { window, phase, .. },
                Level::Fixed {
                    window: other,
                    phase: shifted,
                    ..
                },
            )
            | (
                Level::SlidingCounter { window, phase, .. },
                Level::SlidingCounter {
                    window: other,
                    phase: shifted,
                    ..
                },
            ) => (window, phase) == (other, shifted),
            (Level::SlidingLog { window, .. }, Level::SlidingLog { window: other, .. }) => {
                window == other
            }
            (Level::Bucket { per, .. }, Level::Bucket { per: other, .. }) => per == other,
            (Level::Concurrent { .. }, Level::Concurrent { .. }) => true,
            _ => false,
        };
        match keeps {
            true => self.level = level,
            false => *self = Counter::new(level),
        }
    }

    /// The level that it counts for.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Whether one more call is admitted at `now`.
    pub fn admits(&self, now: Moment) -> bool {
        match (self.level, &self.state) {
            (
                Level::Fixed {
                    limit,
                    window,
                    phase,
                },
                State::Windows { .. },
            ) => self.windows(now, window, phase).0 < limit,
            (Level::SlidingLog { limit, window }, State::Log(log)) => {
                in_window(log, now, window) < limit
            }
            (
                Level::SlidingCounter {
                    limit,
                    window,
                    phase,
                },
                State::Windows { .. },
            ) => {
                let (current, previous) = self.windows(now, window, phase);
                let left = window.saturating_sub(elapsed(now, window, phase));
                faded(previous, left) + whole(current + 1, window) <= whole(limit, window)
            }
            (Level::Bucket { per, .. }, State::Bucket { .. }) => self.units(now) >= whole(1, per),
            (Level::Concurrent { limit }, State::Open(open)) => *open < limit,
            _ => unreachable!("a counter's state is made for its level"),
        }
    }

    /// Counts an admitted call.
    pub fn charge(&mut self, now: Moment) {
        let units = self.units(now);
        match (self.level, &mut self.state) {
            (Level::Bucket { per, .. }, State::Bucket { units: kept, at }) => {
                (*kept, *at) = (units.saturating_sub(whole(1, per)), now);
            }
            (Level::SlidingLog { limit, .. }, State::Log(log)) => {
                // Only the newest `limit` calls can ever refuse another one.
                while log.len() as u64 >= limit {
                    log.pop_front();
                }
                log.push_back(now);
            }
            (
                Level::Fixed { window, phase, .. } | Level::SlidingCounter { window, phase, .. },
                _,
            ) => {
                let (current, previous) = self.windows(now, window, phase);
                let index = index(now, window, phase);
                self.state = State::Windows {
                    index,
                    current: current + 1,
                    previous,
                };
            }
            (Level::Concurrent { .. }, State::Open(open)) => *open += 1,
            _ => unreachable!("a counter's state is made for its level"),
        }
    }

    /// Counts a refused call where refusals count. A call that was never let
    /// in holds no place, so a concurrency limit has nothing to count.
    pub fn charge_refused(&mut self, now: Moment) {
        if !matches!(self.level, Level::Concurrent { .. }) {
            self.charge(now);
        }
    }

    /// One open call has ended.
    pub fn release(&mut self) {
        if let State::Open(open) = &mut self.state {
            *open = open.saturating_sub(1);
        }
    }

    /// The earliest moment, not before `now`, at which one call would be
    /// admitted if nobody else calls; `None` if that depends on an open call.
    pub fn free_at(&self, now: Moment) -> Option<Moment> {
        if self.admits(now) {
            return Some(now);
        }
        Some(match (self.level, &self.state) {
            (Level::Fixed { window, phase, .. }, _) => next_start(now, window, phase),
            (Level::SlidingLog { window, limit }, State::Log(log)) => {
                // The call that must leave is the limit-th newest.
                log[log.len() - limit as usize] + window
            }
            (
                Level::SlidingCounter {
                    limit,
                    window,
                    phase,
                },
                _,
            ) => {
                let (current, previous) = self.windows(now, window, phase);
                if current < limit {
                    now.back(elapsed(now, window, phase)) + fade(previous, limit - current, window)
                } else {
                    next_start(now, window, phase) + fade(current, limit, window)
                }
            }
            (Level::Bucket { refill, per, .. }, _) => {
                now + micros(
                    whole(1, per)
                        .saturating_sub(self.units(now))
                        .div_ceil(refill.into()),
                )
            }
            (Level::Concurrent { .. }, _) => return None,
            _ => unreachable!("a counter's state is made for its level"),
        })
    }

    /// The numbers that headers show; `None` for a concurrency limit.
    pub fn standing(&self, now: Moment) -> Option<Standing> {
        Some(match (self.level, &self.state) {
            (
                Level::Fixed {
                    limit,
                    window,
                    phase,
                },
                _,
            ) => Standing {
                limit,
                remaining: limit.saturating_sub(self.windows(now, window, phase).0),
                reset: next_start(now, window, phase).since(now),
                window,
            },
            (Level::SlidingLog { limit, window }, State::Log(log)) => Standing {
                limit,
                remaining: limit.saturating_sub(in_window(log, now, window)),
                reset: log
                    .get(gone(log, now, window))
                    .map_or(Span::ZERO, |oldest| (*oldest + window).since(now)),
                window,
            },
            (
                Level::SlidingCounter {
                    limit,
                    window,
                    phase,
                },
                _,
            ) => {
                let (current, previous) = self.windows(now, window, phase);
                let left = window.saturating_sub(elapsed(now, window, phase));
                let used = faded(previous, left) + whole(current, window);
                let free =
                    whole(limit, window).saturating_sub(used) / u128::from(window.as_micros());
                Standing {
                    limit,
                    remaining: u64::try_from(free).unwrap_or(limit),
                    reset: next_start(now, window, phase).since(now),
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
                let refill = u128::from(refill);
                let missing = whole(capacity, per).saturating_sub(self.units(now));
                Standing {
                    limit: capacity,
                    remaining: u64::try_from(self.units(now) / whole(1, per)).unwrap_or(capacity),
                    reset: micros(missing.div_ceil(refill)),
                    window: micros(whole(capacity, per).div_ceil(refill)),
                }
            }
            (Level::Concurrent { .. }, _) => return None,
            _ => unreachable!("a counter's state is made for its level"),
        })
    }

    /// Calls counted in the window around `now` and in the one before it.
    fn windows(&self, now: Moment, window: Span, phase: Span) -> (u64, u64) {
        let State::Windows {
            index: seen,
            current,
            previous,
        } = self.state
        else {
            return (0, 0);
        };
        match index(now, window, phase).saturating_sub(seen) {
            0 => (current, previous),
            1 => (0, current),
            _ => (0, 0),
        }
    }

    /// The bucket's units after its refill up to `now`.
    fn units(&self, now: Moment) -> u128 {
        let Level::Bucket {
            capacity,
            refill,
            per,
        } = self.level
        else {
            return 0;
        };
        let State::Bucket { units, at } = self.state else {
            return 0;
        };
        let flowed = u128::from(now.since(at).as_micros()) * u128::from(refill);
        (units + flowed).min(whole(capacity, per))
    }
}

/// How many of the oldest calls have left the window `(now − window, now]`.
fn gone(log: &VecDeque<Moment>, now: Moment, window: Span) -> usize {
    log.partition_point(|at| now.since(*at) >= window)
}

/// Calls in `(now − window, now]`.
fn in_window(log: &VecDeque<Moment>, now: Moment, window: Span) -> u64 {
    (log.len() - gone(log, now, window)) as u64
}

/// Which window `now` is in. The first one may be cut short by the phase.
fn index(now: Moment, window: Span, phase: Span) -> u64 {
    shifted(now, window, phase) / window.as_micros()
}

/// How far `now` is into its window.
fn elapsed(now: Moment, window: Span, phase: Span) -> Span {
    Span::from_micros(shifted(now, window, phase) % window.as_micros())
}

/// The clock moved so that windows start at whole multiples of their length.
fn shifted(now: Moment, window: Span, phase: Span) -> u64 {
    let offset = window.as_micros() - phase.as_micros() % window.as_micros();
    now.as_micros().saturating_add(offset)
}

fn next_start(now: Moment, window: Span, phase: Span) -> Moment {
    now + window.saturating_sub(elapsed(now, window, phase))
}

/// `n` calls in units of one microsecond of `span`.
fn whole(n: u64, span: Span) -> u128 {
    u128::from(n) * u128::from(span.as_micros())
}

/// What `previous` calls still weigh when `left` of the window is to go.
fn faded(previous: u64, left: Span) -> u128 {
    whole(previous, left)
}

/// How far into the window the `previous` calls have faded to at most `room − 1`.
fn fade(previous: u64, room: u64, window: Span) -> Span {
    // previous·(W − e) ≤ (room − 1)·W, so e ≥ W − (room − 1)·W / previous.
    let kept = whole(room - 1, window) / u128::from(previous.max(1));
    window.saturating_sub(micros(kept))
}

fn micros(us: u128) -> Span {
    Span::from_micros(u64::try_from(us).unwrap_or(u64::MAX))
}
