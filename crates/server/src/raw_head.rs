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
//! | both fields, several lengths, a length that is no number, another coding | ambiguously |
//!
//! This is for the message only. What passes on is framed by what the library
//! read, and by nothing else. Bytes that came together with an earlier request
//! (pipelining) are not looked at.

/// Most bytes that are kept; a longer head is refused for its size.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// How a head frames its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framed {
    /// In one valid way.
    Once,
    /// In several ways, or in none that is valid.
    Ambiguously,
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

    /// Bytes were read.
    pub(crate) fn saw(&mut self, bytes: &[u8]) {
        if self.keeps {
            let room = KEPT_BYTES_MAX.saturating_sub(self.bytes.len());
            self.bytes
                .extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// The head has been read. Cost: linear in the head; the buffer is kept for the next.
    pub(crate) fn end(&mut self) -> Framed {
        let framed = self.framed();
        self.bytes.clear();
        self.keeps = false;
        framed
    }

    /// How the head, as far as it came, frames its body.
    pub(crate) fn framed(&self) -> Framed {
        let (mut lengths, mut codings) = (0, 0);
        let mut valid = true;
        for line in fields(&self.bytes) {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else {
                continue;
            };
            let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
            if name.eq_ignore_ascii_case(b"content-length") {
                lengths += 1;
                valid &= !value.is_empty() && value.iter().all(u8::is_ascii_digit);
            } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
                codings += 1;
                valid &= value.eq_ignore_ascii_case(b"chunked");
            }
        }
        match valid && lengths + codings <= 1 {
            true => Framed::Once,
            false => Framed::Ambiguously,
        }
    }
}

/// The lines after the first, up to the empty one.
fn fields(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let start = head.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
    let lines = head[start.unwrap_or(head.len())..].split(|byte| *byte == b'\n');
    lines
        .skip(1)
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .take_while(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(fields: &str, expected: Framed) {
        let mut head = RawHead::default();
        // As it may arrive: in two pieces, with an empty line before it.
        let text = format!("\r\nPOST /p/x HTTP/1.1\r\nhost: a\r\n{fields}\r\nbody: 1\r\n");
        let (first, second) = text.as_bytes().split_at(text.len() / 2);
        head.saw(first);
        head.saw(second);
        assert_eq!(head.end(), expected, "{fields:?}");
        head.saw(b"ignored: the body\r\n");
        head.start();
        assert_eq!(head.framed(), Framed::Once, "nothing is left of it");
    }

    #[test]
    fn a_head_that_frames_its_body_in_two_ways_is_noticed() {
        check("", Framed::Once);
        check("Content-Length: 2\r\n", Framed::Once);
        check("transfer-encoding: Chunked\r\n", Framed::Once);
        check(
            "content-length: 2\r\ntransfer-encoding: chunked\r\n",
            Framed::Ambiguously,
        );
        check(
            "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
            Framed::Ambiguously,
        );
        check(
            "content-length: 2\r\ncontent-length: 2\r\n",
            Framed::Ambiguously,
        );
        check("content-length: +2\r\n", Framed::Ambiguously);
        check("content-length:\r\n", Framed::Ambiguously);
        check("transfer-encoding: gzip, chunked\r\n", Framed::Ambiguously);
        check("x-length: a\r\n\r\ncontent-length: x\r\n", Framed::Once);
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
