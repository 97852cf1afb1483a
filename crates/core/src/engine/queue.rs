//! Into the queue and out of it.
//!
//! What waits is in one of three places, and the engine's map of asks names all
//! of it: in the schedule, ready or in backoff, or set aside because its agent
//! has as many calls open as it may ([`super::loads`]).

use super::Engine;
use super::live::{Live, Turn};
use super::output::Output;
use super::timers::Timer;
use crate::id::{ActionId, Agent, RecordSeq};
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
        let requested = &live.row.requested;
        self.loads
            .enter(&requested.agent, requested.priority, live.ask);
        self.seat(now, id, ready_at);
    }

    /// Puts a waiting call into the schedule, or sets it aside.
    fn seat(&mut self, now: Moment, id: ActionId, ready_at: Moment) {
        let Some(live) = self.actions.get(&id) else {
            return;
        };
        let (group, ask, max) = (live.group(), live.ask, live.setup.agent_concurrent_max);
        if ready_at <= now
            && let Some(load) = self.loads.of_mut(live.agent())
            && load.is_full(max)
        {
            load.keep_back(group, ask);
            self.schedule.remove(ask);
            return;
        }
        // A call that has just been admitted is there already.
        if self.schedule.get(ask).is_none() {
            let waiter = self.waiter(live, ready_at);
            self.schedule.insert(now, waiter);
        }
    }

    /// Sets a call aside that the schedule offered, because its agent has as
    /// many calls open as it may. Says whether it did.
    pub(super) fn keep_back_if_full(&mut self, id: ActionId) -> bool {
        let Some(live) = self.actions.get(&id) else {
            return false;
        };
        let (group, ask, max) = (live.group(), live.ask, live.setup.agent_concurrent_max);
        let Some(load) = self
            .loads
            .of_mut(live.agent())
            .filter(|load| load.is_full(max))
        else {
            return false;
        };
        load.keep_back(group, ask);
        self.schedule.remove(ask);
        true
    }

    /// Takes an action out of the queue, wherever it waits. If it was in the
    /// schedule on behalf of others like it, which its agent's limit keeps back,
    /// the next of them takes its place: nothing else would bring them back.
    pub(super) fn dequeue(&mut self, now: Moment, id: ActionId) {
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        if live.turn.take().is_none() {
            return;
        }
        let (ask, group) = (live.ask, live.group());
        let (agent, max) = (live.agent().clone(), live.setup.agent_concurrent_max);
        let was_kept_back = self
            .loads
            .of(&agent)
            .is_some_and(|load| load.keeps_back(group, ask));
        self.asks.remove(&ask);
        self.schedule.remove(ask);
        self.loads.leave(&agent, group, ask);
        self.disarm_wait(id);
        if !was_kept_back {
            self.next_of_group(now, &agent, group, max);
        }
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
        for ask in self.loads.ended(agent) {
            self.bring_back(now, ask);
        }
    }

    /// A call of an agent went or left: the next of the same kind may queue, if
    /// the agent may open more.
    pub(super) fn next_of_group(
        &mut self,
        now: Moment,
        agent: &Agent,
        group: (Priority, Lane),
        max: Option<u32>,
    ) {
        let next = match self.loads.of_mut(agent) {
            Some(load) if max.is_some() && !load.is_full(max) => load.release_next(group),
            _ => None,
        };
        if let Some(ask) = next {
            self.bring_back(now, ask);
        }
    }

    fn bring_back(&mut self, now: Moment, ask: AskKey) {
        if let Some(id) = self.asks.get(&ask).copied() {
            self.seat(now, id, now);
        }
    }

    /// Says that an action waits, for what, and until when; not before its record is
    /// committed, since a caller may be let go with that word.
    pub(super) fn announce_wait(&mut self, now: Moment, id: ActionId, admitted: RecordSeq) {
        if let Some(parked) = self.explain_wait(now, id) {
            self.outbox.after(admitted, Output::Parked(parked));
        }
    }
}
