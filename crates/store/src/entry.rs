//! What goes into the journal, and what comes back.

use std::fmt;

use rategov_core::event::Record;
use rategov_core::id::{Account, ActionId, RecordSeq};
use rategov_core::time::WallTime;

/// Most bytes of a payload, head and body together. Larger bodies are sent
/// once and never repeated, so they have no payload here.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// Most bytes of a stored result, headers and body together.
pub const RESULT_BYTES_MAX: usize = 64 << 20;

/// Which engine decided something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The engine of an account.
    Account(Account),
    /// The book of tasks.
    Tasks,
    /// The governor itself: starts, changes of configuration.
    Governor,
}

impl Source {
    /// The account, if it is the engine of one.
    pub fn account(&self) -> Option<&Account> {
        match self {
            Source::Account(account) => Some(account),
            Source::Tasks | Source::Governor => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Account(account) => write!(f, "account {account}"),
            Source::Tasks => f.write_str("tasks"),
            Source::Governor => f.write_str("governor"),
        }
    }
}

/// One record on its way to the disk, with what must be stored beside it.
#[derive(Debug)]
pub struct Entry {
    /// Which engine decided it.
    pub source: Source,
    /// Which life of that engine, from 1; an engine that is rebuilt after a
    /// lost commit has the next number and counts its records from 1 again.
    pub generation: u32,
    /// What was decided.
    pub record: Record,
    /// The wall clock, read together with the record's moment.
    pub wall: WallTime,
    /// What is stored or erased in the same transaction.
    pub attachments: Vec<Attachment>,
}

impl Entry {
    /// Roughly what the entry holds in memory, in bytes.
    pub fn weight(&self) -> usize {
        self.attachments.iter().map(Attachment::weight).sum()
    }
}

/// What is stored beside a record about the same action, sealed under the work key.
pub enum Attachment {
    /// What is needed to send an action again. Comes with `action_requested`
    /// only, and is erased by itself when the action is final.
    Payload(Payload),
    /// What the provider answered to a write.
    Result(StoredResult),
    /// The payload of this action is needed no more, though it is not final.
    Erase(ActionId),
}

/// What is needed to send an action again: bytes that the store only keeps.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload {
    /// Of this action.
    pub action: ActionId,
    /// Method, path and headers, in the sender's own form.
    pub head: Vec<u8>,
    /// The body.
    pub body: Vec<u8>,
}

/// What the provider answered to a write.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredResult {
    /// Of this action.
    pub action: ActionId,
    /// The status.
    pub status: u16,
    /// The headers in their order, values as they came.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Attachment {
    /// The action that it belongs to: the one that its record is about.
    pub fn action(&self) -> ActionId {
        match self {
            Attachment::Payload(payload) => payload.action,
            Attachment::Result(result) => result.action,
            Attachment::Erase(action) => *action,
        }
    }

    fn weight(&self) -> usize {
        match self {
            Attachment::Payload(payload) => payload.weight(),
            Attachment::Result(result) => result.weight(),
            Attachment::Erase(_) => 0,
        }
    }

    /// Whether it is within [`PAYLOAD_BYTES_MAX`] and [`RESULT_BYTES_MAX`].
    pub fn fits(&self) -> bool {
        match self {
            Attachment::Payload(payload) => payload.weight() <= PAYLOAD_BYTES_MAX,
            Attachment::Result(result) => result.weight() <= RESULT_BYTES_MAX,
            Attachment::Erase(_) => true,
        }
    }
}

impl Payload {
    fn weight(&self) -> usize {
        self.head.len() + self.body.len()
    }
}

impl StoredResult {
    fn weight(&self) -> usize {
        let headers: usize = self
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        headers + self.body.len()
    }
}

// Headers and bodies may hold anything, so no Debug output shows them.

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attachment::Payload(payload) => payload.fmt(f),
            Attachment::Result(result) => result.fmt(f),
            Attachment::Erase(action) => write!(f, "Erase({action})"),
        }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({}, {} bytes)", self.action, self.weight())
    }
}

impl fmt::Debug for StoredResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "StoredResult({}, status {}, {} bytes)",
            self.action,
            self.status,
            self.weight()
        )
    }
}

/// What became of an entry. Every entry that was taken gets exactly one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Whose entry.
    pub source: Source,
    /// Of which life of that engine.
    pub generation: u32,
    /// Which one.
    pub seq: RecordSeq,
    /// Whether it is as durable as it asked to be.
    pub result: Result<(), CommitFailed>,
}

/// Why an entry is not in the journal.
///
/// After one, the later entries of the same engine are refused too, for they
/// tell of a state that the journal doesn't know; the engine is heard again
/// in its next generation, with record 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitFailed {
    /// The disk, or the quota of the file system, is full.
    DiskFull,
    /// The data folder can't be written to.
    ReadOnly,
    /// The disk or the database failed otherwise.
    Storage(String),
    /// The event can't follow what is stored, or does not fit into a record.
    Refused(String),
    /// An earlier entry of the same engine failed.
    EarlierFailed,
    /// It can't be known what is on the disk; nothing more is recorded until a restart.
    Broken,
    /// The data folder's files were removed, exchanged or cut while they were open;
    /// nothing more is recorded until a restart.
    Gone,
}

impl CommitFailed {
    /// The stable word.
    pub const fn code(&self) -> &'static str {
        match self {
            CommitFailed::DiskFull => "journal_disk_full",
            CommitFailed::ReadOnly => "journal_read_only",
            CommitFailed::Storage(_) => "journal_storage",
            CommitFailed::Refused(_) => "journal_refused",
            CommitFailed::EarlierFailed => "journal_earlier_failed",
            CommitFailed::Broken => "journal_broken",
            CommitFailed::Gone => "journal_gone",
        }
    }

    /// What helps.
    pub const fn hint(&self) -> &'static str {
        match self {
            CommitFailed::DiskFull => "free space on the disk of the data folder",
            CommitFailed::ReadOnly => "make the data folder writable for the governor's user",
            CommitFailed::Storage(_) => "look at the disk and the system's log",
            CommitFailed::Refused(_) => "this is a defect: please report it with the journal's end",
            CommitFailed::EarlierFailed => "see the failure before this one",
            CommitFailed::Broken => "look at the disk, then restart the governor",
            CommitFailed::Gone => {
                "stop the governor, put the data folder back as it was, then start the governor"
            }
        }
    }
}

impl fmt::Display for CommitFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommitFailed::DiskFull => f.write_str("the journal's disk is full"),
            CommitFailed::ReadOnly => f.write_str("the journal can't be written to"),
            CommitFailed::Storage(cause) => write!(f, "the journal's storage failed: {cause}"),
            CommitFailed::Refused(cause) => write!(f, "the journal refused the record: {cause}"),
            CommitFailed::EarlierFailed => {
                f.write_str("an earlier record of the same engine is not in the journal")
            }
            CommitFailed::Broken => f.write_str("the journal stopped after a failed sync"),
            CommitFailed::Gone => {
                f.write_str("the journal's files were removed, exchanged or cut while in use")
            }
        }
    }
}

impl std::error::Error for CommitFailed {}

/// Why an entry was not taken. Nothing was recorded and nothing will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// As many entries wait as may wait.
    Entries,
    /// The waiting entries hold as many bytes as they may.
    Bytes,
    /// The entry alone is larger than may be stored.
    TooLarge,
    /// The journal is closed or broken.
    Closed,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Full::Entries => "the journal's queue is full",
            Full::Bytes => "the journal's queue holds as many bytes as it may",
            Full::TooLarge => "the payload is larger than may be stored",
            Full::Closed => "the journal takes no records any more",
        })
    }
}

impl std::error::Error for Full {}
