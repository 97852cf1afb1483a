//! Bytes taken apart: numbers and choices from the front, the rest as it is.
//!
//! An input that ends early is read on as zeros, so that every input means
//! something and a shorter one means something simpler.

use http::{HeaderMap, HeaderName, HeaderValue};
use rategov_core::time::WallTime;

/// The wall clock of all targets: 2026-12-01T12:00:00Z.
pub(crate) const NOON: WallTime = WallTime::from_secs(1_796_126_400);

/// Longest input that a target looks at; what is behind it is left out.
pub(crate) const BYTES_MAX: usize = 64 << 10;

/// What is left of an input.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input {
            rest: &bytes[..bytes.len().min(BYTES_MAX)],
        }
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else {
            return 0;
        };
        self.rest = rest;
        *first
    }

    pub(crate) fn number(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// One of several.
    pub(crate) fn one_of<T: Copy>(&mut self, several: &[T]) -> T {
        several[usize::from(self.byte()) % several.len()]
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// The rest as text; what is none is replaced.
    pub(crate) fn text(self) -> String {
        String::from_utf8_lossy(self.rest).into_owned()
    }

    /// The rest up to a line of `%%`, which is left out.
    pub(crate) fn part(&mut self) -> &'a [u8] {
        let end = self.rest.windows(4).position(|four| four == b"\n%%\n");
        let (part, rest) = match end {
            Some(end) => (&self.rest[..end], &self.rest[end + 4..]),
            None => (self.rest, &[][..]),
        };
        self.rest = rest;
        part
    }
}

/// A head and a body as people write them: `name: value` lines, an empty line, the rest.
pub(crate) fn head_and_body(part: &[u8]) -> (Vec<(&str, &[u8])>, &[u8]) {
    let mut fields = Vec::new();
    let mut rest = part;
    while let Some((line, after)) = line(rest) {
        rest = after;
        let colon = line.iter().position(|byte| *byte == b':');
        match colon.map(|at| (str::from_utf8(&line[..at]), line[at + 1..].trim_ascii())) {
            Some((Ok(name), value)) => fields.push((name.trim(), value)),
            _ if line.is_empty() => break,
            _ => {}
        }
    }
    (fields, rest)
}

/// The fields as the HTTP library keeps them, those that it would let pass.
pub(crate) fn header_map(fields: &[(&str, &[u8])]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            map.append(name, value);
        }
    }
    map
}

fn line(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if text.is_empty() {
        return None;
    }
    let end = text.iter().position(|byte| *byte == b'\n');
    Some(match end {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, &[]),
    })
}

/// The same bytes cut into pieces: whole, and at places that `cuts` names.
pub(crate) fn pieces(bytes: &[u8], mut cuts: u64) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        // 1, 2, 3, 5, 7, 17, 97 or all that is left.
        const LENGTHS: [usize; 8] = [1, 2, 3, 5, 7, 17, 97, usize::MAX];
        let (piece, after) = rest.split_at(LENGTHS[cuts as usize % 8].min(rest.len()));
        pieces.push(piece);
        rest = after;
        cuts = cuts.rotate_right(3) ^ (cuts >> 61);
    }
    pieces
}
