//! `sim --seed N` runs one simulated world and prints what happens in it;
//! `sim --seeds A..B` runs many, each twice, and prints the first that fails.
//! `sim --quotas [WORD…]` judges the engine against every kind of limit, in all
//! trials whose names hold every word, and prints a line for each. `seed=7` is
//! such a word, too; without it the seed is 1.

use std::process::ExitCode;

use rategov_sim::judge::{matrix, table};
use rategov_sim::seeds;

const USAGE: &str = "usage: sim --seed N | sim --seeds A..B | sim --quotas [WORD…]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["--seed", seed] => match seed.parse() {
            Ok(seed) => seeds::run_once(seed, None, true)
                .and_then(|_| seeds::run(seed))
                .map(|ended| format!("seed {seed}: {ended:?}")),
            Err(_) => return wrong(&format!("`{seed}` is no seed")),
        },
        ["--seeds", range] => match range_of(range) {
            Some(range) => seeds::run_all(range).map(|sum| sum.to_string()),
            None => return wrong(&format!("`{range}` is no range of seeds")),
        },
        ["--quotas", words @ ..] => return quotas(words),
        _ => return wrong("nothing to run"),
    };
    match outcome {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a line for each trial as soon as it is judged.
fn quotas(words: &[&str]) -> ExitCode {
    let mut rows = 0_usize;
    let mut missed = 0_usize;
    let seed = words.iter().find_map(|word| word.strip_prefix("seed="));
    let Some(seed) = seed.map_or(Some(1), |seed| seed.parse().ok()) else {
        return wrong("a seed is a whole number");
    };
    for trial in matrix::all(seed) {
        let name = trial.to_string();
        if words.iter().all(|word| name.contains(word)) {
            let row = table::Row::of(&trial);
            println!("{}", row.line());
            rows += 1;
            missed += usize::from(!row.missed.is_empty());
        }
    }
    println!("{rows} trials, {missed} missed a bound");
    match (rows, missed) {
        (0, _) => wrong("no trial has such a name"),
        (_, 0) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn range_of(text: &str) -> Option<std::ops::Range<u64>> {
    let (first, end) = text.split_once("..")?;
    let range = first.parse().ok()?..end.parse().ok()?;
    (range.start < range.end).then_some(range)
}

fn wrong(why: &str) -> ExitCode {
    eprintln!("{why}\nhint: {USAGE}");
    ExitCode::from(2)
}
