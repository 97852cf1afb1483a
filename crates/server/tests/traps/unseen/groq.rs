//! Groq.

use super::table;

#[test]
fn unseen_answers_of_groq_are_understood() {
    table(
        "groq",
        &[
            (
                200,
                &[
                    ("X-RateLimit-Limit-Requests", "1000"),
                    ("X-Ratelimit-Remaining-requests", "12"),
                    ("x-ratelimit-reset-requests", "23h42m43.2s"),
                    ("x-ratelimit-limit-tokens", "6000"),
                    ("x-ratelimit-remaining-tokens", "5997"),
                    ("x-ratelimit-reset-tokens", "30ms"),
                ],
                "{}",
                "near_limit: requests_day 12/1000 85363.200s; tokens_minute 5997/6000 30ms",
            ),
            // The day is gone; the minute, which is told, has plenty.
            (
                429,
                &[
                    ("retry-after", "86"),
                    ("x-ratelimit-limit-requests", "1000"),
                    ("x-ratelimit-remaining-requests", "0"),
                    ("x-ratelimit-reset-requests", "1m26.4s"),
                    ("x-ratelimit-remaining-tokens", "6000"),
                ],
                r#"{"error":{"message":"Rate limit reached for model `m` on requests per day (RPD): Limit 1000, Used 1000, Requested 1. Please try again in 1m26.4s.","type":"requests","code":"rate_limit_exceeded"}}"#,
                "quota_exhausted, model, 86.400s: requests_day 0/1000 86.400s; tokens_minute 6000/- -",
            ),
            // A limit that no field tells: requests a minute.
            (
                429,
                &[
                    ("retry-after", "2"),
                    ("x-ratelimit-remaining-requests", "950"),
                    ("x-ratelimit-remaining-tokens", "5800"),
                ],
                r#"{"error":{"message":"Rate limit reached for model `m` on requests per minute (RPM): Limit 30, Used 30, Requested 1. Please try again in 2s.","type":"requests","code":"rate_limit_exceeded"}}"#,
                "rate_limited, model, 2s: requests_day 950/- -; tokens_minute 5800/- -",
            ),
            (
                429,
                &[],
                r#"{"error":{"message":"Rate limit reached on tokens per day (TPD): Limit 100000, Used 99200, Requested 2000. Please try again in 17m16.8s.","type":"tokens","code":"rate_limit_exceeded"}}"#,
                "quota_exhausted, model, 1036.800s",
            ),
            (
                413,
                &[],
                r#"{"error":{"message":"Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 9000","type":"tokens","code":"rate_limit_exceeded"}}"#,
                "too_large, model",
            ),
            (
                498,
                &[],
                r#"{"error":{"message":"Flex tier capacity exceeded","type":"flex","code":"capacity_exceeded"}}"#,
                "overloaded, model",
            ),
            (
                429,
                &[
                    ("x-ratelimit-remaining-tokens", "0"),
                    ("x-ratelimit-reset-tokens", "7.66s"),
                ],
                r#"{"error":{"message":"M","type":"tokens","code":"rate_limit_exceeded"}}"#,
                "rate_limited, model, 7.660s: tokens_minute 0/- 7.660s",
            ),
            (
                503,
                &[("retry-after", "15")],
                "",
                "overloaded, endpoint, 15s",
            ),
        ],
    );
}
