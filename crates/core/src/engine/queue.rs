//! Into the queue and out of it.
//!
//! What waits is in one of three places, and the engine's map of asks names all
//! of it: in the schedule, ready or in backoff, or set aside because its agent
//! has as many calls open as it may ([`super::loads`]).

use super::Engine;
use super::live::{Live, Turn};
use super::output::Output;
use super::timers::Timer;
use crate::id::{ActionId, Agent};
use crate::schedule::{AskKey, Lane, Waiter};
use crate::time::Moment;
use crate::word::Priority;

impl Engine {
    /// A call as the schedule sees it.
    pub(super) fn waiter(&self, live: &Live, ready_at: Moment) -> Waiter {
        let requested = &live.row.requested;
        Waiter {
            ask: live.ask,
            priority: requested.priority,
            agent: requested.agent.clone(),
            weight: live.setup.weight,
            lane: live.lane,
            cost: live.setup.cost,
            ready_at,
            arrived: live.row.requested_at,
            place: live.place,
        }
    }

    /// Gives an action a place in the queue.
    pub(super) fn enqueue(&mut self, now: Moment, id: ActionId, turn: Turn, ready_at: Moment) {
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        debug_assert!(
            live.turn.is_none() && live.open.is_none(),
            "it waits or is out already"
        );
        live.turn = Some(turn);
        self.asks.insert(live.ask, id);
        if let (Turn::Attempt(_), true, Some(end)) =
            (turn, live.row.maybe_arrived, live.row.key_safe_until)
        {
            self.timers.arm(end, Timer::KeyEnd(id));
        }
        self.seat(now, id, ready_at);
    }

    /// Puts a waiting call into the schedule, or sets it aside.
    fn seat(&mut self, now: Moment, id: ActionId, ready_at: Moment) {
        let Some(live) = self.actions.get(&id) else {
            return;
        };
        let max = live.setup.agent_concurrent_max;
        let full = self
            .loads
            .of(live.agent())
            .is_some_and(|load| load.is_full(max));
        let group = (live.row.requested.priority, live.lane);
        let ask = live.ask;
        let waiter = self.waiter(live, ready_at);
        if full && ready_at <= now {
            self.loads
                .change(&waiter.agent, |load| load.keep_back(group, ask));
            return;
        }
        self.loads.change(&waiter.agent, |load| load.scheduled += 1);
        self.schedule.insert(now, waiter);
    }

    /// Sets a call aside that the schedule offered, because its agent has as
    /// many calls open as it may. Says whether it did.
    pub(super) fn keep_back_if_full(&mut self, id: ActionId) -> bool {
        let Some(live) = self.actions.get(&id) else {
            return false;
        };
        let max = live.setup.agent_concurrent_max;
        let full = self
            .loads
            .of(live.agent())
            .is_some_and(|load| load.is_full(max));
        if !full {
            return false;
        }
        let (ask, group) = (live.ask, (live.row.requested.priority, live.lane));
        let agent = live.agent().clone();
        self.schedule.remove(ask);
        self.loads.change(&agent, |load| {
            load.scheduled -= 1;
            load.keep_back(group, ask);
        });
        true
    }

    /// Takes an action out of the queue, wherever it waits.
    pub(super) fn dequeue(&mut self, id: ActionId) {
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        if live.turn.take().is_none() {
            return;
        }
        let (ask, group) = (live.ask, (live.row.requested.priority, live.lane));
        self.asks.remove(&ask);
        let scheduled = self.schedule.remove(ask).is_some();
        let was_there = self.loads.change(&live.row.requested.agent, |load| {
            if scheduled {
                load.scheduled -= 1;
            }
            scheduled || load.release(group, ask)
        });
        debug_assert!(was_there, "it waited nowhere");
        self.disarm_wait(id);
    }

    /// The timers of a wait are of no use any more.
    pub(super) fn disarm_wait(&mut self, id: ActionId) {
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        let until = std::mem::replace(&mut live.wait_until, Moment::NEVER);
        self.timers.disarm(until, Timer::WaitBudget(id));
        if let Some(end) = live.row.key_safe_until {
            self.timers.disarm(end, Timer::KeyEnd(id));
        }
    }

    /// One send of an agent ended: what its own limit kept back may queue.
    pub(super) fn agent_seat_free(&mut self, now: Moment, agent: &Agent) {
        let heads = self.loads.change(agent, |load| {
            debug_assert!(0 < load.open, "more sends ended than began");
            load.open = load.open.saturating_sub(1);
            load.release_heads()
        });
        for ask in heads {
            self.bring_back(now, ask);
        }
    }

    /// A call of an agent went: the next of the same kind may queue, if the
    /// agent may open more.
    pub(super) fn next_of_group(
        &mut self,
        now: Moment,
        agent: &Agent,
        group: (Priority, Lane),
        max: Option<u32>,
    ) {
        if max.is_none() {
            return;
        }
        let next = self.loads.change(agent, |load| match load.is_full(max) {
            true => None,
            false => load.release_next(group),
        });
        if let Some(ask) = next {
            self.bring_back(now, ask);
        }
    }

    fn bring_back(&mut self, now: Moment, ask: AskKey) {
        if let Some(id) = self.asks.get(&ask).copied() {
            self.seat(now, id, now);
        }
    }

    /// Says that an action waits, for what, and until when.
    pub(super) fn announce_wait(&mut self, now: Moment, id: ActionId) {
        if let Some(parked) = self.explain_wait(now, id) {
            self.outbox.free(Output::Parked(parked));
        }
    }
}
