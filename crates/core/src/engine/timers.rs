//! The moments at which something happens although nothing happens outside.

use std::collections::BTreeSet;

use crate::id::{ActionId, EscalationId};
use crate::time::Moment;

/// One kind of moment each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The caller of an action is held no longer.
    Hold(ActionId),
    /// Nothing of an action is sent any more.
    Deadline(ActionId),
    /// An action has waited as long as its budget allows.
    WaitBudget(ActionId),
    /// A question goes unanswered.
    Question(EscalationId),
}

/// All armed timers, the earliest first. Entries of ended actions are removed
/// with them; an entry that no longer says what its action says is ignored.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Moment, Timer)>);

impl Timers {
    pub(super) fn arm(&mut self, at: Moment, timer: Timer) {
        if at < Moment::NEVER {
            self.0.insert((at, timer));
        }
    }

    pub(super) fn disarm(&mut self, at: Moment, timer: Timer) {
        self.0.remove(&(at, timer));
    }

    pub(super) fn next(&self) -> Moment {
        self.0.first().map_or(Moment::NEVER, |(at, _)| *at)
    }

    /// Takes the earliest timer that is due.
    pub(super) fn due(&mut self, now: Moment) -> Option<(Moment, Timer)> {
        let first = *self.0.first()?;
        if now < first.0 {
            return None;
        }
        self.0.pop_first()
    }
}
