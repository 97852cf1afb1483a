//! Anthropic.

use super::table;

#[test]
fn unseen_answers_of_anthropic_are_understood() {
    table(
        "anthropic",
        &[
            (
                200,
                &[
                    ("Anthropic-RateLimit-Requests-Limit", "4000"),
                    ("anthropic-ratelimit-requests-Remaining", "3999"),
                    ("ANTHROPIC-RATELIMIT-REQUESTS-RESET", "2026-12-01T12:00:00Z"),
                    ("anthropic-ratelimit-output-tokens-limit", "80000"),
                    ("anthropic-ratelimit-output-tokens-remaining", "64000"),
                    (
                        "anthropic-ratelimit-output-tokens-reset",
                        "2026-12-01T13:00:12.500+01:00",
                    ),
                ],
                "{}",
                "ok: output_tokens 64000/80000 12.500s; requests 3999/4000 0s",
            ),
            // Three limits, and the one that is gone is not the first.
            (
                429,
                &[
                    ("retry-after", "9"),
                    ("anthropic-ratelimit-requests-remaining", "49"),
                    ("anthropic-ratelimit-input-tokens-remaining", "12000"),
                    ("anthropic-ratelimit-output-tokens-limit", "8000"),
                    ("anthropic-ratelimit-output-tokens-remaining", "0"),
                    (
                        "anthropic-ratelimit-output-tokens-reset",
                        "2026-12-01T12:00:41Z",
                    ),
                ],
                r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 8,000 output tokens per minute."}}"#,
                "rate_limited, model, 9s: input_tokens 12000/- -; output_tokens 0/8000 41s; requests 49/- -",
            ),
            // No wait, and nothing is left of one limit.
            (
                429,
                &[
                    ("anthropic-ratelimit-tokens-remaining", "0"),
                    ("anthropic-ratelimit-tokens-reset", "2026-12-01T12:00:30Z"),
                ],
                r#"{"type":"error","error":{"type":"rate_limit_error","message":"M"}}"#,
                "rate_limited, model, 30s: tokens 0/- 30s",
            ),
            (
                429,
                &[("request-id", "req_1")],
                r#"{"type":"error","error":{"type":"rate_limit_error","message":"You have reached your spend limit.","details":{"error_code":"enforced_spend_limit_reached","error_visibility":"user_facing"}},"request_id":"req_1"}"#,
                "billing, account",
            ),
            (
                429,
                &[("retry-after", "Tue, 01 Dec 2026 12:02:00 GMT")],
                r#"{"type":"error","error":{"type":"rate_limit_error","message":"M"}}"#,
                "rate_limited, model, 120s",
            ),
            (
                529,
                &[],
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                "overloaded, endpoint",
            ),
            (
                409,
                &[],
                r#"{"type":"error","error":{"type":"conflict_error","message":"M"}}"#,
                "lock_conflict, account",
            ),
            (
                504,
                &[],
                r#"{"type":"error","error":{"type":"timeout_error","message":"M"}}"#,
                "outcome_unknown, account",
            ),
            (
                403,
                &[],
                r#"{"type":"error","error":{"type":"permission_error","message":"M"}}"#,
                "permission, account",
            ),
            (
                200,
                &[("content-type", "text/event-stream; charset=utf-8")],
                "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"M\"}}\n\n",
                "rate_limited, model",
            ),
            (
                404,
                &[("anthropic-ratelimit-requests-remaining", "0")],
                r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-none"}}"#,
                "caller_error, account: requests 0/- -",
            ),
        ],
    );
}
