//! One quota of one scope, in one dimension: what is spent, what fits, when it fits.
//!
//! How starts are kept safe follows from how the provider counts; [`super::shape`]
//! has the table. Beside it the log of W + J holds in any case but a bucket's, and
//! of a quota that only headers told, whatever they say is left may go; once
//! their resets grow with use, it is taken for a bucket.
//!
//! J is the spread of the one-way delay: 2 % of W, or less once it is measured.
//!
//! **A call larger than the quota** goes when nothing else is spent, and what
//! it takes beyond the quota is a debt that leaves with it. A call that uses
//! nothing of the dimension is never in its way.

use super::bucket::Bucket;
use super::call::{Origin, PermitId, Rate, Reason};
use super::headers::{Own, Told, Word, overtakes};
use super::pacer::Pacer;
use super::shape::{Grounds, Largest, Shape};
use super::window::Log;
use crate::cost::Dimension;
use crate::policy::{Quota, WindowKind};
use crate::time::{Moment, Span};

/// The spread while nothing is measured, and its upper bound, as a share of the window.
const SPREAD: (u64, u64) = (2, 100);
/// The least measured spread that is believed.
const SPREAD_MIN: Span = Span::from_millis(50);
/// A refusal of a call that was within the quota by this many spreads only may
/// have been late on its way.
const LATE_SPREADS: u64 = 3;
/// A second one within this is no accident.
const LATE_WITHIN: Span = Span::from_secs(600);
/// The spread is doubled so often at most, and never beyond this share of the window.
const WIDENED_MAX: u32 = 3;
const WIDEST: (u64, u64) = (1, 10);
/// Spans after which even a provider that weighs the window before has
/// forgotten what left before starts were spaced.
const SETTLES_AFTER: u64 = 2;
/// Longer than this nothing is put down to the time before.
const SETTLES_WITHIN: Span = Span::from_secs(120);

/// What a limiter needs to know besides its quota.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Margins {
    /// Kept free below a declared limit, in thousandths.
    pub(super) headroom_permille: u32,
    /// Spread of the one-way delay, if it was measured.
    pub(super) spread: Option<Span>,
}

/// The spread that is reckoned with for a window (`J`).
pub(super) fn spread(window: Span, measured: Option<Span>) -> Span {
    let most = window.scale(SPREAD.0, SPREAD.1);
    measured.map_or(most, |measured| most.min(measured.max(SPREAD_MIN)))
}

/// What a refusal says about a limiter whose log had room for the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing: it may have arrived with those of the window before, or met
    /// what left before starts were spaced.
    Weather,
    /// The limit or its shape is wrong.
    Wrong,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Limiter {
    quota: Quota,
    /// How those who told of it call it; a provider may have two of one dimension.
    label: String,
    origin: Origin,
    margins: Margins,
    /// Whether a refusal proved the declared shape wrong.
    misdeclared: bool,
    late_at: Option<Moment>,
    /// How often the spread was found to be too small: it is doubled each time.
    widened: u32,
    settles_at: Moment,
    /// Whether the window's length was stated, not concluded from resets.
    window_is_named: bool,
    largest: Largest,
    /// What was sent in window and spread.
    log: Log,
    bucket: Option<Bucket>,
    pacer: Option<Pacer>,
    pub(super) told: Told,
}

impl Limiter {
    /// A limiter of which nothing is spent.
    pub(super) fn new(quota: Quota, origin: Origin, margins: Margins) -> Limiter {
        let mut limiter = Limiter {
            log: Log::new(quota.window, quota.limit),
            label: quota.dimension.word().to_owned(),
            quota,
            origin,
            margins,
            misdeclared: false,
            late_at: None,
            widened: 0,
            settles_at: Moment::START,
            window_is_named: true,
            largest: Largest::default(),
            bucket: None,
            pacer: None,
            told: Told::default(),
        };
        limiter.reshape(Moment::START);
        limiter
    }

    /// A limit that headers told without its window; the quota's is a first guess.
    pub(super) fn without_window(quota: Quota, margins: Margins) -> Limiter {
        let mut limiter = Limiter::new(quota, Origin::Header, margins);
        limiter.window_is_named = false;
        limiter
    }

    /// The same limiter under another label.
    pub(super) fn labelled(mut self, label: &str) -> Limiter {
        label.clone_into(&mut self.label);
        self
    }

    /// How it is called.
    pub(super) fn label(&self) -> &str {
        &self.label
    }

    /// What left before it was known was not spaced.
    pub(super) fn settle_from(&mut self, now: Moment) {
        let spans = self.span().saturating_mul(SETTLES_AFTER);
        self.settles_at = now + spans.min(SETTLES_WITHIN);
    }

    /// Whether the window's length was stated.
    pub(super) fn window_is_named(&self) -> bool {
        self.window_is_named
    }

    /// Takes over another quota, or other margins. What is spent stays spent.
    pub(super) fn set(&mut self, now: Moment, quota: Quota, margins: Margins) {
        if self.quota != quota {
            // What was concluded of another quota says nothing about this one.
            self.misdeclared = false;
            self.late_at = None;
        }
        self.quota = quota;
        self.margins = margins;
        self.reshape(now);
    }

    /// What it counts.
    pub(super) fn dimension(&self) -> Dimension {
        self.quota.dimension
    }

    /// Whether another quota is this one with other numbers.
    pub(super) fn is_like(&self, quota: &Quota) -> bool {
        self.quota.dimension == quota.dimension && self.quota.window == quota.window
    }

    /// The quota as declared or told.
    pub(super) fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Where it came from.
    pub(super) fn origin(&self) -> Origin {
        self.origin
    }

    /// Whether it turned out not to have its declared shape.
    pub(super) fn is_misdeclared(&self) -> bool {
        self.misdeclared
    }

    /// A restart reads it back.
    pub(super) fn restore_misdeclared(&mut self, now: Moment) {
        if self.origin == Origin::Declared {
            self.misdeclared = true;
            self.reshape(now);
        }
    }

    /// Whether starts are spaced.
    pub(super) fn is_paced(&self) -> bool {
        self.pacer.is_some()
    }

    /// Units that may be spent in [`Limiter::span`].
    pub(super) fn cap(&self) -> u64 {
        let limit = self.told.lower_limit(self.quota.limit);
        match self.origin {
            Origin::Declared => {
                let kept = u64::from(self.margins.headroom_permille.min(1_000));
                let cap = u128::from(limit) * u128::from(1_000 - kept) / 1_000;
                u64::try_from(cap).unwrap_or(u64::MAX).max(1)
            }
            _ => limit.max(1),
        }
    }

    /// The spread that is reckoned with.
    pub(super) fn spread(&self) -> Span {
        let base = spread(self.quota.window, self.margins.spread);
        let most = self.quota.window.scale(WIDEST.0, WIDEST.1).max(base);
        base.saturating_mul(1 << self.widened).min(most)
    }

    /// Window and spread: the time for which a send counts.
    pub(super) fn span(&self) -> Span {
        self.log.span()
    }

    /// Units sent that still count, our own only.
    pub(super) fn spent(&self, now: Moment) -> u64 {
        match &self.bucket {
            Some(bucket) => bucket.missing(now),
            None => self.log.used(now),
        }
    }

    /// When the first of them leaves; `None` if there is none.
    pub(super) fn next_freed(&self, now: Moment) -> Option<Moment> {
        match &self.bucket {
            Some(bucket) => Some(bucket.full_again(now)).filter(|at| now < *at),
            None => Some(self.log.freed_at(now, 1)).filter(|at| *at < Moment::NEVER),
        }
    }

    /// The rate for long.
    pub(super) fn rate(&self) -> Rate {
        let (units, per) = match (&self.pacer, &self.bucket) {
            (Some(pacer), _) => pacer.rate(),
            (None, Some(bucket)) => bucket.rate(),
            (None, None) => (self.cap(), self.span()),
        };
        Rate { units, per }
    }

    /// The spacing of the universal pacer, whether or not it is in use.
    pub(super) fn safe_spacing(&self) -> Span {
        let (units, per) = self.grounds().pace();
        Span::from_micros(per.as_micros().div_ceil(units))
    }

    /// What stands in the way of `cost` units, with `reserved` granted and not
    /// sent, and `taken` ever granted. O(log n).
    pub(super) fn block(
        &self,
        now: Moment,
        cost: u64,
        reserved: u64,
        taken: u64,
    ) -> Option<(Reason, Moment)> {
        if cost == 0 {
            return None;
        }
        if self.origin == Origin::Header && self.told.allows(now, taken, cost) {
            return None;
        }
        let quota = self
            .quota_free_at(now, cost, reserved)
            .max(self.told.dry_until());
        let pace = self.pacer.as_ref().map_or(now, Pacer::free_at);
        if quota <= now && pace <= now {
            None
        } else if pace <= quota {
            Some((Reason::Quota, quota))
        } else {
            Some((Reason::Pacing, pace))
        }
    }

    fn quota_free_at(&self, now: Moment, cost: u64, reserved: u64) -> Moment {
        let foreign = self.told.foreign(now);
        if let Some(bucket) = &self.bucket {
            let without_foreign = bucket.free_at(now, cost, reserved).max(foreign.until);
            let promised = reserved.saturating_add(foreign.units);
            let with_foreign = bucket.free_at(now, cost, promised);
            return match 0 < foreign.units {
                true => with_foreign.min(without_foreign),
                false => with_foreign,
            };
        }
        let spent = self.log.used(now);
        let taken = spent.saturating_add(foreign.units).saturating_add(reserved);
        let cap = self.cap();
        if taken == 0 || taken.saturating_add(cost) <= cap {
            return now;
        }
        // A call larger than the quota waits until nothing is spent.
        let need = taken.saturating_sub(cap.saturating_sub(cost));
        let by_own = self.log.freed_at(now, need);
        let without_foreign = self
            .log
            .freed_at(now, need.saturating_sub(foreign.units))
            .max(foreign.until);
        if 0 < foreign.units {
            by_own.min(without_foreign)
        } else {
            by_own
        }
    }

    /// A call is granted.
    pub(super) fn grant(&mut self, now: Moment, cost: u64, permit: PermitId) {
        if cost == 0 {
            return;
        }
        if self.largest.note(now, self.span(), cost) {
            self.reshape(now);
        }
        if let Some(pacer) = &mut self.pacer {
            pacer.grant(now, cost, permit);
        }
    }

    /// A granted call left.
    pub(super) fn left(&mut self, now: Moment, cost: u64, permit: PermitId) {
        if let Some(pacer) = &mut self.pacer {
            pacer.left(now, cost, permit);
        }
    }

    /// Units count as spent from now on.
    pub(super) fn count(&mut self, now: Moment, units: u64) {
        if 0 < units {
            self.log.push(now, units);
            if let Some(bucket) = &mut self.bucket {
                bucket.take(now, units);
            }
        }
    }

    /// Units that count as spent since `at` never were.
    pub(super) fn uncount(&mut self, at: Moment, units: u64) {
        if 0 < units {
            self.log.take_back(at, units);
            if let Some(bucket) = &mut self.bucket {
                bucket.put_back(units);
            }
            self.repace(units, 0);
        }
    }

    /// Starts that were spaced for one number of units used another.
    pub(super) fn repace(&mut self, spaced: u64, used: u64) {
        if let Some(pacer) = &mut self.pacer {
            pacer.correct(spaced, used);
        }
    }

    /// A granted call never left.
    pub(super) fn take_back(&mut self, permit: PermitId) {
        if let Some(pacer) = &mut self.pacer {
            pacer.take_back(permit);
        }
    }

    /// Counts sends that another log, or the attempts before a restart, know of.
    pub(super) fn seed(&mut self, now: Moment, sends: impl Iterator<Item = (Moment, u64)>) {
        for (at, units) in sends.filter(|(_, units)| 0 < *units) {
            self.log.push(at, units);
            if let Some(pacer) = &mut self.pacer {
                pacer.note(at, units);
            }
        }
        if let Some(bucket) = &mut self.bucket {
            *bucket = remembered(bucket, now, &self.log);
        }
    }

    /// What was left before a restart counts, beside what was seeded.
    pub(super) fn adopt_restored(&mut self, now: Moment) {
        let own = self.spent(now);
        self.told.adopt_restored(self.quota.limit, own);
    }

    /// The sends that it knows of.
    pub(super) fn sends(&self) -> impl Iterator<Item = (Moment, u64)> {
        self.log.iter()
    }

    /// An answer's word about this quota. `limit` is the one it named; `in_flight`
    /// are units that we have under way and that it may count already.
    /// Returns whether limit or window changed.
    pub(super) fn hear(
        &mut self,
        now: Moment,
        word: &Word,
        limit: Option<u64>,
        in_flight: u64,
    ) -> bool {
        if !self.told.is_news(word) {
            return false;
        }
        let before = (self.cap(), self.quota.clone());
        match (self.origin, limit) {
            (Origin::Header, limit) => {
                self.quota.limit = limit.unwrap_or(self.quota.limit).max(1);
                if !self.window_is_named {
                    let (known, limit) = (self.quota.window, self.quota.limit);
                    self.quota.window = self.told.infer_window(known, limit, word);
                    self.quota.kind = if self.told.refills() {
                        WindowKind::TokenBucket { burst: limit }
                    } else {
                        WindowKind::Unknown
                    };
                }
            }
            (_, Some(limit)) => {
                self.told.set_limit(limit);
            }
            (_, None) => {}
        }
        let changed = before != (self.cap(), self.quota.clone());
        if changed {
            self.reshape(now);
        }
        let (by_now, by_then) = self.own(now, word);
        let own = Own {
            by_now: by_now.saturating_add(in_flight),
            by_then: by_then.saturating_add(in_flight),
            // A declared quota is taken at its word until others are seen.
            is_certain: self.origin == Origin::Declared && !self.told.is_shared(),
        };
        let limit = limit.unwrap_or(self.quota.limit);
        self.told.take(now, word, own, limit, self.span());
        if !self.window_is_named && !self.told.refills() {
            self.consider_dry(now, word);
        }
        changed
    }

    /// What of our own a reading may count that came now for a call of then: at most,
    /// and by what had left when its call did.
    fn own(&self, now: Moment, word: &Word) -> (u64, u64) {
        let then = now.min(word.sent_at + overtakes(self.margins.spread));
        match &self.bucket {
            Some(bucket) if word.refills || self.told.refills() => {
                // What came back since may not have been back when it was read.
                let most = bucket.missing(now) + bucket.refill(now.since(word.sent_at));
                let since = self.log.used_within(now.since(then), now);
                (most, most.saturating_sub(since))
            }
            // Whoever enforces a bucket may still tell of a window.
            _ => (self.log.used(now), self.log.used_within(self.span(), then)),
        }
    }

    /// Nothing is left, others used some of it, and how long it counts is a
    /// guess: only the reset is sure.
    fn consider_dry(&mut self, now: Moment, word: &Word) {
        if let (Some(0), Some(reset)) = (word.remaining, word.reset_after)
            && 0 < self.told.foreign(now).units
        {
            self.told.run_dry(now + reset);
        }
    }

    /// What the refusal of a call says that left at `sent_at` although it
    /// fitted. `None` if starts are spaced already, so that only a lower rate helps.
    pub(super) fn judge(&mut self, now: Moment, sent_at: Moment) -> Option<Verdict> {
        if now < self.settles_at {
            return Some(Verdict::Weather);
        }
        if self.is_paced() {
            return None;
        }
        let late = self.may_have_bunched(now, sent_at);
        let again = self
            .late_at
            .is_some_and(|before| now.since(before) < LATE_WITHIN);
        if late && !again {
            self.late_at = Some(now);
            self.widened = (self.widened + 1).min(WIDENED_MAX);
            self.reshape(now);
            return Some(Verdict::Weather);
        }
        Some(Verdict::Wrong)
    }

    /// The declared shape is wrong: from now on starts are spaced.
    pub(super) fn distrust(&mut self, now: Moment) {
        if self.origin == Origin::Declared && !self.is_paced() {
            self.misdeclared = true;
            // What looked late was the shape.
            self.widened = 0;
            self.settle_from(now);
            self.reshape(now);
        }
    }

    /// Whether a little more spread than was reckoned with explains a refusal.
    fn may_have_bunched(&self, now: Moment, sent_at: Moment) -> bool {
        let late = self.spread().saturating_mul(LATE_SPREADS);
        match (&self.bucket, self.quota.kind) {
            (Some(bucket), WindowKind::TokenBucket { burst }) => {
                let missing = bucket.missing(now) + bucket.refill(now.since(sent_at) + late);
                burst <= missing
            }
            _ => self.cap() < self.log.used_within(self.span() + late, sent_at),
        }
    }

    fn grounds(&self) -> Grounds<'_> {
        Grounds {
            quota: &self.quota,
            cap: self.cap(),
            spread: self.spread(),
            largest: self.largest.get(),
            misdeclared: self.misdeclared,
        }
    }

    /// Derives span and rule anew from quota, margins and what was concluded.
    fn reshape(&mut self, now: Moment) {
        let (span, shape) = (self.grounds().span(), self.grounds().shape());
        self.log.reshape(span, self.quota.limit);
        match shape {
            Shape::Log => (self.bucket, self.pacer) = (None, None),
            Shape::Bucket { units, per, depth } => {
                self.pacer = None;
                match &mut self.bucket {
                    Some(bucket) => bucket.reshape(now, units, per, depth),
                    None => {
                        let full = Bucket::new(units, per, depth);
                        self.bucket = Some(remembered(&full, now, &self.log));
                    }
                }
            }
            Shape::Paced { units, per } => {
                self.bucket = None;
                let slack = self.spread();
                match &mut self.pacer {
                    Some(pacer) => pacer.reshape(units, per, slack),
                    None => {
                        let mut pacer = Pacer::new(units, per, slack);
                        if let Some(last) = self.log.last() {
                            pacer.note(last, 1);
                        }
                        self.pacer = Some(pacer);
                    }
                }
            }
        }
    }
}

/// A bucket after what the log knows of. What was sent before that may have left
/// nothing, so it is taken to have been empty then; if little was sent since, it is
/// full again by now.
fn remembered(bucket: &Bucket, now: Moment, log: &Log) -> Bucket {
    let mut bucket = bucket.emptied_at(now.back(log.kept()));
    if log.last().is_none() {
        return bucket.filled();
    }
    log.iter().for_each(|(at, units)| bucket.take(at, units));
    bucket
}
