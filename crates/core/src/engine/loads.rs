//! What each agent has going on, and the calls that its own limit keeps back.
//!
//! An agent with as many calls open as it may have must not block others, nor
//! its own better calls: what the schedule offers for it is set aside here, by
//! rank and lane, and comes back when one of its calls ends. Only the first of
//! each rank and lane comes back at a time, so that the end of a call costs
//! O(log n) however many wait.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::Agent;
use crate::schedule::{AskKey, Lane};
use crate::word::Priority;

/// Calls that are interchangeable for the schedule.
type Group = (Priority, Lane);

/// What one agent has going on this account.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Calls in the schedule.
    pub(super) scheduled: usize,
    /// Calls on the wire.
    pub(super) open: u32,
    kept_back: BTreeMap<Group, BTreeSet<AskKey>>,
    kept: usize,
}

impl Load {
    /// Calls that wait, wherever.
    pub(super) fn waiting(&self) -> usize {
        self.scheduled + self.kept
    }

    /// Whether it may not open another call.
    pub(super) fn is_full(&self, max: Option<u32>) -> bool {
        max.is_some_and(|max| max.max(1) <= self.open)
    }

    pub(super) fn keep_back(&mut self, group: Group, ask: AskKey) {
        if self.kept_back.entry(group).or_default().insert(ask) {
            self.kept += 1;
        }
    }

    pub(super) fn keeps_back(&self, group: Group, ask: AskKey) -> bool {
        self.kept_back
            .get(&group)
            .is_some_and(|asks| asks.contains(&ask))
    }

    /// Takes a call out. Says whether it was there.
    pub(super) fn release(&mut self, group: Group, ask: AskKey) -> bool {
        let Some(asks) = self.kept_back.get_mut(&group) else {
            return false;
        };
        let was_there = asks.remove(&ask);
        if asks.is_empty() {
            self.kept_back.remove(&group);
        }
        self.kept -= usize::from(was_there);
        was_there
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
        let (worst, _) = self.kept_back.last_key_value()?.0;
        let newest = self
            .kept_back
            .iter()
            .filter(|((rank, _), _)| rank == worst)
            .filter_map(|(_, asks)| asks.last())
            .max()?;
        Some((*worst, *newest))
    }

    fn is_idle(&self) -> bool {
        self.scheduled == 0 && self.open == 0 && self.kept == 0
    }
}

/// Every agent's load. An idle agent has no entry, so the map is bounded by the calls.
#[derive(Debug, Default)]
pub(super) struct Loads(BTreeMap<Agent, Load>);

impl Loads {
    pub(super) fn of(&self, agent: &Agent) -> Option<&Load> {
        self.0.get(agent)
    }

    pub(super) fn change<T>(&mut self, agent: &Agent, change: impl FnOnce(&mut Load) -> T) -> T {
        match self.0.get_mut(agent) {
            Some(load) => {
                let changed = change(load);
                if load.is_idle() {
                    self.0.remove(agent);
                }
                changed
            }
            None => {
                let mut load = Load::default();
                let changed = change(&mut load);
                if !load.is_idle() {
                    self.0.insert(agent.clone(), load);
                }
                changed
            }
        }
    }

    /// Calls that are kept back, of all agents.
    pub(super) fn kept(&self) -> usize {
        self.0.values().map(|load| load.kept).sum()
    }

    /// Calls on the wire, of all agents.
    pub(super) fn open(&self) -> usize {
        self.0.values().map(|load| load.open as usize).sum()
    }
}
