//! Actions. What was asked for never changes and is kept whole, beside it the
//! columns that people search by; the rest is one column a field.

use std::sync::Arc;

use rategov_core::id::ActionId;
use rategov_core::record::ActionRow;
use rusqlite::{CachedStatement, Connection, params};

use crate::clock::{Rebase, Stamp, Stamped};
use crate::codec::{Word, decode_requested, encode_requested};
use crate::db::{Col, Columns, row};
use crate::error::Error;

pub(crate) fn load(db: &Connection, id: ActionId) -> Result<Option<ActionRow>, Error> {
    row(
        db,
        "SELECT * FROM action WHERE id = ?1",
        [Col(id)],
        |columns| Ok(read(columns)?.row),
    )
}

/// The greatest id of all.
pub(crate) fn newest(db: &Connection) -> Result<Option<ActionId>, Error> {
    let sql = "SELECT max(id) AS id FROM action";
    Ok(row(db, sql, (), |columns| columns.maybe("id"))?.flatten())
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
        uncounted: columns.later("uncounted")?,
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

// By place: to look a name up costs SQLite a walk over all of them, for each.
const INSERT: &str = "INSERT INTO action (id, requested, account, agent, task, key,
            requested_at, requested_wall, state, open, version, attempts, lookups, waited,
            not_before, last_sent_at, key_safe_until, uncertain, maybe_arrived, operation_id,
            last_status, escalation, cancelled, code, boot, at, wall, uncounted, spare)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6,
            ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14,
            ?15, ?16, ?17, ?18, ?19, ?20,
            ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29)";
const UPDATE: &str =
    "UPDATE action SET state = ?2, open = ?3, version = ?4, attempts = ?5, lookups = ?6,
            waited = ?7, not_before = ?8, last_sent_at = ?9, key_safe_until = ?10, uncertain = ?11,
            maybe_arrived = ?12, operation_id = ?13, last_status = ?14, escalation = ?15,
            cancelled = ?16, code = ?17, boot = ?18, at = ?19, wall = ?20, uncounted = ?21,
            spare = ?22
         WHERE id = ?1";

/// What rows of actions are written with, for all of a transaction.
pub(crate) struct Writing<'db> {
    insert: CachedStatement<'db>,
    update: CachedStatement<'db>,
}

impl<'db> Writing<'db> {
    pub(crate) fn to(db: &'db Connection) -> rusqlite::Result<Writing<'db>> {
        Ok(Writing {
            insert: db.prepare_cached(INSERT)?,
            update: db.prepare_cached(UPDATE)?,
        })
    }

    /// Puts a new action there.
    pub(crate) fn insert(&mut self, action: &ActionRow, stamp: Stamp) -> Result<(), Error> {
        let requested = &action.requested;
        let bytes =
            encode_requested(requested).map_err(|error| Error::Corrupt(error.to_string()))?;
        self.insert.execute(params![
            Col(requested.action),
            bytes,
            requested.account.as_str(),
            requested.agent.as_str(),
            requested.task.as_ref().map(|task| task.as_str()),
            requested.key,
            Col(action.requested_at),
            Col(stamp.wall_of(action.requested_at)),
            action.state.text(),
            !action.state.is_final(),
            action.version,
            action.attempts,
            action.lookups,
            Col(action.waited),
            Col(action.not_before),
            action.last_sent_at.map(Col),
            action.key_safe_until.map(Col),
            action.uncertain,
            action.maybe_arrived,
            action.operation_id,
            action.last_status,
            action.escalation.map(Col),
            action.cancelled,
            action.code,
            Col(stamp.boot),
            Col(stamp.at),
            Col(stamp.wall),
            action.uncounted,
            spare(action, stamp),
        ])?;
        Ok(())
    }

    /// Writes what can change of an action that is there.
    pub(crate) fn update(&mut self, action: &ActionRow, stamp: Stamp) -> Result<(), Error> {
        self.update.execute(params![
            Col(action.requested.action),
            action.state.text(),
            !action.state.is_final(),
            action.version,
            action.attempts,
            action.lookups,
            Col(action.waited),
            Col(action.not_before),
            action.last_sent_at.map(Col),
            action.key_safe_until.map(Col),
            action.uncertain,
            action.maybe_arrived,
            action.operation_id,
            action.last_status,
            action.escalation.map(Col),
            action.cancelled,
            action.code,
            Col(stamp.boot),
            Col(stamp.at),
            Col(stamp.wall),
            action.uncounted,
            spare(action, stamp),
        ])?;
        Ok(())
    }
}

/// Bytes of all that changes of a row, together with what it holds free: a read's whole
/// life fits. A row that grew would split its page, which costs more than all the rest.
const CHANGING_BYTES: usize = 40;

/// What the row holds free, so that it stays as long as it is:
///
/// ```text
/// sent     dispatching, version, 2 moments of 6 bytes               24 bytes and 16 free
/// ended    succeeded, done, version, status, 3 moments of 6 bytes   34 bytes and 6 free
/// ```
fn spare(action: &ActionRow, stamp: Stamp) -> Option<&'static [u8]> {
    const FREE: &[u8; CHANGING_BYTES] = &[0; CHANGING_BYTES];
    let moments = [
        Some(action.not_before),
        action.last_sent_at,
        action.key_safe_until,
        Some(stamp.at),
    ];
    let numbers = [
        u64::from(action.version),
        u64::from(action.attempts),
        u64::from(action.lookups),
        u64::from(action.uncounted),
        u64::from(action.last_status.unwrap_or(0)),
        action.waited.as_micros(),
    ];
    let texts = [action.state.text(), &action.code];
    let used = moments
        .iter()
        .flatten()
        .map(|moment| moment.as_micros())
        .chain(numbers)
        .map(bytes_of)
        .chain(texts.map(str::len))
        .chain([action.operation_id.as_ref().map_or(0, String::len)])
        .chain([action.escalation.map_or(0, |_| 16)])
        .sum();
    FREE.get(used..).filter(|free| !free.is_empty())
}

/// Bytes that SQLite needs for a number (see its file format, section 2.1).
fn bytes_of(number: u64) -> usize {
    match number {
        0..=1 => 0,
        2..=0x7f => 1,
        0x80..=0x7fff => 2,
        0x8000..=0x7f_ffff => 3,
        0x80_0000..=0x7fff_ffff => 4,
        0x8000_0000..=0x7fff_ffff_ffff => 6,
        _ => 8,
    }
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
    Writing::to(db)?.update(&row, rebase.stamp())?;
    Ok(row)
}
