//! `cargo xtask COMMAND`: reads what was typed and hands it on.
//!
//! Exit codes: 0 done, 1 something failed, 2 the command line is wrong.

use std::process::ExitCode;

use xtask::bench::Length;
use xtask::test::Depth;
use xtask::{bench, fuzz, root, sim, test, tidy};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test [--full]        prepare this machine and run everything; --full runs the large matrices whole
  tidy                 check the rules that no compiler knows
  sim --seed N         run the simulated world once and print its trace
  sim --seeds A..B     run it for every seed from A up to, but not including, B
  sim --quotas [WORD…] judge the engine against every kind of limit; only trials whose names hold all words
  fuzz [--minutes N] [TARGET…]
                       search for inputs that break a reader, N minutes in total; wants nightly and cargo-fuzz
  bench [--quick]      measure the engine, and the gateway beside nginx and Envoy; writes docs/benchmarks.md
";

fn main() -> ExitCode {
    let typed: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = typed.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["test"] => test::run(&root(), Depth::Sampled),
        ["test", "--full"] => test::run(&root(), Depth::Full),
        ["tidy"] => tidy::run(&root()),
        ["sim", "--quotas", words @ ..] => sim::judge(&root(), words),
        ["sim", rest @ ..] => match sim::Seeds::parse(rest) {
            Ok(seeds) => sim::run(&root(), seeds),
            Err(mistake) => return misuse(&mistake),
        },
        ["fuzz", rest @ ..] => match fuzz::Plan::parse(rest) {
            Ok(plan) => fuzz::run(&root(), &plan),
            Err(mistake) => return misuse(&mistake),
        },
        ["bench"] => bench::run(&root(), Length::Full),
        ["bench", "--quick"] => bench::run(&root(), Length::Quick),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        [] => return misuse("a command is missing"),
        _ => return misuse(&format!("there is no task `{}`", words.join(" "))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            eprintln!("xtask: {cause:#}");
            ExitCode::FAILURE
        }
    }
}

fn misuse(mistake: &str) -> ExitCode {
    eprint!("xtask: {mistake}\n\n{USAGE}");
    ExitCode::from(2)
}
