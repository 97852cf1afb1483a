//! One place that turns what the governor has to say into an answer.
//!
//! Everything that the governor says itself is `application/problem+json`
//! (RFC 9457): `type` is the address of the document of its code, `code` the
//! stable word, `detail` a sentence that an agent can follow, and beside them
//! the facts of the action. Codes about actions are the core's
//! ([`rategov_core::action::problem`]); codes about requests that never became
//! one are here, in the same form.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use rategov_core::action::next_step::after_problem;
use rategov_core::action::problem::{Code, ShouldRetry};
use serde_json::{Map, Value, json};

/// Where the documents of the codes are published; `GET` on the governor serves them too.
pub const DOCUMENT_BASE: &str = "/governor/v1/errors/";

/// `x-should-retry`, which the SDKs of OpenAI and Anthropic obey.
pub const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// The same for Stripe's SDKs, which repeat 409 and 5xx and hear no wait at all: they
/// are only ever told not to.
pub(super) const STRIPE_SHOULD_RETRY: HeaderName = HeaderName::from_static("stripe-should-retry");
/// The longest wait in seconds that SDKs of this family hear. A longer `Retry-After`
/// most of their versions pass over, and come back within 8 s all the same.
const HEARD_SECONDS_MAX: u64 = 60;
/// Who speaks: `upstream` or `governor`.
pub const SOURCE: HeaderName = HeaderName::from_static("rategov-source");
/// What is safe to do next.
pub const NEXT: HeaderName = HeaderName::from_static("rategov-next");
/// How the action ended.
pub const TERMINAL: HeaderName = HeaderName::from_static("rategov-terminal");
/// The action's id.
pub const ACTION: HeaderName = HeaderName::from_static("rategov-action");
/// Attempts made.
pub const ATTEMPTS: HeaderName = HeaderName::from_static("rategov-attempts");
/// Time waited in all, in milliseconds.
pub const WAITED_MS: HeaderName = HeaderName::from_static("rategov-waited-ms");
/// What it waited for, or what the provider's failure means.
pub const REASON: HeaderName = HeaderName::from_static("rategov-reason");

/// A request that never became an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestCode {
    /// No such provider.
    UnknownProvider,
    /// The path can't be passed on.
    BadTarget,
    /// A header can't be passed on or does not mean anything.
    BadHeader,
    /// Two framings, or none that is valid.
    BadFraming,
    /// The caller is not known.
    Unauthenticated,
    /// The caller may not use this.
    Forbidden,
    /// The bodies that are kept take all the room there is.
    SpoolFull,
    /// The body broke off.
    BodyCut,
    /// A class that would allow more than the route's.
    ClassLoosened,
    /// Nothing is here.
    NotFound,
    /// The method is not offered here.
    MethodNotAllowed,
    /// The protocol can't be upgraded.
    UpgradeRefused,
    /// The request's content is not valid.
    InvalidRequest,
    /// Two things can't both be true.
    Conflict,
    /// `Host` or `Origin` is not the governor's own.
    WrongHost,
    /// The credential of the provider is missing.
    CredentialMissing,
    /// The head is larger than what is passed on.
    HeadTooLarge,
    /// As many accounts are in hand as there may be.
    TooManyAccounts,
    /// A defect.
    Internal,
    /// What is recorded can't be read now.
    StoreUnavailable,
}

/// One row of the table: document, word, status, title.
type Row = (&'static str, &'static str, u16, &'static str);

impl RequestCode {
    /// Every code, in the order of their documents.
    pub const ALL: &'static [RequestCode] = &[
        RequestCode::UnknownProvider,
        RequestCode::BadTarget,
        RequestCode::BadHeader,
        RequestCode::BadFraming,
        RequestCode::Unauthenticated,
        RequestCode::Forbidden,
        RequestCode::SpoolFull,
        RequestCode::BodyCut,
        RequestCode::ClassLoosened,
        RequestCode::NotFound,
        RequestCode::MethodNotAllowed,
        RequestCode::UpgradeRefused,
        RequestCode::InvalidRequest,
        RequestCode::Conflict,
        RequestCode::WrongHost,
        RequestCode::CredentialMissing,
        RequestCode::Internal,
        RequestCode::HeadTooLarge,
        RequestCode::TooManyAccounts,
        RequestCode::StoreUnavailable,
    ];

    /// Whether the same call may succeed in a second.
    pub const fn passes(self) -> bool {
        matches!(self, RequestCode::SpoolFull | RequestCode::StoreUnavailable)
    }

    /// The row of the table.
    pub const fn row(self) -> Row {
        match self {
            RequestCode::UnknownProvider => ("RG3001", "unknown_provider", 404, "no such provider"),
            RequestCode::BadTarget => ("RG3002", "bad_target", 400, "the path can't be passed on"),
            RequestCode::BadHeader => ("RG3003", "bad_header", 400, "a header is not valid"),
            RequestCode::BadFraming => (
                "RG3004",
                "bad_framing",
                400,
                "the body's length is ambiguous",
            ),
            RequestCode::Unauthenticated => {
                ("RG3005", "unauthenticated", 401, "the caller is not known")
            }
            RequestCode::Forbidden => ("RG3006", "forbidden", 403, "the caller may not do this"),
            RequestCode::SpoolFull => ("RG3007", "spool_full", 503, "no room to keep the body"),
            RequestCode::BodyCut => ("RG3008", "body_cut", 400, "the request's body broke off"),
            RequestCode::ClassLoosened => (
                "RG3009",
                "class_loosened",
                400,
                "agents tighten, never loosen",
            ),
            RequestCode::NotFound => ("RG3010", "not_found", 404, "nothing is here"),
            RequestCode::MethodNotAllowed => (
                "RG3011",
                "method_not_allowed",
                405,
                "the method is not offered here",
            ),
            RequestCode::UpgradeRefused => (
                "RG3012",
                "upgrade_refused",
                426,
                "the connection can't be upgraded",
            ),
            RequestCode::InvalidRequest => {
                ("RG3013", "invalid_request", 400, "the request is not valid")
            }
            RequestCode::Conflict => ("RG3014", "conflict", 409, "it is no longer possible"),
            RequestCode::WrongHost => ("RG3015", "wrong_host", 403, "not the governor's own host"),
            RequestCode::CredentialMissing => (
                "RG3016",
                "credential_missing",
                424,
                "the provider's credential is missing",
            ),
            RequestCode::Internal => ("RG3017", "internal", 500, "a defect of the governor"),
            RequestCode::StoreUnavailable => (
                "RG3020",
                "store_unavailable",
                503,
                "what is recorded can't be read now",
            ),
            RequestCode::HeadTooLarge => (
                "RG3018",
                "head_too_large",
                431,
                "the request's head is too large",
            ),
            RequestCode::TooManyAccounts => (
                "RG3019",
                "too_many_accounts",
                503,
                "no room for another account",
            ),
        }
    }
}

/// Something that the governor says.
#[derive(Clone, Debug)]
pub struct Problem {
    id: &'static str,
    word: &'static str,
    status: u16,
    title: &'static str,
    detail: String,
    should_retry: Option<bool>,
    retry_after_seconds: Option<u64>,
    facts: Map<String, Value>,
    next: Option<&'static str>,
}

impl Problem {
    /// What is said about an action.
    pub fn of_action(code: Code) -> Problem {
        let row = code.problem();
        Problem {
            id: row.id,
            word: row.word,
            status: row.status,
            title: row.title,
            detail: row.detail.to_owned(),
            should_retry: Some(row.should_retry == ShouldRetry::Later),
            retry_after_seconds: None,
            facts: Map::new(),
            next: Some(after_problem(code).word()),
        }
    }

    /// What is said about a request that never became an action. `detail` holds
    /// no value that the caller sent.
    pub fn of_request(code: RequestCode, detail: impl Into<String>) -> Problem {
        let (id, word, status, title) = code.row();
        let passes = code.passes();
        Problem {
            id,
            word,
            status,
            title,
            detail: detail.into(),
            should_retry: Some(passes),
            retry_after_seconds: passes.then_some(1),
            facts: Map::new(),
            next: None,
        }
    }

    /// Adds a fact beside `code`.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Problem {
        self.facts.insert(name.to_owned(), value.into());
        self
    }

    /// Adds the cause to the detail.
    #[must_use]
    pub fn because(mut self, why: &str) -> Problem {
        if !why.is_empty() && why != self.detail {
            self.detail = format!("{why}. {}", self.detail);
        }
        self
    }

    /// Says when to come back.
    #[must_use]
    pub fn retry_after(mut self, seconds: Option<u64>) -> Problem {
        self.retry_after_seconds = seconds.or(self.retry_after_seconds);
        self
    }

    /// Says what is safe to do next, where more is known than the code.
    #[must_use]
    pub fn next(mut self, word: &'static str) -> Problem {
        self.next = Some(word);
        self
    }

    /// The stable word.
    pub fn word(&self) -> &'static str {
        self.word
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The body.
    pub fn body(&self) -> Bytes {
        let mut body = Map::new();
        body.insert(
            "type".to_owned(),
            json!(format!("{DOCUMENT_BASE}{}", self.id)),
        );
        body.insert("title".to_owned(), json!(self.title));
        body.insert("status".to_owned(), json!(self.status));
        body.insert("code".to_owned(), json!(self.word));
        body.insert("detail".to_owned(), json!(self.detail));
        if let Some(seconds) = self.retry_after_seconds {
            body.insert("retry_after_seconds".to_owned(), json!(seconds));
        }
        if let Some(next) = self.next {
            body.insert("next".to_owned(), json!(next));
        }
        body.extend(self.facts.clone());
        Bytes::from(Value::Object(body).to_string())
    }

    /// The headers that belong to it.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        headers.insert(SOURCE, HeaderValue::from_static("governor"));
        if let Some(should) = self.should_retry {
            // Told to come back, they would do so long before the time.
            let is_heard = self
                .retry_after_seconds
                .is_none_or(|wait| wait <= HEARD_SECONDS_MAX);
            let should = should && is_heard;
            let word = if should { "true" } else { "false" };
            headers.insert(SHOULD_RETRY, HeaderValue::from_static(word));
            if !should {
                headers.insert(STRIPE_SHOULD_RETRY, HeaderValue::from_static(word));
            }
        }
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(next) = self.next {
            headers.insert(NEXT, HeaderValue::from_static(next));
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn documents_and_words_are_unique_over_both_tables() {
        let mut ids = BTreeSet::new();
        let mut words = BTreeSet::new();
        for code in RequestCode::ALL {
            let (id, word, status, _) = code.row();
            assert!(ids.insert(id) && words.insert(word), "{id} {word}");
            assert!(StatusCode::from_u16(status).is_ok());
        }
        for code in Code::ALL {
            let row = code.problem();
            assert!(ids.insert(row.id) && words.insert(row.word), "{}", row.id);
        }
    }

    #[test]
    fn a_problem_says_what_to_do_in_body_and_headers() {
        let problem = Problem::of_action(Code::HoldExceeded)
            .because("it could start in 30 s at the earliest")
            .retry_after(Some(30))
            .with("scope", "account:ops");
        let body: Value = serde_json::from_slice(&problem.body()).unwrap();
        assert_eq!(body["code"], "hold_exceeded");
        assert_eq!(body["retry_after_seconds"], 30);
        assert_eq!(body["scope"], "account:ops");
        assert!(
            body["detail"]
                .as_str()
                .unwrap()
                .starts_with("it could start in 30 s")
        );
        let headers = problem.headers();
        assert_eq!(headers[header::RETRY_AFTER], "30");
        assert_eq!(headers[SHOULD_RETRY], "true");
        assert_eq!(headers[SOURCE], "governor");
    }

    #[test]
    fn nobody_is_told_to_repeat_who_would_not_hear_the_wait() {
        for (seconds, word) in [(60, "true"), (61, "false"), (86_400, "false")] {
            let problem = Problem::of_action(Code::HoldExceeded).retry_after(Some(seconds));
            let headers = problem.headers();
            assert_eq!(headers[SHOULD_RETRY], word, "{seconds}");
            assert_eq!(headers[header::RETRY_AFTER], seconds.to_string().as_str());
        }
    }
}
