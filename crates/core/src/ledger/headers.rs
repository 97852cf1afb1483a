//! What headers tell about one quota, beside what we count ourselves.
//!
//! A reading says how many units were left when one of our calls arrived. It
//! is put against the calls that we had sent by then:
//!
//! - **left** = remaining − what was sent after that call. Where nothing is
//!   declared, so much may go at once, whatever the shape of the limit.
//! - **foreign** = (limit − remaining) − what we sent within the window. What is
//!   over was used by somebody else with the same key; it is subtracted from
//!   what is granted until it must have left the window, or, if nothing is left,
//!   until the reset. Of a declared quota we count all that we sent up to the
//!   *arrival* of the answer, so that the figure is never too high whenever the
//!   provider looked; once others were seen, what we sent up to the call.
//!
//! Example: 60 per 10 s, and we sent 20 within the last 10 s. An answer says
//! `remaining: 25`: others used 60 − 25 − 20 = 15, and we may send 25 more.
//!
//! Readings are ordered by when their call left, not by arrival; one that is
//! older than the last is ignored.
//!
//! What resets tell of a window that is not named is in [`super::resets`].
//!
//! Of a window that starts anew the **lowest** reading says how much is left, whatever
//! overtook what on its way: see [`Told::fits`]. What others take between a reading and
//! the arrival of the next call nobody tells; once a refusal showed that they do, some
//! units are **kept** free for it.
//!
//! Calls overtake each other on their way, so a reading may not yet count some
//! that left just before its call. Those within the spread of the way, as measured
//! or as it may be ([`overtakes`]), are taken as not counted, which makes **left** too
//! small for a moment and never too large.

use super::resets::Resets;
use crate::time::{Moment, Span};

/// How much later than a call one that left before it may arrive: at least, while
/// nothing is measured, and at most.
const OVERTAKES_MIN: Span = Span::from_millis(100);
const OVERTAKES_UNMEASURED: Span = Span::from_millis(500);
pub(super) const OVERTAKES_MAX: Span = Span::from_secs(1);

/// How much later than a call one that left before it may arrive, by the spread of
/// the way as measured.
pub(super) fn overtakes(measured: Option<Span>) -> Span {
    measured.map_or(OVERTAKES_UNMEASURED, |measured| {
        measured.clamp(OVERTAKES_MIN, OVERTAKES_MAX)
    })
}

/// Units used by others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Foreign {
    /// How many.
    pub(super) units: u64,
    /// How many of these are beyond doubt.
    sure: u64,
    /// They have left the window by then.
    pub(super) until: Moment,
}

/// What we sent within the window that a reading is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    /// Up to the arrival of the answer.
    pub(super) by_now: u64,
    /// Up to its call.
    pub(super) by_then: u64,
    /// Whether only use beyond doubt is taken for foreign.
    pub(super) is_certain: bool,
}

/// One answer's word about a quota, with the call that it answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    /// When the call left.
    pub(super) sent_at: Moment,
    /// Units that surely arrived by then, the call included.
    pub(super) mark: u64,
    /// Units left.
    pub(super) remaining: Option<u64>,
    /// Until more is back.
    pub(super) reset_after: Option<Span>,
    /// Whether that is said to be when a bucket is full again.
    pub(super) refills: bool,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    as_of: Option<Moment>,
    remaining: Option<u64>,
    reset_at: Option<Moment>,
    /// Units ever granted may rise to this.
    ceiling: Option<u64>,
    ceiling_until: Moment,
    foreign: Foreign,
    /// Nothing is left until then.
    dry_until: Moment,
    /// What was left before a restart, and until when that counts.
    restored: Option<(u64, Moment)>,
    /// How often what is left had halved when it was last made known.
    halved: u32,
    /// What its resets tell of window and shape.
    pub(super) resets: Resets,
    /// A limit that was told for a declared quota's window.
    limit: Option<u64>,
    /// Limit and window that were made known.
    named: Option<(u64, Span)>,
    /// Where the last reading came from, in words.
    source: &'static str,
    /// How the last reading called it.
    name: String,
    /// Foreign use that was announced.
    announced: u64,
    /// Refusals in a row that only foreign use could explain.
    explained: u32,
    /// Whether a call was refused although something was left.
    contradicted: bool,
    /// Units left free for what others take before a call arrives, and until when.
    keep: (u64, Moment),
    /// The lowest reading of the window that ends then.
    lowest: Option<(u64, Moment)>,
}

/// A window is news when it changed by this much, in percent.
const WINDOW_NEWS_PERCENT: u64 = 25;
/// Refusals that foreign use may explain before an accepted call must show it, too.
const EXPLAINED_MAX: u32 = 2;
/// Units that are left free for others at first; doubled by each refusal that others
/// explain, up to this share of the limit.
const KEEP_FIRST: u64 = 2;
const KEEP_MOST_PERCENT: u64 = 10;
/// So many windows after the last such refusal nothing is left free any more, within
/// these bounds.
const KEEP_WINDOWS: u64 = 30;
const KEEP_FOR: (Span, Span) = (Span::from_secs(60), Span::from_secs(1_800));

impl Told {
    /// When the call left that the last reading answers.
    pub(super) fn as_of(&self) -> Option<Moment> {
        self.as_of
    }

    /// Whether a call was refused although something was left.
    pub(super) fn is_contradicted(&self) -> bool {
        self.contradicted
    }

    /// Whether so much was left that `cost` more units after `taken` may go.
    pub(super) fn allows(&self, now: Moment, taken: u64, cost: u64) -> bool {
        !self.contradicted && self.left(now, taken).is_some_and(|left| cost <= left)
    }

    /// Whether so much is left of a window that starts anew that `cost` more units may
    /// go, with `unanswered` under way; else the moment at which it starts anew.
    /// `None` if nothing is known of the window that runs.
    ///
    /// In such a window what is left only falls. So each call that was answered had
    /// arrived when the lowest reading was taken, and only those that are under way
    /// may be missing in it.
    pub(super) fn fits(
        &self,
        now: Moment,
        unanswered: u64,
        cost: u64,
    ) -> Option<Result<(), Moment>> {
        let (lowest, ends) = self.lowest.filter(|(_, ends)| now < *ends)?;
        match unanswered.saturating_add(cost) <= lowest {
            true => Some(Ok(())),
            false => Some(Err(ends)),
        }
    }

    /// A call will never be answered, and may have used so many units.
    pub(super) fn lose(&mut self, units: u64) {
        if let Some((lowest, _)) = &mut self.lowest {
            *lowest = lowest.saturating_sub(units);
        }
    }

    /// A reading of a window that ends when it says, be it news or not. The window is
    /// another one if it ends by more than half of its length later.
    pub(super) fn note_lowest(&mut self, now: Moment, word: &Word, window: Span) {
        let (Some(remaining), Some(reset)) = (word.remaining, word.reset_after) else {
            return;
        };
        let (ends, half) = (now + reset, window.scale(1, 2));
        self.lowest = match self.lowest {
            Some((lowest, known)) if ends <= known + half => {
                // One that is older says nothing about this window.
                let is_same = known <= ends + half;
                match is_same {
                    true => Some((lowest.min(remaining), known.min(ends))),
                    false => Some((lowest, known)),
                }
            }
            _ => Some((remaining, ends)),
        };
    }

    /// Units left free for what others take while a call is on its way.
    pub(super) fn keep(&self, now: Moment) -> u64 {
        let (units, until) = self.keep;
        if now < until { units } else { 0 }
    }

    /// Until when units are left free.
    pub(super) fn keeps_until(&self) -> Moment {
        self.keep.1
    }

    /// Others are seen no more.
    pub(super) fn forget_keep(&mut self) {
        self.keep = (0, Moment::START);
    }

    /// Others took what a reading had left before the call was there.
    pub(super) fn widen_keep(&mut self, now: Moment, limit: u64, window: Span) {
        let most = (limit * KEEP_MOST_PERCENT / 100).max(1);
        let wider = match self.keep(now) {
            0 => KEEP_FIRST,
            units => units.saturating_mul(2),
        };
        let lasts = window
            .saturating_mul(KEEP_WINDOWS)
            .clamp(KEEP_FOR.0, KEEP_FOR.1);
        self.keep = (wider.min(most), now + lasts);
    }

    /// A call was refused although something was left: there is another limit below
    /// this one, so what is left is no leave to go at once any more.
    /// Returns whether that was known.
    pub(super) fn contradict(&mut self) -> bool {
        std::mem::replace(&mut self.contradicted, true)
    }

    /// What others used.
    pub(super) fn foreign(&self, now: Moment) -> Foreign {
        if now < self.foreign.until {
            self.foreign
        } else {
            Foreign::default()
        }
    }

    /// What others used as far as the last reading shows it, which is counted elsewhere
    /// from now on.
    pub(super) fn adopt_foreign(&mut self) -> u64 {
        std::mem::take(&mut self.foreign.units)
    }

    /// When more is back, as last told.
    pub(super) fn reset_at(&self) -> Option<Moment> {
        self.reset_at
    }

    /// Nothing is left until then, and our own count can't tell.
    pub(super) fn dry_until(&self) -> Moment {
        self.dry_until
    }

    /// Nothing is left until `until`.
    pub(super) fn run_dry(&mut self, until: Moment) {
        self.dry_until = until;
    }

    /// Of this limit so much was left before a restart, which others may have used
    /// for as long as it counts.
    pub(super) fn restore(&mut self, left: u64, until: Moment) {
        self.restored = Some((left, until));
    }

    /// What was left before a restart is gone, as far as our own sends don't explain it.
    pub(super) fn adopt_restored(&mut self, limit: u64, own: u64) {
        let Some((left, until)) = self.restored.take() else {
            return;
        };
        let units = limit.saturating_sub(left).saturating_sub(own);
        self.foreign = Foreign {
            units,
            sure: 0,
            until,
        };
    }

    /// Whether what is left has halved again since that was last made known, so that
    /// a restart should know it. Once more than half is left again it begins anew.
    pub(super) fn has_halved(&mut self, limit: u64) -> bool {
        let Some(left) = self.remaining else {
            return false;
        };
        let halved = match left {
            0 => u64::BITS,
            left => (limit / left).checked_ilog2().unwrap_or(0),
        };
        let is_news = self.halved < halved;
        if is_news || halved == 0 {
            self.halved = halved;
        }
        is_news
    }

    /// Units left as last told.
    pub(super) fn remaining(&self) -> Option<u64> {
        self.remaining
    }

    /// Units left as told, after what was granted since; `None` if that is too old.
    pub(super) fn left(&self, now: Moment, taken: u64) -> Option<u64> {
        let ceiling = self.ceiling.filter(|_| now < self.ceiling_until)?;
        Some(ceiling.saturating_sub(taken))
    }

    /// Whether a reading is newer than what is known.
    pub(super) fn is_news(&self, word: &Word) -> bool {
        self.as_of.is_none_or(|as_of| as_of <= word.sent_at)
    }

    /// Takes a reading in. `limit` is the quota, `span` the time for which a send counts.
    pub(super) fn take(&mut self, now: Moment, word: &Word, own: Own, limit: u64, span: Span) {
        self.as_of = Some(word.sent_at);
        self.reset_at = word.reset_after.map(|reset| now + reset);
        self.remaining = word.remaining;
        let Some(remaining) = word.remaining else {
            return;
        };
        let gone = word.sent_at + span;
        self.dry_until = Moment::START;
        self.ceiling = Some(word.mark.saturating_add(remaining));
        self.ceiling_until = gone.max(self.reset_at.unwrap_or(gone));
        let used = limit.saturating_sub(remaining);
        let sure = used.saturating_sub(own.by_now);
        self.foreign = Foreign {
            units: if own.is_certain {
                sure
            } else {
                used.saturating_sub(own.by_then)
            },
            sure,
            until: match self.reset_at {
                Some(reset) if remaining == 0 => gone.min(reset),
                _ => gone,
            },
        };
    }

    /// Whether others were seen to use the quota.
    pub(super) fn is_shared(&self) -> bool {
        0 < self.announced
    }

    /// The declared limit, or a lower one that was told for the same window.
    pub(super) fn lower_limit(&self, limit: u64) -> u64 {
        self.limit.map_or(limit, |told| told.min(limit))
    }

    /// Remembers the limit that was told; returns whether that is another one.
    pub(super) fn set_limit(&mut self, limit: u64) -> bool {
        let news = self.limit != Some(limit);
        self.limit = Some(limit);
        news
    }

    /// Remembers limit and window as made known; returns whether they are news.
    /// A concluded window moves a little with every answer, which is none.
    pub(super) fn is_worth_naming(&mut self, limit: u64, window: Span) -> bool {
        let news = self.named.is_none_or(|(old_limit, old)| {
            let (shorter, longer) = (old.min(window), old.max(window));
            let moved = longer.saturating_sub(shorter);
            limit != old_limit || longer.scale(WINDOW_NEWS_PERCENT, 100) < moved
        });
        if news {
            self.named = Some((limit, window));
        }
        news
    }

    /// Whether the last reading called it so.
    pub(super) fn is_called(&self, name: &str) -> bool {
        !self.name.is_empty() && self.name == name
    }

    /// Remembers how a reading called it.
    pub(super) fn set_name(&mut self, name: &str) {
        if self.name != name {
            name.clone_into(&mut self.name);
        }
    }

    /// Where the last reading came from; empty if there was none.
    pub(super) fn source(&self) -> &'static str {
        self.source
    }

    /// Remembers where a reading came from.
    pub(super) fn set_source(&mut self, source: &'static str) {
        self.source = source;
    }

    /// An accepted call showed foreign use. Returns the units if they should be
    /// announced: for the first time, or when they doubled.
    pub(super) fn announce(&mut self, now: Moment, limit: u64) -> Option<u64> {
        let units = self.foreign(now).sure;
        if 0 < units {
            self.explained = 0;
        } else {
            self.announced = 0;
        }
        // A unit or two may be a repeat on the way, not another user.
        let least = (limit / 20).max(2).max(self.announced.saturating_mul(2));
        if units < least {
            return None;
        }
        self.announced = units;
        Some(units)
    }

    /// A refusal came with a reading that only foreign use explains. Returns
    /// whether that is believed: accepted calls must show it sooner or later.
    pub(super) fn explains(&mut self) -> bool {
        self.explained = self.explained.saturating_add(1);
        self.explained <= EXPLAINED_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::START + Span::from_millis(ms)
    }

    fn own(units: u64) -> Own {
        Own {
            by_now: units,
            by_then: units,
            is_certain: true,
        }
    }

    fn word(sent_ms: u64, mark: u64, remaining: u64, reset_ms: u64) -> Word {
        Word {
            sent_at: at(sent_ms),
            mark,
            remaining: Some(remaining),
            reset_after: Some(Span::from_millis(reset_ms)),
            refills: false,
        }
    }

    #[test]
    fn what_we_did_not_send_was_used_by_others() {
        let mut told = Told::default();
        told.take(
            at(5_000),
            &word(4_900, 20, 25, 8_000),
            own(20),
            60,
            Span::from_secs(10),
        );
        assert_eq!(told.foreign(at(5_000)).units, 15);
        assert_eq!(told.foreign(at(14_900)).units, 0);
    }

    #[test]
    fn so_much_may_go_as_was_left_less_what_went_since() {
        let mut told = Told::default();
        told.take(
            at(5_000),
            &word(4_900, 20, 5, 8_000),
            own(20),
            60,
            Span::from_secs(10),
        );
        // Three more went while the answer was on its way.
        assert!(told.allows(at(5_000), 23, 2));
        assert!(!told.allows(at(5_000), 23, 3));
    }

    #[test]
    fn an_older_reading_is_no_news() {
        let mut told = Told::default();
        told.take(
            at(5_000),
            &word(4_900, 20, 5, 8_000),
            own(20),
            60,
            Span::from_secs(10),
        );
        assert!(!told.is_news(&word(4_800, 19, 9, 8_000)));
    }
}
