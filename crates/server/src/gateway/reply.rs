//! What a caller gets: the provider's answer, or the governor's word.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use rategov_core::id::ActionId;
use rategov_core::time::Span;
use tokio::sync::mpsc;

use super::problem::Problem;

/// What the governor did for an answer.
#[derive(Clone, Debug)]
pub struct Context {
    /// The action.
    pub action: ActionId,
    /// Attempts made.
    pub attempts: u16,
    /// Time between the arrival of the call and its answer that it spent waiting.
    pub waited: Span,
    /// What it waited for last, or what the provider's failure means.
    pub reason: Option<&'static str>,
    /// The budget of its task that is used up, in words, if the call failed.
    pub task_spent: Option<String>,
    /// How the action ended, if it has.
    pub terminal: Option<&'static str>,
    /// What is safe to do next.
    pub next: Option<&'static str>,
    /// What the SDK is told about repeating, where that helps.
    pub should_retry: Option<bool>,
}

/// An answer on its way to a caller.
#[derive(Debug)]
pub enum Reply {
    /// The provider's own, unchanged.
    Upstream {
        /// Its status.
        status: StatusCode,
        /// Its headers, without those of the connection.
        headers: HeaderMap,
        /// How its header names are written, where the transport knows.
        extensions: http::Extensions,
        /// Its body.
        body: ReplyBody,
        /// What the governor did.
        context: Context,
    },
    /// The governor's.
    Governor {
        /// What it says.
        problem: Problem,
        /// What it did, if there is an action.
        context: Option<Context>,
    },
}

/// The body of a provider's answer.
#[derive(Debug)]
pub enum ReplyBody {
    /// All of it.
    Whole(Bytes),
    /// As it arrives; an `Err` breaks the framing off visibly.
    Streaming(mpsc::Receiver<Result<http_body::Frame<Bytes>, Broken>>),
}

/// The provider's side broke off: the caller's framing is broken off, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the provider's answer broke off")]
pub struct Broken;
