//! Reading what is stored, beside the writer and without holding it up.
//!
//! Each call reads one state of the database as of its beginning. Connections
//! can't write. They block their thread for as long as the disk takes: call
//! from a thread that may wait.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rategov_audit::report::Report;
use rategov_audit::verify::{Expect, Verifier};
use rategov_audit::{export, verify};
use rategov_core::id::{Account, ActionId, EscalationId};
use rategov_core::record::{ActionRow, AttemptRow, EscalationRow, ScopeRow, Tables, TaskRow};
use rategov_core::time::{Moment, Span, WallTime};
use rusqlite::Connection;

use crate::clock::Stamped;
use crate::db::{self, Col, row, rows};
use crate::entry::{Payload, StoredResult};
use crate::error::Error;
use crate::folder::Folder;
use crate::migrate::{NEWEST, form};
use crate::query::{ActionQuery, JournalQuery, JournalRow, LIMIT_MAX};
use crate::queue::Queue;
use crate::recover;
use crate::sealed::{unpack_payload, unpack_result};
use crate::tables::{action, attempt, escalation, scope, task};
use crate::workkey::{Sealed, WorkKey};

type KeyAndContent = (Vec<u8>, Vec<u8>);

/// A question to a person, with the account whose engine asked it, if one did.
pub type Question = (Option<Account>, Stamped<EscalationRow>);

/// How long a reading waits for the writer. A disk that takes longer must not keep
/// anybody from looking at what is there.
const WRITTEN_WITHIN: Duration = Duration::from_secs(1);

/// Connections kept open between calls.
const IDLE_MAX: usize = 4;

/// Reads a data folder. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Reader {
    inner: Arc<Inner>,
    /// What is written before anything is read.
    behind: Option<Arc<Queue>>,
}

#[derive(Debug)]
struct Inner {
    folder: Folder,
    idle: Mutex<Vec<Connection>>,
}

impl Reader {
    /// Reads an existing data folder, whether or not a governor runs on it.
    ///
    /// # Errors
    /// If there is no database that this program knows.
    pub fn open(path: &Path) -> Result<Reader, Error> {
        let folder = Folder::existing(path);
        let database = folder.database();
        if let Err(cause) = std::fs::metadata(&database) {
            return Err(Error::file("can't find the database", &database)(cause));
        }
        let db = db::open_reader(&database)?;
        let found = form(&db)?;
        if !(1..=NEWEST).contains(&found) {
            return Err(Error::TooNew {
                found,
                known: NEWEST,
            });
        }
        Ok(Reader {
            inner: Arc::new(Inner {
                folder,
                idle: Mutex::new(vec![db]),
            }),
            behind: None,
        })
    }

    /// The same, which reads nothing before what this queue holds now is written.
    pub(crate) fn behind(self, queue: Arc<Queue>) -> Reader {
        Reader {
            behind: Some(queue),
            ..self
        }
    }

    fn with<T>(&self, read: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
        if let Some(queue) = &self.behind {
            queue.wait_for_writer(Some(WRITTEN_WITHIN));
        }
        let idle = || {
            self.inner
                .idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let kept = idle().pop();
        let db = match kept {
            Some(db) => db,
            None => db::open_reader(&self.inner.folder.database())?,
        };
        let result = read(&db)?;
        let mut idle = idle();
        if idle.len() < IDLE_MAX {
            idle.push(db);
        }
        Ok(result)
    }

    /// Records that match, in the order of the query, at most its limit.
    ///
    /// # Errors
    /// As all methods here: if the database fails or holds what this program
    /// did not write.
    pub fn journal(&self, query: &JournalQuery) -> Result<Vec<JournalRow>, Error> {
        self.with(|db| query.run(db))
    }

    /// One action.
    ///
    /// # Errors
    /// See [`Reader::journal`].
    pub fn action(&self, id: ActionId) -> Result<Option<Stamped<ActionRow>>, Error> {
        self.with(|db| {
            row(
                db,
                "SELECT * FROM action WHERE id = ?1",
                [Col(id)],
                action::read,
            )
        })
    }

    /// The actions of an account with this idempotency key, the newest first.
    /// Several agents may use the same key, and one key may come back after its
    /// lifetime.
    ///
    /// # Errors
    /// See [`Reader::journal`].
    pub fn actions_by_key(
        &self,
        account: &Account,
        key: &str,
    ) -> Result<Vec<Stamped<ActionRow>>, Error> {
        let sql = "SELECT * FROM action WHERE account = ?1 AND key = ?2 ORDER BY id DESC LIMIT 64";
        self.with(|db| rows(db, sql, (account.as_str(), key), action::read))
    }

    /// The actions with this idempotency key, whatever their account, the newest
    /// first. Keys are the agents' own words, so they may meet.
    ///
    /// # Errors
    /// See [`Reader::journal`].
    pub fn actions_with_key(&self, key: &str) -> Result<Vec<Stamped<ActionRow>>, Error> {
        let sql = "SELECT * FROM action WHERE key = ?1 ORDER BY id DESC LIMIT 64";
        self.with(|db| rows(db, sql, (key,), action::read))
    }

    /// The actions that a person or an agent may mean by a name: the one with this
    /// id, then those with this idempotency key, the newest first, of one account or
    /// of all. Most keys that libraries make look like ids, so what looks like one
    /// may be either; an id is nobody's choice, so it comes first.
    ///
    /// # Errors
    /// See [`Reader::journal`].
    pub fn actions_named(
        &self,
        name: &str,
        account: Option<&Account>,
    ) -> Result<Vec<Stamped<ActionRow>>, Error> {
        let mut found = Vec::new();
        if let Some(id) = ActionId::parse(name) {
            let of = |it: &Stamped<ActionRow>| {
                account.is_none_or(|account| it.row.requested.account == *account)
            };
            found.extend(self.action(id)?.filter(of));
        }
        found.extend(match account {
            Some(account) => self.actions_by_key(account, name)?,
            None => self.actions_with_key(name)?,
        });
        Ok(found)
    }

    /// Actions that match, the newest first.
    ///
    /// # Errors
    /// See [`Reader::journal`].
    pub fn actions(&self, query: &ActionQuery) -> Result<Vec<Stamped<ActionRow>>, Error> {
        self.with(|db| query.run(db))
    }

    /// The sends of an action, attempts first, in their order.
    ///
    /// # Errors
    /// See [`Reader::journal`].
    pub fn attempts(&self, action: ActionId) -> Result<Vec<Stamped<AttemptRow>>, Error> {
        let sql = "SELECT * FROM attempt WHERE action = ?1 ORDER BY kind, n LIMIT ?2";
        self.with(|db| rows(db, sql, (Col(action), LIMIT_MAX), attempt::read))
    }

    /// One question, with the account whose engine asked it.
    ///
    /// # Errors
    /// See [`Reader::journal`].
    pub fn escalation(&self, id: EscalationId) -> Result<Option<Question>, Error> {
        self.with(|db| escalation::load(db, id))
    }

    /// Questions, the newest first: the open ones, or the decided ones.
    ///
    /// # Errors
    /// See [`Reader::journal`].
    pub fn escalations(&self, which: Asked, limit: u32) -> Result<Vec<Question>, Error> {
        let sql = match which {
            Asked::Open => {
                "SELECT * FROM escalation WHERE chosen IS NULL ORDER BY id DESC LIMIT ?1"
            }
            Asked::Decided => {
                "SELECT * FROM escalation WHERE chosen IS NOT NULL ORDER BY id DESC LIMIT ?1"
            }
        };
        self.with(|db| rows(db, sql, [limit.min(LIMIT_MAX)], escalation::read))
    }

    /// What is stored of every scope.
    ///
    /// # Errors
    /// See [`Reader::journal`].
    pub fn scopes(&self) -> Result<Vec<(Account, Stamped<ScopeRow>)>, Error> {
        let sql = "SELECT * FROM scope ORDER BY account, scope LIMIT ?1";
        self.with(|db| rows(db, sql, [LIMIT_MAX], scope::read))
    }

    /// Tasks, the ones that changed last first.
    ///
    /// # Errors
    /// See [`Reader::journal`].
    pub fn tasks(&self, limit: u32) -> Result<Vec<Stamped<TaskRow>>, Error> {
        let sql = "SELECT * FROM task ORDER BY wall DESC, agent, task LIMIT ?1";
        self.with(|db| rows(db, sql, [limit.min(LIMIT_MAX)], task::read))
    }

    /// What an engine of this account begins with: for one that is rebuilt
    /// while the store runs.
    ///
    /// # Errors
    /// See [`Reader::journal`].
    pub fn account_tables(
        &self,
        account: &Account,
        now: WallTime,
        attempts_within: Span,
    ) -> Result<Tables, Error> {
        self.with(|db| {
            // Several statements, one state.
            let tx = db.unchecked_transaction()?;
            recover::account_tables(&tx, account, now, attempts_within)
        })
    }

    /// The tasks that the book of tasks begins with.
    ///
    /// # Errors
    /// See [`Reader::journal`].
    pub fn open_tasks(&self, now: Moment) -> Result<Vec<TaskRow>, Error> {
        self.with(|db| recover::tasks(db, now))
    }

    /// What is needed to send an action again, if it is kept.
    ///
    /// # Errors
    /// See [`Reader::journal`]; also if it doesn't open under the work key.
    pub fn payload(&self, action: ActionId) -> Result<Option<Payload>, Error> {
        let sealed = self.sealed("SELECT key, sealed FROM payload WHERE action = ?1", action)?;
        let Some((key, sealed)) = sealed else {
            return Ok(None);
        };
        let opened = self
            .work_key()?
            .open(Sealed::Payload, action, &key, sealed)?;
        let payload = unpack_payload(action, &opened);
        payload
            .map(Some)
            .ok_or_else(|| Error::Corrupt("payload".to_owned()))
    }

    /// What the provider answered to a write, if it is kept.
    ///
    /// # Errors
    /// See [`Reader::payload`].
    pub fn result(&self, action: ActionId) -> Result<Option<StoredResult>, Error> {
        let sealed = self.sealed("SELECT key, sealed FROM result WHERE action = ?1", action)?;
        let Some((key, sealed)) = sealed else {
            return Ok(None);
        };
        let opened = self
            .work_key()?
            .open(Sealed::Result, action, &key, sealed)?;
        let result = unpack_result(action, &opened);
        result
            .map(Some)
            .ok_or_else(|| Error::Corrupt("result".to_owned()))
    }

    /// The id of the work key, and what was sealed under it.
    fn sealed(&self, sql: &str, action: ActionId) -> Result<Option<KeyAndContent>, Error> {
        self.with(|db| {
            row(db, sql, [Col(action)], |columns| {
                Ok((columns.get("key")?, columns.get("sealed")?))
            })
        })
    }

    fn work_key(&self) -> Result<WorkKey, Error> {
        WorkKey::load(&self.inner.folder.work_key())?.ok_or(Error::Sealed {
            what: "content",
            why: "the work key is not there",
        })
    }

    /// Walks the whole log. Needs no key.
    ///
    /// # Errors
    /// Only if the database fails; what is wrong with the log is in the report.
    pub fn verify(&self, expect: &Expect) -> Result<Report, Error> {
        let first = match expect.start {
            verify::Start::Genesis => 0,
            verify::Start::After { head, .. } => head.size,
        };
        self.with(|db| {
            let mut verifier = Verifier::new(expect);
            walk(db, first, &mut verifier)?;
            Ok(verifier.finish())
        })
    }

    /// Writes the whole log in the form that `rategov audit verify` reads.
    /// Returns the number of records.
    ///
    /// # Errors
    /// If the database or the output fails.
    pub fn export(&self, out: &mut impl Write) -> Result<u64, Error> {
        self.with(|db| {
            let mut statement = db.prepare_cached(LEAVES)?;
            let mut leaves = statement.query([Col(0u64)])?;
            let mut count = 0;
            while let Some(row) = leaves.next()? {
                let leaf = row
                    .get_ref("leaf")?
                    .as_blob()
                    .map_err(rusqlite::Error::from)?;
                let content = row.get_ref("content")?.as_blob_or_null();
                let content = content.map_err(rusqlite::Error::from)?;
                export::write(out, leaf, content).map_err(|cause| Error::File {
                    what: "can't write the export of",
                    path: self.inner.folder.database(),
                    cause,
                })?;
                count += 1;
            }
            Ok(count)
        })
    }
}

/// Which questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Without an answer yet.
    Open,
    /// Answered, or run out.
    Decided,
}

const LEAVES: &str = "SELECT leaf, content FROM audit_leaf WHERE seq >= ?1 ORDER BY seq";

/// Shows the verifier every record from `first` on, until it has seen enough.
pub(crate) fn walk(db: &Connection, first: u64, verifier: &mut Verifier) -> Result<(), Error> {
    let mut statement = db.prepare_cached(LEAVES)?;
    let mut leaves = statement.query([Col(first)])?;
    while let Some(row) = leaves.next()? {
        let leaf = row
            .get_ref("leaf")?
            .as_blob()
            .map_err(rusqlite::Error::from)?;
        let content = row
            .get_ref("content")?
            .as_blob_or_null()
            .map_err(rusqlite::Error::from)?;
        if !verifier.push(leaf, content) {
            break;
        }
    }
    Ok(())
}
