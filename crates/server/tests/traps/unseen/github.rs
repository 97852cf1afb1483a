//! GitHub, by REST and by GraphQL.

use super::table;

#[test]
fn unseen_answers_of_github_are_understood() {
    table(
        "github",
        &[
            (
                200,
                &[
                    ("X-RateLimit-Limit", "15000"),
                    ("X-RateLimit-Remaining", "14999"),
                    ("X-RateLimit-Reset", "1796129999"),
                    ("X-RateLimit-Resource", "core"),
                ],
                "{}",
                "ok: core 14999/15000 3599s",
            ),
            // Only what was used is told.
            (
                200,
                &[
                    ("x-ratelimit-limit", "10"),
                    ("x-ratelimit-used", "9"),
                    ("x-ratelimit-resource", "code_search"),
                ],
                "{}",
                "near_limit: code_search 1/10 -",
            ),
            (
                429,
                &[
                    ("x-ratelimit-limit", "60"),
                    ("x-ratelimit-remaining", "0"),
                    ("x-ratelimit-used", "61"),
                    ("x-ratelimit-reset", "1796126700"),
                    ("x-ratelimit-resource", "core"),
                ],
                r#"{"message":"API rate limit exceeded for 203.0.113.7. (But here's the good news: Authenticated requests get a higher rate limit.)"}"#,
                "quota_exhausted, account, 301s: core 0/60 300s",
            ),
            (
                429,
                &[
                    ("retry-after", "37"),
                    ("x-ratelimit-remaining", "4999"),
                    ("x-ratelimit-resource", "core"),
                ],
                r#"{"documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits","message":"You have exceeded a secondary rate limit and have been temporarily blocked from content creation."}"#,
                "rate_limited, account, 37s: core 4999/- -",
            ),
            // The bucket of an endpoint that is in no list.
            (
                403,
                &[
                    ("x-ratelimit-limit", "100"),
                    ("x-ratelimit-remaining", "0"),
                    ("x-ratelimit-reset", "1796130000"),
                    ("x-ratelimit-resource", "dependency_snapshots"),
                ],
                r#"{"message":"API rate limit exceeded for installation ID 1."}"#,
                "quota_exhausted, endpoint, 3601s: dependency_snapshots 0/100 3600s",
            ),
            (
                403,
                &[("retry-after", "Tue, 01 Dec 2026 12:01:05 GMT")],
                r#"{"message":"You have exceeded a SECONDARY RATE LIMIT."}"#,
                "rate_limited, account, 65s",
            ),
            (
                403,
                &[],
                r#"{"message":"Must have admin rights to Repository."}"#,
                "permission, account",
            ),
            // A reset that is over.
            (
                403,
                &[
                    ("x-ratelimit-remaining", "0"),
                    ("x-ratelimit-reset", "1796126399"),
                    ("x-ratelimit-resource", "core"),
                ],
                r#"{"message":"API rate limit exceeded"}"#,
                "quota_exhausted, account, 0s: core 0/- 0s",
            ),
            (
                422,
                &[
                    ("x-ratelimit-remaining", "0"),
                    ("x-ratelimit-resource", "core"),
                ],
                r#"{"message":"Validation Failed","errors":[{"resource":"Issue","field":"title","code":"missing_field"}]}"#,
                "caller_error, account: core 0/- -",
            ),
            (
                503,
                &[("retry-after", "5")],
                "<html></html>",
                "overloaded, endpoint, 5s",
            ),
        ],
    );
}

#[test]
fn unseen_answers_of_github_graphql_are_understood() {
    table(
        "github-graphql",
        &[
            (
                200,
                &[
                    ("X-RateLimit-Limit", "10000"),
                    ("X-RateLimit-Used", "8400"),
                    ("X-RateLimit-Reset", "1796126460"),
                ],
                r#"{"data":{"viewer":{"login":"a"}}}"#,
                "near_limit: graphql_points 1600/10000 60s",
            ),
            // In the body alone.
            (
                200,
                &[],
                r#"{"data":{"rateLimit":{"limit":5000,"cost":3,"remaining":4990,"used":10,"resetAt":"2026-12-01T12:30:00Z"}}}"#,
                "ok: graphql_points 4990/5000 1800s",
            ),
            (
                200,
                &[
                    ("x-ratelimit-remaining", "0"),
                    ("x-ratelimit-reset", "1796126520"),
                ],
                r#"{"data":null,"errors":[{"type":"RATE_LIMITED","message":"API rate limit already exceeded for user ID 1."}]}"#,
                "quota_exhausted, account, 121s: graphql_points 0/- 120s",
            ),
            (
                403,
                &[("retry-after", "60"), ("x-ratelimit-remaining", "4321")],
                r#"{"message":"You have exceeded a secondary rate limit."}"#,
                "rate_limited, account, 60s: graphql_points 4321/- -",
            ),
            (
                200,
                &[("retry-after", "90")],
                r#"{"errors":[{"message":"You have exceeded a secondary rate limit. Please wait a few minutes."}]}"#,
                "rate_limited, account, 90s",
            ),
            (
                200,
                &[],
                r#"{"errors":[{"type":"MAX_NODE_LIMIT_EXCEEDED","message":"This query requests up to 600,000 possible nodes which exceeds the maximum limit of 500,000."}]}"#,
                "caller_error, account",
            ),
            (
                502,
                &[],
                r#"{"data":null,"errors":[{"message":"Something went wrong while executing your query. This may be the result of a timeout."}]}"#,
                "provider_error, account",
            ),
            (
                401,
                &[],
                r#"{"message":"Bad credentials"}"#,
                "credential, credential",
            ),
        ],
    );
}
