//! What a refusal means: a rate, a quota, money, a key, no capacity, a mistake.

use serde_json::{Value, json};

use super::Row;
use super::hints::{FULL_JITTER, account_scope, refusals_counted};
use crate::cover::Coverage::{Covered, NotYet};
use crate::cover::covered;
use crate::judge::{Verdict, between, denied, must, ok, passed_through};
use crate::played::{Person, Play, Played};
use crate::report::Report;

const QUOTA: &[&str] = &["quota_exhausted"];

#[rustfmt::skip] // A row reads as: report, then how it is judged.
pub(super) const ROWS: &[Row] = &[
    ("R19", || Covered(covered()
        .judge("first: passthrough:429; second: denied:quota", |played| {
            passed_through(&played.seen[0], 429)?;
            denied(&played.seen[1], QUOTA)
        })
        .judge("one escalation of kind quota naming credential and scope", |played| {
            let asked: Vec<&Value> = played.escalations.iter().filter(|it| it["trigger"] == "quota_exhausted").collect();
            must(asked.len() == 1, format!("{} questions", asked.len()))?;
            let names = asked[0]["scope"].is_string() && asked[0]["account"].is_string();
            must(names, format!("{}", asked[0]))
        }))),
    ("R20", || Covered(covered()
        .judge("denied or passthrough:429", |played| {
            played.seen.iter().try_for_each(|seen| {
                passed_through(seen, 429).or_else(|_| denied(seen, &["quota_exhausted", "hold_exceeded"]))
            })
        })
        .judge("gap between upstream calls grows to >= 60 s", |played| {
            let starts = played.starts();
            let widest = starts.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
            between("the widest gap", widest, 60_000.0, f64::INFINITY)
        })
        .judge("only a success resets the ladder", |played| {
            let starts = played.starts();
            let gaps: Vec<f64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
            // Calls come every 5 s, so a gap is up to that much longer than its hold.
            let falls = gaps.windows(2).any(|pair| pair[1] + 5_500.0 < pair[0]);
            must(!falls, format!("the gaps fall: {gaps:?}"))
        }))),
    ("R22", || Covered(covered()
        .judge("<=3 on K1, 1 on K2", |played| {
            let mut by_key = std::collections::BTreeMap::new();
            for (_, arrival) in &played.arrivals {
                *by_key.entry(arrival.credential.clone()).or_insert(0) += 1;
            }
            let mut counts: Vec<i32> = by_key.into_values().collect();
            counts.sort_unstable();
            must(counts.len() == 2 && counts[0] == 1 && counts[1] <= 3, format!("{counts:?}"))
        })
        .judge("K1: first passthrough:400, later denied:auth; K2: forwarded", |played| {
            let first = played.of(0);
            passed_through(first[0], 400)?;
            first[3..].iter().try_for_each(|seen| denied(seen, &["breaker_tripped"]))?;
            passed_through(played.of(1)[0], 400)
        })
        .later("exactly one alert for K1", "alerts are part of the notifications to come; the breaker's stop is in the journal")
        .judge("changing the credential reopens it without restart", |played| {
            // Another credential is another account, which nothing has stopped.
            between("the call under K2", played.of(1)[0].ended_ms, 20_000.0, 20_200.0)
        }))),
    ("R23", || Covered(covered()
        .with(|play| play.person = vec![(65_000, Person::Resumes)])
        .judge("first passthrough:400, next five denied:billing, last ok", |played| {
            passed_through(&played.seen[0], 400)?;
            played.seen[1..6].iter().try_for_each(|seen| denied(seen, QUOTA))?;
            ok(&played.seen[6])
        })
        .judge("one billing alert", |played| {
            let asked = played.asked("quota_exhausted");
            must(asked == 1, format!("{asked} questions"))
        })
        .variant("plain 400s with other texts are not treated as billing", plain_mistakes))),
    ("R25", || Covered(covered()
        .instead("each retry >= 1000 ms after its 529", "no repeat before 250 ms", FULL_JITTER)
        .judge("learned request/token limits unchanged by 529", |played| {
            let scopes = played.last.status["scopes"].as_array().cloned().unwrap_or_default();
            let learned: Vec<&Value> = scopes.iter().filter(|scope| scope["limit"].is_number()).collect();
            must(learned.is_empty(), format!("{learned:?}"))
        })
        .judge("event class is overload, not quota", |played| refusals_counted(played, 0)))),
    ("R26", || NotYet("calls are not parked behind one probe of an overloaded endpoint: each repeats by its own budget of attempts")),
    ("R29", || Covered(covered()
        .judge("first: passthrough:429 marked too_large; second: ok", |played| {
            passed_through(&played.seen[0], 429)?;
            let marked = played.seen[0].header("rategov-reason");
            must(marked == "too_large", format!("marked {marked:?}"))?;
            ok(&played.seen[1])
        })
        .judge("the scope stays open", |played| {
            let mode = account_scope(played)["mode"].clone();
            must(mode == "normal", mode.to_string())
        }))),
    ("R32", || Covered(covered()
        .judge("after the first such 429 never more than 2 in flight", |played| {
            let first = played.arrivals.iter().position(|(_, it)| it.status == Some(429)).unwrap_or(0);
            let held = played.arrivals[first].0 + 1_000.0;
            let most = played.arrivals.iter().filter(|(at, _)| *at > held).map(|(_, it)| it.in_flight + 1).max();
            must(most <= Some(2), format!("{most:?} were open"))
        })
        .judge("learned cap 2 shown for the scope; request-rate limit unchanged", |played| {
            let scope = account_scope(played);
            must(scope["max_concurrent"] == 2 && scope["limit"].is_null(), scope.to_string())
        }))),
    ("R34", || Covered(covered()
        .judge("first call repeated >= 60000 ms later", |played| {
            let search: Vec<f64> = played.arrivals.iter().filter(|(_, it)| it.target.contains("search")).map(|(at, _)| *at).collect();
            must(search.len() == 2, format!("{search:?}"))?;
            between("the repeat", search[1] - search[0], 60_000.0, 70_000.0)
        })
        .judge("second call does not reach upstream before that", |played| {
            let other = played.arrivals.iter().find(|(_, it)| it.target.contains("repos"));
            between("the second call", other.map_or(0.0, |(at, _)| *at), 60_000.0, 70_000.0)
        }))),
    ("R35", || Covered(covered()
        .judge("client sees only the second body", |played| {
            let body = played.seen[0].json();
            must(body == json!({ "data": { "shop": { "name": "x" } } }), body.to_string())
        })
        .variant("graphql mutation: THROTTLED is a definite refusal, so the repeat is allowed and accepted writes = 1", |report| {
            let mut play = Play::of(report);
            play.clients[0].graphql = Some("mutation".to_owned());
            for (_, class, _) in &mut play.setup.endpoints {
                *class = "uncertain_write";
            }
            // Its status is a success's, so the provider must be told that nothing happened.
            play.upstream[0].effect = Some("skipped".to_owned());
            let played = play.run();
            must(played.arrivals.len() == 2, format!("{} calls arrived", played.arrivals.len()))?;
            ok(&played.seen[0])?;
            must(played.effects == 1, format!("{} writes", played.effects))
        }))),
    ("R55", || Covered(covered()
        .with(|play| {
            play.clients[1].headers.insert("rategov-task".to_owned(), "shorter-history".to_owned());
        })
        .instead_by("first two passthrough:400, next eight denied:repeat_failure, shorter body ok", "the same, the shorter body in a task of its own", "R-CLASS-4 and -5: the breaker ignores the payload, and stops the path for its task", |played| {
            played.seen[..2].iter().try_for_each(|seen| passed_through(seen, 400))?;
            played.seen[2..10].iter().try_for_each(|seen| denied(seen, &["breaker_tripped"]))?;
            ok(&played.seen[10])
        })
        .judge("each denial repeats the original error text", |played| {
            played.seen[2..10].iter().try_for_each(|seen| {
                let text = String::from_utf8_lossy(&seen.body).into_owned();
                must(text.contains("context_length_exceeded"), text)
            })
        }))),
    ("R56", || Covered(covered()
        .with(|play| play.upstream(json!([
            { "status": 404, "body_has": "m-old", "times": "always", "body": { "error": { "type": "not_found_error", "message": "model: m-old" } } },
            { "status": 200 },
        ])))
        .instead_by("<=2 for m-old, 1 for m-new", "<=3 for m-old, 1 for m-new", "R-CLASS-4: a success on the path resets its breaker, and m-new succeeds after the first failure", |played| {
            let refused = played.answered_with(404);
            must(refused <= 3 && played.answered_with(200) == 1, format!("{refused} for m-old"))
        })
        .judge("m-old: passthrough:404 then denied:repeat_failure; m-new: ok", |played| {
            let old = played.of(0);
            old[..3].iter().try_for_each(|seen| passed_through(seen, 404))?;
            old[3..].iter().try_for_each(|seen| denied(seen, &["breaker_tripped"]))?;
            ok(played.of(1)[0])
        })
        .judge("the denial names the model and how to clear the mark", |played| {
            let last = played.of(0).last().map(|seen| String::from_utf8_lossy(&seen.body).into_owned()).unwrap_or_default();
            must(last.contains("m-old"), last.clone())?;
            must(last.contains("operator"), last)
        }))),
    ("R86", || Covered(covered()
        .variant("code 402 in the body -> billing, upstream_calls 1", |report| {
            let played = said(report, json!({ "error": { "code": 402, "message": "payment required" } }));
            must(played.arrivals.len() == 1, "it was repeated")?;
            must(played.asked("quota_exhausted") == 1, "nobody was asked")
        })
        .variant("finish_reason error inside the first choice -> failed, not ok", |report| {
            let played = said(report, json!({ "choices": [{ "finish_reason": "error", "message": {} }] }));
            let state = played.actions[0]["state"].clone();
            must(state == "failed_definite", format!("it ended as {state}"))
        })
        .variant("a normal answer whose text contains the word error -> ok", |report| {
            let played = said(report, json!({ "choices": [{ "message": { "content": "an error of mine" } }] }));
            must(played.arrivals.len() == 1, "it was repeated")?;
            ok(&played.seen[0])
        }))),
];

/// The scenario, the provider saying only this, under status 200.
fn said(report: &Report, body: Value) -> Played {
    let mut play = Play::of(report);
    play.upstream(json!([{ "status": 200, "body": body }]));
    play.run()
}

fn plain_mistakes(report: &Report) -> Verdict {
    let mut play = Play::of(report);
    let body = json!({ "type": "error", "error": { "type": "invalid_request_error", "message": "max_tokens is missing" } });
    play.upstream(json!([{ "status": 400, "body": body }]));
    play.clients.truncate(1);
    play.clients[0].n = Some(2);
    let played = play.run();
    played
        .seen
        .iter()
        .try_for_each(|seen| passed_through(seen, 400))?;
    must(played.escalations.is_empty(), "a person was asked")
}
