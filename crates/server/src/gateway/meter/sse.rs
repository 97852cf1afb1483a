//! The data of an event stream, as it passes.
//!
//! ```text
//! stream = *( *( line end ) end )          events, each ended by an empty line
//! line   = "data" ":" [ " " ] piece        the only one that is read
//! end    = CR / LF / CR LF
//! ```
//!
//! The pieces are handed on as they come, not line by line: an event may be large.
//! Each event is a text of its own; what a broken one left open ends with it.

/// What a stream shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'b> {
    /// A piece of an event's data.
    Data(&'b [u8]),
    /// The event has ended.
    End,
}

/// Where in a stream a reader is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sse {
    line: Line,
    after_cr: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// In the field's name, of which so much agrees with `data:`.
    Name(usize),
    /// Behind the colon, where one space may stand.
    Space,
    Data,
    Other,
}

impl Default for Line {
    fn default() -> Line {
        Line::Name(0)
    }
}

const DATA: &[u8] = b"data:";

impl Sse {
    /// A piece of the stream.
    pub(super) fn feed(&mut self, piece: &[u8], mut tell: impl FnMut(Part<'_>)) {
        let mut rest = piece;
        while let Some((&byte, after)) = rest.split_first() {
            if std::mem::take(&mut self.after_cr) && byte == b'\n' {
                rest = after;
                continue;
            }
            if matches!(byte, b'\n' | b'\r') {
                self.after_cr = byte == b'\r';
                match self.line {
                    Line::Name(0) => tell(Part::End),
                    // Lines of one event are one text, with an end of line between.
                    Line::Space | Line::Data => tell(Part::Data(b"\n")),
                    Line::Name(_) | Line::Other => {}
                }
                self.line = Line::Name(0);
                rest = after;
                continue;
            }
            match self.line {
                Line::Name(agreed) => {
                    self.line = match DATA.get(agreed) == Some(&byte) {
                        true if agreed + 1 == DATA.len() => Line::Space,
                        true => Line::Name(agreed + 1),
                        false => Line::Other,
                    };
                    rest = after;
                }
                Line::Space => {
                    self.line = Line::Data;
                    rest = if byte == b' ' { after } else { rest };
                }
                Line::Data | Line::Other => {
                    let end = rest.iter().position(|b| matches!(b, b'\n' | b'\r'));
                    let (line, after) = rest.split_at(end.unwrap_or(rest.len()));
                    if self.line == Line::Data {
                        tell(Part::Data(line));
                    }
                    rest = after;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The data of the events, `|` where one ends.
    fn data(pieces: &[&[u8]]) -> String {
        let (mut sse, mut all) = (Sse::default(), Vec::new());
        for piece in pieces {
            sse.feed(piece, |part| match part {
                Part::Data(data) => all.extend_from_slice(data),
                Part::End => all.push(b'|'),
            });
        }
        String::from_utf8_lossy(&all).into_owned()
    }

    #[test]
    fn only_data_is_handed_on_however_lines_end_and_are_cut() {
        for end in ["\n", "\r", "\r\n"] {
            let stream = ": hello\nevent: x\ndata: {\"a\"\ndata::1}\n\ndatax: 1\ndata:b\ndata\n\n"
                .replace('\n', end);
            for cut in 0..=stream.len() {
                let (first, second) = stream.as_bytes().split_at(cut);
                assert_eq!(
                    data(&[first, second]),
                    "{\"a\"\n:1}\n|b\n|",
                    "{end:?} at {cut}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_in_any_pieces(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b':'), any::<u8>()], 0..80),
            cut in 0usize..80,
        ) {
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            prop_assert_eq!(data(&[first, second]), data(&[&bytes]));
        }
    }
}
