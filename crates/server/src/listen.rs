//! Accepting connections, and speaking clearly where the HTTP library is terse.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::fail;
use crate::gateway::problem::{Problem, RequestCode};
use crate::raw_head::{Fault, RawHead};

/// A pause after a failed accept: out of file descriptors, usually.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How the library's interim answer begins; the answer itself is still to come.
const INTERIM: &[u8] = b"HTTP/1.1 100 ";
/// The library's bare answer is no longer than this.
const BARE_BYTES_MAX: usize = 128;

/// Accepts connections until told to stop, at most as many as there are seats.
pub(crate) fn accept<F, Fut>(
    listener: TcpListener,
    seats: Arc<Semaphore>,
    stop: &CancellationToken,
    connections: &TaskTracker,
    handle: F,
) where
    F: Fn(TcpStream, SocketAddr, CancellationToken) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let (stop, tracker) = (stop.clone(), connections.clone());
    connections.spawn(async move {
        loop {
            let Ok(seat) = Arc::clone(&seats).acquire_owned().await else {
                return;
            };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => return,
            };
            match accepted {
                Ok((stream, peer)) => {
                    // An answer's last bytes must not wait for an acknowledgement.
                    let _ = stream.set_nodelay(true);
                    let served = handle(stream, peer, stop.clone());
                    tracker.spawn(async move {
                        served.await;
                        drop(seat);
                    });
                }
                Err(cause) => {
                    tracing::warn!(%cause, "a connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    });
}

/// Whether the service has been asked on a connection: until then whatever is
/// written to it comes from the HTTP library alone. And the head as it came, which
/// the library tidies before it shows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answering(Arc<Exchange>);

#[derive(Debug, Default)]
struct Exchange {
    asked: AtomicBool,
    /// The caller understands interim answers.
    takes_interim: AtomicBool,
    /// Bytes of an answer have been written and not all have left.
    unflushed: AtomicBool,
    head: Mutex<RawHead>,
}

/// An answer of which nothing has been written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    /// Whether an interim answer may be written before it.
    pub(crate) may_be_asked: bool,
}

impl Answering {
    /// The library has read a head. Says what was wrong with it as it came.
    pub(crate) fn begin(&self, version: http::Version) -> Option<Fault> {
        let takes_interim = version == http::Version::HTTP_11;
        self.0.takes_interim.store(takes_interim, Ordering::Release);
        self.0.asked.store(true, Ordering::Release);
        self.head().end()
    }

    /// The answer that is awaited, if one is.
    pub(crate) fn awaited(&self) -> Option<Awaited> {
        let may_be_asked = self.0.takes_interim.load(Ordering::Acquire)
            && !self.0.unflushed.load(Ordering::Acquire);
        self.is_asked().then_some(Awaited { may_be_asked })
    }

    /// What is about to be written begins the answer to the last head.
    fn begins(&self, bytes: &[u8]) -> bool {
        !bytes.starts_with(INTERIM) && self.take()
    }

    fn take(&self) -> bool {
        let asked = self.0.asked.swap(false, Ordering::AcqRel);
        if asked {
            // What is read from now on is the next head.
            self.head().start();
        }
        asked
    }

    fn is_asked(&self) -> bool {
        self.0.asked.load(Ordering::Acquire)
    }

    /// A panic elsewhere can't leave it half changed: it is a buffer.
    fn head(&self) -> MutexGuard<'_, RawHead> {
        self.0.head.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection whose bare refusals are mended.
///
/// The HTTP library answers a head that it can't read (an invalid header value, a
/// head beyond its buffer) with a bare `400` or `431` and closes. Such an answer
/// is replaced by one that says what is wrong, in the form of all other problems.
#[derive(Debug)]
pub(crate) struct Mended<S> {
    stream: S,
    answering: Answering,
    /// The answer that goes out instead, and how much of it has gone.
    instead: Option<(Vec<u8>, usize)>,
}

impl<S> Mended<S> {
    pub(crate) fn new(stream: S) -> Mended<S> {
        Mended {
            stream,
            answering: Answering::default(),
            instead: None,
        }
    }

    pub(crate) fn answering(&self) -> Answering {
        self.answering.clone()
    }
}

/// What the library's bare answer means, if these bytes are one; `head` is what it
/// could not read.
fn mend(bytes: &[u8], head: &RawHead) -> Option<Vec<u8>> {
    if bytes.len() > BARE_BYTES_MAX || !bytes.ends_with(b"\r\ncontent-length: 0\r\n\r\n") {
        return None;
    }
    let status = bytes
        .strip_prefix(b"HTTP/1.1 ")
        .or_else(|| bytes.strip_prefix(b"HTTP/1.0 "))?;
    let problem = if status.starts_with(b"431 ") {
        let why = "the head is larger, or has more fields, than can be passed on";
        Problem::of_request(RequestCode::HeadTooLarge, why)
    } else if status.starts_with(b"414 ") {
        let why = "the target is longer than can be passed on";
        Problem::of_request(RequestCode::BadTarget, why)
    } else if !status.starts_with(b"400 ") {
        return None;
    } else {
        let fault = head.fault();
        let code = match fault {
            Some(Fault::Framing) => RequestCode::BadFraming,
            _ => RequestCode::BadHeader,
        };
        let why = fault.map_or("the head is not valid HTTP", Fault::says);
        Problem::of_request(code, why)
    };
    let body = problem.body();
    let mut answer = format!(
        "HTTP/1.1 {} {}\r\nconnection: close\r\ncontent-length: {}\r\n",
        problem.status().as_u16(),
        problem.status().canonical_reason().unwrap_or("Refused"),
        body.len()
    )
    .into_bytes();
    for (name, value) in &problem.headers() {
        answer.extend_from_slice(name.as_str().as_bytes());
        answer.extend_from_slice(b": ");
        answer.extend_from_slice(value.as_bytes());
        answer.extend_from_slice(b"\r\n");
    }
    answer.extend_from_slice(b"\r\n");
    answer.extend_from_slice(&body);
    Some(answer)
}

/// Where a test wants the process to end inside an answer.
fn half_and_die<S: AsyncWrite + Unpin>(stream: &mut S, context: &mut Context<'_>, bytes: &[u8]) {
    if fail::is_due(fail::REPLY_HALF_WRITTEN) {
        let _ = Pin::new(stream).poll_write(context, &bytes[..bytes.len() / 2]);
        fail::die();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Mended<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let http2 = self.answering.head().saw(&buffer.filled()[before..]);
        if let Some(at) = http2 {
            // The library would close without a word; now it refuses, and is mended.
            buffer.filled_mut()[before + at] = b' ';
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Mended<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        this.answering.0.unflushed.store(true, Ordering::Release);
        if this.instead.is_none() {
            if this.answering.begins(bytes) {
                // A service was asked: what follows is its answer, until the next head.
                half_and_die(&mut this.stream, context, bytes);
                return Pin::new(&mut this.stream).poll_write(context, bytes);
            }
            let mended = mend(bytes, &this.answering.head());
            match mended {
                Some(answer) => this.instead = Some((answer, 0)),
                None => return Pin::new(&mut this.stream).poll_write(context, bytes),
            }
        }
        let Some((answer, gone)) = &mut this.instead else {
            return Poll::Ready(Ok(bytes.len()));
        };
        while *gone < answer.len() {
            match Pin::new(&mut this.stream).poll_write(context, &answer[*gone..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => *gone += written,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            self.answering.0.unflushed.store(false, Ordering::Release);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let first = slices.iter().find(|slice| !slice.is_empty());
        let bare = this.instead.is_some()
            || (!this.answering.is_asked()
                && first.is_some_and(|slice| mend(slice, &this.answering.head()).is_some()));
        if bare {
            let whole: Vec<u8> = slices
                .iter()
                .flat_map(|slice| slice.iter().copied())
                .collect();
            return Pin::new(this).poll_write(context, &whole);
        }
        this.answering.0.unflushed.store(true, Ordering::Release);
        if let Some(first) = first
            && this.answering.begins(first)
        {
            half_and_die(&mut this.stream, context, first);
        }
        Pin::new(&mut this.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(head: &[u8], bare: &str, code: Option<&str>) {
        let mut raw = RawHead::default();
        raw.saw(head);
        let mended = mend(bare.as_bytes(), &raw).map(|it| String::from_utf8(it).unwrap());
        match (mended, code) {
            (None, None) => {}
            (Some(text), Some(code)) => {
                assert!(text.starts_with(&bare[..12]), "{text}");
                assert!(text.contains(&format!("\"code\":\"{code}\"")), "{text}");
            }
            (mended, code) => panic!("{mended:?} for {code:?}"),
        }
    }

    #[test]
    fn only_the_librarys_own_refusals_are_mended() {
        const BARE: &str = "\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let bad = format!("HTTP/1.1 400 Bad Request{BARE}");
        let large = format!("HTTP/1.1 431 Request Header Fields Too Large{BARE}");
        let head = b"GET / HTTP/1.1\r\nx: \x01\r\n\r\n";
        check(head, &bad, Some("bad_header"));
        check(head, &large, Some("head_too_large"));
        for framing in ["content-length: +2", "content-length: 99999999999999999999"] {
            let head = format!("GET / HTTP/1.1\r\n{framing}\r\n\r\n");
            check(head.as_bytes(), &bad, Some("bad_framing"));
        }
        check(b"PRI * HTTP/2.0\r\n\r\n", &bad, Some("bad_header"));
        check(head, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", None);
        // A piece of a body that looks like one.
        check(head, "HTTP/1.1 400 Bad Request\r\n\r\nand so on", None);
    }
}
