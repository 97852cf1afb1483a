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
mod tests {
    use super::super::places::{Leaf, Place};
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    struct Heard {
        numbers: Vec<(u16, u64)>,
        text: u64,
    }

    impl Listener for Heard {
        fn number(&mut self, id: u16, amount: Amount) {
            self.numbers.push((id, amount.whole()));
        }

        fn text(&mut self, bytes: u64) {
            self.text += bytes;
        }
    }

    fn places() -> Places {
        let mut places = Places::default();
        for (id, text) in ["$.usage.in", "$.list[*].n", "$[*].usage.in"]
            .iter()
            .enumerate()
        {
            places.add(&Place::parse(text).unwrap(), Leaf::Number(id as u16));
        }
        for text in ["$.list[*].text", "$.args"] {
            places.add(&Place::parse(text).unwrap(), Leaf::Text);
        }
        places
    }

    fn heard(pieces: &[&[u8]]) -> Heard {
        let (mut scan, mut heard) = (Scan::default(), Heard::default());
        let places = places();
        pieces
            .iter()
            .for_each(|piece| scan.feed(&places, piece, &mut heard));
        heard
    }

    fn check(text: &str, numbers: &[(u16, u64)], bytes: u64) {
        let expected = Heard {
            numbers: numbers.to_vec(),
            text: bytes,
        };
        let text = text.as_bytes();
        for cut in 0..=text.len() {
            let (first, second) = text.split_at(cut);
            assert_eq!(heard(&[first, second]), expected, "cut at {cut}");
        }
        let single: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(heard(&single), expected);
    }

    #[test]
    fn values_are_found_at_their_places_however_a_text_is_cut() {
        check(r#"{"usage":{"in":12,"out":3}}"#, &[(0, 12)], 0);
        check(
            r#" { "x" : [ {"in":1} ], "usage" : { "o" : {"in":9}, "in" : 12.0 } } "#,
            &[(0, 12)],
            0,
        );
        check(
            r#"{"list":[{"n":1,"text":"ab"},{"n":2,"text":"c\n\u00e9d"}],"usage":{"in":5}}"#,
            &[(1, 1), (1, 2), (0, 5)],
            2 + 1 + 1 + 3 + 1,
        );
        check(
            r#"[{"usage":{"in":1}},{"usage":{"in":4}}]"#,
            &[(2, 1), (2, 4)],
            0,
        );
        check(
            "{\"usage\":{\"in\":1}}\n{\"usage\":{\"in\":4}}\n",
            &[(0, 1), (0, 4)],
            0,
        );
    }

    #[test]
    fn what_only_looks_like_a_place_is_none() {
        check(r#"{"text":"{\"usage\":{\"in\":12}}"}"#, &[], 0);
        check(r#"{"deep":{"usage":{"in":12}}}"#, &[], 0);
        check(r#"{"usage":[{"in":12}]}"#, &[], 0);
        check(r#"{"usage":{"in":"12"}}"#, &[], 0);
        check(r#"{"us\u0061ge":{"in":12}}"#, &[], 0);
        check(r#"{"usage":{"in":-12}}"#, &[], 0);
    }

    #[test]
    fn all_of_an_object_counts_that_is_text() {
        // All but its opening brace and the closing quotation marks: `"a:[1,"b]}`.
        check(r#"{"args":{"a": [1, "b"]},"x":"y"}"#, &[], 10);
    }

    #[test]
    fn a_number_that_was_cut_off_does_not_count() {
        assert_eq!(heard(&[br#"{"usage":{"in":12"#]), Heard::default());
    }

    #[test]
    fn depth_and_length_cost_nothing_that_grows() {
        let places = places();
        let (mut scan, mut heard) = (Scan::default(), Heard::default());
        for _ in 0..100 {
            scan.feed(&places, &b"[{\"a\":".repeat(10_000), &mut heard);
        }
        scan.feed(&places, b"\"", &mut heard);
        scan.feed(&places, &[b'x'; 100_000], &mut heard);
        assert!(scan.levels.len() <= STEPS_MAX + 1 && scan.token.capacity() < 1_000);
        scan.restart();
        scan.feed(&places, br#"{"usage":{"in":7},"#, &mut heard);
        scan.feed(&places, &[b'9'; 100_000], &mut heard);
        assert_eq!(heard.numbers, [(0, 7)]);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_are_read_the_same(
            pieces in prop::collection::vec(prop_oneof![
                "[\\[\\]{},:\" 0-9a\\\\]{0,8}".prop_map(String::into_bytes),
                Just(br#"{"usage":{"in":1}}"#.to_vec()),
                prop::collection::vec(any::<u8>(), 0..8),
            ], 0..12),
        ) {
            let whole: Vec<u8> = pieces.concat();
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(heard(&pieces), heard(&[&whole]));
        }
    }
}
