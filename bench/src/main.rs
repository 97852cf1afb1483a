//! `rategov-bench`: measures, prints the tables, and writes the page.
//!
//! Usually started by `cargo xtask bench`, which builds the programs, finds the
//! other proxies and pins this one to a core.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use rategov_bench::engine::{Lanes, Scene, WAITING, World};
use rategov_bench::gateway::peers::Programs;
use rategov_bench::gateway::{self, Plan, Setup};
use rategov_bench::report::{self, EngineLine};
use rategov_bench::{machine, sample};

const USAGE: &str = "\
usage: rategov-bench engine [--quick]
       rategov-bench gateway|all [--quick] --rategov PROGRAM [--nginx PROGRAM] [--envoy PROGRAM]
                                 --scratch FOLDER [--write FILE]
";

/// What was typed.
#[derive(Debug, Default)]
struct Typed {
    quick: bool,
    rategov: Option<PathBuf>,
    nginx: Option<PathBuf>,
    envoy: Option<PathBuf>,
    scratch: Option<PathBuf>,
    write: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let typed = Typed::read(words)?;
    let busy = machine::load();
    match command.as_str() {
        "engine" => {
            println!("{}", report::engine_table(&engine(typed.quick)?));
            Ok(())
        }
        "gateway" => all(typed, busy, Vec::new()),
        "all" => {
            let lines = engine(typed.quick)?;
            all(typed, busy, lines)
        }
        _ => bail!("`{command}` is no command\n{USAGE}"),
    }
}

fn all(typed: Typed, busy: Option<f64>, lines: Vec<EngineLine>) -> anyhow::Result<()> {
    let plan = if typed.quick { Plan::QUICK } else { Plan::FULL };
    let setup = Setup {
        plan,
        programs: Programs {
            rategov: typed.rategov.context("--rategov is missing")?,
            nginx: typed.nginx,
            envoy: typed.envoy,
        },
        scratch: typed.scratch.context("--scratch is missing")?,
    };
    let figures = gateway::measure(&setup)?;
    println!(
        "{}\n{}",
        report::engine_table(&lines),
        report::gateway_table(&figures)
    );
    if let Some(file) = typed.write {
        let page = report::page(&lines, &figures, busy, plan.rounds);
        std::fs::write(&file, page)
            .with_context(|| format!("{} can't be written", file.display()))?;
    }
    Ok(())
}

/// Counts cycles in every scene.
fn engine(quick: bool) -> anyhow::Result<Vec<EngineLine>> {
    let (time, rounds) = if quick {
        (Duration::from_millis(400), 3)
    } else {
        (Duration::from_secs(2), 5)
    };
    let mut lines = Vec::new();
    for lanes in [Lanes::Open, Lanes::HalfBlocked] {
        for agents in [9, 200] {
            let mut world = World::new(Scene { agents, lanes })?;
            // Caches and the window's memory are warm before anything counts.
            world.run(time / 2);
            let rates: Vec<f64> = (0..rounds).map(|_| world.run(time).per_second()).collect();
            let line = EngineLine {
                agents,
                waits: lanes.word(),
                median: sample::median(&rates),
                best: rates.iter().copied().fold(0.0, f64::max),
            };
            eprintln!(
                "engine: {agents} agents, {WAITING} waiting ({}): {:.0} cycles/s",
                line.waits, line.median
            );
            lines.push(line);
        }
    }
    Ok(lines)
}

impl Typed {
    fn read(mut words: impl Iterator<Item = String>) -> anyhow::Result<Typed> {
        let mut typed = Typed::default();
        while let Some(word) = words.next() {
            let place = match word.as_str() {
                "--quick" => {
                    typed.quick = true;
                    continue;
                }
                "--rategov" => &mut typed.rategov,
                "--nginx" => &mut typed.nginx,
                "--envoy" => &mut typed.envoy,
                "--scratch" => &mut typed.scratch,
                "--write" => &mut typed.write,
                _ => bail!("`{word}` is no option\n{USAGE}"),
            };
            let value = words
                .next()
                .with_context(|| format!("{word} needs a value"))?;
            *place = Some(PathBuf::from(value));
        }
        Ok(typed)
    }
}
