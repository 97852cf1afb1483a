//! What an answer reports of its cost, read as it passes to its caller.
//!
//! A [`Tap`] is told each piece of a body that is delivered, and changes none. What it
//! keeps is a place in the text and a few numbers: never content, whatever the body's
//! size. It can be asked at any time; what it then says is what a caller who left
//! now would have been charged for.
//!
//! | body | read as |
//! |---|---|
//! | `application/json`, `…+json`, lines of JSON | one text, or one after the other |
//! | `text/event-stream` | the data of each event is a text |
//! | `application/vnd.amazon.eventstream` | the payload of each message is a text, and so is what it holds in base64 |
//! | other text | its length counts as generated text |
//! | anything else | nothing: its length says nothing of tokens |
//!
//! Where a body reports nothing and has no text at a known place, its own length
//! counts as text. That is too much, and the ratio that is learnt knows it.

use std::sync::Arc;

use http::{HeaderMap, header};
use rategov_core::estimate::{Seen, Usage};

use super::amount::Amount;
use super::decode::{Coding, Decoder, Limits, Room, Sink};
use super::envelope::Envelope;
use super::frames::Frames;
use super::rules::{Found, MeterRules, Told};
use super::scan::Scan;
use super::sse::{Part, Sse};

/// Most decoded bytes of one answer that are read; a stream of a day has less.
const PLAIN_MAX: u64 = 1 << 30;

/// Reads one answer. See the module.
pub struct Tap {
    decoder: Decoder<Reader>,
    shape: Shape,
    bytes: u64,
    points: Option<u64>,
}

/// What a body is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Json,
    Events,
    Frames,
    Text,
    Opaque,
}

impl Shape {
    pub(super) fn of(headers: &HeaderMap) -> Shape {
        let value = headers.get(header::CONTENT_TYPE);
        let kind = value.and_then(|value| value.to_str().ok()).unwrap_or("");
        let kind = kind.split(';').next().unwrap_or("").trim();
        let kind = kind.to_ascii_lowercase();
        match kind.as_str() {
            "text/event-stream" => Shape::Events,
            "application/vnd.amazon.eventstream" => Shape::Frames,
            "application/json"
            | "application/x-ndjson"
            | "application/ndjson"
            | "application/jsonl"
            | "application/json-seq" => Shape::Json,
            kind if kind.ends_with("+json") => Shape::Json,
            kind if kind.starts_with("text/") => Shape::Text,
            _ => Shape::Opaque,
        }
    }
}

/// Reads the plain bytes.
struct Reader {
    rules: Arc<MeterRules>,
    shape: Shape,
    scan: Scan,
    events: Sse,
    frames: Frames,
    /// What a message holds in base64 is a text of its own.
    envelope: Envelope,
    inner: Scan,
    found: Found,
    /// Bytes of the texts themselves, without what is around them.
    data: u64,
}

impl Tap {
    /// A tap for an answer with this head.
    pub fn new(headers: &HeaderMap, rules: &Arc<MeterRules>, room: &Room) -> Tap {
        let shape = Shape::of(headers);
        let coding = match shape {
            // Nothing in it is read, so nothing need be decoded.
            Shape::Opaque => Coding::Unknown,
            Shape::Json | Shape::Events | Shape::Frames | Shape::Text => Coding::of(headers),
        };
        let reader = Reader {
            rules: Arc::clone(rules),
            shape,
            scan: Scan::default(),
            events: Sse::default(),
            frames: Frames::default(),
            envelope: Envelope::default(),
            inner: Scan::default(),
            found: Found::default(),
            data: 0,
        };
        let limits = Limits {
            plain_max: PLAIN_MAX,
        };
        Tap {
            decoder: Decoder::new(coding, reader, limits, room),
            shape,
            bytes: 0,
            points: None,
        }
    }

    /// Points that stood elsewhere than at the places of its body.
    pub fn told_beside(&mut self, points: Option<u64>) {
        self.points = points;
    }

    /// A piece passes.
    pub fn see(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        self.decoder.feed(piece);
    }

    /// What it reported until now. `seen` says whether that was all of it.
    pub fn usage(&self, seen: Seen) -> Usage {
        let mut usage = Usage {
            seen,
            points: self.points,
            ..Usage::default()
        };
        let Some(reader) = self.decoder.sink() else {
            return usage;
        };
        let told = |what| reader.rules.usage.find(&reader.found, what);
        usage.input = told(Told::Input).map(Amount::whole);
        usage.cached_input = told(Told::CachedInput).map(Amount::whole);
        usage.output = told(Told::Output).map(Amount::whole);
        usage.total = told(Told::Total).map(Amount::whole);
        usage.points = told(Told::Points).map(Amount::whole).or(self.points);
        usage.spend = told(Told::Spend).map(Amount::millionths);
        usage.output_bytes = match (reader.found.text, self.shape) {
            (_, Shape::Opaque) => 0,
            (0, _) if usage.is_reported() => 0,
            (0, _) if self.decoder.is_read() => reader.data,
            // What can't be decoded is at least as long as it is on the wire.
            (0, _) => self.bytes,
            (text, _) => text,
        };
        usage
    }
}

impl std::fmt::Debug for Tap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never what passes.
        f.debug_struct("Tap")
            .field("shape", &self.shape)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Sink for Reader {
    fn take(&mut self, plain: &[u8]) {
        let Reader {
            rules,
            shape,
            scan,
            events,
            frames,
            envelope,
            inner,
            found,
            data,
        } = self;
        let places = rules.usage.places();
        match shape {
            Shape::Events => events.feed(plain, |part| match part {
                Part::Data(piece) => {
                    *data += piece.len() as u64;
                    scan.feed(places, piece, found);
                }
                Part::End => scan.restart(),
            }),
            Shape::Frames => frames.feed(plain, |part| match part {
                Part::Data(piece) => {
                    *data += piece.len() as u64;
                    scan.feed(places, piece, found);
                    envelope.feed(piece, |inside| inner.feed(places, inside, found));
                }
                Part::End => {
                    scan.restart();
                    inner.restart();
                    *envelope = Envelope::default();
                }
            }),
            Shape::Json => {
                *data += plain.len() as u64;
                scan.feed(places, plain, found);
            }
            Shape::Text => *data += plain.len() as u64,
            Shape::Opaque => {}
        }
    }
}

#[cfg(test)]
mod tests;
