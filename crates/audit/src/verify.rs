//! Walking a log and naming the first bad record.
//!
//! No key, network, clock or database is needed, and no memory that grows with
//! the log: records are pushed one by one, and about 20 KB are remembered.
//!
//! The checks of a record run in the order of this table, and the first that
//! fails is the finding. Those of its place come before that of its link, so
//! that a swap or a replay is named as such and not as a broken link:
//!
//! | check | finding |
//! |---|---|
//! | it is a leaf of this version | `unknown_version`, `malformed`, `crash_tail` |
//! | it belongs to this log | `genesis_mismatch`, `log_id_mismatch` |
//! | its number is the next one | `fork`, `seq_reuse`, `seq_order` |
//! | it names the hash of the leaf before | `chain_break` |
//! | time and units don't go back | `time_order`, `epoch_mismatch` |
//! | the content is the recorded one | `ct_len_mismatch`, `ct_hash_mismatch` |
//! | a remembered head of this size has its hash | `fork` |
//! | at the end: the log reaches every remembered head | `rollback` |
//!
//! An example: someone edits the content of record 3 **and** the hash in its
//! leaf. Record 3 is now consistent in itself, but its leaf hashes to
//! something else than record 4 names: `chain_break@4`. Had it been the last
//! record, nothing in the log would show it, only a remembered head would.
//! That is why a report without one says `not anchored`.

use std::collections::VecDeque;

use crate::clear::Clear;
use crate::finding::{Code, Finding};
use crate::hash::{ContentHash, LeafHash, LogId};
use crate::kind::Kind;
use crate::leaf::{DecodeError, Leaf, Seq, UnixMs};
use crate::report::{Head, Report};

/// How far back two records of one number are told apart as a fork and a replay.
const REMEMBERED: usize = 256;

/// Where the walk begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// With the log's first record.
    #[default]
    Genesis,
    /// Right after a head that is trusted.
    After {
        /// The trusted head.
        head: Head,
        /// The log it belongs to.
        log_id: LogId,
    },
}

/// What is known from elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Expect {
    /// Where the walk begins.
    pub start: Start,
    /// Which log it must be, if known.
    pub log_id: Option<LogId>,
    /// Heads remembered outside the log, in any order.
    pub anchors: Vec<Head>,
}

/// One record as read: a leaf's bytes, and its content unless it was pruned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The leaf as stored.
    pub leaf: Vec<u8>,
    /// The content as stored.
    pub content: Option<Vec<u8>>,
}

/// Why a place of the input gives no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The input ends in the middle of a record.
    Torn(String),
    /// What is there is no record.
    Malformed(String),
}

/// Verifies all of an input.
pub fn verify(
    records: impl IntoIterator<Item = Result<Record, Unreadable>>,
    expect: &Expect,
) -> Report {
    let mut verifier = Verifier::new(expect);
    for record in records {
        let still_good = match record {
            Ok(record) => verifier.push(&record.leaf, record.content.as_deref()),
            Err(unreadable) => verifier.push_unreadable(unreadable),
        };
        if !still_good {
            break;
        }
    }
    verifier.finish()
}

/// A walk in progress.
#[derive(Debug)]
pub struct Verifier {
    must_be: Option<LogId>,
    anchors: VecDeque<Head>,
    next: Option<Place>,
    position: u64,
    recent: VecDeque<Recent>,
    /// A record that is not whole: harmless as the last one, malformed otherwise.
    torn: Option<Finding>,
    report: Report,
}

/// What the next record must fit.
#[derive(Clone, Copy, Debug)]
struct Place {
    log_id: LogId,
    seq: Seq,
    prev_leaf: LeafHash,
    ts: UnixMs,
    units: (u32, u32),
}

/// A record that was accepted lately.
#[derive(Debug)]
struct Recent {
    seq: Seq,
    prev_leaf: LeafHash,
    hash: LeafHash,
}

impl Verifier {
    /// A walk that has seen nothing yet.
    pub fn new(expect: &Expect) -> Verifier {
        let mut anchors = expect.anchors.clone();
        anchors.sort_by_key(|head| head.size);
        let next = match expect.start {
            Start::Genesis => None,
            Start::After { head, log_id } => Some(Place {
                log_id,
                seq: Seq(head.size),
                prev_leaf: head.hash,
                ts: UnixMs(0),
                units: (0, 0),
            }),
        };
        Verifier {
            must_be: expect.log_id,
            anchors: anchors.into(),
            next,
            position: 0,
            recent: VecDeque::with_capacity(REMEMBERED),
            torn: None,
            report: Report::default(),
        }
    }

    /// Takes the next record. `false` once something is wrong: what follows
    /// the first bad record proves nothing and is not looked at.
    pub fn push(&mut self, leaf: &[u8], content: Option<&[u8]>) -> bool {
        if !self.may_go_on() {
            return false;
        }
        match Leaf::decode(leaf) {
            Ok(parsed) => match self.judge(&parsed, leaf, content) {
                Ok(hash) => self.accept(&parsed, hash, content),
                Err((code, detail)) => self.found(code, Some(parsed.seq), detail),
            },
            Err(error @ (DecodeError::Magic(_) | DecodeError::Kind(_))) => {
                self.found(Code::UnknownVersion, None, error.to_string());
            }
            Err(error @ DecodeError::TooShort { .. }) => self.tear(error.to_string()),
            Err(error) => self.found(Code::Malformed, None, error.to_string()),
        }
        self.report.finding.is_none()
    }

    /// Takes a place of the input that gave no record.
    pub fn push_unreadable(&mut self, unreadable: Unreadable) -> bool {
        if !self.may_go_on() {
            return false;
        }
        match unreadable {
            Unreadable::Torn(detail) => self.tear(detail),
            Unreadable::Malformed(detail) => self.found(Code::Malformed, None, detail),
        }
        self.report.finding.is_none()
    }

    /// Ends the walk.
    pub fn finish(mut self) -> Report {
        if self.report.finding.is_none() {
            let size = self.report.head.map_or(0, |head| head.size);
            if let Some(anchor) = self.anchors.back() {
                // Anchors that were reached are gone from the queue.
                let detail = format!("{size} records, {} are remembered", anchor.size);
                self.found(Code::Rollback, None, detail);
            } else if let Some(torn) = self.torn.take() {
                self.report.finding = Some(torn);
            } else if self.position == 0 {
                self.found(Code::Empty, None, String::new());
            }
        }
        self.report
    }

    fn may_go_on(&mut self) -> bool {
        if let Some(torn) = self.torn.take() {
            // Something follows, so this was not the end of the log.
            self.report.finding = Some(Finding {
                code: Code::Malformed,
                ..torn
            });
        }
        self.report.finding.is_none()
    }

    fn found(&mut self, code: Code, seq: Option<Seq>, detail: String) {
        self.report.finding = Some(Finding {
            code,
            position: self.position,
            seq,
            detail,
        });
    }

    fn tear(&mut self, detail: String) {
        self.torn = Some(Finding {
            code: Code::CrashTail,
            position: self.position,
            seq: None,
            detail,
        });
        self.position += 1;
    }

    /// The table at the top of this file, row by row.
    fn judge(
        &self,
        leaf: &Leaf,
        bytes: &[u8],
        content: Option<&[u8]>,
    ) -> Result<LeafHash, (Code, String)> {
        let hash = LeafHash::of(bytes);
        match &self.next {
            None => genesis(leaf, self.must_be)?,
            Some(place) => {
                belongs(leaf, place, self.must_be)?;
                self.is_next(leaf, place, hash)?;
                follows(leaf, place)?;
            }
        }
        if let Some(content) = content {
            is_content(leaf, content)?;
        }
        for anchor in self
            .anchors
            .iter()
            .filter(|anchor| anchor.size == leaf.seq.0 + 1)
        {
            if anchor.hash != hash {
                let detail = format!("hash {hash}, remembered {}", anchor.hash);
                return Err((Code::Fork, detail));
            }
        }
        Ok(hash)
    }

    fn is_next(&self, leaf: &Leaf, place: &Place, hash: LeafHash) -> Result<(), (Code, String)> {
        if leaf.seq == place.seq {
            return Ok(());
        }
        let detail = format!("expected {}", place.seq);
        if leaf.seq > place.seq {
            return Err((Code::SeqOrder, detail));
        }
        let twin = self.recent.iter().find(|recent| recent.seq == leaf.seq);
        match twin {
            Some(twin) if twin.prev_leaf == leaf.prev_leaf && twin.hash != hash => Err((
                Code::Fork,
                format!("{} and {hash} follow {}", twin.hash, twin.prev_leaf),
            )),
            _ => Err((Code::SeqReuse, detail)),
        }
    }

    fn accept(&mut self, leaf: &Leaf, hash: LeafHash, content: Option<&[u8]>) {
        let size = leaf.seq.0 + 1;
        // Heads inside what a trusted start skips can't be checked here.
        while self
            .anchors
            .front()
            .is_some_and(|anchor| anchor.size <= size)
        {
            if self
                .anchors
                .pop_front()
                .is_some_and(|anchor| anchor.size == size)
            {
                self.report.anchored_to = Some(size);
            }
        }
        self.next = Some(Place {
            log_id: leaf.log_id,
            seq: Seq(size),
            prev_leaf: hash,
            ts: leaf.ts,
            units: (leaf.epoch_id, leaf.segment_id),
        });
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(Recent {
            seq: leaf.seq,
            prev_leaf: leaf.prev_leaf,
            hash,
        });
        self.position += 1;

        self.report
            .count(leaf, Head { size, hash }, content.is_some());
    }
}

fn genesis(leaf: &Leaf, must_be: Option<LogId>) -> Result<(), (Code, String)> {
    let mismatch = |detail: String| Err((Code::GenesisMismatch, detail));
    if leaf.kind != Kind::Genesis || leaf.seq != Seq(0) || leaf.prev_leaf != LeafHash::ZERO {
        return mismatch(format!(
            "a {} record with number {}",
            leaf.kind.word(),
            leaf.seq
        ));
    }
    let Some(Clear::Genesis(origin)) = Clear::decode(leaf.kind, &leaf.clear) else {
        return mismatch("it names no origin".to_owned());
    };
    if origin.log_id() != leaf.log_id {
        return mismatch(format!(
            "the origin {origin} is not that of log {}",
            leaf.log_id
        ));
    }
    match must_be {
        Some(expected) if expected != leaf.log_id => {
            mismatch(format!("log {}, expected {expected}", leaf.log_id))
        }
        _ => Ok(()),
    }
}

fn belongs(leaf: &Leaf, place: &Place, must_be: Option<LogId>) -> Result<(), (Code, String)> {
    let expected = must_be.unwrap_or(place.log_id);
    if leaf.log_id != place.log_id || leaf.log_id != expected {
        return Err((
            Code::LogIdMismatch,
            format!("log {}, expected {expected}", leaf.log_id),
        ));
    }
    Ok(())
}

fn follows(leaf: &Leaf, place: &Place) -> Result<(), (Code, String)> {
    if leaf.prev_leaf != place.prev_leaf {
        let detail = format!("it follows {}, not {}", leaf.prev_leaf, place.prev_leaf);
        return Err((Code::ChainBreak, detail));
    }
    if leaf.kind == Kind::Genesis {
        return Err((Code::GenesisMismatch, "a second beginning".to_owned()));
    }
    if leaf.ts < place.ts {
        return Err((
            Code::TimeOrder,
            format!("{} ms after {}", leaf.ts.0, place.ts.0),
        ));
    }
    let units = (leaf.epoch_id, leaf.segment_id);
    if units < place.units {
        return Err((
            Code::EpochMismatch,
            format!("{units:?} after {:?}", place.units),
        ));
    }
    Ok(())
}

fn is_content(leaf: &Leaf, content: &[u8]) -> Result<(), (Code, String)> {
    if content.len() != leaf.ct_len as usize {
        let detail = format!("{} bytes, {} recorded", content.len(), leaf.ct_len);
        return Err((Code::ContentLength, detail));
    }
    let hash = ContentHash::of(content);
    if hash != leaf.ct_hash {
        return Err((
            Code::ContentHash,
            format!("hash {hash}, recorded {}", leaf.ct_hash),
        ));
    }
    Ok(())
}
