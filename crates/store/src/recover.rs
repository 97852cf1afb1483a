//! What a start finds: everything that is still open, with its moments on this
//! boot's clock.
//!
//! Only the state tables are read; no record of the log is decoded. If the
//! machine booted since, the open rows are placed on the new clock and written
//! back, all in one transaction, before any of them is used.

use std::collections::{BTreeMap, BTreeSet};

use rategov_audit::clear::Origin;
use rategov_audit::report::Head;
use rategov_core::id::{Account, ActionId};
use rategov_core::record::{EscalationRow, Tables, TaskRow};
use rategov_core::time::{Moment, Span, WallTime};
use rusqlite::Connection;

use crate::clock::Rebase;
use crate::db::{Col, row, rows};
use crate::error::Error;
use crate::tables::{action, attempt, escalation, scope, task};
use crate::workkey::KeyId;

/// Most sends of one account that a start reads; the newest ones.
pub const ATTEMPTS_MAX: u32 = 100_000;

/// Most tasks that a start reads, the ones that changed last: as many as the
/// book of tasks remembers.
pub const TASKS_MAX: u32 = 100_000;

/// Whether this is the boot during which the rows were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    /// The folder is new.
    First,
    /// Moments are exact.
    Same,
    /// The machine booted since: waits were placed by the wall clock.
    Another,
}

/// The log as a start finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Its name.
    pub origin: Origin,
    /// Its end.
    pub head: Head,
}

/// What a start finds.
#[derive(Debug)]
pub struct Recovered {
    /// What is open, by account. The tasks of these tables are empty.
    pub accounts: BTreeMap<Account, Tables>,
    /// Tasks that are not over, and cancelled ones, which must stay so.
    pub tasks: Vec<TaskRow>,
    /// Open questions that no account's engine asked.
    pub questions: Vec<EscalationRow>,
    /// Actions whose payload is there and opens.
    pub payloads: BTreeSet<ActionId>,
    /// Payloads that were sealed under another work key and are lost.
    pub lost_payloads: u64,
    /// Whether moments are exact.
    pub boot: Boot,
    /// The log.
    pub log: Log,
}

/// Rows of sends that a restart needs: lately opened, or still open.
const SENDS: &str = "SELECT * FROM attempt WHERE account = ?1
    AND (opened_wall >= ?2 OR certainty IS NULL) ORDER BY opened_wall DESC LIMIT ?3";

/// Places everything that is open on this boot's clock.
pub(crate) fn rebase_all(db: &Connection, rebase: &Rebase, horizon: Span) -> Result<(), Error> {
    let old = "WHERE boot <> ?1";
    let boot = Col(rebase.boot);
    for stored in rows(
        db,
        &format!("{} {old} AND open = 1", action::SELECT),
        [boot],
        action::read,
    )? {
        action::rebase(db, stored, rebase)?;
    }
    for account in accounts(db)? {
        let since = Col(since(rebase.wall, horizon));
        let sends = rows(
            db,
            SENDS,
            (account.as_str(), since, ATTEMPTS_MAX),
            attempt::read,
        )?;
        for stored in sends {
            attempt::rebase(db, &account, stored, rebase)?;
        }
    }
    let sql = format!("SELECT * FROM escalation {old} AND chosen IS NULL");
    for (account, stored) in rows(db, &sql, [boot], escalation::read)? {
        escalation::rebase(db, account.as_ref(), stored, rebase)?;
    }
    for (account, stored) in rows(
        db,
        &format!("SELECT * FROM scope {old}"),
        [boot],
        scope::read,
    )? {
        scope::rebase(db, &account, stored, rebase)?;
    }
    for stored in rows(db, &format!("SELECT * FROM task {old}"), [boot], task::read)? {
        task::rebase(db, stored, rebase)?;
    }
    Ok(())
}

/// What is open of one account. Moments are this boot's once the store is open.
pub(crate) fn account_tables(
    db: &Connection,
    account: &Account,
    now: WallTime,
    horizon: Span,
) -> Result<Tables, Error> {
    let name = account.as_str();
    let mut attempts = rows(
        db,
        SENDS,
        (name, Col(since(now, horizon)), ATTEMPTS_MAX),
        |columns| Ok(attempt::read(columns)?.row),
    )?;
    attempts.reverse();
    Ok(Tables {
        actions: rows(
            db,
            "SELECT * FROM action WHERE account = ?1 AND open = 1 ORDER BY id",
            [name],
            |columns| Ok(action::read(columns)?.row),
        )?,
        attempts,
        escalations: rows(
            db,
            "SELECT * FROM escalation WHERE account = ?1 AND chosen IS NULL ORDER BY id",
            [name],
            |columns| Ok(escalation::read(columns)?.1.row),
        )?,
        scopes: rows(
            db,
            "SELECT * FROM scope WHERE account = ?1 ORDER BY scope",
            [name],
            |columns| {
                let (account, stored) = scope::read(columns)?;
                Ok((account, stored.row))
            },
        )?,
        tasks: Vec::new(),
    })
}

/// Every account that anything is stored of.
fn accounts(db: &Connection) -> Result<Vec<Account>, Error> {
    rows(
        db,
        "SELECT account FROM scope UNION SELECT account FROM action WHERE open = 1
         UNION SELECT account FROM attempt
         UNION SELECT account FROM escalation WHERE chosen IS NULL AND account IS NOT NULL",
        (),
        |columns| columns.name("account", Account::new),
    )
}

/// Everything that is open.
pub(crate) fn all(
    db: &Connection,
    rebase: &Rebase,
    horizon: Span,
    key: KeyId,
    boot: Boot,
    log: Log,
) -> Result<Recovered, Error> {
    let mut recovered = Recovered {
        accounts: BTreeMap::new(),
        tasks: tasks(db, rebase.at)?,
        questions: questions(db)?,
        payloads: payloads(db, key)?,
        lost_payloads: lost_payloads(db, key)?,
        boot,
        log,
    };
    for account in accounts(db)? {
        let tables = account_tables(db, &account, rebase.wall, horizon)?;
        recovered.accounts.insert(account, tables);
    }
    Ok(recovered)
}

/// Tasks that are not over, and cancelled ones.
pub(crate) fn tasks(db: &Connection, now: Moment) -> Result<Vec<TaskRow>, Error> {
    let sql = "SELECT * FROM task WHERE deadline > ?1 OR cancelled = 1 ORDER BY wall DESC LIMIT ?2";
    rows(db, sql, (Col(now), TASKS_MAX), |columns| {
        Ok(task::read(columns)?.row)
    })
}

fn questions(db: &Connection) -> Result<Vec<EscalationRow>, Error> {
    rows(
        db,
        "SELECT * FROM escalation WHERE account IS NULL AND chosen IS NULL ORDER BY id",
        (),
        |columns| Ok(escalation::read(columns)?.1.row),
    )
}

fn payloads(db: &Connection, key: KeyId) -> Result<BTreeSet<ActionId>, Error> {
    let sql = "SELECT action FROM payload WHERE key = ?1";
    Ok(rows(db, sql, [key.0], |columns| columns.col("action"))?
        .into_iter()
        .collect())
}

fn lost_payloads(db: &Connection, key: KeyId) -> Result<u64, Error> {
    let sql = "SELECT count(*) AS n FROM payload WHERE key <> ?1";
    Ok(row(db, sql, [key.0], |columns| columns.col("n"))?.unwrap_or(0))
}

fn since(now: WallTime, horizon: Span) -> WallTime {
    let span = i64::try_from(horizon.as_micros()).unwrap_or(i64::MAX);
    WallTime::from_micros(now.as_micros().saturating_sub(span))
}
