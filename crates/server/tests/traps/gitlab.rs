//! GitLab.com.

use rategov_core::observe::{Kind, Meaning, Reach};
use rategov_core::time::Span;

use super::account::{Account, at};
use super::{check, facts, limits, secs};

const READ: (&str, &str) = ("GET /api/v4/projects/{id}", "");

/// The field of an IETF draft, in which others count seconds, is an epoch.
#[test]
fn gitlab_ratelimit_reset_is_an_epoch() {
    let fields = [
        ("ratelimit-limit", "60"),
        ("ratelimit-remaining", "9"),
        ("ratelimit-reset", "1796126429"),
        ("ratelimit-resettime", "Tue, 01 Dec 2026 12:00:29 GMT"),
    ];
    let told = facts("gitlab", 200, &fields, "");
    assert_eq!(limits(&told), ["requests_minute 9/60 29s"]);
}

/// On the refusal of an endpoint's own limit the fields tell of another, with plenty left.
#[test]
fn gitlab_fields_may_tell_of_another_limit_than_the_one_that_refused() {
    let other = [
        ("ratelimit-limit", "600"),
        ("ratelimit-remaining", "595"),
        ("ratelimit-reset", "1796126460"),
    ];
    let body = r#"{"message":{"error":"This endpoint has been requested too many times. Try again later."}}"#;
    let refused = facts("gitlab", 429, &other, body);
    assert_eq!(
        (refused.meaning, refused.reach, refused.retry_after),
        (Meaning::RateLimited, Reach::Endpoint, None)
    );
    let export = ("GET /api/v4/projects/{id}/export", "");
    let mut account = Account::of("gitlab");
    let now = account.hear(at(1), export, (429, &other, body));
    assert!(
        Span::ZERO < account.wait(now, export),
        "plenty left opens nothing"
    );
    assert_eq!(account.wait(now, READ), Span::ZERO);
}

/// Each server in front counts for itself, so what is left jumps up again: no more goes
/// in a minute than the limit says.
#[test]
fn gitlab_counts_jump_between_the_servers_in_front() {
    let mut account = Account::of("gitlab");
    let (mut now, mut sent) = (at(100), 0);
    let until = now + Span::from_secs(50);
    while now < until && account.block(now, READ).is_none() && sent < 200 {
        // Three servers take turns, and each has seen a third.
        let left = (60 - 1 - sent / 3).to_string();
        let fields = [
            ("ratelimit-limit", "60"),
            ("ratelimit-remaining", left.as_str()),
            ("ratelimit-reset", "1796126460"),
        ];
        now = account.hear(now, READ, (200, &fields, "{}"));
        sent += 1;
    }
    assert!(sent <= 61, "{sent} in one minute");
}

/// A refusal can be a line of text, a page for people, or have no field at all.
#[test]
fn gitlab_a_refusal_may_be_a_line_of_text_or_a_page() {
    check("gitlab", 429, &[], "Retry later\n", Kind::RateLimited);
    let page = "<html><body>Too many requests</body></html>";
    let refused = facts("gitlab", 429, &[("retry-after", "29")], page);
    assert_eq!(
        (refused.kind, refused.retry_after, refused.error_message),
        (Kind::RateLimited, secs(29), None)
    );
}
