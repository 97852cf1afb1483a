//! Reports about a restart: the real binary, the machine's own time, `kill -9`.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use rategov_sim::fake_provider::{self, Options, Running};
use serde_json::json;
use tokio::time::Instant;

use crate::caller::{self, Call, Seen};
use crate::judge::{Verdict, between, must, ok, passed_through, within_window};
use crate::policy::Setup;
use crate::report::Report;

/// What `serve` says before the agents' address once it listens.
const LISTENS: &str = "agents call";

/// Whose quota it is about.
const KEY: &str = "Bearer key-of-everybody";
/// The key of an account of its own.
const ANOTHER_KEY: &str = "Bearer key-of-another";

/// How much later than it was sent a first byte may be noted, on a machine that is
/// busy. Only the time of a real machine needs it: what a restart forgets would show
/// as starts that are seconds early.
const NOTED_LATE_MS: f64 = 500.0;

/// A governor in a process of its own; killed when it is dropped.
struct Process {
    child: Child,
    agents: SocketAddr,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Starts it and waits until it says where it listens.
    ///
    /// # Panics
    /// If it ends without having listened; shows what it said.
    async fn start(config: &Path, data: &Path) -> Process {
        let mut child = Command::new(env!("CARGO_BIN_EXE_rategov"))
            .args(["serve", "--config"])
            .arg(config)
            .arg("--data")
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let output = child.stderr.take().expect("piped");
        let (tell, told) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(output).lines().map_while(Result::ok);
            let mut said = Vec::new();
            let agents = lines.by_ref().find_map(|line| {
                let agents = listens_at(&line);
                said.push(line);
                agents
            });
            let _ = tell.send(agents.ok_or(said));
            // Read to the end, so that the governor never waits for its log.
            lines.for_each(drop);
        });
        let agents = told.await.expect("its output is read");
        let agents = agents.unwrap_or_else(|said| panic!("it did not listen: {said:#?}"));
        Process { child, agents }
    }
}

/// The agents' address, if this is the line that tells it.
fn listens_at(line: &str) -> Option<SocketAddr> {
    let (_, url) = line.split_once(LISTENS)?;
    url.trim()
        .strip_prefix("http://")?
        .split('/')
        .next()?
        .parse()
        .ok()
}

/// Calls with one key, all at once.
type Calls = (&'static str, u64);

/// Plays a report with a kill. The machine may be busy, so its moments are kept as
/// an order: each life of the governor begins as soon as the one before was killed,
/// makes its calls as soon as it listens, each group when the one before is
/// answered, and is killed with the last answer. Gives what the callers saw, when
/// calls arrived, and what was answered.
fn play(
    report: &Report,
    adjust: fn(&mut Setup),
    answers: serde_json::Value,
    lives: &[&[Calls]],
) -> (Vec<Seen>, Vec<f64>, Vec<u16>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let provider: Running = fake_provider::serve(Options::default())
            .await
            .expect("a provider");
        let answers = serde_json::from_value(answers).expect("answers of an upstream");
        provider.handle.push_upstream(answers).expect("a script");
        let folder = tempfile::tempdir().expect("a folder");
        let mut setup = Setup::of(report);
        adjust(&mut setup);
        let listen = "listen: { agents: \"127.0.0.1:0\", operators: \"127.0.0.1:0\" }\n";
        let config = folder.path().join("rategov.yaml");
        std::fs::write(&config, setup.text(provider.addr) + listen).expect("written");
        let data = folder.path().join("data");
        let began = Instant::now();
        let mut seen = Vec::new();
        for (life, groups) in lives.iter().enumerate() {
            let governor = Process::start(&config, &data).await;
            for (key, count) in *groups {
                let make = |index| {
                    let steps = Arc::new(AtomicU64::new(0));
                    let who = (life, index);
                    tokio::spawn(caller::make(governor.agents, call(key), who, began, steps))
                };
                let calls: Vec<_> = (0..*count).map(make).collect();
                for call in calls {
                    seen.push(call.await.expect("a call"));
                }
            }
        }
        let ledger = provider.handle.ledger();
        let starts = ledger
            .arrivals()
            .map(|it| it.at.as_micros() as f64 / 1_000.0)
            .collect();
        let statuses = ledger.arrivals().filter_map(|it| it.status).collect();
        (seen, starts, statuses)
    })
}

fn call(key: &str) -> Call {
    let body = json!({ "model": "m-one", "messages": [{ "role": "user", "content": "x" }] });
    let headers = [("authorization", key), ("content-type", "application/json")];
    Call {
        method: "POST".to_owned(),
        target: "/api/v1/chat/completions".to_owned(),
        headers: headers
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        body: Bytes::from(body.to_string()),
        chunked: false,
        leaves_at: None,
    }
}

/// The scenario itself: what was used before the kill counts after it.
pub(crate) fn a_quota_survives(report: &Report) -> Vec<String> {
    let window_ms = 10_000.0 - NOTED_LATE_MS;
    let answers = json!([
        { "status": 429, "when": format!("more than 10 starts in the last {window_ms} ms") },
        { "status": 200 },
    ]);
    let (seen, starts, statuses) = play(report, |_| {}, answers, &[&[(KEY, 10)], &[(KEY, 5)]]);
    let judged = || -> Verdict {
        seen.iter().try_for_each(ok)?;
        must(!statuses.contains(&429), "the provider refused")?;
        let arrived = starts.len();
        must(arrived == 15, format!("{arrived} calls arrived"))?;
        within_window(&starts, window_ms, 10.0)?;
        let first = starts[0];
        starts[10..]
            .iter()
            .try_for_each(|at| between("a start", at - first, window_ms, f64::INFINITY))
    };
    judged()
        .err()
        .map(|cause| format!("{cause}; starts {starts:.0?}"))
        .into_iter()
        .collect()
}

/// A hold that the provider asked for before the kill stands after it.
///
/// A refusal reaches its caller before the disk. So the governor is killed after
/// another account's call: that one's record was on the disk before it was sent, and
/// with it everything before.
pub(crate) fn a_closure_survives(report: &Report) -> Verdict {
    let answers = json!([
        { "status": 429, "headers": { "retry-after": "6" } },
        { "status": 200 },
    ]);
    let as_it_comes = |setup: &mut Setup| {
        setup.max_attempts = 1;
        setup.quotas.clear();
        setup.one_account = false;
    };
    let lives: [&[Calls]; 2] = [&[(KEY, 1), (ANOTHER_KEY, 1)], &[(KEY, 1)]];
    let (seen, starts, _) = play(report, as_it_comes, answers, &lives);
    passed_through(&seen[0], 429)?;
    seen[1..].iter().try_for_each(ok)?;
    must(starts.len() == 3, format!("{} calls arrived", starts.len()))?;
    let wait = starts[2] - starts[0];
    between("the second start", wait, 6_000.0, f64::INFINITY)
}
