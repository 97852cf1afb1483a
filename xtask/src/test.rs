//! `cargo xtask test`: everything that must hold before a change is good.
//!
//! Cheap checks come first, so that a slip shows within seconds. Everything is
//! built in one target folder: clippy and the documentation share their metadata,
//! and the end-to-end tests use the binary of the same profile as the unit tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::needs::{self, EndToEnd};
use crate::sim::{self, Seeds};
use crate::steps::{End, Steps};
use crate::{tidy, tools};

/// How much of the large matrices is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// A sample that fits continuous integration.
    Sampled,
    /// All of it.
    Full,
}

/// The variable by which tests learn the depth: absent or `1`.
pub const FULL: &str = "RATEGOV_TEST_FULL";
/// The variable that tells the end-to-end tests where the binary is.
pub const BINARY: &str = "RATEGOV_BIN";

/// Seeds of the simulated world that its own tests run; here others follow.
const SEEDS_OF_TESTS: u64 = 1_000;
/// Where the seeds of continuous integration end.
const SEEDS_SAMPLED_END: u64 = 2_000;
/// Where those of a full run end.
const SEEDS_FULL_END: u64 = 50_000;

/// Runs every step up to the first failure and prints a summary.
pub fn run(root: &Path, depth: Depth) -> anyhow::Result<()> {
    let mut steps = Steps::new();
    let result = all(root, depth, &mut steps);
    eprintln!("\nsummary\n{}", steps.summary());
    result
}

fn all(root: &Path, depth: Depth, steps: &mut Steps) -> anyhow::Result<()> {
    let run = Run {
        root,
        depth,
        e2e: EndToEnd::of(root),
    };
    steps.step("system packages", needs::system)?;
    steps.step("tidy", || tidy::run(root).map(|()| End::Done))?;
    steps.step("format", || run.format())?;
    steps.step("python packages", || run.e2e.python())?;
    steps.step("npm packages", || run.e2e.node())?;
    steps.step("clippy", || {
        run.cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--locked",
            "--",
            "-D",
            "warnings",
        ])
    })?;
    steps.step("unit tests", || run.unit_tests())?;
    steps.step("documentation tests", || run.doc_tests())?;
    steps.step("documentation", || run.documentation())?;
    steps.step("licences and sources", || run.deny())?;
    steps.step("simulation", || run.simulation())?;
    steps.step("end-to-end tests", || run.end_to_end())
}

struct Run<'a> {
    root: &'a Path,
    depth: Depth,
    e2e: EndToEnd,
}

impl Run<'_> {
    fn command(&self) -> Command {
        let mut command = tools::cargo(self.root);
        self.mark(&mut command);
        command
    }

    fn mark(&self, command: &mut Command) {
        match self.depth {
            Depth::Sampled => command.env_remove(FULL),
            Depth::Full => command.env(FULL, "1"),
        };
    }

    fn cargo(&self, arguments: &[&str]) -> anyhow::Result<End> {
        tools::run(self.command().args(arguments))?;
        Ok(End::Done)
    }

    /// Names the files, not their differences: `cargo fmt` makes those go away.
    fn format(&self) -> anyhow::Result<End> {
        let done = self.cargo(&["fmt", "--all", "--", "--check", "--files-with-diff"]);
        done.context("these files are formatted otherwise\nhint: `cargo fmt --all`")
    }

    fn unit_tests(&self) -> anyhow::Result<End> {
        if tools::has_cargo("nextest") {
            let profile = if std::env::var_os("CI").is_some() {
                "ci"
            } else {
                "default"
            };
            return self.cargo(&[
                "nextest",
                "run",
                "--workspace",
                "--locked",
                "--profile",
                profile,
            ]);
        }
        eprintln!("cargo-nextest is not installed: `cargo test` runs the tests instead");
        self.cargo(&[
            "test",
            "--workspace",
            "--locked",
            "--lib",
            "--bins",
            "--tests",
        ])
    }

    fn doc_tests(&self) -> anyhow::Result<End> {
        if !tidy::tree::Tree::read(self.root)?.files().any(has_doc_test) {
            return Ok(End::Skipped("no examples in the documentation".to_owned()));
        }
        self.cargo(&["test", "--workspace", "--locked", "--doc"])
    }

    fn documentation(&self) -> anyhow::Result<End> {
        let mut command = self.command();
        command.env("RUSTDOCFLAGS", "-D warnings");
        command.args(["doc", "--workspace", "--no-deps", "--locked"]);
        tools::run(&mut command)?;
        Ok(End::Done)
    }

    fn deny(&self) -> anyhow::Result<End> {
        if !tools::has_cargo("deny") {
            return Ok(End::Skipped("cargo-deny is not installed".to_owned()));
        }
        self.cargo(&["deny", "--locked", "check", "bans", "licenses", "sources"])
    }

    fn simulation(&self) -> anyhow::Result<End> {
        let end = match self.depth {
            Depth::Sampled => SEEDS_SAMPLED_END,
            Depth::Full => SEEDS_FULL_END,
        };
        sim::run(self.root, Seeds::between(SEEDS_OF_TESTS, end))?;
        Ok(End::Done)
    }

    fn end_to_end(&self) -> anyhow::Result<End> {
        if !self.e2e.has_tests() {
            return Ok(End::Skipped("no e2e/tests/test_*.py".to_owned()));
        }
        let pytest = self.e2e.pytest();
        let pytest = pytest.context("there is no pytest\nhint: name it in e2e/requirements.txt")?;
        let binary = self.binary()?;
        let mut pytest = Command::new(pytest);
        self.mark(&mut pytest);
        pytest.current_dir(self.e2e.folder()).env(BINARY, binary);
        pytest.args(["-p", "no:cacheprovider", "--durations=10", "tests"]);
        tools::run(&mut pytest)?;
        Ok(End::Done)
    }

    /// Builds the product in the tests' own profile and says where it is.
    fn binary(&self) -> anyhow::Result<PathBuf> {
        let mut build = self.command();
        build.args([
            "build",
            "--locked",
            "--package",
            "rategov",
            "--bin",
            "rategov",
        ]);
        build.arg("--message-format=json-render-diagnostics");
        let messages = tools::read_loud(&mut build)?;
        executable(&messages).context("cargo named no executable for `rategov`")
    }
}

/// The path of the last executable among cargo's messages.
fn executable(messages: &str) -> anyhow::Result<PathBuf> {
    let mut found = None;
    for line in messages.lines() {
        let message: serde_json::Value = serde_json::from_str(line)?;
        if let Some(path) = message["executable"].as_str() {
            found = Some(PathBuf::from(path));
        }
    }
    match found {
        Some(path) if path.is_file() => Ok(path),
        Some(path) => bail!("{} is not a file", path.display()),
        None => bail!("no executable among the messages"),
    }
}

/// Whether a file of a library shows an example that rustdoc would run.
fn has_doc_test(file: &tidy::tree::File) -> bool {
    if !file.is_rust() || file.path.contains("/tests/") {
        return false;
    }
    let mut fenced = false;
    for line in file.text.lines() {
        let line = line.trim_start();
        let Some(doc) = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"))
        else {
            fenced = false;
            continue;
        };
        let Some(language) = doc.trim().strip_prefix("```") else {
            continue;
        };
        if !fenced
            && matches!(
                language,
                "" | "rust" | "no_run" | "should_panic" | "compile_fail"
            )
        {
            return true;
        }
        fenced = !fenced;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::File;

    #[track_caller]
    fn check(text: &str, expected: bool) {
        let file = File {
            path: "crates/x/src/lib.rs".to_owned(),
            text: text.to_owned(),
            bytes: 0,
        };
        assert_eq!(has_doc_test(&file), expected, "{text}");
    }

    #[test]
    fn only_a_fence_that_rustdoc_would_run_counts_as_an_example() {
        check("/// ```\n/// let a = 1;\n/// ```\n", true);
        check("//! ```rust\n//! ```\n", true);
        check("//! ```text\n//! a picture\n//! ```\n", false);
        check("let fence = \"```\";\n", false);
        check("/// says nothing\n", false);
    }

    #[test]
    fn the_executable_is_read_from_cargos_messages() {
        let here = std::env::current_exe().unwrap();
        let messages = format!(
            "{{\"reason\":\"compiler-artifact\",\"executable\":null}}\n{}\n",
            serde_json::json!({"reason": "compiler-artifact", "executable": here}),
        );
        assert_eq!(executable(&messages).unwrap(), here);
        assert!(executable("{\"reason\":\"build-finished\"}\n").is_err());
    }
}
