//! The payloads of an AWS event stream (`application/vnd.amazon.eventstream`).
//!
//! ```text
//! message = total:u32 headers:u32 crc:u32  headers-bytes  payload  crc:u32
//!           └──────── 12 bytes ─────────┘                           total counts all of it
//! ```
//!
//! Numbers are big-endian. Check sums are not verified: bytes pass untouched
//! whatever they say, and a wrong meter reading is corrected by the next answer. A
//! length that can't be ends the reading.
//!
//! Source: <https://docs.aws.amazon.com/lexv2/latest/dg/event-stream-encoding.html>,
//! read 2026-11-30.

use super::sse::Part;

/// Largest message that is believed; a larger one means that this is no such stream.
const MESSAGE_BYTES_MAX: u32 = 32 << 20;
const PRELUDE_BYTES: usize = 12;
/// Prelude and the last check sum.
const AROUND_BYTES: u32 = 16;

/// Where in a stream a reader is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frames {
    prelude: Vec<u8>,
    headers: u32,
    payload: u32,
    crc: u32,
    is_lost: bool,
}

impl Frames {
    /// A piece of the stream.
    pub(super) fn feed(&mut self, piece: &[u8], mut tell: impl FnMut(Part<'_>)) {
        let mut rest = piece;
        while !rest.is_empty() && !self.is_lost {
            if self.headers + self.payload + self.crc == 0 {
                let wanted = PRELUDE_BYTES - self.prelude.len();
                let (some, after) = rest.split_at(wanted.min(rest.len()));
                self.prelude.extend_from_slice(some);
                rest = after;
                if self.prelude.len() == PRELUDE_BYTES {
                    self.begin();
                }
                continue;
            }
            rest = skip(&mut self.headers, rest).1;
            let (payload, after) = skip(&mut self.payload, rest);
            if !payload.is_empty() {
                tell(Part::Data(payload));
            }
            rest = skip(&mut self.crc, after).1;
            if self.headers + self.payload + self.crc == 0 {
                tell(Part::End);
            }
        }
    }

    fn begin(&mut self) {
        let number = |at: usize| {
            let bytes = self.prelude[at..at + 4].try_into();
            bytes.map_or(0, u32::from_be_bytes)
        };
        let (total, headers) = (number(0), number(4));
        self.prelude.clear();
        match total
            .checked_sub(AROUND_BYTES)
            .and_then(|it| it.checked_sub(headers))
        {
            Some(payload) if total <= MESSAGE_BYTES_MAX => {
                (self.headers, self.payload, self.crc) = (headers, payload, 4);
            }
            _ => self.is_lost = true,
        }
    }
}

/// Takes what is wanted off the front.
fn skip<'r>(wanted: &mut u32, bytes: &'r [u8]) -> (&'r [u8], &'r [u8]) {
    let (taken, rest) = bytes.split_at(bytes.len().min(*wanted as usize));
    *wanted -= taken.len() as u32;
    (taken, rest)
}

/// A message with this payload, for tests.
#[cfg(test)]
pub(super) fn message(payload: &[u8]) -> Vec<u8> {
    let headers = b"\x0b:event-type\x07\x00\x08metadata";
    let total = AROUND_BYTES + headers.len() as u32 + payload.len() as u32;
    let mut all = Vec::new();
    all.extend(total.to_be_bytes());
    all.extend((headers.len() as u32).to_be_bytes());
    all.extend([1, 2, 3, 4]);
    all.extend(headers);
    all.extend(payload);
    all.extend([5, 6, 7, 8]);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn payloads(pieces: &[&[u8]]) -> Vec<u8> {
        let (mut frames, mut all) = (Frames::default(), Vec::new());
        for piece in pieces {
            frames.feed(piece, |part| match part {
                Part::Data(data) => all.extend_from_slice(data),
                Part::End => all.push(b'|'),
            });
        }
        all
    }

    #[test]
    fn payloads_are_found_however_messages_are_cut() {
        let stream = [message(b"{\"a\":1}"), message(b""), message(b"{}")].concat();
        for cut in 0..=stream.len() {
            let (first, second) = stream.split_at(cut);
            assert_eq!(payloads(&[first, second]), b"{\"a\":1}||{}|", "{cut}");
        }
    }

    #[test]
    fn a_length_that_cannot_be_ends_the_reading() {
        for prelude in [[0u8; 12], [255; 12], *b"{\"choices\":["] {
            assert_eq!(payloads(&[&prelude, &message(b"{}")]), b"");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = payloads(&[&bytes]);
        }
    }
}
