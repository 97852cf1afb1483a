//! Reads a JSON text as it passes, byte by byte, for the few values that matter.
//!
//! A body that is metered may be a stream without an end, an embedding of 30 MiB,
//! or cut anywhere. So nothing is collected and parsed: a [`Scan`] is told each
//! piece as it comes and keeps where it is: the open objects and lists that lead to
//! a known place ([`super::places`]), how deep it is in anything else, and the name or
//! number it is inside of. However a text is cut into pieces, the same is found.
//!
//! It is no judge of the text. What is no JSON is read on as if it were, finds
//! nothing or something odd, and costs no more: one step a byte, at most
//! [`super::places::STEPS_MAX`] open levels, a name of at most 64 bytes. Several
//! texts one after the other (lines of JSON) are read as such.
//!
//! A number counts when the byte behind it has come: the first half of a number
//! that was cut off is not half of the amount.

use super::amount::{Amount, DIGITS_MAX};
use super::places::{NodeId, Places, STEPS_MAX};

/// Longest name that is compared.
const NAME_BYTES_MAX: usize = 64;

/// Who is told what a text holds.
pub(super) trait Listener {
    /// A number stands at a place.
    fn number(&mut self, id: u16, amount: Amount);

    /// So many bytes of text at a place.
    fn text(&mut self, bytes: u64);

    /// A piece of any string that is a value.
    fn string(&mut self, piece: &[u8]) {
        let _ = piece;
    }

    /// That string has ended.
    fn string_ended(&mut self) {}
}

/// Where in a text a reader is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scan {
    at: At,
    /// Open objects and lists on the way to a place.
    levels: Vec<Level>,
    /// How deep it is in something else.
    deeper: u64,
    /// That something else is text at a place.
    in_text: bool,
    /// What the value that comes next is, if it is on the way to a place.
    next: Option<NodeId>,
    /// The name or the number it is inside of.
    token: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Between,
    Name,
    NameEscape,
    String { counts: bool },
    Escape { counts: bool },
    Unicode { counts: bool, left: u8 },
    Number { counts: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Level {
    node: NodeId,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    List,
    Object { name_comes: bool },
}

impl Default for Scan {
    fn default() -> Scan {
        Scan {
            at: At::Between,
            levels: Vec::new(),
            deeper: 0,
            in_text: false,
            next: Some(0),
            token: Vec::new(),
        }
    }
}

impl Scan {
    /// Forgets the text it is in: another begins.
    pub(super) fn restart(&mut self) {
        self.at = At::Between;
        self.levels.clear();
        self.deeper = 0;
        self.in_text = false;
        self.next = Some(0);
        self.token.clear();
    }

    /// A piece of the text.
    pub(super) fn feed(&mut self, places: &Places, piece: &[u8], listener: &mut impl Listener) {
        let mut rest = piece;
        while let Some((&byte, after)) = rest.split_first() {
            rest = match self.at {
                At::Between => {
                    self.between(places, byte, listener);
                    after
                }
                At::Name => self.name(places, rest),
                At::NameEscape => {
                    // A name that is written oddly is none of ours.
                    self.token.resize(NAME_BYTES_MAX + 1, b'?');
                    self.at = At::Name;
                    after
                }
                At::String { counts } => self.string(counts, rest, listener),
                At::Escape { counts } => {
                    self.escape(counts, byte, listener);
                    after
                }
                At::Unicode { counts, left } => {
                    self.at = match left {
                        0 | 1 => At::String { counts },
                        left => At::Unicode {
                            counts,
                            left: left - 1,
                        },
                    };
                    after
                }
                At::Number { counts } => self.number(places, counts, rest, listener),
            };
        }
    }

    fn between(&mut self, places: &Places, byte: u8, listener: &mut impl Listener) {
        if self.in_text && !byte.is_ascii_whitespace() {
            listener.text(1);
        }
        match byte {
            b'"' => {
                let is_name = self.deeper == 0
                    && matches!(
                        self.levels.last().map(|level| level.kind),
                        Some(Kind::Object { name_comes: true })
                    );
                self.token.clear();
                self.at = if is_name {
                    At::Name
                } else {
                    let counts = self.in_text || self.here().is_some_and(|it| places.is_text(it));
                    At::String { counts }
                };
            }
            b'{' | b'[' => self.open(places, byte),
            b'}' | b']' => self.close(),
            b',' if self.deeper == 0 => {
                if let Some(level) = self.levels.last_mut() {
                    self.next = match level.kind {
                        Kind::List => places.each(level.node),
                        Kind::Object { .. } => {
                            level.kind = Kind::Object { name_comes: true };
                            None
                        }
                    };
                }
            }
            b'-' | b'0'..=b'9' => {
                let is_place = self.here().is_some_and(|it| !places.numbers(it).is_empty());
                self.token.clear();
                self.token.push(byte);
                self.at = At::Number { counts: is_place };
            }
            _ => {}
        }
    }

    /// The node of the value that is about to come, if it is on the way to a place.
    fn here(&self) -> Option<NodeId> {
        self.next.filter(|_| self.deeper == 0)
    }

    fn open(&mut self, places: &Places, byte: u8) {
        match self.here() {
            Some(node) if places.has_more(node) && self.levels.len() <= STEPS_MAX => {
                let kind = match byte {
                    b'{' => Kind::Object { name_comes: true },
                    _ => Kind::List,
                };
                self.levels.push(Level { node, kind });
                self.next = match kind {
                    Kind::List => places.each(node),
                    Kind::Object { .. } => None,
                };
            }
            here => {
                self.deeper = self.deeper.saturating_add(1);
                self.in_text |= here.is_some_and(|node| places.is_text(node));
            }
        }
    }

    fn close(&mut self) {
        if 0 < self.deeper {
            self.deeper -= 1;
        } else {
            self.levels.pop();
            self.next = None;
        }
        if self.deeper == 0 {
            self.in_text = false;
        }
        if self.deeper == 0 && self.levels.is_empty() {
            self.next = Some(0);
        }
    }

    fn name<'r>(&mut self, places: &Places, rest: &'r [u8]) -> &'r [u8] {
        let (piece, end, after) = until_quote(rest);
        let room = (NAME_BYTES_MAX + 1).saturating_sub(self.token.len());
        self.token.extend(piece.iter().take(room));
        match end {
            Some(b'"') => {
                if let Some(level) = self.levels.last_mut() {
                    level.kind = Kind::Object { name_comes: false };
                    self.next = places.named(level.node, &self.token);
                }
                self.at = At::Between;
            }
            Some(_) => self.at = At::NameEscape,
            None => {}
        }
        after
    }

    fn string<'r>(
        &mut self,
        counts: bool,
        rest: &'r [u8],
        listener: &mut impl Listener,
    ) -> &'r [u8] {
        let (piece, end, after) = until_quote(rest);
        if !piece.is_empty() {
            listener.string(piece);
        }
        if counts {
            listener.text(piece.len() as u64);
        }
        match end {
            Some(b'"') => {
                listener.string_ended();
                self.at = At::Between;
            }
            Some(_) => self.at = At::Escape { counts },
            None => {}
        }
        after
    }

    /// What follows a backslash. It counts as what it stands for: one byte, or three
    /// for a character of four digits.
    fn escape(&mut self, counts: bool, byte: u8, listener: &mut impl Listener) {
        let bytes = if byte == b'u' { 3 } else { 1 };
        if counts {
            listener.text(bytes);
        }
        listener.string(if byte == b'/' { b"/" } else { b"\\" });
        self.at = match byte {
            b'u' => At::Unicode { counts, left: 4 },
            _ => At::String { counts },
        };
    }

    fn number<'r>(
        &mut self,
        places: &Places,
        counts: bool,
        rest: &'r [u8],
        listener: &mut impl Listener,
    ) -> &'r [u8] {
        let is_number =
            |b: &u8| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E');
        let end = rest.iter().position(|b| !is_number(b));
        let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
        let room = (DIGITS_MAX + 1).saturating_sub(self.token.len());
        self.token.extend(piece.iter().take(room));
        if self.in_text {
            listener.text(piece.len() as u64);
        }
        if end.is_some() {
            let fits = self.token.len() <= DIGITS_MAX;
            let amount = (counts && fits)
                .then(|| Amount::read(&self.token))
                .flatten();
            if let (Some(amount), Some(node)) = (amount, self.here()) {
                for id in places.numbers(node) {
                    listener.number(*id, amount);
                }
            }
            self.at = At::Between;
        }
        after
    }
}

/// Splits at the first quotation mark or backslash: what is before it, it, and what
/// follows.
fn until_quote(bytes: &[u8]) -> (&[u8], Option<u8>, &[u8]) {
    match bytes.iter().position(|b| matches!(b, b'"' | b'\\')) {
        Some(at) => (&bytes[..at], Some(bytes[at]), &bytes[at + 1..]),
        None => (bytes, None, &[]),
    }
}

#[cfg(test)]
mod tests;
