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
use rategov_core::record::{ActionRow, AttemptRow, EscalationRow, ScopeRow, Tables, TaskRow};
use rategov_core::time::{Moment, Span, WallTime};
use rusqlite::Connection;

use crate::clock::{Rebase, Stamped};
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

/// Places open questions, scopes and tasks on this boot's clock.
fn rebase_small_tables(db: &Connection, rebase: &Rebase) -> Result<(), Error> {
    let old = "WHERE boot <> ?1";
    let boot = Col(rebase.boot);
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
    let since = since(now, horizon);
    let mut attempts = just_rows(long_open_sends(db, Some(account), since)?);
    attempts.extend(sends(db, account, since)?.into_iter().map(|it| it.row));
    Ok(Tables {
        actions: open_actions(db, Some(account))?
            .into_iter()
            .map(|it| it.row)
            .collect(),
        attempts,
        escalations: just_rows(open_questions(db, Some(account))?),
        scopes: scopes(db, Some(account))?,
        tasks: Vec::new(),
    })
}

/// Everything that is open, placed on this boot's clock. Each table is read once, and
/// accounts that only have sends too old for any window are left where they are.
pub(crate) fn all(
    db: &Connection,
    rebase: &Rebase,
    horizon: Span,
    key: KeyId,
    boot: Boot,
    log: Log,
) -> Result<Recovered, Error> {
    let mut accounts: BTreeMap<Account, Tables> = BTreeMap::new();
    let since = since(rebase.wall, horizon);
    rebase_small_tables(db, rebase)?;
    for (account, stored) in long_open_sends(db, None, since)? {
        let row = attempt::rebase(db, stored, rebase)?;
        accounts.entry(account).or_default().attempts.push(row);
    }
    for account in senders(db)? {
        let mut lately = Vec::new();
        for stored in sends(db, &account, since)? {
            lately.push(attempt::rebase(db, stored, rebase)?);
        }
        if !lately.is_empty() {
            let tables = accounts.entry(account).or_default();
            tables.attempts.append(&mut lately);
        }
    }
    for stored in open_actions(db, None)? {
        let row = action::rebase(db, stored, rebase)?;
        let account = row.requested.account.clone();
        accounts.entry(account).or_default().actions.push(row);
    }
    for (account, stored) in open_questions(db, None)? {
        let tables = accounts.entry(account).or_default();
        tables.escalations.push(stored.row);
    }
    for (account, row) in scopes(db, None)? {
        let tables = accounts.entry(account.clone()).or_default();
        tables.scopes.push((account, row));
    }
    Ok(Recovered {
        accounts,
        tasks: tasks(db, rebase.at)?,
        questions: questions(db)?,
        payloads: payloads(db, key)?,
        lost_payloads: lost_payloads(db, key)?,
        boot,
        log,
    })
}

type Of<T> = (Account, Stamped<T>);

fn just_rows<T>(stored: Vec<Of<T>>) -> Vec<T> {
    stored.into_iter().map(|(_, stored)| stored.row).collect()
}

/// A condition on the account in `column` that holds for one account, or for all.
fn of(account: Option<&Account>, column: &str) -> String {
    match account {
        Some(_) => format!("{column} = ?1"),
        None => "?1 IS NULL".to_owned(),
    }
}

fn open_actions(
    db: &Connection,
    account: Option<&Account>,
) -> Result<Vec<Stamped<ActionRow>>, Error> {
    let of = of(account, "account");
    // Without the hint SQLite walks through all actions to save itself the sorting.
    let sql =
        format!("SELECT * FROM action INDEXED BY action_open WHERE {of} AND open = 1 ORDER BY id");
    rows(db, &sql, [account.map(Account::as_str)], action::read)
}

/// Every account that ever sent anything: one step into the index for each.
fn senders(db: &Connection) -> Result<Vec<Account>, Error> {
    let sql = "WITH RECURSIVE sender (account) AS (
            SELECT min(account) FROM attempt
            UNION ALL
            SELECT (SELECT min(account) FROM attempt WHERE account > sender.account)
                FROM sender WHERE sender.account IS NOT NULL
        )
        SELECT account FROM sender WHERE account IS NOT NULL";
    rows(db, sql, (), |columns| columns.name("account", Account::new))
}

/// The sends of an account that were opened lately, the newest [`ATTEMPTS_MAX`] of
/// them, in their order.
fn sends(
    db: &Connection,
    account: &Account,
    since: WallTime,
) -> Result<Vec<Stamped<AttemptRow>>, Error> {
    let sql = "SELECT * FROM attempt WHERE account = ?1 AND opened_wall >= ?2
        ORDER BY opened_wall DESC LIMIT ?3";
    let params = (account.as_str(), Col(since), ATTEMPTS_MAX);
    let mut sends = rows(db, sql, params, attempt::read)?;
    sends.reverse();
    Ok(sends)
}

/// Sends that were opened before that and are still open, in their order.
///
/// They are sends of open actions. An attempt is: no action ends while one is out (see
/// the table in [`rategov_core::action::machine`]). A look-up may stay open when its
/// action ends otherwise, and then nobody asks for it any more.
fn long_open_sends(
    db: &Connection,
    account: Option<&Account>,
    since: WallTime,
) -> Result<Vec<Of<AttemptRow>>, Error> {
    let of = of(account, "action.account");
    let sql = format!(
        "SELECT attempt.* FROM action INDEXED BY action_open
         CROSS JOIN attempt ON attempt.action = action.id
         WHERE {of} AND action.open = 1
            AND attempt.certainty IS NULL AND attempt.opened_wall < ?2
         ORDER BY attempt.opened_wall"
    );
    let params = (account.map(Account::as_str), Col(since));
    rows(db, &sql, params, |columns| {
        let account = columns.name("account", Account::new)?;
        Ok((account, attempt::read(columns)?))
    })
}

/// Undecided questions that an account's engine asked.
fn open_questions(
    db: &Connection,
    account: Option<&Account>,
) -> Result<Vec<Of<EscalationRow>>, Error> {
    let of = of(account, "account");
    let sql = format!(
        "SELECT * FROM escalation INDEXED BY escalation_open
         WHERE {of} AND account IS NOT NULL AND chosen IS NULL ORDER BY id"
    );
    rows(db, &sql, [account.map(Account::as_str)], |columns| {
        let account = columns.name("account", Account::new)?;
        Ok((account, escalation::read(columns)?.1))
    })
}

fn scopes(db: &Connection, account: Option<&Account>) -> Result<Vec<(Account, ScopeRow)>, Error> {
    let of = of(account, "account");
    let sql = format!("SELECT * FROM scope WHERE {of} ORDER BY account, scope");
    rows(db, &sql, [account.map(Account::as_str)], |columns| {
        let (account, stored) = scope::read(columns)?;
        Ok((account, stored.row))
    })
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
