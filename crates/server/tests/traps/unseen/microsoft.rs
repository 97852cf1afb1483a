//! Microsoft Graph.

use super::table;

#[test]
fn unseen_answers_of_graph_are_understood() {
    table(
        "microsoft-graph",
        &[
            (
                429,
                &[
                    ("Retry-After", "156"),
                    ("x-ms-throttle-scope", "Tenant_Application/ReadWrite/a/b"),
                ],
                r#"{"error":{"code":"TooManyRequests","message":"Too Many Requests","innerError":{"code":"429","date":"2026-12-01T12:00:00","request-id":"r"}}}"#,
                "rate_limited, account, 156s",
            ),
            (
                429,
                &[],
                r#"{"error":{"code":"ApplicationThrottled","message":"Application is over its MailboxConcurrency limit."}}"#,
                "too_many_concurrent, endpoint",
            ),
            (
                503,
                &[("retry-after", "10")],
                r#"{"error":{"code":"serviceNotAvailable","message":"M"}}"#,
                "overloaded, endpoint, 10s",
            ),
            // A throttled request under another status.
            (
                503,
                &[("retry-after", "14")],
                r#"{"error":{"code":"activityLimitReached","message":"The app or user has been throttled."}}"#,
                "rate_limited, account, 14s",
            ),
            (
                200,
                &[
                    ("X-MS-Throttle-Limit-Percentage", "1.0"),
                    ("x-ms-resource-unit", "2"),
                ],
                r#"{"value":[]}"#,
                "near_limit",
            ),
            // Two members with two waits: the later one, and names in another case.
            (
                200,
                &[],
                r#"{"responses":[{"id":"a","status":429,"headers":{"Retry-After":"3"}},{"id":"b","status":429,"headers":{"retry-after":"21"}},{"id":"c","status":201}]}"#,
                "partly_limited, account, 21s",
            ),
            // A member that failed otherwise is its caller's business.
            (
                200,
                &[],
                r#"{"responses":[{"id":"a","status":503,"headers":{"Retry-After":"9"}},{"id":"b","status":200}]}"#,
                "ok",
            ),
            (
                429,
                &[("retry-after", "Tue, 01 Dec 2026 12:03:00 GMT")],
                "",
                "rate_limited, account, 180s",
            ),
            (
                403,
                &[],
                r#"{"error":{"code":"accessDenied","message":"M"}}"#,
                "permission, account",
            ),
            (
                401,
                &[],
                r#"{"error":{"code":"InvalidAuthenticationToken","message":"Access token has expired or is not yet valid."}}"#,
                "credential, credential",
            ),
        ],
    );
}
