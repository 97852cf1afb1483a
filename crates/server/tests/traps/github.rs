//! GitHub, by REST and by GraphQL.

use rategov_core::observe::{Kind, Reach};
use rategov_core::time::{Draw, Moment, Span};

use super::account::{Account, at};
use super::{check, facts, limits, secs};

const READ: (&str, &str) = ("GET /repos/{owner}/{repo}", "");
const CORE: [(&str, &str); 4] = [
    ("x-ratelimit-limit", "5000"),
    ("x-ratelimit-remaining", "4200"),
    ("x-ratelimit-reset", "1796128200"),
    ("x-ratelimit-resource", "core"),
];
const SECONDARY: &str = r#"{"message":"You have exceeded a secondary rate limit. Please wait."}"#;

/// A 403 is a used-up hour, a secondary limit, or a missing right.
#[test]
fn github_a_403_is_three_things() {
    let used_up = [
        ("x-ratelimit-limit", "5000"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1796127000"),
        ("x-ratelimit-resource", "core"),
    ];
    let primary = r#"{"message":"API rate limit exceeded for user ID 1."}"#;
    check("github", 403, &used_up, primary, Kind::QuotaExhausted);
    check("github", 403, &CORE, SECONDARY, Kind::RateLimited);
    let right = r#"{"message":"Resource not accessible by integration"}"#;
    check("github", 403, &CORE, right, Kind::Permission);
}

/// A secondary refusal carries the fields of the primary limit, with plenty left.
#[test]
fn github_a_secondary_refusal_carries_the_fields_of_the_primary() {
    let refused = facts("github", 403, &CORE, SECONDARY);
    assert_eq!(limits(&refused), ["core 4200/5000 1800s"]);
    assert_eq!(
        (refused.retry_after, refused.retry_source, refused.reach),
        (
            secs(60),
            Some("the provider's documented wait"),
            Reach::Account
        ),
        "neither the half hour of the primary limit nor at once"
    );
    let mut account = Account::of("github");
    let now = account.hear(at(1), READ, (403, &CORE, SECONDARY));
    let other = ("POST /repos/{owner}/{repo}/issues", "");
    assert!(
        Span::from_secs(59) < account.wait(now, other),
        "all of it stops"
    );
}

/// Whoever goes on calling while refused can be banned: nobody does.
#[test]
fn github_calling_on_while_refused_brings_a_ban() {
    let mut account = Account::of("github");
    let says = (403, &CORE[..], SECONDARY);
    let sent = account.reach_a_wall(at(1), Span::from_secs(3_600), READ, says);
    assert!((1..=60).contains(&sent), "{sent} probes in an hour");
}

/// The limit is refused under a 200, with a type in a list of errors.
#[test]
fn github_graphql_refuses_under_a_200() {
    let fields = [
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1796127300"),
    ];
    let body = r#"{"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded"}]}"#;
    let refused = facts("github-graphql", 200, &fields, body);
    assert_eq!(
        (refused.kind, refused.policy_status()),
        (Kind::QuotaExhausted, 429)
    );
    let secondary = r#"{"errors":[{"message":"You have exceeded a secondary rate limit"}]}"#;
    check("github-graphql", 200, &[], secondary, Kind::RateLimited);
    let field = r#"{"errors":[{"type":"NOT_FOUND","message":"Could not resolve to a User"}]}"#;
    check("github-graphql", 200, &[], field, Kind::CallerError);
    // Data beside the errors: what was asked for came in part.
    let partly = r#"{"data":{"a":1},"errors":[{"type":"FORBIDDEN","message":"M"}]}"#;
    check("github-graphql", 200, &[], partly, Kind::Ok);
}

/// Search has a bucket of its own, a minute's, which leaves the hour's alone.
#[test]
fn github_each_resource_has_its_own_bucket() {
    let search = [
        ("x-ratelimit-limit", "30"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1796126460"),
        ("x-ratelimit-resource", "search"),
    ];
    let body = r#"{"message":"API rate limit exceeded for user ID 1."}"#;
    let refused = facts("github", 403, &search, body);
    assert_eq!(
        (refused.kind, refused.reach),
        (Kind::RateLimited, Reach::Endpoint)
    );
    let mut account = Account::of("github");
    let asks = ("GET /search/issues", "");
    let now = account.hear(at(1), asks, (403, &search, body));
    assert!(Span::from_secs(59) < account.wait(now, asks));
    assert_eq!(account.wait(now, READ), Span::ZERO);
}

/// The window ends at `reset`, and the second that it names is not over yet.
#[test]
fn github_reset_is_the_end_of_the_window_in_whole_seconds() {
    let used_up = [
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1796126460"),
    ];
    let refused = facts(
        "github",
        403,
        &used_up,
        r#"{"message":"API rate limit exceeded"}"#,
    );
    assert!(!refused.readings[0].refills);
    assert_eq!(refused.retry_after, secs(61));
}

/// Without a hint a secondary limit asks for a minute at least, and for longer each time.
#[test]
fn github_a_secondary_limit_without_a_hint_asks_for_a_minute() {
    let mut account = Account::of("github");
    let mut now = at(1);
    let mut waits = Vec::new();
    for _ in 0..3 {
        let refused_at = account.hear(now, READ, (403, &CORE, SECONDARY));
        now = refused_at + account.wait(refused_at, READ);
        account.ledger.handle_timeout(now, Draw::ZERO);
        let until = account.block(now, READ).map_or(now, |(_, until)| until);
        assert_ne!(until, Moment::NEVER);
        now = now.max(until);
        waits.push(now.since(refused_at));
    }
    assert!(
        Span::from_secs(60) <= waits[0] && waits[0] < waits[1] && waits[1] < waits[2],
        "{waits:?}"
    );
}
