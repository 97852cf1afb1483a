//! What a provider's answer says about its limits, in one form.
//!
//! Every dialect ends as [`Facts`]. Parsers are strict about grammar and
//! forgiving about presence: a value that does not match its grammar is
//! ignored and named in [`Facts::malformed`], never guessed at, and never a
//! panic. One grammar, one file.

use crate::time::{Span, WallTime};

/// What an answer means, before policy is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Nothing about limits or failure.
    Ok,
    /// A rate limit; waiting helps. Also statuses that a preset maps to 429.
    RateLimited,
    /// Too many calls open at once; a free slot helps.
    TooManyConcurrent,
    /// A long-window or paid-for quota is gone: wait for the named reset or ask a person.
    QuotaExhausted,
    /// Out of money: no wait helps, a person does.
    Billing,
    /// The provider has no capacity; not a quota event.
    Overloaded,
    /// The credential is wrong, expired or blocked.
    Credential,
    /// The call can never fit the limit, however long it waits.
    TooLarge,
    /// The same idempotency key is being processed.
    KeyInProgress,
    /// The same idempotency key came with another payload.
    KeyMismatch,
    /// Any other error of the caller (4xx).
    CallerError,
    /// Any other error of the provider (5xx).
    ProviderError,
}

/// Which limit a reading or refusal concerns, as far as the provider says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// The whole account. Also what silence means.
    Account,
    /// The model named by the request.
    Model,
    /// The endpoint that was called.
    Endpoint,
    /// The credential.
    Credential,
}

/// One limit as a response describes it. Unknown is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What it counts: `requests`, `tokens`, `input_tokens`, …
    pub dimension: String,
    /// Whose limit it is.
    pub reach: Reach,
    /// Units per window.
    pub limit: Option<u64>,
    /// Units left when the provider answered.
    pub remaining: Option<u64>,
    /// Until more (or all) of the quota is back, from when the provider answered.
    pub reset_after: Option<Span>,
    /// Length of the window, where the provider states it.
    pub window: Option<Span>,
    /// In words: `RateLimit header`, `x-ratelimit-remaining-requests`, …
    pub source: &'static str,
}

/// Everything that one answer said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The status of the answer.
    pub status: u16,
    /// What it means.
    pub meaning: Meaning,
    /// How long to wait before the next call, if the provider said so. Zero and
    /// past hints are `Some(Span::ZERO)`; absent or malformed ones are `None`.
    pub retry_after: Option<Span>,
    /// In words where `retry_after` came from: `HTTP 429 Retry-After`.
    pub retry_source: Option<&'static str>,
    /// Whose limit refused, if the answer refuses.
    pub reach: Reach,
    /// The limits it described, most exact form first.
    pub readings: Vec<Reading>,
    /// The provider's own error code, lower case, at most 100 bytes.
    pub error_code: Option<String>,
    /// The provider's own sentence about the error, at most 300 bytes, control characters replaced.
    pub error_message: Option<String>,
    /// The provider's identifier of the request or the created thing, if the caller extracted one.
    pub operation_id: Option<String>,
    /// Names of header fields whose value did not match their grammar.
    pub malformed: Vec<String>,
}

impl Facts {
    /// An answer that says nothing but its status.
    pub fn bare(status: u16, meaning: Meaning) -> Facts {
        Facts {
            status,
            meaning,
            retry_after: None,
            retry_source: None,
            reach: Reach::Account,
            readings: Vec::new(),
            error_code: None,
            error_message: None,
            operation_id: None,
            malformed: Vec::new(),
        }
    }
}

/// The moment against which dates in an answer are read: the answer's own
/// `Date` where it has one, else the wall clock at its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnsweredAt(pub WallTime);
