//! Jira.

use super::table;

#[test]
fn unseen_answers_of_jira_are_understood() {
    table(
        "jira",
        &[
            (
                200,
                &[
                    ("X-RateLimit-Limit", "100"),
                    ("X-RateLimit-Remaining", "15"),
                    ("X-RateLimit-NearLimit", "TRUE"),
                ],
                "{}",
                "near_limit: burst 15/100 -",
            ),
            // Items in another order, and one limit more in the policy than in the state.
            (
                200,
                &[
                    (
                        "RateLimit-Policy",
                        r#""jira-burst-based";q=100;w=1, "tenant-app-quota";w=3600;q=65000"#,
                    ),
                    ("RateLimit", r#""tenant-app-quota";t=1200;r=64000"#),
                ],
                "{}",
                "ok: jira-burst-based -/100 -; tenant-app-quota 64000/65000 1200s",
            ),
            (
                429,
                &[
                    ("Retry-After", "1847"),
                    ("RateLimit-Reason", "Jira-Quota-Global-Based"),
                    ("X-RateLimit-Remaining", "99"),
                ],
                r#"{"errorMessages":["Rate limit exceeded."],"errors":{}}"#,
                "quota_exhausted, account, 1847s: burst 99/- -",
            ),
            // A quota without a wait: the state's own time.
            (
                429,
                &[
                    ("ratelimit-reason", "jira-quota-tenant-based"),
                    ("ratelimit", r#""tenant-app-quota";r=0;t=95"#),
                ],
                "",
                "quota_exhausted, account, 95s: tenant-app-quota 0/- 95s",
            ),
            (
                429,
                &[
                    ("x-ratelimit-reset", "2026-12-01T12:00:04Z"),
                    ("x-ratelimit-remaining", "0"),
                    ("ratelimit-reason", "confluence-burst-based"),
                ],
                "",
                "rate_limited, endpoint, 4s: burst 0/- 4s",
            ),
            (
                429,
                &[
                    ("retry-after", "3"),
                    ("ratelimit-reason", "jira-per-issue-on-write"),
                ],
                r#"{"errorMessages":["M"]}"#,
                "rate_limited, endpoint, 3s",
            ),
            // A reason that is new.
            (
                429,
                &[
                    ("retry-after", "5"),
                    ("ratelimit-reason", "jira-something-new"),
                ],
                "",
                "rate_limited, endpoint, 5s",
            ),
            // Announced and used up, enforced and not.
            (
                200,
                &[
                    ("Beta-RateLimit", r#""global-app-quota";r=0;t=30"#),
                    ("RateLimit", r#""jira-burst-based";r=80;t=1"#),
                ],
                "{}",
                "ok: jira-burst-based 80/- 1s",
            ),
            (
                429,
                &[("x-failure-category", "F")],
                "<html></html>",
                "rate_limited, endpoint",
            ),
            (
                503,
                &[("retry-after", "20")],
                r#"{"errorMessages":["Service unavailable"]}"#,
                "overloaded, endpoint, 20s",
            ),
        ],
    );
}
