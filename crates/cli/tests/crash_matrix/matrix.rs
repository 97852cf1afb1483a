//! Which cases are run, how many at a time, and what is told of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The variable with which `cargo xtask test --full` asks for every case.
const FULL: &str = "RATEGOV_TEST_FULL";
/// Only cases whose name contains this text, for a look at one of them.
const ONLY: &str = "RATEGOV_TEST_CASE";
/// Cases at a time: they wait more than they work.
const AT_ONCE: usize = 6;
/// Stories that are told whole when something is wrong.
const TOLD: usize = 3;

/// One cell of a matrix. Its name says which.
pub(crate) trait Case: Copy + fmt::Display + Send + 'static {
    /// Plays it.
    fn live(self) -> impl Future<Output = Story> + Send;
    /// Names of the points that are armed in it.
    fn armed(&self) -> Vec<&'static str>;
    /// Whether it belongs to every sample, whatever its place.
    fn is_essential(&self) -> bool;
}

/// What a case showed.
#[derive(Debug, Default)]
pub(crate) struct Story {
    /// The points that killed.
    pub(crate) killed: Vec<&'static str>,
    /// What is wrong.
    pub(crate) findings: Vec<String>,
    /// What the governors said.
    pub(crate) log: String,
}

/// Cases, and which of them a sample has beside the essential ones: every n-th.
pub(crate) struct Matrix<C> {
    pub(crate) cases: Vec<C>,
    pub(crate) stride: usize,
}

impl<C: Case> Matrix<C> {
    /// What is to be run here and now.
    fn chosen(self) -> Vec<C> {
        if let Ok(only) = std::env::var(ONLY) {
            let named = |case: &C| case.to_string().contains(&only);
            return self.cases.into_iter().filter(named).collect();
        }
        match std::env::var_os(FULL) {
            Some(_) => self.cases,
            None => self.sample(),
        }
    }

    /// The essential cases and every n-th.
    pub(crate) fn sample(&self) -> Vec<C> {
        let sampled = |n: usize, case: &C| n.is_multiple_of(self.stride) || case.is_essential();
        let cases = self.cases.iter().enumerate();
        cases
            .filter(|(n, case)| sampled(*n, case))
            .map(|(_, case)| *case)
            .collect()
    }
}

/// Runs the cases and fails with what any of them found.
pub(crate) async fn run<C: Case>(matrix: Matrix<C>) {
    let seats = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for case in matrix.chosen() {
        let seats = Arc::clone(&seats);
        running.spawn(async move {
            let _seat = seats
                .acquire_owned()
                .await
                .expect("the seats are never closed");
            let begun = Instant::now();
            let story = case.live().await;
            (case, story, begun.elapsed())
        });
    }
    let total = running.len();
    let mut kills: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong: Vec<(C, Story)> = Vec::new();
    let mut times: Vec<(Duration, String)> = Vec::new();
    while let Some(lived) = running.join_next().await {
        let (case, story, took) = lived.expect("a case does not panic");
        times.push((took, case.to_string()));
        for point in case.armed() {
            kills.entry(point).or_default();
        }
        for point in &story.killed {
            *kills.entry(point).or_default() += 1;
        }
        if !story.findings.is_empty() {
            wrong.push((case, story));
        }
    }
    times.sort();
    let sum: Duration = times.iter().map(|(took, _)| *took).sum();
    eprintln!("{total} cases, {sum:?} in all; kills by point: {kills:?}");
    eprintln!(
        "the slowest: {:?}",
        times.iter().rev().take(TOLD).collect::<Vec<_>>()
    );
    for (case, story) in wrong.iter().take(TOLD) {
        eprintln!(
            "\n==== {case}\n{}\n{}",
            story.findings.join("\n"),
            story.log
        );
    }
    let told: Vec<String> = wrong
        .iter()
        .map(|(case, story)| format!("{case}: {}", story.findings.join("; ")))
        .collect();
    assert!(
        told.is_empty(),
        "{} of {total} cases:\n{}",
        told.len(),
        told.join("\n")
    );
    let idle: Vec<&&str> = kills
        .iter()
        .filter(|(_, kills)| **kills == 0)
        .map(|(name, _)| name)
        .collect();
    if std::env::var_os(ONLY).is_none() {
        assert!(
            idle.is_empty(),
            "these points never killed anything: {idle:?}"
        );
    }
}
