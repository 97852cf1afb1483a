//! A head as it came, before the HTTP library tidies it.
//!
//! The library removes a `Content-Length` that stands beside `Transfer-Encoding`,
//! and answers other contradictions with a bare `400`. Both are allowed
//! (RFC 9112 §6.3), but a request that frames its body in two ways is an attempt
//! to smuggle another past somebody, or a broken client; either should be told.
//! So the bytes of each head are kept until it has been read, and looked at once:
//!
//! | the head has | it is framed |
//! |---|---|
//! | no or one `Content-Length` of digits, or one `Transfer-Encoding` that is `chunked` | once |
//! | both fields, several lengths, a length that is no number, another coding, a coding | |
//! | in HTTP/1.0 | ambiguously |
//!
//! The library also drops the fragment of a request's target, which a target can't have
//! (RFC 9112 §3.2.1).
//!
//! This is for the message only. What passes on is framed by what the library
//! read, and by nothing else. Bytes that came together with an earlier request
//! (pipelining) are not looked at.

/// Most bytes that are kept; a longer head is refused for its size.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// What a client of HTTP/2 says first (RFC 9113 §3.4). The library knows it and closes
/// without a word; with another last byte it is a head that can't be read, and refused
/// as such.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What is wrong with a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection begins as one of HTTP/2.
    Http2,
    /// The first line is not one of HTTP/1.1.
    FirstLine,
    /// Its target has a fragment.
    Fragment,
    /// It frames its body in several ways, or in none that is valid.
    Framing,
    /// A line is no field, or its name or value has a byte that it can't have.
    Field,
}

impl Fault {
    /// What it is, for the caller.
    pub(crate) const fn says(self) -> &'static str {
        match self {
            Fault::Http2 => "HTTP/1.1 only: the connection began as one of HTTP/2",
            Fault::FirstLine => "the request's first line is not valid HTTP/1.1",
            Fault::Fragment => "the request's target has a fragment, which is not sent over HTTP",
            Fault::Framing => "the head does not say in one valid way where the body ends",
            Fault::Field => {
                "the head is not valid HTTP: a header's name or value holds a byte that it can't"
            }
        }
    }
}

/// The bytes of the head that is being read.
#[derive(Debug)]
pub(crate) struct RawHead {
    bytes: Vec<u8>,
    keeps: bool,
}

impl Default for RawHead {
    fn default() -> RawHead {
        RawHead {
            bytes: Vec::new(),
            keeps: true,
        }
    }
}

impl RawHead {
    /// The next head begins.
    pub(crate) fn start(&mut self) {
        self.bytes.clear();
        self.keeps = true;
    }

    /// Bytes were read. Says where in them the opening of an HTTP/2 connection ends, if
    /// it does: whoever passes them on changes that byte, so that it is answered.
    pub(crate) fn saw(&mut self, bytes: &[u8]) -> Option<usize> {
        let before = self.bytes.len();
        if self.keeps {
            let room = KEPT_BYTES_MAX.saturating_sub(self.bytes.len());
            self.bytes
                .extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        let ends_here = before < HTTP2_PREFACE.len() && self.bytes.starts_with(HTTP2_PREFACE);
        ends_here.then(|| HTTP2_PREFACE.len() - 1 - before)
    }

    /// The library has read the head. Says what it let pass. Cost: linear in the head;
    /// the buffer is kept for the next.
    pub(crate) fn end(&mut self) -> Option<Fault> {
        let fault = [self.fragment(), self.framing()]
            .into_iter()
            .flatten()
            .next();
        self.bytes.clear();
        self.keeps = false;
        fault
    }

    /// What the library may have found wrong with the head, as far as it came.
    pub(crate) fn fault(&self) -> Option<Fault> {
        let faults = [
            self.http2(),
            self.first_line(),
            self.framing(),
            self.field(),
        ];
        faults.into_iter().flatten().next()
    }

    fn http2(&self) -> Option<Fault> {
        let line = lines(&self.bytes).next()?;
        (line == b"PRI * HTTP/2.0").then_some(Fault::Http2)
    }

    fn first_line(&self) -> Option<Fault> {
        let mut words = lines(&self.bytes).next()?.split(|byte| *byte == b' ');
        let is_valid = match (words.next(), words.next(), words.next(), words.next()) {
            (Some(method), Some(target), Some(b"HTTP/1.1" | b"HTTP/1.0"), None) => {
                is_token(method) && http::Uri::try_from(target).is_ok()
            }
            _ => false,
        };
        (!is_valid).then_some(Fault::FirstLine)
    }

    fn fragment(&self) -> Option<Fault> {
        let line = lines(&self.bytes).next()?;
        line.contains(&b'#').then_some(Fault::Fragment)
    }

    fn field(&self) -> Option<Fault> {
        let is_field = |line: &[u8]| {
            let mut parts = line.splitn(2, |byte| *byte == b':');
            let (name, value) = (parts.next().unwrap_or(line), parts.next());
            let is_visible = |byte: &u8| *byte == b'\t' || !byte.is_ascii_control();
            is_token(name) && value.is_some_and(|value| value.iter().all(is_visible))
        };
        let is_wrong = fields(&self.bytes).any(|line| !is_field(line));
        is_wrong.then_some(Fault::Field)
    }

    fn framing(&self) -> Option<Fault> {
        let is_old = lines(&self.bytes)
            .next()
            .is_some_and(|line| line.ends_with(b" HTTP/1.0"));
        let (mut lengths, mut codings) = (0, 0);
        let mut valid = true;
        for line in fields(&self.bytes) {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else {
                continue;
            };
            let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
            if name.eq_ignore_ascii_case(b"content-length") {
                lengths += 1;
                let digits = value.iter().all(u8::is_ascii_digit);
                let number = str::from_utf8(value).ok().map(str::parse::<u64>);
                valid &= digits && matches!(number, Some(Ok(_)));
            } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
                codings += 1;
                valid &= value.eq_ignore_ascii_case(b"chunked") && !is_old;
            }
        }
        (!valid || lengths + codings > 1).then_some(Fault::Framing)
    }
}

/// The lines up to the empty one.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let start = head.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
    let lines = head[start.unwrap_or(head.len())..].split(|byte| *byte == b'\n');
    lines
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .take_while(|line| !line.is_empty())
}

/// The lines after the first.
fn fields(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines(head).skip(1)
}

fn is_token(name: &[u8]) -> bool {
    http::HeaderName::from_bytes(name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_head(head: &str, expected: Option<Fault>) {
        let mut raw = RawHead::default();
        // As it may arrive: in two pieces, with an empty line before it.
        let text = format!("\r\n{head}\r\nbody: 1\r\n");
        let (first, second) = text.as_bytes().split_at(text.len() / 2);
        raw.saw(first);
        raw.saw(second);
        assert_eq!(raw.end(), expected, "{head:?}");
        raw.saw(b"ignored: the body\r\n");
        raw.start();
        assert_eq!(raw.fault(), None, "nothing is left of it");
    }

    #[track_caller]
    fn check(fields: &str, expected: Option<Fault>) {
        let head = format!("POST /p/x HTTP/1.1\r\nhost: a\r\n{fields}");
        check_head(&head, expected);
    }

    #[test]
    fn a_head_that_frames_its_body_in_two_ways_is_noticed() {
        let framing = Some(Fault::Framing);
        check("", None);
        check("Content-Length: 2\r\n", None);
        check("transfer-encoding: Chunked\r\n", None);
        check(
            "content-length: 2\r\ntransfer-encoding: chunked\r\n",
            framing,
        );
        check(
            "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
            framing,
        );
        check("content-length: 2\r\ncontent-length: 2\r\n", framing);
        check("content-length: +2\r\n", framing);
        check("content-length: 99999999999999999999\r\n", framing);
        check("content-length:\r\n", framing);
        check("transfer-encoding: gzip, chunked\r\n", framing);
        check("x-length: a\r\n\r\ncontent-length: x\r\n", None);
        let old = "POST /p/x HTTP/1.0\r\ntransfer-encoding: chunked\r\n";
        check_head(old, framing);
    }

    #[test]
    fn a_target_with_a_fragment_is_noticed() {
        let fragment = Some(Fault::Fragment);
        check_head("GET /p/x#a HTTP/1.1\r\nhost: a\r\n", fragment);
        check_head("GET /p/x?q#?a HTTP/1.1\r\nhost: a\r\n", fragment);
        check_head("GET /p/x%23a HTTP/1.1\r\nreferer: /p/x#a\r\n", None);
    }

    #[test]
    fn what_the_library_refuses_is_called_by_its_name() {
        let named = |head: &str| {
            let mut raw = RawHead::default();
            raw.saw(head.as_bytes());
            raw.fault()
        };
        let first_line = Some(Fault::FirstLine);
        assert_eq!(named("G@(T / HTTP/1.1\r\nhost: a\r\nx-cut"), first_line);
        assert_eq!(named("GET /a b HTTP/1.1\r\nhost: a\r\n\r\n"), first_line);
        let http2 = Some(Fault::Http2);
        assert_eq!(named("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), http2);
        assert_eq!(named("PRI * HTTP/1.1\r\nhost: a\r\n\r\n"), None);
        assert_eq!(named("\u{16}\u{3}\u{1} tls?"), first_line);
        let field = Some(Fault::Field);
        for wrong in ["x: a\u{1}b", "x bad: a", "x: a\rb: c", "x", " folded: a"] {
            let head = format!("GET / HTTP/1.1\r\nhost: a\r\n{wrong}\r\n\r\n");
            assert_eq!(named(&head), field, "{wrong:?}");
        }
        assert_eq!(named("GET / HTTP/1.1\r\nhost: a\r\n\r\n"), None);
    }

    #[test]
    fn the_end_of_an_http2_opening_is_found_however_it_is_cut() {
        for cut in 0..HTTP2_PREFACE.len() {
            let mut raw = RawHead::default();
            let (first, second) = HTTP2_PREFACE.split_at(cut);
            assert_eq!(raw.saw(first), None, "{cut}");
            assert_eq!(raw.saw(second), Some(second.len() - 1), "{cut}");
            assert_eq!(raw.saw(b"settings"), None, "it ends once");
        }
        let mut raw = RawHead::default();
        assert_eq!(raw.saw(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"), None);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut head = RawHead::default();
        for _ in 0..100 {
            head.saw(&[b'x'; 8 << 10]);
        }
        assert_eq!(head.bytes.len(), KEPT_BYTES_MAX);
    }
}
