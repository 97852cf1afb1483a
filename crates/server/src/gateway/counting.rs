//! Counts what leaves, between the HTTP library and TLS, and can stop it.
//!
//! The promise: after `Wire::stop` nothing more of a request can leave, and
//! the [`Traffic`] it returns says whether anything ever did. That answer is
//! a proof, not a guess, because counting, stopping and writing happen under
//! one short lock, and because two counters are kept:
//!
//! ```text
//! hyper ── Counting (`written`, `read`) ── TLS ── Socket (`sent`) ── kernel
//! ```
//!
//! `written` counts what the layer below accepted. It alone is not enough:
//! TLS takes a head of 40 kB as three records, and if the kernel accepts the
//! first and refuses the second, the write as a whole fails and `written`
//! stays 0 although 16 kB are on their way. So a failed write proves nothing
//! until `sent`, below TLS, says that the kernel took no byte either:
//!
//! | `written` | a write failed | `sent` grew | left? |
//! |---|---|---|---|
//! | 0 | no | – | nothing |
//! | 0 | yes | no | nothing |
//! | 0 | yes | yes | perhaps something |
//! | > 0 | – | no | nothing (TLS still held it, and is now stopped) |
//! | > 0 | – | yes | something |
//!
//! A write that fails does not end the connection for the reader. A server
//! that refuses an upload answers and closes, so the write fails while the
//! answer waits to be read; the gate then swallows the rest of the upload
//! (`Gate::Deaf`) and the answer wins.
//!
//! Cost: two uncontended locks a write, none held across an await.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::fail;

/// Called once, just before the first byte of a request may be written.
pub(crate) type Hook = Box<dyn FnOnce() + Send>;

/// What may still pass upwards and downwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// Everything.
    Open,
    /// A write failed: writes vanish, reads go on.
    Deaf,
    /// Nothing, ever again.
    Shut,
}

/// The counters above TLS.
struct Flow {
    /// Which request of the connection is the current one.
    request: u64,
    written: u64,
    read: u64,
    write_failed: bool,
    gate: Gate,
    hook: Option<Hook>,
    last_write: Instant,
}

/// The socket below TLS, with its own counter. `None` once it is closed: the
/// counters outlive it.
struct Below {
    stream: Option<TcpStream>,
    sent: u64,
}

impl Below {
    /// The socket, or the error that a closed one gives.
    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        self.stream
            .as_mut()
            .map(Pin::new)
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

/// A point in a connection's traffic: where a request begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    request: u64,
    written: u64,
    read: u64,
    sent: u64,
}

/// What passed since a mark, as it stood when the wire was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes of the request that the layer below the HTTP library accepted.
    pub written: u64,
    /// Bytes that came back, interim answers included.
    pub read: u64,
    /// Whether any byte can have reached the peer.
    pub left: Left,
}

/// Whether a byte of a request can have reached the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Certainly none.
    Nothing,
    /// Perhaps some, perhaps all.
    Something,
}

/// One connection's shared state: its counters, its gate, its socket.
pub(crate) struct Wire {
    flow: Mutex<Flow>,
    below: Arc<Mutex<Below>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves counters that are still true.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wire {
    /// Wraps a connected socket: the half that goes below TLS, and the shared state.
    pub(crate) fn new(stream: TcpStream) -> (Socket, Arc<Wire>) {
        let below = Arc::new(Mutex::new(Below {
            stream: Some(stream),
            sent: 0,
        }));
        let wire = Wire {
            flow: Mutex::new(Flow {
                request: 0,
                written: 0,
                read: 0,
                write_failed: false,
                gate: Gate::Open,
                hook: None,
                last_write: Instant::now(),
            }),
            below: Arc::clone(&below),
        };
        (Socket(below), Arc::new(wire))
    }

    /// Begins the connection's next request here; earlier marks no longer stop anything.
    pub(crate) fn mark(&self) -> Mark {
        let mut flow = lock(&self.flow);
        flow.request += 1;
        Mark {
            request: flow.request,
            written: flow.written,
            read: flow.read,
            sent: lock(&self.below).sent,
        }
    }

    /// Has `hook` run when the next byte may be written.
    pub(crate) fn arm(&self, hook: Hook) {
        let mut flow = lock(&self.flow);
        flow.hook = Some(hook);
        flow.last_write = Instant::now();
    }

    /// Shuts the gate for good and says what had passed since `mark`. Safe to
    /// repeat: a later call returns the same answer. A mark whose request is
    /// over, because the connection carries another one by now, stops nothing.
    pub(crate) fn stop(&self, mark: Mark) -> Traffic {
        let mut flow = lock(&self.flow);
        if flow.request != mark.request {
            return Traffic {
                written: 0,
                read: 0,
                left: Left::Something,
            };
        }
        flow.gate = Gate::Shut;
        flow.hook = None;
        let below = lock(&self.below);
        if let Some(stream) = &below.stream {
            // Wakes whoever waits on the socket; a failure means that the peer closed it.
            let _ = SockRef::from(stream).shutdown(std::net::Shutdown::Both);
        }
        let written = flow.written - mark.written;
        let sent = below.sent - mark.sent;
        let left = match (written, flow.write_failed, sent) {
            (_, _, 0) => Left::Nothing,
            (0, false, _) => Left::Nothing,
            _ => Left::Something,
        };
        Traffic {
            written,
            read: flow.read - mark.read,
            left,
        }
    }

    /// Closes the socket. The counters stay.
    pub(crate) fn close(&self) {
        lock(&self.below).stream = None;
    }

    /// When a byte was last accepted for writing.
    pub(crate) fn last_write(&self) -> Instant {
        lock(&self.flow).last_write
    }

    /// Whether a write failed: then not all of the request was taken.
    pub(crate) fn is_deaf(&self) -> bool {
        lock(&self.flow).gate == Gate::Deaf
    }

    /// Whether the connection may carry another request: no write failed, it
    /// was not stopped, and nothing, not even the peer's close, waits to be
    /// read. A TLS record that waits on an idle connection counts as unfit
    /// too: at worst a fresh dial, never a write into a closing connection.
    pub(crate) fn is_quiet(&self) -> bool {
        if lock(&self.flow).gate != Gate::Open {
            return false;
        }
        let below = lock(&self.below);
        let Some(stream) = &below.stream else {
            return false;
        };
        let mut byte = [std::mem::MaybeUninit::uninit(); 1];
        match SockRef::from(stream).peek(&mut byte) {
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            Ok(_) => false,
        }
    }
}

/// The half of a connection that goes below TLS.
pub(crate) struct Socket(Arc<Mutex<Below>>);

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        lock(&self.0).stream()?.poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut below = lock(&self.0);
        let result = below.stream()?.poll_write(cx, buf);
        if let Poll::Ready(Ok(n)) = result {
            below.sent += n as u64;
        }
        result
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut below = lock(&self.0);
        let result = below.stream()?.poll_write_vectored(cx, bufs);
        if let Poll::Ready(Ok(n)) = result {
            below.sent += n as u64;
        }
        result
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.0).stream()?.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.0).stream()?.poll_shutdown(cx)
    }
}

/// The layer between the HTTP library and TLS (or the bare socket).
pub(crate) struct Counting<S> {
    inner: S,
    wire: Arc<Wire>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Counting<S> {
    /// Puts the counter of `wire` above `inner`.
    pub(crate) fn new(inner: S, wire: Arc<Wire>) -> Counting<S> {
        Counting { inner, wire }
    }

    /// One write through the gate. `len` is what there was to write.
    fn gated_write(
        &mut self,
        len: usize,
        attempt: impl FnOnce(Pin<&mut S>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        // The hook runs outside the lock: it enters the engine, whose lock may
        // be held by somebody who is about to stop this wire. If the wire is
        // stopped meanwhile, the hook has run and nothing is written.
        let hook = lock(&self.wire.flow).hook.take();
        if let Some(hook) = hook {
            hook();
        }
        let mut flow = lock(&self.wire.flow);
        match flow.gate {
            Gate::Open => {}
            Gate::Deaf => return Poll::Ready(Ok(len)),
            Gate::Shut => return Poll::Ready(Err(stopped())),
        }
        match attempt(Pin::new(&mut self.inner)) {
            Poll::Ready(Ok(n)) => {
                flow.written += n as u64;
                flow.last_write = Instant::now();
                fail::point(fail::FIRST_BYTE_WRITTEN);
                Poll::Ready(Ok(n))
            }
            Poll::Ready(Err(_)) => {
                flow.write_failed = true;
                flow.gate = Gate::Deaf;
                Poll::Ready(Ok(len))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// A flush or shutdown through the gate.
    fn pass(
        &mut self,
        attempt: impl FnOnce(Pin<&mut S>) -> Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        let mut flow = lock(&self.wire.flow);
        match flow.gate {
            Gate::Open => {}
            Gate::Deaf => return Poll::Ready(Ok(())),
            Gate::Shut => return Poll::Ready(Err(stopped())),
        }
        match attempt(Pin::new(&mut self.inner)) {
            Poll::Ready(Err(_)) => {
                flow.write_failed = true;
                flow.gate = Gate::Deaf;
                Poll::Ready(Ok(()))
            }
            other => other,
        }
    }
}

fn stopped() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Counting<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let mut flow = lock(&this.wire.flow);
        // Reading can make TLS write (an alert), so a stopped wire reads nothing either.
        if flow.gate == Gate::Shut {
            return Poll::Ready(Err(stopped()));
        }
        let before = buf.filled().len();
        let result = Pin::new(&mut this.inner).poll_read(cx, buf);
        flow.read += (buf.filled().len() - before) as u64;
        result
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Counting<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut()
            .gated_write(buf.len(), |inner| inner.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = bufs.iter().map(|b| b.len()).sum();
        self.get_mut()
            .gated_write(len, |inner| inner.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().pass(|inner| inner.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().pass(|inner| inner.poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests;
