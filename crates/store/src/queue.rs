//! The way from the engines to the writer: one queue, bounded in entries and
//! in bytes, that never makes its callers wait.
//!
//! Engines call [`Journal::enqueue`] while they hold their own lock, so the
//! order here is the order of their decisions. A full queue is told at once;
//! no record is ever dropped silently.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::entry::{Ack, Attachment, CommitFailed, Entry, Full};

/// Where acknowledgements go, one by one. Called on the writer's thread: it must not wait.
pub type AckSink = Box<dyn Fn(Ack) + Send>;

/// Where acknowledgements go, all of a transaction's at once, in their order and
/// never none. Called on the writer's thread: it must not wait.
pub type AcksSink = Box<dyn Fn(Vec<Ack>) + Send>;

/// Most entries that wait.
pub const QUEUE_ENTRIES_MAX: usize = 8_192;

/// Most bytes of payloads and results that wait.
pub const QUEUE_BYTES_MAX: usize = 128 << 20;

/// Where records enter. Cheap to clone; all clones are one queue.
#[derive(Clone, Debug)]
pub struct Journal {
    queue: Arc<Queue>,
}

impl Journal {
    pub(crate) fn new(queue: Arc<Queue>) -> Journal {
        Journal { queue }
    }

    /// Hands a record to the writer. Never waits for the disk; an
    /// acknowledgement follows for each entry that was taken, and only for those.
    ///
    /// # Errors
    /// [`Full`] says why the entry was not taken.
    pub fn enqueue(&self, entry: Entry) -> Result<(), Full> {
        self.begin().enqueue(entry)
    }

    /// Begins a run of records that belong together: the writer is woken once, when
    /// the run is dropped. A writer that is at work may take what is there before.
    ///
    /// One decision of an engine is several records (`action_requested` and
    /// `action_sent`); where writer and engine share a core, waking it for the first
    /// would make two transactions of them.
    pub fn begin(&self) -> Run<'_> {
        Run {
            queue: &self.queue,
            wakes: false,
        }
    }

    /// Entries that still find room: none in a journal that is closed or broken.
    pub fn free(&self) -> usize {
        let inner = self.queue.lock();
        match inner.closed {
            true => 0,
            false => QUEUE_ENTRIES_MAX - inner.entries.len(),
        }
    }

    /// Whether what is handed in now can be expected to reach the disk. That there
    /// is room in the queue says nothing of it: a disk that refuses everything
    /// empties the queue faster than one that writes.
    pub fn state(&self) -> JournalState {
        let inner = self.queue.lock();
        match &inner.failing {
            _ if inner.closed => JournalState::Stopped,
            Some(why) => JournalState::Failing(why.clone()),
            None => JournalState::Takes {
                free: QUEUE_ENTRIES_MAX - inner.entries.len(),
            },
        }
    }
}

/// How the journal is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalState {
    /// The last thing that was written was taken, or nothing was written yet.
    Takes {
        /// Entries that still find room in the queue.
        free: usize,
    },
    /// The last thing that was to be written was not. The writer tries by itself,
    /// several times a second, until the disk takes something again.
    Failing(CommitFailed),
    /// It is closed, or broken: nothing is taken until a restart.
    Stopped,
}

impl fmt::Display for JournalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalState::Takes { free } => write!(f, "the journal has room for {free} records"),
            JournalState::Failing(why) => write!(f, "the journal can't be written: {why}"),
            JournalState::Stopped => f.write_str("the journal takes nothing until a restart"),
        }
    }
}

/// Records that enter one after the other. See [`Journal::begin`].
#[derive(Debug)]
pub struct Run<'q> {
    queue: &'q Queue,
    /// Whether the writer waits and something has come for it.
    wakes: bool,
}

impl Run<'_> {
    /// As [`Journal::enqueue`].
    ///
    /// # Errors
    /// [`Full`] says why the entry was not taken.
    pub fn enqueue(&mut self, entry: Entry) -> Result<(), Full> {
        self.wakes |= self.queue.push(entry)?;
        Ok(())
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if self.wakes {
            self.queue.wake.notify_one();
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    wake: Condvar,
    progress: Condvar,
}

#[derive(Default)]
struct Inner {
    entries: VecDeque<Entry>,
    bytes: usize,
    closed: bool,
    /// Why the last thing that was to be written was not, if so.
    failing: Option<CommitFailed>,
    /// The writer waits and nobody has undertaken to wake it yet. Waking costs a
    /// call of the system whether or not anybody sleeps, so it is not done in vain.
    asleep: bool,
    /// The writer is gone; what waits stays unwritten.
    abandoned: bool,
    /// Entries taken in, and entries that were written or refused, since the start.
    pushed: u64,
    written: u64,
    sink: Option<AcksSink>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Inner({} entries, {} bytes)",
            self.entries.len(),
            self.bytes
        )
    }
}

/// What the writer took.
pub(crate) struct Taken {
    pub(crate) entries: Vec<Entry>,
    /// Nothing will follow.
    pub(crate) ended: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics between locking and unlocking, so a poisoned lock
        // guards a whole value.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an entry; says whether the caller must wake the writer.
    fn push(&self, entry: Entry) -> Result<bool, Full> {
        if !entry.attachments.iter().all(Attachment::fits) {
            return Err(Full::TooLarge);
        }
        let weight = entry.weight();
        let mut inner = self.lock();
        if inner.closed {
            return Err(Full::Closed);
        }
        if inner.entries.len() >= QUEUE_ENTRIES_MAX {
            return Err(Full::Entries);
        }
        if inner.bytes.saturating_add(weight) > QUEUE_BYTES_MAX {
            return Err(Full::Bytes);
        }
        inner.bytes += weight;
        inner.pushed += 1;
        inner.entries.push_back(entry);
        Ok(std::mem::take(&mut inner.asleep))
    }

    /// Takes what waits, at most `entries_max` entries and, beyond the first,
    /// `bytes_max` bytes. Waits for a first entry, for the end, or for as long
    /// as `patience` says.
    pub(crate) fn take(
        &self,
        entries_max: usize,
        bytes_max: usize,
        patience: Option<Duration>,
    ) -> Taken {
        let mut inner = self.lock();
        let mut slept = false;
        while inner.entries.is_empty() && !inner.closed {
            inner.asleep = true;
            slept = true;
            match patience {
                None => {
                    inner = self
                        .wake
                        .wait(inner)
                        .unwrap_or_else(PoisonError::into_inner)
                }
                Some(patience) => {
                    let waited = self.wake.wait_timeout(inner, patience);
                    inner = waited.unwrap_or_else(PoisonError::into_inner).0;
                    break;
                }
            }
        }
        inner.asleep = false;
        if slept && !inner.entries.is_empty() {
            // Whoever woke the writer is perhaps still at it on the same core: it
            // goes first, and what it adds shares the transaction. On a core of its
            // own the writer goes on at once.
            drop(inner);
            std::thread::yield_now();
            inner = self.lock();
        }
        let mut entries = Vec::new();
        let mut bytes = 0;
        while entries.len() < entries_max {
            let Some(next) = inner.entries.front() else {
                break;
            };
            let weight = next.weight();
            if !entries.is_empty() && bytes + weight > bytes_max {
                break;
            }
            bytes += weight;
            inner.bytes -= weight;
            entries.extend(inner.entries.pop_front());
        }
        Taken {
            entries,
            ended: inner.closed && inner.entries.is_empty(),
        }
    }

    /// Tells that the oldest `entries` that were taken are in the database, or
    /// never will be.
    pub(crate) fn wrote(&self, entries: usize) {
        self.lock().written += entries as u64;
        self.progress.notify_all();
    }

    /// Waits until everything that was handed in before is written or refused.
    pub(crate) fn wait_for_writer(&self) {
        let mut inner = self.lock();
        let pushed = inner.pushed;
        while inner.written < pushed && !inner.abandoned {
            inner = self
                .progress
                .wait(inner)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What became of the last thing that was to be written.
    pub(crate) fn note(&self, failing: Option<CommitFailed>) {
        self.lock().failing = failing;
    }

    /// The writer is gone.
    pub(crate) fn abandon(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        inner.abandoned = true;
        drop(inner);
        self.wake.notify_all();
        self.progress.notify_all();
    }

    /// Says where acknowledgements go; the writer begins then.
    pub(crate) fn listen(&self, sink: AcksSink) {
        self.lock().sink = Some(sink);
        self.wake.notify_all();
    }

    /// Waits until somebody listens. A queue that is closed before anybody did
    /// is written without being told of.
    pub(crate) fn wait_for_sink(&self) -> AcksSink {
        let mut inner = self.lock();
        loop {
            match inner.sink.take() {
                Some(sink) => return sink,
                None if inner.closed => return Box::new(drop),
                None => {
                    inner = self
                        .wake
                        .wait(inner)
                        .unwrap_or_else(PoisonError::into_inner)
                }
            }
        }
    }

    /// Takes no more entries; those that wait are still written.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use rategov_core::event::{Durability, Event, Record};
    use rategov_core::id::{ActionId, RecordSeq};
    use rategov_core::time::{Moment, WallTime};

    use super::*;
    use crate::entry::{PAYLOAD_BYTES_MAX, Payload, Source};

    fn entry(seq: u64, body: usize) -> Entry {
        let payload = Payload {
            action: ActionId(1),
            head: Vec::new(),
            body: vec![0; body],
        };
        Entry {
            source: Source::Governor,
            generation: 1,
            record: Record {
                seq: RecordSeq(seq),
                at: Moment::START,
                durability: Durability::Process,
                event: Event::PolicyChanged {
                    policy_digest: [0; 32],
                },
            },
            wall: WallTime::from_secs(0),
            attachments: vec![Attachment::Payload(payload)],
        }
    }

    fn seqs(taken: &Taken) -> Vec<u64> {
        taken
            .entries
            .iter()
            .map(|entry| entry.record.seq.0)
            .collect()
    }

    #[test]
    fn entries_leave_in_the_order_in_which_they_came() {
        let queue = Queue::default();
        for seq in 1..=5 {
            queue.push(entry(seq, 0)).unwrap();
        }
        assert_eq!(seqs(&queue.take(3, usize::MAX, None)), [1, 2, 3]);
        assert_eq!(seqs(&queue.take(3, usize::MAX, None)), [4, 5]);
    }

    #[test]
    fn a_full_queue_says_so_and_takes_again_when_there_is_room() {
        let queue = Queue::default();
        for seq in 0..QUEUE_ENTRIES_MAX as u64 {
            queue.push(entry(seq, 0)).unwrap();
        }
        assert_eq!(queue.push(entry(0, 0)), Err(Full::Entries));
        queue.take(1, usize::MAX, None);
        assert_eq!(queue.push(entry(0, 0)), Ok(false), "nobody sleeps");
    }

    #[test]
    fn bytes_are_bounded_too() {
        let queue = Queue::default();
        assert_eq!(
            queue.push(entry(1, PAYLOAD_BYTES_MAX + 1)),
            Err(Full::TooLarge)
        );
        queue.push(entry(1, PAYLOAD_BYTES_MAX)).unwrap();
        queue
            .push(entry(2, QUEUE_BYTES_MAX - PAYLOAD_BYTES_MAX))
            .unwrap();
        assert_eq!(queue.push(entry(3, 1)), Err(Full::Bytes));
        assert_eq!(
            seqs(&queue.take(9, 1, None)),
            [1],
            "the first is taken whatever it weighs"
        );
        queue.push(entry(3, 1)).unwrap();
        assert_eq!(seqs(&queue.take(9, usize::MAX, None)), [2, 3]);
    }

    #[test]
    fn a_closed_queue_gives_what_it_holds_and_takes_nothing() {
        let queue = Queue::default();
        queue.push(entry(1, 0)).unwrap();
        queue.close();
        assert_eq!(queue.push(entry(2, 0)), Err(Full::Closed));
        let queue = Arc::new(queue);
        assert_eq!(Journal::new(Arc::clone(&queue)).free(), 0);
        let taken = queue.take(9, usize::MAX, None);
        assert!(taken.ended && seqs(&taken) == [1]);
    }

    #[test]
    fn room_in_the_queue_is_not_taken_for_a_disk_that_writes() {
        let journal = Journal::new(Arc::default());
        let state = || journal.state();
        let free = QUEUE_ENTRIES_MAX;
        assert_eq!(state(), JournalState::Takes { free });
        journal.queue.note(Some(CommitFailed::DiskFull));
        assert_eq!(state(), JournalState::Failing(CommitFailed::DiskFull));
        journal.queue.note(None);
        assert_eq!(state(), JournalState::Takes { free });
        journal.queue.close();
        assert_eq!(state(), JournalState::Stopped);
    }
}
