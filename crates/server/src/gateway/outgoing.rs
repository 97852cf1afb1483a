//! A request's body on its way out: one type for all of them.
//!
//! It yields the same bytes each time it is made from the same spool, in the
//! original framing, and tells through `Uploaded` whether all of it was
//! handed to the connection. Trailers follow a chunked body (the HTTP library
//! sends those that the `Trailer` field announces).
//!
//! An empty chunked body is not "no body": it is sent as its last chunk, as
//! the caller did.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;

use super::framing::Framing;
use super::spool::{Kept, SpillReader};

/// The part of a body that has not been read yet.
pub(super) type Rest = UnsyncBoxBody<Bytes, BodyError>;

/// Why a body ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The caller's connection ended, or broke HTTP's rules.
    #[error("the caller's body ended early")]
    Caller,
    /// The spill file can't be read back.
    #[error("the kept body can't be read back: {0}")]
    Spill(io::ErrorKind),
}

/// Whether all of a body was handed to the connection, its end mark included.
#[derive(Clone, Debug, Default)]
pub(super) struct Uploaded(Arc<AtomicBool>);

impl Uploaded {
    pub(super) fn is_whole(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn whole(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A request's body. Made by [`super::spool::Spool::body`], or [`Outgoing::empty`].
pub struct Outgoing {
    framing: Framing,
    /// Bytes still to come, where that is known.
    left: u64,
    memory: VecDeque<Bytes>,
    spill: Option<SpillReader>,
    rest: Option<Rest>,
    trailers: Option<HeaderMap>,
    uploaded: Uploaded,
    /// Keeps the spool's budgets taken while its bytes are on their way.
    _kept: Option<Arc<Kept>>,
}

/// What a body is made of, in the order in which it is sent.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) memory: VecDeque<Bytes>,
    pub(super) spill: Option<SpillReader>,
    pub(super) rest: Option<Rest>,
    pub(super) trailers: Option<HeaderMap>,
    pub(super) kept: Option<Arc<Kept>>,
}

impl Outgoing {
    /// No body at all.
    pub fn empty() -> Outgoing {
        Outgoing::new(Framing::None, Parts::default())
    }

    pub(super) fn new(framing: Framing, parts: Parts) -> Outgoing {
        let left = match framing {
            Framing::Length(length) => length,
            Framing::None | Framing::Chunked => 0,
        };
        let body = Outgoing {
            framing,
            left,
            memory: parts.memory,
            spill: parts.spill,
            rest: parts.rest,
            trailers: parts.trailers,
            uploaded: Uploaded::default(),
            _kept: parts.kept,
        };
        if body.is_end_stream() {
            body.uploaded.whole();
        }
        body
    }

    pub(super) fn uploaded(&self) -> Uploaded {
        self.uploaded.clone()
    }

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(bytes) = self.memory.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        if let Some(spill) = &mut self.spill {
            match spill.poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(result)) => {
                    let frame = result
                        .map(Frame::data)
                        .map_err(|e| BodyError::Spill(e.kind()));
                    return Poll::Ready(Some(frame));
                }
                Poll::Ready(None) => self.spill = None,
            }
        }
        if let Some(rest) = &mut self.rest {
            return Pin::new(rest).poll_frame(cx);
        }
        Poll::Ready(self.trailers.take().map(Frame::trailers).map(Ok))
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let polled = this.poll_data(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let (Framing::Length(_), Some(data)) = (this.framing, frame.data_ref()) {
                    this.left = this.left.saturating_sub(data.len() as u64);
                    if this.left == 0 {
                        this.uploaded.whole();
                    }
                }
                if frame.is_trailers() {
                    this.uploaded.whole();
                }
            }
            Poll::Ready(None) => this.uploaded.whole(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match self.framing {
            Framing::None => true,
            Framing::Length(_) => self.left == 0,
            Framing::Chunked => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self.framing {
            Framing::None => SizeHint::with_exact(0),
            Framing::Length(_) => SizeHint::with_exact(self.left),
            Framing::Chunked => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the content: it is the agent's.
        f.debug_struct("Outgoing")
            .field("framing", &self.framing)
            .finish_non_exhaustive()
    }
}
