//! Running seeds: each twice, so that a world that is not the same twice is a
//! failure like any other; and telling a failing seed so that it can be run again.

use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use crate::world::Ended;
use crate::world::World;
use crate::world::node::Planted;

/// A seed whose world broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What is broken, in words.
    pub what: String,
    /// The last things that happened, oldest first.
    pub tail: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.tail {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "seed {} broke {}", self.seed, self.what)?;
        write!(f, "hint: cargo xtask sim --seed {}", self.seed)
    }
}

impl std::error::Error for Failure {}

/// Runs one seed once. A panic of the code under test is a failure of its seed.
///
/// # Errors
/// [`Failure`].
pub fn run_once(seed: u64, planted: Option<Planted>, aloud: bool) -> Result<Ended, Failure> {
    let mut world = World::new(seed, planted, aloud);
    let ended = catch_unwind(AssertUnwindSafe(|| world.run()));
    let what = match ended {
        Ok(Ok(ended)) => return Ok(ended),
        Ok(Err(broken)) => broken,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            format!("by a panic: {}", text.unwrap_or("without a word"))
        }
    };
    let tail = world.tail().map(str::to_owned).collect();
    Err(Failure { seed, what, tail })
}

/// Runs one seed twice.
///
/// # Errors
/// [`Failure`], also if the second run is another.
pub fn run(seed: u64) -> Result<Ended, Failure> {
    let first = run_once(seed, None, false)?;
    let second = run_once(seed, None, false)?;
    if first == second {
        return Ok(first);
    }
    Err(Failure {
        seed,
        what: format!("the rule that a seed is one world: {first:?} and {second:?}"),
        tail: Vec::new(),
    })
}

/// What many seeds came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Seeds.
    pub seeds: u64,
    /// Things that happened.
    pub steps: u64,
    /// Actions that were taken in hand.
    pub actions: u64,
    /// Requests that reached a provider.
    pub arrivals: u64,
    /// Deaths of the process.
    pub deaths: u64,
    /// Batches of the journal that were lost.
    pub commits_lost: u64,
    /// Questions that people answered.
    pub decisions: u64,
    /// Scopes that were closed until somebody reopened them.
    pub reopened: u64,
}

impl Sum {
    fn of(ended: &Ended) -> Sum {
        Sum {
            seeds: 1,
            steps: ended.steps,
            actions: ended.actions,
            arrivals: ended.arrivals,
            deaths: ended.deaths,
            commits_lost: ended.commits_lost,
            decisions: ended.decisions,
            reopened: ended.reopened,
        }
    }

    fn add(&mut self, other: &Sum) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.actions += other.actions;
        self.arrivals += other.arrivals;
        self.deaths += other.deaths;
        self.commits_lost += other.commits_lost;
        self.decisions += other.decisions;
        self.reopened += other.reopened;
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} seeds, each twice the same: {} steps, {} actions, {} requests, {} deaths, \
             {} lost commits, {} decisions, {} scopes reopened",
            self.seeds,
            self.steps,
            self.actions,
            self.arrivals,
            self.deaths,
            self.commits_lost,
            self.decisions,
            self.reopened
        )
    }
}

/// Runs a range of seeds, each twice, on as many threads as there are processors.
///
/// # Errors
/// The failure of the smallest seed that failed.
pub fn run_all(seeds: Range<u64>) -> Result<Sum, Failure> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let parts: Vec<Result<Sum, Failure>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|part| {
                let seeds = seeds.clone();
                scope.spawn(move || {
                    let mut sum = Sum::default();
                    for seed in seeds.filter(|seed| seed % threads == part) {
                        sum.add(&Sum::of(&run(seed)?));
                    }
                    Ok(sum)
                })
            })
            .collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, Result<Sum, Failure>>| {
            worker.join().unwrap_or_else(|_| {
                Err(Failure {
                    seed: seeds.start,
                    what: "the thread that ran it".to_owned(),
                    tail: Vec::new(),
                })
            })
        };
        workers.into_iter().map(join).collect()
    });
    let mut sum = Sum::default();
    let mut failures = Vec::new();
    for part in parts {
        match part {
            Ok(part) => sum.add(&part),
            Err(failure) => failures.push(failure),
        }
    }
    match failures.into_iter().min_by_key(|failure| failure.seed) {
        Some(failure) => Err(failure),
        None => Ok(sum),
    }
}
