//! The agents of one rank, each at a place of its own.
//!
//! Names are compared once, when a call arrives: its entry keeps the place, and
//! everything that happens to the call later finds its agent there in O(1). A
//! place is its agent's for as long as it is remembered, which is while one of
//! its calls waits, or its tag is ahead of the others.

use std::collections::BTreeMap;

use super::queue::Fifo;
use super::tag::{Order, Step};
use super::waiter::Lane;
use crate::id::Agent;

/// Where a member is found.
pub(super) type Place = usize;

/// What a rank knows of one agent. Small, because all are walked to tell a position.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) order: Order,
    /// What one of its calls adds to its tag; of the latest call seen.
    pub(super) step: Step,
    /// How many of its calls may go.
    pub(super) ready: usize,
    pub(super) calls: Box<Calls>,
}

/// The calls of one agent.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    agent: Agent,
    /// All that waits, newest place last.
    pub(super) waiting: Fifo,
    /// Those that may go.
    pub(super) lanes: BTreeMap<Lane, Fifo>,
}

impl Member {
    /// An agent of which no call waits.
    pub(super) fn new(agent: &Agent, order: Order, step: Step) -> Member {
        let calls = Calls {
            agent: agent.clone(),
            waiting: Fifo::default(),
            lanes: BTreeMap::new(),
        };
        Member {
            order,
            step,
            ready: 0,
            calls: Box::new(calls),
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    slab: Vec<Option<Member>>,
    free: Vec<Place>,
    names: BTreeMap<Agent, Place>,
}

impl Members {
    /// The place of an agent that is remembered.
    pub(super) fn place(&self, agent: &Agent) -> Option<Place> {
        self.names.get(agent).copied()
    }

    /// Who is at a place.
    pub(super) fn get(&self, place: Place) -> Option<&Member> {
        self.slab.get(place)?.as_ref()
    }

    /// The same, to change.
    pub(super) fn get_mut(&mut self, place: Place) -> Option<&mut Member> {
        self.slab.get_mut(place)?.as_mut()
    }

    /// Remembers an agent that is not remembered yet.
    pub(super) fn insert(&mut self, member: Member) -> Place {
        let agent = member.calls.agent.clone();
        debug_assert!(self.place(&agent).is_none(), "it has a place");
        let place = self.free.pop().unwrap_or_else(|| {
            self.slab.push(None);
            self.slab.len() - 1
        });
        self.names.insert(agent, place);
        self.slab[place] = Some(member);
        place
    }

    /// Forgets an agent.
    pub(super) fn remove(&mut self, place: Place) {
        if let Some(member) = self.slab.get_mut(place).and_then(Option::take) {
            self.names.remove(&member.calls.agent);
            self.free.push(place);
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        *self = Members::default();
    }

    /// All, in no order that means anything.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Member> {
        self.slab.iter().flatten()
    }

    /// How many are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }
}
