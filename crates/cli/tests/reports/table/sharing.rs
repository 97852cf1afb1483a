//! One quota, many callers: limits, slots, queues, ranks, restarts.

use rategov_sim::provider::ledger::Finish;
use serde_json::json;

use super::Row;
use crate::cover::Coverage::{Covered, NotYet};
use crate::cover::covered;
use crate::judge::{Verdict, between, cancelled, denied, must, ok, within_window};
use crate::killed;
use crate::played::{Play, Played};
use crate::report::Report;

const TOKENS: &str = "quotas of tokens are not kept yet, only of requests and open calls";

#[rustfmt::skip] // A row reads as: report, then how it is judged.
pub(super) const ROWS: &[Row] = &[
    ("R53", || Covered(covered()
        .judge("10 ok, 20 denied:rate", |played| {
            let good = played.seen.iter().filter(|seen| ok(seen).is_ok()).count();
            let refused = played.seen.iter().filter(|seen| denied(seen, &["hold_exceeded"]).is_ok()).count();
            must((good, refused) == (10, 20), format!("{good} ok, {refused} denied"))
        })
        .judge("refusals within 100 ms, with retry-after", |played| {
            played.seen.iter().filter(|seen| seen.is_governors()).try_for_each(|seen| {
                between("a refusal", seen.ended_ms, 0.0, 100.0)?;
                let wait: u64 = seen.header("retry-after").parse().unwrap_or(0);
                must((1..=62).contains(&wait), seen.shown())
            })
        }))),
    ("R58", || Covered(covered())),
    ("R59", || NotYet("one governor is one instance; several nodes on one store are to come")),
    ("R61", || Covered(covered())),
    ("R62", || NotYet(TOKENS)),
    ("R64", || NotYet(TOKENS)),
    ("R65", || Covered(covered()
        .with(|play| {
            for (client, crew) in play.clients.iter_mut().zip(["crew-a", "crew-b"]) {
                client.who = Some(crew.to_owned());
            }
        })
        .judge("each child has at least 4 of the first 12", |played| {
            let of = |crew: &str| played.arrivals[..12].iter().filter(|(_, it)| it.marks.get("x-agent").is_some_and(|own| own == crew)).count();
            let (a, b) = (of("crew-a"), of("crew-b"));
            must(a >= 4 && b >= 4, format!("{a} and {b}"))
        }))),
    ("R67", || Covered(covered()
        .with(|play| {
            // A condition is looked at first: it must not take the twenty that are refused
            // at once, of which it would fit all but the first four.
            play.upstream[1].skip = 16;
            play.upstream[0].delay_ms = 100;
        })
        .judge("after t=5000 a slow restart: at most 1 start until the first success, no 1000 ms window above 6 starts", |played| {
            let later: Vec<_> = played.arrivals.iter().skip(20).collect();
            let success = later.iter().find(|(_, it)| it.status == Some(200)).map_or(f64::INFINITY, |(at, _)| *at);
            // Probes that are refused go one at a time; nothing goes beside one.
            let beside = later.iter().filter(|(at, it)| *at < success && it.in_flight > 0).count();
            must(beside == 0, format!("{beside} calls went beside a probe"))?;
            within_window(&later.iter().map(|(at, _)| *at).collect::<Vec<_>>(), 1_000.0, 6.0)
        })
        .judge("jitter is only ever added, never subtracted", |played| {
            let early = played.arrivals.iter().skip(20).filter(|(at, _)| *at < 5_000.0).count();
            must(early == 0, format!("{early} repeats came early"))
        }))),
    ("R68", || Covered(covered()
        .variant("without configured limit: a 429 on K1 pauses K2 for 3000 ms too", |report| {
            let mut play = Play::of(report);
            play.setup.quotas.clear();
            play.upstream(json!([{ "status": 429, "headers": { "retry-after": "3" } }, { "status": 200 }]));
            play.clients[0].n = Some(1);
            play.clients[1].n = Some(1);
            play.clients[1].at_ms = 500;
            let played = play.run();
            played.seen.iter().try_for_each(ok)?;
            played.starts()[1..].iter().try_for_each(|at| between("a start", *at, 3_000.0, f64::INFINITY))
        }))),
    ("R70", || NotYet(TOKENS)),
    ("R71", || Covered(covered()
        .with(|play| play.glances_ms = vec![1_000, 61_500, 125_500, 149_900, 150_500, 200_000, 299_000])
        .judge("gauge stays within 0..2 at all times", |played| {
            let gauges: Vec<u64> = played.glances.iter().filter_map(|it| on_the_wire(&it.status)).collect();
            must(gauges.iter().all(|gauge| *gauge <= 2), format!("{gauges:?}"))?;
            let most = played.arrivals.iter().map(|(_, it)| it.in_flight + 1).max();
            must(most <= Some(2), format!("{most:?} were open at the provider"))
        }))),
    ("R73", || Covered(covered()
        .judge("first cancelled, second ok", |played| {
            cancelled(&played.seen[0])?;
            ok(&played.seen[1])
        })
        .judge("second starts within 100 ms of 3000", |played| {
            between("the second start", played.starts()[1], 3_000.0, 3_100.0)
        }))),
    ("R74", || Covered(covered()
        .with(|play| play.until_ms = 20_000)
        .judge("upstream connection closed by 1500 ms", |played| {
            let ended = played.arrivals[0].1.ended;
            must(ended.is_some_and(|end| end.how == Finish::CallerGone), format!("{ended:?}"))?;
            let (at, arrival) = &played.arrivals[0];
            let closed = ended.map_or(f64::INFINITY, |end| at + end.at.since(arrival.at).as_secs_f64() * 1_000.0);
            between("its end", closed, 1_000.0, 1_500.0)
        })
        .judge("no retry", |played| must(played.arrivals.len() == 1, "it was repeated"))
        .later("the used or estimated tokens stay booked", TOKENS)
        .variant("for class write the call is left to finish instead", |report| {
            let mut play = Play::of(report);
            play.clients[0].cls = Some("write".to_owned());
            play.setup.endpoints = vec![("POST /v1/chat/completions".to_owned(), "uncertain_write", String::new())];
            play.upstream(json!([{ "status": 200, "delay_ms": 10_000 }]));
            play.until_ms = 20_000;
            let played = play.run();
            let ended = played.arrivals[0].1.ended.map(|end| end.how);
            must(ended == Some(Finish::Answered), format!("{ended:?}"))?;
            let state = played.actions[0]["state"].clone();
            must(state == "succeeded", state.to_string())
        }))),
    ("R76", || Covered(covered()
        .with(|play| play.until_ms = 20_000)
        .judge("A ok, B denied:queue_timeout", |played| {
            ok(&played.seen[0])?;
            denied(&played.seen[1], &["hold_exceeded"])
        })
        .instead_by("B answered between 2000 and 2200 ms with retry-after", "B answered by 2200 ms with retry-after", "R-SCHED-4: refusals are immediate where the wait is foreseen to be too long", |played| {
            between("the answer", played.seen[1].ended_ms, 0.0, 2_200.0)?;
            must(!played.seen[1].header("retry-after").is_empty(), played.seen[1].shown())
        })
        .judge("A ends at about 10000 ms", |played| between("the answer", played.seen[0].ended_ms, 10_000.0, 10_100.0))
        .judge("B never reaches upstream, checked until t=20000", |played| must(played.arrivals.len() == 1, "it arrived"))
        .judge("upstream health unchanged", |played| {
            let modes: Vec<String> = scopes(played).iter().map(|scope| scope["mode"].to_string()).collect();
            must(modes.iter().all(|mode| mode == "\"normal\""), format!("{modes:?}"))
        }))),
    ("R77", || Covered(covered()
        .with(|play| play.glances_ms = vec![1_900])
        .judge("<=58 (normally 16)", |played| {
            let count = played.arrivals.len();
            must(count == 16, format!("{count} calls arrived"))
        })
        .judge("first fifty cancelled, last eight ok", |played| {
            played.of(0).into_iter().try_for_each(cancelled)?;
            played.of(1).into_iter().try_for_each(ok)
        })
        .judge("in-flight and waiting gauges are 0 at t=1900", |played| {
            let glance = &played.glances[0];
            let waiting = glance.queue["queue"].as_array().map_or(0, Vec::len);
            must(on_the_wire(&glance.status) == Some(0) && waiting == 0, glance.status.to_string())
        })
        .judge("last eight start within 50 ms", |played| {
            let starts = played.starts();
            starts[starts.len() - 8..].iter().try_for_each(|at| between("a start", *at, 2_000.0, 2_050.0))
        })
        .judge("gauge equals a count taken from live objects, also after panics and time-outs", |played| {
            must(on_the_wire(&played.last.status) == Some(0), played.last.status.to_string())
        }))),
    ("R79", || Covered(covered()
        .judge("light starts by 1000 ms", |played| {
            let light = played.arrivals.iter().find(|(_, it)| it.marks.get("x-agent").is_some_and(|own| own == "light"));
            between("the light agent's start", light.map_or(f64::INFINITY, |(at, _)| *at), 500.0, 1_000.0)
        }))),
    ("R80", || Covered(covered()
        .with(share_of_batch)
        .judge("interactive wait p95 <= 500 ms", |played| {
            let mut waits: Vec<f64> = played.of(1).iter().map(|seen| seen.ended_ms - seen.sent_ms - 50.0).collect();
            waits.sort_by(f64::total_cmp);
            between("p95 of the wait", waits[waits.len() * 95 / 100], 0.0, 500.0)
        })
        .judge("batch all done by 60 s", |played| {
            let last = played.of(0).iter().map(|seen| seen.ended_ms).fold(0.0, f64::max);
            between("the last of the batch", last, 0.0, 60_000.0)
        })
        .variant("interactive at 6/s (more than capacity): batch still gets >= 10% of starts in every 20 s", batch_is_owed_a_tenth))),
    ("R82", || Covered(covered()
        .judge("added latency for scope B p99 <= 50 ms", |played| p99(played, 1))
        .judge("health p99 <= 50 ms", |played| p99(played, 2)))),
    ("R83", || Covered(covered().alone(killed::a_quota_survives)
        .judge("last five start at >= 10000 ms", |_| Ok(()))
        .variant("a Retry-After closure learned before the kill still holds after it", killed::a_closure_survives))),
];

fn scopes(played: &Played) -> Vec<serde_json::Value> {
    played.last.status["scopes"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

fn on_the_wire(status: &serde_json::Value) -> Option<u64> {
    let accounts = status["accounts"].as_array()?;
    Some(
        accounts
            .iter()
            .filter_map(|account| account["on_the_wire"].as_u64())
            .sum(),
    )
}

fn share_of_batch(play: &mut Play) {
    play.setup.extra.push_str(
        "priorities: { interactive: {}, normal: { floor: 0% }, background: { floor: 10% } }\n",
    );
    for client in &mut play.clients {
        client.who = client.priority.clone();
    }
}

fn batch_is_owed_a_tenth(report: &Report) -> Verdict {
    let mut play = Play::of(report);
    share_of_batch(&mut play);
    play.setup.deadline_ms = Some(600_000);
    play.setup.hold_ms = 600_000;
    play.clients[1].every_ms = None;
    play.clients[1].over_ms = Some(60_000);
    play.clients[1].n = Some(360);
    // The batch lasts as long as people do.
    play.clients[0].n = Some(60);
    let played = play.run();
    let is_batch = |it: &rategov_sim::provider::ledger::Arrival| {
        it.marks.get("x-agent").is_some_and(|own| own == "batch")
    };
    for from in [0.0, 20_000.0, 40_000.0] {
        let window = played
            .arrivals
            .iter()
            .filter(|(at, _)| (from..from + 20_000.0).contains(at));
        let (all, batch) = window.fold((0_u32, 0_u32), |(all, batch), (_, it)| {
            (all + 1, batch + u32::from(is_batch(it)))
        });
        must(
            batch * 10 + 5 >= all,
            format!("{batch} of {all} starts from {from} ms on"),
        )?;
    }
    Ok(())
}

fn p99(played: &Played, client: usize) -> Verdict {
    let mut added: Vec<f64> = played
        .of(client)
        .iter()
        .map(|seen| seen.ended_ms - seen.sent_ms)
        .collect();
    added.sort_by(f64::total_cmp);
    let p99 = added[(added.len() * 99 / 100).min(added.len() - 1)];
    must(p99 <= 50.0, format!("p99 is {p99:.0} ms"))
}
