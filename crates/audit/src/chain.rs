//! Appending: the one place where leaves are made.
//!
//! A [`Chain`] is a plain value of a few words: where the log ends. Appending
//! changes only the value, so a writer that fails to store a batch takes back
//! the copy it made before and nothing happened:
//!
//! ```text
//! before          next_seq 7, prev_leaf H(leaf 6)      keep a copy
//! append, append  next_seq 9, prev_leaf H(leaf 8)      the disk is full
//! take back       next_seq 7, prev_leaf H(leaf 6)      the next batch writes 7 again
//! ```
//!
//! Two writers with one chain would fork it; keeping them apart is the
//! storage's duty (a file lock, a unique sequence number).

use std::fmt;

use crate::clear::{Clear, Origin};
use crate::hash::{ContentHash, KeyCommit, LeafHash, LogId};
use crate::kind::Kind;
use crate::leaf::{CONTENT_BYTES_MAX, ClearBytes, DecodeError, Leaf, SEQ_MAX, Seq, UnixMs};

/// Where a log ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    log_id: LogId,
    next_seq: Seq,
    prev_leaf: LeafHash,
    last_ts: UnixMs,
    epoch_id: u32,
    segment_id: u32,
}

/// A content to append, as it will be stored.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    bytes: &'a [u8],
    key_commit: KeyCommit,
}

impl<'a> Content<'a> {
    /// A content that is stored as it is.
    pub fn in_clear(bytes: &'a [u8]) -> Content<'a> {
        Content {
            bytes,
            key_commit: KeyCommit::ZERO,
        }
    }

    /// A content that was encrypted under the key behind `key_commit`.
    pub fn sealed(bytes: &'a [u8], key_commit: KeyCommit) -> Content<'a> {
        Content { bytes, key_commit }
    }
}

/// A leaf that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its number.
    pub seq: Seq,
    /// The bytes to store.
    pub leaf: Vec<u8>,
    /// Their hash: the log's head now.
    pub hash: LeafHash,
    /// By how many milliseconds the clock that was read lies before the leaf
    /// before; zero if time went on as it should. The leaf carries the later
    /// time; a writer records a jump as [`Clear::ClockAnomaly`].
    pub clamped_ms: u64,
}

/// Why nothing was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// The content has more than [`CONTENT_BYTES_MAX`] bytes.
    ContentTooLong {
        /// How many it has.
        bytes: usize,
    },
    /// The log has as many records as can be counted.
    Exhausted,
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AppendError::ContentTooLong { bytes } => {
                write!(f, "a record of {bytes} bytes is beyond {CONTENT_BYTES_MAX}")
            }
            AppendError::Exhausted => f.write_str("the log can't count another record"),
        }
    }
}

impl std::error::Error for AppendError {}

impl Chain {
    /// Begins a log: the chain, and its first leaf.
    ///
    /// # Errors
    /// None in practice; the type is that of every append.
    pub fn begin(origin: &Origin, now: UnixMs) -> Result<(Chain, Appended), AppendError> {
        let mut chain = Chain {
            log_id: origin.log_id(),
            next_seq: Seq(0),
            prev_leaf: LeafHash::ZERO,
            last_ts: UnixMs(0),
            epoch_id: 0,
            segment_id: 0,
        };
        let genesis = chain.append_clear(now, &Clear::Genesis(origin.clone()))?;
        Ok((chain, genesis))
    }

    /// Goes on after a stored leaf, which must be the log's last.
    ///
    /// # Errors
    /// If the bytes are no leaf.
    pub fn resume(last_leaf: &[u8]) -> Result<Chain, DecodeError> {
        let leaf = Leaf::decode(last_leaf)?;
        Ok(Chain {
            log_id: leaf.log_id,
            next_seq: Seq(leaf.seq.0 + 1),
            prev_leaf: LeafHash::of(last_leaf),
            last_ts: leaf.ts,
            epoch_id: leaf.epoch_id,
            segment_id: leaf.segment_id,
        })
    }

    /// Appends an ordinary record. Two SHA-256 passes: one over the content,
    /// one over the 147 bytes of the leaf.
    ///
    /// # Errors
    /// See [`AppendError`]; the chain is then as it was.
    pub fn append(&mut self, now: UnixMs, content: Content<'_>) -> Result<Appended, AppendError> {
        self.push(now, Kind::Sealed, ClearBytes::default(), content)
    }

    /// Appends a structural record without content.
    ///
    /// # Errors
    /// See [`AppendError`]; the chain is then as it was.
    pub fn append_clear(&mut self, now: UnixMs, clear: &Clear) -> Result<Appended, AppendError> {
        self.push(now, clear.kind(), clear.encode(), Content::in_clear(&[]))
    }

    fn push(
        &mut self,
        now: UnixMs,
        kind: Kind,
        clear: ClearBytes,
        content: Content<'_>,
    ) -> Result<Appended, AppendError> {
        if content.bytes.len() > CONTENT_BYTES_MAX {
            return Err(AppendError::ContentTooLong {
                bytes: content.bytes.len(),
            });
        }
        if self.next_seq.0 > SEQ_MAX {
            return Err(AppendError::Exhausted);
        }
        let leaf = Leaf {
            log_id: self.log_id,
            seq: self.next_seq,
            ts: now.max(self.last_ts),
            epoch_id: self.epoch_id,
            segment_id: self.segment_id,
            kind,
            prev_leaf: self.prev_leaf,
            // At most 1 MiB, checked above.
            ct_len: content.bytes.len() as u32,
            ct_hash: ContentHash::of(content.bytes),
            key_commit: content.key_commit,
            clear,
        };
        let bytes = leaf.encode();
        let hash = LeafHash::of(&bytes);
        let clamped_ms = leaf.ts.0 - now.0;
        *self = Chain {
            next_seq: Seq(leaf.seq.0 + 1),
            prev_leaf: hash,
            last_ts: leaf.ts,
            ..self.clone()
        };
        Ok(Appended {
            seq: leaf.seq,
            leaf: bytes,
            hash,
            clamped_ms,
        })
    }

    /// The log that this is the end of.
    pub fn log_id(&self) -> LogId {
        self.log_id
    }

    /// The number that the next leaf gets; also the count of leaves so far.
    pub fn next_seq(&self) -> Seq {
        self.next_seq
    }

    /// The hash of the last leaf.
    pub fn head(&self) -> LeafHash {
        self.prev_leaf
    }

    /// The time that the last leaf carries.
    pub fn last_ts(&self) -> UnixMs {
        self.last_ts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin() -> (Chain, Appended) {
        Chain::begin(&Origin::new("test").unwrap(), UnixMs(1_000)).unwrap()
    }

    #[test]
    fn each_leaf_names_the_hash_of_the_one_before() {
        let (mut chain, genesis) = begin();
        let first = chain
            .append(UnixMs(2_000), Content::in_clear(b"a"))
            .unwrap();
        let second = chain
            .append(UnixMs(3_000), Content::in_clear(b"b"))
            .unwrap();
        assert_eq!(
            Leaf::decode(&first.leaf).unwrap().prev_leaf,
            LeafHash::of(&genesis.leaf)
        );
        assert_eq!(Leaf::decode(&second.leaf).unwrap().prev_leaf, first.hash);
        assert_eq!(
            (genesis.seq, first.seq, second.seq),
            (Seq(0), Seq(1), Seq(2))
        );
        assert_eq!(chain.head(), second.hash);
    }

    #[test]
    fn a_clock_that_goes_back_is_clamped_and_told() {
        let (mut chain, _) = begin();
        let late = chain.append(UnixMs(400), Content::in_clear(b"a")).unwrap();
        assert_eq!(Leaf::decode(&late.leaf).unwrap().ts, UnixMs(1_000));
        assert_eq!(late.clamped_ms, 600);
        let on_time = chain
            .append(UnixMs(1_001), Content::in_clear(b"a"))
            .unwrap();
        assert_eq!(on_time.clamped_ms, 0);
    }

    #[test]
    fn a_chain_resumed_from_its_last_leaf_is_the_same_chain() {
        let (mut chain, _) = begin();
        let last = chain
            .append(UnixMs(2_000), Content::in_clear(b"a"))
            .unwrap();
        assert_eq!(Chain::resume(&last.leaf).unwrap(), chain);
    }

    #[test]
    fn a_refused_append_leaves_the_chain_as_it_was() {
        let (mut chain, _) = begin();
        let before = chain.clone();
        let huge = vec![0; CONTENT_BYTES_MAX + 1];
        let refused = chain.append(UnixMs(2_000), Content::in_clear(&huge));
        assert_eq!(
            refused,
            Err(AppendError::ContentTooLong {
                bytes: CONTENT_BYTES_MAX + 1
            })
        );
        assert_eq!(chain, before);
    }

    #[test]
    fn a_log_that_can_count_no_further_says_so() {
        let (mut chain, _) = begin();
        chain.next_seq = Seq(SEQ_MAX);
        assert!(
            chain
                .append(UnixMs(2_000), Content::in_clear(b"last"))
                .is_ok()
        );
        let over = chain.append(UnixMs(2_000), Content::in_clear(b"over"));
        assert_eq!(over, Err(AppendError::Exhausted));
    }
}
