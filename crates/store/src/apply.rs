//! One entry into the open transaction: its leaf, its rows, its attachments.
//!
//! An entry is planned before anything of it is written: the rows it changes
//! are read, the core says what becomes of them, contents are sealed. So an
//! event that can't follow what is stored is refused without a trace, and the
//! other entries of its batch go on. Whatever fails after that is the storage,
//! and takes the whole batch with it.

use rategov_audit::chain::{Appended, Chain, Content};
use rategov_audit::clear::Clear;
use rategov_audit::leaf::UnixMs;
use rategov_core::event::{Event, Record};
use rategov_core::id::ActionId;
use rategov_core::record::Illegal;
use rusqlite::Connection;

use crate::blocks::Blocks;
use crate::clock::{BootNo, Stamp};
use crate::codec::encode_fact;
use crate::db::Col;
use crate::entry::{Attachment, Entry};
use crate::error::Error;
use crate::hand::Hand;
use crate::plan::{Plan, erase_payload};
use crate::sealed::{pack_payload, pack_result};
use crate::workkey::{Sealed, WorkKey};

/// A wall clock that goes back by more than this gets a record of its own.
const ANOMALY_MS: u64 = 1_000;

/// Why an entry did not come to be.
#[derive(Debug)]
pub(crate) enum Reject {
    /// It can't follow what is stored, or doesn't fit. Nothing was written.
    Refused(String),
    /// The storage failed, perhaps half-way.
    Storage(Error),
}

impl From<Error> for Reject {
    fn from(error: Error) -> Reject {
        match error {
            // Nobody can write what can't be sealed; the storage is well.
            Error::Sealed { .. } => Reject::Refused(error.to_string()),
            error => Reject::Storage(error),
        }
    }
}

impl From<rusqlite::Error> for Reject {
    fn from(error: rusqlite::Error) -> Reject {
        Reject::Storage(error.into())
    }
}

impl From<Illegal> for Reject {
    fn from(illegal: Illegal) -> Reject {
        Reject::Refused(illegal.to_string())
    }
}

/// What the writer carries from entry to entry.
#[derive(Debug)]
pub(crate) struct Appender {
    pub(crate) chain: Chain,
    pub(crate) boot: BootNo,
    pub(crate) key: WorkKey,
    pub(crate) hand: Hand,
    pub(crate) blocks: Blocks,
    /// The wall clock is behind the journal, and a record says so.
    pub(crate) behind: bool,
}

impl Appender {
    /// After a lost commit: what is stored is right, what is in memory may not be.
    pub(crate) fn let_go(&mut self) {
        self.hand.let_go();
        self.blocks.let_go();
    }

    /// Writes one entry inside the open transaction.
    pub(crate) fn apply(&mut self, db: &Connection, entry: &Entry) -> Result<(), Reject> {
        let stamp = Stamp {
            boot: self.boot,
            at: entry.record.at,
            wall: entry.wall,
        };
        let plan = Plan::of(db, &mut self.hand, entry)?;
        let attachments = self.seal(entry)?;
        let Record { seq, at, event, .. } = &entry.record;
        let content = encode_fact(&entry.source, *seq, *at, entry.wall, event)
            .map_err(|error| Reject::Refused(error.to_string()))?;

        self.append(db, entry, &content, &plan)?;
        plan.write(db, &mut self.hand, stamp)?;
        for attachment in &attachments {
            attachment.write(db, &self.key, stamp)?;
        }
        Ok(())
    }

    fn append(
        &mut self,
        db: &Connection,
        entry: &Entry,
        content: &[u8],
        plan: &Plan,
    ) -> Result<(), Reject> {
        // A wall clock before 1970 is as wrong as one that went back.
        let now = UnixMs(u64::try_from(entry.wall.as_micros()).unwrap_or(0) / 1_000);
        let refused = |error: rategov_audit::chain::AppendError| Reject::Refused(error.to_string());
        let late = self.chain.last_ts().0.saturating_sub(now.0);
        if late > ANOMALY_MS && !self.behind {
            let clear = Clear::ClockAnomaly { read: now };
            let appended = self.chain.append_clear(now, &clear).map_err(refused)?;
            insert_structural(db, &appended)?;
        }
        self.behind = late > ANOMALY_MS;
        let appended = self
            .chain
            .append(now, Content::in_clear(content))
            .map_err(refused)?;
        plan.insert_leaf(db, &mut self.blocks, &appended, content, entry)
    }

    fn seal(&self, entry: &Entry) -> Result<Vec<SealedAttachment>, Reject> {
        let event = &entry.record.event;
        let refused = |why: &str| Err(Reject::Refused(why.to_owned()));
        let mut sealed = Vec::with_capacity(entry.attachments.len());
        for attachment in &entry.attachments {
            if event.action() != Some(attachment.action()) {
                return refused("an attachment belongs to another action");
            }
            sealed.push(match attachment {
                Attachment::Payload(payload) => {
                    // What is sent under a key never changes: it comes once.
                    if !matches!(event, Event::ActionRequested(_)) {
                        return refused("a payload comes after its action");
                    }
                    let Some(packed) = pack_payload(payload) else {
                        return refused("a length in the payload is out of range");
                    };
                    let sealed = self.key.seal(Sealed::Payload, payload.action, packed)?;
                    SealedAttachment::Payload(payload.action, sealed)
                }
                Attachment::Result(result) => {
                    let Some(packed) = pack_result(result) else {
                        return refused("a length in the result is out of range");
                    };
                    let sealed = self.key.seal(Sealed::Result, result.action, packed)?;
                    SealedAttachment::Result(result.action, result.status, sealed)
                }
                Attachment::Erase(action) => SealedAttachment::Erase(*action),
            });
        }
        Ok(sealed)
    }
}

/// Writes a record that only says something of the log itself.
pub(crate) fn insert_structural(db: &Connection, appended: &Appended) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT INTO audit_leaf (seq, leaf, content) VALUES (?1, ?2, x'')")?
        .execute((Col(appended.seq.0), &appended.leaf))?;
    Ok(())
}

enum SealedAttachment {
    Payload(ActionId, Vec<u8>),
    Result(ActionId, u16, Vec<u8>),
    Erase(ActionId),
}

impl SealedAttachment {
    fn write(&self, db: &Connection, key: &WorkKey, stamp: Stamp) -> Result<(), Reject> {
        match self {
            SealedAttachment::Payload(action, sealed) => db
                .prepare_cached("INSERT INTO payload VALUES (?1, ?2, ?3, ?4)")?
                .execute((Col(*action), key.id().0, sealed, Col(stamp.wall)))?,
            SealedAttachment::Result(action, status, sealed) => db
                .prepare_cached("INSERT OR REPLACE INTO result VALUES (?1, ?2, ?3, ?4, ?5)")?
                .execute((Col(*action), key.id().0, status, sealed, Col(stamp.wall)))?,
            SealedAttachment::Erase(action) => erase_payload(db, *action)?,
        };
        Ok(())
    }
}
