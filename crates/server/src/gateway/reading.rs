//! Reading an answer just as far as a decision needs, without changing a byte.
//!
//! | answer | read before the decision |
//! | --- | --- |
//! | to a write | all of it, at most [`RESULT_BYTES_MAX`] |
//! | an error | its first 64 KiB |
//! | JSON of a known, small length | all of it: it may be an error under a 200 |
//! | a JSON object of unknown length | the same, as far as it comes within 2 s and 64 KiB |
//! | an event stream | until its first event, at most 2 s or 64 KiB |
//! | anything else | nothing |
//!
//! What was read is passed on first; the rest streams behind it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use rategov_core::action::outcome::Body;
use rategov_core::observe::{Dialect, ErrorRule, Facts};
use rategov_core::time::WallTime;
use tokio::time::Instant;

use super::answer::AnswerBody;
use super::error_body::{self, Look, Said};
use super::evidence::{BodyEnd, EndMark};
use super::meter::decode;
use super::purpose::Purpose;
use super::sse_opening::{self, Opening};
use super::understand::understood;

/// Largest answer to a write that is stored for those who ask again.
pub const RESULT_BYTES_MAX: usize = 8 << 20;
/// How much of an error, or of a stream's beginning, is looked at.
const PEEK_BYTES_MAX: usize = 64 << 10;
/// How long the first event of a stream is awaited, and the end of a body that does not
/// say where it ends.
const FIRST_EVENT_MAX: Duration = Duration::from_secs(2);

/// The part of an answer's body that has been read.
#[derive(Default)]
pub struct Peeked {
    frames: VecDeque<Bytes>,
    trailers: Option<HeaderMap>,
    bytes: usize,
}

impl Peeked {
    fn push(&mut self, data: Bytes) {
        self.bytes += data.len();
        self.frames.push_back(data);
    }

    /// All that was read, in one piece.
    pub fn whole(&self) -> Bytes {
        match self.frames.len() {
            0 => Bytes::new(),
            1 => self.frames[0].clone(),
            _ => {
                let mut whole = BytesMut::with_capacity(self.bytes);
                self.frames
                    .iter()
                    .for_each(|frame| whole.extend_from_slice(frame));
                whole.freeze()
            }
        }
    }

    /// The pieces as they arrived, to be looked at.
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        self.frames.iter()
    }

    /// The frames as they arrived, to be passed on.
    pub fn into_frames(self) -> impl Iterator<Item = http_body::Frame<Bytes>> {
        let data = self.frames.into_iter().map(http_body::Frame::data);
        data.chain(self.trailers.map(http_body::Frame::trailers))
    }
}

/// What has to be read of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Nothing,
    UpTo(usize),
    FirstEvent,
    /// The whole of an object, if it comes soon; a list streams on.
    Object,
}

/// An answer, read as far as needed.
pub struct Read {
    /// What it says.
    pub facts: Facts,
    /// What came of its body.
    pub body: Body,
    /// What was read of it.
    pub peeked: Peeked,
    /// How its body ended, if it has.
    pub end: Option<BodyEnd>,
}

/// How answers of a provider are understood.
#[derive(Clone, Copy)]
pub struct Tongue<'a> {
    /// Its headers.
    pub dialect: &'a Dialect,
    /// Its errors.
    pub rules: &'a [ErrorRule],
    /// Credentials of the call, cut out of every text.
    pub hidden: &'a [&'a str],
    /// The wall clock when the head arrived.
    pub arrived: WallTime,
}

/// Reads an answer as far as its decision needs. Dropping the future loses nothing
/// but time: the caller stops the wire.
pub async fn read(
    head: &http::response::Parts,
    body: &mut AnswerBody,
    purpose: Purpose,
    tongue: Tongue<'_>,
) -> Read {
    let status = head.status.as_u16();
    let wanted = wanted(head, purpose);
    let mut peeked = Peeked::default();
    let mut said = Said::default();
    let look = Look {
        dialect: tongue.dialect,
        hidden: tongue.hidden,
    };
    match wanted {
        Wanted::Nothing => {}
        Wanted::UpTo(most) => {
            while body.end().is_none() && peeked.bytes < most {
                if !take_frame(body, &mut peeked).await {
                    break;
                }
            }
            if status >= 400 || purpose == Purpose::Read || is_json(&head.headers) {
                let whole = peeked.whole();
                let plain = decoded(&head.headers, &whole);
                said = error_body::read(status, &plain, look);
            }
        }
        Wanted::Object => {
            let until = Instant::now() + FIRST_EVENT_MAX;
            while body.end().is_none() && peeked.bytes < PEEK_BYTES_MAX {
                let frame = tokio::time::timeout_at(until, take_frame(body, &mut peeked)).await;
                let came = frame.unwrap_or(false);
                if !came || !may_be_object(&decoded(&head.headers, &peeked.whole())) {
                    break;
                }
            }
        }
        Wanted::FirstEvent => {
            let until = Instant::now() + FIRST_EVENT_MAX;
            loop {
                let whole = peeked.whole();
                let plain = decoded(&head.headers, &whole);
                let opening = match body.end() {
                    Some(_) => sse_opening::opening_at_end(&plain, look),
                    None => sse_opening::opening(&plain, look),
                };
                match opening {
                    Opening::Failed(told) => {
                        said = told;
                        break;
                    }
                    Opening::Content => break,
                    Opening::Undecided if PEEK_BYTES_MAX <= peeked.bytes => break,
                    Opening::Undecided => {}
                }
                let frame = tokio::time::timeout_at(until, take_frame(body, &mut peeked)).await;
                if !frame.unwrap_or(false) && body.end().is_none() {
                    break;
                }
            }
        }
    }
    if wanted == Wanted::Object && body.end().is_some() {
        let bytes = peeked.whole();
        let plain = decoded(&head.headers, &bytes);
        said = error_body::read(status, &plain, look);
    }
    let fields: Vec<(&str, &[u8])> = head
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    let facts = understood(status, &fields, &said, tongue);
    let whole = body.end();
    let came = match whole {
        // A body that is passed on in one piece would lose its trailers.
        Some(_) if wanted == Wanted::Object && peeked.trailers.is_some() => Body::Open,
        None => Body::Open,
        Some(end) => end.body(end_mark(end, &head.headers, &peeked)),
    };
    Read {
        facts,
        body: came,
        peeked,
        end: whole,
    }
}

/// Reads one frame; `false` at the body's end or failure.
async fn take_frame(body: &mut AnswerBody, peeked: &mut Peeked) -> bool {
    match body.frame().await {
        Some(Ok(frame)) => {
            match frame.into_data() {
                Ok(data) => peeked.push(data),
                Err(frame) => peeked.trailers = frame.into_trailers().ok(),
            }
            true
        }
        Some(Err(_)) | None => false,
    }
}

fn wanted(head: &http::response::Parts, purpose: Purpose) -> Wanted {
    let length: Option<u64> = head
        .headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    let is_open = length.is_none();
    let small = length.is_some_and(|length| length <= PEEK_BYTES_MAX as u64);
    match purpose {
        Purpose::Write if is_event_stream(&head.headers) => Wanted::UpTo(RESULT_BYTES_MAX),
        Purpose::Write => Wanted::UpTo(RESULT_BYTES_MAX),
        Purpose::Read if head.status.as_u16() >= 400 => Wanted::UpTo(PEEK_BYTES_MAX),
        Purpose::Read if is_event_stream(&head.headers) => Wanted::FirstEvent,
        Purpose::Read if is_json(&head.headers) && small => Wanted::UpTo(PEEK_BYTES_MAX),
        Purpose::Read if is_json(&head.headers) && is_open => Wanted::Object,
        Purpose::Read => Wanted::Nothing,
    }
}

/// Whether what came until now can be the beginning of an object: blank lines are what
/// some providers say while they think.
fn may_be_object(plain: &[u8]) -> bool {
    let mut bytes = plain.iter();
    let first = bytes.find(|byte| !byte.is_ascii_whitespace());
    first.is_none_or(|byte| *byte == b'{')
}

/// A body that only a close delimits counts as whole if it parses.
fn end_mark(end: BodyEnd, headers: &HeaderMap, peeked: &Peeked) -> EndMark {
    if end != BodyEnd::CloseDelimited {
        return EndMark::Missing;
    }
    let whole = peeked.whole();
    let plain = decoded(headers, &whole);
    match serde_json::from_slice::<serde::de::IgnoredAny>(&plain) {
        Ok(_) => EndMark::Seen,
        Err(_) => EndMark::Missing,
    }
}

/// The media type of a body, without its parameters.
fn media_type(headers: &HeaderMap) -> &str {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    value
        .and_then(|value| value.split(';').next())
        .unwrap_or("")
        .trim()
}

/// Whether the body is an event stream.
pub fn is_event_stream(headers: &HeaderMap) -> bool {
    media_type(headers).eq_ignore_ascii_case("text/event-stream")
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = media_type(headers).to_ascii_lowercase();
    kind == "application/json" || kind.ends_with("+json")
}

/// A decoded copy of what was read, as far as it can be decoded; the bytes that
/// are passed on stay as they are.
fn decoded<'b>(headers: &HeaderMap, bytes: &'b [u8]) -> Cow<'b, [u8]> {
    let whole = decode::whole(headers, bytes, RESULT_BYTES_MAX as u64);
    whole.unwrap_or(Cow::Borrowed(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_gzip_copy_gives_what_can_be_read() {
        use std::io::Write as _;
        let text = b"{\"error\":{\"type\":\"rate_limit_error\"}}".repeat(40);
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&text).unwrap();
        let packed = encoder.finish().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
        assert_eq!(decoded(&headers, &packed), text);
        let part = decoded(&headers, &packed[..packed.len() - 9]);
        assert!(text.starts_with(&part));
        assert!(!part.is_empty());
    }

    #[test]
    fn media_types_are_read_without_their_parameters() {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::CONTENT_TYPE,
            "Text/Event-Stream; charset=utf-8".parse().unwrap(),
        );
        assert!(is_event_stream(&headers));
        headers.insert(
            header::CONTENT_TYPE,
            "application/problem+json".parse().unwrap(),
        );
        assert!(is_json(&headers));
    }

    #[test]
    fn a_body_that_does_not_say_its_length_is_read_if_it_can_be_an_error() {
        let of = |kind: &str, length: Option<&str>| {
            let mut response = http::Response::builder().header(header::CONTENT_TYPE, kind);
            if let Some(length) = length {
                response = response.header(header::CONTENT_LENGTH, length);
            }
            let (head, ()) = response.body(()).unwrap().into_parts();
            wanted(&head, Purpose::Read)
        };
        assert_eq!(of("application/json", None), Wanted::Object);
        assert_eq!(
            of("application/json", Some("900")),
            Wanted::UpTo(PEEK_BYTES_MAX)
        );
        assert_eq!(of("application/json", Some("9000000")), Wanted::Nothing);
        assert_eq!(of("application/x-ndjson", None), Wanted::Nothing);
        assert_eq!(of("text/event-stream", None), Wanted::FirstEvent);
    }

    #[test]
    fn a_list_streams_on_and_an_object_is_awaited() {
        for (plain, may) in [
            ("", true),
            ("\n\n \t\n", true),
            ("\n{\"error\":", true),
            ("[{\"candidates\":", false),
            ("\"a\"", false),
            ("\u{1f}\u{8b}", false),
        ] {
            assert_eq!(may_be_object(plain.as_bytes()), may, "{plain:?}");
        }
    }
}
