//! One leaf, byte for byte.
//!
//! Decoding is strict (every byte is accounted for, nothing may trail),
//! bounded (a length is checked before it is believed) and never panics.
//! Numbers are big-endian. `encode(decode(bytes)) == bytes` for every accepted
//! input: there is exactly one way to write a leaf, so what was hashed is what
//! is stored.
//!
//! ```text
//! offset  bytes  field
//!      0      4  magic        "RGA1"
//!      4     16  log_id       SHA-256(origin), first half
//!     20      8  seq          from 0, no gap, no reuse
//!     28      8  ts_ms        wall clock in ms since 1970, never below the leaf before
//!     36      4  epoch_id     unit of retention; 0 before retention begins
//!     40      4  segment_id   unit of key use; 0 before sealing begins
//!     44      1  kind         see Kind
//!     45     32  prev_leaf    hash of the leaf before; zeros in the first
//!     77      4  ct_len       length of the content as stored
//!     81     32  ct_hash      SHA-256 of the content as stored
//!    113     32  key_commit   commitment to the content's key; zeros: stored in clear
//!    145      2  body_len     length of the clear body
//!    147      …  clear body   structural kinds only
//! ```
//!
//! A worked example: the second record of a log with the 40-byte content `c`
//! takes 147 bytes; `seq` is `00 00 00 00 00 00 00 01`, `ct_len` is
//! `00 00 00 28`, `body_len` is `00 00`.

use std::fmt;

use crate::hash::{ContentHash, KeyCommit, LeafHash, LogId};
use crate::kind::Kind;

/// What each leaf of this format begins with.
pub const MAGIC: [u8; 4] = *b"RGA1";

/// Bytes of a leaf without a clear body.
pub const FIXED_BYTES: usize = 147;

/// Most bytes of a clear body. The field could say 65,535; what must be
/// readable without a key is names and digests, and those are short.
pub const CLEAR_BYTES_MAX: usize = 4_096;

/// Most bytes of a content as stored. The field could say 4 GiB; a record is a
/// few kilobytes, and a verifier must not be made to allocate what a forger says.
pub const CONTENT_BYTES_MAX: usize = 1 << 20;

/// The last number a record may have, so that a count of records always fits.
pub const SEQ_MAX: u64 = u64::MAX - 1;

/// A record's number in its log; the first is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A wall-clock time in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMs(pub u64);

/// The clear body of a structural leaf: at most [`CLEAR_BYTES_MAX`] bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClearBytes(Vec<u8>);

impl ClearBytes {
    /// Takes the bytes, or `None` if there are too many.
    pub fn new(bytes: Vec<u8>) -> Option<ClearBytes> {
        (bytes.len() <= CLEAR_BYTES_MAX).then_some(ClearBytes(bytes))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A leaf, taken apart. Made by [`crate::chain::Chain`] or by [`Leaf::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leaf {
    /// The log it belongs to.
    pub log_id: LogId,
    /// Its number there, at most [`SEQ_MAX`].
    pub seq: Seq,
    /// When it was written, never before the leaf before it.
    pub ts: UnixMs,
    /// Unit of retention.
    pub epoch_id: u32,
    /// Unit of key use.
    pub segment_id: u32,
    /// What it is for.
    pub kind: Kind,
    /// The hash of the leaf before; zeros in the first.
    pub prev_leaf: LeafHash,
    /// Length of the content as stored, at most [`CONTENT_BYTES_MAX`].
    pub ct_len: u32,
    /// Hash of the content as stored.
    pub ct_hash: ContentHash,
    /// Commitment to the content's key.
    pub key_commit: KeyCommit,
    /// What can be read without a key; empty for [`Kind::Sealed`].
    pub clear: ClearBytes,
}

/// Why bytes are not a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// There are fewer bytes than a leaf of this shape needs.
    TooShort {
        /// Bytes that would be needed.
        need: usize,
        /// Bytes that there are.
        have: usize,
    },
    /// Bytes follow the end of the leaf.
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// The magic is another one: another version of the format, or no leaf at all.
    Magic([u8; 4]),
    /// A kind that this version doesn't know.
    Kind(u8),
    /// A sequence number beyond [`SEQ_MAX`].
    Seq,
    /// `ct_len` is beyond [`CONTENT_BYTES_MAX`].
    ContentTooLong(u32),
    /// `body_len` is beyond [`CLEAR_BYTES_MAX`].
    ClearTooLong(u16),
    /// An ordinary record with a clear body, which it can't have.
    ClearInSealed,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::TooShort { need, have } => {
                write!(f, "a leaf of {need} bytes has only {have}")
            }
            DecodeError::Trailing { bytes } => write!(f, "{bytes} bytes follow the leaf"),
            DecodeError::Magic(found) => {
                write!(f, "the magic is \"{}\", not \"RGA1\"", found.escape_ascii())
            }
            DecodeError::Kind(code) => write!(f, "kind {code} is not known"),
            DecodeError::Seq => f.write_str("the sequence number is out of range"),
            DecodeError::ContentTooLong(len) => {
                write!(f, "a content of {len} bytes is beyond {CONTENT_BYTES_MAX}")
            }
            DecodeError::ClearTooLong(len) => {
                write!(f, "a clear body of {len} bytes is beyond {CLEAR_BYTES_MAX}")
            }
            DecodeError::ClearInSealed => f.write_str("an ordinary record has a clear body"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl Leaf {
    /// The bytes that are hashed and stored. [`FIXED_BYTES`] plus the clear body.
    pub fn encode(&self) -> Vec<u8> {
        let clear = self.clear.as_bytes();
        let mut out = Vec::with_capacity(FIXED_BYTES + clear.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.log_id.0);
        out.extend_from_slice(&self.seq.0.to_be_bytes());
        out.extend_from_slice(&self.ts.0.to_be_bytes());
        out.extend_from_slice(&self.epoch_id.to_be_bytes());
        out.extend_from_slice(&self.segment_id.to_be_bytes());
        out.push(self.kind as u8);
        out.extend_from_slice(&self.prev_leaf.0);
        out.extend_from_slice(&self.ct_len.to_be_bytes());
        out.extend_from_slice(&self.ct_hash.0);
        out.extend_from_slice(&self.key_commit.0);
        // ClearBytes is at most 4,096 bytes, so the cast loses nothing.
        out.extend_from_slice(&(clear.len() as u16).to_be_bytes());
        out.extend_from_slice(clear);
        out
    }

    /// Takes bytes apart.
    ///
    /// # Errors
    /// See [`DecodeError`]. The magic is judged first, so that a leaf of
    /// another version is never called malformed.
    pub fn decode(bytes: &[u8]) -> Result<Leaf, DecodeError> {
        let mut rest = Fields {
            bytes,
            have: bytes.len(),
        };
        let magic = rest.take::<4>()?;
        if magic != MAGIC {
            return Err(DecodeError::Magic(magic));
        }
        let leaf = Leaf {
            log_id: LogId(rest.take()?),
            seq: Seq(u64::from_be_bytes(rest.take()?)),
            ts: UnixMs(u64::from_be_bytes(rest.take()?)),
            epoch_id: u32::from_be_bytes(rest.take()?),
            segment_id: u32::from_be_bytes(rest.take()?),
            kind: {
                let [code] = rest.take()?;
                Kind::from_code(code).ok_or(DecodeError::Kind(code))?
            },
            prev_leaf: LeafHash(rest.take()?),
            ct_len: u32::from_be_bytes(rest.take()?),
            ct_hash: ContentHash(rest.take()?),
            key_commit: KeyCommit(rest.take()?),
            clear: {
                let len = u16::from_be_bytes(rest.take()?);
                if usize::from(len) > CLEAR_BYTES_MAX {
                    return Err(DecodeError::ClearTooLong(len));
                }
                ClearBytes(rest.end(usize::from(len))?.to_vec())
            },
        };
        if leaf.seq.0 > SEQ_MAX {
            return Err(DecodeError::Seq);
        }
        if leaf.ct_len as usize > CONTENT_BYTES_MAX {
            return Err(DecodeError::ContentTooLong(leaf.ct_len));
        }
        if leaf.kind == Kind::Sealed && !leaf.clear.as_bytes().is_empty() {
            return Err(DecodeError::ClearInSealed);
        }
        Ok(leaf)
    }

    /// Whether the content is stored as it is, without encryption.
    pub fn is_in_clear(&self) -> bool {
        self.key_commit == KeyCommit::ZERO
    }
}

/// What is still unread of a leaf.
struct Fields<'a> {
    bytes: &'a [u8],
    have: usize,
}

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let too_short = DecodeError::TooShort {
            need: FIXED_BYTES,
            have: self.have,
        };
        let (field, rest) = self.bytes.split_first_chunk::<N>().ok_or(too_short)?;
        self.bytes = rest;
        Ok(*field)
    }

    /// The last `len` bytes, which must be all that is left.
    fn end(&self, len: usize) -> Result<&'a [u8], DecodeError> {
        match self.bytes.len() {
            left if left < len => Err(DecodeError::TooShort {
                need: FIXED_BYTES + len,
                have: self.have,
            }),
            left if left > len => Err(DecodeError::Trailing { bytes: left - len }),
            _ => Ok(self.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn leaves() -> impl Strategy<Value = Leaf> {
        let heads = (
            any::<[u8; 16]>(),
            0..=SEQ_MAX,
            any::<u64>(),
            any::<u32>(),
            any::<u32>(),
        );
        let kind = prop::sample::select(&Kind::ALL[..]);
        let tails = (
            any::<[u8; 32]>(),
            0..=CONTENT_BYTES_MAX as u32,
            any::<[u8; 32]>(),
        );
        let clear = prop::collection::vec(any::<u8>(), 0..300);
        (heads, kind, tails, any::<[u8; 32]>(), clear).prop_map(
            |((log, seq, ts, epoch_id, segment_id), kind, (prev, ct_len, ct), key, clear)| Leaf {
                log_id: LogId(log),
                seq: Seq(seq),
                ts: UnixMs(ts),
                epoch_id,
                segment_id,
                kind,
                prev_leaf: LeafHash(prev),
                ct_len,
                ct_hash: ContentHash(ct),
                key_commit: KeyCommit(key),
                clear: match kind {
                    Kind::Sealed => ClearBytes::default(),
                    _ => ClearBytes(clear),
                },
            },
        )
    }

    proptest! {
        #[test]
        fn a_leaf_reads_back_as_it_was_written(leaf in leaves()) {
            prop_assert_eq!(Leaf::decode(&leaf.encode()), Ok(leaf));
        }

        #[test]
        fn every_prefix_of_a_leaf_is_too_short(leaf in leaves(), cut in 0usize..1_000) {
            let bytes = leaf.encode();
            let cut = cut % bytes.len();
            let short = matches!(Leaf::decode(&bytes[..cut]), Err(DecodeError::TooShort { .. }));
            prop_assert!(short, "a cut at {} of {} was taken for something else", cut, bytes.len());
        }

        #[test]
        fn whatever_is_accepted_is_the_only_way_to_write_it(
            bytes in prop::collection::vec(any::<u8>(), 0..400),
            good_start: bool,
        ) {
            let mut bytes = bytes;
            if good_start && bytes.len() >= 45 {
                bytes[..4].copy_from_slice(&MAGIC);
                bytes[44] = 1 + bytes[44] % 12;
            }
            if let Ok(leaf) = Leaf::decode(&bytes) {
                prop_assert_eq!(leaf.encode(), bytes);
            }
        }
    }

    fn check(change: impl FnOnce(&mut Vec<u8>), expected: DecodeError) {
        let mut bytes = sealed().encode();
        change(&mut bytes);
        assert_eq!(Leaf::decode(&bytes), Err(expected));
    }

    fn sealed() -> Leaf {
        Leaf {
            log_id: LogId::of("test"),
            seq: Seq(1),
            ts: UnixMs(1_000),
            epoch_id: 0,
            segment_id: 0,
            kind: Kind::Sealed,
            prev_leaf: LeafHash::ZERO,
            ct_len: 40,
            ct_hash: ContentHash::ZERO,
            key_commit: KeyCommit::ZERO,
            clear: ClearBytes::default(),
        }
    }

    #[test]
    fn the_layout_is_the_published_one() {
        let bytes = sealed().encode();
        assert_eq!(bytes.len(), FIXED_BYTES);
        assert_eq!(&bytes[..4], b"RGA1");
        assert_eq!(bytes[20..28], [0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(bytes[28..36], [0, 0, 0, 0, 0, 0, 3, 0xe8]);
        assert_eq!(bytes[44], 1);
        assert_eq!(bytes[77..81], [0, 0, 0, 40]);
        assert_eq!(bytes[145..147], [0, 0]);
    }

    #[test]
    fn a_length_is_checked_before_it_is_believed() {
        check(
            |b| b[77..81].fill(0xff),
            DecodeError::ContentTooLong(u32::MAX),
        );
        check(
            |b| b[145..147].fill(0xff),
            DecodeError::ClearTooLong(u16::MAX),
        );
        check(
            |b| b[146] = 1,
            DecodeError::TooShort {
                need: 148,
                have: 147,
            },
        );
        check(|b| b[20..28].fill(0xff), DecodeError::Seq);
    }

    #[test]
    fn another_version_and_another_kind_are_named_not_skipped() {
        check(|b| b[3] = b'0', DecodeError::Magic(*b"RGA0"));
        check(|b| b[44] = 0, DecodeError::Kind(0));
        check(|b| b[44] = 13, DecodeError::Kind(13));
    }

    #[test]
    fn nothing_may_hide_behind_or_inside_an_ordinary_record() {
        check(|b| b.push(0), DecodeError::Trailing { bytes: 1 });
        check(
            |b| {
                b[146] = 1;
                b.push(7);
            },
            DecodeError::ClearInSealed,
        );
    }
}
