//! SDKs repeat what they should not, and give up what they should wait for: the
//! governor as it is served, before a provider that counts what arrives.
//!
//! | SDK | does |
//! |---|---|
//! | Slack's for Node | ten repeats in half an hour |
//! | Airtable's | repeats every 429 without end, also that of the month |
//! | jsforce | repeats without a look at `Retry-After` |
//! | Anthropic's and Groq's | obey a wait up to 60 s; a longer one is not heard, and they come back within 8 s |
//! | OpenAI's | obeys a wait up to 120 s; with a longer one it gives up at once |
//! | Stripe's | repeat 409 and 5xx, and hear no wait |
//!
//! Anthropic's, Groq's and OpenAI's obey `x-should-retry: false` before anything else,
//! Stripe's obey `stripe-should-retry: false`.

use rategov_core::action::problem::{Code, ShouldRetry};
use rategov_server::gateway::problem::Problem;

use super::served::{World, answer, once};

/// Ten repeats of Slack's SDK for Node do not become ten calls.
#[tokio::test]
async fn slack_the_sdk_repeats_ten_times() {
    let body = r#"{"ok":false,"error":"ratelimited"}"#;
    let says = answer("429 Too Many Requests", "retry-after: 600\r\n", body);
    once("slack", "/api/conversations.list", says, 10).await;
}

/// The SDK repeats without end, also the refusal of a month that nobody waits out.
#[tokio::test]
async fn airtable_the_sdk_repeats_without_end() {
    let rate = r#"{"errors":[{"error":"RATE_LIMIT_REACHED","message":"M"}]}"#;
    let month = r#"{"errors":[{"error":"PUBLIC_API_BILLING_LIMIT_EXCEEDED","message":"M"}]}"#;
    for body in [rate, month] {
        let says = answer("429 Too Many Requests", "", body);
        once("airtable", "/v0/b/t", says, 30).await;
    }
}

/// jsforce repeats with waits of its own, whatever the answer says.
#[tokio::test]
async fn salesforce_the_sdk_does_not_look_at_a_wait() {
    let body =
        r#"[{"message":"TotalRequests Limit exceeded.","errorCode":"REQUEST_LIMIT_EXCEEDED"}]"#;
    let says = answer("403 Forbidden", "retry-after: 900\r\n", body);
    once("salesforce", "/services/data/v60.0/limits", says, 5).await;
}

fn field<'h>(heard: &'h str, name: &str) -> Option<&'h str> {
    let head = heard.split("\r\n\r\n").next()?;
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value)
}

/// What an SDK of this family does after an answer: comes back, and after how long.
/// `heard_to_s` is the longest wait that it hears.
fn comes_back(heard: &str, heard_to_s: u64) -> Option<u64> {
    match field(heard, "x-should-retry") {
        Some("false") => return None,
        _ => assert!(heard.contains(" 429 ")),
    }
    let wait = field(heard, "retry-after").and_then(|wait| wait.parse().ok());
    Some(wait.filter(|wait: &u64| *wait <= heard_to_s).unwrap_or(8))
}

async fn obeyed(preset: &str, path: &str, heard_to_s: u64, wait_s: u64) {
    let body =
        r#"{"error":{"type":"rate_limit_error","code":"rate_limit_exceeded","message":"M"}}"#;
    let wait = format!("retry-after: {wait_s}\r\n");
    let world = World::new(preset, answer("429 Too Many Requests", &wait, body)).await;
    let (heard, arrived) = world.repeated(path, 3).await;
    assert_eq!(arrived, 1);
    for heard in heard {
        let told: u64 = field(&heard, "retry-after").unwrap().parse().unwrap();
        // The clock has gone on since; no wait is told shorter than what is left of it.
        assert!(wait_s <= told + 5, "the whole wait is told: {heard}");
        let back = comes_back(&heard, heard_to_s);
        assert!(
            back.is_none_or(|back| told <= back),
            "back after {back:?} s: {heard}"
        );
    }
}

/// A wait above a minute is not heard by the SDK, which comes back within 8 s: it is
/// told not to.
#[tokio::test]
async fn anthropic_the_sdk_does_not_hear_a_wait_above_a_minute() {
    obeyed("anthropic", "/v1/models", 60, 900).await;
    obeyed("anthropic", "/v1/models", 60, 61).await;
    obeyed("groq", "/openai/v1/models", 60, 90).await;
}

/// With a wait above two minutes the SDK gives up, as it is told to; a shorter one it
/// waits out.
#[tokio::test]
async fn openai_the_sdk_gives_up_above_two_minutes() {
    obeyed("openai", "/v1/models", 120, 900).await;
    obeyed("openai", "/v1/models", 120, 30).await;
}

/// The SDK repeats 409 and 5xx by itself, and hears another header than the others.
#[test]
fn stripe_the_sdk_repeats_what_failed_unless_it_is_told_not_to() {
    for code in Code::ALL {
        let problem = Problem::of_action(*code).retry_after(Some(30));
        let told = problem.headers();
        let told = told.get("stripe-should-retry").map(|it| it.as_bytes());
        let passes = code.problem().should_retry == ShouldRetry::Later;
        assert_eq!(told, (!passes).then_some(&b"false"[..]), "{code:?}");
    }
}

/// The provider itself tells the SDK to repeat what the governor has repeated already.
#[tokio::test]
async fn anthropic_tells_the_sdk_to_repeat_what_was_repeated_already() {
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    for name in ["x-should-retry", "stripe-should-retry"] {
        let fields = format!("retry-after: 900\r\n{name}: true\r\n");
        let says = answer("529 Overloaded", &fields, body);
        let world = World::new("anthropic", says).await;
        let (heard, _) = world.repeated("/v1/models", 0).await;
        let heard = &heard[0];
        assert!(
            heard.contains("rategov-source: upstream") && heard.contains(" 529 "),
            "{heard}"
        );
        assert_eq!(field(heard, "x-should-retry"), Some("false"), "{heard}");
        assert_eq!(field(heard, name), Some("false"), "{heard}");
        assert_eq!(heard.matches(name).count(), 1, "{heard}");
    }
}
