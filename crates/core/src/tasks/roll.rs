//! The tasks that the book knows, bounded.
//!
//! A task is *over* from when it was cancelled, or from its deadline. When there
//! is no room for a new one, the task that has been over longest makes room: of
//! the same agent if that agent has as many as it may, else of anybody. If none
//! is over, the new one is turned away. The default task of an agent has no end;
//! it is over when its period is, and begins a new one with the next call.
//!
//! Cost: O(log n) per operation.

use std::collections::{BTreeMap, BTreeSet};

use super::{DEFAULT_TASK, TaskKey};
use crate::action::breaker::Breaker;
use crate::id::{Agent, Task};
use crate::record::TaskRow;
use crate::time::{Moment, Span};

/// Tasks that are known at once.
pub const TASKS_MAX: usize = 100_000;

/// Tasks of one agent that are known at once.
pub const TASKS_PER_AGENT_MAX: usize = 10_000;

/// One task in hand.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) row: TaskRow,
    pub(super) breaker: Breaker,
    over_from: Moment,
}

/// All tasks in hand. See the module.
#[derive(Debug, Default)]
pub(super) struct Roll {
    tasks: BTreeMap<TaskKey, Open>,
    by_end: BTreeSet<(Moment, TaskKey)>,
    of_agent: BTreeMap<Agent, BTreeSet<(Moment, Task)>>,
}

impl Roll {
    pub(super) fn get(&self, key: &TaskKey) -> Option<&Open> {
        self.tasks.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &TaskKey) -> Option<&mut Open> {
        self.tasks.get_mut(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Open> {
        self.tasks.values()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Open> {
        self.tasks.values_mut()
    }

    /// Whether there is room for this task, or can be made; makes it.
    pub(super) fn make_room(&mut self, now: Moment, key: &TaskKey) -> bool {
        if self.tasks.contains_key(key) {
            return true;
        }
        let own = self.of_agent.get(&key.0);
        if own.is_some_and(|own| TASKS_PER_AGENT_MAX <= own.len()) {
            let first = own.and_then(|own| own.first().cloned());
            let Some((_, task)) = first.filter(|(end, _)| *end <= now) else {
                return false;
            };
            self.forget(&(key.0.clone(), task));
        }
        if TASKS_MAX <= self.tasks.len() {
            let first = self.by_end.first().cloned();
            let Some((_, first)) = first.filter(|(end, _)| *end <= now) else {
                return false;
            };
            self.forget(&first);
        }
        true
    }

    /// Takes a task in hand, in place of what is known of it.
    pub(super) fn put(&mut self, row: TaskRow, breaker: Breaker, period: Span) {
        let key = (row.agent.clone(), row.task.clone());
        self.forget(&key);
        let over_from = match (row.cancelled, is_default(&key)) {
            (true, _) => row.opened_at,
            (false, true) => row.opened_at + period,
            (false, false) => row.deadline,
        };
        self.by_end.insert((over_from, key.clone()));
        self.of_agent
            .entry(key.0.clone())
            .or_default()
            .insert((over_from, key.1.clone()));
        let open = Open {
            row,
            breaker,
            over_from,
        };
        self.tasks.insert(key, open);
    }

    /// A task is over from now on.
    pub(super) fn end(&mut self, now: Moment, key: &TaskKey) {
        if let Some(mut open) = self.forget(key) {
            open.over_from = now;
            self.by_end.insert((now, key.clone()));
            self.of_agent
                .entry(key.0.clone())
                .or_default()
                .insert((now, key.1.clone()));
            self.tasks.insert(key.clone(), open);
        }
    }

    fn forget(&mut self, key: &TaskKey) -> Option<Open> {
        let open = self.tasks.remove(key)?;
        self.by_end.remove(&(open.over_from, key.clone()));
        if let Some(own) = self.of_agent.get_mut(&key.0) {
            own.remove(&(open.over_from, key.1.clone()));
            if own.is_empty() {
                self.of_agent.remove(&key.0);
            }
        }
        Some(open)
    }
}

impl Open {
    /// From when it is over.
    pub(super) fn over_from(&self) -> Moment {
        self.over_from
    }

    /// Whether it is over.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        self.over_from <= now
    }
}

/// Whether this is an agent's default task.
pub(super) fn is_default(key: &TaskKey) -> bool {
    key.1.as_str() == DEFAULT_TASK
}
