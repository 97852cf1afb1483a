//! What each agent has going on, and the calls that its own limit keeps back.
//!
//! An agent with as many calls open as it may have must not block others, nor
//! its own better calls: what the schedule offers for it is set aside here, by
//! rank and lane, and comes back when one of its calls ends. Only the first of
//! each rank and lane comes back at a time, so that the end of a call costs
//! O(log n) however many wait.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::Agent;
use crate::recall::Recall;
use crate::ring::Ring;
use crate::schedule::{AskKey, Lane};
use crate::word::Priority;

/// Calls that are interchangeable for the schedule.
type Group = (Priority, Lane);

/// What one agent has going on this account.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Its calls that wait, wherever, by rank.
    waiting: [Ring<AskKey>; 3],
    /// Its calls on the wire.
    open: u32,
    /// Those that wait outside the schedule.
    kept_back: BTreeMap<Group, BTreeSet<AskKey>>,
}

impl Load {
    /// Calls that wait, wherever.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.iter().map(Ring::len).sum()
    }

    /// Calls of a rank that came before this one and wait.
    pub(super) fn before(&self, priority: Priority, ask: AskKey) -> usize {
        self.waiting[priority as usize].before(ask)
    }

    /// Whether it may not open another call.
    pub(super) fn is_full(&self, max: Option<u32>) -> bool {
        max.is_some_and(|max| max.max(1) <= self.open)
    }

    pub(super) fn keep_back(&mut self, group: Group, ask: AskKey) {
        self.kept_back.entry(group).or_default().insert(ask);
    }

    pub(super) fn keeps_back(&self, group: Group, ask: AskKey) -> bool {
        self.kept_back
            .get(&group)
            .is_some_and(|asks| asks.contains(&ask))
    }

    /// Takes out the first of one group.
    pub(super) fn release_next(&mut self, group: Group) -> Option<AskKey> {
        let first = self.kept_back.get(&group)?.first().copied()?;
        self.release(group, first);
        Some(first)
    }

    /// Takes out the first of each group.
    pub(super) fn release_heads(&mut self) -> Vec<AskKey> {
        let groups: Vec<Group> = self.kept_back.keys().copied().collect();
        groups
            .into_iter()
            .filter_map(|group| self.release_next(group))
            .collect()
    }

    /// The newest of the worst rank that is kept back.
    pub(super) fn worst(&self) -> Option<(Priority, AskKey)> {
        let ((worst, _), _) = self.kept_back.last_key_value()?;
        let newest = self
            .kept_back
            .iter()
            .filter(|((rank, _), _)| rank == worst)
            .filter_map(|(_, asks)| asks.last())
            .max()?;
        Some((*worst, *newest))
    }

    fn release(&mut self, group: Group, ask: AskKey) {
        if let Some(asks) = self.kept_back.get_mut(&group) {
            asks.remove(&ask);
            if asks.is_empty() {
                self.kept_back.remove(&group);
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.open == 0 && self.waiting() == 0
    }
}

/// Every agent's load. An idle agent has no entry, so the map is bounded by the calls.
#[derive(Debug, Default)]
pub(super) struct Loads {
    agents: Recall<Agent, Load>,
    /// Agents of which a call of this rank waits.
    queueing: [usize; 3],
}

impl Loads {
    pub(super) fn of(&self, agent: &Agent) -> Option<&Load> {
        self.agents.get(agent)
    }

    /// Changes what is kept back.
    pub(super) fn of_mut(&mut self, agent: &Agent) -> Option<&mut Load> {
        self.agents.get_mut(agent)
    }

    /// Agents of which a call of this rank waits.
    pub(super) fn queueing(&self, priority: Priority) -> usize {
        self.queueing[priority as usize]
    }

    /// A call waits from now on.
    pub(super) fn enter(&mut self, agent: &Agent, priority: Priority, ask: AskKey) {
        if !self.agents.contains_key(agent) {
            self.agents.insert(agent.clone(), Load::default());
        }
        if let Some(load) = self.agents.get_mut(agent) {
            let asks = &mut load.waiting[priority as usize];
            self.queueing[priority as usize] += usize::from(asks.is_empty());
            asks.insert(ask);
        }
    }

    /// A call waits no longer.
    pub(super) fn leave(&mut self, agent: &Agent, group: Group, ask: AskKey) {
        let Some(load) = self.agents.get_mut(agent) else {
            debug_assert!(false, "a call of an unknown agent waited");
            return;
        };
        load.release(group, ask);
        let rank = group.0 as usize;
        let was_there = load.waiting[rank].remove(ask);
        debug_assert!(was_there, "it waited nowhere");
        self.queueing[rank] -= usize::from(was_there && load.waiting[rank].is_empty());
        self.forget_if_idle(agent);
    }

    /// A call that waited went.
    pub(super) fn went(&mut self, agent: &Agent, group: Group, ask: AskKey) {
        if let Some(load) = self.agents.get_mut(agent) {
            load.open += 1;
        }
        self.leave(agent, group, ask);
    }

    /// A send of an agent ended. Gives what may queue again.
    pub(super) fn ended(&mut self, agent: &Agent) -> Vec<AskKey> {
        let Some(load) = self.agents.get_mut(agent) else {
            debug_assert!(false, "a send of an unknown agent ended");
            return Vec::new();
        };
        debug_assert!(0 < load.open, "more sends ended than began");
        load.open = load.open.saturating_sub(1);
        let heads = load.release_heads();
        self.forget_if_idle(agent);
        heads
    }

    fn forget_if_idle(&mut self, agent: &Agent) {
        if self.agents.get(agent).is_some_and(Load::is_idle) {
            self.agents.remove(agent);
        }
    }

    /// Calls that are kept back, of all agents.
    pub(super) fn kept(&self) -> usize {
        let kept = |load: &Load| load.kept_back.values().map(BTreeSet::len).sum::<usize>();
        self.agents.values().map(kept).sum()
    }

    /// Calls on the wire, of all agents.
    pub(super) fn open(&self) -> usize {
        self.agents.values().map(|load| load.open as usize).sum()
    }
}
