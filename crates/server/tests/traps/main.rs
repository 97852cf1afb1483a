//! The traps in what providers answer, one test each: what looks alike and is not,
//! what is named alike and counted otherwise, and what stands where nobody looks.
//!
//! Every case goes through the preset of its provider, bytes in, facts out. The
//! traps that concern no parsing have their tests elsewhere: reservation by the
//! worst case in the ledger's, SDKs that multiply in `e2e/`, long silences in the
//! gateway's.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod any_answer;

use rategov_core::observe::{Advice, Facts, Kind, Meaning, Reach};
use rategov_core::time::{Span, WallTime};
use rategov_server::config::speech::Speech;
use rategov_server::gateway::reading::Tongue;
use rategov_server::gateway::understand::understand;

/// Our clock is far off: only the answers' own dates may count.
const WRONG_CLOCK: WallTime = WallTime::from_secs(1_000_000_000);
const DATE: (&str, &str) = ("date", "Tue, 01 Dec 2026 12:00:00 GMT");

fn facts(provider: &str, status: u16, fields: &[(&str, &str)], body: &str) -> Facts {
    let speech = Speech::of(provider, None);
    assert_eq!(speech.preset, provider, "there is a preset");
    let fields = [fields, &[DATE]].concat();
    let headers: Vec<_> = fields.iter().map(|(n, v)| (*n, v.as_bytes())).collect();
    let tongue = Tongue {
        dialect: &speech.dialect,
        rules: &speech.errors,
        hidden: &[],
        arrived: WRONG_CLOCK,
    };
    understand(status, &headers, body.as_bytes(), tongue)
}

#[track_caller]
fn check(provider: &str, status: u16, fields: &[(&str, &str)], body: &str, expected: Kind) {
    let facts = facts(provider, status, fields, body);
    assert_eq!(
        facts.kind, expected,
        "{provider} {status} {body}: {facts:?}"
    );
}

fn left(facts: &Facts) -> Vec<String> {
    let line = |r: &rategov_core::observe::Reading| format!("{} {:?}", r.label(), r.remaining);
    facts.readings.iter().map(line).collect()
}

#[test]
fn the_same_status_says_wait_two_seconds_and_wait_until_next_month() {
    let body = r#"{"error":{"type":"rate_limit_error","message":"M"}}"#;
    check(
        "anthropic",
        429,
        &[("retry-after", "2")],
        body,
        Kind::RateLimited,
    );
    let body = r#"{"error":{"type":"rate_limit_error","message":"M","details":{"error_code":"enforced_spend_limit_reached"}}}"#;
    check("anthropic", 429, &[], body, Kind::Billing);
    let body = r#"{"error":{"type":"tokens","code":"rate_limit_exceeded","message":"M"}}"#;
    check("openai", 429, &[], body, Kind::RateLimited);
    let body = r#"{"error":{"type":"insufficient_quota","code":"project_spend_limit_exceeded"}}"#;
    check("openai", 429, &[], body, Kind::Billing);
    let body = r#"{"status":"error","policyName":"TEN_SECONDLY_ROLLING","message":"M"}"#;
    check("hubspot", 429, &[], body, Kind::RateLimited);
    check(
        "hubspot",
        429,
        &[],
        &body.replace("TEN_SECONDLY_ROLLING", "DAILY"),
        Kind::QuotaExhausted,
    );
    let body = r#"{"errors":[{"error":"RATE_LIMIT_REACHED"}]}"#;
    check("airtable", 429, &[], body, Kind::RateLimited);
    let body = r#"{"errors":[{"error":"PUBLIC_API_BILLING_LIMIT_EXCEEDED"}]}"#;
    let month = facts("airtable", 429, &[], body);
    assert!(!matches!(month.kind, Kind::RateLimited), "{month:?}");
}

#[test]
fn a_quota_of_a_day_is_one_however_short_its_retry_delay() {
    let body = |id: &str, value: &str| {
        format!(
            r#"{{"error":{{"code":429,"status":"RESOURCE_EXHAUSTED","message":"M","details":[
                {{"violations":[{{"quotaId":"{id}","quotaValue":"{value}"}}]}},
                {{"retryDelay":"25.5s"}}]}}}}"#
        )
    };
    let day = facts(
        "gemini",
        429,
        &[],
        &body("GenerateRequestsPerDayPerProjectPerModel", "20"),
    );
    assert_eq!(
        (day.kind, day.retry_after),
        (Kind::QuotaExhausted, Some(Span::from_millis(25_500)))
    );
    let minute = body("GenerateRequestsPerMinutePerProjectPerModel", "5");
    check("gemini", 429, &[], &minute, Kind::RateLimited);
    // Nothing was ever granted, so no wait helps.
    let nothing = facts(
        "gemini",
        429,
        &[],
        &body("GenerateRequestsPerDayPerProjectPerModel", "0"),
    );
    assert_eq!(
        (nothing.kind, nothing.advice),
        (Kind::NoAllowance, Some(Advice::No))
    );
    assert_eq!(nothing.meaning, Meaning::Billing);
}

#[test]
fn a_limit_of_zero_is_no_limit_to_wait_for() {
    let zero = [
        ("x-ratelimit-limit-req-minute", "0"),
        ("x-ratelimit-remaining-req-minute", "0"),
    ];
    let body = r#"{"message":"Rate limit exceeded","code":"1300"}"#;
    let none = facts("mistral", 429, &zero, body);
    assert_eq!((none.kind, none.readings.len()), (Kind::NoAllowance, 0));
    assert_eq!(none.asides().limits[0].limit, Some(0));
}

#[test]
fn the_same_field_counts_a_day_here_and_a_minute_there() {
    let fields = [
        ("x-ratelimit-limit-requests", "14400"),
        ("x-ratelimit-remaining-requests", "14352"),
        ("x-ratelimit-reset-requests", "2m41.5s"),
    ];
    let groq = &facts("groq", 200, &fields, "").readings[0];
    assert_eq!(
        (groq.label(), groq.window),
        ("requests_day", Some(Span::from_secs(86_400)))
    );
    let openai = &facts("openai", 200, &fields, "").readings[0];
    assert_eq!(openai.label(), "requests");
}

#[test]
fn the_same_reset_is_an_epoch_a_delta_and_milliseconds() {
    let reset = |provider: &str, fields: &[(&str, &str)]| {
        let facts = facts(provider, 200, fields, "");
        facts.readings[0].reset_after
    };
    let gitlab = [
        ("ratelimit-remaining", "9"),
        ("ratelimit-reset", "1796126429"),
    ];
    assert_eq!(reset("gitlab", &gitlab), Some(Span::from_secs(29)));
    let zendesk = [("ratelimit-remaining", "9"), ("ratelimit-reset", "37")];
    assert_eq!(reset("zendesk", &zendesk), Some(Span::from_secs(37)));
    let linear = [
        ("x-ratelimit-requests-remaining", "9"),
        ("x-ratelimit-requests-reset", "1796130000000"),
    ];
    assert_eq!(reset("linear", &linear), Some(Span::from_secs(3_600)));
    let jira = [
        ("x-ratelimit-remaining", "9"),
        ("x-ratelimit-reset", "2026-12-01T12:01Z"),
    ];
    assert_eq!(reset("jira", &jira), Some(Span::from_secs(60)));
}

#[test]
fn a_full_bucket_is_far_and_the_next_call_is_near() {
    let fields = [
        ("x-ratelimit-limit-tokens", "150000"),
        ("x-ratelimit-remaining-tokens", "90000"),
        ("x-ratelimit-reset-tokens", "6m0s"),
    ];
    let body = r#"{"error":{"code":"rate_limit_exceeded","message":"M"}}"#;
    let refused = facts("openai", 429, &fields, body);
    assert!(refused.readings[0].refills, "the bucket is full then");
    assert_eq!(
        refused.retry_after, None,
        "something is left, so nobody waits for it"
    );
    let github = [
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1796126460"),
    ];
    assert!(
        !facts("github", 200, &github, "").readings[0].refills,
        "the window ends then"
    );
}

#[test]
fn a_limit_may_hide_behind_a_success() {
    let graphql = r#"{"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded"}]}"#;
    let limited = facts(
        "github-graphql",
        200,
        &[("x-ratelimit-remaining", "0")],
        graphql,
    );
    assert!(limited.meaning.is_limit(), "{limited:?}");
    let shopify = r#"{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],
        "extensions":{"cost":{"requestedQueryCost":202,"throttleStatus":{
        "maximumAvailable":1000.0,"currentlyAvailable":118.0,"restoreRate":50.0}}}}"#;
    let throttled = facts("shopify-graphql", 200, &[], shopify);
    assert_eq!(throttled.meaning, Meaning::RateLimited);
    assert_eq!(throttled.retry_after, Some(Span::from_millis(1_680)));
    let stream = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"error\":{\"code\":429,\"message\":\"M\"},\"choices\":[]}\n\n";
    let sse = [("content-type", "text/event-stream")];
    check("openrouter", 200, &sse, stream, Kind::RateLimited);
    check(
        "slack",
        200,
        &[],
        r#"{"ok":false,"error":"invalid_auth"}"#,
        Kind::Credential,
    );
    check("slack", 200, &[], r#"{"ok":true,"channel":"C1"}"#, Kind::Ok);
}

#[test]
fn a_refused_member_leaves_the_batch_a_success() {
    let body = r#"{"responses":[{"id":"1","status":200,"body":{}},
        {"id":"2","status":429,"headers":{"retry-after":"13"},"body":{"error":{"code":"TooManyRequests"}}}]}"#;
    let batch = facts("microsoft-graph", 200, &[], body);
    assert_eq!(
        (batch.kind, batch.meaning),
        (Kind::PartlyLimited, Meaning::Ok)
    );
    assert_eq!(batch.retry_after, Some(Span::from_secs(13)));
    let fine = r#"{"responses":[{"id":"1","status":200},{"id":"2","status":404}]}"#;
    check("microsoft-graph", 200, &[], fine, Kind::Ok);
}

#[test]
fn a_limit_may_hide_behind_a_400() {
    let body =
        r#"{"errors":[{"message":"M","extensions":{"code":"RATELIMITED","statusCode":429}}]}"#;
    assert!(
        facts("linear", 400, &[("retry-after", "60")], body)
            .meaning
            .is_limit()
    );
    let quota = [(
        "x-amzn-errortype",
        "ServiceQuotaExceededException:http://internal/",
    )];
    let bedrock = facts("aws-bedrock", 400, &quota, r#"{"message":"M"}"#);
    assert_eq!(
        (bedrock.kind, bedrock.advice),
        (Kind::QuotaExhausted, Some(Advice::No))
    );
    let body = r#"{"error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits."}}"#;
    check("anthropic", 400, &[], body, Kind::Billing);
    check(
        "stripe",
        400,
        &[],
        r#"{"error":{"code":"rate_limit"}}"#,
        Kind::RateLimited,
    );
}

#[test]
fn headers_of_another_bucket_than_the_one_that_refused_are_not_waited_for() {
    let other = [
        ("ratelimit-limit", "600"),
        ("ratelimit-remaining", "595"),
        ("ratelimit-reset", "1796126460"),
    ];
    let body = r#"{"message":{"error":"This endpoint has been requested too many times. Try again later."}}"#;
    let gitlab = facts("gitlab", 429, &other, body);
    assert_eq!(
        (gitlab.meaning, gitlab.retry_after),
        (Meaning::RateLimited, None)
    );
    let secondary = [
        ("x-ratelimit-remaining", "4200"),
        ("x-ratelimit-reset", "1796128200"),
    ];
    let body = r#"{"message":"You have exceeded a secondary rate limit."}"#;
    let github = facts("github", 403, &secondary, body);
    assert_eq!(github.retry_source, Some("the provider's documented wait"));
    let shared = [
        ("retry-after", "901"),
        ("x-ratelimit-remaining", "9"),
        ("x-ratelimit-reset-after", "12.34"),
        ("x-ratelimit-scope", "shared"),
    ];
    let discord = facts(
        "discord",
        429,
        &shared,
        r#"{"retry_after":900.41,"global":false}"#,
    );
    assert_eq!(discord.retry_after, Some(Span::from_millis(900_410)));
    let burst = [
        ("retry-after", "600"),
        ("x-ratelimit-limit", "350"),
        ("x-ratelimit-remaining", "349"),
        ("ratelimit-reason", "jira-quota-tenant-based"),
    ];
    check("jira", 429, &burst, "", Kind::QuotaExhausted);
}

#[test]
fn what_is_not_known_is_not_nothing() {
    let unknown = [
        ("x-ratelimit-limit-tokens", "-1"),
        ("x-ratelimit-remaining-tokens", "-1"),
        ("x-ratelimit-reset-tokens", "0"),
    ];
    let azure = facts("azure-openai", 200, &unknown, "");
    assert_eq!((azure.kind, left(&azure)), (Kind::Ok, vec![]));
    assert!(facts("openai", 200, &[], "").readings.is_empty());
}

#[test]
fn a_penalty_that_no_field_names_is_waited_out() {
    let body = r#"{"errors":[{"error":"RATE_LIMIT_REACHED","message":"M"}]}"#;
    let airtable = facts("airtable", 429, &[], body);
    assert_eq!(airtable.retry_after, Some(Span::from_secs(30)));
    assert_eq!(
        airtable.retry_source,
        Some("the provider's documented wait")
    );
}

#[test]
fn a_402_is_not_always_final_and_a_429_not_always_a_rate() {
    let body = r#"{"error":{"code":402,"message":"M","metadata":{"reason":"in_flight_budget_exhausted"}}}"#;
    check(
        "openrouter",
        402,
        &[("retry-after", "5")],
        body,
        Kind::TooManyConcurrent,
    );
    check(
        "openrouter",
        402,
        &[],
        r#"{"error":{"code":402,"message":"M"}}"#,
        Kind::Billing,
    );
    let lock = facts(
        "stripe",
        429,
        &[],
        r#"{"error":{"code":"lock_timeout","message":"M"}}"#,
    );
    assert_eq!(
        (lock.kind, lock.meaning),
        (Kind::LockConflict, Meaning::Overloaded)
    );
    assert_ne!(
        lock.reach,
        Reach::Account,
        "the account is not closed for one object"
    );
    let warming = [("x-amzn-errortype", "ModelNotReadyException")];
    check(
        "aws-bedrock",
        429,
        &warming,
        r#"{"message":"M"}"#,
        Kind::Overloaded,
    );
    let below = r#"{"error":{"message":"M","type":"service_unavailable"}}"#;
    check("together", 503, &[], below, Kind::Overloaded);
    let shared = r#"[{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"M"}}]"#;
    check("vertex-ai", 429, &[], shared, Kind::Overloaded);
}

#[test]
fn a_body_may_be_text_a_page_a_list_or_a_bare_sentence() {
    check(
        "deepseek",
        401,
        &[],
        "Authentication Fails (governor)",
        Kind::Credential,
    );
    check("gitlab", 429, &[], "Retry later\n", Kind::RateLimited);
    check(
        "gitlab",
        429,
        &[],
        "<html><body>Too many</body></html>",
        Kind::RateLimited,
    );
    let list =
        r#"[{"message":"TotalRequests Limit exceeded.","errorCode":"REQUEST_LIMIT_EXCEEDED"}]"#;
    check("salesforce", 403, &[], list, Kind::QuotaExhausted);
    let flat =
        r#"{"code":"Some resource has been exhausted","error":"Too many requests for team."}"#;
    check("xai", 429, &[], flat, Kind::RateLimited);
    for broken in ["", "{", "\u{0}\u{ff}", "[]", "null", "\"\""] {
        for provider in ["gemini", "salesforce", "github-graphql"] {
            check(provider, 429, &[], broken, Kind::RateLimited);
        }
    }
}

#[test]
fn a_limit_that_is_only_announced_looks_used_up_and_stops_nobody() {
    let beta = [("beta-ratelimit", r#""tenant-app-quota";r=0;t=2650"#)];
    let jira = facts("jira", 200, &beta, "");
    assert_eq!((jira.kind, left(&jira)), (Kind::Ok, vec![]));
    assert_eq!(jira.asides().limits[0].label(), "beta:tenant-app-quota");
}

#[test]
fn fields_that_nobody_documents_say_nothing() {
    let invented = [
        ("claude-ratelimit-remaining", "0"),
        ("claude-ratelimit-reset", "60"),
    ];
    let anthropic = facts("anthropic", 200, &invented, "");
    assert!(anthropic.readings.is_empty() && anthropic.malformed.is_empty());
    let perplexity = facts("perplexity", 200, &[("x-ratelimit-remaining", "0")], "");
    assert!(perplexity.readings.is_empty(), "{perplexity:?}");
}

#[test]
fn a_misspelt_field_and_a_wait_in_a_sentence_are_read_too() {
    let misspelt = [("x-rate-limit-reset-tokens", "55")];
    let body = r#"{"error":{"code":"429","message":"… have exceeded token rate limit. Please retry after 55 seconds."}}"#;
    let azure = facts("azure-openai", 429, &misspelt, body);
    assert_eq!(
        (azure.kind, azure.retry_after),
        (Kind::RateLimited, Some(Span::from_secs(55)))
    );
    let body = body.replace("55", "86400");
    check("azure-openai", 429, &[], &body, Kind::QuotaExhausted);
}

#[test]
fn a_reason_that_nobody_has_seen_before_is_still_a_refusal() {
    let body = r#"{"object":"error","status":429,"code":"rate_limited","message":"M","additional_data":{"rate_limit_reason":"something_new"}}"#;
    let notion = facts("notion", 429, &[("retry-after", "3")], body);
    assert_eq!(
        (notion.kind, notion.retry_after),
        (Kind::RateLimited, Some(Span::from_secs(3)))
    );
}

#[test]
fn a_replay_is_told_from_a_first_answer() {
    let body = r#"{"id":"pi_1"}"#;
    check(
        "stripe",
        200,
        &[("idempotent-replayed", "true")],
        body,
        Kind::Replayed,
    );
    check(
        "stripe",
        200,
        &[("idempotent-replayed", "false")],
        body,
        Kind::Ok,
    );
    check(
        "zendesk",
        201,
        &[("x-idempotency-lookup", "hit")],
        "",
        Kind::Replayed,
    );
    check(
        "zendesk",
        201,
        &[("x-idempotency-lookup", "miss")],
        "",
        Kind::Ok,
    );
}

#[test]
fn a_malformed_value_is_left_out_and_named_once() {
    let fields = [
        ("retry-after", "soon"),
        ("retry-after", "later"),
        ("x-ratelimit-remaining", "many"),
        ("x-ratelimit-reset", "1796126460"),
    ];
    let github = facts("github", 429, &fields, "");
    assert_eq!(github.retry_after, None);
    assert_eq!(github.malformed, ["x-ratelimit-remaining", "retry-after"]);
}
