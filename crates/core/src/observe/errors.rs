//! What an error means, decided by a table of rules and then by the status.
//!
//! The same status says "wait two seconds" and "wait until next month"; the
//! code in the body tells them apart far more often than the status does. So an
//! [`ErrorRule`] names any of status, code (or type) and a piece of the message,
//! and of what else the answer says: a further code, a limit that is used up or
//! grants nothing, a long wait, a refused member of a batch. All that a rule
//! asks for must hold; of a list of rules the first that matches decides. A
//! provider's own rules stand before the generic ones. Where no rule matches,
//! the status decides:
//!
//! | status | kind |
//! |---|---|
//! | below 400 | ok |
//! | 401, 402, 403 | credential, billing, permission |
//! | 408, 504 | outcome unknown: a time-out, a repeat may help |
//! | 413 | too large |
//! | 421, 425, other 5xx, nonsense | provider error: a repeat may help |
//! | 423 | lock conflict |
//! | 429 | rate limited |
//! | 503, 529 | overloaded |
//! | other 4xx | caller error: a repeat never helps |
//!
//! An error under a success status (a stream whose first event is an error, a
//! router that commits 200 too early) is judged by the status that the body
//! names, and by the rules; otherwise it is a caller error, so that an
//! application's own error object is passed on and never repeated.

use std::fmt;

pub use super::rule::ErrorRule;
use super::told::Told;
use super::{Advice, Kind, Meaning, Reach, Reading};
use crate::time::Span;

/// Longest message that is searched, in bytes; the rest is not looked at.
const MESSAGE_BYTES_MAX: usize = 4096;

/// What the caller found in an error body. Built outside: the core reads no JSON.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct ErrorBody<'a> {
    /// The most specific code: `rate_limit_exceeded`, `API_KEY_INVALID`.
    pub code: Option<&'a str>,
    /// The wider type: `insufficient_quota`, `overloaded_error`.
    pub kind: Option<&'a str>,
    /// The provider's sentence.
    pub message: Option<&'a str>,
    /// A wait in a field of its own.
    pub retry_after: Option<Span>,
    /// A status in the body, where the answer's own status is another.
    pub status: Option<u16>,
}

/// Without the sentence: providers echo credentials in it.
impl fmt::Debug for ErrorBody<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErrorBody")
            .field("code", &self.code)
            .field("kind", &self.kind)
            .field("message_bytes", &self.message.map(str::len))
            .field("retry_after", &self.retry_after)
            .field("status", &self.status)
            .finish()
    }
}

/// An error that is being judged, with everything that rules can ask for.
pub(crate) struct Case<'a> {
    /// The status that rules ask for.
    pub(crate) status: u16,
    pub(crate) body: ErrorBody<'a>,
    /// The message in lower case, bounded.
    pub(crate) message: String,
    pub(crate) told: &'a Told,
    pub(crate) readings: &'a [Reading],
    pub(crate) asides: &'a [Reading],
    /// The wait that the answer names.
    pub(crate) wait: Option<Span>,
}

/// What the table says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict<'r> {
    pub(crate) kind: Kind,
    pub(crate) reach: Option<Reach>,
    /// The rule names the limit that is used up, so it knows best whose it is.
    pub(crate) names_the_limit: bool,
    pub(crate) whose: Option<&'r str>,
    pub(crate) wait: Option<Span>,
    pub(crate) advice: Option<Advice>,
}

impl<'a> Case<'a> {
    /// The error in an answer, if there is one: a status from 400, or an error body.
    pub(crate) fn of(
        status: u16,
        body: Option<&ErrorBody<'a>>,
        told: &'a Told,
    ) -> Option<Case<'a>> {
        if status < 400 && body.is_none() {
            return None;
        }
        let mut body = body.copied().unwrap_or_default();
        body.code = told.code.as_deref().or(body.code);
        body.kind = told.kind.as_deref().or(body.kind);
        body.message = told.message.as_deref().or(body.message);
        body.status = told.status.or(body.status);
        Some(Case::new(status, body, told))
    }

    /// An answer that is no error as a whole, judged for the sake of its members.
    pub(crate) fn of_members(status: u16, told: &'a Told) -> Option<Case<'a>> {
        let is_batch = status < 400 && !told.parts.is_empty();
        is_batch.then(|| Case::new(status, ErrorBody::default(), told))
    }

    fn new(status: u16, body: ErrorBody<'a>, told: &'a Told) -> Case<'a> {
        let of_body = body.status.filter(|_| status < 400);
        Case {
            status: of_body.unwrap_or(status),
            message: clip(body.message.unwrap_or(""), MESSAGE_BYTES_MAX).to_ascii_lowercase(),
            body,
            told,
            readings: &[],
            asides: &[],
            wait: None,
        }
    }
}

/// The first rule that matches. Cost: O(rules × message).
pub(crate) fn judge<'r>(case: &Case<'_>, rules: &'r [ErrorRule]) -> Option<Verdict<'r>> {
    let rule = rules.iter().find(|rule| rule.matches(case))?;
    Some(Verdict {
        kind: rule.kind,
        reach: rule.reach,
        names_the_limit: rule.exhausted.is_some(),
        whose: rule.whose.as_deref(),
        wait: rule.wait,
        advice: rule.advice,
    })
}

/// What is said by no rule but by the status alone.
pub(crate) const fn by_status(status: u16) -> Verdict<'static> {
    Verdict {
        kind: Kind::of_status(status),
        reach: None,
        names_the_limit: false,
        whose: None,
        wait: None,
        advice: None,
    }
}

/// Whose limit it is where neither a reading nor a rule says so.
pub(crate) const fn usual_reach(meaning: Meaning) -> Reach {
    match meaning {
        // Another endpoint may have capacity (R-CLASS-1).
        Meaning::Overloaded => Reach::Endpoint,
        // Another key may be good.
        Meaning::Credential => Reach::Credential,
        _ => Reach::Account,
    }
}

/// The first bytes of a text, at most `max`, cut between characters.
pub(crate) fn clip(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::tables::{anthropic_rules, generic_rules, openai_rules};

    fn body<'a>(code: &'a str, kind: &'a str, message: &'a str) -> ErrorBody<'a> {
        let given = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        ErrorBody {
            code: given(code),
            kind: given(kind),
            message: given(message),
            ..ErrorBody::default()
        }
    }

    fn meaning(status: u16, body: Option<&ErrorBody<'_>>, rules: &[ErrorRule]) -> Meaning {
        let told = Told::default();
        Case::of(status, body, &told).map_or(Meaning::Ok, |case| {
            let verdict = judge(&case, rules).unwrap_or_else(|| by_status(case.status));
            verdict.kind.meaning(case.status)
        })
    }

    #[track_caller]
    fn check(status: u16, (code, kind, message): (&str, &str, &str), expected: Meaning) {
        let body = body(code, kind, message);
        let got = meaning(status, Some(&body), &generic_rules());
        assert_eq!(got, expected, "{status} {code:?} {kind:?} {message:?}");
    }

    #[test]
    fn without_a_body_the_status_decides() {
        use Meaning::*;
        for (statuses, expected) in [
            (&[200, 201, 204, 304, 100][..], Ok),
            (&[401], Credential),
            (&[402], Billing),
            (&[413], TooLarge),
            (&[429], RateLimited),
            (&[503, 529], Overloaded),
            (&[408, 421, 425, 500, 502, 504, 599, 999], ProviderError),
            (&[400, 403, 404, 405, 409, 422, 451, 498], CallerError),
        ] {
            for status in statuses {
                assert_eq!(
                    meaning(*status, None, &generic_rules()),
                    expected,
                    "{status}"
                );
            }
        }
    }

    #[test]
    fn a_code_or_a_sentence_tells_more_than_the_status() {
        use Meaning::*;
        check(
            429,
            ("insufficient_quota", "insufficient_quota", "quota exceeded"),
            QuotaExhausted,
        );
        check(
            429,
            (
                "insufficient_quota",
                "",
                "check your plan and billing details",
            ),
            Billing,
        );
        check(400, ("API_KEY_INVALID", "", "API key expired"), Credential);
        check(
            400,
            ("", "", "API key expired. Please renew it."),
            Credential,
        );
        check(
            400,
            (
                "",
                "invalid_request_error",
                "Your credit balance is too low",
            ),
            Billing,
        );
        check(
            400,
            ("", "invalid_request_error", "max_tokens: field required"),
            CallerError,
        );
        check(
            429,
            ("", "", "Too many tokens, please wait before trying again."),
            RateLimited,
        );
        check(
            429,
            (
                "rate_limit_exceeded",
                "tokens",
                "Request too large: Limit 6000, Requested 6294",
            ),
            TooLarge,
        );
        check(
            429,
            ("concurrent_request_limit_exceeded", "", ""),
            TooManyConcurrent,
        );
        check(
            403,
            ("", "", "You have exceeded a secondary rate limit"),
            RateLimited,
        );
        check(
            403,
            ("", "", "API rate limit exceeded for user"),
            RateLimited,
        );
        check(
            403,
            ("insufficientPermissions", "", "Insufficient Permission"),
            CallerError,
        );
        check(409, ("idempotency_key_in_use", "", ""), KeyInProgress);
        check(409, ("resource_exists", "", ""), CallerError);
        check(400, ("", "idempotency_error", ""), KeyMismatch);
        check(529, ("", "overloaded_error", "Overloaded"), Overloaded);
        check(
            429,
            ("", "", "Usage limit reached for 5 hour."),
            QuotaExhausted,
        );
        check(429, ("", "", "Subscription quota exceeded"), QuotaExhausted);
        check(404, ("", "not_found_error", "model: m-old"), CallerError);
        check(400, ("context_length_exceeded", "", ""), CallerError);
    }

    #[test]
    fn an_error_under_a_success_status_is_judged_by_what_it_names() {
        use Meaning::*;
        check(200, ("", "overloaded_error", "Overloaded"), Overloaded);
        check(200, ("THROTTLED", "", "Throttled"), RateLimited);
        check(200, ("throttled", "", "whatever the case"), RateLimited);
        check(
            200,
            ("", "api_error", "Internal server error"),
            ProviderError,
        );
        check(200, ("FIELD_MISSING", "", "no such field"), CallerError);
        let named = |status| ErrorBody {
            status: Some(status),
            ..ErrorBody::default()
        };
        for (status, expected) in [
            (429, RateLimited),
            (402, Billing),
            (502, ProviderError),
            (404, CallerError),
        ] {
            assert_eq!(
                meaning(200, Some(&named(status)), &generic_rules()),
                expected
            );
        }
        // The answer's own status is the word of the provider where it is an error.
        assert_eq!(meaning(400, Some(&named(429)), &[]), CallerError);
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let reach = |rules: &[ErrorRule]| {
            let body = body("rate_limit_exceeded", "tokens", "Limit reached for gpt-4o");
            let told = Told::default();
            let case = Case::of(429, Some(&body), &told).unwrap();
            judge(&case, rules).unwrap().reach
        };
        let own_first = [openai_rules(), generic_rules()].concat();
        assert_eq!(reach(&own_first), Some(Reach::Model));
        assert_eq!(reach(&generic_rules()), None);
    }

    #[test]
    fn a_rule_that_asks_for_nothing_matches_nothing() {
        let empty = ErrorRule::of(Kind::Billing);
        assert_eq!(
            meaning(500, None, std::slice::from_ref(&empty)),
            Meaning::ProviderError
        );
        let blank = ErrorRule {
            message: Some(String::new()),
            ..empty
        };
        let body = body("", "", "anything");
        assert_eq!(meaning(500, Some(&body), &[blank]), Meaning::ProviderError);
    }

    #[test]
    fn anthropics_budget_stops_are_told_from_its_rates() {
        let rules = [anthropic_rules(), generic_rules()].concat();
        let stop = body("enforced_spend_limit_reached", "rate_limit_error", "");
        assert_eq!(meaning(429, Some(&stop), &rules), Meaning::Billing);
        let rate = body(
            "",
            "rate_limit_error",
            "Input tokens per minute limit exceeded.",
        );
        assert_eq!(meaning(429, Some(&rate), &rules), Meaning::RateLimited);
    }

    #[test]
    fn a_printed_error_body_holds_no_sentence() {
        let text = format!("{:?}", body("invalid_api_key", "", "bad key sk-canary-123"));
        assert!(
            text.contains("invalid_api_key") && !text.contains("canary"),
            "{text}"
        );
    }
}
