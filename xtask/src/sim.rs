//! `cargo xtask sim`: hands seeds to the simulator of `crates/sim`.
//!
//! The simulator is a program of its own. Its arguments are the same words, so
//! that a seed which a test printed can be pasted here. Whatever the profile, all
//! assertions are on: a seed that failed in a test fails here.

use std::path::Path;

use anyhow::bail;
use serde_json::Value;

use crate::tools;

/// The crate of the simulated world.
const PACKAGE: &str = "rategov-sim";
/// Its program.
const PROGRAM: &str = "sim";
/// So many seeds are run with the build that the tests have left, about 20 a
/// second and core, each twice. For more an optimised build pays for itself.
const SEEDS_AS_TESTED: u64 = 2_000;

/// Which seeds to run: from `first` up to, but not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    first: u64,
    end: u64,
}

impl Seeds {
    /// The seeds from `first` up to, but not including, `end`.
    pub const fn between(first: u64, end: u64) -> Seeds {
        Seeds { first, end }
    }

    /// Reads `--seed N` or `--seeds A..B`. The error is a sentence for a person.
    pub fn parse(words: &[&str]) -> Result<Seeds, String> {
        let number = |text: &str| {
            text.parse::<u64>()
                .map_err(|_| format!("`{text}` is not a seed: a whole number"))
        };
        match words {
            ["--seed", seed] => {
                let first = number(seed)?;
                match first.checked_add(1) {
                    Some(end) => Ok(Seeds { first, end }),
                    None => Err(format!("the largest seed is {}", u64::MAX - 1)),
                }
            }
            ["--seeds", range] => {
                let Some((first, end)) = range.split_once("..") else {
                    return Err(format!(
                        "`{range}` is not a range of seeds, such as 0..1000"
                    ));
                };
                let (first, end) = (number(first)?, number(end)?);
                if first >= end {
                    return Err(format!(
                        "`{range}` holds no seed: the end is not part of it"
                    ));
                }
                Ok(Seeds { first, end })
            }
            _ => Err("`sim` wants `--seed N` or `--seeds A..B`".to_owned()),
        }
    }

    /// How the simulator is built for them.
    const fn profile(self) -> &'static str {
        match self.end - self.first {
            ..=SEEDS_AS_TESTED => "dev",
            _ => "sim",
        }
    }

    /// The same seeds as words for the simulator.
    pub fn words(self) -> [String; 2] {
        if self.end - self.first == 1 {
            ["--seed".to_owned(), self.first.to_string()]
        } else {
            [
                "--seeds".to_owned(),
                format!("{}..{}", self.first, self.end),
            ]
        }
    }
}

/// Builds the simulator and judges the engine in the trials that hold every word.
pub fn judge(root: &Path, words: &[&str]) -> anyhow::Result<()> {
    let words = words.iter().map(|word| (*word).to_owned());
    simulate(
        root,
        "sim",
        std::iter::once("--quotas".to_owned()).chain(words),
    )
}

/// Builds the simulator and runs it.
pub fn run(root: &Path, seeds: Seeds) -> anyhow::Result<()> {
    simulate(root, seeds.profile(), seeds.words())
}

fn simulate(
    root: &Path,
    profile: &str,
    words: impl IntoIterator<Item = String>,
) -> anyhow::Result<()> {
    if !has_simulator(&tools::metadata(root)?) {
        bail!("crates/sim has no program `sim`\nhint: it belongs in crates/sim/src/bin/sim.rs");
    }
    let mut command = tools::cargo(root);
    command.args(["run", "--quiet", "--locked", "--profile", profile]);
    command.args(["--package", PACKAGE, "--bin", PROGRAM, "--"]);
    tools::run(command.args(words))
}

/// Whether the simulator's program is among the targets of cargo's metadata.
pub fn has_simulator(metadata: &Value) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let is_program = |target: &Value| {
        target["name"] == PROGRAM && list(&target["kind"]).iter().any(|kind| kind == "bin")
    };
    list(&metadata["packages"])
        .iter()
        .filter(|package| package["name"] == PACKAGE)
        .any(|package| list(&package["targets"]).iter().any(is_program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &[&str], expected: Result<&str, &str>) {
        let got = Seeds::parse(words).map(|seeds| seeds.words().join(" "));
        assert_eq!(got.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn one_seed_and_ranges_reach_the_simulator_in_the_same_words() {
        check(&["--seed", "7"], Ok("--seed 7"));
        check(&["--seeds", "0..1000"], Ok("--seeds 0..1000"));
        check(&["--seeds", "5..6"], Ok("--seed 5"));
    }

    #[test]
    fn many_seeds_are_worth_an_optimised_build() {
        assert_eq!(Seeds::between(7, 8).profile(), "dev");
        assert_eq!(Seeds::between(1_000, 3_000).profile(), "dev");
        assert_eq!(Seeds::between(0, 2_001).profile(), "sim");
    }

    #[test]
    fn what_names_no_seed_is_refused_with_the_reason() {
        check(&[], Err("`sim` wants `--seed N` or `--seeds A..B`"));
        check(&["--seed", "x"], Err("`x` is not a seed: a whole number"));
        check(&["--seed", "-1"], Err("`-1` is not a seed: a whole number"));
        check(
            &["--seed", "18446744073709551615"],
            Err("the largest seed is 18446744073709551614"),
        );
        check(
            &["--seeds", "5"],
            Err("`5` is not a range of seeds, such as 0..1000"),
        );
        check(
            &["--seeds", "9..9"],
            Err("`9..9` holds no seed: the end is not part of it"),
        );
        check(
            &["--seed", "1", "2"],
            Err("`sim` wants `--seed N` or `--seeds A..B`"),
        );
    }

    #[test]
    fn the_simulator_is_found_among_the_targets_of_its_crate() {
        let metadata = |package: &str, kind: &str| {
            serde_json::json!({"packages": [
                {"name": package, "targets": [{"name": "sim", "kind": [kind]}]},
            ]})
        };
        assert!(has_simulator(&metadata("rategov-sim", "bin")));
        assert!(!has_simulator(&metadata("rategov-sim", "test")));
        assert!(!has_simulator(&metadata("rategov", "bin")));
        assert!(!has_simulator(&serde_json::json!({})));
    }
}
