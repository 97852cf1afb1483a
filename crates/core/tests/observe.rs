//! What answers say, against vectors: the project's own cases of `Retry-After`
//! and of providers' responses, and the examples printed in the drafts.
//!
//! The project's own files are under `tests/data`. Foreign ones are read from
//! `RATEGOV_VECTORS`; where they are absent the test says so and passes.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use rategov_core::observe::tables::{
    anthropic, anthropic_rules, generic, generic_rules, openai, openai_rules,
};
use rategov_core::observe::{Dialect, ErrorBody, ErrorRule, Facts, Meaning, read};
use rategov_core::time::{Span, WallTime};
use serde_json::Value;

fn data(file: &str) -> Value {
    let path = format!("{}/tests/data/{file}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap()
}

fn str_fields(object: &Value) -> Vec<(&str, &str)> {
    let fields = object.as_object().into_iter().flatten();
    fields
        .map(|(name, value)| (name.as_str(), value.as_str().unwrap()))
        .collect()
}

fn bytes<'a>(fields: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a [u8])> {
    fields
        .iter()
        .map(|(name, value)| (*name, value.as_bytes()))
        .collect()
}

/// The project's `Retry-After` cases, read through the one entry.
#[test]
fn every_authored_retry_after_case_is_read_as_it_says() {
    /// 2026-08-13T12:00:00Z.
    const NOW: WallTime = WallTime::from_secs(1_786_622_400);
    let file = data("retry-after.json");
    assert_eq!(file["now"], "2026-08-13T12:00:00Z");
    let cases = file["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 23);
    for case in cases {
        let fields = match case.get("raw") {
            Some(raw) => {
                let values = raw.as_array().unwrap().iter();
                values
                    .map(|value| ("retry-after", value.as_str().unwrap()))
                    .collect()
            }
            None => str_fields(&case["headers"]),
        };
        let facts = read(
            429,
            &bytes(&fields),
            None,
            &generic(),
            &generic_rules(),
            NOW,
        );
        let got = facts.retry_after;
        match (
            case["wait_s"].as_u64(),
            case["lenient_wait_s"].as_u64(),
            case["expect"].as_str(),
        ) {
            (Some(wait), ..) => assert_eq!(got, Some(Span::from_secs(wait)), "{case}"),
            (None, Some(lenient), _) => {
                assert_eq!(got.map(Span::as_secs_ceil), Some(lenient), "{case}");
            }
            (None, None, Some("exceeds_budget_fail_fast")) => {
                assert_eq!(got, Some(Span::MAX), "{case}");
            }
            (None, None, _) => {
                assert_eq!(got, None, "{case}");
                assert_eq!(facts.malformed, ["retry-after"], "{case}");
            }
        }
        if let Some(gate) = case["scope_gate_s"].as_u64() {
            let exhausted = facts.exhausted().unwrap();
            assert_eq!(exhausted.reset_after, Some(Span::from_secs(gate)), "{case}");
        }
    }
}

/// The meanings that a case of the vector file allows.
fn meanings(kind: &str) -> &'static [Meaning] {
    match kind {
        "ok" | "near_limit" => &[Meaning::Ok],
        "burst_limit" => &[Meaning::RateLimited],
        "billing_exhausted" => &[Meaning::Billing],
        "overloaded" => &[Meaning::Overloaded],
        "auth" => &[Meaning::Credential],
        "invalid_request" => &[Meaning::CallerError, Meaning::TooLarge],
        other => panic!("the vector file has a kind that this test does not know: {other}"),
    }
}

fn check_numbers(
    case: &Value,
    facts: &Facts,
    field: &str,
    got: impl Fn(&rategov_core::observe::Reading) -> Option<f64>,
) {
    for (dimension, value) in case["meaning"][field].as_object().unwrap() {
        // The file calls a limit without a dimension in its name `default`.
        let dimension = if dimension == "default" {
            "requests"
        } else {
            dimension
        };
        let reading = facts
            .readings
            .iter()
            .find(|reading| reading.dimension == dimension);
        let got = reading.and_then(&got);
        assert_eq!(got, value.as_f64(), "{field} of {dimension} in {case}");
    }
}

fn check(case: &Value, dialect: &Dialect, rules: &[ErrorRule]) {
    let status = u16::try_from(case["status"].as_u64().unwrap()).unwrap();
    let error = &case["body"]["error"];
    let text = |value: &'_ Value| -> Option<String> { value.as_str().map(str::to_owned) };
    let (code, kind, message) = (
        text(&error["details"]["error_code"]).or_else(|| text(&error["code"])),
        text(&error["type"]),
        text(&error["message"]),
    );
    let body = ErrorBody {
        code: code.as_deref(),
        kind: kind.as_deref(),
        message: message.as_deref(),
        ..ErrorBody::default()
    };
    let body = error.is_object().then_some(&body);
    let fields = str_fields(&case["headers"]);
    // A clock far off: only the answers' own dates may count.
    let wrong_clock = WallTime::from_secs(1_000_000_000);
    let facts = read(status, &bytes(&fields), body, dialect, rules, wrong_clock);
    let meaning = &case["meaning"];
    assert!(
        meanings(meaning["kind"].as_str().unwrap()).contains(&facts.meaning),
        "{:?} is not the meaning of {case}",
        facts.meaning
    );
    // The file counts explicit hints only; a reset stands apart there.
    let is_explicit = facts.retry_source != Some("reset of the exhausted limit");
    let explicit = facts.retry_after.filter(|_| is_explicit);
    let wait = explicit.map(Span::as_secs_f64);
    assert_eq!(
        wait,
        meaning["retry_after_seconds"].as_f64(),
        "wait of {case}"
    );
    check_numbers(case, &facts, "remaining", |r| r.remaining.map(|n| n as f64));
    check_numbers(case, &facts, "limit", |r| r.limit.map(|n| n as f64));
    check_numbers(case, &facts, "reset_seconds", |r| {
        r.reset_after.map(Span::as_secs_f64)
    });
    let readings = ["remaining", "limit", "reset_seconds"]
        .map(|field| meaning[field].as_object().unwrap().len())
        .into_iter()
        .max();
    assert_eq!(
        Some(facts.readings.len()),
        readings,
        "readings beyond those of {case}"
    );
}

#[test]
fn every_response_of_openai_anthropic_and_the_generic_provider_means_what_it_says() {
    let (mut run, cases) = (0, data("provider-responses.json"));
    for case in cases.as_array().unwrap() {
        let (dialect, own_rules) = match case["provider"].as_str().unwrap() {
            "openai" => (openai(), openai_rules()),
            "anthropic" => (anthropic(), anthropic_rules()),
            "generic" => (generic(), Vec::new()),
            _ => continue,
        };
        check(case, &dialect, &[own_rules, generic_rules()].concat());
        // The generic dialect knows their fields, too.
        check(
            case,
            &generic(),
            &[openai_rules(), anthropic_rules(), generic_rules()].concat(),
        );
        run += 1;
    }
    assert_eq!(run, 19);
}

#[test]
fn every_example_in_the_ratelimit_drafts_parses() {
    let root = std::env::var("RATEGOV_VECTORS")
        .unwrap_or_else(|_| format!("{}/../../../shared/vectors", env!("CARGO_MANIFEST_DIR")));
    let path = format!("{root}/ratelimit-fields/examples-by-draft.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: no draft examples at {path}; set RATEGOV_VECTORS");
        return;
    };
    let file: Value = serde_json::from_str(&text).unwrap();
    let examples = file["examples"].as_array().unwrap();
    assert!(examples.len() > 200, "only {} examples", examples.len());
    for example in examples {
        let (field, value) = (
            example["field"].as_str().unwrap(),
            example["value"].as_str().unwrap(),
        );
        let now = WallTime::from_secs(1_796_126_400);
        let facts = read(200, &bytes(&[(field, value)]), None, &generic(), &[], now);
        assert!(facts.malformed.is_empty(), "{example}");
        // What says nothing: a limit of zero.
        let says_nothing =
            value == "0" && field == "RateLimit-Limit" || value.starts_with("limit=0,");
        let expects_window = value.contains(";w=") && !value.starts_with("0,");
        assert_eq!(
            facts.readings.is_empty(),
            says_nothing || value.starts_with("0, "),
            "{example}"
        );
        let has_window = facts
            .readings
            .iter()
            .any(|reading| reading.window.is_some());
        assert_eq!(has_window, expects_window, "{example}");
    }
}
