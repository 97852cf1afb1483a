//! The way from the engines to the writer: one queue, bounded in entries and
//! in bytes, that never makes its callers wait.
//!
//! Engines call [`Journal::enqueue`] while they hold their own lock, so the
//! order here is the order of their decisions. A full queue is told at once;
//! no record is ever dropped silently.
//!
//! A record that nothing relies on (`Durability::Soon`) does not wake the writer.
//! It goes along with the next one that something relies on, and alone after
//! [`LINGER`] at the latest:
//!
//! ```text
//! action_sent of call 7      urgent      writer wakes, commits
//! action_result of call 7    soon        the writer naps on
//! terminal of call 7         soon
//! action_sent of call 8      urgent      writer wakes, commits all three
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rategov_core::event::Durability;

use crate::entry::{Ack, Attachment, CommitFailed, Entry, Full};

/// Where acknowledgements go, one by one. Called on the writer's thread: it must not wait.
pub type AckSink = Box<dyn Fn(Ack) + Send>;

/// Where acknowledgements go, all of a transaction's at once, in their order and
/// never none. Called on the writer's thread: it must not wait.
pub type AcksSink = Box<dyn Fn(Vec<Ack>) + Send>;

/// Most entries that wait.
pub const QUEUE_ENTRIES_MAX: usize = 8_192;

/// How long a record that nothing relies on waits for company.
pub const LINGER: Duration = Duration::from_millis(10);

/// As many of them are not kept waiting.
const LINGERING_MAX: usize = 256;

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
    /// Whether the writer is to be woken at the end.
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
    /// Something relies on an entry that waits, or somebody wants all of them written.
    urgent: bool,
    /// How the writer waits, as long as nobody has undertaken to wake it. Waking costs
    /// a call of the system whether or not anybody sleeps, so it is not done in vain.
    sleep: Sleep,
    /// The writer is gone; what waits stays unwritten.
    abandoned: bool,
    /// Entries taken in, and entries that were written or refused, since the start.
    pushed: u64,
    written: u64,
    sink: Option<AcksSink>,
}

/// How the writer waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sleep {
    /// It does not, or somebody wakes it already.
    #[default]
    Awake,
    /// It wakes by itself within [`LINGER`]; only what is urgent wakes it before.
    Nap,
    /// It waits for whatever comes.
    Deep,
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

impl Inner {
    /// Whether the writer has something to do that can't wait.
    fn is_due(&self) -> bool {
        self.urgent || self.closed || LINGERING_MAX <= self.entries.len()
    }

    /// Whether the writer must be woken for what waits. It is asked to once.
    fn wakes(&mut self) -> bool {
        let wakes = match self.sleep {
            Sleep::Awake => false,
            Sleep::Nap => self.is_due(),
            Sleep::Deep => true,
        };
        if wakes {
            self.sleep = Sleep::Awake;
        }
        wakes
    }
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
        inner.urgent |= entry.record.durability != Durability::Soon;
        inner.entries.push_back(entry);
        Ok(inner.wakes())
    }

    /// Takes what waits, at most `entries_max` entries and, beyond the first,
    /// `bytes_max` bytes. Waits for one that is urgent, for others to have lingered,
    /// for the end, or for as long as `patience` says.
    pub(crate) fn take(
        &self,
        entries_max: usize,
        bytes_max: usize,
        patience: Option<Duration>,
    ) -> Taken {
        let mut inner = self.lock();
        let slept = !inner.is_due();
        // What is written now is often followed by what is not urgent: first a nap,
        // which that does not disturb, then the deep sleep.
        if slept {
            let nap = patience.map_or(LINGER, |patience| patience.min(LINGER));
            inner = self.sleep(inner, Sleep::Nap, Some(nap));
        }
        if inner.entries.is_empty() && !inner.is_due() && patience.is_none_or(|it| LINGER < it) {
            inner = self.sleep(inner, Sleep::Deep, patience);
            if !inner.entries.is_empty() && !inner.is_due() {
                inner = self.sleep(inner, Sleep::Nap, Some(LINGER));
            }
        }
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
        // What is left is taken next, without waiting.
        inner.urgent &= !inner.entries.is_empty();
        Taken {
            entries,
            ended: inner.closed && inner.entries.is_empty(),
        }
    }

    /// Waits until there is something to do, or for as long as `at_most` says.
    fn sleep<'q>(
        &'q self,
        mut inner: MutexGuard<'q, Inner>,
        how: Sleep,
        at_most: Option<Duration>,
    ) -> MutexGuard<'q, Inner> {
        inner.sleep = how;
        let goes_on = |inner: &mut Inner| !inner.is_due() && inner.sleep == how;
        let mut inner = match at_most {
            None => self.wake.wait_while(inner, goes_on),
            Some(time) => self
                .wake
                .wait_timeout_while(inner, time, goes_on)
                .map(|(inner, _)| inner)
                .map_err(|poisoned| PoisonError::new(poisoned.into_inner().0)),
        }
        .unwrap_or_else(PoisonError::into_inner);
        inner.sleep = Sleep::Awake;
        inner
    }

    /// Tells that the oldest `entries` that were taken are in the database, or
    /// never will be.
    pub(crate) fn wrote(&self, entries: usize) {
        self.lock().written += entries as u64;
        self.progress.notify_all();
    }

    /// Waits until everything that was handed in before is written or refused, or
    /// for as long as `at_most` says.
    pub(crate) fn wait_for_writer(&self, at_most: Option<Duration>) {
        let mut inner = self.lock();
        let pushed = inner.pushed;
        if inner.written < pushed {
            inner.urgent |= !inner.entries.is_empty();
            if inner.wakes() {
                self.wake.notify_one();
            }
        }
        let goes_on = |inner: &mut Inner| inner.written < pushed && !inner.abandoned;
        // What a poisoned lock guards is whole, and nothing of it is wanted here.
        match at_most {
            None => drop(self.progress.wait_while(inner, goes_on)),
            Some(time) => drop(self.progress.wait_timeout_while(inner, time, goes_on)),
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
mod tests;
