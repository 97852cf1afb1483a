//! The gateway beside other proxies: one run, one machine, in turns.
//!
//! ```text
//! core 0   one proxy at a time under load; the others idle
//! core 1   this program: the load, and an upstream that answers at once
//!
//! round 1  direct, nginx, Envoy, rategov     each: saturated, then 1,000/s, then 100/s
//! round 2  Envoy, rategov, direct, nginx     the order turns, so that a disturbance of
//! …                                          the machine does not always hit the same one
//! ```
//!
//! Three questions, three loads:
//!
//! - *saturated*: 32 connections that each send the next request when the last
//!   is answered. Processor time of the proxy ÷ answers is its cost.
//! - *1,000 a second*, open loop: the same cost where batches are small.
//! - *100 a second*, open loop: requests leave on schedule whatever became of
//!   earlier ones, and each time counts from the schedule, so that a stall is not
//!   hidden by the requests that it held back. What the direct calls took is
//!   taken off to get what a proxy adds.
//!
//! The governor runs with everything on: its journal on disk, no configuration
//! but the upstream's address.

pub mod load;
pub mod peers;
pub mod process;
pub mod upstream;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;

use crate::sample::Sample;
use load::{Load, Target};
use peers::{Peer, Programs};
use process::Usage;

/// Connections of the saturated load.
pub const CONNECTIONS: usize = 32;
/// What stands in a proxy's place where there is none.
pub const DIRECT: &str = "direct";
/// Requests a second of the middle load.
pub const STEADY_RATE: u32 = 1_000;
/// Requests a second of the light load.
pub const LIGHT_RATE: u32 = 100;

/// How long it takes.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How often everybody has a turn.
    pub rounds: usize,
    /// How long each load lasts in a turn.
    pub turn: Duration,
}

impl Plan {
    /// Less than a minute.
    pub const QUICK: Plan = Plan {
        rounds: 2,
        turn: Duration::from_secs(2),
    };
    /// Some minutes.
    pub const FULL: Plan = Plan {
        rounds: 5,
        turn: Duration::from_secs(5),
    };
}

/// What is measured where.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How long.
    pub plan: Plan,
    /// The programs.
    pub programs: Programs,
    /// For configurations and the journal; on the disk that is to be measured.
    pub scratch: PathBuf,
}

/// One proxy's figures, all rounds together.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Who.
    pub name: String,
    /// Its version, as it says itself.
    pub version: String,
    /// Answers and processor time under the saturated load.
    pub saturated: Cost,
    /// The same at [`STEADY_RATE`].
    pub steady: Cost,
    /// Times at [`LIGHT_RATE`].
    pub light: Sample,
    /// Requests that got no or a wrong answer, over all loads.
    pub failed: u64,
    /// Resident memory after the last round, in bytes.
    pub resident: u64,
}

impl Figures {
    /// Whether these are the direct calls': there is no proxy between.
    pub fn is_direct(&self) -> bool {
        self.version.is_empty() && self.name == DIRECT
    }
}

/// What answers cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Answers.
    pub answers: u64,
    /// In this time.
    pub wall: Duration,
    /// Processor time of the proxy, all its processes and threads, kernel included.
    pub processor: Duration,
}

impl Cost {
    /// Answers in a second.
    pub fn rate(&self) -> f64 {
        self.answers as f64 / self.wall.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Processor time of one answer, in microseconds.
    pub fn micros_each(&self) -> f64 {
        self.processor.as_secs_f64() * 1e6 / self.answers.max(1) as f64
    }

    fn add(&mut self, load: &Load, processor: Duration) {
        self.answers += load.answers;
        self.wall += load.wall;
        self.processor += processor;
    }
}

/// Measures all programs that are there. The first figures are the direct calls'.
///
/// # Errors
/// If a program does not start or answers wrongly from the beginning.
pub fn measure(setup: &Setup) -> anyhow::Result<Vec<Figures>> {
    std::fs::create_dir_all(&setup.scratch)
        .with_context(|| format!("{} can't be made", setup.scratch.display()))?;
    let upstream = upstream::start().context("the upstream does not start")?;
    let peers = Peer::start_all(&setup.programs, upstream, &setup.scratch)?;
    let mut all: Vec<Figures> = peers
        .iter()
        .map(|peer| Figures {
            name: peer.name.clone(),
            version: peer.version.clone(),
            ..Figures::default()
        })
        .collect();
    for round in 0..setup.plan.rounds {
        for turn in 0..peers.len() {
            let at = (turn + round * 2) % peers.len();
            take_turn(&peers[at], &mut all[at], setup.plan.turn, round)?;
        }
    }
    Ok(all)
}

fn take_turn(
    peer: &Peer,
    figures: &mut Figures,
    turn: Duration,
    round: usize,
) -> anyhow::Result<()> {
    let target = Target {
        address: peer.address,
        path: peer.path.clone(),
    };
    load::once(&target).with_context(|| format!("{} does not answer", peer.name))?;
    // Connections, caches and allocators are warm before anything counts.
    load::closed(&target, CONNECTIONS, turn / 5)?;

    let (load, used) = metered(peer, || load::closed(&target, CONNECTIONS, turn))?;
    figures.saturated.add(&load, used.processor);
    figures.failed += load.failed;
    eprintln!(
        "round {}: {:<8} saturated {:>6.0}/s, {:>5.1} us of processor each",
        round + 1,
        peer.name,
        load.answers as f64 / load.wall.as_secs_f64(),
        used.processor.as_secs_f64() * 1e6 / load.answers.max(1) as f64,
    );
    let (load, used) = metered(peer, || Ok(load::open(&target, STEADY_RATE, turn)))?;
    figures.steady.add(&load, used.processor);
    figures.failed += load.failed;
    let (load, used) = metered(peer, || Ok(load::open(&target, LIGHT_RATE, turn)))?;
    figures.light.extend(&load.times);
    figures.failed += load.failed;
    figures.resident = used.resident;
    Ok(())
}

/// Runs a load and says what the proxy used meanwhile.
fn metered(
    peer: &Peer,
    load: impl FnOnce() -> anyhow::Result<Load>,
) -> anyhow::Result<(Load, Usage)> {
    let before = peer.usage()?;
    let load = load()?;
    let after = peer.usage()?;
    let processor = after.processor.saturating_sub(before.processor);
    Ok((load, Usage { processor, ..after }))
}
