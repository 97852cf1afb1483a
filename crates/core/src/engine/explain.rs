//! Why a call waits: position, reason, scope, expected start.

use super::Engine;
use super::dispatch::Manners;
use super::live::{Live, Open};
use super::output::{Parked, WaitReason};
use crate::id::{ActionId, Scope};
use crate::ledger::ScopeState;
use crate::record::{ActionRow, EscalationRow};
use crate::time::Moment;
use crate::word::Priority;

/// One waiting call, for people.
#[derive(Clone, Debug)]
pub struct QueueView {
    /// What it waits for.
    pub parked: Parked,
    /// The action.
    pub row: ActionRow,
}

/// One action in hand, for people.
#[derive(Clone, Debug)]
pub struct ActionView {
    /// What the tables say.
    pub row: ActionRow,
    /// What it waits for, if it waits.
    pub parked: Option<Parked>,
    /// Whether a send of it is out.
    pub on_the_wire: bool,
}

impl Engine {
    /// What an action waits for; `None` if it does not wait.
    pub fn explain_wait(&self, now: Moment, id: ActionId) -> Option<Parked> {
        let live = self.actions.get(&id)?;
        live.turn?;
        let position = self.schedule.position(live.ask).unwrap_or(0);
        let (reason, scope, until) = self.reason(now, live, position);
        let expected_start = match (until, self.ledger.rate(&self.scope)) {
            (Some(until), Some(rate)) => {
                Some(until + rate.per.scale(position as u64, rate.units.max(1)))
            }
            (until, _) => until,
        };
        Some(Parked {
            action: id,
            reason,
            scope,
            position,
            expected_start,
        })
    }

    fn reason(
        &self,
        now: Moment,
        live: &Live,
        position: usize,
    ) -> (WaitReason, Scope, Option<Moment>) {
        let ready_at = live.row.not_before;
        let kept_back = self
            .loads
            .of(live.agent())
            .is_some_and(|load| load.kept_back.contains(&live.ask));
        if kept_back {
            return (WaitReason::AgentLimit, self.scope.clone(), None);
        }
        match self.what_is_in_the_way(now, live, Manners::Spaced) {
            Err(way) => {
                let until = (way.until < Moment::NEVER).then(|| way.until.max(ready_at));
                (way.reason, way.scope, until)
            }
            Ok(_) if now < ready_at => (WaitReason::Backoff, self.scope.clone(), Some(ready_at)),
            Ok(_) => {
                let until = (position == 0).then_some(now);
                (WaitReason::Turn, self.scope.clone(), until)
            }
        }
    }

    /// Every waiting call, in no particular order; at most `limit`.
    pub fn queue(&self, now: Moment, limit: usize) -> Vec<QueueView> {
        self.asks
            .values()
            .filter_map(|id| {
                let parked = self.explain_wait(now, *id)?;
                Some(QueueView {
                    parked,
                    row: self.actions.get(id)?.row.clone(),
                })
            })
            .take(limit)
            .collect()
    }

    /// How many calls of each rank wait.
    pub fn waiting_by_priority(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for id in self.asks.values() {
            if let Some(live) = self.actions.get(id) {
                counts[live.row.requested.priority as usize] += 1;
            }
        }
        counts
    }

    /// Calls that are out on the wire.
    pub fn on_the_wire(&self) -> usize {
        self.actions
            .values()
            .filter(|live| live.open.is_some())
            .count()
    }

    /// One action in hand.
    pub fn action(&self, now: Moment, id: ActionId) -> Option<ActionView> {
        let live = self.actions.get(&id)?;
        Some(ActionView {
            row: live.row.clone(),
            parked: self.explain_wait(now, id),
            on_the_wire: matches!(live.open, Some((Open::Attempt(_) | Open::Body(_), _))),
        })
    }

    /// The action in hand that has this key.
    pub fn action_of_key(&self, key: &str) -> Option<ActionId> {
        self.keys.get(key).copied()
    }

    /// Open questions about this account.
    pub fn escalations(&self) -> impl Iterator<Item = &EscalationRow> {
        self.escalations.values()
    }

    /// What is known of every scope.
    pub fn scopes(&self, now: Moment) -> Vec<ScopeState> {
        self.ledger.states(now).collect()
    }

    /// What is known of one scope.
    pub fn scope_state(&self, now: Moment, scope: &Scope) -> Option<ScopeState> {
        self.ledger.state(now, scope)
    }

    /// The account's own scope.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The best rank that waits.
    pub fn best_waiting(&self) -> Option<Priority> {
        self.waiting_by_priority()
            .iter()
            .position(|n| 0 < *n)
            .map(|rank| Priority::ALL[rank])
    }
}
