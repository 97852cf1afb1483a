//! OpenAI and Azure OpenAI.

use super::table;

#[test]
fn unseen_answers_of_openai_are_understood() {
    table(
        "openai",
        &[
            (
                200,
                &[
                    ("X-RateLimit-Limit-Requests", "10000"),
                    ("X-RateLimit-Remaining-Requests", "9998"),
                    ("X-RateLimit-Reset-Requests", "12ms"),
                    ("X-RATELIMIT-LIMIT-TOKENS", "2000000"),
                    ("x-RateLimit-remaining-tokens", "1873311"),
                    ("x-ratelimit-RESET-tokens", "3.8s"),
                ],
                "{}",
                "ok: requests 9998/10000 12ms; tokens 1873311/2000000 3.800s",
            ),
            // Two limits at once: the tokens are gone, and take longer.
            (
                429,
                &[
                    ("x-ratelimit-limit-requests", "500"),
                    ("x-ratelimit-remaining-requests", "0"),
                    ("x-ratelimit-reset-requests", "120ms"),
                    ("x-ratelimit-limit-tokens", "30000"),
                    ("x-ratelimit-remaining-tokens", "0"),
                    ("x-ratelimit-reset-tokens", "1m1.2s"),
                ],
                r#"{"error":{"message":"Rate limit reached for gpt-x on tokens per min (TPM): Limit 30000, Used 30000, Requested 600.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#,
                "rate_limited, model, 61.200s: requests 0/500 120ms; tokens 0/30000 61.200s",
            ),
            // The sentence is finer than the field, and no field says less.
            (
                429,
                &[("retry-after", "1")],
                r#"{"error":{"message":"Rate limit reached for gpt-x on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 1.4s.","type":"requests","code":"rate_limit_exceeded"}}"#,
                "rate_limited, model, 1.400s",
            ),
            (
                429,
                &[("Retry-After-Ms", "812.5"), ("Retry-After", "1")],
                r#"{"error":{"type":"tokens","code":"rate_limit_exceeded"}}"#,
                "rate_limited, model, 812500us",
            ),
            (
                429,
                &[],
                r#"{"error":{"message":"Rate limit reached for gpt-x on requests per day (RPD): Limit 200, Used 200, Requested 1. Please try again in 7m12s.","type":"requests","code":"rate_limit_exceeded"}}"#,
                "quota_exhausted, model, 432s",
            ),
            (
                429,
                &[("retry-after", "Tue, 01 Dec 2026 12:00:17 GMT")],
                r#"{"error":{"type":"tokens","code":"rate_limit_exceeded"}}"#,
                "rate_limited, model, 17s",
            ),
            (
                429,
                &[],
                r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#,
                "billing, account",
            ),
            (
                429,
                &[
                    ("x-ratelimit-limit-tokens", "6000"),
                    ("x-ratelimit-remaining-tokens", "6000"),
                ],
                r#"{"error":{"message":"Request too large for gpt-x on tokens per min (TPM): Limit 6000, Requested 9120.","type":"tokens","code":"rate_limit_exceeded"}}"#,
                "too_large, model: tokens 6000/6000 -",
            ),
            // A half of a limit is half of one.
            (
                200,
                &[("x-ratelimit-reset-tokens", "6m0s")],
                "{}",
                "ok: tokens -/- 360s",
            ),
            (
                503,
                &[("retry-after", "3")],
                r#"{"error":{"message":"M","type":"service_unavailable_error","code":"server_is_overloaded"}}"#,
                "overloaded, endpoint, 3s",
            ),
            (
                200,
                &[("content-type", "text/event-stream")],
                "data: {\"error\":{\"message\":\"M\",\"type\":\"server_error\",\"code\":null}}\n\n",
                "provider_error, account",
            ),
            (
                403,
                &[],
                r#"{"error":{"message":"Country, region, or territory not supported","type":"request_forbidden","code":"unsupported_country_region_territory"}}"#,
                "permission, account",
            ),
        ],
    );
}

#[test]
fn unseen_answers_of_azure_are_understood() {
    table(
        "azure-openai",
        &[
            (
                200,
                &[
                    ("X-Ratelimit-Remaining-Requests", "0"),
                    ("X-Ratelimit-Remaining-Tokens", "1"),
                ],
                "{}",
                "ok: requests 0/- -; tokens 1/- -",
            ),
            (
                429,
                &[
                    ("retry-after", "8"),
                    ("retry-after-ms", "7421"),
                    ("x-ratelimit-remaining-tokens", "0"),
                ],
                r#"{"error":{"code":"429","message":"Requests have exceeded call rate limit of your current OpenAI S0 pricing tier. Please retry after 8 seconds."}}"#,
                "rate_limited, model, 7.421s: tokens 0/- -",
            ),
            // The two spellings at once: the later of them.
            (
                429,
                &[
                    ("x-rate-limit-reset-tokens", "40"),
                    ("x-ratelimit-reset-tokens", "12"),
                    ("x-ratelimit-remaining-tokens", "0"),
                ],
                r#"{"error":{"code":"429","message":"have exceeded token rate limit"}}"#,
                "rate_limited, model, 40s: tokens 0/- 40s",
            ),
            (
                429,
                &[
                    ("x-ratelimit-limit-tokens", "-1"),
                    ("x-ratelimit-remaining-tokens", "-1"),
                    ("retry-after", "4"),
                ],
                r#"{"error":{"code":"too_many_requests","message":"Too Many Requests"}}"#,
                "rate_limited, account, 4s",
            ),
            (
                429,
                &[],
                r#"{"error":{"code":"429","message":"Requests have exceeded token rate limit. Please retry after 43200 seconds."}}"#,
                "quota_exhausted, model, 43200s",
            ),
            (
                429,
                &[("retry-after", "20")],
                r#"{"error":{"code":"429","message":"We're currently experiencing high demand, which may cause temporary errors."}}"#,
                "overloaded, model, 20s",
            ),
            (
                403,
                &[("retry-after", "3600")],
                r#"{"statusCode":403,"message":"Out of call volume quota. Quota will be replenished in 01:00:00."}"#,
                "quota_exhausted, account, 3600s",
            ),
            (
                400,
                &[],
                r#"{"error":{"code":"content_filter","message":"The response was filtered","status":400}}"#,
                "caller_error, account",
            ),
            (
                401,
                &[],
                r#"{"statusCode":401,"message":"Access denied due to invalid subscription key."}"#,
                "credential, credential",
            ),
        ],
    );
}
