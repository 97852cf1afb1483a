//! What of one dimension is promised, and what has been counted, in one scope.
//!
//! A unit is *reserved* from the grant of its call until the provider counts it:
//! until the first byte leaves, or, where only the answer tells what was used,
//! until the answer has ended ([`Counted`]). From then on it is *sent*. Example
//! of tokens that are counted at the end: granted with 1,300 reserved, ended
//! with 960 used; `reserved 1,300 → 0`, `sent + 960`.
//!
//! A reading of what is left is put against the units that had surely arrived
//! when its call did: the **mark**. Of what is counted at the start that is what
//! left before any that it may have overtaken, of what is counted at the end
//! all that was counted by then. What is given back later does not raise what a
//! reading permits: nobody knows whether the provider gave it back by then.
//!
//! [`Counted`]: crate::cost::Counted

use super::headers::OVERTAKES_MAX;
use super::window::Log;
use crate::cost::{Counted, Dimension};
use crate::time::{Moment, Span};

/// What of one dimension is under way in a scope.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Promised {
    /// Units granted that do not count as sent yet.
    pub(super) reserved: u64,
    /// Units ever granted, less what was never sent.
    pub(super) taken: u64,
    /// Units of calls that are granted and whose outcome is not in.
    pub(super) unanswered: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    dimension: Dimension,
    reserved: u64,
    sent: u64,
    /// Units of calls that are granted and whose outcome is not in.
    unanswered: u64,
    /// Units counted at their start that may still be overtaken.
    recent: Log,
}

impl Tally {
    /// Nothing was promised yet.
    pub(super) fn new(dimension: Dimension) -> Tally {
        Tally {
            dimension,
            reserved: 0,
            sent: 0,
            unanswered: 0,
            recent: Log::new(OVERTAKES_MAX, u64::MAX),
        }
    }

    /// What it counts.
    pub(super) fn dimension(&self) -> Dimension {
        self.dimension
    }

    /// What is under way.
    pub(super) fn promised(&self) -> Promised {
        Promised {
            reserved: self.reserved,
            taken: self.taken(),
            unanswered: self.unanswered,
        }
    }

    /// Units granted that do not count as sent yet.
    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Units ever granted, less what was never sent.
    pub(super) fn taken(&self) -> u64 {
        self.sent + self.reserved
    }

    /// Units are granted.
    pub(super) fn reserve(&mut self, units: u64) {
        self.reserved += units;
        self.unanswered += units;
    }

    /// The outcome of a call is in that was granted with so many units.
    pub(super) fn settle(&mut self, granted: u64) {
        debug_assert!(granted <= self.unanswered, "what is settled was granted");
        self.unanswered = self.unanswered.saturating_sub(granted);
    }

    /// Units that were granted will not be sent, or are counted with another amount.
    pub(super) fn release(&mut self, units: u64) {
        debug_assert!(units <= self.reserved, "what is released was reserved");
        self.reserved = self.reserved.saturating_sub(units);
    }

    /// Units count as sent from now on.
    pub(super) fn count(&mut self, now: Moment, units: u64, counted: Counted) {
        if counted == Counted::AtStart {
            self.recent.push(now, units);
        }
        self.sent += units;
    }

    /// Units that count as sent since `sent_at` never were.
    pub(super) fn uncount(&mut self, sent_at: Moment, units: u64) {
        self.sent = self.sent.saturating_sub(units);
        self.recent.take_back(sent_at, units);
    }

    /// Units that surely arrived before a call that leaves now, if a call overtakes
    /// those that left up to so long before it.
    pub(super) fn mark(&self, now: Moment, overtakes: Span) -> u64 {
        let recent = self.recent.used_within(overtakes, now);
        self.sent - recent.min(self.sent)
    }
}
