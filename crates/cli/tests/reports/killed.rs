//! Reports about a restart: the real binary, the machine's own time, `kill -9`.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use rategov_sim::fake_provider::{self, Options, Running};
use serde_json::json;
use tokio::time::Instant;

use crate::caller::{self, Call, Seen};
use crate::judge::{Verdict, between, must, ok, within_window};
use crate::policy::Setup;
use crate::report::Report;

/// How long the binary may take to listen.
const START_TIME_MAX: Duration = Duration::from_secs(30);

/// A governor in a process of its own; killed when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    /// Starts it and waits until it listens.
    async fn start(config: &Path, data: &Path, agents: SocketAddr) -> Process {
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
        // Read to the end, so that the governor never waits for its log.
        std::thread::spawn(move || {
            BufReader::new(output)
                .lines()
                .map_while(Result::ok)
                .for_each(drop)
        });
        let until = Instant::now() + START_TIME_MAX;
        while tokio::net::TcpStream::connect(agents).await.is_err() {
            assert!(Instant::now() < until, "it does not listen");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Process(child)
    }
}

/// A port that is free now.
fn free_port() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound")
}

/// Plays a report with a kill. The machine may be busy, so its moments are kept as
/// an order: the first calls arrive, 1 s later comes the kill, 1 s later the start,
/// and as soon as it listens the second calls. Gives what both callers saw, when
/// calls arrived, and what was answered.
fn play(
    report: &Report,
    adjust: fn(&mut Setup),
    answers: serde_json::Value,
    (first, second): (u64, u64),
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
        let (agents, operators) = (free_port(), free_port());
        let mut setup = Setup::of(report);
        adjust(&mut setup);
        let listen = format!("listen: {{ agents: \"{agents}\", operators: \"{operators}\" }}\n");
        let config = folder.path().join("rategov.yaml");
        std::fs::write(&config, setup.text(provider.addr) + &listen).expect("written");
        let data = folder.path().join("data");
        let began = Instant::now();
        let calls = |client: usize, count: u64| {
            let call = |index| {
                let steps = Arc::new(AtomicU64::new(0));
                tokio::spawn(caller::make(agents, call(), (client, index), began, steps))
            };
            (0..count).map(call).collect::<Vec<_>>()
        };
        let process = Process::start(&config, &data, agents).await;
        let mut seen = Vec::new();
        for call in calls(0, first) {
            seen.push(call.await.expect("a call"));
        }
        tokio::time::sleep(Duration::from_millis(1_000)).await;
        drop(process);
        tokio::time::sleep(Duration::from_millis(1_000)).await;
        let _process = Process::start(&config, &data, agents).await;
        for call in calls(1, second) {
            seen.push(call.await.expect("a call"));
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

fn call() -> Call {
    let body = json!({ "model": "m-one", "messages": [{ "role": "user", "content": "x" }] });
    let headers = [
        ("authorization", "Bearer key-of-everybody"),
        ("content-type", "application/json"),
    ];
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
    let answers = json!([
        { "status": 429, "when": "more than 10 starts in the last 10000 ms" },
        { "status": 200 },
    ]);
    let (seen, starts, statuses) = play(report, |_| {}, answers, (10, 5));
    let judged = || -> Verdict {
        must(
            starts.len() == 15,
            format!("{} calls arrived", starts.len()),
        )?;
        must(!statuses.contains(&429), "the provider refused")?;
        seen.iter().try_for_each(ok)?;
        within_window(&starts, 10_000.0, 10.0)?;
        let first = starts[0];
        starts[10..]
            .iter()
            .try_for_each(|at| between("a start", at - first, 10_000.0, f64::INFINITY))
    };
    judged()
        .err()
        .map(|cause| format!("{cause}; starts {starts:.0?}"))
        .into_iter()
        .collect()
}

/// A hold that the provider asked for before the kill stands after it.
pub(crate) fn a_closure_survives(report: &Report) -> Verdict {
    let answers = json!([
        { "status": 429, "headers": { "retry-after": "6" } },
        { "status": 200 },
    ]);
    let without_repeats = |setup: &mut Setup| {
        setup.max_attempts = 1;
        setup.quotas.clear();
    };
    let (seen, starts, _) = play(report, without_repeats, answers, (1, 1));
    let second = &seen[1];
    ok(second)?;
    must(starts.len() == 2, format!("{} calls arrived", starts.len()))?;
    between(
        "the second start",
        starts[1] - starts[0],
        6_000.0,
        f64::INFINITY,
    )
}
