//! Running other programs: found or not, and what they said.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// The cargo that runs this task, so that every step uses the same toolchain.
pub fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// What cargo knows of the workspace: packages, their targets and dependencies.
pub fn metadata(root: &Path) -> anyhow::Result<serde_json::Value> {
    let mut command = cargo(root);
    command.args(["metadata", "--format-version=1", "--no-deps", "--offline"]);
    Ok(serde_json::from_str(&read(&mut command)?)?)
}

/// Runs to the end with this terminal; an error unless it succeeds.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = shown(command);
    let status = command
        .status()
        .with_context(|| format!("`{shown}` can't be started"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

/// Runs to the end and returns what it printed; an error unless it succeeds.
pub fn read(command: &mut Command) -> anyhow::Result<String> {
    let shown = shown(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("`{shown}` can't be started"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{shown}` failed: {}\n{}", output.status, said.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` printed no text"))
}

/// Like [`read`], but what it says on standard error goes to this terminal.
pub fn read_loud(command: &mut Command) -> anyhow::Result<String> {
    read(command.stderr(Stdio::inherit()))
}

/// Whether a program can be started and succeeds, whatever it prints.
pub fn succeeds(program: impl AsRef<OsStr>, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Where a program is on the search path.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Whether cargo has a subcommand of this name.
pub fn has_cargo(subcommand: &str) -> bool {
    find(&format!("cargo-{subcommand}")).is_some()
}

fn shown(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    if let Some((_, last)) = text.rsplit_once('/') {
        text = last.to_owned();
    }
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}
