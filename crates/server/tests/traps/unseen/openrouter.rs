//! OpenRouter.

use super::table;

#[test]
fn unseen_answers_of_openrouter_are_understood() {
    table(
        "openrouter",
        &[
            (
                429,
                &[
                    ("X-RateLimit-Limit", "20"),
                    ("X-RateLimit-Remaining", "0"),
                    ("X-RateLimit-Reset", "1796126460000"),
                ],
                r#"{"error":{"message":"Rate limit exceeded: free-models-per-min.","code":429,"metadata":{"headers":{"X-RateLimit-Limit":"20"}}},"user_id":"u"}"#,
                "rate_limited, account, 60s: requests 0/20 60s",
            ),
            (
                429,
                &[],
                r#"{"error":{"code":429,"message":"M","metadata":{"limit_source":"free_tier_daily"}}}"#,
                "quota_exhausted, account",
            ),
            (
                429,
                &[],
                r#"{"error":{"code":429,"message":"M","metadata":{"error_type":"rate_limit_exceeded","raw":"upstream says no"}}}"#,
                "rate_limited, model",
            ),
            // The wait of the body is finer than that of the head.
            (
                429,
                &[("retry-after", "8")],
                r#"{"error":{"code":429,"message":"M","metadata":{"error_type":"rate_limit_exceeded"},"availability":{"code":"temporarily_unavailable","retryable":true,"retry_after":7.25}}}"#,
                "overloaded, model, 7.250s",
            ),
            (
                502,
                &[],
                r#"{"error":{"code":502,"message":"M","metadata":{"error_type":"provider_unavailable"}}}"#,
                "provider_error, model",
            ),
            (
                402,
                &[],
                r#"{"error":{"code":402,"message":"Insufficient credits. Add more using https://openrouter.ai/settings/credits"}}"#,
                "billing, account",
            ),
            (
                402,
                &[],
                r#"{"error":{"code":402,"message":"M","metadata":{"reason":"weight_exceeds_budget"}}}"#,
                "billing, account",
            ),
            // Under a 200, with a status in the body.
            (
                200,
                &[],
                r#"{"error":{"code":503,"message":"No instances available","metadata":{"error_type":"provider_overloaded"}}}"#,
                "overloaded, model",
            ),
            (
                200,
                &[("content-type", "text/event-stream")],
                ": OPENROUTER PROCESSING\n\ndata: {\"error\":{\"code\":402,\"message\":\"M\",\"metadata\":{\"error_type\":\"payment_required\"}}}\n\n",
                "billing, account",
            ),
            // As the Anthropic-compatible endpoint says it.
            (
                429,
                &[("retry-after", "4")],
                r#"{"type":"error","error":{"type":"rate_limit_error","message":"M","error_type":"rate_limit_exceeded"}}"#,
                "rate_limited, model, 4s",
            ),
            (
                403,
                &[],
                r#"{"error":{"code":403,"message":"Your input was flagged","metadata":{"reasons":["violence"],"error_type":"permission_denied"}}}"#,
                "permission, account",
            ),
        ],
    );
}
