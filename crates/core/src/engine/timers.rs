//! The moments at which something happens although nothing happens outside.

use std::collections::BTreeSet;

use crate::id::{ActionId, EscalationId};
use crate::time::Moment;

/// One kind of moment each. At the same moment the first kind goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The key of an action must not be sent any more.
    KeyEnd(ActionId),
    /// Nothing of an action is sent any more.
    Deadline(ActionId),
    /// An action has waited as long as its budget allows.
    WaitBudget(ActionId),
    /// The caller of an action is held no longer.
    Hold(ActionId),
    /// A question goes unanswered.
    Question(EscalationId),
}

/// All armed timers, the earliest first. An action has at most one of each
/// kind; they are removed with it.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Moment, Timer)>);

impl Timers {
    pub(super) fn arm(&mut self, at: Moment, timer: Timer) {
        if at < Moment::NEVER {
            self.0.insert((at, timer));
        }
    }

    pub(super) fn disarm(&mut self, at: Moment, timer: Timer) {
        if at < Moment::NEVER {
            self.0.remove(&(at, timer));
        }
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

    pub(super) fn is_armed(&self, at: Moment, timer: Timer) -> bool {
        self.0.contains(&(at, timer))
    }

    /// How many are armed.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
