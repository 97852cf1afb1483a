//! What a stream that passes through shows of itself: whether it carried an
//! error, and how to end it visibly if it breaks.

use bytes::Bytes;
use http::HeaderMap;
use rategov_core::id::ActionId;

use super::reading::is_event_stream;

/// Bytes of a line that are looked at; longer lines are data.
const LINE_BYTES_MAX: usize = 512;

/// Watches the event lines of a stream as it passes. Compressed streams and
/// other bodies are not looked into.
#[derive(Debug)]
pub(super) struct Watch {
    on: bool,
    line: Vec<u8>,
    error: bool,
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
                    self.error |= is_error_line(&self.line);
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

/// `event: error`, or a data line that is an error object and nothing else: one whose
/// first member is `error`, and an object or a text. `{"error":null,…}` is no error.
fn is_error_line(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line == b"event: error" || line == b"event:error" || begins_an_error(line).unwrap_or(false)
}

fn begins_an_error(line: &[u8]) -> Option<bool> {
    let object = line.strip_prefix(b"data:")?.trim_ascii_start();
    let member = object.strip_prefix(b"{")?.trim_ascii_start();
    let colon = member.strip_prefix(b"\"error\"")?.trim_ascii_start();
    let value = colon.strip_prefix(b":")?.trim_ascii_start();
    Some(value.starts_with(b"{") || value.starts_with(b"\"") && !value.starts_with(b"\"\""))
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
