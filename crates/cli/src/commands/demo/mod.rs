//! `demo`: nine agents, one quota, in real time.
//!
//! The same cast plays against the same provider (60 requests in any 10 s, 200 to
//! 600 ms a call): on its own with two kinds of manners, and through the governor.
//! Then the harder cases: a provider that counts refusals too, a governor that
//! was told nothing, and one that was told the wrong shape. Each experiment has a
//! provider of its own; all run side by side, since none of them needs the machine.

mod agents;
mod figures;
mod http;
mod plot;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agents::{Cast, Manners, Played, Progress};
use anyhow::{Context, anyhow};
use figures::{Allowed, Arrival, Figures, Seen};
use rategov_server::start::{self, Running};
use rategov_sim::fake_provider::{self, Options};
use rategov_sim::provider::config::Config;
use rategov_sim::provider::draw::Seed;
use rategov_sim::provider::ledger::Verdict;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::args::Demo;
use crate::output;

/// What the provider allows in every experiment.
const ALLOWED: Allowed = Allowed {
    units: 60.0,
    per_s: 10.0,
};
/// Time that an experiment may take beyond what the quota alone would need.
const PATIENCE: f64 = 2.5;

/// One experiment.
struct Experiment {
    name: &'static str,
    title: &'static str,
    provider: &'static str,
    manners: Manners,
    /// What the governor is told of the limit; `None` without a governor.
    declared: Option<&'static str>,
}

const SLIDING: &str = "sliding:60/10s";
const DECLARED: &str =
    "- { scope: account, dimension: requests, limit: 60, window: 10s, kind: sliding }";

const EXPERIMENTS: [Experiment; 6] = [
    Experiment {
        name: "alone",
        title: "on their own, full jitter",
        provider: SLIDING,
        manners: Manners::FullJitter,
        declared: None,
    },
    Experiment {
        name: "retry_after",
        title: "on their own, obeying Retry-After",
        provider: SLIDING,
        manners: Manners::RetryAfter,
        declared: None,
    },
    Experiment {
        name: "governed",
        title: "through the governor",
        provider: SLIDING,
        manners: Manners::Governed,
        declared: Some(DECLARED),
    },
    Experiment {
        name: "governed_refusals_count",
        title: "governed, refusals count",
        provider: "sliding:60/10s,count-refusals",
        manners: Manners::Governed,
        declared: Some(DECLARED),
    },
    Experiment {
        name: "governed_undeclared",
        title: "governed, nothing declared",
        provider: SLIDING,
        manners: Manners::Governed,
        declared: Some(""),
    },
    Experiment {
        name: "governed_wrong_shape",
        title: "governed, wrong shape declared",
        provider: "bucket:10+6/s",
        manners: Manners::Governed,
        declared: Some(DECLARED),
    },
];

/// Plays the experiments and says what came of them.
pub(crate) async fn run(demo: Demo, as_json: bool) -> anyhow::Result<ExitCode> {
    let count = if demo.quick { 3 } else { EXPERIMENTS.len() };
    let interactive = (demo.agents / 3).max(1);
    let background = (demo.agents - interactive).max(1);
    let wanted = f64::from(background * demo.calls);
    let asked_by_people = f64::from(interactive) / 1.5;
    let left = (ALLOWED.units / ALLOWED.per_s - asked_by_people).max(1.0);
    let time_max = Duration::from_secs_f64(wanted / left * PATIENCE + 30.0);
    output::note(&format!(
        "{interactive} interactive and {background} background agents, {} calls each, \
         60 requests per rolling 10 s; about {:.0} s",
        demo.calls,
        wanted / left
    ));
    let mut playing = Vec::new();
    for experiment in &EXPERIMENTS[..count] {
        let progress = Arc::new(Progress::default());
        let cast = Cast {
            interactive,
            background,
            calls: demo.calls,
            manners: experiment.manners,
            target: SocketAddr::from(([127, 0, 0, 1], 0)),
            prefix: "",
            seed: demo.seed,
            time_max,
        };
        let watched = Arc::clone(&progress);
        let seed = demo.seed;
        let task = tokio::spawn(async move { play(experiment, cast, seed, progress).await });
        playing.push((experiment, watched, task));
    }
    let ticker = show_progress(
        playing
            .iter()
            .map(|(e, p, _)| (e.title, Arc::clone(p)))
            .collect(),
        wanted as usize,
    );
    let mut results: Vec<(&Experiment, Figures)> = Vec::new();
    for (experiment, _, task) in playing {
        let figures = task
            .await
            .map_err(|_| anyhow!("an experiment was stopped"))??;
        results.push((experiment, figures));
    }
    ticker.abort();
    if std::io::stderr().is_terminal() {
        eprintln!();
    }
    let drawn: Vec<(&str, &Figures)> = results.iter().map(|(e, f)| (e.title, f)).collect();
    std::fs::write(&demo.plot, plot::svg(&drawn, ALLOWED))
        .with_context(|| format!("the plot can't be written to {}", demo.plot.display()))?;
    if as_json {
        let object: Map<String, Value> = results
            .iter()
            .map(|(e, f)| (e.name.to_owned(), f.json()))
            .collect();
        output::json(&Value::Object(object));
    } else {
        table(&results);
    }
    output::note(&format!("plot: {}", demo.plot.display()));
    Ok(ExitCode::SUCCESS)
}

fn table(results: &[(&Experiment, Figures)]) {
    let head = [
        "",
        "arrived",
        "refused",
        "quota used",
        "wait p50",
        "wait p95",
        "fairness",
        "failed",
        "took",
    ];
    output::table(
        &head,
        results.iter().map(|(experiment, f)| {
            vec![
                experiment.title.to_owned(),
                f.arrived.to_string(),
                format!(
                    "{} ({:.0} %)",
                    f.refused,
                    100.0 * f.refused as f64 / f.arrived.max(1) as f64
                ),
                format!("{:.1} %", 100.0 * f.utilisation),
                format!("{:.2} s", f.interactive_wait_p50_s),
                format!("{:.2} s", f.interactive_wait_p95_s),
                format!("{:.3}", f.jain),
                f.failed.to_string(),
                format!("{:.0} s", f.lasted_s),
            ]
        }),
    );
}

/// Prints how far each experiment is, once a second, to a person's terminal.
fn show_progress(
    watched: Vec<(&'static str, Arc<Progress>)>,
    wanted: usize,
) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let terminal = std::io::stderr().is_terminal();
        let mut tick = tokio::time::interval(Duration::from_secs(if terminal { 1 } else { 15 }));
        loop {
            tick.tick().await;
            let parts: Vec<String> = watched
                .iter()
                .map(|(title, progress)| {
                    let done = progress.done.load(Ordering::Relaxed);
                    format!("{title} {}%", 100 * done / wanted.max(1))
                })
                .collect();
            if terminal {
                eprint!("\r\u{1b}[K{}", parts.join(" · "));
            } else {
                output::note(&parts.join(" · "));
            }
        }
    })
}

/// One experiment from its provider to its figures.
async fn play(
    experiment: &'static Experiment,
    mut cast: Cast,
    seed: u64,
    progress: Arc<Progress>,
) -> anyhow::Result<Figures> {
    let config = Config {
        seed: Seed(seed),
        quotas: vec![
            experiment
                .provider
                .parse()
                .map_err(|error| anyhow!("{error}"))?,
        ],
        service: "200ms-600ms".parse().map_err(|error| anyhow!("{error}"))?,
        ..Config::default()
    };
    let provider = fake_provider::serve(Options::new(config)).await?;
    let folder = tempfile::tempdir().context("a folder for the governor's data")?;
    let governor: Option<Running> = match experiment.declared {
        None => None,
        Some(declared) => {
            let options = start::Options {
                config_text: Some(configuration(provider.addr, declared)),
                data_folder: Some(folder.path().join("data")),
                agents: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
                operators: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
                ..start::Options::default()
            };
            Some(start::start(options).await?)
        }
    };
    cast.target = governor
        .as_ref()
        .map_or(provider.addr, |governor| governor.agents);
    cast.prefix = if governor.is_some() { "/demo" } else { "" };
    let began = Instant::now();
    let began_there = provider.handle.now();
    let played = agents::play(cast, progress).await;
    let ledger = provider.handle.ledger();
    let arrivals: Vec<Arrival> = ledger
        .arrivals()
        .map(|arrival| Arrival {
            at_s: arrival.at.since(began_there).as_secs_f64(),
            accepted: !matches!(arrival.verdict, Verdict::Refused(_)),
            path: arrival.target.clone(),
        })
        .collect();
    if let Some(governor) = governor {
        governor.shut_down().await;
    }
    provider.shutdown().await;
    Ok(sum_up(&played, arrivals, began))
}

fn sum_up(played: &Played, arrivals: Vec<Arrival>, began: Instant) -> Figures {
    let since = |at: Instant| at.saturating_duration_since(began).as_secs_f64();
    let seen: Vec<Seen> = played
        .calls
        .iter()
        .map(|call| Seen {
            agent: call.agent.clone(),
            interactive: call.interactive,
            path: call.path.clone(),
            started_s: since(call.started),
            ended_s: since(call.ended),
            succeeded: call.succeeded,
        })
        .collect();
    // The quota can be used up as long as background work waits to be sent.
    let last_in = arrivals
        .iter()
        .filter(|arrival| arrival.accepted && arrival.path.contains("/batch-"))
        .map(|arrival| arrival.at_s)
        .fold(0.0, f64::max);
    let lasted = if played.unfinished == 0 {
        last_in
    } else {
        since(played.background_done)
    };
    figures::of(
        &seen,
        arrivals,
        ALLOWED,
        lasted.max(0.001),
        played.unfinished,
    )
}

fn configuration(provider: SocketAddr, declared: &str) -> String {
    let quotas = match declared {
        "" => "[]".to_owned(),
        declared => format!("\n          {declared}"),
    };
    format!(
        "providers:\n  \
           demo:\n    \
             base_url: http://{provider}\n    \
             accounts:\n      \
               demo:\n        \
                 quotas: {quotas}\n    \
             endpoints:\n      \
               - match: GET /items/{{id}}\n        \
                 class: read\n"
    )
}
