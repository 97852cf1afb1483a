//! Opening a data folder, and running its writer.
//!
//! ```text
//! Store::open   folder, lock, database, work key; the end of the chain
//!               verifies; open rows are placed on this boot's clock
//!   → Recovered what the engines begin with
//! Store::start  the writer's thread
//!   → Running   the journal to write to, a reader, and the way to stop
//! ```
//!
//! The lock is held until the writer has stopped.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use rategov_audit::chain::Chain;
use rategov_audit::clear::Origin;
use rategov_audit::finding::{Code, Finding};
use rategov_audit::hash::LeafHash;
use rategov_audit::leaf::UnixMs;
use rategov_audit::report::Head;
use rategov_audit::verify::{Expect, Start, Verifier};
use rategov_core::time::Span;
use rusqlite::{Connection, TransactionBehavior};

use crate::apply::{Appender, insert_leaf};
use crate::clock::{BootNo, Now, Rebase};
use crate::db::{self, Col, row};
use crate::error::Error;
use crate::folder::{Folder, Lock};
use crate::migrate::migrate;
use crate::queue::{Journal, Queue};
use crate::reader::Reader;
use crate::recover::{self, Boot, Log, Recovered};
use crate::workkey::{WorkKey, fill_random};
use crate::writer::{AckSink, Writer};

/// Longest boot id, in bytes.
const BOOT_ID_BYTES_MAX: usize = 64;

/// How a store is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// This node's name in the log's origin; visible ASCII, at most 100 bytes.
    /// Only read when the folder is new.
    pub node: String,
    /// Sends opened within this time are read back: the longest window that any
    /// quota counts by the send.
    pub attempts_within: Span,
    /// Records at the log's end that are verified at the start, at least 1.
    pub verify_last: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            node: "main".to_owned(),
            attempts_within: Span::from_secs(24 * 3_600),
            verify_last: 1_024,
        }
    }
}

/// An open data folder whose writer does not run yet.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    lock: Lock,
    db: Connection,
    appender: Appender,
}

impl Store {
    /// Opens a data folder, or makes it.
    ///
    /// # Errors
    /// See [`Error`]. Nothing is left half made: the next try begins where this
    /// one ended.
    pub fn open(path: &Path, options: &Options, now: &Now) -> Result<(Store, Recovered), Error> {
        if now.boot_id.is_empty() || now.boot_id.len() > BOOT_ID_BYTES_MAX {
            return Err(Error::Option("boot_id"));
        }
        let folder = Folder::prepare(path)?;
        let lock = folder.lock()?;
        folder.touch_database()?;
        let mut db = db::open_writer(&folder.database())?;
        migrate(&mut db)?;
        let key = WorkKey::load_or_make(&folder)?;
        let origin = identity(&mut db, &folder, options, now)?;
        let (chain, head) = end_of_chain(&db, &origin, options.verify_last)?;

        let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let (boot, boot_no) = boot(&tx, now)?;
        let rebase = Rebase {
            boot: boot_no,
            at: now.at,
            wall: now.wall,
        };
        recover::rebase_all(&tx, &rebase, options.attempts_within)?;
        tx.commit()?;

        let mut recovered = Recovered {
            accounts: Default::default(),
            tasks: recover::tasks(&db, &rebase)?,
            questions: recover::questions(&db)?,
            payloads: recover::payloads(&db, key.id())?,
            lost_payloads: recover::lost_payloads(&db, key.id())?,
            boot,
            log: Log { origin, head },
        };
        for account in recover::accounts(&db)? {
            let tables = recover::account_tables(&db, &account, now.wall, options.attempts_within)?;
            recovered.accounts.insert(account, tables);
        }
        let appender = Appender {
            chain,
            boot: boot_no,
            key,
            behind: false,
        };
        Ok((
            Store {
                path: path.to_owned(),
                lock,
                db,
                appender,
            },
            recovered,
        ))
    }

    /// Starts the writer. Acknowledgements go to `sink`, on the writer's thread.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(self, sink: AckSink) -> Result<Running, Error> {
        let queue = Arc::new(Queue::default());
        let writer = Writer::new(self.db, self.appender, Arc::clone(&queue), sink);
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer.run())
            .map_err(Error::file("can't start the writer of", &self.path))?;
        Ok(Running {
            journal: Journal::new(Arc::clone(&queue)),
            reader: Reader::open(&self.path)?,
            queue,
            thread: Some(thread),
            _lock: self.lock,
        })
    }
}

/// A store whose writer runs.
#[derive(Debug)]
pub struct Running {
    journal: Journal,
    reader: Reader,
    queue: Arc<Queue>,
    thread: Option<JoinHandle<Result<(), Error>>>,
    _lock: Lock,
}

impl Running {
    /// Where records enter.
    pub fn journal(&self) -> Journal {
        self.journal.clone()
    }

    /// What is stored.
    pub fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// Takes no more records, writes and acknowledges those that wait, and
    /// gives up the data folder.
    ///
    /// # Errors
    /// If the database could not be tidied up at the end. Every record that was
    /// acknowledged is safe all the same.
    pub fn close(mut self) -> Result<(), Error> {
        self.stop()
    }

    fn stop(&mut self) -> Result<(), Error> {
        self.queue.close();
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            // The panic itself was reported where it happened.
            Some(Err(_)) => Err(Error::Corrupt(
                "state of the writer, which panicked".to_owned(),
            )),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Who wants to know calls `close`.
        let _ = self.stop();
    }
}

/// The log's name; a new folder gets one, and with it the log's first record.
fn identity(
    db: &mut Connection,
    folder: &Folder,
    options: &Options,
    now: &Now,
) -> Result<Origin, Error> {
    let stored = row(db, "SELECT origin FROM meta", (), |columns| {
        columns.get::<String>("origin")
    })?;
    if let Some(text) = stored {
        return Origin::new(&text).ok_or_else(|| Error::Corrupt("origin".to_owned()));
    }
    let mut install = [0; 8];
    fill_random(&mut install, &folder.database())?;
    let install = format!("{:016x}", u64::from_be_bytes(install));
    let node = Some(&options.node)
        .filter(|node| node.len() <= 100)
        .ok_or(Error::Option("node"))?;
    let origin = Origin::new(&format!("rate-governor.local/{install}/{node}"))
        .ok_or(Error::Option("node"))?;
    let ms = u64::try_from(now.wall.as_micros()).unwrap_or(0) / 1_000;
    let (_, genesis) =
        Chain::begin(&origin, UnixMs(ms)).map_err(|error| Error::Corrupt(error.to_string()))?;
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute(
        "INSERT INTO meta (id, origin) VALUES (1, ?1)",
        [origin.as_str()],
    )?;
    insert_leaf(&tx, genesis.seq.0, &genesis.leaf, &[])?;
    tx.commit()?;
    Ok(origin)
}

/// Verifies the last records and takes up the chain behind them.
fn end_of_chain(db: &Connection, origin: &Origin, last: u64) -> Result<(Chain, Head), Error> {
    let leaf_of = |seq: u64| {
        row(
            db,
            "SELECT leaf FROM audit_leaf WHERE seq = ?1",
            [Col(seq)],
            |columns| columns.get::<Vec<u8>>("leaf"),
        )
    };
    let missing = |position| {
        Error::Tampered(Finding {
            code: Code::SeqOrder,
            position,
            seq: None,
            detail: "a record is missing".to_owned(),
        })
    };
    let size = row(
        db,
        "SELECT max(seq) AS last FROM audit_leaf",
        (),
        |columns| columns.maybe::<u64>("last"),
    )?
    .flatten()
    .map_or(0, |last| last + 1);
    let first = size.saturating_sub(last.max(1));
    let start = if first == 0 {
        Start::Genesis
    } else {
        let before = leaf_of(first - 1)?.ok_or_else(|| missing(first - 1))?;
        let head = Head {
            size: first,
            hash: LeafHash::of(&before),
        };
        Start::After {
            head,
            log_id: origin.log_id(),
        }
    };
    let expect = Expect {
        start,
        log_id: Some(origin.log_id()),
        anchors: Vec::new(),
    };
    let mut verifier = Verifier::new(&expect);
    crate::reader::walk(db, first, &mut verifier)?;
    if let Some(finding) = verifier.finish().finding {
        return Err(Error::Tampered(finding));
    }
    let leaf = leaf_of(size - 1)?.ok_or_else(|| missing(size - 1))?;
    let chain = Chain::resume(&leaf).map_err(|error| Error::Corrupt(error.to_string()))?;
    let head = Head {
        size,
        hash: chain.head(),
    };
    Ok((chain, head))
}

/// The number of this boot. Only the last one is remembered: rows know their own.
fn boot(db: &Connection, now: &Now) -> Result<(Boot, BootNo), Error> {
    let last = row(db, "SELECT n, boot_id FROM boot", (), |columns| {
        Ok((
            columns.col::<BootNo>("n")?,
            columns.get::<String>("boot_id")?,
        ))
    })?;
    let (boot, n) = match last {
        Some((n, id)) if id == now.boot_id => return Ok((Boot::Same, n)),
        Some((n, _)) => (Boot::Another, BootNo(n.0 + 1)),
        None => (Boot::First, BootNo(1)),
    };
    db.execute("DELETE FROM boot", ())?;
    db.execute("INSERT INTO boot VALUES (?1, ?2)", (Col(n), &now.boot_id))?;
    Ok((boot, n))
}
