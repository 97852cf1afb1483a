//! Slack.

use super::table;

#[test]
fn unseen_answers_of_slack_are_understood() {
    table(
        "slack",
        &[
            (
                429,
                &[("Retry-After", "30")],
                r#"{"ok":false,"error":"ratelimited"}"#,
                "rate_limited, endpoint, 30s",
            ),
            (
                429,
                &[("RETRY-AFTER", "1")],
                "",
                "rate_limited, endpoint, 1s",
            ),
            (429, &[], "", "rate_limited, endpoint"),
            (
                200,
                &[("retry-after", "12")],
                r#"{"error":"rate_limited","ok":false,"response_metadata":{"messages":["[WARN]"]}}"#,
                "rate_limited, endpoint, 12s",
            ),
            (
                429,
                &[("retry-after", "Tue, 01 Dec 2026 12:00:05 GMT")],
                r#"{"ok":false,"error":"ratelimited"}"#,
                "rate_limited, endpoint, 5s",
            ),
            (
                200,
                &[],
                r#"{"ok":false,"error":"token_expired"}"#,
                "credential, credential",
            ),
            (
                200,
                &[],
                r#"{"ok":false,"error":"missing_scope","needed":"chat:write","provided":"users:read"}"#,
                "permission, account",
            ),
            (
                200,
                &[],
                r#"{"ok":false,"error":"message_limit_exceeded"}"#,
                "caller_error, account",
            ),
            (
                200,
                &[],
                r#"{"ok":false,"error":"service_unavailable"}"#,
                "overloaded, endpoint",
            ),
            (
                503,
                &[],
                "upstream connect error or disconnect/reset before headers",
                "overloaded, endpoint",
            ),
            (
                200,
                &[],
                r#"{"ok":true,"channel":"C1","ts":"1796126400.000100","message":{"text":"error"}}"#,
                "ok",
            ),
        ],
    );
}
