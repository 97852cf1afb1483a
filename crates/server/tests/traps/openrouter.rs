//! OpenRouter, which passes calls on to others and has limits of its own.

use rategov_core::observe::{Advice, Kind, Reach};

use super::served::once;
use super::{check, facts, limits, secs};

/// `reset` is in milliseconds since 1970.
#[test]
fn openrouter_a_reset_is_in_milliseconds() {
    let fields = [
        ("x-ratelimit-limit", "50"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1796169600000"),
    ];
    let body = r#"{"error":{"code":429,"message":"Rate limit exceeded: free-models-per-day."}}"#;
    let refused = facts("openrouter", 429, &fields, body);
    assert_eq!(
        limits(&refused),
        ["requests 0/50 43200s"],
        "midnight of UTC"
    );
    assert_eq!(
        (refused.kind, refused.reach),
        (Kind::QuotaExhausted, Reach::Account)
    );
}

/// A 402 about calls that are still open passes by itself when they end.
#[test]
fn openrouter_a_402_may_be_about_open_calls() {
    let open = r#"{"error":{"code":402,"message":"M","metadata":{"reason":"in_flight_budget_exhausted"}}}"#;
    let refused = facts("openrouter", 402, &[("retry-after", "5")], open);
    assert_eq!(
        (refused.kind, refused.advice, refused.retry_after),
        (
            Kind::TooManyConcurrent,
            Some(Advice::WhenOneFinishes),
            secs(5)
        )
    );
    for reason in ["weight_exceeds_budget", ""] {
        let body = format!(
            r#"{{"error":{{"code":402,"message":"M","metadata":{{"reason":"{reason}"}}}}}}"#
        );
        check("openrouter", 402, &[], &body, Kind::Billing);
    }
}

/// A refusal can come late in a stream that began with 200.
#[test]
fn openrouter_an_error_may_come_late_in_a_stream() {
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"error\":{\"code\":429,\"message\":\"M\"},\"choices\":[]}\n\n";
    let events = [("content-type", "text/event-stream")];
    check("openrouter", 200, &events, stream, Kind::RateLimited);
}

/// What came late closes the scope like a refusal at the head: the next call stays.
#[tokio::test]
async fn openrouter_an_error_late_in_a_stream_closes_what_it_concerns() {
    let chunk = r#"{"id":"c","choices":[{"index":0,"delta":{"content":"a"}}]}"#;
    let error = r#"{"id":"c","provider":"p","choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"error":{"code":429,"message":"Rate limit exceeded","metadata":{"error_type":"rate_limit_exceeded"}}}"#;
    let says = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: {chunk}\n\ndata: {error}\n\n"
    );
    once("openrouter", "/api/v1/models", says, 2).await;
}

/// It has tried every provider behind it already: its word is about all of them, and
/// the wait that it names is theirs.
#[test]
fn openrouter_has_tried_the_others_already() {
    let body = r#"{"error":{"code":429,"message":"M","metadata":{"error_type":"rate_limit_exceeded","previous_errors":[{"provider":"a","status":429},{"provider":"b","status":429}]},"availability":{"code":"capacity_exhausted","retryable":true,"retry_after":12}}}"#;
    let refused = facts("openrouter", 429, &[], body);
    assert_eq!(
        (refused.kind, refused.reach, refused.retry_after),
        (Kind::Overloaded, Reach::Model, secs(12))
    );
}

/// No success tells a limit, and only a refusal for one of its own limits does.
#[test]
fn openrouter_a_success_tells_no_limit() {
    assert!(facts("openrouter", 200, &[], "{}").readings.is_empty());
    let theirs =
        r#"{"error":{"code":429,"message":"M","metadata":{"error_type":"rate_limit_exceeded"}}}"#;
    assert_eq!(facts("openrouter", 429, &[], theirs).reach, Reach::Model);
    let own = [("x-ratelimit-limit", "20"), ("x-ratelimit-remaining", "0")];
    assert_eq!(facts("openrouter", 429, &own, theirs).reach, Reach::Account);
}

/// A limit under a 200 comes in chunks as often as with a length.
#[tokio::test]
async fn openrouter_a_limit_under_a_200_may_come_in_chunks() {
    let body = r#"{"error":{"code":429,"message":"Rate limit exceeded","metadata":{"error_type":"rate_limit_exceeded"}}}"#;
    let head = "HTTP/1.1 200 OK\r\nretry-after: 600\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
    let (first, second) = body.split_at(40);
    let chunk = |part: &str| format!("{:x}\r\n{part}\r\n", part.len());
    let says = format!("{head}{}{}0\r\n\r\n", chunk(first), chunk(second));
    once("openrouter", "/api/v1/models", says, 3).await;
}
