//! Anthropic.

use rategov_core::cost::{Cost, Dimension};
use rategov_core::estimate::CachedInput;
use rategov_core::observe::{Kind, Reach};
use rategov_core::time::{Moment, Span};

use super::account::{Account, at, settings};
use super::{check, facts, limits, secs};

const MESSAGES: (&str, &str) = ("POST /v1/messages", "claude-x");

/// The same error type says "in two seconds" and "on the first of next month".
#[test]
fn anthropic_the_same_error_says_two_seconds_and_next_month() {
    let body = r#"{"type":"error","error":{"type":"rate_limit_error","message":"M"}}"#;
    let rate = facts("anthropic", 429, &[("retry-after", "2")], body);
    assert_eq!((rate.kind, rate.retry_after), (Kind::RateLimited, secs(2)));
    let month = r#"{"type":"error","error":{"type":"rate_limit_error","message":"M","details":{"error_code":"enforced_spend_limit_reached"}}}"#;
    check("anthropic", 429, &[], month, Kind::Billing);
    let mut account = Account::of("anthropic");
    let now = account.hear(at(1), MESSAGES, (429, &[], month));
    let until = account
        .block(now, ("POST /v1/messages", "claude-y"))
        .unwrap()
        .1;
    assert_eq!(until, Moment::NEVER, "no call of the account goes");
}

/// A limit that the customer set, and an empty purse, look like a mistake in the call.
#[test]
fn anthropic_a_spend_limit_of_the_customer_is_a_400() {
    let error = |message: &str| {
        format!(
            r#"{{"type":"error","error":{{"type":"invalid_request_error","message":"{message}"}}}}"#
        )
    };
    let limit = "You have reached your specified API usage limits. You will regain access on 2027-01-01 at 00:00 UTC.";
    for message in [limit, "Your credit balance is too low to access the API."] {
        check("anthropic", 400, &[], &error(message), Kind::Billing);
    }
    let mistake = error("max_tokens: Field required");
    check("anthropic", 400, &[], &mistake, Kind::CallerError);
}

/// What is left of tokens is rounded to the thousand: an answer can say that more is
/// left than we have already used, and that is no leave to use it again.
#[test]
fn anthropic_what_is_left_is_rounded_to_the_thousand() {
    let quota = "{ dimension: input_tokens, limit: 10000, window: 60s, kind: token_bucket, burst: 10000, scope: model }";
    let mut account = Account::with_quotas("anthropic", quota);
    let call = Cost::ONE.with(Dimension::InputTokens, 400);
    let rounded = [
        ("anthropic-ratelimit-input-tokens-limit", "10000"),
        ("anthropic-ratelimit-input-tokens-remaining", "10000"),
        (
            "anthropic-ratelimit-input-tokens-reset",
            "2026-12-01T12:00:02Z",
        ),
    ];
    let (mut now, mut used) = (at(100), 0);
    while account.blocked(now, MESSAGES, call).is_none() && used < 100_000 {
        let permit = account.send_costing(now, MESSAGES, call);
        now = now + Span::from_millis(1);
        account.ledger.used(now, permit, &call);
        account.answer(now, permit, (200, &rounded, "{}"));
        used += 400;
    }
    assert!((8_000..=10_000).contains(&used), "{used}");
}

/// `reset` is when the bucket is full, and can be over when the answer is written.
#[test]
fn anthropic_a_reset_may_lie_a_little_in_the_past() {
    let full = [
        ("anthropic-ratelimit-requests-limit", "50"),
        ("anthropic-ratelimit-requests-remaining", "50"),
        ("anthropic-ratelimit-requests-reset", "2026-12-01T11:59:59Z"),
    ];
    let told = facts("anthropic", 200, &full, "{}");
    assert_eq!(limits(&told), ["requests 50/50 0s"]);
    assert!(told.malformed.is_empty() && told.readings[0].refills);
    let mut account = Account::of("anthropic");
    let now = account.hear(at(1), MESSAGES, (200, &full, "{}"));
    assert_eq!(account.wait(now, MESSAGES), Span::ZERO);
}

/// 529 is their lack of capacity, also as the first event of a stream under a 200.
#[test]
fn anthropic_an_overload_is_a_529_and_an_event_under_a_200() {
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let event = format!("event: error\ndata: {body}\n\n");
    let stream = [("content-type", "text/event-stream")];
    for (status, fields, body) in [(529, &[][..], body), (200, &stream[..], &event)] {
        let refused = facts("anthropic", status, fields, body);
        assert_eq!(
            (refused.kind, refused.reach, refused.policy_status()),
            (Kind::Overloaded, Reach::Endpoint, 503)
        );
    }
    let mut account = Account::of("anthropic");
    let now = account.hear(at(1), MESSAGES, (529, &[("retry-after", "5")], body));
    assert!(account.wait(now, MESSAGES) >= Span::from_secs(4));
    let other = ("POST /v1/messages/count_tokens", "claude-x");
    assert_eq!(account.wait(now, other), Span::ZERO, "no quota was hit");
}

/// Input that comes from the cache is reported like any other and does not count.
#[test]
fn anthropic_cached_input_does_not_count() {
    let charge = settings("anthropic", "").undeclared.policy.charge;
    assert_eq!(charge.cached_input, CachedInput::Excluded);
}

/// The priority tier has limits of its own, whose fields are named nearly alike.
#[test]
fn anthropic_the_priority_tier_is_counted_apart() {
    let fields = [
        ("anthropic-priority-input-tokens-remaining", "0"),
        ("anthropic-ratelimit-input-tokens-remaining", "7000"),
    ];
    assert_eq!(
        limits(&facts("anthropic", 200, &fields, "{}")),
        ["input_tokens 7000/- -", "priority_input_tokens 0/- -"]
    );
}

/// Pages and generated code mention fields that the provider does not send.
#[test]
fn anthropic_fields_that_nobody_documents_say_nothing() {
    let invented = [
        ("claude-ratelimit-remaining", "0"),
        ("claude-ratelimit-reset", "60"),
    ];
    let told = facts("anthropic", 200, &invented, "");
    assert!(told.readings.is_empty() && told.malformed.is_empty());
}
