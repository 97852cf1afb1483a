//! A request as the provider sees it and a reply as it means it, free of any
//! socket: raw target, header fields in the order of arrival, whole body.
//!
//! Field values are kept byte for byte: each byte is one `char` of the same
//! number (ISO 8859-1), which is lossless both ways and easy to compare.

use std::sync::OnceLock;

use bytes::Bytes;
use rategov_core::time::Span;
use serde_json::Value;

use super::ledger::sha256;

/// Header fields in order; names as they were written, looked up without case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// No fields.
    pub fn new() -> Fields {
        Fields::default()
    }

    /// Adds a field at the end.
    pub fn push(&mut self, name: &str, value: impl Into<String>) {
        self.0.push((name.to_owned(), value.into()));
    }

    /// Replaces every field of that name by one, at the place of the first.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        match self
            .0
            .iter()
            .position(|(n, _)| n.eq_ignore_ascii_case(name))
        {
            Some(place) => {
                self.0[place].1 = value.into();
                let mut index = 0;
                self.0.retain(|(n, _)| {
                    index += 1;
                    index - 1 <= place || !n.eq_ignore_ascii_case(name)
                });
            }
            None => self.push(name, value),
        }
    }

    /// The first value of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, v)| v)
    }

    /// Whether some field of that name holds `token` in its comma-separated list.
    pub fn has_token(&self, name: &str, token: &str) -> bool {
        self.iter()
            .filter(|(n, _)| n.eq_ignore_ascii_case(name))
            .flat_map(|(_, v)| v.split(','))
            .any(|t| {
                t.split(';')
                    .next()
                    .unwrap_or("")
                    .trim()
                    .eq_ignore_ascii_case(token)
            })
    }

    /// All fields in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Fields {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Fields {
        Fields(
            pairs
                .into_iter()
                .map(|(n, v)| (n.to_owned(), v.to_owned()))
                .collect(),
        )
    }
}

/// The head of a request: all that is known before its body is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHead {
    /// As written: `POST`.
    pub method: String,
    /// As written, query included: `/records?key=a%20b`.
    pub target: String,
    /// The header fields.
    pub fields: Fields,
}

impl RequestHead {
    /// The raw path, without the query.
    pub fn path(&self) -> &str {
        self.target.split(['?', '#']).next().unwrap_or("")
    }

    /// The decoded value of the first query parameter of that name.
    pub fn query(&self, name: &str) -> Option<String> {
        let (_, query) = self.target.split_once('?')?;
        query
            .split('&')
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .find(|(n, _)| decode(n) == name)
            .map(|(_, v)| decode(v))
    }

    /// Whether the method asks for no change.
    pub fn is_read(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }
}

/// Decodes `%XX` and `+`; what is not a valid escape stays as it is.
fn decode(text: &str) -> String {
    let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = match bytes[at..] {
            [b'%', high, low, ..] => digit(high).zip(digit(low)).map(|(h, l)| h * 16 + l),
            _ => None,
        };
        match (escaped, bytes[at]) {
            (Some(byte), _) => {
                out.push(byte);
                at += 3;
            }
            (None, b'+') => {
                out.push(b' ');
                at += 1;
            }
            (None, byte) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A whole request. What follows from its body is worked out once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Method, target and fields.
    pub head: RequestHead,
    body: Bytes,
    json: OnceLock<Value>,
    sha256: OnceLock<String>,
}

impl Request {
    /// A request; its body is what is left when the transfer coding is removed.
    pub fn new(head: RequestHead, body: Bytes) -> Request {
        Request {
            head,
            body,
            ..Request::default()
        }
    }

    /// A request of plain parts; for tests and for the simulated world.
    pub fn of(method: &str, target: &str, fields: &[(&str, &str)], body: &str) -> Request {
        let head = RequestHead {
            method: method.to_owned(),
            target: target.to_owned(),
            fields: fields.iter().copied().collect(),
        };
        Request::new(head, Bytes::copy_from_slice(body.as_bytes()))
    }

    /// The body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The body as JSON; `Value::Null` if it is none.
    pub fn json(&self) -> &Value {
        self.json
            .get_or_init(|| serde_json::from_slice(&self.body).unwrap_or(Value::Null))
    }

    /// SHA-256 of the body, hexadecimal.
    pub fn sha256(&self) -> &str {
        self.sha256.get_or_init(|| sha256(&self.body))
    }
}

/// One piece of a streamed body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The pause before it is written.
    pub after: Span,
    /// Its bytes.
    pub bytes: Bytes,
}

/// What an answer carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// All at once, with a `content-length`.
    Whole(Bytes),
    /// Piece by piece, chunked: an event stream.
    Pieces(Vec<Piece>),
}

impl Body {
    /// All bytes of the body, joined.
    pub fn bytes(&self) -> Bytes {
        match self {
            Body::Whole(bytes) => bytes.clone(),
            Body::Pieces(pieces) => pieces
                .iter()
                .flat_map(|p| p.bytes.iter().copied())
                .collect::<Vec<u8>>()
                .into(),
        }
    }
}

/// An answer as the provider means it; a fault may still spoil its delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The header fields, without framing.
    pub fields: Fields,
    /// The body.
    pub body: Body,
}

impl Reply {
    /// A JSON answer.
    pub fn json(status: u16, body: &Value) -> Reply {
        let mut fields = Fields::new();
        fields.push("content-type", "application/json");
        Reply {
            status,
            fields,
            body: Body::Whole(body.to_string().into()),
        }
    }

    /// An answer without a body.
    pub fn empty(status: u16) -> Reply {
        Reply {
            status,
            fields: Fields::new(),
            body: Body::Whole(Bytes::new()),
        }
    }

    /// An event stream of the given events, `pause` before each but the first.
    pub fn events(events: Vec<String>, pause: Span) -> Reply {
        let mut fields = Fields::new();
        fields.push("content-type", "text/event-stream; charset=utf-8");
        fields.push("cache-control", "no-cache");
        let pieces = events.into_iter().enumerate().map(|(n, event)| Piece {
            after: if n == 0 { Span::ZERO } else { pause },
            bytes: event.into(),
        });
        Reply {
            status: 200,
            fields,
            body: Body::Pieces(pieces.collect()),
        }
    }

    /// Whether the status says that it was done.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_parameter_is_decoded_and_a_bad_escape_is_left_alone() {
        let request = Request::of("GET", "/records?key=a%20b+c&x=%zz&last=%4", &[], "");
        assert_eq!(request.head.query("key").as_deref(), Some("a b c"));
        assert_eq!(request.head.query("x").as_deref(), Some("%zz"));
        assert_eq!(request.head.query("last").as_deref(), Some("%4"));
        assert_eq!(request.head.query("absent"), None);
        assert_eq!(request.head.path(), "/records");
    }

    #[test]
    fn a_field_is_set_once_whatever_its_case() {
        let mut fields: Fields = [("Retry-After", "1"), ("date", "x"), ("retry-after", "2")]
            .into_iter()
            .collect();
        fields.set("retry-AFTER", "9");
        let all: Vec<_> = fields.iter().collect();
        assert_eq!(all, [("Retry-After", "9"), ("date", "x")]);
    }

    #[test]
    fn a_token_is_found_among_others_with_parameters() {
        let fields: Fields = [("Accept-Encoding", "br;q=1.0, gzip;q=0.5")]
            .into_iter()
            .collect();
        assert!(fields.has_token("accept-encoding", "gzip"));
        assert!(!fields.has_token("accept-encoding", "zstd"));
    }
}
