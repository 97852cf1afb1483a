//! The one entry: a head and what its body said become [`Facts`].
//!
//! Readings of a cached answer (`Age` above zero) describe the past and are
//! left out, as the IETF drafts ask.

use super::dialect::Dialect;
use super::errors::{self, Case, ErrorBody, ErrorRule};
use super::gather::{Gathered, gather};
use super::kind::{self, Return};
use super::told::Told;
use super::wait::{self, Said};
use super::{AnsweredAt, Asides, Facts, Kind, Malformed, Meaning, Reading, prose};
use crate::time::WallTime;

/// Longest [`Facts::error_code`], in bytes.
pub const CODE_BYTES_MAX: usize = 100;
/// Longest [`Facts::error_message`], in bytes.
pub const MESSAGE_BYTES_MAX: usize = 300;

/// A limit is nearly used up from this share, in thousandths (R-PREDICT-2).
const NEAR_PERMILLE: u64 = 800;

/// A value in the body of an answer. Found outside: the core reads no JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyValue {
    /// The place of its rule in [`Dialect::body_fields`].
    pub rule: usize,
    /// How its limit is called, where the rule has a name.
    pub name: Option<String>,
    /// The value as text.
    pub text: String,
}

/// One answer, as it came.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// Its status.
    pub status: u16,
    /// Its fields in their order, names in any case.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// What was found in an error body or error event; `None` for an answer that
    /// is no error as far as its body says.
    pub error: Option<ErrorBody<'a>>,
    /// What was found in the body at the places that the dialect names.
    pub values: &'a [BodyValue],
    /// The wall clock when the head arrived; used only where the answer has no `Date`.
    pub arrived: WallTime,
}

/// Reads an answer of whose body nothing but the error is known; see [`read_answer`].
pub fn read(
    status: u16,
    headers: &[(&str, &[u8])],
    body: Option<&ErrorBody<'_>>,
    dialect: &Dialect,
    rules: &[ErrorRule],
    answered_at: WallTime,
) -> Facts {
    let answer = Answer {
        status,
        headers,
        error: body.copied(),
        values: &[],
        arrived: answered_at,
    };
    read_answer(&answer, dialect, rules)
}

/// Reads one answer. `rules` are the provider's own, then the generic ones.
///
/// Never panics, whatever the bytes; everything in the result is bounded. Cost:
/// O(fields × log rules of the dialect), for errors plus O(rules × message).
pub fn read_answer(answer: &Answer<'_>, dialect: &Dialect, rules: &[ErrorRule]) -> Facts {
    let Answer {
        status, headers, ..
    } = *answer;
    let at = AnsweredAt::of(headers, answer.arrived);
    let mut malformed = Malformed::default();
    let Gathered {
        readings,
        asides,
        told,
    } = gather(answer, dialect, at, &mut malformed);
    let header = wait::from_headers(status, headers, told.header_wait, at, &mut malformed);
    let mut asides = Asides {
        limits: asides,
        figures: told.figures,
        whose: None,
    };
    let mut facts = Facts {
        readings,
        retry_after: header.map(|(wait, _)| wait),
        retry_source: header.map(|(_, source)| source),
        malformed: malformed.0,
        ..Facts::bare(status, Meaning::Ok)
    };
    let own = Case::of(status, answer.error.as_ref(), &told);
    let is_error = own.is_some();
    let Some(mut case) = own.or_else(|| Case::of_members(status, &told)) else {
        facts.kind = kind_of_success(&facts.readings, &told);
        facts.beside = asides.boxed();
        return facts;
    };
    let said = Said {
        header,
        body: (answer.error.and_then(|body| body.retry_after)).max(told.body_wait),
        message: prose::wait(&case.message, dialect.message_clock(), at),
        ..Said::default()
    };
    let named = said.decide().map(|(wait, _)| wait);
    case.wait = named;
    case.readings = &facts.readings;
    case.asides = &asides.limits;
    let ruled = errors::judge(&case, rules);
    if ruled.is_none() && !is_error {
        facts.kind = kind_of_success(&facts.readings, &told);
        facts.beside = asides.boxed();
        return facts;
    }
    let by_rule = ruled.is_some();
    let verdict = ruled.unwrap_or_else(|| errors::by_status(case.status));
    let exhausted = facts.exhausted();
    let kind = match (status, verdict.kind, exhausted) {
        // A 403 that nothing explains, with a limit used up in its own headers,
        // is that limit (GitHub's primary limit looks like this).
        (403, Kind::Permission, Some(_)) if !by_rule => Kind::RateLimited,
        (_, kind, _) => kind,
    };
    let meaning = kind.meaning(case.status);
    let exhausted = exhausted.filter(|_| meaning.is_limit());
    let reset = exhausted.and_then(|reading| wait::until_reset(headers, dialect, reading));
    let wait = Said {
        exhausted: reset,
        documented: verdict.wait,
        ..said
    }
    .decide();
    let back = Return { named, reset };
    let advice = verdict.advice.or_else(|| kind::advice(kind, back));
    let of_limit = exhausted.map(|reading| reading.reach);
    let reach = match verdict.names_the_limit {
        true => verdict.reach.or(of_limit),
        false => of_limit.or(verdict.reach),
    };
    let reach = reach.unwrap_or_else(|| errors::usual_reach(meaning));
    let (code, message) = match is_error {
        true => (code(&case.body), message(&case.body, meaning)),
        false => (None, None),
    };
    asides.whose = verdict.whose.map(str::to_owned);
    Facts {
        meaning,
        kind,
        advice,
        retry_after: wait.map(|(wait, _)| wait),
        retry_source: wait.map(|(_, source)| source),
        reach,
        beside: asides.boxed(),
        error_code: code,
        error_message: message,
        ..facts
    }
}

/// What an answer is that is no error.
fn kind_of_success(readings: &[Reading], told: &Told) -> Kind {
    let is_near = |reading: &Reading| match (reading.remaining, reading.limit) {
        (Some(left), Some(limit)) => {
            let used = u128::from(limit.saturating_sub(left)) * 1_000;
            u128::from(limit) * u128::from(NEAR_PERMILLE) <= used
        }
        _ => false,
    };
    let share = told.figures.used_permille;
    if told.replayed == Some(true) {
        Kind::Replayed
    } else if told.near_limit == Some(true)
        || share.is_some_and(|share| NEAR_PERMILLE <= share)
        || readings.iter().any(is_near)
    {
        Kind::NearLimit
    } else {
        Kind::Ok
    }
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
                Some(rule) => rule.place.label(),
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
