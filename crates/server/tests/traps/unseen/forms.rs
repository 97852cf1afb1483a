//! The same facts in other clothes: blanks, repeated fields, values that a proxy has
//! joined, fractions, offsets, and what is nearly a number.

use super::super::{facts, limits, meaning};
use super::others::check;

#[test]
fn a_value_means_the_same_in_other_clothes() {
    check(&[
        (
            "openai",
            200,
            &[
                ("x-ratelimit-remaining-tokens", " 149984 "),
                ("x-ratelimit-limit-tokens", "150000\t"),
            ],
            "{}",
            "ok: tokens 149984/150000 -",
        ),
        (
            "openai",
            200,
            &[
                ("x-ratelimit-remaining-tokens", "7000, 6500"),
                ("x-ratelimit-remaining-tokens", "6900"),
            ],
            "{}",
            "ok: tokens 6500/- -",
        ),
        (
            "openai",
            200,
            &[
                ("x-ratelimit-reset-requests", "1m0.5s"),
                ("x-ratelimit-remaining-requests", "3"),
            ],
            "{}",
            "ok: requests 3/- 60.500s",
        ),
        (
            "openai",
            200,
            &[
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-requests", "0s"),
            ],
            "{}",
            "ok: requests 0/- 0s",
        ),
        (
            "openai",
            429,
            &[("retry-after", "0")],
            r#"{"error":{"code":"rate_limit_exceeded"}}"#,
            "rate_limited, model, 0s",
        ),
        (
            "openai",
            429,
            &[("retry-after", "2, 5")],
            r#"{"error":{"code":"rate_limit_exceeded"}}"#,
            "rate_limited, model, 5s",
        ),
        (
            "anthropic",
            200,
            &[
                ("anthropic-ratelimit-tokens-remaining", "0"),
                (
                    "anthropic-ratelimit-tokens-reset",
                    "2026-12-01T12:00:30.123456Z",
                ),
            ],
            "{}",
            "ok: tokens 0/- 30.123s",
        ),
        (
            "anthropic",
            200,
            &[
                ("anthropic-ratelimit-tokens-reset", "2026-12-01t12:00:30z"),
                ("anthropic-ratelimit-tokens-remaining", "1000"),
            ],
            "{}",
            "ok: tokens 1000/- 30s",
        ),
        (
            "anthropic",
            200,
            &[
                (
                    "anthropic-ratelimit-tokens-reset",
                    "2026-12-01T04:00:30-08:00",
                ),
                ("anthropic-ratelimit-tokens-remaining", "1000"),
            ],
            "{}",
            "ok: tokens 1000/- 30s",
        ),
        (
            "jira",
            200,
            &[
                ("x-ratelimit-reset", "2026-12-01T14:01+02:00"),
                ("x-ratelimit-remaining", "4"),
            ],
            "{}",
            "ok: burst 4/- 60s",
        ),
        (
            "jira",
            200,
            &[("ratelimit", r#""a";t=60;r=5,  "b";r=2;t=1"#)],
            "{}",
            "ok: a 5/- 60s; b 2/- 1s",
        ),
        (
            "jira",
            200,
            &[
                ("ratelimit", r#""a";r=5;t=60"#),
                ("ratelimit", r#""b";r=2;t=1"#),
            ],
            "{}",
            "ok: a 5/- 60s; b 2/- 1s",
        ),
        (
            "github",
            200,
            &[
                ("x-ratelimit-reset", "1796126460.0"),
                ("x-ratelimit-remaining", "9"),
                ("x-ratelimit-resource", "core"),
            ],
            "{}",
            "ok: core 9/- 60s",
        ),
        (
            "discord",
            200,
            &[
                ("x-ratelimit-remaining", "2"),
                ("x-ratelimit-reset-after", "0.001"),
                ("x-ratelimit-bucket", "z"),
            ],
            "{}",
            "ok: bucket:z 2/- 1ms",
        ),
        (
            "shopify-rest",
            200,
            &[("x-shopify-shop-api-call-limit", " 39 / 40 ")],
            "{}",
            "near_limit: bucket 1/40 -",
        ),
        (
            "zendesk",
            200,
            &[(
                "zendesk-ratelimit-Search",
                "TOTAL=100;remaining=100;resets=0",
            )],
            "{}",
            "ok: search 100/100 0s",
        ),
        (
            "stripe",
            429,
            &[("stripe-rate-limited-reason", " endpoint-rate ")],
            "",
            "rate_limited, endpoint",
        ),
        (
            "gemini",
            429,
            &[],
            r#"{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"0s"}]}}"#,
            "rate_limited, model, 0s",
        ),
        (
            "gemini",
            429,
            &[],
            r#"{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"1800.5s"}]}}"#,
            "rate_limited, model, 1800.500s",
        ),
        (
            "microsoft-graph",
            200,
            &[("x-ms-throttle-limit-percentage", "85%")],
            "{}",
            "near_limit",
        ),
    ]);
}

/// What is no number is left out and named; the rest of the answer still counts.
#[test]
fn what_is_nearly_a_number_is_named_and_nothing_else_is_lost() {
    for value in [
        "1,000k", "1,000", "7, five", "12e3", "+5", "0x10", "five", "5 left", "٥", "NaN", "--1",
    ] {
        let fields = [
            ("x-ratelimit-remaining-tokens", value),
            ("x-ratelimit-remaining-requests", "7"),
        ];
        let told = facts("openai", 200, &fields, "{}");
        assert_eq!(limits(&told), ["requests 7/- -"], "{value}");
        assert_eq!(told.malformed, ["x-ratelimit-remaining-tokens"], "{value}");
    }
    for value in ["1 s", "s", "1x", "-1s", "1.s2", "6m0", "soon"] {
        let fields = [
            ("x-ratelimit-remaining-tokens", "5"),
            ("x-ratelimit-reset-tokens", value),
        ];
        let told = facts("openai", 200, &fields, "{}");
        assert_eq!(limits(&told), ["tokens 5/- -"], "{value}");
    }
}

/// A date is read against the answer's own: a minute later is a minute.
#[test]
fn a_wait_is_a_date_as_often_as_seconds() {
    for (wait, expected) in [
        (
            "Tue, 01 Dec 2026 12:01:00 GMT",
            "rate_limited, account, 60s",
        ),
        (
            "Tuesday, 01-Dec-26 12:01:00 GMT",
            "rate_limited, account, 60s",
        ),
        ("Tue Dec  1 12:01:00 2026", "rate_limited, account, 60s"),
        ("Tue, 01 Dec 2026 11:00:00 GMT", "rate_limited, account, 0s"),
        ("60.5", "rate_limited, account, 60.500s"),
        ("99999999999999999999", "rate_limited, account, for ever"),
    ] {
        let told = facts(
            "notion",
            429,
            &[("retry-after", wait)],
            r#"{"code":"rate_limited"}"#,
        );
        assert_eq!(meaning(&told), expected, "{wait}");
    }
}
