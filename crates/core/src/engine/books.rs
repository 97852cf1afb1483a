//! Whether the engine's books agree with each other.
//!
//! Each map here is a view of the actions in hand; what one of them forgets is
//! a leak or a call that waits for ever. Tests and the simulator ask after
//! every step (DESIGN §6, invariants 2, 6, 13 and 15).

use std::collections::BTreeSet;

use super::Engine;
use super::live::{Caller, Live, Turn};
use crate::id::ActionId;
use crate::word::State;

impl Engine {
    /// Tells the first disagreement. Costs O(n log n): for tests, not for service.
    ///
    /// # Errors
    /// The disagreement, in words.
    pub fn check_books(&self) -> Result<(), String> {
        if self.outbox.is_poisoned() {
            return Ok(());
        }
        let (mut waiting, mut open, mut timers) = (0, 0, self.escalations.len());
        for live in self.actions.values() {
            let id = live.id();
            let say = |what: &str| Err(format!("action {id} ({}): {what}", live.row.state));
            if live.turn.is_some() && live.open.is_some() {
                return say("waits and is out at once");
            }
            if live.row.state.is_final() {
                return say("has ended and is in hand");
            }
            if live.row.cancelled && matches!(live.turn, Some(Turn::Attempt(_))) {
                return say("is cancelled and waits to be sent");
            }
            let rests = live.turn.is_none() && live.open.is_none();
            if rests != (live.row.state == State::Escalated) {
                return say("rests without a question, or is asked about and does not rest");
            }
            if live.turn.is_some() {
                waiting += 1;
                if self.asks.get(&live.ask) != Some(&id) {
                    return say("waits and is not in the queue");
                }
            }
            open += usize::from(live.open.is_some());
            timers += self.timers_of(live);
            if let Some(key) = &live.row.requested.key
                && !self.keys.contains_key(key)
            {
                return say("has a key that is not known");
            }
        }
        if let Some(id) = self.kept_back_for_nothing() {
            return Err(format!(
                "action {id}: is kept back although its agent is not full"
            ));
        }
        let counts = [
            ("asks", self.asks.len(), waiting),
            (
                "schedule and kept back",
                self.schedule.len() + self.loads.kept(),
                waiting,
            ),
            ("open of the agents", self.loads.open(), open),
            ("timers", self.timers.len(), timers),
            ("keys", self.keys.len(), self.keyed()),
        ];
        match counts.iter().find(|(_, have, want)| have != want) {
            Some((what, have, want)) => Err(format!("{what}: {have}, should be {want}")),
            None => Ok(()),
        }
    }

    /// An agent that may open another call has, of each rank and lane of which
    /// some are kept back, one in the schedule; or nobody would ever bring them back.
    fn kept_back_for_nothing(&self) -> Option<ActionId> {
        let waiting = || self.actions.values().filter(|live| live.turn.is_some());
        let queueing: BTreeSet<_> = waiting()
            .filter(|live| self.schedule.get(live.ask).is_some())
            .map(|live| (live.agent(), live.group()))
            .collect();
        let lost = waiting().find(|live| {
            let load = self.loads.of(live.agent());
            load.is_some_and(|load| {
                load.keeps_back(live.group(), live.ask)
                    && !load.is_full(live.setup.agent_concurrent_max)
                    && !queueing.contains(&(live.agent(), live.group()))
            })
        });
        lost.map(Live::id)
    }

    fn timers_of(&self, live: &Live) -> usize {
        let is_armed = |at, timer| usize::from(self.timers.is_armed(at, timer));
        let id = live.id();
        use super::timers::Timer;
        let hold = match live.caller {
            Caller::Held(until) => is_armed(until, Timer::Hold(id)),
            Caller::Gone => 0,
        };
        let key_end = live
            .row
            .key_safe_until
            .map_or(0, |end| is_armed(end, Timer::KeyEnd(id)));
        hold + key_end
            + is_armed(live.row.requested.deadline, Timer::Deadline(id))
            + is_armed(live.wait_until, Timer::WaitBudget(id))
    }

    fn keyed(&self) -> usize {
        self.actions
            .values()
            .filter(|live| live.row.requested.key.is_some())
            .count()
    }
}
