//! What others who use the same quota leave of it.
//!
//! | what is told | what others took | what they may take before a call is there |
//! | --- | --- | --- |
//! | a window that starts anew | is missing in its lowest reading | a few units |
//! | a window that slides, or nobody knows how | what is used beyond our own part, in the window | as they used lately, and a few units |
//! | a bucket | is taken out of ours, and comes back like our own | the same |
//! | a window beside a bucket that is not told | lowers the bucket's rate | the same |
//!
//! "A few units" are none until a refusal says that others took what a reading had
//! left: [`super::Told::keep`]. From then on starts are spaced as well where the window
//! slides: whoever sends evenly hears evenly how others send.
//!
//! Example: 600 a minute, and others take 120 of them. 480 of ours are in the window,
//! and 595 are used: 115 by others. They use 2 a second, the last reading is 0.2 s old,
//! and 2 units are left free: 595 + 1 + 2·1 + 2 = 600, so one more may go when one of ours leaves.

use super::Limiter;
use crate::ledger::headers::overtakes;
use crate::policy::WindowKind;
use crate::time::{Moment, Span};

/// A reading is old after this: others may have used much since.
const OLD: Span = Span::from_secs(1);
/// Then one of so many units that were left may be under way without an answer.
const SCOUTS: u64 = 8;

impl Limiter {
    /// Whether what is told is a bucket that refills evenly.
    pub(in crate::ledger) fn bucket_is_told(&self) -> bool {
        self.bucket_is_told
    }

    /// Whether readings tell of a window that starts anew.
    pub(super) fn window_is_told(&self) -> bool {
        let is_anew = match self.quota.kind {
            WindowKind::Fixed => true,
            // A window may be enforced beside a bucket.
            WindowKind::TokenBucket { .. } => {
                !self.bucket_is_told && self.trend.starts_anew() == Some(true)
            }
            _ => false,
        };
        is_anew && !self.dimension().is_estimated()
    }

    /// Whether so much is left of a window that starts anew; see [`Told::fits`]. Of one
    /// that others use, a reading that is old lets only a part of it go: those see what
    /// is really left.
    ///
    /// [`Told::fits`]: crate::ledger::headers::Told::fits
    pub(super) fn fits(
        &self,
        now: Moment,
        unanswered: u64,
        wanted: u64,
    ) -> Option<Result<(), Moment>> {
        let is_old = self.told.as_of().is_none_or(|as_of| as_of + OLD <= now);
        if is_old && 0 < unanswered && self.is_shared(now) {
            let scouts = unanswered.saturating_add(wanted).saturating_mul(SCOUTS);
            if let Some(Err(_)) = self.told.fits(now, 0, scouts) {
                return Some(Err(now + overtakes(self.margins.spread)));
            }
        }
        self.told.fits(now, unanswered, wanted)
    }

    /// Whether others are known to use it.
    pub(super) fn is_shared(&self, now: Moment) -> bool {
        0 < self.told.keep(now) || self.told.is_shared()
    }

    /// Until when what others may take is reckoned with.
    pub(super) fn sharing_ends(&self) -> Moment {
        self.trend.others_until().max(self.told.keeps_until())
    }

    /// Spaces starts for what others use by now, if that changed.
    pub(super) fn consider_others(&mut self, now: Moment) {
        // Who uses up a window that starts anew at its beginning sees nobody after that.
        let is_quiet = self.trend.is_quiet() && !self.window_is_told();
        if is_quiet && self.told.foreign(now).units == 0 {
            self.told.forget_keep();
        }
        let others = self.is_shared(now).then(|| {
            let window = self.quota.window;
            let units = match &self.bucket {
                Some(_) => self.trend.expected(now, window, window),
                None => self.told.foreign(now).units,
            };
            units.next_multiple_of((self.quota.limit / 100).max(1))
        });
        if others != self.others_told {
            self.others_told = others;
            self.reshape(now);
        }
    }

    /// Units that others may have used since the last reading, as far as they are
    /// reckoned with; of nine tenths of the quota at most.
    pub(super) fn others(&self, now: Moment) -> u64 {
        if !self.is_shared(now) {
            return 0;
        }
        let keep = self.told.keep(now);
        let since = self
            .told
            .as_of()
            .map_or(Span::MAX, |as_of| now.since(as_of));
        let span = since + overtakes(self.margins.spread);
        let expected = self.trend.expected(now, span, self.quota.window);
        expected.saturating_add(keep).min(self.cap() / 10 * 9)
    }
}
