//! The tables of a journal, folded in memory.
//!
//! Promise: what [`Fold::tables`] gives after a prefix of an engine's records is
//! what the store would read back after a crash that kept exactly that prefix.
//! It refuses what the store refuses: an event that can't follow, a send or a
//! question that exists already. The simulator and the tests crash with it.

use std::collections::BTreeMap;

use crate::event::{Event, Record};
use crate::id::{Account, ActionId, Agent, AttemptNo, EscalationId, Scope, Task};
use crate::record::{
    ActionRow, AttemptRow, EscalationRow, Illegal, ScopeRow, SendKind, Tables, TaskRow,
};
use crate::time::{Moment, Span};

/// Everything that was recorded, as rows. Grows with the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fold {
    actions: BTreeMap<ActionId, ActionRow>,
    attempts: BTreeMap<(ActionId, SendKind, AttemptNo), AttemptRow>,
    escalations: BTreeMap<EscalationId, EscalationRow>,
    scopes: BTreeMap<(Account, Scope), ScopeRow>,
    tasks: BTreeMap<(Agent, Task), TaskRow>,
}

impl Fold {
    /// Nothing was recorded.
    pub fn new() -> Fold {
        Fold::default()
    }

    /// Takes one record of `source`, the account whose engine made it; `None`
    /// for the task book.
    ///
    /// # Errors
    /// [`Illegal`] if it can't follow what is there; nothing changes then.
    pub fn apply(&mut self, source: Option<&Account>, record: &Record) -> Result<(), Illegal> {
        let (event, at) = (&record.event, record.at);
        let illegal = |why: &str| {
            Err(Illegal {
                event: event.word(),
                why: why.to_owned(),
            })
        };
        let mut row = None;
        if let Event::ActionRequested(requested) = event {
            if self.actions.contains_key(&requested.action) {
                return illegal("the action exists");
            }
            row = Some(ActionRow::open(requested, at));
        } else if let Some(id) = event.action() {
            let Some(known) = self.actions.get(&id) else {
                return illegal("there is no such action");
            };
            let mut changed = known.clone();
            changed.apply(event, at)?;
            row = Some(changed);
        }
        if let Some(opened) = AttemptRow::open(event, at) {
            let key = (opened.action, opened.kind, opened.attempt);
            if self.attempts.insert(key, opened).is_some() {
                return illegal("that send exists");
            }
        }
        if let Some(key) = closes(event) {
            let Some(send) = self.attempts.get_mut(&key) else {
                return illegal("there was no such send");
            };
            send.apply(event, at);
        }
        if let Some(opened) = EscalationRow::open(event, at)
            && self.escalations.insert(opened.escalation, opened).is_some()
        {
            return illegal("the question exists");
        }
        match event {
            Event::Decided { escalation, .. } => match self.escalations.get_mut(escalation) {
                Some(question) => question.apply(event, at)?,
                None => return illegal("there is no such question"),
            },
            Event::Scope(change) => {
                let Some(account) = source else {
                    return illegal("it comes from no account's engine");
                };
                let key = (account.clone(), change.scope.clone());
                self.scopes.insert(key, change.saved.clone());
            }
            Event::TaskOpened { task, agent, .. }
            | Event::TaskCharged { task, agent, .. }
            | Event::TaskCancelled { task, agent, .. } => {
                let key = (agent.clone(), task.clone());
                if let Some(opened) = TaskRow::open(event, at) {
                    self.tasks.insert(key, opened);
                } else if let Some(known) = self.tasks.get_mut(&key) {
                    known.apply(event);
                } else {
                    return illegal("there is no such task");
                }
            }
            _ => {}
        }
        if let Some(row) = row {
            self.actions.insert(row.requested.action, row);
        }
        Ok(())
    }

    /// What a start at `now` reads: all that is open, and the sends that a
    /// window of up to `window` may still hold.
    pub fn tables(&self, now: Moment, window: Span) -> Tables {
        let since = now.back(window);
        Tables {
            actions: self
                .actions
                .values()
                .filter(|row| !row.state.is_final())
                .cloned()
                .collect(),
            attempts: self
                .attempts
                .values()
                .filter(|row| row.certainty.is_none() || since <= row.opened_at)
                .cloned()
                .collect(),
            escalations: self
                .escalations
                .values()
                .filter(|row| row.chosen.is_none())
                .cloned()
                .collect(),
            scopes: self
                .scopes
                .iter()
                .map(|((account, _), row)| (account.clone(), row.clone()))
                .collect(),
            tasks: self.tasks.values().cloned().collect(),
        }
    }

    /// The rows of all actions, ended ones too.
    pub fn actions(&self) -> impl Iterator<Item = &ActionRow> {
        self.actions.values()
    }

    /// The row of one action.
    pub fn action(&self, id: ActionId) -> Option<&ActionRow> {
        self.actions.get(&id)
    }

    /// One send.
    pub fn send(&self, id: ActionId, kind: SendKind, number: AttemptNo) -> Option<&AttemptRow> {
        self.attempts.get(&(id, kind, number))
    }

    /// All sends.
    pub fn sends(&self) -> impl Iterator<Item = &AttemptRow> {
        self.attempts.values()
    }

    /// All tasks.
    pub fn tasks(&self) -> impl Iterator<Item = &TaskRow> {
        self.tasks.values()
    }

    /// All questions.
    pub fn questions(&self) -> impl Iterator<Item = &EscalationRow> {
        self.escalations.values()
    }
}

/// The send that an event changes.
fn closes(event: &Event) -> Option<(ActionId, SendKind, AttemptNo)> {
    match event {
        Event::ActionResult {
            action, attempt, ..
        }
        | Event::Settled {
            action, attempt, ..
        } => Some((*action, SendKind::Attempt, *attempt)),
        Event::LookedUp { action, lookup, .. } => Some((*action, SendKind::Lookup, *lookup)),
        _ => None,
    }
}
