//! An answer: its head, and a body that knows how it ended.
//!
//! The body passes through untouched, frame by frame, as the provider sent it
//! (compressed stays compressed). At its end, [`AnswerBody::end`] is evidence:
//! complete by length or last chunk, cut, or delimited by nothing but the
//! connection's close, which a cut looks like, too.
//!
//! A connection goes back to the pool only when its answer was read to a proper
//! end, all of the request was taken, and the peer speaks HTTP/1.1. Whoever
//! drops the body earlier closes the connection; the rest is not drained.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Version, response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep_until};

use super::detail::Detail;
use super::evidence::{self, BodyEnd, Upload};
use super::framing::{self, AnswerFraming};
use super::headers;
use super::outgoing::Uploaded;
use super::pool::{Connection, Pool};

/// A provider's answer.
#[derive(Debug)]
pub struct Answer {
    /// Status, fields and extensions as received. The extensions carry the
    /// fields' case and the reason phrase: pass them on with the head.
    pub head: response::Parts,
    /// The body.
    pub body: AnswerBody,
    /// Whether the provider can have had the whole request when it answered.
    pub upload: Upload,
}

/// The body of an answer.
pub struct AnswerBody {
    incoming: Incoming,
    framing: AnswerFraming,
    end: Option<BodyEnd>,
    stall: Stall,
    /// Held until the end, whatever becomes of it then.
    reuse: Option<Reuse>,
    after: After,
}

/// What becomes of the connection after a proper end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Keep,
    Close,
}

/// The body failed; how is in [`Detail`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.cause())]
pub struct BodyCut(pub Detail);

/// What it takes to give the connection back.
pub(super) struct Reuse {
    pub(super) connection: Connection,
    pub(super) pool: Pool,
    pub(super) uploaded: Uploaded,
}

/// The time-out between two frames. It counts only while somebody waits: a
/// caller that reads slowly is not the provider's stall. The timer is made at
/// the first wait and moved only when it fires, so that a fast stream costs no
/// timer work.
struct Stall {
    after: Duration,
    waiting_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Stall {
    fn new(after: Duration) -> Stall {
        Stall {
            after,
            waiting_since: None,
            timer: None,
        }
    }

    fn moved(&mut self) {
        self.waiting_since = None;
    }

    fn poll_fired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = *self.waiting_since.get_or_insert_with(Instant::now) + self.after;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        loop {
            ready!(timer.as_mut().poll(cx));
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            timer.as_mut().reset(due);
        }
    }
}

impl Answer {
    pub(super) fn new(
        method: &Method,
        response: http::Response<Incoming>,
        upload: Upload,
        stall: Duration,
        reuse: Reuse,
    ) -> Answer {
        let (head, incoming) = response.into_parts();
        let framing = framing::of_answer(method, head.status, &head.headers);
        // An HTTP/1.0 peer would turn the next request into HTTP/1.0 as well, and
        // one that announces its close must not be raced against it.
        let lasting = head.version == Version::HTTP_11 && !headers::announces_close(&head.headers);
        let mut body = AnswerBody {
            incoming,
            framing,
            end: None,
            stall: Stall::new(stall),
            reuse: Some(reuse),
            after: if lasting { After::Keep } else { After::Close },
        };
        if framing == AnswerFraming::Empty {
            body.finish(BodyEnd::Complete);
        }
        Answer { head, body, upload }
    }
}

impl AnswerBody {
    /// How the body ended; `None` while it has not.
    pub fn end(&self) -> Option<BodyEnd> {
        self.end
    }

    /// How the body is delimited.
    pub fn framing(&self) -> AnswerFraming {
        self.framing
    }

    fn finish(&mut self, end: BodyEnd) {
        self.end = Some(end);
        let Some(reuse) = self.reuse.take() else {
            return;
        };
        if end == BodyEnd::Complete && self.after == After::Keep && reuse.uploaded.is_whole() {
            reuse.pool.put(reuse.connection);
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BodyCut;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyCut>>> {
        let this = self.get_mut();
        if this.end.is_some() {
            return Poll::Ready(None);
        }
        match Pin::new(&mut this.incoming).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                this.stall.moved();
                // The last byte of a known length is the end; nobody need ask again.
                if matches!(this.framing, AnswerFraming::Length(_)) && this.incoming.is_end_stream()
                {
                    this.finish(BodyEnd::Complete);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                this.finish(match this.framing {
                    AnswerFraming::Close => BodyEnd::CloseDelimited,
                    AnswerFraming::Empty | AnswerFraming::Length(_) | AnswerFraming::Chunked => {
                        BodyEnd::Complete
                    }
                });
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => {
                let detail = evidence::of_body(&error);
                this.finish(BodyEnd::Cut(detail));
                Poll::Ready(Some(Err(BodyCut(detail))))
            }
            Poll::Pending => {
                ready!(this.stall.poll_fired(cx));
                this.finish(BodyEnd::Cut(Detail::BodyStalled));
                Poll::Ready(Some(Err(BodyCut(Detail::BodyStalled))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.end.is_some()
    }

    fn size_hint(&self) -> SizeHint {
        match (self.end, self.framing) {
            // What does not end with a length must not look as if it did.
            (None, AnswerFraming::Length(_)) => self.incoming.size_hint(),
            (Some(_), _) | (None, AnswerFraming::Empty) => SizeHint::with_exact(0),
            (None, AnswerFraming::Chunked | AnswerFraming::Close) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerBody")
            .field("framing", &self.framing)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}
