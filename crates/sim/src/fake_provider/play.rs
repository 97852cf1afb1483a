//! Plays a plan on a connection: waits, writes, and ends it as the plan says.
//!
//! Moments are counted from the arrival, not from one wait to the next, so a
//! long stream doesn't drift. An arrival is reported as finished just before
//! its last bytes are handed to the network: whoever has read the whole answer
//! finds the seat free and the ledger complete.

use std::io::Write as _;

use bytes::Bytes;
use tokio::time::{Duration, Instant, sleep_until};

use super::handle::Handle;
use super::read::{Opening, Reader};
use super::socket::Socket;
use crate::provider::Ticket;
use crate::provider::fault::Ending;
use crate::provider::ledger::Finish;
use crate::provider::plan::{Act, After, Head, Marked, Plan};

/// A call that is open at the provider; reported as left by its caller if it is
/// dropped before it was finished.
pub(super) struct OpenCall<'a> {
    handle: &'a Handle,
    ticket: Option<Ticket>,
}

impl<'a> OpenCall<'a> {
    pub(super) fn new(handle: &'a Handle, ticket: Ticket) -> OpenCall<'a> {
        OpenCall {
            handle,
            ticket: Some(ticket),
        }
    }

    fn finish(&mut self, how: Finish) {
        if let Some(ticket) = self.ticket.take() {
            self.handle.finish(ticket, how);
        }
    }
}

impl Drop for OpenCall<'_> {
    fn drop(&mut self) {
        self.finish(Finish::CallerGone);
    }
}

/// What waits to be written, and how its body is framed.
struct Pen {
    bytes: Vec<u8>,
    marked: Marked,
}

/// Plays `plan`; gives the connection back if it serves another request.
pub(super) async fn play(
    handle: &Handle,
    (mut socket, reader): (Socket, &mut Reader),
    opening: &Opening,
    plan: Plan,
) -> Option<Socket> {
    let mut call = OpenCall::new(handle, plan.ticket);
    let how = plan.finish();
    let mut due = Instant::now();
    let mut pen = Pen {
        bytes: Vec::new(),
        marked: Marked::Length(0),
    };
    let mut keep = opening.keep && plan.after == After::Keep;
    for act in plan.acts {
        match act {
            Act::Wait(span) => {
                pen.flush(&mut socket).await?;
                due += Duration::from_micros(span.as_micros());
                tokio::select! {
                    () = sleep_until(due) => {}
                    () = reader.gone(&mut socket) => return None,
                }
            }
            Act::Hold => {
                pen.flush(&mut socket).await?;
                let mut released = handle.released();
                tokio::select! {
                    _ = released.changed() => due = Instant::now(),
                    () = reader.gone(&mut socket) => return None,
                }
            }
            Act::Interim(status) => {
                pen.line(format_args!("HTTP/1.1 {status} {}\r\n", reason(status)))
            }
            Act::Head(head) => {
                // Chunks are unknown to an old caller: its body ends with the connection.
                pen.marked = match head.marked {
                    Marked::Chunked if opening.old => Marked::ByClose,
                    marked => marked,
                };
                keep &= pen.marked != Marked::ByClose;
                pen.head(&head, keep || plan.after != After::Keep);
            }
            Act::Body(bytes) => pen.body(&bytes),
            Act::EndBody => pen.end(),
            Act::Raw(bytes) => pen.bytes.extend_from_slice(&bytes),
        }
    }
    if plan.after == After::End(Ending::Silence) {
        pen.flush(&mut socket).await?;
        reader.gone(&mut socket).await;
        return None;
    }
    call.finish(how);
    pen.flush(&mut socket).await?;
    match plan.after {
        After::Keep if keep => return Some(socket),
        After::Keep => socket.close_gently().await,
        After::End(Ending::Rst) => socket.reset(),
        After::End(Ending::Fin | Ending::Silence) => socket.close().await,
    }
    None
}

impl Pen {
    /// Writes what waits; `None` if the caller has gone.
    async fn flush(&mut self, socket: &mut Socket) -> Option<()> {
        if !self.bytes.is_empty() {
            socket.write(&self.bytes).await.ok()?;
            self.bytes.clear();
        }
        Some(())
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing into memory does not fail.
        let _ = self.bytes.write_fmt(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// The head. A plan that spoils the connection keeps quiet about it.
    fn head(&mut self, head: &Head, silent: bool) {
        let status = head.status;
        let _ = write!(self.bytes, "HTTP/1.1 {status} {}\r\n", reason(status));
        for (name, value) in head.fields.iter() {
            let _ = write!(self.bytes, "{name}: ");
            // Values are kept one character a byte; see `message`.
            self.bytes.extend(
                value
                    .chars()
                    .map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')),
            );
            self.bytes.extend_from_slice(b"\r\n");
        }
        match self.marked {
            Marked::Length(_) if status == 204 => {}
            Marked::Length(length) => {
                let _ = write!(self.bytes, "content-length: {length}\r\n");
            }
            Marked::Chunked => self
                .bytes
                .extend_from_slice(b"transfer-encoding: chunked\r\n"),
            Marked::ByClose => {}
        }
        if !silent || self.marked == Marked::ByClose {
            self.bytes.extend_from_slice(b"connection: close\r\n");
        }
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn body(&mut self, bytes: &Bytes) {
        match self.marked {
            Marked::Chunked if bytes.is_empty() => {}
            Marked::Chunked => {
                let _ = write!(self.bytes, "{:x}\r\n", bytes.len());
                self.bytes.extend_from_slice(bytes);
                self.bytes.extend_from_slice(b"\r\n");
            }
            Marked::Length(_) | Marked::ByClose => self.bytes.extend_from_slice(bytes),
        }
    }

    fn end(&mut self) {
        if self.marked == Marked::Chunked {
            self.bytes.extend_from_slice(b"0\r\n\r\n");
        }
    }
}

/// An error that the server itself answers, before any arrival is counted.
pub(super) fn refusal(status: u16, message: &str) -> Vec<u8> {
    let body =
        serde_json::json!({"error": {"code": "bad_request", "message": message}}).to_string();
    format!(
        "HTTP/1.1 {status} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        reason(status),
        body.len()
    )
    .into_bytes()
}

/// The reason phrase of a status; people read it, programs must not.
fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        102 => "Processing",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        425 => "Too Early",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        507 => "Insufficient Storage",
        529 => "Overloaded",
        _ => "Status",
    }
}
