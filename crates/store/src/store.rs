//! Opening a data folder, and running its writer.
//!
//! ```text
//! Store::open    folder, lock, database, work key; the end of the chain
//!                verifies; open rows are placed on this boot's clock
//!   → Recovered  what the engines begin with
//! Store::on_ack  who hears acknowledgements; the writer begins
//! Store::close   what waits is written, the folder is given up
//! ```
//!
//! The folder's lock belongs to the writer's thread and ends with it.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rategov_audit::chain::Chain;
use rategov_audit::clear::Origin;
use rategov_audit::finding::{Code, Finding};
use rategov_audit::hash::LeafHash;
use rategov_audit::leaf::UnixMs;
use rategov_audit::report::Head;
use rategov_audit::verify::{Expect, Start, Verifier};
use rategov_core::record::Tables;
use rategov_core::time::Span;
use rusqlite::{Connection, TransactionBehavior};

use crate::apply::{Appender, insert_structural};
use crate::blocks::Blocks;
use crate::clock::{BootNo, Now, Rebase};
use crate::db::{self, Col, row};
use crate::entry::Source;
use crate::error::Error;
use crate::folder::Folder;
use crate::hand::Hand;
use crate::migrate::{form, migrate};
use crate::queue::{AckSink, AcksSink, Journal, Queue};
use crate::reader::Reader;
use crate::recover::{self, Boot, Log, Recovered};
use crate::workkey::{WorkKey, fill_random};
use crate::writer::Writer;

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
    /// Most bytes of the database; beyond it entries fail as on a full disk.
    pub database_bytes_max: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            node: "main".to_owned(),
            attempts_within: Span::from_secs(24 * 3_600),
            verify_last: 1_024,
            database_bytes_max: None,
        }
    }
}

/// An open data folder and its running writer. Cheap to clone; the folder is
/// given up when the last clone is gone, or by [`Store::close`].
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    queue: Arc<Queue>,
    reader: Reader,
    thread: Mutex<Option<JoinHandle<Result<(), Error>>>>,
    attempts_within: Span,
}

impl Store {
    /// Opens a data folder, or makes it, and starts its writer, which begins
    /// with the first entry after [`Store::on_ack`].
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
        folder.check_not_emptied()?;
        folder.touch_database()?;
        let mut db = db::open_writer(&folder.database())?;
        // The keys are made after the first form, so a database without a form
        // beside them has lost what was in it.
        if folder.is_used() && form(&db)? == 0 {
            return Err(Error::JournalGone {
                path: folder.database(),
            });
        }
        migrate(&mut db)?;
        if let Some(bytes) = options.database_bytes_max {
            db::limit(&db, bytes)?;
        }
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
        let log = Log { origin, head };
        let recovered = recover::all(&tx, &rebase, options.attempts_within, key.id(), boot, log)?;
        tx.commit()?;

        let appender = Appender {
            chain,
            boot: boot_no,
            key,
            hand: Hand::default(),
            blocks: Blocks::default(),
            behind: false,
        };
        let reader = Reader::open(path)?;
        let queue = Arc::new(Queue::default());
        let writing = Arc::clone(&queue);
        let watch = folder.watch();
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || Writer::run(db, appender, writing, watch, lock))
            .map_err(Error::file("can't start the writer of", path))?;
        let inner = Inner {
            queue,
            reader,
            thread: Mutex::new(Some(thread)),
            attempts_within: options.attempts_within,
        };
        Ok((
            Store {
                inner: Arc::new(inner),
            },
            recovered,
        ))
    }

    /// Says where acknowledgements go. Once, before the first entry.
    pub fn on_ack(&self, sink: AckSink) {
        self.on_acks(Box::new(move |acks| acks.into_iter().for_each(&sink)));
    }

    /// As [`Store::on_ack`], for who takes all of a transaction's at once.
    pub fn on_acks(&self, sink: AcksSink) {
        self.inner.queue.listen(sink);
    }

    /// Where records enter.
    pub fn journal(&self) -> Journal {
        Journal::new(Arc::clone(&self.inner.queue))
    }

    /// What is stored.
    pub fn reader(&self) -> Reader {
        self.inner.reader.clone()
    }

    /// What is stored, together with all that was handed in before each reading: a
    /// call whose answer has passed has ended here, too. Reading takes as long as it
    /// takes to write that, within bounds.
    pub fn reader_of_all(&self) -> Reader {
        self.inner
            .reader
            .clone()
            .behind(Arc::clone(&self.inner.queue))
    }

    /// What an engine begins with that is rebuilt after a lost commit.
    ///
    /// Of an account: all but its tasks; of the task book: the tasks. First
    /// everything is written that was handed in before, so that nothing of the
    /// engine's former life can follow. Blocks for as long as that and the disk
    /// take; not to be called where acknowledgements are heard.
    ///
    /// # Errors
    /// If the database fails.
    pub fn recover(&self, source: &Source, now: &Now) -> Result<Tables, Error> {
        self.inner.queue.wait_for_writer(None);
        match source {
            Source::Account(account) => {
                self.inner
                    .reader
                    .account_tables(account, now.wall, self.inner.attempts_within)
            }
            Source::Tasks => {
                let tasks = self.inner.reader.open_tasks(now.at)?;
                Ok(Tables {
                    tasks,
                    ..Tables::default()
                })
            }
            Source::Governor => Ok(Tables::default()),
        }
    }

    /// Takes no more records, writes and acknowledges those that wait, and
    /// gives up the data folder.
    ///
    /// # Errors
    /// If the database could not be tidied up at the end. Every record that was
    /// acknowledged is safe all the same.
    pub fn close(&self) -> Result<(), Error> {
        self.inner.stop()
    }
}

impl Inner {
    fn stop(&self) -> Result<(), Error> {
        self.queue.close();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let result = match thread {
            None => return Ok(()),
            // The last clone was dropped by whoever hears the acknowledgements:
            // the writer can't wait for itself. It ends once the queue is empty.
            Some(thread) if thread.thread().id() == std::thread::current().id() => return Ok(()),
            Some(thread) => thread.join(),
        };
        // A panic was reported where it happened.
        result.unwrap_or_else(|_| Err(Error::Corrupt("state of the writer".to_owned())))
    }
}

impl Drop for Inner {
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
    insert_structural(&tx, &genesis)?;
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
