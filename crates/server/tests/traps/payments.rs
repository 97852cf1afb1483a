//! Stripe, Square, PayPal and Adyen.

use rategov_core::observe::{Advice, Kind, Meaning, Reach};
use rategov_core::time::Span;

use super::account::{Account, at, settings};
use super::{check, facts};

const PAY: (&str, &str) = ("POST /v1/*", "");

/// A 429 may say that somebody else changes the same object.
#[test]
fn stripe_a_429_may_be_a_lock() {
    let body = r#"{"error":{"code":"lock_timeout","message":"M"}}"#;
    let lock = facts("stripe", 429, &[], body);
    assert_eq!(
        (lock.kind, lock.meaning, lock.advice),
        (
            Kind::LockConflict,
            Meaning::Overloaded,
            Some(Advice::Backoff)
        )
    );
    assert_ne!(lock.reach, Reach::Account);
    let mut account = Account::of("stripe");
    let now = account.hear(at(1), PAY, (429, &[], body));
    let other = ("GET /v1/balance", "");
    assert_eq!(
        account.wait(now, other),
        Span::ZERO,
        "one object closes no account"
    );
}

/// Which limit it was stands in a header; all of them have the same code.
#[test]
fn stripe_the_limit_that_refused_stands_in_a_header() {
    let body = r#"{"error":{"type":"invalid_request_error","code":"rate_limit","message":"M"}}"#;
    for (reason, kind, reach) in [
        ("global-rate", Kind::RateLimited, Reach::Account),
        ("endpoint-rate", Kind::RateLimited, Reach::Endpoint),
        (
            "global-concurrency",
            Kind::TooManyConcurrent,
            Reach::Account,
        ),
        (
            "endpoint-concurrency",
            Kind::TooManyConcurrent,
            Reach::Endpoint,
        ),
        ("resource-specific", Kind::RateLimited, Reach::Endpoint),
        ("a-new-one", Kind::RateLimited, Reach::Account),
    ] {
        let named = [("Stripe-Rate-Limited-Reason", reason)];
        let refused = facts("stripe", 429, &named, body);
        assert_eq!((refused.kind, refused.reach), (kind, reach), "{reason}");
        assert_eq!(refused.retry_after, None, "no wait is ever told");
    }
}

/// In its old form a limit is a 400.
#[test]
fn stripe_a_limit_of_old_is_a_400() {
    check(
        "stripe",
        400,
        &[],
        r#"{"error":{"code":"rate_limit"}}"#,
        Kind::RateLimited,
    );
    check(
        "stripe",
        400,
        &[],
        r#"{"error":{"code":"parameter_missing"}}"#,
        Kind::CallerError,
    );
}

/// A 402 is a card that was declined, and not a bill of ours.
#[test]
fn stripe_a_402_is_a_declined_card() {
    let body = r#"{"error":{"type":"card_error","code":"card_declined","message":"M"}}"#;
    check("stripe", 402, &[], body, Kind::CallerError);
}

/// A 500 is stored under its key like a success: the same key brings the same 500, and
/// what happened has to be looked up.
#[test]
fn stripe_a_500_is_stored_under_its_key() {
    let body = r#"{"error":{"type":"api_error","message":"M"}}"#;
    let failed = facts("stripe", 500, &[("stripe-should-retry", "false")], body);
    assert_eq!(
        (failed.kind, failed.advice),
        (Kind::OutcomeUnknown, Some(Advice::ReconcileFirst))
    );
}

/// A stored answer looks like a first one but for one field.
#[test]
fn stripe_a_stored_answer_looks_like_a_first_one() {
    let body = r#"{"id":"pi_1"}"#;
    for (sign, kind) in [("true", Kind::Replayed), ("false", Kind::Ok)] {
        check("stripe", 200, &[("idempotent-replayed", sign)], body, kind);
    }
}

/// The key is a part of the body, and nobody says for how long it is remembered: no
/// write is repeated for its sake.
#[test]
fn square_the_key_is_a_part_of_the_body() {
    let square = settings("square", "");
    assert!(!square.endpoints.is_empty());
    let keyed = square
        .endpoints
        .iter()
        .filter(|it| it.rule.profile.idempotency.is_some());
    assert_eq!(keyed.count(), 0);
    let body = r#"{"errors":[{"category":"INVALID_REQUEST_ERROR","code":"IDEMPOTENCY_KEY_REUSED","detail":"D"}]}"#;
    check("square", 400, &[], body, Kind::KeyMismatch);
}

/// Of two calls under one key at once the second may fail, which says nothing about
/// the first.
#[test]
fn paypal_a_key_in_use_is_an_error_of_its_own() {
    let body = r#"{"name":"UNPROCESSABLE_ENTITY","details":[{"issue":"PREVIOUS_REQUEST_IN_PROGRESS"}],"message":"M"}"#;
    let refused = facts("paypal", 422, &[], body);
    assert_eq!(
        (refused.kind, refused.advice),
        (Kind::LockConflict, Some(Advice::Backoff))
    );
}

/// Each API remembers a key for another time.
#[test]
fn paypal_each_api_remembers_a_key_for_another_time() {
    let paypal = settings("paypal", "");
    let lives: std::collections::BTreeSet<Span> = paypal
        .endpoints
        .iter()
        .filter_map(|it| Some(it.rule.profile.idempotency.as_ref()?.lifetime))
        .collect();
    let hours = [3, 6, 72, 30 * 24, 45 * 24].map(|hours| Span::from_secs(hours * 3_600));
    assert_eq!(lives.into_iter().collect::<Vec<_>>(), hours);
}

/// A key in use is told by a number, under a status for mistakes.
#[test]
fn adyen_a_key_in_use_is_a_number_under_a_422() {
    let body =
        r#"{"status":422,"errorCode":"704","message":"request already processed or in progress"}"#;
    check("adyen", 422, &[], body, Kind::KeyInProgress);
    let other = r#"{"status":422,"errorCode":"101","message":"Invalid card number"}"#;
    check("adyen", 422, &[], other, Kind::CallerError);
}
