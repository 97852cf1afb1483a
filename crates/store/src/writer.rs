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
//! was told so begins anew with record 1; until then its later records are
//! refused, because they tell of a state that never came to be.
//!
//! If only the marker fails for want of space, the entries that asked for
//! power wait and the marker is tried again. If the sync itself fails, nobody
//! can know what the disk holds (the system may have dropped the pages and
//! report success the next time), so the journal stops until a restart.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rategov_core::event::Durability;
use rategov_core::id::RecordSeq;
use rategov_core::time::WallTime;
use rusqlite::{Connection, ErrorCode, TransactionBehavior};

use crate::apply::{Appender, Reject};
use crate::entry::{Ack, CommitFailed, Entry, Source};
use crate::error::Error;
use crate::fail;
use crate::queue::Queue;
use crate::sweep::sweep;

/// Most entries of one transaction.
pub const BATCH_ENTRIES_MAX: usize = 256;

/// Most bytes of payloads in one transaction, unless one alone has more.
const BATCH_BYTES_MAX: usize = 32 << 20;

/// Engines whose place in their order is known. The number of accounts is
/// bounded far below by whoever makes them.
const SOURCES_MAX: usize = 100_000;

/// How long a marker that found no space waits for the next try.
const MARKER_RETRY: Duration = Duration::from_millis(100);

/// Batches between two sweeps, and between two when the first left work.
const SWEEP_EVERY: u32 = 4_096;
const SWEEP_SOON: u32 = 64;

/// Where acknowledgements go. Called on the writer's thread: it must not wait.
pub type AckSink = Box<dyn Fn(Ack) + Send>;

pub(crate) struct Writer {
    pub(crate) db: Connection,
    pub(crate) appender: Appender,
    pub(crate) queue: Arc<Queue>,
    pub(crate) sink: AckSink,
    sources: BTreeMap<Source, Heard>,
    /// Committed entries that asked for power and are not synced yet.
    unsynced: Vec<(Source, RecordSeq)>,
    broken: bool,
    batches_until_sweep: u32,
}

/// What was heard of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    UpTo(RecordSeq),
    /// A record of it was lost.
    Lost,
}

impl Writer {
    pub(crate) fn new(
        db: Connection,
        appender: Appender,
        queue: Arc<Queue>,
        sink: AckSink,
    ) -> Writer {
        Writer {
            db,
            appender,
            queue,
            sink,
            sources: BTreeMap::new(),
            unsynced: Vec::new(),
            broken: false,
            batches_until_sweep: SWEEP_SOON,
        }
    }

    /// Writes until the queue is closed and empty.
    pub(crate) fn run(mut self) -> Result<(), Error> {
        let _closing = CloseOnDrop(Arc::clone(&self.queue));
        loop {
            let patience = (!self.unsynced.is_empty()).then_some(MARKER_RETRY);
            let taken = self
                .queue
                .take(BATCH_ENTRIES_MAX, BATCH_BYTES_MAX, patience);
            if !taken.entries.is_empty() {
                let wall = taken.entries.last().map(|entry| entry.wall);
                self.write(taken.entries);
                self.sync();
                self.sweep(wall);
            } else {
                self.sync();
            }
            if taken.ended {
                break;
            }
        }
        for (source, seq) in std::mem::take(&mut self.unsynced) {
            self.ack(source, seq, Err(CommitFailed::DiskFull));
        }
        // Leaves one file behind instead of three; the next start does not need it.
        self.db
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))?;
        Ok(())
    }

    fn write(&mut self, entries: Vec<Entry>) {
        if self.broken {
            for entry in entries {
                self.ack(entry.source, entry.record.seq, Err(CommitFailed::Broken));
            }
            return;
        }
        let before = (self.appender.chain.clone(), self.appender.behind);
        let outcomes = match self.transact(&entries) {
            Ok(outcomes) => outcomes,
            Err(error) => {
                (self.appender.chain, self.appender.behind) = before;
                let failed = failure(&error);
                entries.iter().map(|_| Err(failed.clone())).collect()
            }
        };
        fail::point(fail::AFTER_COMMIT_BEFORE_SYNC);
        for (entry, outcome) in entries.into_iter().zip(outcomes) {
            let seq = entry.record.seq;
            if outcome.is_err() {
                self.sources.insert(entry.source.clone(), Heard::Lost);
            } else if entry.record.durability == Durability::Power {
                self.unsynced.push((entry.source, seq));
                continue;
            }
            self.ack(entry.source, seq, outcome);
        }
    }

    /// One transaction; on an error nothing of it is there.
    fn transact(&mut self, entries: &[Entry]) -> Result<Vec<Result<(), CommitFailed>>, Error> {
        let tx = self
            .db
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut outcomes = Vec::with_capacity(entries.len());
        for entry in entries {
            let outcome = match in_order(&self.sources, entry) {
                Ok(()) => match self.appender.apply(&tx, entry) {
                    Ok(()) => Ok(()),
                    Err(Reject::Refused(why)) => Err(CommitFailed::Refused(why)),
                    Err(Reject::Storage(error)) => return Err(error),
                },
                Err(failed) => Err(failed),
            };
            let heard = match outcome {
                Ok(()) => Heard::UpTo(entry.record.seq),
                Err(_) => Heard::Lost,
            };
            self.sources.insert(entry.source.clone(), heard);
            outcomes.push(outcome);
        }
        fail::point(fail::BEFORE_COMMIT);
        tx.commit()?;
        Ok(outcomes)
    }

    /// Now and then, away from anybody who waits, removes what is old.
    fn sweep(&mut self, wall: Option<WallTime>) {
        self.batches_until_sweep = self.batches_until_sweep.saturating_sub(1);
        if let Some(wall) = wall
            && self.batches_until_sweep == 0
            && !self.broken
        {
            // What can't be removed now is removed the next time.
            let more = sweep(&mut self.db, wall).unwrap_or(false);
            self.batches_until_sweep = if more { SWEEP_SOON } else { SWEEP_EVERY };
        }
    }

    /// Hardens what is committed, if anybody waits for that.
    fn sync(&mut self) {
        if self.unsynced.is_empty() || self.broken {
            return;
        }
        match marker(&mut self.db) {
            Ok(()) => {
                fail::point(fail::AFTER_SYNC_BEFORE_ACK);
                for (source, seq) in std::mem::take(&mut self.unsynced) {
                    self.ack(source, seq, Ok(()));
                }
                fail::point(fail::AFTER_ACK);
            }
            Err(error) if matches!(failure(&error), CommitFailed::DiskFull) => {}
            Err(_) => {
                self.broken = true;
                self.queue.close();
                for (source, seq) in std::mem::take(&mut self.unsynced) {
                    self.ack(source, seq, Err(CommitFailed::Broken));
                }
            }
        }
    }

    fn ack(&self, source: Source, seq: RecordSeq, result: Result<(), CommitFailed>) {
        (self.sink)(Ack {
            source,
            seq,
            result,
        });
    }
}

/// However the writer ends, nobody hands records to a queue that none reads.
struct CloseOnDrop(Arc<Queue>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Whether an entry is the one that its engine's order puts next.
fn in_order(sources: &BTreeMap<Source, Heard>, entry: &Entry) -> Result<(), CommitFailed> {
    let seq = entry.record.seq;
    let refused = |why: String| Err(CommitFailed::Refused(why));
    match sources.get(&entry.source) {
        None if sources.len() >= SOURCES_MAX => refused("there are too many engines".to_owned()),
        // The engine begins, or begins anew after it was rebuilt.
        _ if seq == RecordSeq(1) => Ok(()),
        Some(Heard::Lost) => Err(CommitFailed::EarlierFailed),
        Some(Heard::UpTo(last)) if seq.0 == last.0 + 1 => Ok(()),
        Some(Heard::UpTo(last)) => refused(format!("record {} follows {}", seq.0, last.0)),
        None => refused(format!("record {} is the first of its engine", seq.0)),
    }
}

fn marker(db: &mut Connection) -> Result<(), Error> {
    db.pragma_update(None, "synchronous", "FULL")?;
    let result = (|| {
        let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        tx.prepare_cached("UPDATE meta SET sync_marker = sync_marker + 1 WHERE id = 1")?
            .execute(())?;
        tx.commit()
    })();
    db.pragma_update(None, "synchronous", "NORMAL")?;
    Ok(result?)
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
