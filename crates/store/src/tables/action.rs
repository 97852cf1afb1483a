//! Actions. What was asked for never changes and is kept whole, beside it the
//! columns that people search by; the rest is one column a field.

use std::sync::Arc;

use rategov_core::id::ActionId;
use rategov_core::record::ActionRow;
use rusqlite::{Connection, named_params};

use crate::clock::{Rebase, Stamp, Stamped};
use crate::codec::{Word, decode_requested, encode_requested};
use crate::db::{Col, Columns, row};
use crate::error::Error;

pub(crate) const SELECT: &str = "SELECT * FROM action";

pub(crate) fn load(db: &Connection, id: ActionId) -> Result<Option<ActionRow>, Error> {
    row(
        db,
        "SELECT * FROM action WHERE id = ?1",
        [Col(id)],
        |columns| Ok(read(columns)?.row),
    )
}

pub(crate) fn read(columns: Columns<'_, '_>) -> Result<Stamped<ActionRow>, Error> {
    let requested: Vec<u8> = columns.get("requested")?;
    let requested =
        decode_requested(&requested).map_err(|error| Error::Corrupt(format!("action: {error}")))?;
    let row = ActionRow {
        requested: Arc::new(requested),
        requested_at: columns.col("requested_at")?,
        state: columns.word("state")?,
        version: columns.get("version")?,
        attempts: columns.get("attempts")?,
        lookups: columns.get("lookups")?,
        waited: columns.col("waited")?,
        not_before: columns.col("not_before")?,
        last_sent_at: columns.maybe("last_sent_at")?,
        key_safe_until: columns.maybe("key_safe_until")?,
        uncertain: columns.get("uncertain")?,
        maybe_arrived: columns.get("maybe_arrived")?,
        operation_id: columns.get("operation_id")?,
        last_status: columns.get("last_status")?,
        escalation: columns.maybe("escalation")?,
        cancelled: columns.get("cancelled")?,
        code: columns.get("code")?,
    };
    Ok(Stamped {
        row,
        stamp: columns.stamp()?,
    })
}

/// Puts a new action there.
pub(crate) fn insert(db: &Connection, action: &ActionRow, stamp: Stamp) -> Result<(), Error> {
    let requested = &action.requested;
    let bytes = encode_requested(requested).map_err(|error| Error::Corrupt(error.to_string()))?;
    db.prepare_cached(
        "INSERT INTO action VALUES (:id, :requested, :account, :agent, :task, :key,
            :requested_at, :requested_wall, :state, :open, :version, :attempts, :lookups, :waited,
            :not_before, :last_sent_at, :key_safe_until, :uncertain, :maybe_arrived, :operation_id,
            :last_status, :escalation, :cancelled, :code, :boot, :at, :wall)",
    )?
    .execute(named_params! {
        ":id": Col(requested.action),
        ":requested": bytes,
        ":account": requested.account.as_str(),
        ":agent": requested.agent.as_str(),
        ":task": requested.task.as_ref().map(|task| task.as_str()),
        ":key": requested.key,
        ":requested_at": Col(action.requested_at),
        ":requested_wall": Col(stamp.wall_of(action.requested_at)),
        ":state": action.state.text(),
        ":open": !action.state.is_final(),
        ":version": action.version,
        ":attempts": action.attempts,
        ":lookups": action.lookups,
        ":waited": Col(action.waited),
        ":not_before": Col(action.not_before),
        ":last_sent_at": action.last_sent_at.map(Col),
        ":key_safe_until": action.key_safe_until.map(Col),
        ":uncertain": action.uncertain,
        ":maybe_arrived": action.maybe_arrived,
        ":operation_id": action.operation_id,
        ":last_status": action.last_status,
        ":escalation": action.escalation.map(Col),
        ":cancelled": action.cancelled,
        ":code": action.code,
        ":boot": Col(stamp.boot),
        ":at": Col(stamp.at),
        ":wall": Col(stamp.wall),
    })?;
    Ok(())
}

/// Writes what can change of an action that is there.
pub(crate) fn update(db: &Connection, action: &ActionRow, stamp: Stamp) -> Result<(), Error> {
    db.prepare_cached(
        "UPDATE action SET state = :state, open = :open, version = :version, attempts = :attempts,
            lookups = :lookups, waited = :waited, not_before = :not_before,
            last_sent_at = :last_sent_at, key_safe_until = :key_safe_until, uncertain = :uncertain,
            maybe_arrived = :maybe_arrived, operation_id = :operation_id,
            last_status = :last_status, escalation = :escalation, cancelled = :cancelled,
            code = :code, boot = :boot, at = :at, wall = :wall
         WHERE id = :id",
    )?
    .execute(named_params! {
        ":id": Col(action.requested.action),
        ":state": action.state.text(),
        ":open": !action.state.is_final(),
        ":version": action.version,
        ":attempts": action.attempts,
        ":lookups": action.lookups,
        ":waited": Col(action.waited),
        ":not_before": Col(action.not_before),
        ":last_sent_at": action.last_sent_at.map(Col),
        ":key_safe_until": action.key_safe_until.map(Col),
        ":uncertain": action.uncertain,
        ":maybe_arrived": action.maybe_arrived,
        ":operation_id": action.operation_id,
        ":last_status": action.last_status,
        ":escalation": action.escalation.map(Col),
        ":cancelled": action.cancelled,
        ":code": action.code,
        ":boot": Col(stamp.boot),
        ":at": Col(stamp.at),
        ":wall": Col(stamp.wall),
    })?;
    Ok(())
}

/// Places an open action on this boot's clock and writes it back.
pub(crate) fn rebase(
    db: &Connection,
    stored: Stamped<ActionRow>,
    rebase: &Rebase,
) -> Result<ActionRow, Error> {
    let Stamped { mut row, stamp } = stored;
    if rebase.is_exact(stamp) {
        return Ok(row);
    }
    let mut requested = (*row.requested).clone();
    requested.deadline = rebase.moment(stamp, requested.deadline);
    row.requested = Arc::new(requested);
    row.requested_at = rebase.moment(stamp, row.requested_at);
    row.not_before = rebase.moment(stamp, row.not_before);
    row.last_sent_at = row.last_sent_at.map(|at| rebase.moment(stamp, at));
    row.key_safe_until = row.key_safe_until.map(|at| rebase.key_end(stamp, at));
    let bytes =
        encode_requested(&row.requested).map_err(|error| Error::Corrupt(error.to_string()))?;
    db.prepare_cached("UPDATE action SET requested = ?2, requested_at = ?3 WHERE id = ?1")?
        .execute((Col(row.requested.action), bytes, Col(row.requested_at)))?;
    update(db, &row, rebase.stamp())?;
    Ok(row)
}
