//! The one thread that writes.
//!
//! It takes what waits, at most 256 entries, never waiting for a batch to
//! fill, and writes it as one transaction: leaves, rows, attachments. Then, by
//! what each entry asked for:
//!
//! ```text
//! take 3 entries        1 read (process), 2 write (power), 3 read (process)
//! COMMIT, NORMAL        in the operating system's hands: survives kill -9
//!   acknowledge 1, 3
//! marker row, FULL      its sync hardens everything before it in the same log
//!   acknowledge 2
//! ```
//!
//! The marker is needed because SQLite's `synchronous` can't change inside a
//! transaction and a transaction that writes nothing syncs nothing.
//!
//! If the transaction fails, nothing of it is there, the chain in memory goes
//! back to where it was, and every entry of the batch is told. An engine that
//! was told so is rebuilt and begins anew, in its next generation, with record
//! 1; until then its later records are refused, because they tell of a state
//! that never came to be.
//!
//! If only the marker can't be written (no space, a quota of the file system),
//! nothing is in doubt: the entries that asked for power wait and the marker is
//! tried again. If the sync itself fails, nobody can know what the disk holds
//! (the system may have dropped the pages and report success the next time), so
//! the journal stops until a restart.
//!
//! Whoever decides whether new work is taken asks [`JournalState`]: after a
//! failure it says so, and because nobody may hand in anything then, the writer
//! itself tries with a small row of its own until the disk takes it.
//!
//! It stops as well when its files have lost their names (see `folder`): commits to
//! them still succeed, and the next start would find nothing of them. That is looked
//! at before every transaction, and once a second while none comes.
//!
//! [`JournalState`]: crate::JournalState

use std::sync::Arc;
use std::time::Duration;

use rategov_core::event::Durability;
use rategov_core::id::RecordSeq;
use rategov_core::time::WallTime;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, ffi};

use crate::apply::{Appender, Reject};
use crate::entry::{Ack, CommitFailed, Entry, Source};
use crate::error::Error;
use crate::fail;
use crate::folder::{Lock, Watch};
use crate::order::Order;
use crate::queue::{AcksSink, Queue};
use crate::sweep::sweep;
use crate::transaction::Transaction;

/// Most entries of one transaction.
pub const BATCH_ENTRIES_MAX: usize = 256;

/// Most bytes of payloads in one transaction, unless one alone has more.
const BATCH_BYTES_MAX: usize = 32 << 20;

/// How long a row that could not be written waits for the next try.
const MARKER_RETRY: Duration = Duration::from_millis(100);

/// Bytes in the log after which it is folded into the database at the next quiet
/// moment, and at the latest. Folding syncs twice, some milliseconds during
/// which nothing else is written, so it is not done while anybody waits; but a log
/// that grows beyond what is kept of its file costs the system new pages each time.
const FOLD_WHEN_QUIET: usize = 8 << 20;
const FOLD_AT_LAST: usize = 48 << 20;

/// A moment is quiet if nothing came for so long. That the queue is empty says
/// nothing: a busy writer empties it with every batch.
const QUIET: Duration = Duration::from_millis(200);

/// How often the files are looked at while nothing is written.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// Roughly what a transaction writes to the log, and each of its records.
const BYTES_PER_TRANSACTION: usize = 24 << 10;
const BYTES_PER_RECORD: usize = 2 << 10;

/// Batches between two sweeps, and between two when the first left work.
const SWEEP_EVERY: u32 = 4_096;
const SWEEP_SOON: u32 = 64;

pub(crate) struct Writer {
    db: Connection,
    appender: Appender,
    queue: Arc<Queue>,
    sink: AcksSink,
    /// Acknowledgements that go out together.
    acks: Vec<Ack>,
    order: Order,
    /// Committed entries that asked for power and are not synced yet.
    unsynced: Vec<Place>,
    /// Why nothing more is written, once it is so.
    broken: Option<CommitFailed>,
    /// The last thing that was to be written was not.
    failing: bool,
    watch: Watch,
    batches_until_sweep: u32,
    /// Bytes in the log that are not folded into the database, roughly.
    unfolded: usize,
}

/// Which record of which engine.
struct Place {
    source: Source,
    generation: u32,
    seq: RecordSeq,
}

impl From<Entry> for Place {
    fn from(entry: Entry) -> Place {
        Place {
            source: entry.source,
            generation: entry.generation,
            seq: entry.record.seq,
        }
    }
}

impl Writer {
    /// Waits until somebody listens, then writes until the queue is closed and empty.
    /// The folder is ours for as long as this runs.
    pub(crate) fn run(
        db: Connection,
        appender: Appender,
        queue: Arc<Queue>,
        watch: Watch,
        _lock: Lock,
    ) -> Result<(), Error> {
        let _abandoning = AbandonOnDrop(Arc::clone(&queue));
        let sink = queue.wait_for_sink();
        let mut writer = Writer {
            db,
            appender,
            queue,
            sink,
            acks: Vec::new(),
            order: Order::default(),
            unsynced: Vec::new(),
            broken: None,
            failing: false,
            watch,
            batches_until_sweep: SWEEP_SOON,
            unfolded: 0,
        };
        writer.write_all();
        if writer.broken == Some(CommitFailed::Gone) {
            // By name the last one to close would remove a log that is another's now.
            writer
                .db
                .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            return Ok(());
        }
        // Leaves one file behind instead of three; the next start does not need it.
        writer
            .db
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))?;
        Ok(())
    }

    fn write_all(&mut self) {
        loop {
            let patience = match self.unsynced.is_empty() && !self.failing {
                false => Some(MARKER_RETRY),
                true if self.unfolded >= FOLD_WHEN_QUIET => Some(QUIET),
                true => Some(WATCH_EVERY),
            };
            let taken = self
                .queue
                .take(BATCH_ENTRIES_MAX, BATCH_BYTES_MAX, patience);
            let wall = taken.entries.last().map(|entry| entry.wall);
            let is_quiet = taken.entries.is_empty();
            self.look_after_files();
            if !taken.entries.is_empty() {
                let bytes: usize = taken.entries.iter().map(Entry::weight).sum();
                let records = taken.entries.len() * BYTES_PER_RECORD;
                self.unfolded += BYTES_PER_TRANSACTION + records + bytes;
                self.write(taken.entries);
            } else if self.failing && self.unsynced.is_empty() {
                self.probe();
            }
            self.sync();
            if taken.ended {
                break;
            }
            self.sweep(wall);
            self.fold(is_quiet);
        }
        for place in std::mem::take(&mut self.unsynced) {
            self.ack(place, Err(CommitFailed::DiskFull));
        }
        self.tell();
    }

    /// Stops the journal if its files are not those that their names say.
    fn look_after_files(&mut self) {
        if self.broken.is_some() {
            return;
        }
        let Some(lost) = self.watch.lost() else {
            return;
        };
        let path = lost.path.display().to_string();
        let why = CommitFailed::Gone;
        tracing::error!(%path, hint = why.hint(), "{why}; nothing is sent any more");
        if lost.database_is_whole {
            // What was acknowledged is in a log that is gone when we are: the
            // database, which is still there, can have it.
            self.unfolded = FOLD_AT_LAST;
            self.fold(true);
        }
        self.stop(&why);
        for place in std::mem::take(&mut self.unsynced) {
            self.ack(place, Err(why.clone()));
        }
        self.tell();
    }

    fn stop(&mut self, why: &CommitFailed) {
        self.broken = Some(why.clone());
        self.queue.close();
    }

    fn write(&mut self, entries: Vec<Entry>) {
        if let Some(why) = self.broken.clone() {
            self.queue.wrote(entries.len());
            for entry in entries {
                self.ack(entry.into(), Err(why.clone()));
            }
            self.tell();
            return;
        }
        let before = (self.appender.chain.clone(), self.appender.behind);
        let outcomes = match self.transact(&entries) {
            Ok(outcomes) => {
                // While others wait for their marker it is the marker that tells.
                if self.unsynced.is_empty() {
                    self.note(None);
                }
                outcomes
            }
            Err(error) => {
                (self.appender.chain, self.appender.behind) = before;
                self.appender.let_go();
                let failed = failure(&error);
                self.note(Some(&failed));
                entries
                    .iter()
                    .for_each(|entry| self.order.note(entry, false));
                entries.iter().map(|_| Err(failed.clone())).collect()
            }
        };
        self.queue.wrote(entries.len());
        fail::point(fail::AFTER_COMMIT_BEFORE_SYNC);
        for (entry, outcome) in entries.into_iter().zip(outcomes) {
            if outcome.is_ok() && entry.record.durability == Durability::Power {
                self.unsynced.push(entry.into());
            } else {
                self.ack(entry.into(), outcome);
            }
        }
        self.tell();
    }

    /// One transaction; on an error nothing of it is there.
    fn transact(&mut self, entries: &[Entry]) -> Result<Vec<Result<(), CommitFailed>>, Error> {
        let tx = Transaction::begin(&mut self.db)?;
        let mut outcomes = Vec::with_capacity(entries.len());
        for entry in entries {
            let outcome = match self.order.check(entry) {
                Ok(()) => match self.appender.apply(&tx, entry) {
                    Ok(()) => Ok(()),
                    Err(Reject::Refused(why)) => Err(CommitFailed::Refused(why)),
                    Err(Reject::Storage(error)) => return Err(error),
                },
                Err(failed) => Err(failed),
            };
            self.order.note(entry, outcome.is_ok());
            outcomes.push(outcome);
        }
        self.appender.hand.flush(&tx)?;
        fail::point(fail::BEFORE_COMMIT);
        tx.commit()?;
        self.appender.hand.tidy();
        Ok(outcomes)
    }

    /// Hardens what is committed, if anybody waits for that.
    fn sync(&mut self) {
        if self.unsynced.is_empty() || self.broken.is_some() {
            return;
        }
        let result = match marker(&mut self.db) {
            Ok(()) => {
                self.note(None);
                fail::point(fail::AFTER_SYNC_BEFORE_ACK);
                Ok(())
            }
            Err(error) if is_unwritten(&error) => {
                self.note(Some(&failure(&error)));
                return;
            }
            Err(_) => {
                let why = CommitFailed::Broken;
                tracing::error!(hint = why.hint(), "{why}; nothing is sent any more");
                self.stop(&why);
                Err(why)
            }
        };
        for place in std::mem::take(&mut self.unsynced) {
            self.ack(place, result.clone());
        }
        self.tell();
        fail::point(fail::AFTER_ACK);
    }

    /// Tries whether the disk takes anything again. Nothing is promised on the
    /// strength of it, so it is not synced, and a failure changes nothing.
    fn probe(&mut self) {
        if self.broken.is_none() && touch(&mut self.db).is_ok() {
            self.note(None);
        }
    }

    /// Tells those that ask what became of the last thing that was to be written;
    /// before its acknowledgements, so that nobody hears of a failure and then
    /// that all is well.
    fn note(&mut self, failed: Option<&CommitFailed>) {
        if self.failing || failed.is_some() {
            self.failing = failed.is_some();
            self.queue.note(failed.cloned());
        }
    }

    /// Now and then, away from anybody who waits, removes what is old.
    fn sweep(&mut self, wall: Option<WallTime>) {
        self.batches_until_sweep = self.batches_until_sweep.saturating_sub(1);
        if let Some(wall) = wall
            && self.batches_until_sweep == 0
            && self.broken.is_none()
        {
            // What can't be removed now is removed the next time.
            let more = sweep(&mut self.db, wall).unwrap_or(false);
            self.batches_until_sweep = if more { SWEEP_SOON } else { SWEEP_EVERY };
        }
    }

    /// Folds the log into the database, which is also what keeps it short.
    fn fold(&mut self, is_quiet: bool) {
        let due = if is_quiet {
            FOLD_WHEN_QUIET
        } else {
            FOLD_AT_LAST
        };
        if self.unfolded >= due && self.broken.is_none() {
            // What can't be folded now stays in the log and is folded the next time.
            let _ = self
                .db
                .query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |_| Ok(()));
            self.unfolded = 0;
        }
    }

    fn ack(&mut self, place: Place, result: Result<(), CommitFailed>) {
        let Place {
            source,
            generation,
            seq,
        } = place;
        self.acks.push(Ack {
            source,
            generation,
            seq,
            result,
        });
    }

    /// Lets the acknowledgements out.
    fn tell(&mut self) {
        if !self.acks.is_empty() {
            (self.sink)(std::mem::take(&mut self.acks));
        }
    }
}

/// However the writer ends, nobody hands records to a queue that none reads,
/// and nobody waits for it.
struct AbandonOnDrop(Arc<Queue>);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

fn marker(db: &mut Connection) -> Result<(), Error> {
    db.pragma_update(None, "synchronous", "FULL")?;
    let result = touch(db);
    db.pragma_update(None, "synchronous", "NORMAL")?;
    Ok(result?)
}

/// Writes the row whose content means nothing.
fn touch(db: &mut Connection) -> rusqlite::Result<()> {
    let tx = Transaction::begin(db)?;
    tx.prepare_cached("UPDATE meta SET sync_marker = sync_marker + 1 WHERE id = 1")?
        .execute(())?;
    tx.commit()
}

/// Whether a commit failed before anything of it was to be synced.
fn is_unwritten(error: &Error) -> bool {
    let Error::Sqlite(rusqlite::Error::SqliteFailure(cause, _)) = error else {
        return false;
    };
    cause.code == ErrorCode::DiskFull
        || [ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_SHMSIZE].contains(&cause.extended_code)
}

fn failure(error: &Error) -> CommitFailed {
    let Error::Sqlite(error) = error else {
        return CommitFailed::Storage(error.to_string());
    };
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => CommitFailed::DiskFull,
        Some(ErrorCode::ReadOnly) => CommitFailed::ReadOnly,
        _ => CommitFailed::Storage(error.to_string()),
    }
}
