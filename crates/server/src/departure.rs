//! Telling a caller that has left from one that has said all it had to say.
//!
//! Both close their half of the connection, and TCP shows the same of both. But who
//! has left answers whatever is sent to it with a reset, and who waits does not. So a
//! caller that closes its half while its answer is awaited is asked, once, with an
//! interim answer that HTTP lets a server send at any time (RFC 9110 §15.2.1):
//!
//! | its half ends | it is |
//! |---|---|
//! | while its answer is awaited, and a `100 Continue` is not reset | still there: it gets its answer |
//! | the same, and the connection fails | gone |
//! | the same, and it speaks HTTP/1.0, which has no interim answers | gone |
//! | after its answer has begun | gone |
//!
//! An answer that comes within [`PATIENCE`] needs no question.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use crate::listen::Answering;

/// How long an answer may take before a caller that closed its half is asked.
const PATIENCE: Duration = Duration::from_millis(250);
/// How long the first reset may take; each further look waits twice as long.
const LOOK_FIRST: Duration = Duration::from_millis(20);
/// Longest time between two looks.
const LOOK_MAX: Duration = Duration::from_secs(1);
/// The question.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A connection that the HTTP library and the watch over its caller both look at, by
/// turns, in one task.
#[derive(Clone, Debug)]
pub(crate) struct Socket(Arc<Mutex<TcpStream>>);

impl Socket {
    pub(crate) fn new(stream: TcpStream) -> Socket {
        Socket(Arc::new(Mutex::new(stream)))
    }

    fn stream(&self) -> MutexGuard<'_, TcpStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the caller's half has ended; an error if the connection has.
    fn poll_end(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut byte = [0];
        let seen = self
            .stream()
            .poll_peek(context, &mut ReadBuf::new(&mut byte));
        match ready!(seen)? {
            0 => Poll::Ready(Ok(())),
            // More was sent that nobody has taken yet: whoever takes it looks again.
            _ => Poll::Pending,
        }
    }

    /// Whether the connection has failed.
    fn has_failed(&self) -> bool {
        !matches!(self.stream().take_error(), Ok(None))
    }
}

/// The watch over a connection's caller.
pub(crate) struct Departure {
    socket: Socket,
    answering: Answering,
    half: Half,
}

/// The caller's half of the connection.
enum Half {
    Open,
    /// Closed; it is asked when this fires.
    Closed(Pin<Box<Sleep>>),
    /// Closed and asked; the next look, and how long it waits.
    Asked(Pin<Box<Sleep>>, Duration),
}

impl Departure {
    pub(crate) fn new(socket: Socket, answering: Answering) -> Departure {
        Departure {
            socket,
            answering,
            half: Half::Open,
        }
    }

    /// Ready once the caller has left. Looked at before the connection goes on, so
    /// that an answer which begins now is not taken for one that had begun.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.half {
                Half::Open => {
                    let can_be_asked = match self.answering.awaited() {
                        Some(awaited) => awaited.may_be_asked,
                        None => return Poll::Pending,
                    };
                    match ready!(self.socket.poll_end(context)) {
                        Ok(()) if can_be_asked => {
                            self.half = Half::Closed(Box::pin(sleep(PATIENCE)));
                        }
                        Ok(()) | Err(_) => return Poll::Ready(()),
                    }
                }
                Half::Closed(timer) => {
                    ready!(timer.as_mut().poll(context));
                    if self.answering.awaited().is_some() && self.ask().is_err() {
                        return Poll::Ready(());
                    }
                    self.half = Half::Asked(Box::pin(sleep(LOOK_FIRST)), LOOK_FIRST);
                }
                Half::Asked(timer, wait) => {
                    if self.socket.has_failed() {
                        return Poll::Ready(());
                    }
                    ready!(timer.as_mut().poll(context));
                    let longer = (*wait * 2).min(LOOK_MAX);
                    self.half = Half::Asked(Box::pin(sleep(longer)), longer);
                }
            }
        }
    }

    /// Ready once the caller has left in the middle of its answer: the connection has
    /// had its turn, is not at its end, and reads nothing.
    pub(crate) fn poll_after(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match (&self.half, self.answering.awaited()) {
            (Half::Open, None) => self.socket.poll_end(context).map(drop),
            _ => self.poll(context),
        }
    }

    /// A few bytes, which a socket takes whole unless it is full: then the caller
    /// reads nothing of an answer before this one.
    fn ask(&self) -> io::Result<()> {
        match self.socket.stream().try_write(CONTINUE)? {
            written if written == CONTINUE.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream()).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream()).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_shutdown(context)
    }
}
