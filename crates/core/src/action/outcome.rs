//! What an attempt proved about its effect.

use crate::observe::Facts;

/// Why certainly no byte of the request left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NotSent {
    /// The name did not resolve.
    Dns,
    /// No connection: refused, unreachable, timed out.
    Connect,
    /// The TLS handshake failed for a passing reason.
    Tls,
    /// The certificate was not accepted: configuration, not weather.
    Certificate,
    /// The connection ended before a byte of this request was written, or the
    /// HTTP library gave the request back unserialised.
    ConnectionClosed,
    /// The caller left, or the action was cancelled, before anything was written.
    Withdrawn,
}

/// Why nobody knows whether the request had its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lost {
    /// The connection was reset or closed after a byte was written and before a full head.
    Closed,
    /// No answer in time.
    TimedOut,
    /// The upload of the request was cut.
    UploadCut,
    /// The answer was not HTTP.
    Malformed,
    /// The caller left while the attempt was open.
    CallerGone,
    /// The governor itself stopped while the attempt was open.
    OwnCrash,
    /// The permit's holder never reported.
    Unreported,
}

/// What was seen of one attempt. Built by the transport, judged here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Certainly not sent.
    NotSent(NotSent),
    /// Bytes left and the peer promised that it did nothing with them
    /// (HTTP/2 REFUSED_STREAM, GOAWAY below the stream, 421, 425).
    NotProcessed,
    /// A head arrived, and as much of the body as `body` says.
    Answered {
        /// What the answer says.
        facts: Facts,
        /// What came of its body.
        body: Body,
    },
    /// Bytes left, no complete head came back.
    Lost(Lost),
}

/// What came of an answer's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Body {
    /// All of it, with a proper end mark.
    Complete,
    /// It streams on (reads and generations are judged at their head).
    Open,
    /// Cut, or delimited only by the close of the connection and without its own end mark.
    Cut,
}

/// How sure the governor is about the effect of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// No byte left.
    NotSent,
    /// The peer promises that it did nothing.
    NotProcessed,
    /// The provider's own complete answer.
    Definite,
    /// A success status, but the body is lost: it happened, the result is missing.
    CommittedBodyLost,
    /// Everything else.
    Unknown,
}

impl Certainty {
    /// The word used in records and in API answers.
    pub const fn word(self) -> &'static str {
        match self {
            Certainty::NotSent => "not_sent",
            Certainty::NotProcessed => "not_processed",
            Certainty::Definite => "definite",
            Certainty::CommittedBodyLost => "committed_body_lost",
            Certainty::Unknown => "unknown",
        }
    }
}
