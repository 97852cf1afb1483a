//! The first event of a stream: content, or an error under a status of 200.
//!
//! Providers commit `200 OK` and then fail: Anthropic sends `event: error`,
//! OpenAI and compatible servers `data: {"error": …}`. Until the first event has
//! been seen nothing has reached the agent, so such an error can still be
//! handled like a refusal (R-UX-2). Comments, pings and empty events come before
//! content at some providers and decide nothing.
//!
//! ```text
//! stream  = *( comment / ping / empty ) ( error / content ) …
//! comment = ":" text
//! ping    = "event: ping"
//! ```
//!
//! Source of the line grammar: the HTML standard, "Server-sent events": lines
//! end in CR, LF or CRLF, an empty line ends an event, several `data` lines are
//! joined by LF, one blank after the colon is dropped.

use super::error_body::{self, Look, Said};

/// Longest start of a stream that is held back, in bytes.
pub const OPENING_BYTES_MAX: usize = 64 * 1024;

/// What the start of a stream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// No event that decides has ended yet: hold the bytes back and ask again.
    Undecided,
    /// The stream has begun; pass everything on.
    Content,
    /// The first event is an error.
    Failed(Said),
}

/// Judges the decoded bytes that have arrived so far. Cost: linear in the bytes.
pub fn opening(bytes: &[u8], look: Look<'_>) -> Opening {
    // A chunk may end inside a character, or be no text further on: what is before it
    // decides, as it would have if it had come alone.
    let (text, is_text) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, true),
        Err(error) => {
            let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]);
            (valid.unwrap_or(""), error.error_len().is_none())
        }
    };
    let mut event = Event::default();
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    while let Some((line, after)) = next_line(rest) {
        rest = after;
        if !line.is_empty() {
            event.take(line);
        } else if let Some(decided) = std::mem::take(&mut event).decide(look) {
            return decided;
        }
    }
    if !is_text || bytes.len() >= OPENING_BYTES_MAX {
        Opening::Content
    } else {
        Opening::Undecided
    }
}

/// As [`opening`], for a stream that has ended: a last event without the empty
/// line behind it counts, because servers that fail close the connection there.
/// A stream without any event is content.
pub fn opening_at_end(bytes: &[u8], look: Look<'_>) -> Opening {
    let ended = [bytes, b"\n\n"].concat();
    match opening(&ended, look) {
        Opening::Undecided => Opening::Content,
        decided => decided,
    }
}

/// The first error event of a whole stream, wherever it stands. Cost: linear.
pub fn first_error(bytes: &[u8], look: Look<'_>) -> Option<Said> {
    let text = String::from_utf8_lossy(bytes);
    let text = format!("{}\n\n", text.strip_prefix('\u{feff}').unwrap_or(&text));
    let mut event = Event::default();
    let mut rest = text.as_str();
    while let Some((line, after)) = next_line(rest) {
        rest = after;
        if !line.is_empty() {
            event.take(line);
        } else if let Some(Opening::Failed(said)) = std::mem::take(&mut event).decide(look) {
            return Some(said);
        }
    }
    None
}

/// The next complete line, and what follows its end.
fn next_line(text: &str) -> Option<(&str, &str)> {
    let end = text.find(['\r', '\n'])?;
    let after = &text[end..];
    let after = after.strip_prefix("\r\n").unwrap_or_else(|| &after[1..]);
    Some((&text[..end], after))
}

/// One event while its lines come in.
#[derive(Default)]
struct Event<'a> {
    name: &'a str,
    data: Option<String>,
}

impl<'a> Event<'a> {
    fn take(&mut self, line: &'a str) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match (field, &mut self.data) {
            ("event", _) => self.name = value,
            ("data", Some(data)) => {
                data.push('\n');
                data.push_str(value);
            }
            ("data", none) => *none = Some(value.to_owned()),
            // Comments, ids and retry times.
            _ => {}
        }
    }

    /// What an ended event says about the stream; `None` if nothing.
    fn decide(self, look: Look<'_>) -> Option<Opening> {
        let data = self.data.unwrap_or_default();
        if self.name == "ping" || (data.is_empty() && self.name != "error") {
            return None;
        }
        Some(match error_body::of_event(self.name, &data, look) {
            Some(said) => Opening::Failed(said),
            None => Opening::Content,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rategov_core::observe::{Dialect, tables};

    fn look(dialect: &Dialect) -> Look<'_> {
        let hidden = &[];
        Look { dialect, hidden }
    }

    fn opening(bytes: &[u8]) -> Opening {
        super::opening(bytes, look(&tables::generic()))
    }

    fn opening_at_end(bytes: &[u8]) -> Opening {
        super::opening_at_end(bytes, look(&tables::generic()))
    }

    const OVERLOADED: &str = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";

    /// The word for what a stream's start is, or the code and type of its error.
    fn word(opening: &Opening) -> String {
        match opening {
            Opening::Undecided => "undecided".to_owned(),
            Opening::Content => "content".to_owned(),
            Opening::Failed(said) => {
                let error = said.error.as_ref().unwrap();
                let (code, kind) = (error.code.as_deref(), error.kind.as_deref());
                let status = error
                    .status
                    .map(|status| status.to_string())
                    .unwrap_or_default();
                format!("{}/{}/{status}", code.unwrap_or(""), kind.unwrap_or(""))
            }
        }
    }

    #[track_caller]
    fn check(stream: &str, expected: &str) {
        assert_eq!(word(&opening(stream.as_bytes())), expected, "{stream:?}");
    }

    #[test]
    fn what_comes_with_an_error_and_is_no_text_takes_nothing_back() {
        let mut stream = OVERLOADED.as_bytes().to_vec();
        stream.extend_from_slice(b"\xff\xfe");
        assert_eq!(word(&opening(&stream)), "/overloaded_error/");
        assert_eq!(word(&opening_at_end(&stream)), "/overloaded_error/");
        assert_eq!(word(&opening(b"data: \xff")), "content");
    }

    #[test]
    fn an_error_as_the_first_event_is_found_in_every_dialect() {
        check(OVERLOADED, "/overloaded_error/");
        check(
            "data: {\"error\":{\"code\":429,\"message\":\"M\"}}\n\n",
            "//429",
        );
        check(
            "event: error\ndata: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":\"M\"}\n\n",
            "rate_limit_exceeded//",
        );
        check(
            "data: {\"id\":\"c\",\"choices\":[],\"error\":{\"code\":\"server_error\"}}\n\n",
            "server_error//",
        );
        check("event: error\ndata: overloaded, sorry\n\n", "//");
    }

    #[test]
    fn content_is_content() {
        for stream in [
            "event: message_start\ndata: {\"type\":\"message_start\"}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"an \\\"error\\\"\"}}],\"error\":null}\n\n",
            "data: [DONE]\n\n",
            "data: plain text\n\n",
        ] {
            check(stream, "content");
            check(&format!("{stream}{OVERLOADED}"), "content");
        }
    }

    #[test]
    fn what_comes_before_the_first_event_decides_nothing() {
        let before = "\u{feff}: PROCESSING\n\nevent: ping\ndata: {}\n\nretry: 5\n\ndata:\n\n";
        check(before, "undecided");
        check(&format!("{before}{OVERLOADED}"), "/overloaded_error/");
        check(&format!("{before}data: x\n\n"), "content");
    }

    #[test]
    fn an_error_after_content_is_found_in_a_whole_stream() {
        let dialect = tables::generic();
        let stream = format!("data: {{\"choices\":[]}}\n\n: keep-alive\n\n{OVERLOADED}");
        let said = first_error(stream.as_bytes(), look(&dialect)).unwrap();
        assert_eq!(
            said.error.unwrap().kind.as_deref(),
            Some("overloaded_error")
        );
        assert_eq!(
            first_error(b"data: {}\n\ndata: [DONE]", look(&dialect)),
            None
        );
    }

    #[test]
    fn every_line_end_counts_and_data_lines_are_joined() {
        for end in ["\n", "\r", "\r\n"] {
            check(&OVERLOADED.replace('\n', end), "/overloaded_error/");
        }
        check("data: {\"error\":\ndata:{\"code\":\"c\"}}\n\n", "c//");
    }

    #[test]
    fn a_stream_that_ends_inside_its_first_event_is_judged_by_it() {
        let cut = OVERLOADED.trim_end();
        check(cut, "undecided");
        assert_eq!(word(&opening_at_end(cut.as_bytes())), "/overloaded_error/");
        assert_eq!(opening_at_end(b""), Opening::Content);
        assert_eq!(opening_at_end(b": only a comment"), Opening::Content);
    }

    #[test]
    fn a_start_that_never_decides_is_let_through_at_the_bound() {
        let comments = ": x\n\n".repeat(OPENING_BYTES_MAX / 5 + 1);
        check(&comments[..OPENING_BYTES_MAX - 1], "undecided");
        check(&comments[..OPENING_BYTES_MAX], "content");
    }

    #[test]
    fn bytes_that_are_no_text_are_content_but_a_cut_character_is_awaited() {
        assert_eq!(opening(b"\x1f\x8b\x08"), Opening::Content);
        assert_eq!(
            opening("data: é".as_bytes().split_last().unwrap().1),
            Opening::Undecided
        );
    }

    proptest! {
        #[test]
        fn cutting_a_stream_anywhere_never_decides_otherwise(
            before in "(: c\n\n|event: ping\ndata: 1\n\n){0,3}",
            is_error in any::<bool>(),
            cut in 0usize..1000,
        ) {
            let first = if is_error { OVERLOADED } else { "data: {\"choices\":[]}\n\n" };
            let stream = format!("{before}{first}data: more\n\n");
            let whole = opening(stream.as_bytes());
            let part = opening(&stream.as_bytes()[..cut.min(stream.len())]);
            prop_assert!(part == Opening::Undecided || part == whole, "{part:?} of {whole:?}");
        }

        #[test]
        fn any_bytes_are_judged_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = (opening(&bytes), opening_at_end(&bytes));
        }
    }
}
