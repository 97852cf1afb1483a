//! The one entry: a head and, for errors, what its body said, become [`Facts`].
//!
//! Readings of a cached answer (`Age` above zero) describe the past and are
//! left out, as the IETF drafts ask.

use super::dialect::Dialect;
use super::errors::{self, ErrorBody, ErrorRule};
use super::wait::{self, Said};
use super::{
    AnsweredAt, Facts, Malformed, Meaning, Reading, prose, quantity, readings, text, values,
};
use crate::time::WallTime;

/// Longest [`Facts::error_code`], in bytes.
pub const CODE_BYTES_MAX: usize = 100;
/// Longest [`Facts::error_message`], in bytes.
pub const MESSAGE_BYTES_MAX: usize = 300;

/// Reads one answer.
///
/// `headers` are the fields in the order of the answer, names in any case.
/// `body` is what was found in an error body or error event; `None` for an
/// answer that is no error as far as its body says. `rules` are the provider's
/// own, then the generic ones. `answered_at` is the wall clock when the head
/// arrived; it is used only where the answer has no `Date`.
///
/// Never panics, whatever the bytes; everything in the result is bounded. Cost:
/// O(fields × log rules of the dialect), for errors plus O(rules × message).
pub fn read(
    status: u16,
    headers: &[(&str, &[u8])],
    body: Option<&ErrorBody<'_>>,
    dialect: &Dialect,
    rules: &[ErrorRule],
    answered_at: WallTime,
) -> Facts {
    let at = AnsweredAt::of(headers, answered_at);
    let mut malformed = Malformed::default();
    let header = wait::from_headers(status, headers, dialect, at, &mut malformed);
    let readings = match is_cached(headers) {
        true => Vec::new(),
        false => readings::read(headers, dialect, at, &mut malformed),
    };
    let mut facts = Facts {
        readings,
        ..Facts::bare(status, Meaning::Ok)
    };
    let mut wait = header;
    if let Some(error) = errors::error(status, body) {
        let verdict = errors::judge(&error, rules);
        facts.meaning = explained(status, verdict.meaning, facts.exhausted());
        let exhausted = facts.exhausted().filter(|_| facts.meaning.is_limit());
        wait = Said {
            header,
            body: body.and_then(|body| body.retry_after),
            message: prose::wait(&error.message, dialect.message_clock(), at),
            exhausted: exhausted.and_then(|reading| wait::until_reset(headers, dialect, reading)),
            documented: verdict.wait,
        }
        .decide();
        let reach = exhausted.map(|reading| reading.reach).or(verdict.reach);
        facts.reach = reach.unwrap_or_else(|| errors::usual_reach(facts.meaning));
        facts.error_code = body.and_then(code);
        facts.error_message = body.and_then(|body| message(body, facts.meaning));
    }
    facts.retry_after = wait.map(|(wait, _)| wait);
    facts.retry_source = wait.map(|(_, source)| source);
    facts.malformed = malformed.0;
    facts
}

/// A 403 that nothing explains, with a limit used up in its own headers, is
/// that limit (GitHub's primary limit looks like this).
fn explained(status: u16, meaning: Meaning, exhausted: Option<&Reading>) -> Meaning {
    match (status, meaning, exhausted) {
        (403, Meaning::CallerError, Some(_)) => Meaning::RateLimited,
        _ => meaning,
    }
}

/// Whether a cache gave this answer some time after the provider did.
fn is_cached(headers: &[(&str, &[u8])]) -> bool {
    values(headers, "age")
        .filter_map(|age| quantity::whole(text(age)?))
        .any(|age| age > 0)
}

/// The code for people and for the breaker: the most specific that is not only
/// a status in other clothes.
fn code(body: &ErrorBody<'_>) -> Option<String> {
    let is_status = |code: &&str| code.len() == 3 && code.bytes().all(|b| b.is_ascii_digit());
    let code = body
        .code
        .filter(|code| !is_status(code))
        .or(body.kind)
        .or(body.code)?;
    printable(code, CODE_BYTES_MAX).map(|code| code.to_ascii_lowercase())
}

/// The sentence for people. Not of a credential error: providers echo the key.
fn message(body: &ErrorBody<'_>, meaning: Meaning) -> Option<String> {
    if meaning == Meaning::Credential {
        return None;
    }
    printable(body.message?, MESSAGE_BYTES_MAX)
}

/// A text without control characters, bounded; `None` if nothing is left.
fn printable(text: &str, max: usize) -> Option<String> {
    let clean: String = errors::clip(text.trim(), max)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let clean = clean.trim();
    (!clean.is_empty()).then(|| clean.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::tables::{generic, generic_rules, openai, openai_rules};
    use crate::observe::{MALFORMED_MAX, READINGS_MAX, Reach};
    use proptest::prelude::*;

    /// Our clock is four seconds ahead of the answers' own.
    const ARRIVED: WallTime = WallTime::from_secs(1_796_126_404);
    const DATE: (&str, &[u8]) = ("Date", b"Tue, 01 Dec 2026 12:00:00 GMT");

    fn facts(status: u16, fields: &[(&str, &str)], body: Option<ErrorBody<'_>>) -> Facts {
        let mut headers: Vec<_> = fields.iter().map(|(n, v)| (*n, v.as_bytes())).collect();
        headers.push(DATE);
        read(
            status,
            &headers,
            body.as_ref(),
            &generic(),
            &generic_rules(),
            ARRIVED,
        )
    }

    fn says(message: &str) -> Option<ErrorBody<'_>> {
        Some(ErrorBody {
            message: Some(message),
            ..ErrorBody::default()
        })
    }

    #[test]
    fn a_403_with_a_limit_used_up_is_that_limit() {
        let fields = |left| [("x-ratelimit-remaining", left), ("x-ratelimit-reset", "9")];
        assert_eq!(facts(403, &fields("0"), None).meaning, Meaning::RateLimited);
        assert_eq!(facts(403, &fields("1"), None).meaning, Meaning::CallerError);
        assert_eq!(facts(404, &fields("0"), None).meaning, Meaning::CallerError);
    }

    #[test]
    fn whose_limit_it_is_comes_from_the_exhausted_limit_then_the_rule_then_the_meaning() {
        let rules = [openai_rules(), generic_rules()].concat();
        let coded = |code| ErrorBody {
            code: Some(code),
            ..ErrorBody::default()
        };
        let reach = |status, headers: &[(&str, &[u8])], code| {
            read(
                status,
                headers,
                Some(&coded(code)),
                &openai(),
                &rules,
                ARRIVED,
            )
            .reach
        };
        assert_eq!(reach(429, &[], "rate_limit_exceeded"), Reach::Model);
        assert_eq!(reach(429, &[], "slow_down"), Reach::Account);
        assert_eq!(reach(429, &[], "something_else"), Reach::Account);
        let project: (&str, &[u8]) = ("x-ratelimit-remaining-project-tokens", b"0");
        assert_eq!(
            reach(429, &[project], "rate_limit_exceeded"),
            Reach::Account
        );
        assert_eq!(reach(503, &[], "server_is_overloaded"), Reach::Endpoint);
        assert_eq!(reach(401, &[], "invalid_api_key"), Reach::Credential);
    }

    #[test]
    fn a_cached_answer_says_nothing_about_now() {
        let fields = |age| [("age", age), ("x-ratelimit-remaining", "3")];
        assert_eq!(facts(200, &fields("0"), None).readings.len(), 1);
        assert_eq!(facts(200, &fields("7"), None).readings.len(), 0);
    }

    #[test]
    fn what_people_read_is_short_printable_and_without_an_echoed_key() {
        let long = format!("over\u{1b}[31m\n{}", "ü".repeat(400));
        let error = ErrorBody {
            code: Some("429"),
            kind: Some("Rate_Limit_Error"),
            message: Some(&long),
            ..ErrorBody::default()
        };
        let facts = facts(429, &[], Some(error));
        assert_eq!(facts.error_code.as_deref(), Some("rate_limit_error"));
        let message = facts.error_message.unwrap();
        assert!(message.starts_with("over [31m ü") && message.len() <= MESSAGE_BYTES_MAX);
        let echo = says("Incorrect API key provided: sk-canary-0123456789");
        assert_eq!(self::facts(401, &[], echo).error_message, None);
    }

    #[test]
    fn policy_speaks_of_the_meaning_and_not_of_the_vendors_status() {
        let status = |status, body| facts(status, &[], body).policy_status();
        let coded = |code| {
            Some(ErrorBody {
                code: Some(code),
                ..ErrorBody::default()
            })
        };
        assert_eq!(status(403, says("secondary rate limit")), 429);
        assert_eq!(status(200, coded("THROTTLED")), 429);
        assert_eq!(status(529, None), 503);
        assert_eq!(status(200, coded("api_error")), 500);
        assert_eq!(status(502, None), 502);
        assert_eq!(status(404, None), 404);
        assert_eq!(status(200, None), 200);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic_and_the_result_is_bounded(
            status in 0u16..1000,
            fields in prop::collection::vec(
                (0usize..45, prop::collection::vec(any::<u8>(), 0..40)), 0..60),
            code in ".{0,200}",
            message in ".{0,600}",
            body_status in prop::option::of(any::<u16>()),
        ) {
            let dialect = generic();
            let name = |at: usize| match dialect.fields().get(at) {
                Some(rule) => rule.header.as_str(),
                None => ["retry-after", "date", "age", "x", ""][at % 5],
            };
            let headers: Vec<_> = fields.iter().map(|(at, v)| (name(*at), &v[..])).collect();
            let body = ErrorBody {
                code: Some(&code),
                kind: None,
                message: Some(&message),
                retry_after: None,
                status: body_status,
            };
            let facts = read(status, &headers, Some(&body), &dialect, &generic_rules(), ARRIVED);
            prop_assert!(facts.readings.len() <= READINGS_MAX);
            prop_assert!(facts.readings.iter().all(|reading| reading.limit != Some(0)));
            prop_assert!(facts.malformed.len() <= MALFORMED_MAX);
            prop_assert!(facts.error_code.is_none_or(|c| c.len() <= CODE_BYTES_MAX));
            prop_assert!(facts.error_message.is_none_or(|m| m.len() <= MESSAGE_BYTES_MAX));
        }
    }
}
