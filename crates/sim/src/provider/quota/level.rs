//! The kinds of limit, and the windows that they count in.
//!
//! | kind | admits a call of `n` at `now` iff | source |
//! |---|---|---|
//! | fixed | at most `limit − n` were counted in the window `[phase + k·W, phase + (k+1)·W)` around `now` | GitHub's hourly limit |
//! | calendar | the same in the day or month around `now`, in UTC | Gemini's daily limits, monthly plans |
//! | sliding log | at most `limit − n` were counted in `(now − W, now]` | "rolling window" limits |
//! | sliding counter | `previous·(W − e) + (current + n)·W ≤ limit·W`, `e` into the current fixed window | Cloudflare, "How we built rate limiting" (2017) |
//! | bucket | the bucket, refilled evenly up to its capacity, holds `n` | OpenAI's and Anthropic's headers |
//! | concurrent | fewer than `limit` calls are open | GitHub's 100 at once |
//!
//! A call whose cost is known only in the end asks for one unit at arrival.

use rategov_core::time::{Moment, Span, WallTime};

use super::calendar::Page;

/// Largest limit or capacity of a level, in units.
pub(super) const LIMIT_MAX: u64 = 1_000_000_000_000;

/// One limit. Spans are greater than zero, numbers between 1 and 10¹².
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Windows that start anew.
    Fixed {
        /// Units a window.
        limit: u64,
        /// The window's length.
        window: Span,
        /// Where on the provider's clock one window starts.
        phase: Span,
    },
    /// Days or months in UTC.
    Calendar {
        /// Units a page.
        limit: u64,
        /// Day or month.
        page: Page,
    },
    /// An exact log of the last window.
    SlidingLog {
        /// Units in any window.
        limit: u64,
        /// The window's length.
        window: Span,
    },
    /// Two fixed windows, the older one fading.
    SlidingCounter {
        /// Units a window.
        limit: u64,
        /// The window's length.
        window: Span,
        /// Where on the provider's clock one window starts.
        phase: Span,
    },
    /// A bucket, full at the start.
    Bucket {
        /// Units it holds.
        capacity: u64,
        /// Units that flow back, evenly, in each `per`.
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
    /// Units a window, or the bucket's capacity.
    pub limit: u64,
    /// Whole units that would be admitted now.
    pub remaining: u64,
    /// Until the budget is whole again if nobody calls: the window's end, or
    /// the time until the bucket is full. A sliding log names the moment at
    /// which its oldest call leaves.
    pub reset: Span,
    /// Until nothing is used any more if nobody calls.
    pub full: Span,
    /// The window's length; for a bucket the time to fill it from empty.
    pub window: Span,
}

/// The window around a moment, for levels that count in windows that start anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Which window it is; grows by one. The first may be cut short by the phase.
    pub(super) index: u64,
    /// How far the moment is into it.
    pub(super) elapsed: Span,
    /// Until its end.
    pub(super) left: Span,
    /// Its length.
    pub(super) length: Span,
}

impl Level {
    /// The window around `now`, on a clock that showed `start` at its beginning;
    /// `None` for levels that have none.
    pub(super) fn place(self, now: Moment, start: WallTime) -> Option<Place> {
        match self {
            Level::Fixed { window, phase, .. } | Level::SlidingCounter { window, phase, .. } => {
                let (at, length) = (shifted(now, window, phase), window.as_micros());
                let elapsed = Span::from_micros(at % length);
                Some(Place {
                    index: at / length,
                    elapsed,
                    left: window.saturating_sub(elapsed),
                    length: window,
                })
            }
            Level::Calendar { page, .. } => {
                let around = page.around(now, start);
                Some(Place {
                    index: around.index,
                    elapsed: around.length.saturating_sub(around.left),
                    left: around.left,
                    length: around.length,
                })
            }
            Level::SlidingLog { .. } | Level::Bucket { .. } | Level::Concurrent { .. } => None,
        }
    }

    /// Whether what was counted under this level can be counted on under `other`:
    /// only the limit differs.
    pub(super) fn counts_like(self, other: Level) -> bool {
        match (self, other) {
            (
                Level::Fixed { window, phase, .. },
                Level::Fixed {
                    window: w,
                    phase: p,
                    ..
                },
            )
            | (
                Level::SlidingCounter { window, phase, .. },
                Level::SlidingCounter {
                    window: w,
                    phase: p,
                    ..
                },
            ) => (window, phase) == (w, p),
            (Level::SlidingLog { window, .. }, Level::SlidingLog { window: w, .. }) => window == w,
            (Level::Calendar { page, .. }, Level::Calendar { page: p, .. }) => page == p,
            (Level::Bucket { per, .. }, Level::Bucket { per: p, .. }) => per == p,
            (Level::Concurrent { .. }, Level::Concurrent { .. }) => true,
            _ => false,
        }
    }
}

/// The clock moved so that windows start at whole multiples of their length.
fn shifted(now: Moment, window: Span, phase: Span) -> u64 {
    let offset = window.as_micros() - phase.as_micros() % window.as_micros();
    now.as_micros().saturating_add(offset)
}
