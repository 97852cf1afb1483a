//! What refusals alone teach about a limit that nobody named.
//!
//! **How fast.** When a scope is refused and later accepts again, the provider
//! took some number of units in the time from the first of them until the hold
//! was over. Counted from where the provider's window began that is the true
//! rate, and counted from elsewhere it is less. So the estimate is the
//! **largest** of units/time over all beginnings: never below the provider's
//! rate. A refusal teaches only from what went shortly before it, five units
//! at least, or three if it follows another: else a scope that was hardly used,
//! and refused because of somebody else, would be throttled to that little use.
//!
//! Example: 60 per sliding 10 s, nothing declared. Sixty calls are accepted
//! within 1.0 s, the next is refused with `Retry-After: 9`. Beginning with the
//! first: 60/(1.0 + 9) = 6.0/s; with the thirty-first: 30/(0.5 + 9) = 3.2/s.
//! Learnt: 6.0/s, paced at 0.98 of it.
//! A bucket of 10 with 6/s: eleven accepted in 0.2 s, `Retry-After: 1`: 11/1.2 =
//! 9.2/s, too much by what the full bucket gave. Paced at 9/s it is refused
//! after two seconds, with 18/(2 + 1) = 6.0/s.
//!
//! **How far.** From there loss-based discovery: + 1 % each window (at least
//! 10 s) in which the rate was really used, doubling to 8 % while no upper
//! bound was met. At a loss: the newly measured rate, or half way from there to
//! the last one that held for a window if that was more, but less than the one
//! that was refused; and 0.85 of that at most if it was refused within 20 s.
//! Then no growth for 10 minutes.
//! Source: `research/quota.md` §3c "closing the last percent", derived anew for holds.

use std::collections::VecDeque;

use super::call::PermitId;
use super::pacer::Pacer;
use super::ramp::SAFE_PERMILLE;
use crate::time::{Moment, Span};

/// Entries of a history; older ones are merged two by two.
const BUCKETS_MAX: usize = 256;
/// So many units prove a rate at a first refusal, and at a second one soon
/// after; from the third on a single one does.
const UNITS_BY_ROW: [u64; 2] = [5, 3];
/// They must have gone within this, or twice the hold, before the refusal.
const REACH: Span = Span::from_secs(60);
/// As many units make a measurement that is trusted for a long while.
const UNITS_SURE: u64 = 20;
/// The shortest time after which a rate grows, and in which it is shown.
const GROWS_AFTER: Span = Span::from_secs(10);
/// Growth in thousandths: at first, and at most.
const GROWTH_PERMILLE: (u64, u64) = (10, 80);
/// Share of the rate that must have been used for it to grow, in thousandths.
const USED_PERMILLE: u64 = 800;
/// No growth for this long after a loss that was measured well.
const QUIET: Span = Span::from_secs(600);
/// The same where the end of the hold was guessed, so that the rate is too low.
const QUIET_GUESSED: Span = Span::from_secs(60);
/// A loss so soon after the scope opened means that the rate was far too high.
const SOON: Span = Span::from_secs(20);
/// The cut then, and without a measurement, as a fraction of the old rate.
const CUT: (u64, u64) = (85, 100);
/// The deepest cut at once: a quarter of the old rate.
const DEEPEST_CUT: u64 = 4;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    start: Moment,
    units: u64,
}

/// What was sent since the scope last opened, coarser the longer ago.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    buckets: VecDeque<Bucket>,
}

/// How sure it is that it was our own rate that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// No rate is learnt yet.
    Row {
        /// When the refused call left.
        refused_at: Moment,
        /// How many refusals went before it, each soon after the last.
        nth: usize,
    },
    /// A learnt rate was refused.
    Known,
}

/// A rate that a refusal proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measured {
    /// Units that were accepted …
    pub(super) units: u64,
    /// … in this time.
    pub(super) span: Span,
}

impl Measured {
    fn spacing(self) -> Span {
        self.span
            .scale(1, self.units.max(1))
            .max(Span::from_micros(1))
    }
}

impl History {
    /// A call left.
    pub(super) fn push(&mut self, now: Moment, units: u64) {
        match self.buckets.back_mut() {
            Some(last) if last.start == now => last.units += units,
            _ => self.buckets.push_back(Bucket { start: now, units }),
        }
        if BUCKETS_MAX < self.buckets.len() {
            self.merge();
        }
    }

    /// A call that left was refused, or had not left after all.
    pub(super) fn remove(&mut self, sent_at: Moment, units: u64) {
        let after = self
            .buckets
            .partition_point(|bucket| bucket.start <= sent_at);
        if let Some(index) = after.checked_sub(1) {
            let bucket = &mut self.buckets[index];
            bucket.units = bucket.units.saturating_sub(units);
        }
    }

    /// Forgets what left after a call that was refused: it met a closed door too.
    pub(super) fn cut_after(&mut self, refused: Moment) {
        while self
            .buckets
            .back()
            .is_some_and(|bucket| refused < bucket.start)
        {
            self.buckets.pop_back();
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.buckets.clear();
    }

    /// Sends as far as known, oldest first; a group counts at its end.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Moment, u64)> {
        let ends = self
            .buckets
            .iter()
            .skip(1)
            .map(|bucket| bucket.start)
            .chain(self.buckets.back().map(|bucket| bucket.start));
        ends.zip(self.buckets.iter().map(|bucket| bucket.units))
    }

    /// The largest rate over all beginnings, if the provider accepts again from
    /// `opens` on. O([`BUCKETS_MAX`]).
    pub(super) fn measure(&self, opens: Moment, proof: Proof) -> Option<Measured> {
        let (since, units_min) = match proof {
            Proof::Row { refused_at, nth } => {
                let held = opens.since(refused_at);
                let reach = held.saturating_mul(2).max(REACH);
                let units = UNITS_BY_ROW.get(nth).copied().unwrap_or(1);
                (refused_at.back(reach), units)
            }
            Proof::Known => (Moment::START, 1),
        };
        let mut units = 0;
        let mut best: Option<Measured> = None;
        let near = |bucket: &&Bucket| since <= bucket.start;
        for bucket in self.buckets.iter().rev().take_while(near) {
            units += bucket.units;
            let span = opens.since(bucket.start);
            if units < units_min || span.is_zero() {
                continue;
            }
            let one = Measured { units, span };
            let faster = best.is_none_or(|best| {
                u128::from(best.units) * u128::from(span.as_micros())
                    < u128::from(units) * u128::from(best.span.as_micros())
            });
            if faster {
                best = Some(one);
            }
        }
        best
    }

    /// Halves the older half of the entries.
    fn merge(&mut self) {
        let older = BUCKETS_MAX / 2;
        let mut merged = VecDeque::with_capacity(BUCKETS_MAX + 1);
        for (index, bucket) in self.buckets.drain(..).enumerate() {
            match merged.back_mut() {
                Some(last) if index < older && index % 2 == 1 => {
                    let last: &mut Bucket = last;
                    last.units += bucket.units;
                }
                _ => merged.push_back(bucket),
            }
        }
        self.buckets = merged;
    }
}

/// A rate that was learnt, and its way up and down. See the module.
#[derive(Clone, Debug)]
pub(super) struct Discovery {
    /// The rate as a spacing; paced at [`SAFE_PERMILLE`] of it.
    spacing: Span,
    /// The time in which it was measured.
    window: Span,
    pacer: Pacer,
    since: Moment,
    sent: u64,
    growth_permille: u64,
    quiet_until: Moment,
    /// The last spacing that was used for a whole window and not refused.
    held: Option<Span>,
    /// When the scope last opened.
    woke: Moment,
    /// Whether this rate, or one near it, was ever refused.
    met_bound: bool,
}

impl Discovery {
    /// A first estimate.
    pub(super) fn new(now: Moment, measured: Measured) -> Discovery {
        Discovery::restored(now, measured.spacing(), measured.span)
    }

    /// An estimate that a restart reads back.
    pub(super) fn restored(now: Moment, spacing: Span, window: Span) -> Discovery {
        let spacing = spacing.max(Span::from_micros(1));
        let (units, per) = safe(spacing);
        Discovery {
            spacing,
            // A limit per fraction of a second would say nothing to people.
            window: window.max(GROWS_AFTER),
            pacer: Pacer::new(units, per, Span::ZERO),
            since: now,
            sent: 0,
            growth_permille: GROWTH_PERMILLE.0,
            quiet_until: now,
            held: None,
            woke: now,
            met_bound: false,
        }
    }

    /// The rate was too high. `refused_at` is when the refused call left,
    /// `measured` what went since the scope last opened, and `hinted` says
    /// whether the provider named the end of the hold, or we guessed it.
    pub(super) fn lose(
        &mut self,
        now: Moment,
        refused_at: Moment,
        measured: Option<Measured>,
        hinted: bool,
    ) {
        let old = self.spacing;
        let refused = old.scale(1_000, SAFE_PERMILLE);
        let cut = old.scale(CUT.1, CUT.0);
        let soon = refused_at.since(self.woke) < SOON;
        let wanted = match measured.map(Measured::spacing) {
            Some(measured) if soon => measured.max(cut),
            Some(measured) => {
                let held = self.held.filter(|_| hinted);
                let between = held.map_or(measured, |held| middle(held, measured));
                measured.min(between).max(refused)
            }
            None => cut,
        };
        self.set(wanted.min(old.saturating_mul(DEEPEST_CUT)));
        let sure = measured.is_some_and(|measured| UNITS_SURE <= measured.units);
        let quiet = match (sure, hinted) {
            (true, true) => QUIET,
            (true, false) => QUIET_GUESSED,
            (false, _) => Span::ZERO,
        };
        self.quiet_until = now + quiet.max(self.window);
        self.met_bound = true;
        self.held = None;
        self.growth_permille = GROWTH_PERMILLE.0;
        self.woke = now;
        self.since = now;
        self.sent = 0;
    }

    /// The learnt spacing, without the margin.
    pub(super) fn spacing(&self) -> Span {
        self.spacing
    }

    /// The time in which it was measured.
    pub(super) fn window(&self) -> Span {
        self.window
    }

    /// Units per [`Discovery::window`], at least 1.
    pub(super) fn limit(&self) -> u64 {
        (self.window.as_micros() / self.spacing.as_micros()).max(1)
    }

    /// Units and time of the paced rate.
    pub(super) fn rate(&self) -> (u64, Span) {
        self.pacer.rate()
    }

    /// The next start is not before this.
    pub(super) fn free_at(&self) -> Moment {
        self.pacer.free_at()
    }

    /// A start is granted; the rate grows if it was used for a while.
    pub(super) fn grant(&mut self, now: Moment, units: u64, permit: PermitId) {
        self.grow(now);
        self.pacer.grant(now, units, permit);
        self.sent += units;
    }

    /// A granted start left.
    pub(super) fn left(&mut self, now: Moment, units: u64, permit: PermitId) {
        self.pacer.left(now, units, permit);
    }

    /// A granted start never left.
    pub(super) fn take_back(&mut self, units: u64, permit: PermitId) {
        self.pacer.take_back(permit);
        self.sent = self.sent.saturating_sub(units);
    }

    fn grow(&mut self, now: Moment) {
        let passed = now.since(self.since);
        if passed < self.window {
            return;
        }
        let needed = self.spacing.saturating_mul(self.sent);
        let used = passed.scale(USED_PERMILLE, 1_000) <= needed;
        if used {
            self.held = Some(self.spacing);
        }
        if used && self.quiet_until <= now {
            let factor = 1_000 + self.growth_permille;
            self.set(self.spacing.scale(1_000, factor));
            if !self.met_bound {
                self.growth_permille = (self.growth_permille * 2).min(GROWTH_PERMILLE.1);
            }
        }
        self.since = now;
        self.sent = 0;
    }

    fn set(&mut self, spacing: Span) {
        self.spacing = spacing.max(Span::from_micros(1));
        let (units, per) = safe(self.spacing);
        self.pacer.reshape(units, per, Span::ZERO);
    }
}

/// Half way between two spacings.
fn middle(one: Span, other: Span) -> Span {
    one.scale(1, 2) + other.scale(1, 2)
}

/// The paced rate of a learnt spacing.
fn safe(spacing: Span) -> (u64, Span) {
    (SAFE_PERMILLE, spacing.saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Moment {
        Moment::START + Span::from_millis(ms)
    }

    fn history(sends: impl IntoIterator<Item = u64>) -> History {
        let mut history = History::default();
        sends.into_iter().for_each(|at| history.push(ms(at), 1));
        history
    }

    fn per_second(measured: Option<Measured>) -> u64 {
        measured.map_or(0, |m| m.units * 1_000_000 / m.span.as_micros())
    }

    fn first(refused_ms: u64) -> Proof {
        Proof::Row {
            refused_at: ms(refused_ms),
            nth: 0,
        }
    }

    #[test]
    fn a_burst_of_sixty_and_a_hold_to_ten_seconds_teach_six_per_second() {
        let history = history((0..60).map(|n| n * 16));
        assert_eq!(per_second(history.measure(ms(10_000), first(1_000))), 6);
    }

    #[test]
    fn a_hardly_used_scope_is_not_throttled_to_its_little_use() {
        // One call a minute for an hour, then a refusal that holds for 10 s.
        let history = history((0..60).map(|n| n * 60_000));
        let refused = 59 * 60_000;
        assert_eq!(history.measure(ms(refused + 10_000), first(refused)), None);
        // A learnt rate that is refused must give way, and the densest use counts.
        let again = history.measure(ms(refused + 10_000), Proof::Known);
        assert_eq!(
            again.map(|m| (m.units, m.span)),
            Some((1, Span::from_secs(10)))
        );
    }

    #[test]
    fn a_long_history_is_kept_in_few_entries_and_loses_no_unit() {
        let history = history(0..100_000);
        assert!(history.buckets.len() <= BUCKETS_MAX);
        assert_eq!(history.iter().map(|(_, units)| units).sum::<u64>(), 100_000);
        assert_eq!(per_second(history.measure(ms(200_000), Proof::Known)), 500);
    }

    #[test]
    fn what_left_after_the_refused_call_does_not_count() {
        let mut history = history((0..20).map(|n| n * 10));
        history.cut_after(ms(100));
        history.remove(ms(100), 1);
        assert_eq!(
            history.measure(ms(1_000), Proof::Known).map(|m| m.units),
            Some(10)
        );
    }

    fn discovery(spacing_ms: u64) -> Discovery {
        Discovery::restored(ms(0), Span::from_millis(spacing_ms), Span::from_secs(10))
    }

    /// Uses the rate to the full until `end`.
    fn saturate(discovery: &mut Discovery, end: Moment) {
        let mut id = 0;
        while discovery.free_at() < end {
            let now = discovery.free_at();
            discovery.grant(now, 1, PermitId(id));
            discovery.left(now, 1, PermitId(id));
            id += 1;
        }
    }

    #[test]
    fn a_used_rate_grows_by_one_percent_a_window_and_then_faster() {
        let mut discovery = discovery(100);
        saturate(&mut discovery, ms(10_500));
        assert_eq!(discovery.spacing(), Span::from_micros(99_009));
        saturate(&mut discovery, ms(21_000));
        assert_eq!(discovery.spacing(), Span::from_micros(97_067));
    }

    #[test]
    fn an_unused_rate_does_not_grow() {
        let mut discovery = discovery(100);
        for n in 0..100 {
            discovery.grant(ms(n * 1_000), 1, PermitId(n));
            discovery.left(ms(n * 1_000), 1, PermitId(n));
        }
        assert_eq!(discovery.spacing(), Span::from_millis(100));
    }

    #[test]
    fn a_loss_takes_the_measured_rate_and_a_second_one_soon_cuts() {
        let mut discovery = discovery(100);
        let measured = Measured {
            units: 50,
            span: Span::from_secs(6),
        };
        discovery.lose(ms(60_000), ms(60_000), Some(measured), true);
        assert_eq!(discovery.spacing(), Span::from_millis(120));
        let barely = Measured {
            units: 50,
            span: Span::from_micros(6_000_050),
        };
        discovery.lose(ms(70_000), ms(70_000), Some(barely), true);
        assert_eq!(discovery.spacing(), Span::from_micros(141_176));
        // For ten minutes it stays there.
        saturate(&mut discovery, ms(600_000));
        assert_eq!(discovery.spacing(), Span::from_micros(141_176));
        saturate(&mut discovery, ms(700_000));
        assert!(discovery.spacing() < Span::from_micros(141_176));
    }

    #[test]
    fn a_faster_measurement_than_the_refused_rate_is_not_believed() {
        let mut discovery = discovery(98);
        let absurd = Measured {
            units: 50,
            span: Span::from_secs(1),
        };
        discovery.lose(ms(60_000), ms(60_000), Some(absurd), true);
        assert_eq!(discovery.spacing(), Span::from_millis(100));
    }
}
