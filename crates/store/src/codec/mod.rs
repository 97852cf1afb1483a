//! What is inside a record: one event with its place and time, as
//! deterministic CBOR (RFC 8949, section 4.2).
//!
//! The same event always gives the same bytes; decoding refuses unknown
//! fields, values that the core's own constructors would refuse, bytes after
//! the end, and anything beyond [`RECORD_BYTES_MAX`]. It never panics.
//!
//! The version comes first, so that a record of a later version is named as
//! such: a record begins `a6 61 76 01`, a map of six whose first key is `v`.
//! A field that may be absent can be added within a version (an older record lacks
//! it, which reads as none, nought or no); anything else is a new version.
//!
//! ```text
//! {"v": 1, "at": 5000000, "seq": 7, "wall": 1796000000000000,
//!  "event": {"joined": {"by": "key", "action": h'0192…'}},
//!  "source": {"account": "stripe/main"}}
//! ```

mod cost;
mod schema;
mod wire;

use std::fmt;

use rategov_core::cost::Cost;
use rategov_core::event::{Event, Requested};
use rategov_core::id::RecordSeq;
use rategov_core::record::ToldRow;
use rategov_core::time::{Moment, WallTime};
use serde::{Deserialize, Serialize};

use self::wire::Wire;
pub(crate) use self::wire::{Word, parse_word};
use crate::entry::Source;

/// Most bytes of one record. Texts inside events are bounded by whoever makes
/// them; the largest event is an `action_requested` with a long path.
pub const RECORD_BYTES_MAX: usize = 64 * 1024;

const VERSION: u8 = 1;
/// The four bytes before the version's value are a map head and the key `v`.
const VERSION_AT: usize = 3;

/// One event as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Which engine decided it.
    pub source: Source,
    /// Its number there, from 1 at each start of the engine.
    pub seq: RecordSeq,
    /// When, on the clock that the moments inside the event belong to.
    pub at: Moment,
    /// When, for people.
    pub wall: WallTime,
    /// What.
    pub event: Event,
}

/// Why bytes are not a record, or an event does not fit into one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodecError {
    /// The record is larger than [`RECORD_BYTES_MAX`].
    TooLong {
        /// How many bytes it has.
        bytes: usize,
    },
    /// The record is of another version.
    Version(u8),
    /// The bytes are not of the schema.
    Schema,
    /// A value that this field can't have.
    Value(&'static str),
    /// Bytes follow the end.
    Trailing,
}

impl fmt::Display for CodecError {
    // What was found is not shown: it may be anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodecError::TooLong { bytes } => {
                write!(f, "a record of {bytes} bytes is beyond {RECORD_BYTES_MAX}")
            }
            CodecError::Version(version) => {
                write!(
                    f,
                    "the record is of version {version}, this program reads {VERSION}"
                )
            }
            CodecError::Schema => f.write_str("the bytes are no record of this version"),
            CodecError::Value(what) => write!(f, "the record holds an impossible {what}"),
            CodecError::Trailing => f.write_str("bytes follow the end of the record"),
        }
    }
}

impl std::error::Error for CodecError {}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FactForm {
    v: u8,
    at: u64,
    seq: u64,
    wall: i64,
    event: <Event as Wire>::Form,
    source: <Source as Wire>::Form,
}

impl Fact {
    /// The record's bytes.
    ///
    /// # Errors
    /// [`CodecError::TooLong`] if there are more than [`RECORD_BYTES_MAX`].
    pub fn encode(&self) -> Result<Vec<u8>, CodecError> {
        encode_fact(&self.source, self.seq, self.at, self.wall, &self.event)
    }

    /// Reads a record's bytes.
    ///
    /// # Errors
    /// See [`CodecError`].
    pub fn decode(bytes: &[u8]) -> Result<Fact, CodecError> {
        if let Some([0xa6, 0x61, b'v', version]) = bytes.get(..VERSION_AT + 1)
            && *version != VERSION
        {
            return Err(CodecError::Version(*version));
        }
        let form: FactForm = decode(bytes)?;
        if form.v != VERSION {
            return Err(CodecError::Version(form.v));
        }
        Ok(Fact {
            source: Source::from_form(form.source)?,
            seq: RecordSeq(form.seq),
            at: Moment::from_micros(form.at),
            wall: WallTime::from_micros(form.wall),
            event: Event::from_form(form.event)?,
        })
    }
}

/// The bytes of a [`Fact`] of these parts.
///
/// # Errors
/// See [`Fact::encode`].
pub(crate) fn encode_fact(
    source: &Source,
    seq: RecordSeq,
    at: Moment,
    wall: WallTime,
    event: &Event,
) -> Result<Vec<u8>, CodecError> {
    encode(&FactForm {
        v: VERSION,
        at: at.as_micros(),
        seq: seq.0,
        wall: wall.as_micros(),
        event: event.to_form(),
        source: source.to_form(),
    })
}

/// The bytes of what was asked for, as the table of actions keeps them.
///
/// # Errors
/// See [`Fact::encode`].
pub(crate) fn encode_requested(requested: &Requested) -> Result<Vec<u8>, CodecError> {
    encode(&requested.to_form())
}

/// Reads what [`encode_requested`] wrote.
///
/// # Errors
/// See [`CodecError`].
pub(crate) fn decode_requested(bytes: &[u8]) -> Result<Requested, CodecError> {
    Requested::from_form(decode(bytes)?)
}

/// The bytes of what a send drew, as the table of sends keeps them.
pub(crate) fn encode_cost(cost: &Cost) -> Result<Vec<u8>, CodecError> {
    encode(&cost.to_form())
}

/// Reads what [`encode_cost`] wrote.
pub(crate) fn decode_cost(bytes: &[u8]) -> Result<Cost, CodecError> {
    Cost::from_form(decode(bytes)?)
}

/// The bytes of the limits that headers told, as the table of scopes keeps them.
pub(crate) fn encode_told(told: &Vec<ToldRow>) -> Result<Vec<u8>, CodecError> {
    encode(&told.to_form())
}

/// Reads what [`encode_told`] wrote.
pub(crate) fn decode_told(bytes: &[u8]) -> Result<Vec<ToldRow>, CodecError> {
    Vec::from_form(decode(bytes)?)
}

fn encode(form: &impl Serialize) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::with_capacity(512);
    ciborium::into_writer(form, &mut bytes).map_err(|_| CodecError::Schema)?;
    if bytes.len() > RECORD_BYTES_MAX {
        return Err(CodecError::TooLong { bytes: bytes.len() });
    }
    Ok(bytes)
}

fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    if bytes.len() > RECORD_BYTES_MAX {
        return Err(CodecError::TooLong { bytes: bytes.len() });
    }
    let mut rest = bytes;
    let form = ciborium::from_reader(&mut rest).map_err(|_| CodecError::Schema)?;
    if rest.is_empty() {
        Ok(form)
    } else {
        Err(CodecError::Trailing)
    }
}
