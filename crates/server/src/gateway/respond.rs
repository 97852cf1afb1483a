//! Answers as they leave for a caller: heads, bodies, and who notices a hang-up.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::{Body, Frame};
use rategov_core::id::ActionId;

use super::problem::{self, Problem};
use super::reply::{Broken, Context, Reply, ReplyBody};
use crate::driver::{Cell, Driver};

/// Tells the engine when a caller leaves before its answer.
pub struct Guard {
    driver: Driver,
    cell: Arc<Cell>,
    action: Option<ActionId>,
}

impl Guard {
    /// Watches over one action.
    pub(super) fn new(driver: Driver, cell: Arc<Cell>, action: ActionId) -> Guard {
        let action = Some(action);
        Guard {
            driver,
            cell,
            action,
        }
    }

    /// The caller has had its answer: leaving means nothing any more.
    pub(super) fn disarm(&mut self) {
        self.action = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(action) = self.action.take() {
            self.driver.caller_gone(&self.cell, action);
        }
    }
}

/// An answer on its way out.
pub enum Out {
    /// What came of an action.
    Reply(Box<Reply>, Guard),
    /// What came of an action that another call made.
    Joined(Box<Reply>),
    /// A problem before there was an action.
    Problem(Box<Problem>),
    /// JSON of the agents' own interface.
    Json(StatusCode, serde_json::Value),
}

impl Out {
    pub(super) fn into_response(self) -> Response<OutBody> {
        match self {
            Out::Reply(reply, guard) => respond(*reply, Some(guard)),
            Out::Joined(reply) => respond(*reply, None),
            Out::Problem(problem) => problem_response(&problem, None),
            Out::Json(status, value) => {
                let mut response = Response::new(OutBody::whole(Bytes::from(value.to_string())));
                *response.status_mut() = status;
                let headers = response.headers_mut();
                let json = HeaderValue::from_static("application/json");
                headers.insert(http::header::CONTENT_TYPE, json);
                headers.insert(problem::SOURCE, HeaderValue::from_static("governor"));
                response
            }
        }
    }
}

fn respond(reply: Reply, guard: Option<Guard>) -> Response<OutBody> {
    match reply {
        Reply::Governor { problem, context } => {
            if let Some(mut guard) = guard {
                guard.disarm();
            }
            problem_response(&problem, context.as_ref())
        }
        Reply::Upstream {
            status,
            headers,
            extensions,
            body,
            context,
        } => {
            let length = length_of(&headers);
            let body = match body {
                ReplyBody::Whole(bytes) => {
                    if let Some(mut guard) = guard {
                        guard.disarm();
                    }
                    match (status, length) {
                        (StatusCode::NOT_MODIFIED, Some(length)) => OutBody::Announced(length),
                        _ => OutBody::whole(bytes),
                    }
                }
                ReplyBody::Streaming(frames) => OutBody::Streaming {
                    frames,
                    guard,
                    left: length,
                    breaks: false,
                },
            };
            let mut response = Response::new(body);
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            *response.extensions_mut() = extensions;
            let headers = response.headers_mut();
            headers.insert(problem::SOURCE, HeaderValue::from_static("upstream"));
            add_context(headers, &context);
            response
        }
    }
}

fn length_of(headers: &HeaderMap) -> Option<u64> {
    let value = headers.get(http::header::CONTENT_LENGTH)?;
    value.to_str().ok()?.parse().ok()
}

fn problem_response(problem: &Problem, context: Option<&Context>) -> Response<OutBody> {
    let mut response = Response::new(OutBody::whole(problem.body()));
    *response.status_mut() = problem.status();
    *response.headers_mut() = problem.headers();
    if let Some(context) = context {
        add_context(response.headers_mut(), context);
    }
    if problem.status() == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Bearer realm=\"rategov\"");
        response
            .headers_mut()
            .insert(http::header::WWW_AUTHENTICATE, challenge);
    }
    response
}

fn add_context(headers: &mut HeaderMap, context: &Context) {
    let id = context.action.to_string();
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(problem::ACTION, value);
    }
    if let Ok(value) =
        HeaderValue::from_str(&format!("</governor/v1/actions/{id}>; rel=\"monitor\""))
    {
        headers.append(http::header::LINK, value);
    }
    headers.insert(problem::ATTEMPTS, HeaderValue::from(context.attempts));
    headers.insert(
        problem::WAITED_MS,
        HeaderValue::from(context.waited.as_millis()),
    );
    let words = [
        (problem::REASON, context.reason),
        (problem::TERMINAL, context.terminal),
        (problem::NEXT, context.next),
    ];
    for (name, word) in words {
        if let Some(word) = word {
            headers.insert(name, HeaderValue::from_static(word));
        }
    }
    if let Some(should) = context.should_retry {
        // Over the provider's own word, which knows nothing of what was repeated here.
        let word = HeaderValue::from_static(if should { "true" } else { "false" });
        if headers.contains_key(problem::STRIPE_SHOULD_RETRY) {
            headers.insert(problem::STRIPE_SHOULD_RETRY, word.clone());
        }
        headers.insert(problem::SHOULD_RETRY, word);
    }
}

/// A body on its way to a caller.
pub enum OutBody {
    /// All of it.
    Whole(Option<Bytes>),
    /// None, although its head says how long it would be: a `304` describes the answer
    /// that the caller has already. The listener writes that length and no body.
    Announced(u64),
    /// As it arrives.
    Streaming {
        /// The frames.
        frames: tokio::sync::mpsc::Receiver<Result<Frame<Bytes>, Broken>>,
        /// Dropped with the body: a caller that leaves is noticed at once.
        guard: Option<Guard>,
        /// Bytes still to come, where the head says how many: the listener takes
        /// the last of them and does not ask whether that was the end.
        left: Option<u64>,
        /// The body breaks off with the next frame.
        breaks: bool,
    },
}

impl OutBody {
    fn whole(bytes: Bytes) -> OutBody {
        OutBody::Whole((!bytes.is_empty()).then_some(bytes))
    }
}

impl Body for OutBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.get_mut() {
            OutBody::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            OutBody::Announced(_) => Poll::Ready(None),
            OutBody::Streaming {
                frames,
                guard,
                left,
                breaks,
            } => {
                if std::mem::take(breaks) {
                    return Poll::Ready(Some(Err(Broken)));
                }
                let next = std::task::ready!(frames.poll_recv(context));
                if let Some(Err(Broken)) = next {
                    // The listener drops what it has not written when a body breaks
                    // off, and writes it when it has to wait: the last words first.
                    *breaks = true;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                if let (Some(left), Some(Ok(frame))) = (left.as_mut(), &next)
                    && let Some(data) = frame.data_ref()
                {
                    *left = left.saturating_sub(data.len() as u64);
                }
                let is_over = next.is_none() || *left == Some(0);
                if is_over && let Some(guard) = guard {
                    guard.disarm();
                }
                Poll::Ready(next)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, OutBody::Whole(None))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            OutBody::Whole(bytes) => {
                http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            OutBody::Announced(length) => http_body::SizeHint::with_exact(*length),
            OutBody::Streaming { .. } => http_body::SizeHint::default(),
        }
    }
}
