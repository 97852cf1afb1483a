//! A call on its way through the scheduler: it waits, it is offered a turn, it goes.

use super::floors::{Passed, Spent};
use super::queue::Seat;
use super::tag::{Order, Step};
use crate::cost::Cost;
use crate::id::Agent;
use crate::time::Moment;
use crate::word::Priority;

/// Names a waiting call. Unique and increasing: a later arrival has a greater key.
pub type AskKey = u64;

/// Calls that touch the same set of scopes share a lane: one is blocked exactly
/// when all of its rank are. Made by the caller, who bounds their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u32);

/// A call that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Its key.
    pub ask: AskKey,
    /// Its rank.
    pub priority: Priority,
    /// Who calls.
    pub agent: Agent,
    /// The agent's share inside the rank; zero counts as one.
    pub weight: u32,
    /// The scopes it touches.
    pub lane: Lane,
    /// What it uses up.
    pub cost: Cost,
    /// Not before this moment: its own backoff.
    pub ready_at: Moment,
    /// When it arrived, for display; the order of arrival is that of the keys.
    pub arrived: Moment,
    /// The key of an earlier ask whose place it keeps: it was refused before
    /// sending and came back in time, or it waits for a repeat.
    pub place: Option<AskKey>,
}

impl Waiter {
    pub(super) fn seat(&self) -> Seat {
        Seat {
            place: self.place.unwrap_or(self.ask),
            ask: self.ask,
        }
    }

    /// What the call counts in shares. Every call counts as one at least.
    pub(super) fn units(&self) -> u32 {
        self.cost.calls()
    }

    pub(super) fn step(&self) -> Step {
        Step::of(self.units(), self.weight)
    }
}

/// What a lane has for the calls of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// They may go.
    Open,
    /// Only consideration for better ranks holds them: spacing, throttling. They
    /// stay, unless their rank is owed its floor.
    Held,
    /// They can't go: no quota, no seat, a scope that is closed.
    Blocked,
}

/// A turn that was offered: which call goes next, and which ranks it passes over.
///
/// It changes nothing until [`super::Schedule::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    pub(super) ask: AskKey,
    pub(super) passed: Passed,
}

impl Pick {
    /// The call.
    pub fn ask(&self) -> AskKey {
        self.ask
    }
}

/// A call that goes. Keep it until its first byte is sent: with it
/// [`super::Schedule::give_back`] can undo the turn.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the call has left the queue: send it or give it back"]
pub struct Taken {
    /// The call. Its `ready_at` may be moved before it is given back.
    pub waiter: Waiter,
    pub(super) passed: Passed,
    pub(super) spent: Spent,
    pub(super) start: Order,
}

/// Whose calls have reached their bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// All of the account.
    Account,
    /// Those of the arriving call's agent.
    Agent,
}
