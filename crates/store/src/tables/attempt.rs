//! Sends: attempts and look-ups. A restart rebuilds the windows of the quotas
//! from them.

use rategov_core::cost::Cost;
use rategov_core::id::{Account, ActionId, AttemptNo};
use rategov_core::record::{AttemptRow, SendKind};
use rusqlite::{CachedStatement, Connection, params};

use super::{join_scopes, split_scopes};
use crate::clock::{Rebase, Stamp, Stamped};
use crate::codec::{Word, decode_cost, encode_cost, parse_word};
use crate::db::{Col, Columns, row};
use crate::error::Error;

impl Word for SendKind {
    const WORDS: &'static [SendKind] = &[SendKind::Attempt, SendKind::Lookup];
    fn text(self) -> &'static str {
        match self {
            SendKind::Attempt => "attempt",
            SendKind::Lookup => "lookup",
        }
    }
}

pub(crate) fn load(
    db: &Connection,
    action: ActionId,
    kind: SendKind,
    n: AttemptNo,
) -> Result<Option<AttemptRow>, Error> {
    row(
        db,
        "SELECT * FROM attempt WHERE action = ?1 AND kind = ?2 AND n = ?3",
        (Col(action), kind.text(), n),
        |columns| Ok(read(columns)?.row),
    )
}

pub(crate) fn read(columns: Columns<'_, '_>) -> Result<Stamped<AttemptRow>, Error> {
    let kind: String = columns.get("kind")?;
    let scopes: String = columns.get("scopes")?;
    let row = AttemptRow {
        action: columns.col("action")?,
        kind: parse_word(&kind).ok_or_else(|| Error::Corrupt("kind".to_owned()))?,
        attempt: columns.get("n")?,
        opened_at: columns.col("opened_at")?,
        scopes: split_scopes(&scopes)?,
        cost: match columns.later::<Option<Vec<u8>>>("units")? {
            Some(bytes) => decode_cost(&bytes).map_err(|_| Error::Corrupt("units".to_owned()))?,
            None => Cost::requests(columns.get("requests")?),
        },
        sent_at: columns.maybe("sent_at")?,
        certainty: columns.maybe_word("certainty")?,
        outcome: columns.maybe_word("outcome")?,
        status: columns.get("status")?,
    };
    Ok(Stamped {
        row,
        stamp: columns.stamp()?,
    })
}

const INSERT: &str = "INSERT INTO attempt (action, kind, n, account, opened_at, opened_wall,
            scopes, requests, sent_at, certainty, outcome, status, boot, at, wall, units)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
const UPDATE: &str =
    "UPDATE attempt SET opened_at = ?4, sent_at = ?5, certainty = ?6, outcome = ?7,
            status = ?8, boot = ?9, at = ?10, wall = ?11, units = ?12
         WHERE action = ?1 AND kind = ?2 AND n = ?3";

/// What rows of sends are written with, for all of a transaction.
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

    /// Puts a new send there.
    pub(crate) fn insert(
        &mut self,
        account: &Account,
        attempt: &AttemptRow,
        stamp: Stamp,
    ) -> Result<(), Error> {
        self.insert.execute(params![
            Col(attempt.action),
            attempt.kind.text(),
            attempt.attempt,
            account.as_str(),
            Col(attempt.opened_at),
            Col(stamp.wall_of(attempt.opened_at)),
            join_scopes(&attempt.scopes),
            attempt.cost.calls(),
            attempt.sent_at.map(Col),
            attempt.certainty.map(Word::text),
            attempt.outcome.map(Word::text),
            attempt.status,
            Col(stamp.boot),
            Col(stamp.at),
            Col(stamp.wall),
            units(&attempt.cost)?,
        ])?;
        Ok(())
    }

    /// Writes what can change of a send that is there. When it was opened by the wall
    /// clock stays as first written.
    pub(crate) fn update(&mut self, attempt: &AttemptRow, stamp: Stamp) -> Result<(), Error> {
        self.update.execute(params![
            Col(attempt.action),
            attempt.kind.text(),
            attempt.attempt,
            Col(attempt.opened_at),
            attempt.sent_at.map(Col),
            attempt.certainty.map(Word::text),
            attempt.outcome.map(Word::text),
            attempt.status,
            Col(stamp.boot),
            Col(stamp.at),
            Col(stamp.wall),
            units(&attempt.cost)?,
        ])?;
        Ok(())
    }
}

/// What a send drew beside calls; nothing of most.
fn units(cost: &Cost) -> Result<Option<Vec<u8>>, Error> {
    if *cost == Cost::requests(cost.calls()) {
        return Ok(None);
    }
    let bytes = encode_cost(cost).map_err(|error| Error::Corrupt(error.to_string()))?;
    Ok(Some(bytes))
}

/// Places a send on this boot's clock and writes it back.
pub(crate) fn rebase(
    db: &Connection,
    stored: Stamped<AttemptRow>,
    rebase: &Rebase,
) -> Result<AttemptRow, Error> {
    let Stamped { mut row, stamp } = stored;
    if rebase.is_exact(stamp) {
        return Ok(row);
    }
    row.opened_at = rebase.moment(stamp, row.opened_at);
    row.sent_at = row.sent_at.map(|at| rebase.moment(stamp, at));
    Writing::to(db)?.update(&row, rebase.stamp())?;
    Ok(row)
}
