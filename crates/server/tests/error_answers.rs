//! What real refusals mean, end to end: bytes of a body and header fields in,
//! the core's facts out. The cases are users' reports, by their numbers.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use rategov_core::observe::dialect::{Dialect, MessageClock};
use rategov_core::observe::{Answer, ErrorRule, Facts, read, read_answer, tables};
use rategov_core::time::WallTime;
use rategov_server::gateway::error_body::{self, ErrorText, Look, Said};
use rategov_server::gateway::sse_opening::{Opening, opening};

/// 2026-12-01T12:00:00Z.
const NOON: WallTime = WallTime::from_secs(1_796_126_400);

fn all_rules() -> Vec<ErrorRule> {
    [
        tables::openai_rules(),
        tables::anthropic_rules(),
        tables::generic_rules(),
    ]
    .concat()
}

fn said(status: u16, body: &[u8], hidden: &[&str]) -> Said {
    let dialect = &tables::generic();
    error_body::read(status, body, Look { dialect, hidden })
}

fn facts(status: u16, fields: &[(&str, &str)], said: &Said) -> Facts {
    let headers: Vec<_> = fields.iter().map(|(n, v)| (*n, v.as_bytes())).collect();
    let answer = Answer {
        status,
        headers: &headers,
        error: said.error.as_ref().map(ErrorText::lend),
        values: &said.values,
        arrived: NOON,
    };
    read_answer(&answer, &tables::generic(), &all_rules())
}

/// `meaning, status for the policy, reach, wait`.
fn line(facts: &Facts) -> String {
    let wait = facts
        .retry_after
        .map_or_else(|| "no wait".to_owned(), |wait| wait.to_string());
    let (meaning, reach) = (facts.meaning.word(), facts.reach.word());
    format!("{meaning}, {}, {reach}, {wait}", facts.policy_status())
}

#[track_caller]
fn check(report: &str, status: u16, fields: &[(&str, &str)], body: &str, expected: &str) {
    let said = said(status, body.as_bytes(), &[]);
    assert_eq!(line(&facts(status, fields, &said)), expected, "{report}");
}

#[test]
fn refusals_that_time_cures_name_their_wait() {
    let rate = "rate_limited, 429, account";
    check(
        "R1",
        429,
        &[("retry-after", "3")],
        "",
        &format!("{rate}, 3s"),
    );
    check(
        "R5",
        429,
        &[("retry-after", "-5")],
        "",
        &format!("{rate}, no wait"),
    );
    check(
        "R7",
        429,
        &[("retry-after", "0")],
        "",
        &format!("{rate}, 0s"),
    );
    check(
        "R10",
        429,
        &[("retry-after", "1800")],
        "",
        &format!("{rate}, 1800s"),
    );
    check(
        "R95",
        429,
        &[("retry-after", "0.2")],
        "",
        &format!("{rate}, 200ms"),
    );
    let token_limit = [
        ("x-ratelimit-remaining-requests", "40"),
        ("x-ratelimit-reset-requests", "1s"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "8s"),
    ];
    check("R16", 429, &token_limit, "", &format!("{rate}, 8s"));
    let primary = [
        ("date", "Tue, 01 Dec 2026 11:59:56 GMT"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1796126406"),
    ];
    let body = r#"{"message":"API rate limit exceeded"}"#;
    // Ten seconds by seconds that were both cut: the last one is waited out.
    check("R17", 403, &primary, body, &format!("{rate}, 11s"));
    let body = r#"{"message":"Too many tokens, please wait before trying again."}"#;
    let throttled = [("x-amzn-errortype", "ThrottlingException")];
    check("R28", 429, &throttled, body, &format!("{rate}, no wait"));
    let body = r#"{"message":"You have exceeded a secondary rate limit"}"#;
    check("R34", 403, &[], body, &format!("{rate}, 60s"));
    let body = r#"{"errors":[{"extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"requestedQueryCost":100,"throttleStatus":{"maximumAvailable":1000,"currentlyAvailable":12,"restoreRate":50}}}}"#;
    check("R35", 200, &[], body, &format!("{rate}, 1.760s"));
    let body = r#"{"ok":false,"error":"rate_limited","retry_after":1}"#;
    check(
        "R37",
        429,
        &[("retry-after", "1")],
        body,
        &format!("{rate}, 1s"),
    );
    let body = r#"{"error":{"code":429,"message":"rate limited upstream"}}"#;
    check("R86", 200, &[], body, &format!("{rate}, no wait"));
    let body = r#"{"error":{"type":"rate_limit_error"}}"#;
    check(
        "R94",
        429,
        &[("retry-after", "2")],
        body,
        "rate_limited, 429, model, 2s",
    );
}

#[test]
fn other_refusals_are_not_taken_for_a_rate() {
    let body = r#"{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"quota exceeded"}}"#;
    check(
        "R19",
        429,
        &[],
        body,
        "quota_exhausted, 429, account, no wait",
    );
    let body = r#"{"error":{"message":"Subscription quota exceeded"}}"#;
    check(
        "R20",
        429,
        &[],
        body,
        "quota_exhausted, 429, account, no wait",
    );
    let body = r#"{"error":{"code":400,"message":"API key expired","details":[{"reason":"API_KEY_INVALID"}]}}"#;
    check(
        "R22",
        400,
        &[],
        body,
        "credential, 400, credential, no wait",
    );
    let body = r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}"#;
    check("R23", 400, &[], body, "billing, 400, account, no wait");
    let body = r#"{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens is required"}}"#;
    check(
        "R23, another text",
        400,
        &[],
        body,
        "caller_error, 400, account, no wait",
    );
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    check("R25", 529, &[], body, "overloaded, 503, endpoint, no wait");
    let body = r#"{"error":{"code":"rate_limit_exceeded","type":"tokens","message":"Request too large: Limit 6000, Requested 6294"}}"#;
    check("R29", 429, &[], body, "too_large, 429, model, no wait");
    let body = r#"{"error":{"code":"concurrent_request_limit_exceeded","retry_after":10}}"#;
    check(
        "R32",
        429,
        &[],
        body,
        "too_many_concurrent, 429, account, 10s",
    );
    let body = r#"{"error":{"code":"idempotency_key_in_use"}}"#;
    check(
        "R38",
        409,
        &[],
        body,
        "key_in_progress, 409, account, no wait",
    );
    let body = r#"{"error":{"code":"resource_exists"}}"#;
    check(
        "R38, another code",
        409,
        &[],
        body,
        "caller_error, 409, account, no wait",
    );
    let body = r#"{"error":{"code":"context_length_exceeded"}}"#;
    check("R55", 400, &[], body, "caller_error, 400, account, no wait");
    let body = r#"{"error":{"code":402,"message":"no credits"}}"#;
    check("R86, 402", 200, &[], body, "billing, 200, account, no wait");
    let body = r#"{"choices":[{"finish_reason":"error"}]}"#;
    check(
        "R86, finish_reason",
        200,
        &[],
        body,
        "caller_error, 200, account, no wait",
    );
    let body = r#"{"choices":[{"message":{"content":"an \"error\" in the text"}}]}"#;
    check("R86, text", 200, &[], body, "ok, 200, account, no wait");
    let body = r#"{"error":{"message":"quota exceeded"}}"#;
    let weeks = [("retry-after", "1209600")];
    check(
        "R110",
        429,
        &weeks,
        body,
        "rate_limited, 429, account, 1209600s",
    );
}

#[test]
fn a_reset_in_prose_is_read_only_with_a_known_clock() {
    let body =
        r#"{"error":{"message":"Usage limit reached for 5 hour. Resets at 2026-01-01 05:00:00"}}"#;
    let error = said(429, body.as_bytes(), &[]).error.unwrap();
    let headers: [(&str, &[u8]); 1] = [("date", b"Thu, 01 Jan 2026 00:00:00 GMT")];
    let wait = |clock| {
        let dialect = Dialect::new(tables::generic().fields().to_vec(), clock).unwrap();
        line(&read(
            429,
            &headers,
            Some(&error.lend()),
            &dialect,
            &all_rules(),
            NOON,
        ))
    };
    assert_eq!(
        wait(MessageClock::Utc),
        "quota_exhausted, 429, account, 18000s"
    );
    assert_eq!(
        wait(MessageClock::Unknown),
        "quota_exhausted, 429, account, no wait"
    );
}

#[test]
fn an_overload_inside_a_stream_of_200_is_an_overload() {
    let stream = b"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let dialect = &tables::generic();
    let hidden = &[];
    let Opening::Failed(said) = opening(stream, Look { dialect, hidden }) else {
        panic!("not found")
    };
    assert_eq!(
        line(&facts(200, &[], &said)),
        "overloaded, 503, endpoint, no wait"
    );
}

#[test]
fn a_key_echoed_by_the_provider_is_nowhere_in_the_facts() {
    let body = r#"{"error":{"message":"bad key sk-canary-1","code":"sk-canary-1","type":"t"}}"#;
    for status in [400, 401, 429, 500] {
        let said = said(status, body.as_bytes(), &["sk-canary-1"]);
        let facts = facts(status, &[], &said);
        assert!(
            !format!("{facts:?} {said:?}").contains("canary"),
            "{facts:?}"
        );
    }
}
