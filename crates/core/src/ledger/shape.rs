//! How the starts of a quota's calls are kept safe, by how its provider counts.
//!
//! `Q` units per `W`, a bucket of `B`, `R = Q/W`; `J` is the spread of the one-way
//! delay; `c` the largest cost of a call lately.
//!
//! | quota | rule | use at best |
//! | --- | --- | --- |
//! | sliding, fixed (its phase is not known) | at most Q in any W + J | W/(W + J) |
//! | bucket, `B − R·J ≥ c` | a bucket of B − R·J that refills with R | all of it |
//! | bucket, smaller | a start each `c/R + J − (B − c)/R` | 1/(1 + RJ/c − (B − c)/c) |
//! | sliding counter, unknown | starts spaced by (Q − c)/(W + J), and the log | (1 − c/Q)·W/(W + J) |
//! | any that was refused below its limit | as unknown, for good | the same |
//! | sliding, counter, unknown, shared with others | as unknown, with what they leave of Q | that share |
//!
//! Example of the smaller bucket: 60 per 10 s with a burst of 1 and a spread of
//! 200 ms: 167 + 200 − 0 = 367 ms. Source: our own derivation; the tests run each
//! rule against a brute-force model of each provider's.

use crate::policy::{Quota, WindowKind};
use crate::time::Span;

/// A provider's window is open at one end; ours must be longer than it by this.
pub(super) const TICK: Span = Span::from_micros(1);

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// The log alone: bursts are fine.
    Log,
    /// A bucket that refills with `units` per `per` and holds `depth`.
    Bucket { units: u64, per: Span, depth: u64 },
    /// Starts are spaced by `units` per `per`.
    Paced { units: u64, per: Span },
}

/// What a shape follows from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grounds<'q> {
    /// The quota as declared or told.
    pub(super) quota: &'q Quota,
    /// Units that are granted per window: the limit less what is kept free.
    pub(super) cap: u64,
    /// `J`.
    pub(super) spread: Span,
    /// The largest cost of a call lately.
    pub(super) largest: u64,
    /// Whether a refusal proved the declared shape wrong.
    pub(super) misdeclared: bool,
    /// Units that others use per window; `None` if nobody else is known to.
    pub(super) others: Option<u64>,
}

impl Grounds<'_> {
    /// The rule that is safe.
    pub(super) fn shape(&self) -> Shape {
        let paced = || {
            let (units, per) = self.pace();
            Shape::Paced { units, per }
        };
        match self.quota.kind {
            _ if self.misdeclared => paced(),
            // Whoever sends evenly hears how others send.
            WindowKind::Sliding if self.others.is_some() => paced(),
            WindowKind::Sliding | WindowKind::Fixed => Shape::Log,
            WindowKind::TokenBucket { burst } => match self.depth(burst) {
                depth if self.largest.max(1) <= depth => Shape::Bucket {
                    units: self.ours(),
                    per: self.quota.window,
                    depth,
                },
                _ => paced(),
            },
            WindowKind::SlidingCounter | WindowKind::Unknown => paced(),
        }
    }

    /// Units and time of the pacer that is safe for this quota.
    pub(super) fn pace(&self) -> (u64, Span) {
        let (cap, span) = (self.ours(), self.span());
        // More than half of the quota at once can't be spaced against anything.
        let largest = self.largest.clamp(1, (cap / 2).max(1));
        let universal = match (cap, self.quota.kind) {
            // The weighted sum of two windows forgets one call only after both. A
            // limit of one whose shape is unknown is not taken for that.
            (1, WindowKind::SlidingCounter) => (1, span + self.quota.window),
            (1, _) => (1, span),
            _ => (cap - largest, span),
        };
        let WindowKind::TokenBucket { burst } = self.quota.kind else {
            return universal;
        };
        let (per, units) = (self.quota.window, self.quota.limit.max(1));
        let refill = |amount: u64| per.scale(amount, units);
        let above = burst.max(largest) - largest;
        let spacing = (refill(largest) + TICK + self.spread).saturating_sub(refill(above));
        let wider = universal.1.as_micros().saturating_mul(largest)
            < spacing.saturating_mul(universal.0).as_micros();
        if wider { (largest, spacing) } else { universal }
    }

    /// Window and spread: the time for which a send counts.
    pub(super) fn span(&self) -> Span {
        self.quota.window + self.spread + TICK
    }

    /// What others leave.
    fn ours(&self) -> u64 {
        let least = (self.cap / 10).max(1);
        self.cap.saturating_sub(self.others.unwrap_or(0)).max(least)
    }

    /// What is left of a bucket once the spread has bunched its calls.
    fn depth(&self, burst: u64) -> u64 {
        let limit = self.quota.limit.max(1);
        // What is kept free of the rate is kept free of the bucket, too.
        let kept = u128::from(burst) * u128::from(self.cap) / u128::from(limit);
        let bunched = (u128::from(self.spread.as_micros()) * u128::from(self.cap))
            .div_ceil(u128::from(self.quota.window.as_micros()).max(1));
        u64::try_from(kept.saturating_sub(bunched)).unwrap_or(u64::MAX)
    }
}

/// The largest cost of a call lately: of this span and the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Largest {
    before: u64,
    now: u64,
    since: crate::time::Moment,
}

impl Largest {
    /// The largest of both spans.
    pub(super) fn get(&self) -> u64 {
        self.before.max(self.now)
    }

    /// A call of this cost goes. Returns whether the largest is another one now.
    pub(super) fn note(&mut self, now: crate::time::Moment, span: Span, cost: u64) -> bool {
        let known = self.get();
        if self.since + span <= now {
            self.before = if self.since + span + span <= now {
                0
            } else {
                self.now
            };
            self.now = 0;
            self.since = now;
        }
        self.now = self.now.max(cost);
        known != self.get()
    }
}
