//! Slack and Discord.

use rategov_core::observe::{Kind, Reach};
use rategov_core::time::Span;

use super::account::{Account, at};
use super::{check, facts, limits, secs};

const POST: (&str, &str) = ("POST /api/chat.postMessage", "");

/// Every error but a limit comes under a 200.
#[test]
fn slack_errors_come_under_a_200() {
    let says = |error: &str| format!(r#"{{"ok":false,"error":"{error}"}}"#);
    for (error, kind) in [
        ("invalid_auth", Kind::Credential),
        ("missing_scope", Kind::Permission),
        ("ratelimited", Kind::RateLimited),
        ("fatal_error", Kind::OutcomeUnknown),
        ("channel_not_found", Kind::CallerError),
    ] {
        check("slack", 200, &[], &says(error), kind);
    }
    check("slack", 200, &[], r#"{"ok":true,"channel":"C1"}"#, Kind::Ok);
    // An error of somebody else's, inside of a result.
    let told = r#"{"ok":true,"messages":[{"text":"the error was: ratelimited"}]}"#;
    check("slack", 200, &[], told, Kind::Ok);
}

/// A limit is that of one method: the others go on.
#[test]
fn slack_each_method_has_its_own_limit() {
    let body = r#"{"ok":false,"error":"ratelimited"}"#;
    let mut account = Account::of("slack");
    let now = account.hear(at(1), POST, (429, &[("retry-after", "30")], body));
    assert!(Span::from_secs(29) < account.wait(now, POST));
    let history = ("POST /api/conversations.history", "");
    assert_eq!(account.wait(now, history), Span::ZERO);
}

const SHARED: [(&str, &str); 5] = [
    ("retry-after", "901"),
    ("x-ratelimit-remaining", "9"),
    ("x-ratelimit-reset-after", "12.34"),
    ("x-ratelimit-bucket", "b7f0e1"),
    ("x-ratelimit-scope", "shared"),
];

/// A refusal for what everybody shares shows plenty left and a short reset; only its
/// wait counts, and the body has it to the hundredth.
#[test]
fn discord_a_shared_refusal_shows_plenty_left() {
    let body = r#"{"message":"M","retry_after":900.41,"global":false}"#;
    let refused = facts("discord", 429, &SHARED, body);
    assert_eq!(
        (refused.kind, refused.reach, refused.retry_after),
        (
            Kind::RateLimited,
            Reach::Endpoint,
            Some(Span::from_millis(900_410))
        )
    );
    assert_eq!(limits(&refused), ["bucket:b7f0e1 9/- 12.340s"]);
    let send = ("POST /api/*/channels/{channel}/messages", "");
    let mut account = Account::of("discord");
    let now = account.hear(at(1), send, (429, &SHARED, body));
    assert!(Span::from_secs(900) < account.wait(now, send));
}

/// One refusal is for all routes, and looks like any other but for its scope.
#[test]
fn discord_a_global_refusal_is_for_all_routes() {
    let global = [
        ("retry-after", "13"),
        ("x-ratelimit-global", "true"),
        ("x-ratelimit-scope", "global"),
    ];
    let body = r#"{"message":"M","retry_after":12.34,"global":true}"#;
    let refused = facts("discord", 429, &global, body);
    assert_eq!(refused.reach, Reach::Account);
    let user = [("retry-after", "2"), ("x-ratelimit-scope", "user")];
    let one = facts("discord", 429, &user, r#"{"retry_after":1.5}"#);
    assert_eq!(one.reach, Reach::Endpoint);
}

/// 10,000 invalid answers in ten minutes ban the address: a crowd that is refused all
/// the time stays far below.
#[test]
fn discord_too_many_refusals_ban_the_address() {
    let mut account = Account::of("discord");
    let user = [("x-ratelimit-scope", "user")];
    let says = (429, &user[..], r#"{"message":"M","retry_after":0.3}"#);
    let send = ("GET /api/*/channels/{channel}/messages", "");
    let sent = account.reach_a_wall(at(1), Span::from_secs(600), send, says);
    assert!((1..=20).contains(&sent), "{sent} of 10,000");
}

/// A bucket is known by a name that an answer brings, and not by its path.
#[test]
fn discord_a_bucket_is_named_by_the_answer() {
    let fields = [
        ("x-ratelimit-limit", "5"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1796126401.250"),
        ("x-ratelimit-reset-after", "1.250"),
        ("x-ratelimit-bucket", "abcd1234"),
    ];
    let told = facts("discord", 200, &fields, "{}");
    assert_eq!(limits(&told), ["bucket:abcd1234 0/5 1.250s"]);
    assert_eq!(
        facts("discord", 429, &fields, "{}").retry_after,
        Some(Span::from_millis(1_250))
    );
    assert_ne!(secs(1), told.readings[0].reset_after, "the fraction counts");
}
