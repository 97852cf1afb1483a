//! The whole model in virtual time: what a call meets, what a caller sees, and
//! what the ledger says.

use serde_json::{Value, json};

use super::config::{ServiceTime, Strangers};
use super::fault::{Conduct, Effect, Ending, Times, steps_of_upstream};
use super::idempotency::{Honour, KeyRules, Stores};
use super::ledger::label_of;
use super::message::Request;
use super::plan::{After, Plan, Seen};
use super::*;

fn at(ms: u64) -> Moment {
    Moment::from_micros(ms * 1_000)
}

fn provider(config: Config) -> Provider {
    Provider::new(Config {
        service: ServiceTime::constant(Span::from_millis(300)),
        stream_pause: Span::ZERO,
        ..config
    })
}

fn create(key: &str) -> Request {
    let body = json!({ "external_ref": format!("op-{key}") }).to_string();
    Request::of("POST", "/records", &[("Idempotency-Key", key)], &body)
}

fn get(target: &str) -> Request {
    Request::of("GET", target, &[], "")
}

/// Sends a request and stays to the end of its answer.
fn send(provider: &mut Provider, ms: u64, request: &Request) -> Seen {
    let plan = provider.arrive(at(ms), request);
    let seen = plan.seen();
    provider.finish(at(ms) + seen.last, plan.ticket, plan.finish());
    seen
}

fn status(seen: &Seen) -> u16 {
    seen.head.as_ref().map_or(0, |h| h.status)
}

fn field<'a>(seen: &'a Seen, name: &str) -> &'a str {
    seen.head
        .as_ref()
        .and_then(|h| h.fields.get(name))
        .unwrap_or("")
}

fn json_of(seen: &Seen) -> Value {
    serde_json::from_slice(&seen.body).expect("the body is JSON")
}

fn script(provider: &mut Provider, steps: Vec<Step>) {
    provider
        .push_steps(Moment::START, steps)
        .expect("a short script");
}

/// Creates under one key until an answer arrives, 1 s apart, under a fault;
/// gives the statuses (0 for no answer) and the effects.
fn check(rules: KeyRules, conduct: Conduct, statuses: &[u16], effects: u64) {
    let mut provider = provider(Config {
        keys: rules,
        ..Config::default()
    });
    script(
        &mut provider,
        vec![Step::once("POST /records", conduct.clone())],
    );
    let got: Vec<u16> = (0..statuses.len() as u64)
        .map(|n| status(&send(&mut provider, n * 1_000, &create("k"))))
        .collect();
    assert_eq!(got, statuses, "{conduct:?}");
    let ledger = provider.ledger();
    assert_eq!(ledger.effects_of_key("k"), effects, "{conduct:?}");
    assert_eq!(ledger.effects_of_operation("op-k"), effects);
    assert!(provider.script_left().is_empty());
}

fn no_answer(effect: Effect) -> Conduct {
    Conduct::fault(Fault::NoAnswer {
        effect,
        ending: Ending::Rst,
    })
}

#[test]
fn an_honoured_key_makes_one_effect_of_two_sends_whatever_was_lost() {
    let rules = KeyRules::default();
    check(rules, no_answer(Effect::Applied), &[0, 201, 201], 1);
    check(rules, no_answer(Effect::Skipped), &[0, 201, 201], 1);
    check(rules, Conduct::status(503), &[503, 201], 1);
    check(rules, Conduct::status(429), &[429, 201], 1);
}

#[test]
fn the_fault_says_whether_the_call_is_carried_out_whatever_its_answer_would_be() {
    let (fault, ending) = (
        |effect, ending| Fault::NoAnswer { effect, ending },
        Ending::Fin,
    );
    let lost = |status, effect| Conduct {
        fault: Some(fault(effect, ending)),
        ..Conduct::status(status)
    };
    check(
        KeyRules::default(),
        lost(500, Effect::Applied),
        &[0, 500],
        1,
    );
    check(
        KeyRules::default(),
        lost(201, Effect::Skipped),
        &[0, 201],
        1,
    );
}

#[test]
fn a_stored_500_comes_back_and_an_unstored_one_acts_again() {
    let hidden = Conduct::status(500).effect(Effect::Applied);
    check(KeyRules::default(), hidden.clone(), &[500, 500], 1);
    let successes = KeyRules {
        stores: Stores::Successes,
        ..KeyRules::default()
    };
    check(successes, hidden, &[500, 201], 2);
}

#[test]
fn an_ignored_key_lets_a_second_effect_happen() {
    let ignored = KeyRules {
        honour: Honour::Ignored,
        ..KeyRules::default()
    };
    check(ignored, no_answer(Effect::Applied), &[0, 201], 2);
}

#[test]
fn an_expired_key_lets_a_second_effect_happen() {
    let short = KeyRules {
        lifetime: Span::from_secs(1),
        ..KeyRules::default()
    };
    check(short, no_answer(Effect::Applied), &[0, 201], 2);
}

#[test]
fn a_key_in_use_is_409_and_a_reused_one_422() {
    let mut provider = provider(Config::default());
    assert_eq!(status(&send(&mut provider, 0, &create("k"))), 201);
    let seen = send(&mut provider, 299, &create("k"));
    assert_eq!(status(&seen), 409);
    assert_eq!(json_of(&seen)["error"]["code"], "idempotency_key_in_use");
    let other = Request::of(
        "POST",
        "/records",
        &[("idempotency-key", "k")],
        "{\"other\":1}",
    );
    let seen = send(&mut provider, 700, &other);
    assert_eq!(status(&seen), 422);
    assert_eq!(json_of(&seen)["error"]["code"], "idempotency_key_reused");
    let seen = send(&mut provider, 1_100, &create("k"));
    assert_eq!(
        (status(&seen), field(&seen, "idempotent-replayed")),
        (201, "true")
    );
    assert_eq!(provider.ledger().effects_most(), 1);
}

#[test]
fn a_lost_create_is_found_by_key_and_by_reference_after_the_lag() {
    let mut provider = provider(Config {
        lag: Span::from_secs(1),
        ..Config::default()
    });
    script(
        &mut provider,
        vec![Step::once("POST /records", no_answer(Effect::Applied))],
    );
    let lost = send(&mut provider, 0, &create("k"));
    assert_eq!((status(&lost), lost.after), (0, After::End(Ending::Rst)));
    let found = |provider: &mut Provider, ms: u64, target: &str| {
        let seen = send(provider, ms, &get(target));
        json_of(&seen)["items"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(found(&mut provider, 1_299, "/records?key=k"), 0);
    assert_eq!(found(&mut provider, 1_300, "/records?key=k"), 1);
    assert_eq!(found(&mut provider, 1_300, "/records?external_ref=op-k"), 1);
    assert_eq!(found(&mut provider, 1_300, "/records?key=other"), 0);
}

#[test]
fn invites_take_no_key_and_cannot_be_looked_up() {
    let mut provider = provider(Config::default());
    let invite = Request::of("POST", "/invites", &[("idempotency-key", "k")], "{}");
    for ms in [0, 1_000] {
        assert_eq!(status(&send(&mut provider, ms, &invite)), 201);
    }
    assert_eq!(status(&send(&mut provider, 2_000, &get("/invites"))), 405);
    assert_eq!(
        (
            provider.records().invites(),
            provider.ledger().effects_of_key("k")
        ),
        (2, 2)
    );
}

#[test]
fn any_other_write_is_carried_out_and_counted() {
    let mut provider = provider(Config::default());
    let order = Request::of("POST", "/orders", &[], "{}");
    assert_eq!(status(&send(&mut provider, 0, &order)), 200);
    assert_eq!(status(&send(&mut provider, 0, &get("/orders/7"))), 200);
    let targets: Vec<_> = provider
        .ledger()
        .effects()
        .map(|e| e.target.as_str())
        .collect();
    assert_eq!(targets, ["POST /orders"]);
}

#[test]
fn a_refused_call_meets_neither_script_nor_service() {
    let quotas = vec!["sliding:1/10s".parse().expect("a quota")];
    let mut provider = provider(Config {
        quotas,
        ..Config::default()
    });
    script(
        &mut provider,
        vec![Step::once("*", Conduct::status(500)).after(1)],
    );
    assert_eq!(status(&send(&mut provider, 0, &create("a"))), 201);
    let refused = send(&mut provider, 1_000, &create("b"));
    assert_eq!(
        (status(&refused), field(&refused, "retry-after")),
        (429, "9")
    );
    assert_eq!(refused.first, Span::ZERO);
    assert_eq!(
        provider.script_left().len(),
        1,
        "the refused call used no step"
    );
    assert_eq!(status(&send(&mut provider, 10_000, &create("c"))), 500);
    let totals = provider.ledger().totals();
    assert_eq!((totals.accepted, totals.refused, totals.faulted), (1, 1, 1));
    assert_eq!(totals.effects, 1);
}

#[test]
fn an_open_call_counts_until_it_is_finished() {
    let quotas = vec!["concurrent:1".parse().expect("a quota")];
    let mut provider = provider(Config {
        quotas,
        ..Config::default()
    });
    let first = provider.arrive(at(0), &get("/a"));
    assert_eq!(provider.in_flight(), 1);
    let refused = send(&mut provider, 10, &get("/a"));
    assert_eq!(
        (status(&refused), field(&refused, "retry-after")),
        (429, "")
    );
    provider.finish(at(20), first.ticket, Finish::CallerGone);
    provider.finish(at(30), first.ticket, Finish::Answered);
    assert_eq!(status(&send(&mut provider, 40, &get("/a"))), 200);
    let ended: Vec<_> = provider
        .ledger()
        .arrivals()
        .map(|a| a.ended.map(|e| e.how))
        .collect();
    assert_eq!(ended[0], Some(Finish::CallerGone));
}

#[test]
fn a_report_from_before_a_reset_finishes_nothing_after_it() {
    let mut provider = provider(Config::default());
    let old = provider.arrive(at(0), &get("/a"));
    provider.reset();
    let new = provider.arrive(at(1), &get("/a"));
    assert_eq!(old.ticket.no, new.ticket.no);
    provider.finish(at(2), old.ticket, Finish::Answered);
    assert_eq!(provider.in_flight(), 1);
    assert_eq!(provider.ledger().totals().arrived, 1);
}

#[test]
fn a_stranger_is_401_where_only_known_credentials_are_welcome() {
    let accounts = [(label_of("sk-1"), "org-1".to_owned())].into();
    let strangers = Strangers::Unauthorised;
    let mut provider = provider(Config {
        accounts,
        strangers,
        ..Config::default()
    });
    let call = |key: &str| Request::of("GET", "/v1/models", &[("authorization", key)], "");
    let seen = send(&mut provider, 0, &call("Bearer sk-1"));
    assert_eq!(
        (status(&seen), field(&seen, "openai-organization")),
        (200, "org-1")
    );
    assert_eq!(status(&send(&mut provider, 0, &call("Bearer sk-2"))), 401);
    let labels: Vec<_> = provider
        .ledger()
        .arrivals()
        .map(|a| a.credential.clone())
        .collect();
    assert_eq!(labels, [label_of("sk-1"), label_of("sk-2")]);
}

#[test]
fn two_credentials_of_one_account_share_its_quota() {
    let accounts = ["a", "b"]
        .into_iter()
        .map(|k| (label_of(k), "org-1".to_owned()))
        .collect();
    let quotas = vec!["sliding:1/10s".parse().expect("a quota")];
    let mut provider = provider(Config {
        accounts,
        quotas,
        ..Config::default()
    });
    let call = |key: &str| Request::of("GET", "/x", &[("x-api-key", key)], "");
    let statuses: Vec<u16> = ["a", "b", "c"]
        .iter()
        .map(|k| status(&send(&mut provider, 0, &call(k))))
        .collect();
    assert_eq!(statuses, [200, 429, 200]);
}

#[test]
fn an_upload_is_cut_on_the_word_of_its_head() {
    let mut provider = provider(Config::default());
    let cut = Fault::CutUpload {
        after: 5,
        ending: Ending::Rst,
    };
    script(
        &mut provider,
        vec![Step::once("POST /records", Conduct::fault(cut))],
    );
    assert_eq!(provider.upload_cut(at(0), &get("/records").head), None);
    assert_eq!(
        provider.upload_cut(at(0), &create("k").head),
        Some((5, Ending::Rst))
    );
    let seen = send(&mut provider, 0, &create("k"));
    assert_eq!((status(&seen), seen.after), (0, After::End(Ending::Rst)));
    assert_eq!(provider.ledger().totals().effects, 0);
    assert_eq!(provider.upload_cut(at(1), &create("k").head), None);
}

/// Plays a report's upstream: requests at the given moments, the statuses seen.
fn replay(upstream: Value, requests: &[(u64, &Request)], expected: &[u16]) -> Vec<Seen> {
    let mut provider = Provider::new(Config::default());
    let written = serde_json::from_value(upstream).expect("the keys are known");
    let steps = steps_of_upstream(written).unwrap_or_else(|e| panic!("{e}"));
    script(&mut provider, steps);
    let seen: Vec<Seen> = requests
        .iter()
        .map(|(ms, request)| send(&mut provider, *ms, request))
        .collect();
    assert_eq!(seen.iter().map(status).collect::<Vec<_>>(), expected);
    seen
}

#[test]
fn an_upstream_of_a_report_plays_in_order_with_its_fields_filled_in() {
    let call = Request::of("POST", "/v1/messages", &[], "{\"model\":\"m\"}");
    let seen = replay(
        json!([
            {"status": 429, "headers": {"retry-after": "<floor(remaining s)>"}, "until_ms": 2900},
            {"status": 200}
        ]),
        &[(0, &call), (2_000, &call), (2_900, &call), (9_000, &call)],
        &[429, 429, 200, 200],
    );
    assert_eq!(field(&seen[0], "retry-after"), "2");
    assert_eq!(field(&seen[1], "retry-after"), "0");
    assert_eq!(
        json_of(&seen[0])["type"],
        "error",
        "the error is in Anthropic's words"
    );
    assert_eq!(json_of(&seen[2])["type"], "message");
    let seen = replay(
        json!([{"status": 403, "headers": {"date": "<T>", "x-ratelimit-reset": "<T+10>"},
                "body": {"message": "API rate limit exceeded"}}]),
        &[(5_000, &get("/repos/o/r"))],
        &[403],
    );
    assert_eq!(field(&seen[0], "date"), "Thu, 01 Jan 2026 00:00:05 GMT");
    assert_eq!(field(&seen[0], "x-ratelimit-reset"), "1767225615");
}

#[test]
fn a_report_can_limit_starts_and_open_calls() {
    let call = get("/x");
    let calls: Vec<(u64, &Request)> = [0, 1, 2, 3, 1_002].iter().map(|ms| (*ms, &call)).collect();
    replay(
        json!([
            {"status": 429, "when": "more than 2 starts in the last 1000 ms"},
            {"status": 200}
        ]),
        &calls,
        &[200, 200, 429, 429, 200],
    );
    let mut provider = provider(Config::default());
    let upstream = json!([
        {"status": 429, "when": "2 already in flight"},
        {"status": 200, "delay_ms": 1000}
    ]);
    let written = serde_json::from_value(upstream).expect("the keys are known");
    script(
        &mut provider,
        steps_of_upstream(written).expect("it can be played"),
    );
    let open: Vec<Plan> = (0..3).map(|ms| provider.arrive(at(ms), &call)).collect();
    let statuses: Vec<u16> = open.iter().map(|p| status(&p.seen())).collect();
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(open[0].seen().first, Span::from_millis(1_300));
}

#[test]
fn a_stream_of_a_report_speaks_the_dialect_of_its_endpoint() {
    let call = Request::of(
        "POST",
        "/v1/messages",
        &[],
        "{\"model\":\"m\",\"stream\":true}",
    );
    let seen = replay(
        json!([{"status": 200, "sse": true,
                "events": ["message_start", "delta Partial", "error overloaded_error"]}]),
        &[(0, &call)],
        &[200],
    );
    let text = std::str::from_utf8(&seen[0].body).expect("it is text");
    let names: Vec<&str> = text
        .lines()
        .filter_map(|l| l.strip_prefix("event: "))
        .collect();
    assert_eq!(
        names,
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "error"
        ]
    );
    assert!(text.contains("Partial") && text.contains("overloaded_error"));
    assert!(seen[0].whole, "the stream itself ends properly");
}

#[test]
fn an_answer_that_repeats_the_credential_really_does() {
    let call = Request::of("GET", "/x", &[("authorization", "Bearer SECRET1")], "");
    let upstream = json!([{"status": 401, "body": "echoes the key"}]);
    let seen = replay(upstream, &[(0, &call)], &[401]);
    assert!(
        json_of(&seen[0])["error"]["message"]
            .to_string()
            .contains("SECRET1")
    );
}

#[test]
fn the_same_seed_and_calls_give_the_same_run() {
    let run = |seed: u64| {
        let service = ServiceTime {
            min: Span::from_millis(200),
            max: Span::from_millis(600),
        };
        let seed = draw::Seed(seed);
        let mut provider = Provider::new(Config {
            seed,
            service,
            ..Config::default()
        });
        let chat = Request::of("POST", "/v1/chat/completions", &[], "{\"model\":\"m\"}");
        (0..20)
            .map(|n| send(&mut provider, n * 1_000, &chat))
            .collect::<Vec<Seen>>()
    };
    assert_eq!(run(1), run(1));
    let firsts = |runs: Vec<Seen>| runs.iter().map(|s| s.first).collect::<Vec<_>>();
    assert_ne!(firsts(run(1)), firsts(run(2)));
    assert!(
        firsts(run(1))
            .iter()
            .all(|s| (200..600).contains(&s.as_millis()))
    );
}

#[test]
fn the_always_step_acts_for_ever_and_the_counted_one_is_reported_until_spent() {
    let mut provider = provider(Config::default());
    let steps = vec![
        Step::once("GET /a", Conduct::status(503)).times(Times::Count(2)),
        Step::once("GET /b", Conduct::status(500)).times(Times::Always),
    ];
    script(&mut provider, steps);
    assert_eq!(status(&send(&mut provider, 0, &get("/a"))), 503);
    let left = provider.script_left();
    let counts: Vec<_> = left.iter().map(|l| (l.acted, l.times_left)).collect();
    assert_eq!(counts, [(1, Some(1)), (0, None)]);
    assert_eq!(status(&send(&mut provider, 1, &get("/a"))), 503);
    assert_eq!(status(&send(&mut provider, 2, &get("/b"))), 500);
    assert!(provider.script_left().is_empty());
}
