//! An action while the engine has it in hand.

use std::collections::{BTreeMap, BTreeSet};

use super::input::Setup;
use crate::id::{ActionId, Agent, AttemptNo};
use crate::ledger::PermitId;
use crate::record::ActionRow;
use crate::schedule::{AskKey, Lane};
use crate::time::Moment;
use crate::word::Cause;

/// What an action queues for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Its next attempt.
    Attempt(Cause),
    /// Its next look-up.
    Lookup,
}

/// What is out on the wire for an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    /// An attempt whose answer is awaited.
    Attempt(AttemptNo),
    /// An attempt whose answer was judged at its head; its body streams on.
    Body(AttemptNo),
    /// A look-up.
    Lookup(u16),
}

/// What became of the one who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// Waits for the answer until then.
    Held(Moment),
    /// Was let go, or left; the result is fetched by id if at all.
    Gone,
}

/// One action in hand.
#[derive(Debug)]
pub(super) struct Live {
    /// The same row that the store folds.
    pub(super) row: ActionRow,
    pub(super) setup: Setup,
    pub(super) ask: AskKey,
    pub(super) lane: Lane,
    /// Its place in the queue, if it has one.
    pub(super) turn: Option<Turn>,
    /// What is out, with the permit that it holds.
    pub(super) open: Option<(Open, PermitId)>,
    /// When the first byte of the open send may have left.
    pub(super) sent_at: Option<Moment>,
    pub(super) caller: Caller,
    /// Its waiting after the first attempt must end by then.
    pub(super) wait_until: Moment,
    /// Whether a person allowed it beyond its class's attempts.
    pub(super) extra_attempts: u16,
}

impl Live {
    pub(super) fn id(&self) -> ActionId {
        self.row.requested.action
    }

    pub(super) fn agent(&self) -> &Agent {
        &self.row.requested.agent
    }

    /// Whether nothing of it ever left, as far as anybody knows.
    pub(super) fn never_sent(&self) -> bool {
        self.row.attempts == 0
    }
}

/// What one agent has going on this account.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Calls in the schedule.
    pub(super) scheduled: usize,
    /// Calls on the wire.
    pub(super) open: u32,
    /// Calls that the agent's own limit keeps out of the schedule, in order.
    pub(super) kept_back: BTreeSet<AskKey>,
}

impl Load {
    /// Calls that wait, wherever.
    pub(super) fn waiting(&self) -> usize {
        self.scheduled + self.kept_back.len()
    }

    fn is_idle(&self) -> bool {
        self.scheduled == 0 && self.open == 0 && self.kept_back.is_empty()
    }
}

/// Every agent's load. An idle agent has no entry, so the map is bounded by the calls.
#[derive(Debug, Default)]
pub(super) struct Loads(BTreeMap<Agent, Load>);

impl Loads {
    pub(super) fn of(&self, agent: &Agent) -> Option<&Load> {
        self.0.get(agent)
    }

    pub(super) fn change(&mut self, agent: &Agent, change: impl FnOnce(&mut Load)) {
        match self.0.get_mut(agent) {
            Some(load) => {
                change(load);
                if load.is_idle() {
                    self.0.remove(agent);
                }
            }
            None => {
                let mut load = Load::default();
                change(&mut load);
                if !load.is_idle() {
                    self.0.insert(agent.clone(), load);
                }
            }
        }
    }
}
