//! `cargo xtask fuzz`: searches for inputs of which what must hold doesn't.
//!
//! The targets are those of `crates/fuzz`, the programs those of `fuzz/`, built with
//! cargo-fuzz by the nightly toolchain. They run in turns, one at a time, for so many
//! minutes in total. What is found is kept in `fuzz/artifacts`, what led to new paths in
//! `fuzz/corpus`, so that the next search begins where this one ended; neither is part of
//! the repository. Every corpus begins with the seeds that the targets write themselves.
//!
//! ```text
//! 60 minutes, 33 targets: one turn of 109 s each
//! 600 minutes, 33 targets: ten turns of 109 s each
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};

use crate::tools;

/// The crate of the targets, and the folder of their programs.
const PACKAGE: &str = "rategov-fuzz";
const FOLDER: &str = "fuzz";
/// The toolchain that has the instrumentation.
const NIGHTLY: &str = "nightly";
/// How long a search lasts if nobody says otherwise.
const MINUTES: u64 = 60;
/// Longest turn; whoever has more time gets several.
const TURN_SECONDS_MAX: u64 = 120;
/// An input that takes longer is a finding: nothing that is read may take so long, even
/// on a machine that has other things to do.
const INPUT_SECONDS_MAX: u64 = 20;
/// The memory that a program may take, its instrumentation included.
const MEMORY_MIB_MAX: u64 = 3_072;
/// So much of what a program says about a finding is shown.
const SHOWN_LINES: usize = 60;

/// What to search, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    minutes: u64,
    targets: Vec<String>,
}

impl Plan {
    /// Reads `[--minutes N] [TARGET…]`. The error is a sentence for a person.
    pub fn parse(words: &[&str]) -> Result<Plan, String> {
        let (minutes, targets) = match words {
            ["--minutes"] => return Err("`--minutes` wants a number".to_owned()),
            ["--minutes", minutes, targets @ ..] => {
                let number = minutes.parse().ok().filter(|minutes| 0 < *minutes);
                let mistake = || format!("`{minutes}` is not a number of minutes");
                (number.ok_or_else(mistake)?, targets)
            }
            targets => (MINUTES, targets),
        };
        match targets.iter().find(|target| target.starts_with('-')) {
            Some(option) => Err(format!("`fuzz` has no option `{option}`")),
            None => Ok(Plan {
                minutes,
                targets: targets.iter().map(|&it| it.to_owned()).collect(),
            }),
        }
    }

    /// How many turns each of so many targets gets, and how long one is.
    fn turns(&self, targets: usize) -> (u64, u64) {
        let each = (self.minutes * 60 / targets.max(1) as u64).max(1);
        let turns = each.div_ceil(TURN_SECONDS_MAX);
        (turns, each / turns)
    }
}

/// Searches, prints a line for each target, and fails if anything was found.
///
/// # Errors
/// If something is missing or does not build, and if there is a finding.
pub fn run(root: &Path, plan: &Plan) -> anyhow::Result<()> {
    if !tools::has_cargo("fuzz") {
        bail!("cargo-fuzz is not installed\nhint: `cargo install cargo-fuzz --locked`");
    }
    if !tools::succeeds("rustup", &["run", NIGHTLY, "rustc", "--version"]) {
        bail!(
            "the nightly toolchain is not installed\nhint: `rustup toolchain install {NIGHTLY} --profile minimal`"
        );
    }
    let known = known_targets(root)?;
    let unknown = plan.targets.iter().find(|it| !known.contains(it));
    if let Some(unknown) = unknown {
        bail!(
            "there is no target `{unknown}`\nhint: they are {}",
            known.join(", ")
        );
    }
    let targets = match plan.targets.is_empty() {
        true => known,
        false => plan.targets.clone(),
    };
    let search = Search {
        folder: root.join(FOLDER),
        programs: build(root, &targets)?,
    };
    let mut found: BTreeMap<&str, Figures> = BTreeMap::new();
    let (turns, seconds) = plan.turns(targets.len());
    for turn in 1..=turns {
        for target in &targets {
            eprintln!("==> {target}, turn {turn} of {turns}, {seconds} s");
            let figures = search.turn(target, seconds)?;
            found.entry(target).or_default().add(&figures);
        }
    }
    report(&found)
}

/// The targets, as their crate names them.
fn known_targets(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut list = tools::cargo(root);
    list.args(["run", "--quiet", "--locked", "-p", PACKAGE, "--", "list"]);
    let names = tools::read_loud(&mut list)?;
    let names = names.lines().filter_map(|line| line.split('\t').next());
    let names: Vec<String> = names.map(str::to_owned).collect();
    // Their seeds come from the same program.
    let mut seeds = tools::cargo(root);
    seeds.args(["run", "--quiet", "--locked", "-p", PACKAGE, "--", "seeds"]);
    tools::run(seeds.arg(root.join(FOLDER).join("corpus")))?;
    Ok(names)
}

/// Builds the programs, and says where they are.
fn build(root: &Path, targets: &[String]) -> anyhow::Result<PathBuf> {
    let folder = tools::metadata(root)?["target_directory"]
        .as_str()
        .map(|folder| Path::new(folder).join("fuzzer"))
        .context("cargo metadata names no target folder")?;
    let nightly = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(root).env("RUSTUP_TOOLCHAIN", NIGHTLY);
        // This task's own toolchain is another.
        command.env_remove("CARGO").env_remove("RUSTC");
        command
    };
    let mut cargo = nightly("cargo");
    cargo.args(["fuzz", "build", "--fuzz-dir", FOLDER, "--target-dir"]);
    cargo.arg(&folder);
    if let [only] = targets {
        cargo.arg(only);
    }
    tools::run(&mut cargo)?;
    let version = tools::read(nightly("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("`rustc -vV` names no host")?;
    Ok(folder.join(host).join("release"))
}

struct Search {
    folder: PathBuf,
    programs: PathBuf,
}

impl Search {
    /// Runs one program for so long, or until it finds something.
    fn turn(&self, target: &str, seconds: u64) -> anyhow::Result<Figures> {
        let corpus = self.folder.join("corpus").join(target);
        let artifacts = self.folder.join("artifacts").join(target);
        fs::create_dir_all(&corpus)?;
        fs::create_dir_all(&artifacts)?;
        let mut program = Command::new(self.programs.join(target));
        program
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
            .arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .arg(format!("-dict={}/corpus/words.dict", self.folder.display()))
            .args(["-print_final_stats=1", "-verbosity=1"])
            .arg(&corpus)
            .stdin(Stdio::null());
        let begun = Instant::now();
        let output = program
            .output()
            .with_context(|| format!("the program of `{target}` can't be started"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let mut figures = Figures::read(&said);
        // A finding ends a turn early.
        figures.seconds = begun.elapsed().as_secs();
        if !output.status.success() {
            figures.findings = 1;
            let lines: Vec<&str> = said.lines().collect();
            let first = lines.len().saturating_sub(SHOWN_LINES);
            eprintln!("{}\n", lines[first..].join("\n"));
            eprintln!(
                "{target}: a finding; its input is in {}\nhint: `cargo run -p {PACKAGE} -- run {target} FILE` plays it again",
                artifacts.display()
            );
        }
        Ok(figures)
    }
}

/// What came of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Figures {
    seconds: u64,
    executions: u64,
    coverage: u64,
    findings: u64,
}

impl Figures {
    /// Reads what libFuzzer says at its end, and the coverage of its last line.
    fn read(said: &str) -> Figures {
        let number = |text: &str| text.split_whitespace().next()?.parse().ok();
        let after = |line: &str, word: &str| {
            let (_, rest) = line.split_once(word)?;
            number(rest)
        };
        let last = |word: &str| said.lines().rev().find_map(|line| after(line, word));
        Figures {
            seconds: 0,
            executions: last("stat::number_of_executed_units:").unwrap_or(0),
            coverage: last(" cov:").unwrap_or(0),
            findings: 0,
        }
    }

    fn add(&mut self, turn: &Figures) {
        self.seconds += turn.seconds;
        self.executions += turn.executions;
        self.coverage = self.coverage.max(turn.coverage);
        self.findings += turn.findings;
    }
}

/// Prints the table: to standard output, because it is what was asked for.
fn report(found: &BTreeMap<&str, Figures>) -> anyhow::Result<()> {
    println!("| target | seconds | executions | edges covered | findings |");
    println!("|---|---|---|---|---|");
    let mut sum = Figures::default();
    for (target, it) in found {
        println!(
            "| `{target}` | {} | {} | {} | {} |",
            it.seconds, it.executions, it.coverage, it.findings
        );
        sum.add(it);
    }
    let (minutes, count) = (sum.seconds / 60, found.len());
    println!(
        "\n{count} targets, {minutes} minutes, {} executions, {} findings",
        sum.executions, sum.findings
    );
    match sum.findings {
        0 => Ok(()),
        some => bail!("{some} findings"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &[&str], expected: Result<(u64, &[&str]), &str>) {
        let got = Plan::parse(words);
        let got = got.as_ref().map(|plan| {
            let targets: Vec<&str> = plan.targets.iter().map(String::as_str).collect();
            (plan.minutes, targets)
        });
        let expected = expected.map(|(minutes, targets)| (minutes, targets.to_vec()));
        assert_eq!(got.map_err(String::as_str), expected);
    }

    #[test]
    fn a_plan_is_minutes_and_targets() {
        check(&[], Ok((60, &[])));
        check(&["--minutes", "5"], Ok((5, &[])));
        check(&["--minutes", "5", "tap"], Ok((5, &["tap"])));
        check(&["tap", "leaf"], Ok((60, &["tap", "leaf"])));
        check(&["--minutes"], Err("`--minutes` wants a number"));
        check(&["--minutes", "0"], Err("`0` is not a number of minutes"));
        check(&["--hours", "1"], Err("`fuzz` has no option `--hours`"));
    }

    #[test]
    fn the_minutes_are_shared_in_turns_that_are_not_long() {
        let turns = |minutes, targets| {
            let targets_of_plan = Vec::new();
            let plan = Plan {
                minutes,
                targets: targets_of_plan,
            };
            plan.turns(targets)
        };
        assert_eq!(turns(60, 33), (1, 109));
        assert_eq!(turns(600, 33), (10, 109));
        assert_eq!(turns(1, 33), (1, 1));
        assert_eq!(turns(1, 100), (1, 1));
        assert_eq!(turns(5, 1), (3, 100));
    }

    #[test]
    fn figures_are_read_from_what_the_program_says() {
        let said = "#8\tINITED cov: 12 ft: 13 corp: 1/1b exec/s: 0 rss: 30Mb\n\
                    #4096\tREDUCE cov: 312 ft: 513 corp: 9/90b lim: 4 exec/s: 2048 rss: 31Mb\n\
                    stat::number_of_executed_units: 5000\n";
        let figures = Figures::read(said);
        assert_eq!((figures.executions, figures.coverage), (5_000, 312));
        assert_eq!(Figures::read("nothing"), Figures::default());
    }
}
