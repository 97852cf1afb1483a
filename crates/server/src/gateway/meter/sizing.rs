//! What a request says of its cost, before it is sent.
//!
//! The body is read where it is kept, in one pass, and not changed. Its own length
//! stands for the length of the prompt: instructions, tools and history are most of
//! it, and what is around them is learnt with the ratio of its kind. Pictures and
//! recordings are the exception, since a megabyte of base64 is a thousand tokens:
//!
//! | in the body | counts as |
//! |---|---|
//! | JSON, any text | its bytes |
//! | a string of 4 KiB and more in nothing but base64 | one medium, 4,096 bytes |
//! | a body that is no text | one medium for each MiB begun |
//!
//! How much it allows and how many answers it asks for stand at places that the
//! preset names ([`super::rules`]).

use http::HeaderMap;
use rategov_core::cost::Dimension;
use rategov_core::estimate::{MEDIA_BYTES, Sizing};

use super::amount::Amount;
use super::decode::{Coding, Decoder, Limits, Room, Sink};
use super::rules::{Asked, Found, Rules};
use super::scan::{Listener, Scan};
use super::tap::Shape;
use super::{MeterRules, Metered};
use crate::gateway::spool::Spool;
use crate::route::Rule;

/// Most bytes of one request that are read.
const PLAIN_MAX: u64 = 64 << 20;
/// Shorter strings are text, whatever they hold.
const MEDIUM_BYTES_MIN: u64 = 4 << 10;
/// So far a string may begin with what it is: `data:image/png;base64,`.
const LABEL_BYTES_MAX: u64 = 128;

/// Measures one request. See the module.
pub struct Sizer<'r> {
    decoder: Decoder<Weigher<'r>>,
    shape: Shape,
    bytes: u64,
}

struct Weigher<'r> {
    rules: &'r Rules<Asked>,
    scan: Scan,
    ear: Ear,
    plain: u64,
}

/// What is heard of a text: its numbers, and the strings that are media.
#[derive(Default)]
struct Ear {
    found: Found,
    string: u64,
    is_words: bool,
    media: u64,
    media_bytes: u64,
}

impl<'r> Sizer<'r> {
    /// For a request with this head.
    pub fn new(headers: &HeaderMap, rules: &'r Rules<Asked>, room: &Room) -> Sizer<'r> {
        let weigher = Weigher {
            rules,
            scan: Scan::default(),
            ear: Ear::default(),
            plain: 0,
        };
        let limits = Limits {
            plain_max: PLAIN_MAX,
        };
        Sizer {
            decoder: Decoder::new(Coding::of(headers), weigher, limits, room),
            shape: Shape::of(headers),
            bytes: 0,
        }
    }

    /// A piece of its body.
    pub fn see(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        if self.shape == Shape::Json {
            self.decoder.feed(piece);
        }
    }

    /// What it says. `length` is that of its whole body, where not all of it was seen.
    pub fn sizing(&self, length: Option<u64>) -> Sizing {
        let bytes = length.unwrap_or(self.bytes).max(self.bytes);
        let mut sizing = Sizing::default();
        let weigher = self.decoder.sink();
        sizing.prompt_bytes = match (self.shape, weigher) {
            (Shape::Opaque, _) => bytes.div_ceil(1 << 20).max(1) * MEDIA_BYTES,
            (Shape::Json, Some(weigher)) if self.decoder.is_read() && 0 < self.bytes => {
                let ear = &weigher.ear;
                let weight = weigher.plain - ear.media_bytes + ear.media * MEDIA_BYTES;
                // What was not seen is taken to be as the rest is.
                (u128::from(weight) * u128::from(bytes) / u128::from(self.bytes)) as u64
            }
            _ => bytes,
        };
        if let Some(weigher) = weigher {
            let asked = |what| weigher.rules.find(&weigher.ear.found, what);
            sizing.most_output = asked(Asked::MostOutput).map(Amount::whole);
            sizing.input_counted = asked(Asked::InputTokens).map(Amount::whole);
            sizing.points = asked(Asked::Points).map(Amount::whole);
            let choices = asked(Asked::Choices).map(Amount::whole);
            sizing.choices = choices.unwrap_or(1).max(1);
        }
        sizing
    }
}

/// What a request says of its cost, and its endpoint of the rest. Cost: one pass over
/// what is kept of its body.
pub async fn of(
    headers: &HeaderMap,
    spool: &Spool,
    endpoint: &Rule,
    rules: &MeterRules,
    room: &Room,
) -> Sizing {
    let mut sizer = Sizer::new(headers, &rules.sizing, room);
    if let Err(error) = spool.look(|piece| sizer.see(piece)).await {
        // The body won't leave either; its length is enough until then.
        tracing::debug!(%error, "a request's body can't be read to be sized");
    }
    told_by(endpoint, rules, sizer.sizing(spool.length()))
}

/// The same by its length alone, where its body is not at hand.
pub fn by_length(length: u64, endpoint: &Rule, rules: &MeterRules) -> Sizing {
    let sizing = Sizing {
        prompt_bytes: length,
        ..Sizing::default()
    };
    told_by(endpoint, rules, sizing)
}

/// What an endpoint is declared to cost is no guess.
fn told_by(endpoint: &Rule, rules: &MeterRules, sizing: Sizing) -> Sizing {
    let sizing = Metered::of(endpoint, rules).sized(sizing);
    let cost = &endpoint.cost;
    let declared = |dimension| Some(cost.of(dimension)).filter(|amount| 0 < *amount);
    Sizing {
        requests: cost.of(Dimension::Requests),
        tokens: declared(Dimension::Tokens),
        points: declared(Dimension::Points).or(sizing.points),
        spend: declared(Dimension::Spend),
        ..sizing
    }
}

impl Sink for Weigher<'_> {
    fn take(&mut self, plain: &[u8]) {
        self.plain += plain.len() as u64;
        self.scan.feed(self.rules.places(), plain, &mut self.ear);
    }
}

impl Listener for Ear {
    fn number(&mut self, id: u16, amount: Amount) {
        self.found.number(id, amount);
    }

    fn text(&mut self, _bytes: u64) {}

    fn string(&mut self, piece: &[u8]) {
        if !self.is_words {
            let label = LABEL_BYTES_MAX.saturating_sub(self.string);
            let (label, rest) = piece.split_at(piece.len().min(label as usize));
            let is_label = |b: &u8| is_base64(b) || b":;,.".contains(b);
            self.is_words = !label.iter().all(is_label) || !rest.iter().all(is_base64);
        }
        self.string += piece.len() as u64;
    }

    fn string_ended(&mut self) {
        if !self.is_words && MEDIUM_BYTES_MIN <= self.string {
            self.media += 1;
            self.media_bytes += self.string;
        }
        self.string = 0;
        self.is_words = false;
    }
}

fn is_base64(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=_-".contains(byte)
}

#[cfg(test)]
mod tests;
