//! Which cases are run, how many at a time, and what is told of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::fault::Fault;
use super::life::{Case, Story};
use super::plan::{Kind, plans};

/// The variable with which `cargo xtask test --full` asks for every case.
const FULL: &str = "RATEGOV_TEST_FULL";
/// Only cases whose name contains this text, for a look at one of them.
const ONLY: &str = "RATEGOV_TEST_CASE";
/// Beside the cases that are certain to kill, the sample has one in so many. It
/// has no divisor in common with the numbers of faults, 13 and 14, so that every
/// fault and every plan has its turn.
const STRIDE: usize = 25;
/// Cases at a time: they wait more than they work.
const AT_ONCE: usize = 6;
/// Stories that are told whole when something is wrong.
const TOLD: usize = 3;

/// Cases of one kind of write.
pub(crate) struct Matrix {
    cases: Vec<Case>,
    /// How often each point was armed and killed, by its name.
    points: BTreeMap<&'static str, usize>,
}

impl Matrix {
    /// All cases, or the sample.
    pub(crate) fn of(kind: Kind) -> Matrix {
        let faults = Fault::of(kind);
        let every = plans(kind).into_iter().flat_map(|plan| {
            faults.iter().map(move |fault| Case { kind, fault: *fault, plan })
        });
        let only = std::env::var(ONLY).ok();
        let full = only.is_some() || std::env::var_os(FULL).is_some();
        let cases: Vec<Case> = every
            .enumerate()
            .filter(|(n, case)| full || n % STRIDE == 0 || case.is_certain_to_kill())
            .map(|(_, case)| case)
            .filter(|case| only.as_ref().is_none_or(|only| case.to_string().contains(only)))
            .collect();
        Matrix { cases, points: BTreeMap::new() }
    }
}

/// Runs every case and fails with what any of them found.
pub(crate) async fn run(mut matrix: Matrix) {
    let seats = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for case in std::mem::take(&mut matrix.cases) {
        let seats = Arc::clone(&seats);
        running.spawn(async move {
            let _seat = seats.acquire_owned().await.expect("the seats are never closed");
            let begun = Instant::now();
            let story = case.live().await;
            (case, story, begun.elapsed())
        });
    }
    let total = running.len();
    let mut wrong: Vec<(Case, Story)> = Vec::new();
    let mut times: Vec<(Duration, String)> = Vec::new();
    while let Some(lived) = running.join_next().await {
        let (case, story, took) = lived.expect("a case does not panic");
        times.push((took, case.to_string()));
        for (kill, killed) in [case.plan.first, case.plan.second].iter().zip(story.killed) {
            *matrix.points.entry(kill.point.name).or_default() += usize::from(killed);
        }
        if !story.findings.is_empty() {
            wrong.push((case, story));
        }
    }
    times.sort();
    let sum: Duration = times.iter().map(|(took, _)| *took).sum();
    eprintln!("{total} cases, {sum:?} in all; kills by point: {:?}", matrix.points);
    eprintln!("the slowest: {:?}", times.iter().rev().take(TOLD).collect::<Vec<_>>());
    for (case, story) in wrong.iter().take(TOLD) {
        eprintln!("\n==== {case}\n{}\n{}", story.findings.join("\n"), story.log);
    }
    let told: Vec<String> = wrong
        .iter()
        .map(|(case, story)| format!("{case}: {}", story.findings.join("; ")))
        .collect();
    assert!(told.is_empty(), "{} of {total} cases:\n{}", told.len(), told.join("\n"));
    let idle: Vec<&&str> =
        matrix.points.iter().filter(|(_, kills)| **kills == 0).map(|(name, _)| name).collect();
    if std::env::var_os(ONLY).is_none() {
        assert!(idle.is_empty(), "these points never killed anything: {idle:?}");
    }
}
