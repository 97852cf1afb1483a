//! Which rows an event changes, and how its record is found again.
//!
//! The rows are read first and the core says what becomes of them, so whether
//! an event can follow what is stored is known before anything is written.

use rategov_audit::chain::Appended;
use rategov_core::event::Event;
use rategov_core::id::{Account, ActionId, Agent, Task};
use rategov_core::record::{
    ActionRow, AttemptRow, EscalationRow, Illegal, ScopeRow, SendKind, TaskRow,
};
use rusqlite::Connection;

use crate::apply::Reject;
use crate::blocks::{About, Blocks};
use crate::clock::Stamp;
use crate::db::Col;
use crate::entry::{Attachment, Entry};
use crate::error::Error;
use crate::hand::Hand;
use crate::tables::{escalation, scope, task};

/// The rows that an entry changes, as they will be.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    action: Option<ActionRow>,
    /// For a new action, whether a payload comes with it.
    made_with_payload: Option<bool>,
    attempt: Option<(Account, AttemptRow)>,
    escalation: Option<(Option<Account>, EscalationRow)>,
    scope: Option<(Account, ScopeRow)>,
    task: Option<TaskRow>,
}

impl Plan {
    pub(crate) fn of(db: &Connection, hand: &mut Hand, entry: &Entry) -> Result<Plan, Reject> {
        let event = &entry.record.event;
        let at = entry.record.at;
        let mut plan = Plan::default();

        match (event, event.action()) {
            (Event::ActionRequested(requested), _) => {
                if entry.source.account() != Some(&requested.account) {
                    return Err(illegal(event, "it comes from another account's engine"));
                }
                if hand.knows(db, requested.action)? {
                    return Err(illegal(event, "the action exists"));
                }
                plan.action = Some(ActionRow::open(requested, at));
                let mut attachments = entry.attachments.iter();
                let payload = attachments.any(|it| matches!(it, Attachment::Payload(_)));
                plan.made_with_payload = Some(payload);
            }
            (_, Some(id)) => {
                let Some(mut row) = hand.action(db, id)?.cloned() else {
                    return Err(illegal(event, "there is no such action"));
                };
                row.apply(event, at)?;
                plan.action = Some(row);
            }
            (_, None) => {}
        }
        plan.attempt = plan_attempt(db, hand, plan.action.as_ref(), entry)?;
        plan.escalation = plan_escalation(db, entry)?;
        plan.task = plan_task(db, entry)?;
        if let Event::Scope(change) = event {
            let Some(account) = entry.source.account() else {
                return Err(illegal(event, "it comes from no account's engine"));
            };
            plan.scope = Some((account.clone(), change.saved.clone()));
        }
        Ok(plan)
    }

    pub(crate) fn write(self, db: &Connection, hand: &mut Hand, stamp: Stamp) -> Result<(), Error> {
        if let Some(row) = self.action {
            let id = row.requested.action;
            if row.state.is_final() && hand.may_have_payload(id) {
                // Nothing of it is sent again, so nothing of it is kept for that.
                erase_payload(db, id)?;
            }
            match self.made_with_payload {
                Some(payload) => hand.make_action(row, stamp, payload),
                None => hand.put_action(row, stamp),
            }
        }
        if let Some((account, row)) = self.attempt {
            hand.put_send(account, row, stamp);
        }
        if let Some((account, row)) = &self.escalation {
            escalation::save(db, account.as_ref(), row, stamp)?;
        }
        if let Some((account, row)) = &self.scope {
            scope::save(db, account, row, stamp)?;
        }
        if let Some(row) = &self.task {
            task::save(db, row, stamp)?;
        }
        Ok(())
    }

    /// Writes the record, and how it is found again.
    pub(crate) fn insert_leaf(
        &self,
        db: &Connection,
        blocks: &mut Blocks,
        appended: &Appended,
        content: &[u8],
        entry: &Entry,
    ) -> Result<(), Reject> {
        let event = &entry.record.event;
        let requested = self.action.as_ref().map(|row| &row.requested);
        let agent = requested
            .map(|requested| &requested.agent)
            .or_else(|| agent_of(event));
        let task = requested
            .and_then(|requested| requested.task.as_ref())
            .or_else(|| task_of(event));
        let account = requested
            .map(|requested| &requested.account)
            .or_else(|| entry.source.account());
        let about = About {
            action: event.action(),
            agent,
            task,
        };
        blocks.note(db, appended.seq, entry.wall, about)?;
        db.prepare_cached(
            "INSERT INTO audit_leaf
                (seq, leaf, content, wall, event, account, action, agent, task, status)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute((
            Col(appended.seq.0),
            &appended.leaf,
            content,
            Col(entry.wall),
            event.word(),
            account.map(Account::as_str),
            event.action().map(Col),
            agent.map(Agent::as_str),
            task.map(Task::as_str),
            status_of(event),
        ))?;
        Ok(())
    }
}

fn illegal(event: &Event, why: &str) -> Reject {
    Illegal {
        event: event.word(),
        why: why.to_owned(),
    }
    .into()
}

fn plan_attempt(
    db: &Connection,
    hand: &mut Hand,
    action: Option<&ActionRow>,
    entry: &Entry,
) -> Result<Option<(Account, AttemptRow)>, Reject> {
    let event = &entry.record.event;
    let Some(requested) = action.map(|row| &row.requested) else {
        return Ok(None);
    };
    let account = requested.account.clone();
    if let Some(row) = AttemptRow::open(event, entry.record.at) {
        return Ok(Some((account, row)));
    }
    let (kind, n) = match event {
        Event::ActionResult { attempt, .. } => (SendKind::Attempt, *attempt),
        Event::Settled { attempt, .. } => (SendKind::Attempt, *attempt),
        Event::LookedUp { lookup, .. } => (SendKind::Lookup, *lookup),
        _ => return Ok(None),
    };
    let Some(mut row) = hand.send(db, (requested.action, kind, n))?.cloned() else {
        return Err(illegal(event, "there was no such send"));
    };
    row.apply(event, entry.record.at);
    Ok(Some((account, row)))
}

fn plan_escalation(
    db: &Connection,
    entry: &Entry,
) -> Result<Option<(Option<Account>, EscalationRow)>, Reject> {
    let event = &entry.record.event;
    if let Some(row) = EscalationRow::open(event, entry.record.at) {
        if escalation::load(db, row.escalation)?.is_some() {
            return Err(illegal(event, "the question exists"));
        }
        return Ok(Some((entry.source.account().cloned(), row)));
    }
    let Event::Decided { escalation: id, .. } = event else {
        return Ok(None);
    };
    let Some((account, stored)) = escalation::load(db, *id)? else {
        return Err(illegal(event, "there is no such question"));
    };
    let mut row = stored.row;
    row.apply(event, entry.record.at)?;
    Ok(Some((account, row)))
}

fn plan_task(db: &Connection, entry: &Entry) -> Result<Option<TaskRow>, Reject> {
    let event = &entry.record.event;
    let (agent, task) = match event {
        Event::TaskOpened { agent, task, .. }
        | Event::TaskCharged { agent, task, .. }
        | Event::TaskCancelled { agent, task, .. } => (agent, task),
        _ => return Ok(None),
    };
    let stored = task::load(db, agent, task)?;
    match (TaskRow::open(event, entry.record.at), stored) {
        // A task of this name may have ended so long ago that the book forgot it.
        (Some(opened), _) => Ok(Some(opened)),
        (None, Some(mut stored)) => {
            stored.apply(event);
            Ok(Some(stored))
        }
        (None, None) => Err(illegal(event, "there is no such task")),
    }
}

fn agent_of(event: &Event) -> Option<&Agent> {
    match event {
        Event::TurnedAway { agent, .. }
        | Event::TaskOpened { agent, .. }
        | Event::TaskCharged { agent, .. }
        | Event::TaskCancelled { agent, .. } => Some(agent),
        _ => None,
    }
}

fn task_of(event: &Event) -> Option<&Task> {
    match event {
        Event::TaskOpened { task, .. }
        | Event::TaskCharged { task, .. }
        | Event::TaskCancelled { task, .. } => Some(task),
        _ => None,
    }
}

fn status_of(event: &Event) -> Option<u16> {
    match event {
        Event::ActionResult { status, .. } | Event::LookedUp { status, .. } => *status,
        Event::Scope(change) => change.status,
        _ => None,
    }
}

/// Removes what was kept to send an action again. Returns how many rows went.
pub(crate) fn erase_payload(db: &Connection, action: ActionId) -> Result<usize, rusqlite::Error> {
    db.prepare_cached("DELETE FROM payload WHERE action = ?1")?
        .execute([Col(action)])
}
