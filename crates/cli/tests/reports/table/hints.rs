//! What providers say about waiting: in headers, in bodies, in words.

use serde_json::{Value, json};

use super::Row;
use crate::cover::Coverage::Covered;
use crate::cover::covered;
use crate::judge::{Verdict, between, denied, must, passed_through};
use crate::played::{Play, Played};
use crate::report::Report;
use crate::world::WALL_AT_START;

/// R-RETRY-4 in a sentence.
pub(super) const FULL_JITTER: &str =
    "R-RETRY-4: without a hint full jitter applies, whose lower bound is the 250 ms minimum";

#[rustfmt::skip] // A row reads as: report, then how it is judged.
pub(super) const ROWS: &[Row] = &[
    ("R1", || Covered(covered())),
    ("R2", || Covered(covered())),
    ("R4", || Covered(covered())),
    ("R5", || Covered(covered()
        .judge("a log line names the bad header value once", |played| {
            let lines = played.log.lines().filter(|line| line.contains("WARN") && line.contains("retry-after"));
            let count = lines.count();
            must(count == 1, format!("{count} log lines name it"))
        }))),
    ("R7", || Covered(covered()
        .variant(
            "upstream always 429 retry-after: 0 -> upstream_calls exactly 3, second gap >= 1000 ms (a zero hint that already failed once is not believed again), then passthrough:429",
            zero_for_ever,
        ))),
    ("R8", || Covered(covered()
        .judge("a repeated hint is floored by the back-off step for that attempt", |played| {
            let last = played.gaps().last().copied().unwrap_or(0.0);
            must(played.arrivals.len() < 3 || last >= 1_000.0, format!("the second gap is {last:.0} ms"))
        }))),
    ("R10", || Covered(covered()
        .judge("answer is 429 with retry-after between 1799 and 1800 and x-should-retry: false", |played| {
            let seen = &played.seen[0];
            let wait: u64 = seen.header("retry-after").parse().unwrap_or(0);
            must((1_799..=1_800).contains(&wait), format!("retry-after is {wait}"))?;
            must(seen.header("x-should-retry") == "false", seen.shown())
        })
        .judge("scope shown as closed until T0+1800 s", |played| {
            closed_until(played, "2026-01-01T00:30:0")
        }))),
    ("R11", || Covered(covered())),
    ("R13", || Covered(covered()
        .with(|play| play.glances_ms = vec![5])
        .judge("second call reaches upstream >= 1200 ms after the first response", |played| {
            between("the second start", played.starts()[1], 1_200.0, 1_500.0)
        })
        .judge("zero 429 seen; GET of limits shows the parsed reset", |played| {
            must(played.answered_with(429) == 0, "the provider refused")?;
            reset_shown(played, 1_200.0)
        })
        .variant("'500ms'", |report| reset_form(report, "500ms", 500.0))
        .variant("'1m30s' -> 90000", |report| reset_form(report, "1m30s", 90_000.0))
        .variant("'6m0s' -> 360000", |report| reset_form(report, "6m0s", 360_000.0))
        .variant("'2h3m' -> 7380000", |report| reset_form(report, "2h3m", 7_380_000.0))
        .variant(
            "anthropic-ratelimit-requests-remaining: 0 with ...-reset: <now+3s RFC 3339> -> 3000",
            reset_as_a_date,
        ))),
    ("R14", || Covered(covered()
        .with(|play| play.setup.more("message_clock: utc"))
        .judge("first: passthrough:429; other nine: denied:quota", |played| {
            passed_through(&played.seen[0], 429)?;
            played.seen[1..].iter().try_for_each(|seen| denied(seen, &["quota_exhausted"]))
        })
        .judge("each denial carries the parsed reset moment", |played| {
            played.seen[1..].iter().try_for_each(|seen| {
                let wait: f64 = seen.header("retry-after").parse().unwrap_or(0.0);
                let moment = seen.sent_ms / 1_000.0 + wait;
                must((18_000.0..18_005.0).contains(&moment), format!("{moment} s: {}", seen.shown()))
            })
        })
        .variant(
            "if the text cannot be parsed with certainty, no time is invented and the scope is probed with growing gaps instead",
            no_time_is_invented,
        ))),
    ("R16", || Covered(covered())),
    ("R17", || Covered(covered()
        .with(|play| {
            let behind = WALL_AT_START.as_micros() - 4_000_000;
            play.provider.wall_at_start = rategov_core::time::WallTime::from_micros(behind);
        })
        .judge("second call >= 10500 ms later by the upstream clock, <= 13000 ms", |played| {
            between("the second start", played.starts()[1] - played.starts()[0], 10_500.0, 13_000.0)
        })
        .judge("wait = reset minus upstream Date, plus at most ~1 s safety", |played| {
            // Its last second is waited out; then comes the jitter, a tenth.
            between("the wait", played.gaps()[0], 11_000.0, 12_100.0)
        }))),
    ("R28", || Covered(covered()
        .judge("event class rate; never too_large", |played| {
            let code = played.actions[0]["code"].as_str().unwrap_or_default().to_owned();
            must(!code.contains("large"), code)?;
            refusals_counted(played, 1)
        }))),
    ("R31", || Covered(covered())),
    ("R94", || Covered(covered()
        .judge("class rate; log text readable", |played| {
            let odd = |c: char| c.is_control() && c != '\n';
            must(!played.log.contains(odd), "the log holds control characters")?;
            refusals_counted(played, 1)
        }))),
    ("R97", || Covered(covered()
        .judge("retry-after, x-ratelimit-* and request id reach the client under their own names", |played| {
            let seen = &played.seen[0];
            let named = ["retry-after", "x-ratelimit-remaining-tokens", "x-request-id"].map(|name| seen.header(name));
            must(named == ["45", "0", "r1"], format!("{named:?}"))
        })
        .judge("the governor's own headers use its own prefix", |played| {
            let seen = &played.seen[0];
            let own: Vec<&str> = seen.headers.keys().map(|name| name.as_str()).collect();
            let standard = ["content-type", "content-length", "date", "link", "retry-after", "x-should-retry", "openai-organization", "x-request-id", "x-ratelimit-remaining-tokens", "transfer-encoding"];
            let strange: Vec<&&str> = own.iter().filter(|name| !name.starts_with("rategov-") && !standard.contains(name)).collect();
            must(strange.is_empty() && own.iter().any(|name| name.starts_with("rategov-")), format!("{strange:?}"))
        }))),
];

/// The scope of the account as it stands at the end.
pub(super) fn account_scope(played: &Played) -> Value {
    let scopes = played.last.status["scopes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let of_account = |scope: &&Value| {
        scope["scope"]
            .as_str()
            .is_some_and(|it| it.starts_with("account:"))
    };
    scopes.iter().find(of_account).cloned().unwrap_or_default()
}

/// Some scope saw so many refusal events.
pub(super) fn refusals_counted(played: &Played, count: u64) -> Verdict {
    let scopes = played.last.status["scopes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let seen: u64 = scopes
        .iter()
        .filter_map(|scope| scope["refusals"].as_u64())
        .sum();
    must(
        seen == count,
        format!("{seen} refusal events are counted, not {count}"),
    )
}

fn closed_until(played: &Played, moment: &str) -> Verdict {
    let scopes = played.last.status["scopes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let closed = |scope: &Value| {
        let until = scope["next_allowed_at"].as_str().unwrap_or_default();
        scope["mode"] == "closed" && until.starts_with(moment)
    };
    must(
        scopes.iter().any(closed),
        format!("no scope is closed until {moment}: {scopes:?}"),
    )
}

fn zero_for_ever(report: &Report) -> Verdict {
    let mut play = Play::of(report);
    play.upstream(json!([{ "status": 429, "headers": { "retry-after": "0" } }]));
    let played = play.run();
    must(
        played.arrivals.len() == 3,
        format!("{} calls arrived", played.arrivals.len()),
    )?;
    between("the second gap", played.gaps()[1], 1_000.0, f64::INFINITY)?;
    passed_through(&played.seen[0], 429)
}

/// What the first glance shows as the reset of the first scope that has one.
fn reset_shown(played: &Played, expected_ms: f64) -> Verdict {
    let scopes = played.glances[0].status["scopes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let shown = scopes
        .iter()
        .find_map(|scope| scope["reset_after_seconds"].as_f64());
    let Some(shown) = shown else {
        return Err(format!("no scope shows a reset: {scopes:?}"));
    };
    between(
        "the reset shown",
        shown * 1_000.0,
        expected_ms - 10.0,
        expected_ms,
    )
}

/// The first answer says when its bucket is full again, in this form.
fn reset_form(report: &Report, form: &str, expected_ms: f64) -> Verdict {
    let mut play = Play::of(report);
    play.upstream(json!([
        { "status": 200, "headers": {
            "x-ratelimit-limit-requests": "60",
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": form,
        } },
        { "status": 200 },
    ]));
    play.glances_ms = vec![5];
    let played = play.run();
    must(played.answered_with(429) == 0, "the provider refused")?;
    reset_shown(&played, expected_ms)
}

fn reset_as_a_date(report: &Report) -> Verdict {
    let mut play = Play::of(report);
    "anthropic".clone_into(&mut play.setup.preset);
    for client in &mut play.clients {
        "POST /v1/messages".clone_into(&mut client.send);
    }
    play.setup.endpoints = vec![("POST /v1/messages".to_owned(), "generation", String::new())];
    play.upstream(json!([
        { "status": 200, "headers": {
            "anthropic-ratelimit-requests-limit": "60",
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": "<now+3s RFC 3339>",
        } },
        { "status": 200 },
    ]));
    play.glances_ms = vec![5];
    let played = play.run();
    between("the second start", played.starts()[1], 3_000.0, 3_500.0)?;
    reset_shown(&played, 3_000.0)
}

/// Without a word about the zone of its clock, the time in the text means nothing.
fn no_time_is_invented(report: &Report) -> Verdict {
    let mut play = Play::of(report);
    play.clients[0].n = Some(60);
    let played = play.run();
    let starts = played.starts();
    must(starts.len() <= 8, format!("{} calls arrived", starts.len()))?;
    let gaps: Vec<f64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    must(
        gaps.len() >= 2 && gaps.windows(2).all(|pair| pair[0] < pair[1] + 60_000.0),
        format!("{gaps:?}"),
    )?;
    must(
        gaps.last() > gaps.first(),
        format!("the gaps do not grow: {gaps:?}"),
    )
}
