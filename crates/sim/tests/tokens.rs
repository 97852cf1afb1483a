//! Limits on tokens as a caller meets them: what is charged when, what is given
//! back, what headers and the ledger say.

use rategov_core::time::{Moment, Span};
use rategov_sim::provider::Provider;
use rategov_sim::provider::config::{Config, ServiceTime};
use rategov_sim::provider::ledger::Finish;
use rategov_sim::provider::limit_fields::LimitFields;
use rategov_sim::provider::message::Request;
use rategov_sim::provider::plan::Plan;
use rategov_sim::provider::quota::Rule;
use rategov_sim::provider::usage::Length;

fn at(ms: u64) -> Moment {
    Moment::START + Span::from_millis(ms)
}

fn rules(texts: &[&str]) -> Vec<Rule> {
    let parse = |text: &&str| text.parse().unwrap_or_else(|e| panic!("{e}"));
    texts.iter().map(parse).collect()
}

/// A provider whose answers all have 100 tokens and take a second.
fn provider(texts: &[&str]) -> Provider {
    Provider::new(Config {
        quotas: rules(texts),
        length: Length::varied(100, 0),
        service: ServiceTime::constant(Span::from_secs(1)),
        stream_pause: Span::from_millis(10),
        ..Config::default()
    })
}

/// A call of 100 input tokens (400 bytes) that allows 1,000 output tokens.
fn chat(extra: &str) -> Request {
    let bare = format!(r#"{{"model":"m","max_tokens":1000{extra},"pad":""}}"#);
    let pad = "x".repeat(400 - bare.len());
    let body = bare.replace(r#""pad":"""#, &format!(r#""pad":"{pad}""#));
    Request::of("POST", "/v1/chat/completions", &[], &body)
}

fn status(plan: &Plan) -> u16 {
    plan.seen().head.map_or(0, |head| head.status)
}

fn field(plan: &Plan, name: &str) -> String {
    let head = plan.seen().head.expect("an answer has a head");
    head.fields.get(name).unwrap_or_default().to_owned()
}

/// What one call is charged in the end, and whether a second one right after
/// it, and one after its end, are let in.
fn check(rule: &str, charged: u64, beside: bool, after: bool) {
    let mut provider = provider(&[rule]);
    let first = provider.arrive(at(0), &chat(""));
    assert_eq!(status(&first), 200, "{rule}");
    let second = provider.arrive(at(10), &chat(""));
    assert_eq!(status(&second) == 200, beside, "{rule}: beside");
    provider.finish(at(1_000), first.ticket, Finish::Answered);
    let third = provider.arrive(at(1_010), &chat(""));
    assert_eq!(status(&third) == 200, after, "{rule}: after");
    let ledger = provider.ledger();
    let first = ledger.arrivals().next().expect("it arrived");
    assert_eq!(first.charged.get("tokens"), Some(&charged), "{rule}");
    let tokens = first.tokens.expect("a model worked");
    assert_eq!((tokens.input, tokens.output), (100, 100), "{rule}");
}

#[test]
fn output_is_charged_at_arrival_in_the_end_or_given_back() {
    // Room for one at the most (1,100), and for seven as they are used (200).
    check("sliding:1400/m,of=tokens,charge=most", 1_100, false, false);
    check(
        "sliding:1400/m,of=tokens,charge=most-then-refund",
        200,
        false,
        true,
    );
    check("sliding:1400/m,of=tokens,charge=actual", 200, true, true);
    check(
        "bucket:1400+1400/m,of=tokens,charge=most-then-refund",
        200,
        false,
        true,
    );
    // What is known only in the end may overdraw: then nothing is let in.
    check("sliding:150/m,of=tokens,charge=actual", 200, true, false);
}

#[test]
fn a_stream_that_is_left_half_way_is_charged_what_was_produced() {
    let mut provider = provider(&["sliding:1400/m,of=tokens,charge=most-then-refund"]);
    let stream = chat(r#","stream":true"#);
    let plan = provider.arrive(at(0), &stream);
    let (first, last) = plan.spans();
    let half = (first + last).scale(1, 2);
    provider.finish(Moment::START + half, plan.ticket, Finish::CallerGone);
    let charged = provider.ledger().quotas().of("tokens");
    assert_eq!((charged.at_arrival, charged.in_the_end), (1_100, 150));
}

#[test]
fn an_answer_in_one_piece_is_charged_whole_though_nobody_waits_for_it() {
    let mut provider = provider(&["sliding:1400/m,of=tokens,charge=most-then-refund"]);
    let plan = provider.arrive(at(0), &chat(""));
    provider.finish(at(500), plan.ticket, Finish::CallerGone);
    assert_eq!(provider.ledger().quotas().of("tokens").in_the_end, 200);
}

#[test]
fn cached_input_is_free_where_the_limit_says_so() {
    for (rule, charged) in [
        ("sliding:1000/m,of=input_tokens", 100),
        ("sliding:1000/m,of=input_tokens,cached-free", 40),
    ] {
        let mut provider = Provider::new(Config {
            quotas: rules(&[rule]),
            cached_permille: 600,
            ..Config::default()
        });
        let plan = provider.arrive(at(0), &chat(""));
        provider.finish(at(1), plan.ticket, Finish::Answered);
        assert_eq!(
            provider.ledger().quotas().of("input_tokens").in_the_end,
            charged,
            "{rule}"
        );
    }
}

#[test]
fn limits_on_tokens_concern_no_call_without_a_model() {
    let mut provider = provider(&["sliding:1/m,of=tokens,charge=most"]);
    let read = Request::of("GET", "/records", &[], "");
    for n in 0..3 {
        assert_eq!(status(&provider.arrive(at(n), &read)), 200);
    }
    assert_eq!(status(&provider.arrive(at(5), &chat(""))), 429);
}

#[test]
fn a_model_has_its_own_limit_inside_the_account_s() {
    let mut provider = provider(&["fixed:3/m,name=account", "fixed:2/m,per=model,name=model"]);
    let call = |model: &str| {
        let body = format!(r#"{{"model":"{model}"}}"#);
        Request::of("POST", "/v1/chat/completions", &[], &body)
    };
    let statuses: Vec<u16> = ["a", "a", "a", "b", "b"]
        .iter()
        .map(|model| status(&provider.arrive(at(0), &call(model))))
        .collect();
    assert_eq!(statuses, [200, 200, 429, 200, 429]);
    assert_eq!(provider.ledger().quotas().of("model").refused, 1);
    assert_eq!(provider.ledger().quotas().of("account").refused, 1);
}

#[test]
fn writes_take_five_points_and_reads_one() {
    let mut provider = provider(&["fixed:7/m,of=points"]);
    let mut send = |method: &str| {
        let request = Request::of(method, "/things", &[], "");
        status(&provider.arrive(at(0), &request))
    };
    assert_eq!([send("POST"), send("GET"), send("POST")], [200, 200, 429]);
    assert_eq!([send("GET"), send("GET")], [200, 429]);
}

#[test]
fn after_a_refusal_everything_fails_for_the_length_of_the_penalty() {
    let read = Request::of("GET", "/things", &[], "");
    let answers = |rule: &str, times: &[u64]| -> Vec<u16> {
        let mut provider = provider(&[rule]);
        let status_at = |ms: &u64| status(&provider.arrive(at(*ms), &read));
        times.iter().map(status_at).collect()
    };
    let times = [0, 100, 2_000, 9_000, 10_200];
    assert_eq!(answers("sliding:1/1s", &times), [200, 429, 200, 200, 200]);
    assert_eq!(
        answers("sliding:1/1s,penalty=10s", &times),
        [200, 429, 429, 429, 200]
    );
    // Where refusals count, asking again prolongs it.
    assert_eq!(
        answers("sliding:1/1s,penalty=10s,count-refusals", &times),
        [200, 429, 429, 429, 429]
    );
}

#[test]
fn a_day_ends_at_midnight_in_utc() {
    let mut provider = provider(&["fixed:1/day"]);
    let read = Request::of("GET", "/things", &[], "");
    let hours = |n: u64| at(n * 3_600_000);
    assert_eq!(status(&provider.arrive(hours(1), &read)), 200);
    let refused = provider.arrive(hours(23), &read);
    assert_eq!(status(&refused), 429);
    assert_eq!(field(&refused, "retry-after"), "3600");
    assert_eq!(status(&provider.arrive(hours(24), &read)), 200);
}

#[test]
fn each_vendor_tells_of_tokens_in_its_own_fields() {
    let told = |fields: LimitFields, names: &[&str]| -> Vec<String> {
        let quotas = [
            "bucket:600+600/m",
            "bucket:90000+90000/m,of=tokens,charge=most",
            "bucket:50000+50000/m,of=input_tokens",
        ];
        let mut provider = Provider::new(Config {
            quotas: rules(&quotas),
            limit_fields: fields,
            ..Config::default()
        });
        let plan = provider.arrive(at(0), &chat(""));
        names.iter().map(|name| field(&plan, name)).collect()
    };
    assert_eq!(
        told(
            LimitFields::OpenAi,
            &[
                "x-ratelimit-remaining-requests",
                "x-ratelimit-limit-tokens",
                "x-ratelimit-remaining-tokens",
                "x-ratelimit-reset-tokens",
            ]
        ),
        ["599", "90000", "88900", "734ms"]
    );
    assert_eq!(
        told(
            LimitFields::Azure,
            &["x-ratelimit-remaining-tokens", "x-ratelimit-limit-tokens"]
        ),
        ["88900", ""]
    );
    assert_eq!(
        told(
            LimitFields::Anthropic,
            &[
                "anthropic-ratelimit-tokens-remaining",
                "anthropic-ratelimit-input-tokens-limit",
                "anthropic-ratelimit-input-tokens-remaining",
                "anthropic-ratelimit-input-tokens-reset",
            ]
        ),
        ["89000", "50000", "50000", "2026-01-01T00:00:01Z"]
    );
    assert_eq!(
        told(LimitFields::Ietf, &["ratelimit-policy", "ratelimit"]),
        [
            "\"requests\";q=600;w=60, \"tokens\";q=90000;w=60;qu=\"tokens\", \
             \"input_tokens\";q=50000;w=60;qu=\"input_tokens\"",
            "\"requests\";r=599;t=1, \"tokens\";r=88900;t=1, \"input_tokens\";r=49900;t=1",
        ]
    );
    assert_eq!(
        told(LimitFields::Epoch, &["x-ratelimit-reset"]),
        ["1767225601"]
    );
}

#[test]
fn gemini_names_its_model_in_the_path_and_its_wait_in_the_body() {
    let mut provider = provider(&["fixed:1/m,per=model"]);
    let call = |model: &str, verb: &str| {
        let target = format!("/v1beta/models/{model}:{verb}");
        let body = r#"{"contents":[{"parts":[{"text":"hello"}]}]}"#;
        Request::of("POST", &target, &[], body)
    };
    let plan = provider.arrive(at(0), &call("flash", "generateContent"));
    let json: serde_json::Value = serde_json::from_slice(&plan.seen().body).expect("JSON");
    assert_eq!(json["usageMetadata"]["candidatesTokenCount"], 100);
    assert_eq!(json["candidates"][0]["finishReason"], "STOP");

    let stream = provider.arrive(at(0), &call("pro", "streamGenerateContent"));
    let text = String::from_utf8(stream.seen().body.to_vec()).expect("UTF-8");
    let last = text.trim_end().rsplit("data: ").next().unwrap_or_default();
    let json: serde_json::Value = serde_json::from_str(last).expect("JSON");
    assert_eq!(json["usageMetadata"]["candidatesTokenCount"], 100);

    let refused = provider.arrive(at(15_000), &call("flash", "generateContent"));
    let json: serde_json::Value = serde_json::from_slice(&refused.seen().body).expect("JSON");
    assert_eq!(json["error"]["status"], "RESOURCE_EXHAUSTED");
    assert_eq!(json["error"]["details"][0]["retryDelay"], "45s");
}

#[test]
fn an_answer_ends_at_what_the_request_allows_and_says_so() {
    let mut provider = provider(&[]);
    let body = r#"{"model":"m","max_tokens":7}"#;
    for (target, reason) in [
        ("/v1/chat/completions", "/choices/0/finish_reason"),
        ("/v1/messages", "/stop_reason"),
    ] {
        let plan = provider.arrive(at(0), &Request::of("POST", target, &[], body));
        let json: serde_json::Value = serde_json::from_slice(&plan.seen().body).expect("JSON");
        let word = json.pointer(reason).and_then(|v| v.as_str());
        assert!(
            matches!(word, Some("length" | "max_tokens")),
            "{target}: {word:?}"
        );
    }
}
