//! Why a call waits: position, reason, scope, expected start.

use super::Engine;
use super::dispatch::call_of;
use super::live::{Live, Open};
use super::outlook::{Line, Wait};
use super::output::{Parked, WaitReason};
use crate::id::{Account, ActionId, Scope};
use crate::ledger::ScopeState;
use crate::record::{ActionRow, EscalationRow};
use crate::time::Moment;
use crate::word::Mode;

/// One waiting call, for people.
#[derive(Clone, Debug)]
pub struct QueueView {
    /// What it waits for.
    pub parked: Parked,
    /// The action.
    pub row: ActionRow,
    /// Most attempts that its class allows.
    pub attempts_max: u16,
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
    /// The account.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Calls that wait for their turn.
    pub fn waiting(&self) -> usize {
        self.asks.len()
    }

    /// Whether nothing is in hand and nothing is asked.
    pub fn is_idle(&self) -> bool {
        self.actions.is_empty() && self.escalations.is_empty()
    }

    /// Whether the engine may be dropped, and made anew from the tables when a call
    /// comes: it is idle, the journal has all of its records, nobody may come back for
    /// a place, and no scope holds anything back or has anything in its windows.
    ///
    /// Cost: linear in its scopes and their quotas.
    pub fn may_be_let_go(&self, now: Moment) -> bool {
        let rests = |scope: ScopeState| {
            scope.mode == Mode::Normal
                && scope.next_allowed_at.is_none_or(|at| at <= now)
                && scope.in_flight == 0
                && scope.reserved == 0
                && scope.foreign == 0
                && scope.quotas.iter().all(|quota| quota.spent == 0)
        };
        self.is_idle()
            && self.outbox.is_settled()
            && self.places.have_lapsed(now)
            && self.ledger.states(now).all(rests)
    }

    /// What an action waits for; `None` if it does not wait.
    pub fn explain_wait(&self, now: Moment, id: ActionId) -> Option<Parked> {
        let live = self.actions.get(&id)?;
        live.turn?;
        let line = self.line_of(live);
        let (reason, scope, until) = self.reason(now, live, line);
        Some(Parked {
            action: id,
            reason,
            scope,
            position: line.ahead,
            expected_start: until,
        })
    }

    fn reason(&self, now: Moment, live: &Live, line: Line) -> (WaitReason, Scope, Option<Moment>) {
        let own = self.scope.clone();
        let kept_back = self
            .loads
            .of(live.agent())
            .is_some_and(|load| load.keeps_back(live.group(), live.ask));
        if kept_back {
            return (WaitReason::AgentLimit, own, None);
        }
        let call = call_of(live);
        let ready_at = match live.never_sent() {
            true => now,
            false => live.row.not_before.max(now),
        };
        let spaced = self.ways(now).spaced(&call);
        let wait = self.wait_of(now, &call, line);
        // Of what stands in the way of it the last is named: who waits for a person must
        // not read that a moment's patience is enough.
        let of_a_scope = |wait: &Wait| matches!(wait.reason, WaitReason::Scope(_));
        let outlasts = |wait: &Wait, spaced: Moment| {
            of_a_scope(wait) && wait.until.is_none_or(|until| spaced < until)
        };
        let (reason, scope) = match (&wait, &spaced) {
            (Some(wait), _) if of_a_scope(wait) && wait.until.is_none() => {
                (wait.reason, wait.scope.clone())
            }
            _ if now < ready_at => (WaitReason::Backoff, own),
            (Some(wait), Some((_, until))) if outlasts(wait, *until) => {
                (wait.reason, wait.scope.clone())
            }
            (_, Some((scope, _))) => (WaitReason::Spacing, scope.clone()),
            (Some(wait), None) => (wait.reason, wait.scope.clone()),
            (None, None) => (WaitReason::Turn, own),
        };
        let spaced_until = spaced.map_or(now, |(_, until)| until);
        let until = wait.map_or(Some(now), |wait| wait.until);
        let until = until.map(|at| at.max(ready_at).max(spaced_until));
        (reason, scope, until)
    }

    /// Every waiting call, in no particular order; at most `limit`.
    pub fn queue(&self, now: Moment, limit: usize) -> Vec<QueueView> {
        self.asks
            .values()
            .filter_map(|id| {
                let parked = self.explain_wait(now, *id)?;
                let live = self.actions.get(id)?;
                Some(QueueView {
                    parked,
                    row: live.row.clone(),
                    attempts_max: live.setup.limits.max_attempts,
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
            on_the_wire: live
                .open
                .is_some_and(|wire| !matches!(wire.what, Open::Lookup(_))),
        })
    }

    /// The rows of all actions in hand.
    pub fn rows(&self) -> impl Iterator<Item = &ActionRow> {
        self.actions.values().map(|live| &live.row)
    }

    /// The action in hand that has this key.
    pub fn action_of_key(&self, key: &str) -> Option<ActionId> {
        self.keys.get(key).copied()
    }

    /// How often the task of an action in hand had been told to stop when it was
    /// admitted.
    pub fn task_stops(&self, id: ActionId) -> Option<u32> {
        Some(self.actions.get(&id)?.row.requested.task_stops)
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
}
