//! What a stream that passes through shows of itself: whether it carried an
//! error, and how to end it visibly if it breaks.

use bytes::Bytes;
use http::HeaderMap;
use rategov_core::id::ActionId;

use super::error_shapes::holds_error;
use super::reading::is_event_stream;

/// Bytes of a line that are looked at; longer lines are data.
const LINE_BYTES_MAX: usize = 4_096;

/// Watches the event lines of a stream as it passes. Compressed streams and
/// other bodies are not looked into.
#[derive(Debug)]
pub(super) struct Watch {
    on: bool,
    line: Vec<u8>,
    error: bool,
    /// The data of the first error event, until somebody takes it.
    said: Option<Vec<u8>>,
    awaits_data: bool,
    at_line_start: bool,
}

impl Watch {
    /// A watch for an answer with this head.
    pub(super) fn new(headers: &HeaderMap) -> Watch {
        let plain = !headers.contains_key(http::header::CONTENT_ENCODING);
        Watch {
            on: plain && is_event_stream(headers),
            line: Vec::new(),
            error: false,
            said: None,
            awaits_data: false,
            at_line_start: true,
        }
    }

    /// A frame passes.
    pub(super) fn see(&mut self, frame: &http_body::Frame<Bytes>) {
        let Some(data) = frame.data_ref().filter(|_| self.on) else {
            return;
        };
        for byte in data {
            match byte {
                b'\n' | b'\r' => {
                    let was_error = self.error;
                    self.error |= is_error_line(&self.line);
                    // The name of an event stands before its data.
                    let is_first = !was_error || self.awaits_data;
                    if self.error && is_first {
                        self.said = data_of(&self.line).map(<[u8]>::to_vec);
                        self.awaits_data = self.said.is_none();
                    }
                    self.line.clear();
                    self.at_line_start = true;
                }
                byte => {
                    if self.line.len() < LINE_BYTES_MAX {
                        self.line.push(*byte);
                    }
                    self.at_line_start = false;
                }
            }
        }
    }

    /// Whether the provider put an error event into it; also one whose last line has no
    /// end, because servers that fail close the connection there.
    pub(super) fn saw_error(&self) -> bool {
        self.error || is_error_line(&self.line)
    }

    /// What the first error event said, once.
    pub(super) fn take_said(&mut self) -> Option<String> {
        String::from_utf8(self.said.take()?).ok()
    }

    /// The event that tells a caller that its stream broke; `None` where the body
    /// is no plain event stream. The framing is broken off behind it, because
    /// clients that skip unknown events would take a short answer for a whole one.
    pub(super) fn broken_event(&self, action: ActionId) -> Option<Bytes> {
        if !self.on {
            return None;
        }
        let gap = if self.at_line_start { "\n" } else { "\n\n" };
        let body = serde_json::json!({
            "type": "error",
            "error": {
                "type": "stream_broken",
                "code": "stream_broken",
                "message": "the provider's answer broke off; what was received is incomplete",
                "action": action.to_string(),
            }
        });
        Some(Bytes::from(format!("{gap}event: error\ndata: {body}\n\n")))
    }
}

/// Whether a body of this type held an error event; for tests of hostile input.
pub(crate) fn saw_error_event(content_type: &str, pieces: &[&[u8]]) -> bool {
    let mut headers = HeaderMap::new();
    if let Ok(value) = content_type.parse() {
        headers.insert(http::header::CONTENT_TYPE, value);
    }
    let mut watch = Watch::new(&headers);
    for piece in pieces {
        watch.see(&http_body::Frame::data(Bytes::copy_from_slice(piece)));
    }
    watch.saw_error()
}

/// `event: error`, or a data line with an error of its own, wherever in it that stands:
/// routers put it beside the empty rest of a chunk. A line that was cut is judged by its
/// beginning: its first member is `error`, and an object or a text.
fn is_error_line(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    if line == b"event: error" || line == b"event:error" {
        return true;
    }
    let Some(data) = data_of(line) else {
        return false;
    };
    // Hardly any line holds the word as a name, so hardly any is parsed.
    let mentions = data.windows(7).any(|part| part == b"\"error\"");
    mentions
        && match serde_json::from_slice::<serde_json::Value>(data) {
            Ok(value) => holds_error(&value),
            Err(_) => begins_an_error(data).unwrap_or(false),
        }
}

fn begins_an_error(data: &[u8]) -> Option<bool> {
    let member = data.strip_prefix(b"{")?.trim_ascii_start();
    let colon = member.strip_prefix(b"\"error\"")?.trim_ascii_start();
    let value = colon.strip_prefix(b":")?.trim_ascii_start();
    let is_text = value.starts_with(b"\"") && !value.starts_with(b"\"\"");
    Some(value.is_empty() || value.starts_with(b"{") || is_text)
}

/// What a data line holds.
fn data_of(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii();
    line.strip_prefix(b"data:").map(<[u8]>::trim_ascii_start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch() -> Watch {
        let mut headers = HeaderMap::new();
        headers.insert(
            http::header::CONTENT_TYPE,
            "text/event-stream".parse().unwrap(),
        );
        Watch::new(&headers)
    }

    fn check(pieces: &[&str], error: bool) {
        let mut watch = watch();
        for piece in pieces {
            watch.see(&http_body::Frame::data(Bytes::copy_from_slice(
                piece.as_bytes(),
            )));
        }
        assert_eq!(watch.saw_error(), error, "{pieces:?}");
    }

    #[test]
    fn an_error_event_is_seen_however_it_is_cut() {
        check(&["event: er", "ror\ndata: {}\n\n"], true);
        check(&["data: {\"error\":{\"code\":\"x\"}}\n\n"], true);
        check(&["data: {\"text\":\"event: error\"}\n\n"], false);
        let late = "{\"id\":\"c\",\"choices\":[{\"delta\":{},\"finish_reason\":\"error\"}],\"error\": {\"code\":429}}";
        check(&["data: ", late, "\n\n"], true);
        check(&["data: {\"choices\":[],\"error\":null}\n\n"], false);
        check(&["data: {\"error\":null,\"choices\":[]}\n\n"], false);
        check(
            &["data: {\"delta\":{\"content\":\"{\\\"error\\\":{}}\"}}\n\n"],
            false,
        );
        check(&["data: {\"tool\":{\"error\":{\"code\":1}}}\n\n"], false);
        let cut = format!("data: {{\"error\":{{\"message\":\"{}\n", "x".repeat(9_000));
        check(&[&cut], true);
        check(&["event: message_stop\n\n"], false);
        check(&["data: { \"error\" : {\"code\":\"x\"}}\n\n"], true);
        check(&["data: {\"error\":\"overloaded\"}\n\n"], true);
        check(&["data: {\"error\":null,\"choices\":[]}\n\n"], false);
        check(&["data: {\"error\":\"\"}\n\n"], false);
    }

    #[test]
    fn an_error_in_a_last_line_without_an_end_is_seen() {
        check(&["data: {}\n\ndata: {\"error\":{\"code\":", "7}}"], true);
        check(&["data: {}\n\nevent: error"], true);
    }

    #[test]
    fn the_first_error_event_is_told_once() {
        let mut watch = watch();
        let mut see = |text: &str| {
            watch.see(&http_body::Frame::data(Bytes::copy_from_slice(
                text.as_bytes(),
            )));
            watch.take_said()
        };
        assert_eq!(see("data: {\"a\":1}\n\n"), None);
        assert_eq!(see("event: error\n"), None);
        let said = Some("{\"code\":1}".to_owned());
        assert_eq!(see("data: {\"code\":1}\n\n"), said);
        assert_eq!(see("data: {\"error\":{\"code\":2}}\n\n"), None);
    }

    #[test]
    fn a_broken_stream_ends_with_an_event_of_its_own() {
        let mut watch = watch();
        watch.see(&http_body::Frame::data(Bytes::from_static(
            b"data: {\"x\":",
        )));
        let event = watch.broken_event(ActionId(7)).unwrap();
        let text = std::str::from_utf8(&event).unwrap();
        assert!(text.starts_with("\n\nevent: error\ndata: {"), "{text}");
        assert!(text.ends_with("}\n\n"));
    }
}
