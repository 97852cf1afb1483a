//! Airtable, Notion and Linear.

use rategov_core::observe::{Kind, Reach};
use rategov_core::time::Span;

use super::account::{Account, at};
use super::{check, facts, limits, secs};

const RATE: &str = r#"{"errors":[{"error":"RATE_LIMIT_REACHED","message":"M"}]}"#;

/// The month's cap has the status of five calls a second, and another code.
#[test]
fn airtable_a_429_is_a_second_or_a_month() {
    check("airtable", 429, &[], RATE, Kind::RateLimited);
    let month = r#"{"errors":[{"error":"PUBLIC_API_BILLING_LIMIT_EXCEEDED","message":"M"}]}"#;
    check("airtable", 429, &[], month, Kind::QuotaExhausted);
}

/// After a refusal everything fails for thirty seconds, whoever calls, and no field says
/// so: everybody stays away.
#[test]
fn airtable_a_refusal_is_a_penalty_of_thirty_seconds_for_all() {
    let mut account = Account::of("airtable");
    let table = ("GET /v0/{base}/{table}", "");
    let now = account.hear(at(1), table, (429, &[], RATE));
    for other in [table, ("POST /v0/{base}/{table}/listRecords", "")] {
        let wait = account.wait(now, other);
        assert!(
            Span::from_secs(30) <= wait && wait < Span::from_secs(60),
            "{wait}"
        );
    }
    let told = facts("airtable", 429, &[], RATE);
    assert_eq!(told.retry_source, Some("the provider's documented wait"));
}

/// A reason that nobody has seen before is still a refusal.
#[test]
fn notion_a_reason_may_be_new() {
    let body = r#"{"object":"error","status":429,"code":"rate_limited","message":"M","additional_data":{"rate_limit_reason":"something_new"}}"#;
    let refused = facts("notion", 429, &[("retry-after", "3")], body);
    assert_eq!(
        (refused.kind, refused.retry_after),
        (Kind::RateLimited, secs(3))
    );
}

/// A 529 is their overload, and has a wait.
#[test]
fn notion_a_529_is_their_overload() {
    let body = r#"{"object":"error","status":529,"code":"service_overload","message":"M"}"#;
    let refused = facts("notion", 529, &[("retry-after", "5")], body);
    assert_eq!(
        (refused.kind, refused.retry_after),
        (Kind::Overloaded, secs(5))
    );
}

/// What a 500 did to a write nobody knows.
#[test]
fn notion_a_500_leaves_a_write_open() {
    let body = r#"{"object":"error","status":500,"code":"internal_server_error","message":"M"}"#;
    check("notion", 500, &[], body, Kind::OutcomeUnknown);
}

/// A limit is refused with the status of a mistake.
#[test]
fn linear_a_limit_is_a_400() {
    let body = r#"{"errors":[{"message":"M","extensions":{"code":"RATELIMITED","type":"ratelimited","statusCode":429}}]}"#;
    let refused = facts("linear", 400, &[("retry-after", "60")], body);
    assert_eq!(
        (refused.kind, refused.policy_status(), refused.reach),
        (Kind::RateLimited, 429, Reach::Account)
    );
    let mistake = r#"{"errors":[{"message":"M","extensions":{"code":"INVALID_INPUT"}}]}"#;
    check("linear", 400, &[], mistake, Kind::CallerError);
}

/// `reset` is in milliseconds since 1970.
#[test]
fn linear_a_reset_is_in_milliseconds() {
    let fields = [
        ("x-ratelimit-requests-limit", "5000"),
        ("x-ratelimit-requests-remaining", "9"),
        ("x-ratelimit-requests-reset", "1796130000000"),
        ("x-ratelimit-complexity-remaining", "250000"),
        ("x-ratelimit-complexity-reset", "1796126400500"),
    ];
    assert_eq!(
        limits(&facts("linear", 200, &fields, "")),
        ["complexity 250000/- 500ms", "requests 9/5000 3600s"]
    );
}
