//! What an error means, decided by a table of rules and then by the status.
//!
//! The same status says "wait two seconds" and "wait until next month"; the
//! code in the body tells them apart far more often than the status does. So an
//! [`ErrorRule`] names any of status, code (or type) and a piece of the message;
//! of a list of rules the first that matches decides. A provider's own rules
//! stand before the generic ones. Where no rule matches, the status decides:
//!
//! | status | meaning |
//! |---|---|
//! | below 400 | ok |
//! | 401 | credential |
//! | 402 | billing |
//! | 413 | too large |
//! | 429 | rate limited |
//! | 503, 529 | overloaded |
//! | 408, 421, 425, other 5xx, nonsense | provider error: a repeat may help |
//! | other 4xx | caller error: a repeat never helps |
//!
//! An error under a success status (a stream whose first event is an error, a
//! router that commits 200 too early) is judged by the status that the body
//! names, and by the rules; otherwise it is a caller error, so that an
//! application's own error object is passed on and never repeated.

use std::fmt;

use super::{Meaning, Reach};
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

/// One row of an error table. What is `None` is not asked for; a rule that asks
/// for nothing matches nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorRule {
    /// The status of the answer, or under a success status that of the body.
    pub status: Option<u16>,
    /// The code or the type, whatever its case.
    pub code: Option<String>,
    /// A piece of the message, whatever its case.
    pub message: Option<String>,
    /// What it means.
    pub meaning: Meaning,
    /// Whose limit it is; `None` leaves it to the readings and the meaning.
    pub reach: Option<Reach>,
    /// How long to wait where the answer does not say and the documentation does.
    pub wait: Option<Span>,
}

impl ErrorRule {
    /// Whether the rule asks for anything.
    pub fn asks(&self) -> bool {
        self.status.is_some() || self.code.is_some() || self.message.is_some()
    }

    fn matches(&self, error: &Error<'_>) -> bool {
        let status = self.status.is_none_or(|status| status == error.status);
        let code = self.code.as_deref().is_none_or(|code| {
            [error.body.code, error.body.kind]
                .into_iter()
                .flatten()
                .any(|known| known.eq_ignore_ascii_case(code))
        });
        let message = self
            .message
            .as_deref()
            .is_none_or(|piece| contains(&error.message, piece));
        self.asks() && status && code && message
    }
}

/// An error that is being judged.
pub(crate) struct Error<'a> {
    /// The status that rules ask for.
    status: u16,
    body: ErrorBody<'a>,
    /// The message in lower case, bounded.
    pub(crate) message: String,
}

/// What the table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) meaning: Meaning,
    pub(crate) reach: Option<Reach>,
    pub(crate) wait: Option<Span>,
}

/// The error in an answer, if there is one: a status from 400, or an error body.
pub(crate) fn error<'a>(status: u16, body: Option<&ErrorBody<'a>>) -> Option<Error<'a>> {
    if status < 400 && body.is_none() {
        return None;
    }
    let body = body.copied().unwrap_or_default();
    let status = if status < 400 {
        body.status.unwrap_or(status)
    } else {
        status
    };
    let message = clip(body.message.unwrap_or(""), MESSAGE_BYTES_MAX).to_ascii_lowercase();
    Some(Error {
        status,
        body,
        message,
    })
}

/// The first rule that matches, else the table of statuses. Cost: O(rules × message).
pub(crate) fn judge(error: &Error<'_>, rules: &[ErrorRule]) -> Verdict {
    match rules.iter().find(|rule| rule.matches(error)) {
        Some(rule) => Verdict {
            meaning: rule.meaning,
            reach: rule.reach,
            wait: rule.wait,
        },
        None => Verdict {
            meaning: by_status(error.status),
            reach: None,
            wait: None,
        },
    }
}

/// What a status alone means, given that the answer is an error.
const fn by_status(status: u16) -> Meaning {
    match status {
        401 => Meaning::Credential,
        402 => Meaning::Billing,
        408 | 421 | 425 => Meaning::ProviderError,
        413 => Meaning::TooLarge,
        429 => Meaning::RateLimited,
        503 | 529 => Meaning::Overloaded,
        // Below 400 only with an error body that no rule knows.
        0..=499 => Meaning::CallerError,
        500.. => Meaning::ProviderError,
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

/// Whether a text in lower case holds a piece in any case, without a copy.
fn contains(lower: &str, piece: &str) -> bool {
    let piece = piece.as_bytes();
    !piece.is_empty()
        && lower
            .as_bytes()
            .windows(piece.len())
            .any(|part| part.eq_ignore_ascii_case(piece))
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
        error(status, body).map_or(Meaning::Ok, |error| judge(&error, rules).meaning)
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
        let verdict = |rules: &[ErrorRule]| {
            let body = body("rate_limit_exceeded", "tokens", "Limit reached for gpt-4o");
            judge(&error(429, Some(&body)).unwrap(), rules)
        };
        let own_first = [openai_rules(), generic_rules()].concat();
        assert_eq!(verdict(&own_first).reach, Some(Reach::Model));
        assert_eq!(verdict(&generic_rules()).reach, None);
    }

    #[test]
    fn a_rule_that_asks_for_nothing_matches_nothing() {
        let empty = ErrorRule {
            status: None,
            code: None,
            message: None,
            meaning: Meaning::Billing,
            reach: None,
            wait: None,
        };
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
