//! Jira and Confluence in Atlassian's cloud.

use rategov_core::observe::{Advice, Kind, Reach};
use rategov_core::time::Span;

use super::account::{Account, at};
use super::{check, facts, limits, secs};

const READ: (&str, &str) = ("GET /rest/api/*/issue/{issue}", "");

/// `Beta-` fields announce a limit that nobody is held to, and may show it as used up.
#[test]
fn jira_a_limit_that_is_only_announced_looks_used_up() {
    let beta = [
        ("beta-ratelimit", r#""tenant-app-quota";r=0;t=2650"#),
        (
            "beta-ratelimit-policy",
            r#""tenant-app-quota";q=80000;w=3600"#,
        ),
        ("x-beta-ratelimit-reset", "2026-12-01T13:00Z"),
    ];
    let told = facts("jira", 200, &beta, "");
    assert_eq!((told.kind, limits(&told)), (Kind::Ok, vec![]));
    assert_eq!(told.asides().limits[0].label(), "beta:tenant-app-quota");
    let mut account = Account::of("jira");
    let now = account.hear(at(1), READ, (200, &beta, "{}"));
    assert_eq!(account.wait(now, READ), Span::ZERO);
}

/// A refusal for the hour's points carries the fields of the burst, with plenty left.
#[test]
fn jira_a_quota_refusal_carries_the_fields_of_the_burst() {
    let fields = [
        ("retry-after", "600"),
        ("x-ratelimit-limit", "350"),
        ("x-ratelimit-remaining", "349"),
        ("ratelimit-reason", "jira-quota-tenant-based"),
    ];
    let refused = facts("jira", 429, &fields, "");
    assert_eq!(
        (refused.kind, refused.reach, refused.retry_after),
        (Kind::QuotaExhausted, Reach::Account, secs(600))
    );
    let mut account = Account::of("jira");
    let now = account.hear(at(1), READ, (429, &fields, ""));
    let other = ("GET /rest/api/*/myself", "");
    assert!(
        Span::from_secs(599) < account.wait(now, other),
        "all of it pauses"
    );
}

/// Three limiters refuse with the same status: one stops an endpoint, one an issue, one
/// everything.
#[test]
fn jira_three_limiters_refuse_alike() {
    for (reason, kind, reach, whose) in [
        (
            "jira-burst-based",
            Kind::RateLimited,
            Reach::Endpoint,
            "tenant+endpoint+method",
        ),
        (
            "jira-per-issue-on-write",
            Kind::RateLimited,
            Reach::Endpoint,
            "one issue only",
        ),
        (
            "jira-quota-global-based",
            Kind::QuotaExhausted,
            Reach::Account,
            "app, all tenants",
        ),
        (
            "confluence-quota-tenant-based",
            Kind::QuotaExhausted,
            Reach::Account,
            "app+tenant",
        ),
    ] {
        let refused = facts("jira", 429, &[("ratelimit-reason", reason)], "");
        assert_eq!((refused.kind, refused.reach), (kind, reach), "{reason}");
        assert_eq!(refused.asides().whose.as_deref(), Some(whose));
    }
}

/// What is left is told only while there is little, and a policy may vanish with it.
#[test]
fn jira_what_is_left_may_be_left_out() {
    let fields = [
        (
            "ratelimit",
            r#""global-app-quota";t=240,"jira-burst-based";r=71;t=1"#,
        ),
        ("ratelimit-policy", r#""global-app-quota";q=65000;w=3600"#),
    ];
    let told = facts("jira", 200, &fields, "");
    assert_eq!(
        limits(&told),
        ["global-app-quota -/65000 240s", "jira-burst-based 71/- 1s"]
    );
    assert!(told.malformed.is_empty());
    // The policy vanishes when nothing is left.
    let none = [
        ("ratelimit", r#""tenant-app-quota";r=0;t=600"#),
        ("ratelimit-reason", "jira-quota-tenant-based"),
    ];
    let refused = facts("jira", 429, &none, "");
    assert_eq!(
        (refused.kind, refused.retry_after),
        (Kind::QuotaExhausted, secs(600))
    );
}

/// A refusal of the edge in front names neither limit nor wait.
#[test]
fn jira_a_refusal_of_the_edge_is_bare() {
    let edge = [("x-failure-category", "FAILURE_CLIENT_RATE_LIMIT_EXCEEDED")];
    let refused = facts("jira", 429, &edge, "<html>429</html>");
    assert_eq!(
        (
            refused.kind,
            refused.reach,
            refused.advice,
            refused.retry_after
        ),
        (
            Kind::RateLimited,
            Reach::Endpoint,
            Some(Advice::Backoff),
            None
        )
    );
}

/// A reset is a date without seconds.
#[test]
fn jira_a_reset_is_a_date_without_seconds() {
    let fields = [
        ("x-ratelimit-remaining", "9"),
        ("x-ratelimit-reset", "2026-12-01T12:01Z"),
    ];
    assert_eq!(limits(&facts("jira", 200, &fields, "")), ["burst 9/- 60s"]);
    check(
        "jira",
        200,
        &[("x-ratelimit-nearlimit", "true")],
        "",
        Kind::NearLimit,
    );
}
