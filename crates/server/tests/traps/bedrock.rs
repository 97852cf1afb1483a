//! Amazon Bedrock, and what it means that a provider charges by what a call could use.

use std::sync::Arc;

use rategov_core::cost::{Cost, Dimension};
use rategov_core::estimate::kinds::Kind as CallKind;
use rategov_core::estimate::{Charge, Estimator, Sizing, Usage};
use rategov_core::id::{Agent, Endpoint};
use rategov_core::ledger::Reason;
use rategov_core::observe::{Advice, Kind, Meaning, Reach};

use super::account::{Account, at, settings};
use super::{check, facts};

const CONVERSE: (&str, &str) = ("POST /model/{model}/converse", "claude-x");

fn kind() -> CallKind {
    CallKind {
        agent: Agent::new("desk").unwrap(),
        model: Some(Arc::from("claude-x")),
        endpoint: Endpoint::new("POST /model/{model}/converse").unwrap(),
    }
}

fn sizing(input: u64, most: u64) -> Sizing {
    Sizing {
        input_counted: Some(input),
        most_output: Some(most),
        ..Sizing::default()
    }
}

/// What a call reserves that is known to have so many tokens in, and at most so many out.
pub(crate) fn reserved(charge: &Charge, input: u64, most: u64) -> Cost {
    Estimator::default().reserve(&kind(), &sizing(input, most), charge)
}

/// What it has cost once it has used so many out.
pub(crate) fn settled(charge: &Charge, input: u64, most: u64, output: u64) -> Cost {
    let usage = Usage {
        input: Some(input),
        output: Some(output),
        ..Usage::default()
    };
    Estimator::default()
        .settled(&kind(), &sizing(input, most), &usage, charge)
        .cost
}

/// A call takes its input and the whole of `maxTokens` when it arrives, and gets back
/// at its end what it has not used.
#[test]
fn bedrock_reserves_the_whole_of_max_tokens_and_gives_back() {
    let quota = "{ dimension: tokens, limit: 10000, window: 60s, kind: sliding, scope: model }";
    let mut account = Account::with_quotas("aws-bedrock", quota);
    let charge = settings("aws-bedrock", "").undeclared.policy.charge;
    let cost = reserved(&charge, 900, 4_000);
    assert_eq!(cost.of(Dimension::Tokens), 4_900);
    let used = settled(&charge, 900, 4_000, 250);
    assert_eq!(used.of(Dimension::Tokens), 1_150);
    let first = account.send_costing(at(100), CONVERSE, cost);
    account.send_costing(at(101), CONVERSE, cost);
    let (reason, _) = account.blocked(at(102), CONVERSE, cost).unwrap();
    assert_eq!(reason, Reason::Quota, "two reservations fill the minute");
    account.ledger.used(at(102), first, &used);
    account.answer(at(102), first, (200, &[], "{}"));
    assert_eq!(
        account.blocked(at(102), CONVERSE, used),
        None,
        "3,750 came back"
    );
}

/// A model that is being loaded answers with the status of a limit.
#[test]
fn bedrock_a_429_may_be_a_model_that_is_not_ready() {
    let warming = [("x-amzn-errortype", "ModelNotReadyException")];
    let refused = facts("aws-bedrock", 429, &warming, r#"{"message":"M"}"#);
    assert_eq!(
        (refused.kind, refused.meaning, refused.reach),
        (Kind::Overloaded, Meaning::Overloaded, Reach::Model)
    );
}

/// A quota that only a person can raise comes as a 400, like a mistake in the call.
#[test]
fn bedrock_a_service_quota_is_a_400() {
    let quota = [(
        "x-amzn-errortype",
        "ServiceQuotaExceededException:http://internal/",
    )];
    let refused = facts("aws-bedrock", 400, &quota, r#"{"message":"M"}"#);
    assert_eq!(
        (refused.kind, refused.advice),
        (Kind::QuotaExhausted, Some(Advice::No))
    );
    let mistake = [("x-amzn-errortype", "ValidationException")];
    check(
        "aws-bedrock",
        400,
        &mistake,
        r#"{"message":"M"}"#,
        Kind::CallerError,
    );
}

/// What the error is stands in a header field, with an address behind it.
#[test]
fn bedrock_the_kind_of_an_error_stands_in_a_header() {
    for value in [
        "ThrottlingException",
        "ThrottlingException:http://internal.amazon.com/coral/com.amazon.bedrock/",
        "com.amazon.bedrock#ThrottlingException",
    ] {
        let named = [("X-Amzn-ErrorType", value)];
        let refused = facts(
            "aws-bedrock",
            429,
            &named,
            r#"{"message":"Too many tokens"}"#,
        );
        assert_eq!(refused.error_code.as_deref(), Some("throttlingexception"));
        assert_eq!(
            (refused.kind, refused.reach),
            (Kind::RateLimited, Reach::Model)
        );
    }
}

/// A day's tokens are refused with the code of a moment's rate.
#[test]
fn bedrock_a_day_is_refused_like_a_minute() {
    let throttled = [("x-amzn-errortype", "ThrottlingException")];
    let day = r#"{"message":"Too many tokens per day, please wait before trying again."}"#;
    check("aws-bedrock", 429, &throttled, day, Kind::QuotaExhausted);
    let minute = r#"{"message":"Too many tokens, please wait before trying again."}"#;
    check("aws-bedrock", 429, &throttled, minute, Kind::RateLimited);
}

/// 408 and 424 are not about the call: the model ran out of time, or failed.
#[test]
fn bedrock_a_408_and_a_424_come_from_the_model() {
    let named = |name| [("x-amzn-errortype", name)];
    let body = r#"{"message":"M"}"#;
    let late = facts("aws-bedrock", 408, &named("ModelTimeoutException"), body);
    assert_eq!(
        (late.kind, late.advice),
        (Kind::OutcomeUnknown, Some(Advice::ReconcileFirst)),
        "it may have been billed"
    );
    for name in ["ModelErrorException", "ModelStreamErrorException"] {
        check("aws-bedrock", 424, &named(name), body, Kind::ProviderError);
    }
}
