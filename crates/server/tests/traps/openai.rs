//! OpenAI, and Azure OpenAI, whose fields have the same names and other habits.

use rategov_core::cost::{Cost, Dimension};
use rategov_core::ledger::Reason;
use rategov_core::observe::{Kind, Meaning, Reach};
use rategov_core::time::{Moment, Span};

use super::account::{Account, at, settings};
use super::{check, facts, limits, secs};

const CHAT: (&str, &str) = ("POST /v1/chat/completions", "gpt-x");
const RATE: &str = r#"{"error":{"type":"tokens","code":"rate_limit_exceeded","message":"M"}}"#;

/// The same status, and for money the same words, say "in a moment" and "never".
#[test]
fn openai_a_429_is_a_rate_or_an_empty_purse() {
    check("openai", 429, &[], RATE, Kind::RateLimited);
    for code in [
        "credit_balance_exhausted",
        "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
    ] {
        let body = format!(r#"{{"error":{{"type":"insufficient_quota","code":"{code}"}}}}"#);
        check("openai", 429, &[], &body, Kind::Billing);
    }
    let mut account = Account::of("openai");
    let body = r#"{"error":{"type":"insufficient_quota","code":"credit_balance_exhausted"}}"#;
    let now = account.hear(at(1), CHAT, (429, &[], body));
    let other_model = ("POST /v1/responses", "gpt-y");
    assert_eq!(
        account.block(now, other_model).map(|(_, until)| until),
        Some(Moment::NEVER),
        "no wait pays a bill"
    );
}

/// `reset` says when the bucket will be full, and the next call fits long before.
#[test]
fn openai_reset_is_until_the_bucket_is_full() {
    let fields = [
        ("x-ratelimit-limit-tokens", "150000"),
        ("x-ratelimit-remaining-tokens", "90000"),
        ("x-ratelimit-reset-tokens", "6m0s"),
    ];
    let refused = facts("openai", 429, &fields, RATE);
    assert!(refused.readings[0].refills);
    assert_eq!(refused.retry_after, None, "something is left");
    let mut account = Account::of("openai");
    let now = account.hear(at(1), CHAT, (200, &fields, "{}"));
    assert_eq!(account.wait(now, CHAT), Span::ZERO);
    // One of sixty was used, and the bucket is full in a second: so one comes a second.
    let one_used = [
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-remaining-requests", "59"),
        ("x-ratelimit-reset-requests", "1s"),
    ];
    let none_left = [
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "60s"),
    ];
    let mut account = Account::of("openai");
    let now = account.hear(at(1), CHAT, (200, &one_used, "{}"));
    let now = account.hear(now, CHAT, (200, &none_left, "{}"));
    let wait = account.wait(now, CHAT);
    assert!(
        Span::from_millis(500) < wait && wait < Span::from_secs(5),
        "{wait}, and not the minute until all are back"
    );
}

/// An answer without a single field about limits is no limit of zero.
#[test]
fn openai_a_success_may_tell_no_limit() {
    assert!(facts("openai", 200, &[], "{}").readings.is_empty());
    let mut account = Account::of("openai");
    let now = account.hear(at(1), CHAT, (200, &[], "{}"));
    assert_eq!(account.wait(now, CHAT), Span::ZERO);
}

/// `slow_down` is about how fast the traffic of the whole organisation grew.
#[test]
fn openai_a_steep_ramp_concerns_the_organization() {
    let body = r#"{"error":{"type":"rate_limit_error","code":"slow_down","message":"M"}}"#;
    let refused = facts("openai", 429, &[], body);
    assert_eq!(
        (refused.kind, refused.reach),
        (Kind::RateLimited, Reach::Account)
    );
    let rate = facts("openai", 429, &[], RATE);
    assert_eq!(rate.reach, Reach::Model, "a rate concerns its model");
}

/// The tokens of a project are a limit of their own, beside those of the model.
#[test]
fn openai_a_project_may_run_out_while_its_model_has_plenty() {
    let fields = [
        ("x-ratelimit-limit-tokens", "150000"),
        ("x-ratelimit-remaining-tokens", "149000"),
        ("x-ratelimit-reset-tokens", "400ms"),
        ("x-ratelimit-limit-project-tokens", "60000"),
        ("x-ratelimit-remaining-project-tokens", "0"),
        ("x-ratelimit-reset-project-tokens", "41s"),
    ];
    let refused = facts("openai", 429, &fields, RATE);
    assert_eq!(refused.exhausted().unwrap().label(), "project_tokens");
    assert_eq!(
        (refused.reach, refused.retry_after),
        (Reach::Account, secs(41))
    );
}

/// A day's requests are told in the fields that elsewhere count a minute's.
#[test]
fn openai_a_day_of_requests_has_the_fields_of_a_minute() {
    let fields = [
        ("x-ratelimit-limit-requests", "200"),
        ("x-ratelimit-remaining-requests", "6"),
        ("x-ratelimit-reset-requests", "23h18m29.144s"),
    ];
    let near = facts("openai", 200, &fields, "{}");
    assert_eq!(limits(&near), ["requests 6/200 83909.144s"]);
    let mut account = Account::of("openai");
    let now = account.hear(at(1), CHAT, (200, &fields, "{}"));
    assert_eq!(account.burst(now, CHAT), 6, "what is left may go, no more");
}

/// A provider without capacity says nothing about what the caller may use.
#[test]
fn openai_an_overload_is_no_quota() {
    let body = r#"{"error":{"type":"service_unavailable_error","code":"server_is_overloaded"}}"#;
    let refused = facts("openai", 503, &[], body);
    assert_eq!(
        (refused.kind, refused.reach),
        (Kind::Overloaded, Reach::Endpoint)
    );
}

const DEPLOYED: (&str, &str) = ("POST /openai/deployments/{model}/chat/completions", "gpt-x");

/// The reset is spelt in two ways, and with the second there is no `Retry-After`.
#[test]
fn azure_a_reset_is_spelt_in_two_ways() {
    for name in ["x-rate-limit-reset-tokens", "x-ratelimit-reset-tokens"] {
        let told = facts("azure-openai", 429, &[(name, "55")], "");
        assert_eq!(limits(&told), ["tokens -/- 55s"], "{name}");
    }
}

/// The only wait may stand in the sentence, and the same sentence names a whole day.
#[test]
fn azure_the_wait_may_stand_in_the_sentence_only() {
    let body = r#"{"error":{"code":"429","message":"… have exceeded token rate limit. Please retry after 55 seconds."}}"#;
    let refused = facts("azure-openai", 429, &[], body);
    assert_eq!(
        (refused.kind, refused.retry_after),
        (Kind::RateLimited, secs(55))
    );
    let day = facts("azure-openai", 429, &[], &body.replace("55", "86400"));
    assert_eq!(
        (day.kind, day.retry_after),
        (Kind::QuotaExhausted, secs(86_400))
    );
}

/// Minus one, and a reset of zero beside it, mean "not known".
#[test]
fn azure_minus_one_is_not_known_and_not_nothing() {
    let unknown = [
        ("x-ratelimit-limit-tokens", "-1"),
        ("x-ratelimit-remaining-tokens", "-1"),
        ("x-ratelimit-reset-tokens", "0"),
    ];
    let told = facts("azure-openai", 200, &unknown, "");
    assert_eq!((told.kind, limits(&told)), (Kind::Ok, vec![]));
    let mut account = Account::of("azure-openai");
    let now = account.hear(at(1), DEPLOYED, (200, &unknown, "{}"));
    assert_eq!(account.wait(now, DEPLOYED), Span::ZERO);
}

/// What is left comes from a cache and can be minutes old: our own count stands over it.
#[test]
fn azure_what_is_left_may_be_minutes_old() {
    let quota = "{ dimension: requests, limit: 10, window: 60s, kind: sliding, scope: model }";
    let mut account = Account::with_quotas("azure-openai", quota);
    let stale = [("x-ratelimit-remaining-requests", "9")];
    let mut now = at(100);
    let mut sent = 0;
    while account.block(now, DEPLOYED).is_none() && sent < 100 {
        now = account.hear(now, DEPLOYED, (200, &stale, "{}"));
        sent += 1;
    }
    assert_eq!(sent, 10);
}

/// Tokens are charged when a call arrives, by all that it could use, and stay charged.
#[test]
fn azure_charges_the_whole_of_max_tokens() {
    let quota = "{ dimension: tokens, limit: 10000, window: 60s, kind: sliding, scope: model }";
    let mut account = Account::with_quotas("azure-openai", quota);
    let charge = settings("azure-openai", "").undeclared.policy.charge;
    let cost = super::bedrock::reserved(&charge, 900, 4_000);
    assert_eq!(cost.of(Dimension::Tokens), 4_900);
    let settled = super::bedrock::settled(&charge, 900, 4_000, 250);
    assert_eq!(settled.of(Dimension::Tokens), 4_900, "250 were used");
    let first = account.send_costing(at(100), DEPLOYED, cost);
    account.ledger.used(at(101), first, &settled);
    account.answer(at(101), first, (200, &[], "{}"));
    account.send_costing(at(102), DEPLOYED, cost);
    let (reason, _) = account.blocked(at(103), DEPLOYED, cost).unwrap();
    assert_eq!(reason, Reason::Quota, "two of them fill the minute");
    assert_eq!(account.blocked(at(103), DEPLOYED, Cost::ONE), None);
}

/// 600 a minute are looked at by the second: eleven at once are refused.
#[test]
fn azure_a_minute_is_looked_at_by_the_second() {
    let quota = "{ dimension: requests, limit: 600, window: 60s, kind: fixed, scope: model }";
    let mut account = Account::with_quotas("azure-openai", quota);
    let refusal = r#"{"error":{"code":"429","message":"… have exceeded call rate limit. Please retry after 1 seconds."}}"#;
    let (mut now, mut arrivals, mut refused) = (at(100), Vec::new(), 0);
    while now < at(220) {
        account
            .ledger
            .handle_timeout(now, rategov_core::time::Draw::ZERO);
        if let Some((_, until)) = account.block(now, DEPLOYED) {
            now = until
                .min(account.ledger.next_change(now))
                .max(now + Span::from_millis(1));
            continue;
        }
        let permit = account.send(now, DEPLOYED);
        arrivals.push(now);
        let in_second = |it: &&Moment| now < **it + Span::from_secs(1);
        let says = match arrivals.iter().rev().take_while(in_second).count() {
            0..=10 => (200, "{}"),
            _ => (429, refusal),
        };
        refused += usize::from(says.0 == 429);
        account.answer(now, permit, (says.0, &[], says.1));
    }
    assert!(
        refused <= 2,
        "refused {refused} of {} times",
        arrivals.len()
    );
    assert!(900 < arrivals.len(), "{} of 1200", arrivals.len());
}

/// A lack of capacity has the status of a limit.
#[test]
fn azure_high_demand_is_no_limit_of_ours() {
    let body = r#"{"error":{"code":"429","message":"System is experiencing high demand and cannot process your request."}}"#;
    let refused = facts("azure-openai", 429, &[], body);
    assert_eq!(
        (refused.kind, refused.meaning),
        (Kind::Overloaded, Meaning::Overloaded)
    );
}

/// A gateway of the customer's in front refuses its rate with 429 and its quota with 403.
#[test]
fn azure_the_api_in_front_refuses_its_quota_with_a_403() {
    let body = r#"{"statusCode":403,"message":"Out of call volume quota. Quota will be replenished in 01:02:03."}"#;
    check("azure-openai", 403, &[], body, Kind::QuotaExhausted);
    check(
        "azure-openai",
        403,
        &[],
        r#"{"statusCode":403,"message":"Forbidden"}"#,
        Kind::Permission,
    );
}
