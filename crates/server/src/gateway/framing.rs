//! Where a message ends: the framing of requests and answers, read once and strictly.
//!
//! Two parties that disagree about where a body ends can be made to disagree
//! about where the next request begins (request smuggling). So a request is
//! refused where the rules of RFC 9112 §6.3 leave a choice, and an answer is
//! read exactly as the HTTP library reads it, because its end is evidence:
//! only a length or a last chunk proves that a body is whole.

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};

/// How a request's body is delimited. Kept over a repeat: a body with a length
/// is sent with that length, a chunked one chunked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// No body and no word about one.
    None,
    /// This many bytes, possibly 0.
    Length(u64),
    /// Chunks up to the last one.
    Chunked,
}

/// How an answer's body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFraming {
    /// There is none, by method or status.
    Empty,
    /// This many bytes.
    Length(u64),
    /// Chunks up to the last one.
    Chunked,
    /// Everything until the connection closes: a cut looks like an end.
    Close,
}

/// Why a request's framing is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// Both delimiters at once.
    #[error("a request can't have both content-length and transfer-encoding")]
    LengthAndChunked,
    /// More than one length.
    #[error("a request can have only one content-length")]
    SeveralLengths,
    /// A length that is no plain decimal number below 2⁶³.
    #[error("content-length must be a decimal number")]
    InvalidLength,
    /// A transfer coding other than exactly `chunked`.
    #[error("the only transfer-encoding that is passed on is chunked")]
    OtherCoding,
    /// Chunks in a protocol that has none.
    #[error("HTTP/1.0 has no transfer-encoding")]
    ChunkedInHttp10,
}

/// The framing of a request.
///
/// # Errors
/// See [`FramingError`].
pub fn of_request(headers: &HeaderMap, version: Version) -> Result<Framing, FramingError> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (lengths.next(), codings.next()) {
        (None, None) => Ok(Framing::None),
        (Some(_), Some(_)) => Err(FramingError::LengthAndChunked),
        (Some(_), None) if lengths.next().is_some() => Err(FramingError::SeveralLengths),
        (Some(length), None) => decimal(length)
            .map(Framing::Length)
            .ok_or(FramingError::InvalidLength),
        (None, Some(_)) if version < Version::HTTP_11 => Err(FramingError::ChunkedInHttp10),
        (None, Some(coding)) if is_chunked(coding) && codings.next().is_none() => {
            Ok(Framing::Chunked)
        }
        (None, Some(_)) => Err(FramingError::OtherCoding),
    }
}

/// The framing of the answer to a request with `method`, as RFC 9112 §6.3
/// orders its rules. Lengths that contradict each other never get here: the
/// HTTP library refuses such an answer.
pub fn of_answer(method: &Method, status: StatusCode, headers: &HeaderMap) -> AnswerFraming {
    let bodiless = method == Method::HEAD
        || status.is_informational()
        || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if bodiless {
        return AnswerFraming::Empty;
    }
    if let Some(last) = headers.get_all(TRANSFER_ENCODING).iter().next_back() {
        return if ends_chunked(last) {
            AnswerFraming::Chunked
        } else {
            AnswerFraming::Close
        };
    }
    match headers.get(CONTENT_LENGTH).map(first_length) {
        Some(Some(0)) => AnswerFraming::Empty,
        Some(Some(length)) => AnswerFraming::Length(length),
        Some(None) | None => AnswerFraming::Close,
    }
}

/// Whether a field value is the single coding `chunked`.
pub(crate) fn is_chunked(value: &HeaderValue) -> bool {
    value
        .as_bytes()
        .trim_ascii()
        .eq_ignore_ascii_case(b"chunked")
}

fn ends_chunked(value: &HeaderValue) -> bool {
    value
        .as_bytes()
        .rsplit(|b| *b == b',')
        .next()
        .is_some_and(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"chunked"))
}

/// The first of a list of lengths, all of which the HTTP library found equal.
fn first_length(value: &HeaderValue) -> Option<u64> {
    value
        .as_bytes()
        .split(|b| *b == b',')
        .next()
        .and_then(|one| digits(one.trim_ascii()))
}

fn decimal(value: &HeaderValue) -> Option<u64> {
    digits(value.as_bytes())
}

fn digits(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || !bytes.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // Two lengths above this are special numbers in HTTP libraries.
    std::str::from_utf8(bytes)
        .ok()?
        .parse()
        .ok()
        .filter(|n| *n < 1 << 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    fn check(lines: &[(&'static str, &'static str)], expected: Result<Framing, FramingError>) {
        assert_eq!(
            of_request(&head(lines), Version::HTTP_11),
            expected,
            "{lines:?}"
        );
    }

    #[test]
    fn a_request_says_in_one_way_where_it_ends() {
        const CL: &str = "content-length";
        const TE: &str = "transfer-encoding";
        check(&[], Ok(Framing::None));
        check(&[(CL, "0")], Ok(Framing::Length(0)));
        check(&[(CL, "12")], Ok(Framing::Length(12)));
        check(&[(TE, "Chunked")], Ok(Framing::Chunked));
        check(
            &[(CL, "12"), (TE, "chunked")],
            Err(FramingError::LengthAndChunked),
        );
        check(&[(CL, "12"), (CL, "12")], Err(FramingError::SeveralLengths));
        check(&[(CL, "12, 12")], Err(FramingError::InvalidLength));
        check(&[(CL, "+12")], Err(FramingError::InvalidLength));
        check(&[(CL, "0x1f")], Err(FramingError::InvalidLength));
        check(&[(CL, "")], Err(FramingError::InvalidLength));
        check(
            &[(CL, "18446744073709551615")],
            Err(FramingError::InvalidLength),
        );
        check(&[(TE, "gzip, chunked")], Err(FramingError::OtherCoding));
        check(
            &[(TE, "chunked"), (TE, "chunked")],
            Err(FramingError::OtherCoding),
        );
        check(&[(TE, "xchunked")], Err(FramingError::OtherCoding));
        assert_eq!(
            of_request(&head(&[(TE, "chunked")]), Version::HTTP_10),
            Err(FramingError::ChunkedInHttp10)
        );
    }

    fn answer(
        method: Method,
        status: u16,
        lines: &[(&'static str, &'static str)],
    ) -> AnswerFraming {
        let status = StatusCode::from_u16(status).unwrap();
        of_answer(&method, status, &head(lines))
    }

    #[test]
    fn an_answer_without_length_or_chunks_ends_with_its_connection() {
        let get = || Method::GET;
        assert_eq!(answer(get(), 200, &[]), AnswerFraming::Close);
        assert_eq!(
            answer(get(), 200, &[("content-length", "0")]),
            AnswerFraming::Empty
        );
        assert_eq!(
            answer(get(), 200, &[("content-length", "7")]),
            AnswerFraming::Length(7)
        );
        assert_eq!(
            answer(get(), 200, &[("content-length", "7, 7")]),
            AnswerFraming::Length(7)
        );
        assert_eq!(
            answer(get(), 200, &[("transfer-encoding", "chunked")]),
            AnswerFraming::Chunked
        );
        assert_eq!(
            answer(get(), 200, &[("transfer-encoding", "gzip, chunked")]),
            AnswerFraming::Chunked
        );
        assert_eq!(
            answer(get(), 200, &[("transfer-encoding", "gzip")]),
            AnswerFraming::Close
        );
        assert_eq!(
            answer(Method::HEAD, 200, &[("content-length", "7")]),
            AnswerFraming::Empty
        );
        assert_eq!(answer(get(), 204, &[]), AnswerFraming::Empty);
        assert_eq!(
            answer(get(), 304, &[("content-length", "7")]),
            AnswerFraming::Empty
        );
        let both = [("content-length", "7"), ("transfer-encoding", "chunked")];
        assert_eq!(answer(get(), 200, &both), AnswerFraming::Chunked);
    }
}
