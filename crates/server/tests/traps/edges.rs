//! Cloudflare, Twilio and SendGrid.

use rategov_core::observe::{Advice, Kind, Reach};
use rategov_core::time::Span;

use super::account::{Account, at, settings};
use super::{facts, limits, secs};

/// Whoever exceeds the limit is blocked for all calls during five minutes.
#[test]
fn cloudflare_blocks_everything_for_five_minutes() {
    let body = r#"{"success":false,"errors":[{"code":971,"message":"Please slow down"}]}"#;
    let zones = ("GET /client/v4/zones", "");
    let mut account = Account::of("cloudflare");
    let now = account.hear(at(1), zones, (429, &[], body));
    for other in [zones, ("GET /client/v4/accounts", "")] {
        let wait = account.wait(now, other);
        assert!(
            Span::from_secs(300) <= wait && wait < Span::from_secs(600),
            "{wait}"
        );
    }
    let named = [
        ("retry-after", "287"),
        ("ratelimit", r#""default";r=0;t=287"#),
    ];
    assert_eq!(
        facts("cloudflare", 429, &named, body).retry_after,
        secs(287)
    );
}

/// What is limited is how many calls are open; how many were is told, the limit is not.
#[test]
fn twilio_tells_how_many_calls_are_open_and_not_how_many_may_be() {
    let open = [("twilio-concurrent-requests", "100")];
    let body = r#"{"code":20429,"message":"Too Many Requests","status":429}"#;
    let refused = facts("twilio", 429, &open, body);
    assert_eq!(
        (refused.kind, refused.advice, refused.reach),
        (
            Kind::TooManyConcurrent,
            Some(Advice::Backoff),
            Reach::Account
        )
    );
    assert_eq!(refused.asides().figures.in_flight, Some(100));
    assert_eq!(limits(&refused), Vec::<String>::new());
    // With one call of ours open at most, somebody else holds the places.
    let mut account = Account::of("twilio");
    let send = ("POST /2010-04-01/Accounts/{}/Messages.json", "");
    let says = (429, &open[..], body);
    let sent = account.reach_a_wall(at(1), Span::from_secs(3_600), send, says);
    assert!((2..=100).contains(&sent), "{sent}");
}

/// The only provider that promises that a refused call was never processed.
#[test]
fn twilio_a_429_was_never_processed() {
    let twilio = settings("twilio", "");
    assert!(twilio.unmatched_profile.refusals_unprocessed.contains(&429));
    assert!(!twilio.unmatched_profile.refusals_unprocessed.contains(&503));
}

/// `reset` is an epoch, and each endpoint has its own.
#[test]
fn sendgrid_a_reset_is_an_epoch_of_one_endpoint() {
    let fields = [
        ("x-ratelimit-limit", "500"),
        ("x-ratelimit-remaining", "499"),
        ("x-ratelimit-reset", "1796126445"),
    ];
    let told = facts("sendgrid", 200, &fields, "");
    assert_eq!(limits(&told), ["requests 499/500 45s"]);
    assert_eq!(told.readings[0].reach, Reach::Endpoint);
}
