//! HubSpot, Salesforce and Zendesk.

use rategov_core::observe::{Kind, Reach};
use rategov_core::time::Span;

use super::account::{Account, at};
use super::{check, facts, limits, secs};

/// Ten seconds and a day are refused with one status and one error type.
#[test]
fn hubspot_a_429_is_ten_seconds_or_a_day() {
    let body = |policy: &str| {
        format!(
            r#"{{"status":"error","message":"M","errorType":"RATE_LIMIT","policyName":"{policy}"}}"#
        )
    };
    check(
        "hubspot",
        429,
        &[],
        &body("TEN_SECONDLY_ROLLING"),
        Kind::RateLimited,
    );
    check("hubspot", 429, &[], &body("DAILY"), Kind::QuotaExhausted);
    let search = facts("hubspot", 429, &[], &body("SECONDLY"));
    assert_eq!(
        (search.kind, search.reach, search.retry_after),
        (Kind::RateLimited, Reach::Endpoint, secs(1))
    );
}

/// Searches have a limit of their own, of which no field tells.
#[test]
fn hubspot_answers_to_searches_tell_no_limit() {
    let body = r#"{"status":"error","message":"You have reached your secondly limit.","errorType":"RATE_LIMIT"}"#;
    let search = ("POST /crm/v3/objects/{object}/search", "");
    let mut account = Account::of("hubspot");
    let now = account.hear(at(1), search, (429, &[], body));
    assert!(Span::from_millis(900) <= account.wait(now, search));
    let read = ("GET /crm/v3/objects/{object}/{id}", "");
    assert_eq!(account.wait(now, read), Span::ZERO);
}

/// The length of the window stands in a field of its own, in milliseconds.
#[test]
fn hubspot_the_window_stands_in_a_field() {
    let fields = [
        ("x-hubspot-ratelimit-max", "190"),
        ("x-hubspot-ratelimit-remaining", "97"),
        ("x-hubspot-ratelimit-interval-milliseconds", "10000"),
    ];
    let told = facts("hubspot", 200, &fields, "");
    assert_eq!(limits(&told), ["requests_interval 97/190 -"]);
    assert_eq!(told.readings[0].window, secs(10));
}

/// A refusal is a 403 with a list, and the same code stands for open calls.
#[test]
fn salesforce_a_refusal_is_a_403_with_a_list() {
    let body = |message: &str| {
        format!(r#"[{{"message":"{message}","errorCode":"REQUEST_LIMIT_EXCEEDED"}}]"#)
    };
    check(
        "salesforce",
        403,
        &[],
        &body("TotalRequests Limit exceeded."),
        Kind::QuotaExhausted,
    );
    let open = body("ConcurrentRequests (Concurrent API Requests) Limit exceeded.");
    check("salesforce", 403, &[], &open, Kind::TooManyConcurrent);
    let right = r#"[{"message":"insufficient access rights","errorCode":"INSUFFICIENT_ACCESS"}]"#;
    check("salesforce", 403, &[], right, Kind::Permission);
}

/// The field tells what is used of the limit, with an app's share behind it.
#[test]
fn salesforce_tells_what_is_used_of_the_limit() {
    let fields = [(
        "Sforce-Limit-Info",
        "api-usage=18/5000; per-app-api-usage=17/250(appName=sync)",
    )];
    assert_eq!(
        limits(&facts("salesforce", 200, &fields, "")),
        ["requests_day 4982/5000 -"]
    );
}

/// A limit of an endpoint has a field with a name of its own, and three values in it.
#[test]
fn zendesk_a_field_is_named_after_its_endpoint() {
    let fields = [
        ("x-rate-limit", "700"),
        ("x-rate-limit-remaining", "312"),
        (
            "Zendesk-RateLimit-create-update-user",
            "total=5; remaining=0; resets=57",
        ),
    ];
    let refused = facts(
        "zendesk",
        429,
        &fields,
        r#"{"error":"APIRateLimitExceeded"}"#,
    );
    assert_eq!(
        limits(&refused),
        ["account 312/700 -", "create-update-user 0/5 57s"]
    );
    assert_eq!(
        (refused.reach, refused.retry_after),
        (Reach::Endpoint, secs(57))
    );
}

/// Resets are in seconds from now, in a field in which others have an epoch.
#[test]
fn zendesk_ratelimit_reset_is_in_seconds_from_now() {
    let fields = [("ratelimit-remaining", "9"), ("ratelimit-reset", "37")];
    assert_eq!(
        limits(&facts("zendesk", 200, &fields, "")),
        ["account 9/- 37s"]
    );
}

/// A stored answer looks like a first one but for one field.
#[test]
fn zendesk_a_stored_answer_looks_like_a_first_one() {
    for (sign, kind) in [("hit", Kind::Replayed), ("miss", Kind::Ok)] {
        check("zendesk", 201, &[("x-idempotency-lookup", sign)], "", kind);
    }
}
