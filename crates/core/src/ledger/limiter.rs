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

mod lessons;
mod sharing;

pub(super) use lessons::Verdict;

use super::bucket::Bucket;
use super::call::{Origin, PermitId, Rate, Reason};
use super::headers::Told;
use super::pacer::Pacer;
use super::shape::{Grounds, Largest, Shape};
use super::tally::Promised;
use super::trend::Trend;
use super::window::Log;
use crate::cost::Dimension;
use crate::policy::Quota;
use crate::time::{Moment, Span};

/// The spread while nothing is measured, and its upper bound, as a share of the window.
const SPREAD: (u64, u64) = (2, 100);
/// The least measured spread that is believed.
const SPREAD_MIN: Span = Span::from_millis(50);
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
    trend: Trend,
    /// Whether what is told is the bucket that is kept, and not a window beside it.
    bucket_is_told: bool,
    /// Units that others use per window, as far as starts are spaced for it.
    others_told: Option<u64>,
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
            trend: Trend::default(),
            bucket_is_told: false,
            others_told: None,
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

    /// What stands in the way of `cost` units beside what is under way. O(log n).
    pub(super) fn block(
        &self,
        now: Moment,
        cost: u64,
        promised: Promised,
    ) -> Option<(Reason, Moment)> {
        if cost == 0 {
            return None;
        }
        let others = self.others(now);
        let wanted = cost.saturating_add(others);
        // What an operator keeps free of a declared limit stays free.
        let limit = self.told.lower_limit(self.quota.limit);
        let headroom = limit.saturating_sub(self.cap());
        let fits = match self.window_is_told() {
            true => self.fits(now, promised.unanswered, wanted.saturating_add(headroom)),
            false => None,
        };
        let is_leave = self.origin == Origin::Header
            && self.others_told.is_none()
            && self.told.allows(now, promised.taken, wanted);
        // Only beside a bucket a window's leave is not all.
        if self.bucket.is_none() && fits == Some(Ok(())) || is_leave {
            return None;
        }
        let quota = self
            .quota_free_at(now, cost, promised.reserved, others)
            .max(self.told.dry_until())
            .max(fits.and_then(Result::err).unwrap_or(now));
        let pace = self.pacer.as_ref().map_or(now, Pacer::free_at);
        if quota <= now && pace <= now {
            None
        } else if pace <= quota {
            Some((Reason::Quota, quota))
        } else {
            Some((Reason::Pacing, pace))
        }
    }

    fn quota_free_at(&self, now: Moment, cost: u64, reserved: u64, others: u64) -> Moment {
        let foreign = self.told.foreign(now);
        let reserved = reserved.saturating_add(others);
        if let Some(bucket) = &self.bucket {
            // What others took out of it is missing in it already.
            return bucket.free_at(now, cost, reserved);
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
        let free_at = match 0 < foreign.units {
            true => by_own.min(without_foreign),
            false => by_own,
        };
        match free_at {
            // None of our own makes room for what others may take: that is a guess, and
            // good for a while.
            Moment::NEVER if 0 < others => self.sharing_ends(),
            free_at => free_at,
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

    fn grounds(&self) -> Grounds<'_> {
        Grounds {
            quota: &self.quota,
            cap: self.cap(),
            spread: self.spread(),
            largest: self.largest.get(),
            misdeclared: self.misdeclared,
            others: self.others_told.filter(|_| !self.bucket_is_told),
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
