//! Google: the Gemini API, Vertex AI and Workspace, which share the shape of an error
//! and little else.

use rategov_core::observe::{Advice, Kind, Meaning, Reach};
use rategov_core::time::{Moment, Span};

use super::account::{Account, at};
use super::{check, facts, limits};

const GENERATE: (&str, &str) = ("POST /*/models/{model}:generateContent", "gemini-x");

/// A refusal that names this quota of this size, and this wait.
fn quota(id: &str, value: &str, wait: &str) -> String {
    format!(
        r#"{{"error":{{"code":429,"status":"RESOURCE_EXHAUSTED","message":"M","details":[
            {{"violations":[{{"quotaId":"{id}","quotaValue":"{value}"}}]}},
            {{"retryDelay":"{wait}"}}]}}}}"#
    )
}

const DAY: &str = "GenerateRequestsPerDayPerProjectPerModel-FreeTier";
const MINUTE: &str = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier";

/// A day's quota comes with a wait of seconds, which brings nothing back.
#[test]
fn gemini_a_day_may_come_with_a_wait_of_seconds() {
    let day = facts("gemini", 429, &[], &quota(DAY, "20", "25.5s"));
    assert_eq!(
        (day.kind, day.advice, day.retry_after),
        (
            Kind::QuotaExhausted,
            Some(Advice::NextWindow),
            Some(Span::from_millis(25_500))
        )
    );
    check(
        "gemini",
        429,
        &[],
        &quota(MINUTE, "5", "25.5s"),
        Kind::RateLimited,
    );
}

/// A limit of zero is a model that was never granted, whatever wait stands beside it.
#[test]
fn gemini_a_limit_of_zero_is_no_entitlement() {
    let none = facts("gemini", 429, &[], &quota(DAY, "0", "37025s"));
    assert_eq!(
        (none.kind, none.advice, none.meaning),
        (Kind::NoAllowance, Some(Advice::No), Meaning::Billing)
    );
    assert_eq!((limits(&none), none.reach), (vec![], Reach::Model));
    let sentence = r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You exceeded your current quota. * Quota exceeded for metric: m, limit: 0, model: gemini-x\nPlease retry in 10h17m5.72s."}}"#;
    check("gemini", 429, &[], sentence, Kind::NoAllowance);
    let mut account = Account::of("gemini");
    let now = account.hear(at(1), GENERATE, (429, &[], &quota(DAY, "0", "37025s")));
    // Whatever wait it names, only a person can mend it.
    assert_eq!(account.wait(now, GENERATE), Moment::NEVER.since(now));
    let other = (GENERATE.0, "gemini-y");
    assert_eq!(
        account.wait(now, other),
        Span::ZERO,
        "another model may be granted"
    );
}

/// A refusal may have no details at all, or only a link: then it can be any limit, and
/// the shortest is tried.
#[test]
fn gemini_a_refusal_may_name_no_limit() {
    let bare = r#"{"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}}"#;
    let help = r#"{"error":{"code":429,"message":"M","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.Help","links":[{"description":"d","url":"u"}]}]}}"#;
    for body in [bare, help] {
        let refused = facts("gemini", 429, &[], body);
        assert_eq!(
            (refused.kind, refused.advice, refused.retry_after),
            (Kind::RateLimited, Some(Advice::Backoff), None)
        );
    }
}

/// The words of a used-up quota stand also for an empty prepaid balance.
#[test]
fn gemini_resource_exhausted_may_be_about_money() {
    let body = r#"{"error":{"code":402,"message":"Prepay credit balance is depleted.","status":"RESOURCE_EXHAUSTED"}}"#;
    check("gemini", 402, &[], body, Kind::Billing);
}

/// A stream that is no stream of events writes its error into a list.
#[test]
fn gemini_a_stream_writes_its_error_into_a_list() {
    let body = format!("[{}]", quota(MINUTE, "5", "38.2s"));
    let refused = facts("gemini", 429, &[], &body);
    assert_eq!(
        (refused.kind, refused.retry_after),
        (Kind::RateLimited, Some(Span::from_millis(38_200)))
    );
    assert_eq!(limits(&refused), ["requests_minute -/5 -"]);
}

/// A 429 without details is about capacity that all customers share.
#[test]
fn vertex_a_429_without_details_is_shared_capacity() {
    let body = r#"{"error":{"code":429,"message":"Resource exhausted. Please try again later.","status":"RESOURCE_EXHAUSTED"}}"#;
    for body in [body.to_owned(), format!("[{body}]")] {
        let refused = facts("vertex-ai", 429, &[], &body);
        assert_eq!(
            (refused.kind, refused.advice),
            (Kind::Overloaded, Some(Advice::Backoff))
        );
    }
    let own = r#"{"error":{"code":429,"message":"Quota exceeded for aiplatform.googleapis.com/generate_content_requests_per_minute_per_project_per_base_model","status":"RESOURCE_EXHAUSTED"}}"#;
    check("vertex-ai", 429, &[], own, Kind::RateLimited);
}

/// A rate is refused with the status of a missing right, and only the reason tells.
#[test]
fn workspace_a_rate_is_refused_like_a_missing_right() {
    let body = |reason: &str| {
        format!(
            r#"{{"error":{{"errors":[{{"domain":"usageLimits","reason":"{reason}","message":"M"}}],"code":403,"message":"M"}}}}"#
        )
    };
    for (reason, kind, reach) in [
        (
            "userRateLimitExceeded",
            Kind::RateLimited,
            Reach::Credential,
        ),
        ("rateLimitExceeded", Kind::RateLimited, Reach::Account),
        ("dailyLimitExceeded", Kind::QuotaExhausted, Reach::Account),
        ("quotaExceeded", Kind::QuotaExhausted, Reach::Account),
        ("insufficientPermissions", Kind::Permission, Reach::Account),
    ] {
        let refused = facts("google-workspace", 403, &[], &body(reason));
        assert_eq!((refused.kind, refused.reach), (kind, reach), "{reason}");
    }
}

/// The wait is a moment in the sentence, minutes away, and the reason of a project's rate
/// stands beside the sentence of a user's.
#[test]
fn workspace_a_wait_is_a_moment_in_the_sentence() {
    let body = r#"{"error":{"code":429,"message":"User-rate limit exceeded.  Retry after 2026-12-01T12:15:00.500Z","errors":[{"domain":"usageLimits","reason":"rateLimitExceeded"}]}}"#;
    for status in [403, 429] {
        let refused = facts("google-workspace", status, &[], body);
        assert_eq!(
            (refused.kind, refused.reach, refused.retry_after),
            (
                Kind::RateLimited,
                Reach::Credential,
                Some(Span::from_millis(900_500))
            )
        );
    }
    let user = r#"{"error":{"code":403,"message":"Quota exceeded for quota metric 'Queries' and limit 'Queries per minute per user' of service 'gmail.googleapis.com'","errors":[{"reason":"rateLimitExceeded"}]}}"#;
    let refused = facts("google-workspace", 403, &[], user);
    assert_eq!(refused.reach, Reach::Credential);
}
