//! One entry: which rows it changes, and how it is found again.
//!
//! An entry is planned before anything of it is written: the rows it changes
//! are read, the core says what becomes of them, contents are sealed. So an
//! event that can't follow what is stored is refused without a trace, and the
//! other entries of its batch go on. Whatever fails after that is the storage,
//! and takes the whole batch with it.

use rategov_audit::chain::{Chain, Content};
use rategov_audit::clear::Clear;
use rategov_audit::leaf::UnixMs;
use rategov_core::event::Event;
use rategov_core::id::{Account, ActionId, Agent, Task};
use rategov_core::record::{
    ActionRow, AttemptRow, EscalationRow, Illegal, ScopeRow, SendKind, TaskRow,
};
use rusqlite::Connection;

use crate::clock::{BootNo, Stamp};
use crate::codec::Fact;
use crate::db::Col;
use crate::entry::{Attachment, Entry};
use crate::error::Error;
use crate::sealed::{pack_answer, pack_payload};
use crate::tables::{action, attempt, escalation, scope, task};
use crate::workkey::{Sealed, WorkKey};

/// A wall clock that goes back by more than this gets a record of its own.
const ANOMALY_MS: u64 = 1_000;

/// Why an entry did not come to be.
#[derive(Debug)]
pub(crate) enum Reject {
    /// It can't follow what is stored, or doesn't fit. Nothing was written.
    Refused(String),
    /// The storage failed, perhaps half-way.
    Storage(Error),
}

impl From<Error> for Reject {
    fn from(error: Error) -> Reject {
        match error {
            // Nobody can write what can't be sealed; the storage is well.
            Error::Sealed { .. } => Reject::Refused(error.to_string()),
            error => Reject::Storage(error),
        }
    }
}

impl From<rusqlite::Error> for Reject {
    fn from(error: rusqlite::Error) -> Reject {
        Reject::Storage(error.into())
    }
}

impl From<Illegal> for Reject {
    fn from(illegal: Illegal) -> Reject {
        Reject::Refused(illegal.to_string())
    }
}

/// What the writer carries from entry to entry.
#[derive(Debug)]
pub(crate) struct Appender {
    pub(crate) chain: Chain,
    pub(crate) boot: BootNo,
    pub(crate) key: WorkKey,
    /// The wall clock is behind the journal, and a record says so.
    pub(crate) behind: bool,
}

impl Appender {
    /// Writes one entry inside the open transaction.
    pub(crate) fn apply(&mut self, db: &Connection, entry: &Entry) -> Result<(), Reject> {
        let stamp = Stamp {
            boot: self.boot,
            at: entry.record.at,
            wall: entry.wall,
        };
        let plan = Plan::of(db, entry)?;
        let attachments = self.seal(&entry.attachments)?;
        let content = Fact {
            source: entry.source.clone(),
            seq: entry.record.seq,
            at: entry.record.at,
            wall: entry.wall,
            event: entry.record.event.clone(),
        }
        .encode()
        .map_err(|error| Reject::Refused(error.to_string()))?;

        let seq = self.append(db, entry, &content)?;
        plan.index(db, seq, entry)?;
        plan.write(db, stamp)?;
        for attachment in &attachments {
            attachment.write(db, &self.key, stamp)?;
        }
        Ok(())
    }

    fn append(&mut self, db: &Connection, entry: &Entry, content: &[u8]) -> Result<u64, Reject> {
        // A wall clock before 1970 is as wrong as one that went back.
        let now = UnixMs(u64::try_from(entry.wall.as_micros()).unwrap_or(0) / 1_000);
        let refused = |error: rategov_audit::chain::AppendError| Reject::Refused(error.to_string());
        let late = self.chain.last_ts().0.saturating_sub(now.0);
        if late > ANOMALY_MS && !self.behind {
            let clear = Clear::ClockAnomaly { read: now };
            let appended = self.chain.append_clear(now, &clear).map_err(refused)?;
            insert_leaf(db, appended.seq.0, &appended.leaf, &[])?;
        }
        self.behind = late > ANOMALY_MS;
        let appended = self
            .chain
            .append(now, Content::in_clear(content))
            .map_err(refused)?;
        insert_leaf(db, appended.seq.0, &appended.leaf, content)?;
        Ok(appended.seq.0)
    }

    fn seal(&self, attachments: &[Attachment]) -> Result<Vec<SealedAttachment>, Reject> {
        let too_long = || Reject::Refused("a length of an attachment is out of range".to_owned());
        attachments
            .iter()
            .map(|attachment| match attachment {
                Attachment::Payload(payload) => {
                    let packed = pack_payload(payload).ok_or_else(too_long)?;
                    let sealed = self.key.seal(Sealed::Payload, payload.action, packed)?;
                    Ok(SealedAttachment::Payload(payload.action, sealed))
                }
                Attachment::Answer(answer) => {
                    let packed = pack_answer(answer).ok_or_else(too_long)?;
                    let sealed = self.key.seal(Sealed::Answer, answer.action, packed)?;
                    Ok(SealedAttachment::Answer(
                        answer.action,
                        answer.status,
                        sealed,
                    ))
                }
                Attachment::Erase(action) => Ok(SealedAttachment::Erase(*action)),
            })
            .collect()
    }
}

pub(crate) fn insert_leaf(
    db: &Connection,
    seq: u64,
    leaf: &[u8],
    content: &[u8],
) -> Result<(), rusqlite::Error> {
    db.prepare_cached("INSERT INTO audit_leaf (seq, leaf, content) VALUES (?1, ?2, ?3)")?
        .execute((Col(seq), leaf, content))?;
    Ok(())
}

enum SealedAttachment {
    Payload(ActionId, Vec<u8>),
    Answer(ActionId, u16, Vec<u8>),
    Erase(ActionId),
}

impl SealedAttachment {
    fn write(&self, db: &Connection, key: &WorkKey, stamp: Stamp) -> Result<(), Reject> {
        match self {
            SealedAttachment::Payload(action, sealed) => db
                .prepare_cached("INSERT OR REPLACE INTO payload VALUES (?1, ?2, ?3, ?4)")?
                .execute((Col(*action), key.id().0, sealed, Col(stamp.wall)))?,
            SealedAttachment::Answer(action, status, sealed) => db
                .prepare_cached("INSERT OR REPLACE INTO answer VALUES (?1, ?2, ?3, ?4, ?5)")?
                .execute((Col(*action), key.id().0, status, sealed, Col(stamp.wall)))?,
            SealedAttachment::Erase(action) => db
                .prepare_cached("DELETE FROM payload WHERE action = ?1")?
                .execute([Col(*action)])?,
        };
        Ok(())
    }
}

/// The rows that an entry changes, as they will be.
#[derive(Debug, Default)]
struct Plan {
    action: Option<ActionRow>,
    is_new_action: bool,
    attempt: Option<(Account, AttemptRow)>,
    escalation: Option<(Option<Account>, EscalationRow)>,
    scope: Option<(Account, ScopeRow)>,
    task: Option<TaskRow>,
}

impl Plan {
    fn of(db: &Connection, entry: &Entry) -> Result<Plan, Reject> {
        let event = &entry.record.event;
        let at = entry.record.at;
        let mut plan = Plan::default();

        match (event, event.action()) {
            (Event::ActionRequested(requested), _) => {
                if entry.source.account() != Some(&requested.account) {
                    return Err(illegal(event, "it comes from another account's engine"));
                }
                if action::load(db, requested.action)?.is_some() {
                    return Err(illegal(event, "the action exists"));
                }
                plan.action = Some(ActionRow::open(requested, at));
                plan.is_new_action = true;
            }
            (_, Some(id)) => {
                let Some(mut row) = action::load(db, id)? else {
                    return Err(illegal(event, "there is no such action"));
                };
                // A look-up draws on the quota and changes nothing of its action.
                if !matches!(event, Event::LookupSent { .. }) {
                    row.apply(event, at)?;
                }
                plan.action = Some(row);
            }
            (_, None) => {}
        }
        plan.attempt = plan_attempt(db, plan.action.as_ref(), entry)?;
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

    fn write(&self, db: &Connection, stamp: Stamp) -> Result<(), Error> {
        match &self.action {
            Some(row) if self.is_new_action => action::insert(db, row, stamp)?,
            Some(row) => action::update(db, row, stamp)?,
            None => {}
        }
        if let Some((account, row)) = &self.attempt {
            attempt::save(db, account, row, stamp)?;
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

    /// Writes how the record is found again.
    fn index(&self, db: &Connection, seq: u64, entry: &Entry) -> Result<(), rusqlite::Error> {
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
        db.prepare_cached(
            "INSERT INTO journal (seq, wall, event, account, action, agent, task, status)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute((
            Col(seq),
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
    action: Option<&ActionRow>,
    entry: &Entry,
) -> Result<Option<(Account, AttemptRow)>, Reject> {
    let event = &entry.record.event;
    let Some(requested) = action.map(|row| &row.requested) else {
        return Ok(None);
    };
    let account = requested.account.clone();
    if let Some(row) = AttemptRow::open(event, entry.record.at) {
        if attempt::load(db, row.action, row.kind, row.attempt)?.is_some() {
            return Err(illegal(event, "that send exists"));
        }
        return Ok(Some((account, row)));
    }
    let (kind, n) = match event {
        Event::ActionResult { attempt, .. } => (SendKind::Attempt, *attempt),
        Event::LookedUp { lookup, .. } => (SendKind::Lookup, *lookup),
        _ => return Ok(None),
    };
    let Some(mut row) = attempt::load(db, requested.action, kind, n)? else {
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
        // Whoever forgot that a task was cancelled must not wake it here.
        (Some(_), Some(stored)) if stored.cancelled => Err(illegal(event, "the task is cancelled")),
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
