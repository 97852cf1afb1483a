//! Writes: repeated when that is safe, looked into or asked about when it is not.

use serde_json::{Value, json};

use super::Row;
use crate::cover::Coverage::{Covered, NotYet};
use crate::cover::covered;
use crate::judge::{Verdict, between, must, ok, passed_through, uncertain};
use crate::played::{Play, Played};
use crate::report::{Client, Report};

#[rustfmt::skip] // A row reads as: report, then how it is judged.
pub(super) const ROWS: &[Row] = &[
    ("R37", || Covered(covered())),
    ("R38", || Covered(covered()
        .with(|play| play.setup.honour_keys(""))
        .judge("all attempts carry key K and a byte-equal body", |played| {
            let keys: Vec<Option<&str>> = played.arrivals.iter().map(|(_, it)| it.key.as_deref()).collect();
            must(keys.iter().all(|key| *key == Some("K")), format!("{keys:?}"))?;
            same_bodies(played)
        })
        .variant("a 409 with another code -> passthrough, one call", |report| {
            let mut play = Play::of(report);
            play.setup.honour_keys("");
            play.upstream(json!([{ "status": 409, "body": { "error": { "code": "already_exists" } } }]));
            let played = play.run();
            must(played.arrivals.len() == 1, "it was repeated")?;
            passed_through(&played.seen[0], 409)
        }))),
    ("R40", || Covered(covered()
        .judge("client answered within 300 ms of the loss", |played| {
            between("the answer", played.seen[0].ended_ms - played.arrivals[0].0, 0.0, 300.0)
        })
        .judge("escalation holds: time, agent, route, body hash, bytes sent, upstream address", |played| {
            let [asked] = played.escalations.as_slice() else { return Err("not one question".to_owned()) };
            let dossier = &asked["dossier"];
            let missing: Vec<&str> = ["agent", "endpoint", "payload_sha256", "requested_at", "upstream"]
                .into_iter().filter(|name| dossier[*name].as_str().is_none_or(str::is_empty)).collect();
            must(missing.is_empty(), format!("the dossier lacks {missing:?}: {dossier}"))?;
            let records = dossier["records"].to_string();
            must(records.contains("bytes_written="), format!("no bytes are told: {records}"))
        }))),
    ("R41", || Covered(covered()
        .with(|play| play.upstream(json!([{ "fault": "silence_after_effect" }, { "status": 200 }])))
        .judge("1 for every ambiguous variant", |played| must(played.arrivals.len() == 1, "it was repeated"))
        .judge("uncertain or ok as listed", |played| uncertain(&played.seen[0]))
        .judge("executed count never above 1", |played| must(played.effects <= 1, "carried out twice"))
        .variant("no answer within 5000 ms -> 1 call, uncertain", |report| {
            let played = met(report, json!({ "fault": "silence_before_effect" }));
            between("the answer", played.seen[0].ended_ms, 5_000.0, 5_300.0)?;
            once_and_uncertain(&played)
        })
        .variant("502 with HTML -> 1 call, uncertain", |report| {
            let html = json!({ "status": 502, "headers": { "content-type": "text/html" }, "body": "<html>bad gateway</html>" });
            once_and_uncertain(&met(report, html))
        })
        .variant("504 -> 1 call, uncertain", |report| once_and_uncertain(&met(report, json!({ "status": 504 }))))
        .variant("connection refused first -> repeat allowed, executed 1, ok", |report| {
            let mut play = Play::of(report);
            play.upstream(json!([{ "status": 200 }]));
            play.doors = serde_json::from_value(json!({ "refuse_ms": 200 })).ok();
            let played = play.run();
            must(played.effects == 1, format!("{} writes", played.effects))?;
            ok(&played.seen[0])
        })
        .variant("503 with retry-after: 1 -> 2 calls, ok", |report| {
            repeated_once(&met(report, json!({ "status": 503, "headers": { "retry-after": "1" } })))
        })
        .variant("429 -> 2 calls, ok", |report| repeated_once(&met(report, json!({ "status": 429 }))))
        .variant("same faults on GET -> repeated within budget, ok", |report| {
            for fault in [
                json!({ "fault": "silence_before_effect" }),
                json!({ "fault": "reset_before_effect" }),
                json!({ "status": 502, "headers": { "content-type": "text/html" }, "body": "<html></html>" }),
                json!({ "status": 504 }),
                json!({ "status": 503, "headers": { "retry-after": "1" } }),
                json!({ "status": 429 }),
            ] {
                let mut play = with_answers(report, fault.clone());
                play.clients[0] = Client { send: "GET /agent/state".to_owned(), cls: Some("read".to_owned()), ..Client::default() };
                play.setup.endpoints = vec![("GET /agent/state".to_owned(), "read", String::new())];
                let played = play.run();
                must(played.arrivals.len() == 2, format!("{} calls after {fault}", played.arrivals.len()))?;
                ok(&played.seen[0])?;
            }
            Ok(())
        }))),
    ("R43", || Covered(covered()
        .judge("second call: ok with the first result", |played| {
            ok(&played.seen[1])?;
            let id = played.seen[1].json()["id"].clone();
            must(id == "ch_1", id.to_string())
        })
        .judge("second answered at about 40000 ms", |played| {
            between("the second answer", played.seen[1].ended_ms, 40_000.0, 40_200.0)
        })
        .judge("the claim for op K is stored durably before the first byte is sent upstream", |played| {
            let words: Vec<&str> = played.journal.iter().rev().map(|(word, _)| word.as_str()).collect();
            let place = |word: &str| words.iter().position(|own| *own == word);
            let key = played.actions.iter().any(|action| action["key"] == "K");
            must(key && place("action_requested") < place("action_sent"), format!("{words:?}"))
        }))),
    ("R44", || Covered(covered()
        .with(|play| {
            for client in &mut play.clients[1..] {
                "GET status of op K".clone_into(&mut client.send);
            }
        })
        .judge("status at 60 s: in_progress; at 230 s: done with stored result", |played| {
            let state = |client: usize| played.of(client)[0].json()["state"].clone();
            must(state(1) == "dispatching" && state(2) == "succeeded", format!("{} {}", state(1), state(2)))
        })
        .judge("a write is not cut when its caller leaves", |played| {
            let ended = played.arrivals[0].1.ended.map(|end| end.how);
            must(ended == Some(rategov_sim::provider::ledger::Finish::Answered), format!("{ended:?}"))
        }))),
    ("R46", || Covered(covered())),
    ("R47", || NotYet("a look-alike of an uncertain write is refused for a time, and is not queued until it is settled")),
    ("R49", || Covered(covered()
        .with(|play| play.doors = serde_json::from_value(json!({ "close_idle_ms": 200 })).ok())
        .judge("writes executed = 40", |played| must(played.effects == 40, format!("{} writes", played.effects)))
        .judge("uncertain = 0, client errors = 0", |played| {
            must(played.escalations.is_empty(), "a person was asked")
        }))),
    ("R50", || NotYet("the way to providers is HTTP/1.1; GOAWAY belongs to HTTP/2")),
    ("R106", || NotYet("approvals of single calls (`approve`) do not act yet")),
];

pub(super) fn same_bodies(played: &Played) -> Verdict {
    let first = &played.arrivals[0].1.body_sha256;
    let same = played
        .arrivals
        .iter()
        .all(|(_, it)| it.body_sha256 == *first);
    must(same, "the bodies differ")
}

fn with_answers(report: &Report, first: Value) -> Play {
    let mut play = Play::of(report);
    play.upstream(json!([first, { "status": 200 }]));
    play
}

/// The scenario, the provider doing this first.
fn met(report: &Report, first: Value) -> Played {
    with_answers(report, first).run()
}

fn once_and_uncertain(played: &Played) -> Verdict {
    must(
        played.arrivals.len() == 1,
        format!("{} calls arrived", played.arrivals.len()),
    )?;
    uncertain(&played.seen[0])
}

fn repeated_once(played: &Played) -> Verdict {
    must(
        played.arrivals.len() == 2,
        format!("{} calls arrived", played.arrivals.len()),
    )?;
    must(played.effects == 1, format!("{} writes", played.effects))?;
    ok(&played.seen[0])
}
