//! Reads requests from a connection: heads as they were written, bodies with
//! their transfer coding removed, strictly, since a lenient server would hide
//! what a gateway gets wrong.
//!
//! | what arrives | answer |
//! |---|---|
//! | a head of more than 64 KiB or 128 fields | 431 |
//! | both `content-length` and `transfer-encoding`, or two different lengths | 400 |
//! | a transfer coding other than `chunked` | 501 |
//! | a body longer than allowed | 413 |
//! | anything that is not HTTP/1.x | 400 |

use std::io;

use bytes::Bytes;

use super::socket::Socket;
use crate::provider::message::{Fields, RequestHead};

/// Longest head in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Most header fields.
const FIELDS_MAX: usize = 128;
/// Most bytes that are kept of what a caller sends before its turn.
const AHEAD_BYTES_MAX: usize = 64 << 10;
/// Longest line that announces a chunk.
const CHUNK_LINE_MAX: usize = 1 << 10;

/// Why a request can't be taken.
#[derive(Debug)]
pub(super) enum ReadError {
    /// The connection ended.
    Gone,
    /// The request is answered by this status and reason, and the connection ends.
    Refused(u16, &'static str),
}

impl From<io::Error> for ReadError {
    fn from(_: io::Error) -> ReadError {
        ReadError::Gone
    }
}

/// How the end of a request's body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Bytes(u64),
    Chunked,
}

/// A head, and what must be known to read on.
#[derive(Debug)]
pub(super) struct Opening {
    /// The head.
    pub(super) head: RequestHead,
    /// Whether the connection stays open after the answer.
    pub(super) keep: bool,
    /// Whether the caller speaks HTTP/1.0, which knows no chunks.
    pub(super) old: bool,
    length: Length,
    awaits_continue: bool,
}

/// What was read from a connection and not used yet.
#[derive(Debug, Default)]
pub(super) struct Reader {
    buffer: Vec<u8>,
}

impl Reader {
    /// Whether the start of a request is here already.
    pub(super) fn has_bytes(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Reads until at least one byte is here.
    pub(super) async fn first_byte(&mut self, socket: &mut Socket) -> Result<(), ReadError> {
        if self.buffer.is_empty() {
            self.more(socket).await
        } else {
            Ok(())
        }
    }

    /// Reads a head.
    pub(super) async fn head(&mut self, socket: &mut Socket) -> Result<Opening, ReadError> {
        loop {
            if let Some((opening, used)) = parse(&self.buffer)? {
                self.buffer.drain(..used);
                return Ok(opening);
            }
            if self.buffer.len() >= HEAD_BYTES_MAX {
                return Err(ReadError::Refused(431, "the head is too long"));
            }
            self.more(socket).await?;
        }
    }

    /// Reads the body of `opening`: all of it, at most `body_max` bytes; or only
    /// the first `cut` bytes if it is to be cut.
    pub(super) async fn body(
        &mut self,
        socket: &mut Socket,
        opening: &Opening,
        (body_max, cut): (u64, Option<u64>),
    ) -> Result<Bytes, ReadError> {
        const TOO_LONG: ReadError = ReadError::Refused(413, "the body is too long");
        if let Length::Bytes(length) = opening.length
            && length > body_max
        {
            return Err(TOO_LONG);
        }
        if opening.awaits_continue && cut != Some(0) {
            socket.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let wanted = cut.unwrap_or(u64::MAX);
        let mut body = Vec::new();
        match opening.length {
            Length::Bytes(length) => {
                let length = usize::try_from(length.min(wanted)).map_err(|_| TOO_LONG)?;
                self.take(socket, length, &mut body).await?;
            }
            Length::Chunked => loop {
                let size = chunk_size(&self.line(socket).await?)?;
                if size == 0 {
                    while !self.line(socket).await?.is_empty() {}
                    break;
                }
                if body.len() as u64 + size > body_max {
                    return Err(TOO_LONG);
                }
                let rest = wanted.saturating_sub(body.len() as u64);
                let length = usize::try_from(size.min(rest)).map_err(|_| TOO_LONG)?;
                self.take(socket, length, &mut body).await?;
                if body.len() as u64 >= wanted {
                    break;
                }
                if !self.line(socket).await?.is_empty() {
                    return Err(ReadError::Refused(400, "a chunk is longer than it says"));
                }
            },
        }
        Ok(body.into())
    }

    /// Comes back when the caller has gone. What it sends meanwhile is kept for
    /// its turn, up to a bound.
    pub(super) async fn gone(&mut self, socket: &mut Socket) {
        while self.buffer.len() < AHEAD_BYTES_MAX {
            if self.more(socket).await.is_err() {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    async fn more(&mut self, socket: &mut Socket) -> Result<(), ReadError> {
        self.buffer.reserve(8_192);
        match socket.read(&mut self.buffer).await? {
            0 => Err(ReadError::Gone),
            _ => Ok(()),
        }
    }

    async fn take(
        &mut self,
        socket: &mut Socket,
        count: usize,
        into: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        let end = into.len() + count;
        while into.len() < end {
            self.first_byte(socket).await?;
            let part = self.buffer.len().min(end - into.len());
            into.extend(self.buffer.drain(..part));
        }
        Ok(())
    }

    /// A line without its end.
    async fn line(&mut self, socket: &mut Socket) -> Result<Vec<u8>, ReadError> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|w| w == b"\r\n") {
                let mut line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                line.truncate(end);
                return Ok(line);
            }
            if self.buffer.len() > CHUNK_LINE_MAX {
                return Err(ReadError::Refused(400, "a line of the body is too long"));
            }
            self.more(socket).await?;
        }
    }
}

fn parse(buffer: &[u8]) -> Result<Option<(Opening, usize)>, ReadError> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Request::new(&mut fields);
    let used = match parsed.parse(buffer) {
        Ok(httparse::Status::Complete(used)) => used,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(ReadError::Refused(431, "the head has too many fields"));
        }
        Err(_) => return Err(ReadError::Refused(400, "this is not an HTTP/1.1 request")),
    };
    let latin = |bytes: &[u8]| bytes.iter().map(|b| char::from(*b)).collect::<String>();
    let mut taken = Fields::new();
    for field in parsed.headers.iter() {
        taken.push(field.name, latin(field.value));
    }
    let old = parsed.version == Some(0);
    let keep = match old {
        true => taken.has_token("connection", "keep-alive"),
        false => !taken.has_token("connection", "close"),
    };
    let opening = Opening {
        length: length_of(&taken)?,
        awaits_continue: taken.has_token("expect", "100-continue"),
        keep,
        old,
        head: RequestHead {
            method: parsed.method.unwrap_or_default().to_owned(),
            target: parsed.path.unwrap_or_default().to_owned(),
            fields: taken,
        },
    };
    Ok(Some((opening, used)))
}

fn length_of(fields: &Fields) -> Result<Length, ReadError> {
    let lengths: Vec<&str> = fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map(|(_, value)| value.trim())
        .collect();
    let coding = fields.get("transfer-encoding").map(str::trim);
    match (lengths.as_slice(), coding) {
        ([], None) => Ok(Length::Bytes(0)),
        ([], Some(coding)) if coding.eq_ignore_ascii_case("chunked") => Ok(Length::Chunked),
        ([], Some(_)) => Err(ReadError::Refused(501, "the transfer coding is not known")),
        ([first, rest @ ..], None) if rest.iter().all(|other| other == first) => {
            let digits = !first.is_empty() && first.bytes().all(|b| b.is_ascii_digit());
            let length = first.parse().ok().filter(|_| digits);
            length
                .map(Length::Bytes)
                .ok_or(ReadError::Refused(400, "the length is no number"))
        }
        _ => Err(ReadError::Refused(400, "the body's length is ambiguous")),
    }
}

fn chunk_size(line: &[u8]) -> Result<u64, ReadError> {
    let digits = line.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let text = std::str::from_utf8(&line[..digits]).unwrap_or("");
    let rest = line.get(digits).copied();
    match (u64::from_str_radix(text, 16), rest) {
        (Ok(size), None | Some(b';' | b' ' | b'\t')) => Ok(size),
        _ => Err(ReadError::Refused(400, "a chunk's size is no number")),
    }
}
