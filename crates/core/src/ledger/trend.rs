//! What changed from one reading to a later one, and what that says.
//!
//! A **stretch** is what lies between two readings of a limit: how much more of it
//! is used, and what of our own went and left in the meantime. When exactly a call
//! arrived is known up to the spread of the way, so our own part is a range.
//!
//! **Does its window start anew?** Then use only grows with what is sent until the
//! reset that was told, and from there on it counts from zero. In a window that
//! slides (or a bucket) each unit leaves by itself. What each rule expected is put
//! against what was told, leaving room for what others may have used; once one was
//! wrong by far more than the other, it is known. Example: 600 a minute, told at a steady 10/s with nothing left. A second
//! later 600 are used as before. Sent: 10 ± 2, left: 10 ± 2. As a sliding window:
//! as expected. As one that starts anew: 8 too few.
//!
//! **How fast do others use it?** What grew beyond our own part, smoothed over some
//! stretches. Between two readings so much is reckoned with, and twice its
//! deviation more.
//!
//! Source: our own derivation; `rategov-sim` judges it against every kind of limit.

use super::window::Log;
use crate::time::{Moment, Span};

/// A stretch is at least this part of a window long, beside what the way blurs at both
/// its ends, and at most.
const STRETCH: (u64, u64) = (64, 4);
/// A rule is out once it was wrong by this share of the limit, within bounds, and the
/// other by a [`CLEARLY`]th of that at most.
const PROOF_SHARE: u64 = 25;
const PROOF: (u64, u64) = (8, 24);
const CLEARLY: u64 = 6;
/// Beyond this many times the proof both are halved, so that what was learnt gives way.
const FORGETS_AT: u64 = 16;
/// Resets are told in whole seconds by many.
const WHOLE_SECOND: Span = Span::from_secs(1);
/// In a burst, so many times as fast as the limit, the way blurs what others use.
const BURST: u64 = 3;
/// The newest stretch weighs a fourth.
const SMOOTHING: i64 = 4;
/// So many stretches in a row without them, and others have gone.
const QUIET_FROM: u32 = 8;
/// Parts of a unit that a rate is kept in.
const PARTS: u64 = 1_000;

/// One reading of a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    /// When its call left.
    pub(super) at: Moment,
    /// Units that were used.
    pub(super) used: u64,
    /// When more is back, as told.
    pub(super) reset_at: Moment,
}

/// What we know of a limit and of our own part in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ours<'l> {
    /// What we sent.
    pub(super) log: &'l Log,
    /// Units per window.
    pub(super) limit: u64,
    /// The window.
    pub(super) window: Span,
    /// How much later than a call one that left before it may arrive.
    pub(super) overtakes: Span,
    /// Whether it is a bucket, which refills evenly.
    pub(super) refills: bool,
    /// Whether it is known to be a window that starts anew.
    pub(super) starts_anew: bool,
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trend {
    base: Option<Sight>,
    /// By how much each rule was wrong.
    anew: u64,
    sliding: u64,
    /// Whether it was seen to start anew, and to slide never since.
    turned: bool,
    starts_anew: Option<bool>,
    /// What others use in a window, in parts of a unit.
    others: i64,
    others_until: Moment,
    /// Stretches in a row in which hardly anything of them was seen.
    quiet: u32,
}

/// A count that is known up to the spread of the way.
#[derive(Clone, Copy, Debug)]
struct Range {
    least: u64,
    most: u64,
}

impl Range {
    const NONE: Range = Range { least: 0, most: 0 };

    /// How far a value lies outside.
    fn misses(low: i64, high: i64, value: i64) -> u64 {
        (low - value).max(value - high).max(0).unsigned_abs()
    }

    fn middle(self) -> i64 {
        i64::try_from((self.least + self.most) / 2).unwrap_or(i64::MAX)
    }
}

impl Trend {
    /// The limit is another one: what was read of it before says nothing.
    pub(super) fn begin_anew(&mut self) {
        self.base = None;
    }

    /// Takes a reading in; `ours` is what we know by then. O(log n).
    pub(super) fn see(&mut self, sight: Sight, ours: &Ours<'_>) {
        let Some(base) = self.base else {
            self.base = Some(sight);
            return;
        };
        let took = sight.at.since(base.at);
        if took < ours.window.scale(1, STRETCH.0) + ours.overtakes + ours.overtakes {
            return;
        }
        self.base = Some(sight);
        let is_long = ours.window.scale(1, STRETCH.1) < took;
        if !is_long {
            self.weigh(base, sight, ours);
        }
        // Within one window that starts anew nothing comes back, however long it takes.
        if !is_long || ours.starts_anew && sight.at < base.reset_at {
            self.reckon(base, sight, ours);
        }
    }

    /// Whether its window starts anew; `None` while that is not known.
    pub(super) fn starts_anew(&self) -> Option<bool> {
        self.starts_anew
    }

    /// Whether others seem to have gone.
    pub(super) fn is_quiet(&self) -> bool {
        QUIET_FROM <= self.quiet
    }

    /// Until when what others used lately is reckoned with.
    pub(super) fn others_until(&self) -> Moment {
        self.others_until
    }

    /// Units that others may use within `span`, by what they used lately.
    pub(super) fn expected(&self, now: Moment, span: Span, window: Span) -> u64 {
        if self.others_until <= now || self.others <= 0 {
            return 0;
        }
        let span = span.min(window);
        let parts = u128::from(self.others.unsigned_abs()) * u128::from(span.as_micros());
        let units = parts.div_ceil(u128::from(window.as_micros().max(1)) * u128::from(PARTS));
        let units = u64::try_from(units).unwrap_or(u64::MAX);
        units.saturating_add(2 * units.isqrt())
    }

    /// What each rule expected.
    fn weigh(&mut self, base: Sight, sight: Sight, ours: &Ours<'_>) {
        let sent = ours.between(base.at, sight.at);
        let (used, before) = (signed(sight.used), signed(base.used));
        let proof = (ours.limit / PROOF_SHARE).clamp(PROOF.0, PROOF.1);
        if let Some(anew) = anew(base, sight, ours, sent) {
            self.anew = self.anew.saturating_add(anew);
            if base.reset_at <= sight.at && proof <= base.used {
                self.turned = anew < proof / CLEARLY.min(proof);
            }
        }
        let left = ours.between(base.at.back(ours.window), sight.at.back(ours.window));
        let low = before + signed(sent.least) - signed(left.most);
        let high = before + signed(sent.most) - signed(left.least);
        let others = ours.others_at_most(sight.at.since(base.at));
        let sliding = Range::misses(low, high.max(0).saturating_add(others), used);
        self.sliding = self.sliding.saturating_add(sliding);
        if self.turned && proof <= self.sliding && self.anew.saturating_mul(CLEARLY) <= self.sliding
        {
            self.starts_anew = Some(true);
        } else if proof <= self.anew && self.sliding.saturating_mul(CLEARLY) <= self.anew {
            self.starts_anew = Some(false);
        }
        if proof.saturating_mul(FORGETS_AT) < self.anew.max(self.sliding) {
            (self.anew, self.sliding) = (self.anew / 2, self.sliding / 2);
        }
    }

    /// What others used in the stretch.
    fn reckon(&mut self, base: Sight, sight: Sight, ours: &Ours<'_>) {
        let is_over = base.reset_at <= sight.at;
        if is_over && self.starts_anew != Some(false) && !ours.refills {
            return;
        }
        let took = sight.at.since(base.at);
        let sent = ours.between(base.at, sight.at);
        let steady = ours
            .limit
            .saturating_mul(BURST)
            .saturating_mul(took.as_micros());
        if steady < sent.most.saturating_mul(ours.window.as_micros()) {
            return;
        }
        let grew = signed(sight.used) - signed(base.used);
        let back = match (ours.refills, self.starts_anew) {
            (true, _) => {
                let refill = u128::from(ours.limit) * u128::from(took.as_micros())
                    / u128::from(ours.window.as_micros().max(1));
                // A full bucket takes nothing back.
                signed(u64::try_from(refill).unwrap_or(u64::MAX).min(base.used))
            }
            (false, Some(false)) => ours
                .between(base.at.back(ours.window), sight.at.back(ours.window))
                .middle(),
            (false, _) => 0,
        };
        let others = grew - sent.middle() + back;
        let factor = ours.window.as_micros().saturating_mul(PARTS) / took.as_micros().max(1);
        let rate = others.saturating_mul(signed(factor));
        self.others += (rate - self.others) / SMOOTHING;
        let hardly = signed((ours.limit / 100).saturating_mul(PARTS));
        self.quiet = match self.others <= hardly {
            true => self.quiet.saturating_add(1),
            false => 0,
        };
        self.others_until = sight.at + ours.window + ours.window;
    }
}

/// By how much a window that starts anew was expected to be used otherwise; `None`
/// if nobody can say which of our calls fell into it.
fn anew(base: Sight, sight: Sight, ours: &Ours<'_>, sent: Range) -> Option<u64> {
    let used = signed(sight.used);
    if sight.at < base.reset_at {
        let before = signed(base.used);
        let (low, high) = (before + signed(sent.least), before + signed(sent.most));
        let others = ours.others_at_most(sight.at.since(base.at));
        return Some(Range::misses(low, high.saturating_add(others), used));
    }
    let latest = base.reset_at;
    if latest + ours.window <= sight.at {
        return None;
    }
    let least = ours.between(latest, sight.at).least;
    let most = ours.between(latest.back(WHOLE_SECOND), sight.at).most;
    let others = ours.others_at_most(sight.at.since(latest.back(WHOLE_SECOND)));
    let high = signed(most).saturating_add(others);
    Some(Range::misses(signed(least), high, used))
}

impl Ours<'_> {
    /// Units that others can have used in a while, if they don't use more than all.
    fn others_at_most(&self, span: Span) -> i64 {
        let units = u128::from(self.limit) * u128::from(span.as_micros())
            / u128::from(self.window.as_micros().max(1));
        i64::try_from(units).unwrap_or(i64::MAX)
    }

    /// Units of ours that arrived between two moments, as far as that is known.
    fn between(&self, from: Moment, to: Moment) -> Range {
        let within = |from: Moment, to: Moment| match from < to {
            true => self.log.used_within(to.since(from), to),
            false => 0,
        };
        if to <= from {
            return Range::NONE;
        }
        Range {
            least: within(from + self.overtakes, to.back(self.overtakes)),
            most: within(from.back(self.overtakes), to + self.overtakes),
        }
    }
}

fn signed(units: u64) -> i64 {
    i64::try_from(units).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Span = Span::from_secs(60);
    const LIMIT: u64 = 600;

    fn ms(ms: u64) -> Moment {
        Moment::START + Span::from_millis(ms)
    }

    /// A world of our calls, one each so many milliseconds, and of others who use so
    /// many units a second; `used` says what of both a reading shows.
    fn after(
        secs: u64,
        others_a_second: u64,
        used: impl Fn(&Log, Moment, u64) -> (u64, Moment),
    ) -> Trend {
        let mut log = Log::new(WINDOW, LIMIT);
        let mut trend = Trend::default();
        for n in 0..secs * 8 {
            let now = ms(n * 125);
            log.push(now, 1);
            let (used, reset_at) = used(&log, now, others_a_second);
            let sight = Sight {
                at: now,
                used,
                reset_at,
            };
            let ours = Ours {
                log: &log,
                limit: LIMIT,
                window: WINDOW,
                overtakes: Span::from_millis(100),
                refills: false,
                starts_anew: false,
            };
            trend.see(sight, &ours);
        }
        trend
    }

    /// A window that started anew at each full minute.
    fn anew(log: &Log, now: Moment, others: u64) -> (u64, Moment) {
        let minute = WINDOW.as_micros();
        let since = Span::from_micros(now.as_micros() % minute);
        let used = log.used_within(since + Span::from_micros(1), now);
        let theirs = others * since.as_micros() / 1_000_000;
        (used + theirs, now.back(since) + WINDOW)
    }

    /// A window that slides, and says when its oldest unit leaves.
    fn sliding(log: &Log, now: Moment, others: u64) -> (u64, Moment) {
        let theirs = others * now.as_micros().min(WINDOW.as_micros()) / 1_000_000;
        (
            log.used_within(WINDOW, now) + theirs,
            now + Span::from_millis(125),
        )
    }

    #[test]
    fn a_window_that_starts_anew_is_known_after_it_did() {
        assert_eq!(after(59, 0, anew).starts_anew(), None);
        assert_eq!(after(200, 0, anew).starts_anew(), Some(true));
        // Others don't make it look otherwise.
        assert_eq!(after(200, 2, anew).starts_anew(), Some(true));
    }

    #[test]
    fn a_window_that_slides_is_none_that_starts_anew() {
        assert_eq!(after(200, 0, sliding).starts_anew(), Some(false));
        assert_eq!(after(200, 2, sliding).starts_anew(), Some(false));
    }

    #[test]
    fn what_others_use_is_what_our_own_part_does_not_explain() {
        let expected = |others| {
            let trend = after(170, others, anew);
            trend.expected(ms(170_000), Span::from_secs(10), WINDOW)
        };
        // A part of one that the way blurred counts as one, with its deviation.
        assert!(expected(0) <= 3, "{}", expected(0));
        // Twenty in ten seconds, and twice the root of it for chance.
        assert!((20..=32).contains(&expected(2)), "{}", expected(2));
        // After two windows without a reading nobody is reckoned with.
        let trend = after(170, 2, anew);
        assert_eq!(trend.expected(ms(300_000), Span::from_secs(10), WINDOW), 0);
    }
}
