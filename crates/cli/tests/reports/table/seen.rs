//! What people and clients can see, what they must not see, and who used what.

use serde_json::json;

use super::Row;
use crate::cover::Coverage::{Covered, NotYet};
use crate::cover::covered;
use crate::judge::{denied, must, ok, passed_through};
use crate::played::{Person, tally};

#[rustfmt::skip] // A row reads as: report, then how it is judged.
pub(super) const ROWS: &[Row] = &[
    ("R52", || Covered(covered()
        .judge("HTTP requests from the client = 1, because the final answer says x-should-retry: false", |played| {
            must(played.seen[0].header("x-should-retry") == "false", played.seen[0].shown())
        })
        .later(
            "if the client retries anyway with the same operation, no further upstream call is made",
            "R-RETRY-3: a repeat joins its action while that is open; once it has ended, equal calls without a key are separate actions",
        ))),
    ("R100", || NotYet("`rategov doctor` is to come")),
    ("R101", || Covered(covered()
        .with(|play| {
            play.setup.response_timeout_ms = 3_000;
            play.setup.max_attempts = 2;
        })
        .instead_by("4", "at least 4", "its own base policy: reads are repeated after a 429 and after a time-out", |played| {
            must(played.arrivals.len() >= 4, "not all of it was met")
        })
        .judge("any", |_| Ok(()))
        .judge("SECRET1..3 occur 0 times in logs, audit, metrics, dashboard API, error answers made by us and crash dumps", |played| {
            let held = |bytes: &[u8], secret: &str| bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            for secret in ["SECRET1", "SECRET2", "SECRET3"] {
                for (place, bytes) in [("log", played.log.as_bytes()), ("metrics", played.metrics.as_bytes()), ("data folder or API", played.kept.as_slice())] {
                    must(!held(bytes, secret), format!("{secret} is in the {place}"))?;
                }
                for seen in played.seen.iter().filter(|seen| seen.is_governors()) {
                    must(!held(&seen.body, secret), format!("{secret} is in {}", seen.shown()))?;
                }
            }
            must(!played.log.is_empty(), "nothing was logged at all")
        })
        .judge("a short hash or last four characters is allowed", |_| Ok(())))),
    ("R103", || Covered(covered()
        .with(|play| play.glances_ms = vec![1_000])
        .judge("status API and dashboard list the call as waiting within 1000 ms of the 429", |played| {
            let queue = &played.glances[0].queue["queue"];
            must(queue.as_array().map(Vec::len) == Some(1), queue.to_string())
        })
        .judge("entry has reason, until, attempt 1 of 3, agent, scope", |played| {
            let entry = &played.glances[0].queue["queue"][0];
            let told = ["reason", "expected_start", "scope"].iter().all(|name| entry[*name].is_string());
            must(told && entry["attempts"] == 1 && entry["attempts_max"] == 3 && entry["agent"] == "a1", entry.to_string())
        })
        .judge("an event is emitted when the wait starts and when it ends", |played| {
            let words: Vec<&str> = played.journal.iter().rev().map(|(word, _)| word.as_str()).collect();
            let scheduled = words.iter().position(|word| *word == "retry_scheduled");
            let sent = words.iter().rposition(|word| *word == "action_sent");
            must(scheduled.is_some() && scheduled < sent, format!("{words:?}"))
        }))),
    ("R104", || Covered(covered()
        .later("run wrapper ends with a non-zero exit code and one line of cause", "`rategov exec` is tested end to end with real programs"))),
    ("R107", || NotYet("quotas of money are not kept yet, only of requests and open calls")),
    ("R109", || Covered(covered()
        .judge("usage by agent: a 5, b 7, c 15 upstream calls of which 4 retries", |played| {
            let by_agent = json!(played.sends);
            must(by_agent == json!({ "a": 5, "b": 7, "c": 15 }), by_agent.to_string())
        })
        .judge("sum over agents = upstream count", |played| {
            let sum: u64 = played.sends.values().sum();
            must(sum == played.arrivals.len() as u64, format!("{sum} sends are told"))
        })
        .judge("limit events listed under c only", |played| {
            let refused = played.arrivals.iter().filter(|(_, it)| it.status == Some(429));
            let by = tally(refused.filter_map(|(_, it)| it.marks.get("x-agent").map(String::as_str)));
            must(by.len() == 1 && by.get("c") == Some(&4), format!("{by:?}"))
        }))),
    ("R110", || Covered(covered()
        .with(|play| play.person = vec![(60_000, Person::Resumes)])
        .judge("first passthrough:429 or denied:quota, second ok", |played| {
            passed_through(&played.seen[0], 429).or_else(|_| denied(&played.seen[0], &["quota_exhausted"]))?;
            ok(&played.seen[1])
        })
        .judge("resume is in the audit with its author", |played| {
            let resumed = played.journal.iter().find(|(word, _)| word == "resumed");
            must(resumed.is_some_and(|(_, text)| text.contains("by=")), format!("{resumed:?}"))
        }))),
];
