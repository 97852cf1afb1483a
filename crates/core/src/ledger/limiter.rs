//! One request quota of one scope: what is spent, what fits, when it fits.
//!
//! | quota | how it is kept safe |
//! | --- | --- |
//! | sliding, fixed, bucket with burst ≥ limit | the log of W + J alone: bursts are fine |
//! | sliding counter, unknown, smaller bucket | the universal pacer, and the log |
//! | any of the first row, once refused below the limit | as the second row, for good |
//! | told by headers, nothing declared | as unknown, or whatever the headers say is left; once resets grow with use, as a bucket |
//!
//! J is the spread of the one-way delay: 2 % of W, or less once it is measured.
//!
//! **A bucket smaller than what the spread can bunch** needs a wider spacing
//! than the pacer's: `c/R + J − (B − c)/R`. Example: 60 per 10 s with a burst
//! of 1 and a spread of 200 ms: 167 + 200 − 0 = 367 ms, where the pacer alone
//! would give 173 ms.
//!
//! **A call larger than the quota** goes when nothing else is spent, and what
//! it takes beyond the quota is a debt that leaves with it.

use super::call::{Origin, PermitId, Rate, Reason};
use super::headers::{OVERTAKES, Own, Told, Word};
use super::pacer::Pacer;
use super::window::Log;
use crate::policy::{Quota, WindowKind};
use crate::time::{Moment, Span};

/// The spread while nothing is measured, and its upper bound, as a share of the window.
const SPREAD: (u64, u64) = (2, 100);
/// The least measured spread that is believed.
const SPREAD_MIN: Span = Span::from_millis(50);
/// A provider's window is open at one end; ours must be longer than it by this.
const TICK: Span = Span::from_micros(1);
/// A refusal of a call that was within the quota by this many spreads only may
/// have been late on its way.
const LATE_SPREADS: u64 = 3;
/// A second one within this is no accident.
const LATE_WITHIN: Span = Span::from_secs(600);
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
    origin: Origin,
    margins: Margins,
    /// Whether a refusal proved the declared shape wrong.
    misdeclared: bool,
    late_at: Option<Moment>,
    settles_at: Moment,
    /// Whether the window's length was stated, not concluded from resets.
    window_is_named: bool,
    log: Log,
    pacer: Option<Pacer>,
    pub(super) told: Told,
}

impl Limiter {
    /// A limiter of which nothing is spent.
    pub(super) fn new(quota: Quota, origin: Origin, margins: Margins) -> Limiter {
        let mut limiter = Limiter {
            log: Log::new(quota.window, quota.limit),
            quota,
            origin,
            margins,
            misdeclared: false,
            late_at: None,
            settles_at: Moment::START,
            window_is_named: true,
            pacer: None,
            told: Told::default(),
        };
        limiter.reshape();
        limiter
    }

    /// A limit that headers told without its window; `window` is a first guess.
    pub(super) fn without_window(limit: u64, window: Span, margins: Margins) -> Limiter {
        let quota = Quota {
            limit,
            window,
            kind: WindowKind::Unknown,
        };
        let mut limiter = Limiter::new(quota, Origin::Header, margins);
        limiter.window_is_named = false;
        limiter
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
    pub(super) fn set(&mut self, quota: Quota, margins: Margins) {
        if self.quota != quota {
            // What was concluded of another quota says nothing about this one.
            self.misdeclared = false;
            self.late_at = None;
        }
        self.quota = quota;
        self.margins = margins;
        self.reshape();
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
    pub(super) fn restore_misdeclared(&mut self) {
        if self.origin == Origin::Declared {
            self.misdeclared = true;
            self.reshape();
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
        spread(self.quota.window, self.margins.spread)
    }

    /// Window and spread: the time for which a send counts.
    pub(super) fn span(&self) -> Span {
        self.log.span()
    }

    /// Units sent that still count, our own only.
    pub(super) fn spent(&self, now: Moment) -> u64 {
        self.log.used(now)
    }

    /// When the first of them leaves; `None` if there is none.
    pub(super) fn next_freed(&self, now: Moment) -> Option<Moment> {
        Some(self.log.freed_at(now, 1)).filter(|at| *at < Moment::NEVER)
    }

    /// The rate for long.
    pub(super) fn rate(&self) -> Rate {
        match &self.pacer {
            Some(pacer) => {
                let (units, per) = pacer.rate();
                Rate { units, per }
            }
            None => Rate {
                units: self.cap(),
                per: self.span(),
            },
        }
    }

    /// The spacing of the universal pacer, whether or not it is in use.
    pub(super) fn safe_spacing(&self) -> Span {
        let (units, per) = self.pace();
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
        if let Some(pacer) = &mut self.pacer {
            pacer.grant(now, cost, permit);
        }
    }

    /// A granted call left.
    pub(super) fn left(&mut self, now: Moment, cost: u64, permit: PermitId) {
        self.log.push(now, cost);
        if let Some(pacer) = &mut self.pacer {
            pacer.left(now, cost, permit);
        }
    }

    /// A granted call never left. `sent_at` if it had been thought to.
    pub(super) fn take_back(&mut self, sent_at: Option<Moment>, cost: u64, permit: PermitId) {
        if let Some(sent_at) = sent_at {
            self.log.take_back(sent_at, cost);
        }
        if let Some(pacer) = &mut self.pacer {
            pacer.take_back(permit);
        }
    }

    /// Counts sends that another log, or the attempts before a restart, know of.
    pub(super) fn seed(&mut self, sends: impl Iterator<Item = (Moment, u64)>) {
        for (at, units) in sends {
            self.log.push(at, units);
            if let Some(pacer) = &mut self.pacer {
                pacer.note(at, units);
            }
        }
    }

    /// The sends that it knows of.
    pub(super) fn sends(&self) -> impl Iterator<Item = (Moment, u64)> {
        self.log.iter()
    }

    /// An answer's word about this quota. `limit` is the one it named.
    /// Returns whether limit or window changed.
    pub(super) fn hear(&mut self, now: Moment, word: &Word, limit: Option<u64>) -> bool {
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
            self.reshape();
        }
        let own = Own {
            by_now: self.log.used(now),
            by_then: self
                .log
                .used_within(self.span(), now.min(word.sent_at + OVERTAKES)),
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
        let reach = self.span() + self.spread().saturating_mul(LATE_SPREADS);
        let late = self.cap() < self.log.used_within(reach, sent_at);
        let again = self
            .late_at
            .is_some_and(|before| now.since(before) < LATE_WITHIN);
        if late && !again {
            self.late_at = Some(now);
            return Some(Verdict::Weather);
        }
        Some(Verdict::Wrong)
    }

    /// The declared shape is wrong: from now on starts are spaced.
    pub(super) fn distrust(&mut self, now: Moment) {
        if self.origin == Origin::Declared && !self.is_paced() {
            self.misdeclared = true;
            self.settle_from(now);
            self.reshape();
        }
    }

    /// Derives span and pacing anew from quota, margins and what was concluded.
    fn reshape(&mut self) {
        let span = self.quota.window + self.spread() + TICK;
        self.log.reshape(span, self.quota.limit);
        if !self.wants_pace() {
            self.pacer = None;
            return;
        }
        let (units, per) = self.pace();
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

    fn wants_pace(&self) -> bool {
        match self.quota.kind {
            WindowKind::Sliding | WindowKind::Fixed => self.misdeclared,
            WindowKind::TokenBucket { burst } if self.quota.limit <= burst => self.misdeclared,
            WindowKind::TokenBucket { .. } | WindowKind::SlidingCounter | WindowKind::Unknown => {
                true
            }
        }
    }

    /// Units and time of the pacer that is safe for this quota.
    fn pace(&self) -> (u64, Span) {
        let (cap, span) = (self.cap(), self.quota.window + self.spread() + TICK);
        let universal = match (cap, self.quota.kind) {
            // The weighted sum of two windows forgets one call only after both. A
            // limit of one whose shape is unknown is not taken for that.
            (1, WindowKind::SlidingCounter) => (1, span + self.quota.window),
            (1, _) => (1, span),
            _ => (cap - 1, span),
        };
        let WindowKind::TokenBucket { burst } = self.quota.kind else {
            return universal;
        };
        let refill = |units: u64| self.quota.window.scale(units, self.quota.limit.max(1));
        let spacing = (refill(1) + TICK + self.spread()).saturating_sub(refill(burst.max(1) - 1));
        let wider = universal.1.as_micros() < spacing.saturating_mul(universal.0).as_micros();
        if wider { (1, spacing) } else { universal }
    }
}
