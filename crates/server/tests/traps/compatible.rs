//! Providers that speak the language of OpenAI and mean something else by some of its
//! words: Groq, Mistral, Cohere, DeepSeek, xAI, Together, Fireworks, Perplexity.

use rategov_core::observe::{Advice, Kind, Reach};
use rategov_core::time::{Moment, Span};
use rategov_server::config::speech::Speech;
use rategov_server::gateway::error_body::Look;
use rategov_server::gateway::sse_opening::{Opening, opening};

use super::account::{Account, at, settings};
use super::{check, facts, limits, secs};

/// The fields about requests count the day, those about tokens the minute.
#[test]
fn groq_requests_are_counted_by_the_day() {
    let fields = [
        ("x-ratelimit-limit-requests", "14400"),
        ("x-ratelimit-remaining-requests", "14352"),
        ("x-ratelimit-reset-requests", "2m41.5s"),
        ("x-ratelimit-limit-tokens", "18000"),
        ("x-ratelimit-remaining-tokens", "17240"),
        ("x-ratelimit-reset-tokens", "6.2s"),
    ];
    let groq = facts("groq", 200, &fields, "");
    assert_eq!(
        limits(&groq),
        [
            "requests_day 14352/14400 161.500s",
            "tokens_minute 17240/18000 6.200s"
        ]
    );
    let windows: Vec<_> = groq
        .readings
        .iter()
        .map(|it| (it.label(), it.window))
        .collect();
    assert!(
        windows.contains(&("requests_day", secs(86_400))),
        "{windows:?}"
    );
    assert!(
        windows.contains(&("tokens_minute", secs(60))),
        "{windows:?}"
    );
    let openai = facts("openai", 200, &fields, "");
    assert!(openai.readings.iter().any(|it| it.label() == "requests"));
}

/// A status that nobody else has: the cheap tier has no capacity now.
#[test]
fn groq_a_498_is_a_lack_of_capacity() {
    let body = r#"{"error":{"message":"M","type":"capacity","code":"capacity_exceeded"}}"#;
    let refused = facts("groq", 498, &[], body);
    assert_eq!(
        (refused.kind, refused.policy_status()),
        (Kind::Overloaded, 503)
    );
}

/// A limit of zero is a model that the organisation may not use.
#[test]
fn mistral_a_limit_of_zero_is_no_allowance() {
    let zero = [
        ("x-ratelimit-limit-req-minute", "0"),
        ("x-ratelimit-remaining-req-minute", "0"),
    ];
    let body = r#"{"message":"Rate limit exceeded","code":"1300"}"#;
    let none = facts("mistral", 429, &zero, body);
    assert_eq!((none.kind, limits(&none)), (Kind::NoAllowance, vec![]));
    assert_eq!(none.asides().limits[0].limit, Some(0));
    let some = [("x-ratelimit-limit-req-minute", "50")];
    check("mistral", 429, &some, body, Kind::RateLimited);
}

/// The month's tokens are refused with the body of a minute's rate.
#[test]
fn mistral_a_month_is_refused_like_a_minute() {
    let month = [
        ("x-ratelimit-limit-tokens-month", "1000000000"),
        ("x-ratelimit-remaining-tokens-month", "0"),
    ];
    let body = r#"{"message":"Rate limit exceeded","code":"1300"}"#;
    check("mistral", 429, &month, body, Kind::QuotaExhausted);
}

/// Which limit it was stands in the sentence alone, and a refusal has no fields.
#[test]
fn cohere_only_the_sentence_tells_a_month_from_a_minute() {
    let says = |message: &str| format!(r#"{{"message":"{message}"}}"#);
    let minute = facts(
        "cohere",
        429,
        &[],
        &says("You are past the per minute request limit."),
    );
    assert_eq!(
        (minute.kind, minute.reach),
        (Kind::RateLimited, Reach::Endpoint)
    );
    let month = says("You are using a Trial key, which is limited to 1000 API calls / month.");
    check("cohere", 429, &[], &month, Kind::QuotaExhausted);
}

/// Under load a call stays open and silent for up to half an hour, and is not lost.
#[test]
fn deepseek_an_answer_may_be_silent_for_half_an_hour() {
    let timeouts = settings("deepseek", "").timeouts;
    let half_an_hour = Span::from_secs(1_800);
    assert!(half_an_hour < timeouts.response && half_an_hour < timeouts.idle);
    // Nobody else's call is given up earlier than its own SDK would.
    let usual = settings("openai", "").timeouts;
    assert!(Span::from_secs(600) <= usual.response && Span::from_secs(600) <= usual.idle);
}

/// The silence is filled with comments and empty lines, which are no answer yet.
#[test]
fn deepseek_comments_and_empty_lines_come_before_an_answer() {
    let speech = Speech::of("deepseek", None);
    let look = Look {
        dialect: &speech.dialect,
        hidden: &[],
    };
    assert_eq!(
        opening(b": keep-alive\n\n\n: keep-alive\n\n", look),
        Opening::Undecided
    );
    let refused = b": keep-alive\n\ndata: {\"error\":{\"code\":429,\"message\":\"M\"}}\n\n";
    assert!(matches!(opening(refused, look), Opening::Failed(_)));
    let body = "\n\n\n\n{\"error\":{\"message\":\"Insufficient Balance\"}}";
    let refused = facts("deepseek", 402, &[], body);
    assert_eq!(
        (refused.kind, refused.error_message.as_deref()),
        (Kind::Billing, Some("Insufficient Balance"))
    );
}

/// What is limited is how many calls are open, and a 429 says only "rate limit".
#[test]
fn deepseek_a_429_is_about_open_calls() {
    let refused = facts(
        "deepseek",
        429,
        &[],
        r#"{"error":{"message":"Rate limit reached"}}"#,
    );
    assert_eq!(
        (refused.kind, refused.advice, refused.reach),
        (
            Kind::TooManyConcurrent,
            Some(Advice::WhenOneFinishes),
            Reach::Model
        )
    );
}

/// A refused credential is answered with a line of text.
#[test]
fn deepseek_a_refused_key_is_a_line_of_text() {
    let refused = facts("deepseek", 401, &[], "Authentication Fails (governor)");
    assert_eq!(
        (refused.kind, refused.error_message),
        (Kind::Credential, None)
    );
}

/// `error` is a bare sentence, and `code` is one as well.
#[test]
fn xai_the_error_is_a_bare_sentence() {
    let body =
        r#"{"code":"Some resource has been exhausted","error":"Too many requests for team."}"#;
    let refused = facts("xai", 429, &[], body);
    assert_eq!(refused.kind, Kind::RateLimited);
    assert_eq!(
        refused.error_message.as_deref(),
        Some("Too many requests for team.")
    );
}

/// A 503 says that they had too little for a caller who was below its rate; a 429 that
/// the caller was above it.
#[test]
fn together_a_503_is_below_the_rate_and_a_429_above() {
    let below = r#"{"error":{"message":"M","type":"service_unavailable"}}"#;
    check("together", 503, &[], below, Kind::Overloaded);
    let above = r#"{"error":{"message":"M","type":"rate_limit","code":"rate_limit"}}"#;
    check("together", 429, &[], above, Kind::RateLimited);
    let chat = ("POST /v1/chat/completions", "m");
    let mut account = Account::of("together");
    let now = account.hear(at(1), chat, (503, &[], below));
    let state = account
        .ledger
        .state(now, &account.scopes(chat.0, chat.1)[0])
        .unwrap();
    assert_eq!(
        (state.refusals, state.limit),
        (0, None),
        "nothing was learnt"
    );
}

/// Limit and reset are about a second, in fields that elsewhere count a minute.
#[test]
fn together_a_limit_is_of_one_second() {
    let fields = [
        ("x-ratelimit-limit", "10"),
        ("x-ratelimit-remaining", "3"),
        ("x-ratelimit-reset", "1"),
    ];
    let told = facts("together", 200, &fields, "");
    assert_eq!(told.readings[0].window, secs(1));
}

/// The page counts by the minute, its table of fields by the second: nobody knows, so
/// no window is assumed and what is left is what may go.
#[test]
fn fireworks_a_minute_or_a_second_nobody_knows() {
    let fields = [
        ("x-ratelimit-limit-tokens-prompt", "500"),
        ("x-ratelimit-remaining-tokens-prompt", "120"),
        ("x-ratelimit-limit-tokens-generated", "125"),
    ];
    let told = facts("fireworks", 200, &fields, "");
    assert!(
        told.readings.iter().all(|it| it.window.is_none()),
        "{told:?}"
    );
    assert_eq!(
        limits(&told),
        [
            "generated_tokens_second -/125 -",
            "prompt_tokens_second 120/500 -"
        ]
    );
}

/// `x-ratelimit-over-limit: yes` is on answers that succeed.
#[test]
fn fireworks_a_success_may_be_over_the_limit() {
    check(
        "fireworks",
        200,
        &[("x-ratelimit-over-limit", "yes")],
        "{}",
        Kind::NearLimit,
    );
    check(
        "fireworks",
        200,
        &[("x-ratelimit-over-limit", "no")],
        "{}",
        Kind::Ok,
    );
}

/// Fields about limits that are told of this provider are documented nowhere.
#[test]
fn perplexity_fields_that_nobody_documents_say_nothing() {
    let told = facts("perplexity", 200, &[("x-ratelimit-remaining", "0")], "");
    assert!(told.readings.is_empty(), "{told:?}");
    let chat = ("POST /chat/completions", "m");
    let mut account = Account::of("perplexity");
    let now = account.hear(at(1), chat, (200, &[("x-ratelimit-remaining", "0")], "{}"));
    assert_eq!(
        account.block(now, chat).map(|(_, until)| until),
        None::<Moment>
    );
}
