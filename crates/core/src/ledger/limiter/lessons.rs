//! What answers and refusals teach one limit.
//!
//! | told | then |
//! | --- | --- |
//! | a reading of a quota that only headers know | limit, window and shape follow it |
//! | resets of a documented bucket that don't grow with what is used | it is no bucket |
//! | a reading of a declared quota | a lower limit binds; what others used is subtracted |
//! | a refusal that a little more spread explains | the spread of this window is doubled, once in a while |
//! | another soon after, or one with room left | the declared shape is wrong: starts are spaced |

use super::{Limiter, WIDENED_MAX};
use crate::ledger::call::Origin;
use crate::ledger::headers::{Own, Word, overtakes};
use crate::ledger::trend::{Ours, Sight};
use crate::policy::WindowKind;
use crate::time::{Moment, Span};

/// A refusal of a call that was within the quota by this many spreads only may
/// have been late on its way.
const LATE_SPREADS: u64 = 3;
/// A second one within this is no accident.
const LATE_WITHIN: Span = Span::from_secs(600);
/// What a refusal says about a limiter whose log had room for the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ledger) enum Verdict {
    /// Nothing: it may have arrived with those of the window before, or met
    /// what left before starts were spaced.
    Weather,
    /// The limit or its shape is wrong.
    Wrong,
}

impl Limiter {
    /// An answer's word about this quota. `limit` is the one it named; `in_flight`
    /// are units that we have under way and that it may count already.
    /// Returns whether limit or window changed.
    pub(in crate::ledger) fn hear(
        &mut self,
        now: Moment,
        word: &Word,
        limit: Option<u64>,
        in_flight: u64,
    ) -> bool {
        self.told.note_lowest(now, word, self.quota.window);
        if !self.told.is_news(word) {
            return false;
        }
        let before = (self.cap(), self.quota.clone());
        self.see(now, word, limit);
        match (self.origin, limit) {
            (Origin::Header, limit) => {
                self.quota.limit = limit.unwrap_or(self.quota.limit).max(1);
                if !self.window_is_named {
                    let (known, limit) = (self.quota.window, self.quota.limit);
                    self.quota.window = self.told.resets.infer_window(known, limit, word);
                    self.quota.kind = if self.told.resets.refills() {
                        WindowKind::TokenBucket { burst: limit }
                    } else {
                        self.seen_kind()
                    };
                } else if !matches!(self.quota.kind, WindowKind::TokenBucket { .. }) {
                    self.quota.kind = self.seen_kind();
                } else if word.refills
                    && self
                        .told
                        .resets
                        .refutes_bucket(self.quota.limit, self.quota.window, word)
                {
                    self.quota.kind = WindowKind::Unknown;
                }
            }
            (_, Some(limit)) => {
                self.told.set_limit(limit);
            }
            (_, None) => {}
        }
        let changed = before != (self.cap(), self.quota.clone());
        if changed {
            self.trend.begin_anew();
            self.reshape(now);
        }
        self.bucket_is_told = self.tells_bucket(word);
        let (by_now, by_then) = self.own(now, word);
        let own = Own {
            by_now: by_now.saturating_add(in_flight),
            by_then: by_then.saturating_add(in_flight),
            // A declared quota is taken at its word until others are seen.
            is_certain: self.origin == Origin::Declared
                && !self.told.is_shared()
                && self.told.keep(now) == 0,
        };
        let limit = limit.unwrap_or(self.quota.limit);
        self.told.take(now, word, own, limit, self.span());
        if self.bucket_is_told
            && let Some(bucket) = &mut self.bucket
        {
            // It comes back like our own.
            let units = self.told.adopt_foreign();
            bucket.take(now, units);
            // Others took nearly all of it before we knew of it: the reset is sure, how
            // fast it comes back is not.
            if let (Some(0), Some(reset), true) =
                (word.remaining, word.reset_after, limit / 2 < units)
            {
                self.told.run_dry(now + reset);
            }
        }
        let comes_back = self.told.resets.refills() || self.trend.starts_anew() == Some(false);
        if !self.window_is_named && !comes_back {
            self.consider_dry(now, word);
        }
        self.consider_others(now);
        changed
    }

    /// What changed since an earlier reading.
    fn see(&mut self, now: Moment, word: &Word, limit: Option<u64>) {
        let limit = limit.unwrap_or(self.quota.limit);
        let Some(remaining) = word.remaining.filter(|_| !self.dimension().is_estimated()) else {
            return;
        };
        let sight = Sight {
            at: word.sent_at,
            used: limit.saturating_sub(remaining),
            reset_at: word.reset_after.map_or(Moment::NEVER, |reset| now + reset),
        };
        let ours = Ours {
            log: &self.log,
            limit,
            window: self.quota.window,
            overtakes: overtakes(self.margins.spread),
            refills: self.bucket_is_told,
            starts_anew: self.window_is_told(),
        };
        self.trend.see(sight, &ours);
    }

    /// Whether a reading tells of the bucket that is kept, and not of a window beside it.
    fn tells_bucket(&self, word: &Word) -> bool {
        match (self.origin, self.quota.kind) {
            (Origin::Declared, WindowKind::TokenBucket { burst }) => {
                burst == self.quota.limit
                    && (word.refills || self.trend.starts_anew() == Some(false))
            }
            (_, kind) => matches!(kind, WindowKind::TokenBucket { .. }),
        }
    }

    /// What readings showed of a window whose kind nobody named.
    fn seen_kind(&self) -> WindowKind {
        match self.trend.starts_anew() {
            Some(true) if !self.told.is_contradicted() => WindowKind::Fixed,
            _ => WindowKind::Unknown,
        }
    }

    /// What of our own a reading may count that came now for a call of then: at most,
    /// and by what had left when its call did.
    fn own(&self, now: Moment, word: &Word) -> (u64, u64) {
        let then = now.min(word.sent_at + overtakes(self.margins.spread));
        match &self.bucket {
            Some(bucket) if self.bucket_is_told => {
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
    pub(in crate::ledger) fn judge(&mut self, now: Moment, sent_at: Moment) -> Option<Verdict> {
        if now < self.settles_at {
            return Some(Verdict::Weather);
        }
        if self.is_paced_for_its_kind() {
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

    /// A call was refused although something was left. Once that was so, starts were
    /// spaced, and the next refusal says something about the rate.
    pub(in crate::ledger) fn contradict(&mut self) {
        if self.told.contradict() {
            self.settles_at = Moment::START;
        }
    }

    /// The declared shape is wrong: from now on starts are spaced.
    pub(in crate::ledger) fn distrust(&mut self, now: Moment) {
        if self.origin == Origin::Declared && !self.is_paced_for_its_kind() {
            self.misdeclared = true;
            // What looked late was the shape.
            self.widened = 0;
            self.settle_from(now);
            self.reshape(now);
        }
    }

    /// Whether starts are spaced, and not only for others.
    fn is_paced_for_its_kind(&self) -> bool {
        let for_others = self.quota.kind == WindowKind::Sliding && !self.misdeclared;
        self.is_paced() && !for_others
    }

    /// Whether a little more spread than was reckoned with explains a refusal.
    pub(in crate::ledger) fn may_have_bunched(&self, now: Moment, sent_at: Moment) -> bool {
        let late = self.spread().saturating_mul(LATE_SPREADS);
        match (&self.bucket, self.quota.kind) {
            (Some(bucket), WindowKind::TokenBucket { burst }) => {
                let missing = bucket.missing(now) + bucket.refill(now.since(sent_at) + late);
                burst <= missing
            }
            _ => self.cap() < self.log.used_within(self.span() + late, sent_at),
        }
    }
}
