//! Stripe.

use super::table;

#[test]
fn unseen_answers_of_stripe_are_understood() {
    table(
        "stripe",
        &[
            (
                429,
                &[("STRIPE-RATE-LIMITED-REASON", "Endpoint-Rate")],
                r#"{"error":{"code":"rate_limit","type":"invalid_request_error"}}"#,
                "rate_limited, endpoint",
            ),
            (
                429,
                &[("stripe-rate-limited-reason", "global-concurrency")],
                "",
                "too_many_concurrent, account",
            ),
            // No reason, and no body: the account's rate.
            (429, &[], "", "rate_limited, account"),
            (
                429,
                &[
                    ("retry-after", "2"),
                    ("stripe-rate-limited-reason", "resource-specific"),
                ],
                r#"{"error":{"code":"rate_limit","message":"Too many requests for this object"}}"#,
                "rate_limited, endpoint, 2s",
            ),
            (
                429,
                &[("stripe-should-retry", "true")],
                r#"{"error":{"code":"lock_timeout","message":"This object cannot be accessed right now because another API request or Stripe process is currently accessing it.","type":"invalid_request_error"}}"#,
                "lock_conflict, endpoint",
            ),
            (
                400,
                &[],
                r#"{"error":{"type":"idempotency_error","message":"Keys for idempotent requests can only be used with the same parameters they were first used with."}}"#,
                "key_mismatch, account",
            ),
            (
                409,
                &[("idempotency-key", "k")],
                r#"{"error":{"code":"idempotency_key_in_use","type":"invalid_request_error"}}"#,
                "key_in_progress, account",
            ),
            (
                402,
                &[("idempotent-replayed", "true")],
                r#"{"error":{"type":"card_error","code":"card_declined","decline_code":"insufficient_funds"}}"#,
                "caller_error, account",
            ),
            (
                201,
                &[("Idempotent-Replayed", "TRUE")],
                r#"{"id":"evt_1","object":"v2.core.event"}"#,
                "replayed",
            ),
            (
                500,
                &[("stripe-should-retry", "true")],
                r#"{"error":{"type":"api_error","message":"M"}}"#,
                "outcome_unknown, account",
            ),
            (
                401,
                &[],
                r#"{"error":{"type":"invalid_request_error","message":"Invalid API Key provided: sk_test_***"}}"#,
                "credential, credential",
            ),
            (
                400,
                &[],
                r#"{"error":{"type":"invalid_request_error","code":"resource_missing","param":"customer"}}"#,
                "caller_error, account",
            ),
        ],
    );
}
