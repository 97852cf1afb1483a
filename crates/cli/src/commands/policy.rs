//! `policy check`: every mistake of a configuration, with its line.
//!
//! A secret that is not to be had here (a variable that is not set, a file that can't
//! be read) is a warning: the file may be meant for another machine. It is said all the
//! same, because `serve` would not start:
//!
//! ```text
//! warning: rategov.yaml:6:27: the environment variable `BILLING_KEY` is not set
//! ```

use std::path::Path;
use std::process::ExitCode;

use rategov_server::config;
use rategov_server::config::mistake::Mistake;
use rategov_server::config::secret::{Keyring, ProcessEnvironment};
use rategov_server::config::settings::Settings;
use serde_json::json;

use crate::args::Policy;
use crate::output;

/// Exit code 1 if there is a mistake; warnings alone are none.
pub(crate) fn run(policy: &Policy, as_json: bool) -> anyhow::Result<ExitCode> {
    let Policy::Check { file } = policy;
    let mut starts = true;
    let (mistakes, warnings) = match config::load(file) {
        Ok(loaded) => {
            let (secrets, all_there) = secrets(file, &loaded.settings);
            starts = all_there;
            (Vec::new(), [loaded.notices, secrets].concat())
        }
        Err(mistakes) => (mistakes.0, Vec::new()),
    };
    if as_json {
        let list = |items: &[Mistake]| {
            let one = |it: &Mistake| {
                json!({
                    "file": it.file.as_ref(),
                    "line": it.mark.line,
                    "column": it.mark.column,
                    "cause": it.cause,
                    "hint": it.hint,
                })
            };
            items.iter().map(one).collect::<Vec<_>>()
        };
        output::json(&json!({
            "valid": mistakes.is_empty(),
            "mistakes": list(&mistakes),
            "warnings": list(&warnings),
        }));
    } else {
        for warning in &warnings {
            output::line(&format!("warning: {warning}"));
        }
        for mistake in &mistakes {
            output::line(&mistake.to_string());
        }
        if !mistakes.is_empty() {
            output::note("hint: examples/rategov.yaml explains every key");
        }
        if mistakes.is_empty() {
            let but = match starts {
                true => "",
                false => ", but `rategov serve` does not start without its secrets",
            };
            output::note(&format!("{} is valid{but}", file.display()));
        }
    }
    Ok(if mistakes.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What is to be said of the secrets as they are here, and whether a start could open
/// them all.
fn secrets(file: &Path, settings: &Settings) -> (Vec<Mistake>, bool) {
    let environment = ProcessEnvironment::beside(Some(file));
    match Keyring::open(&file.display().to_string(), settings, &environment) {
        Ok(opened) => (opened.notices, true),
        Err(missing) => (missing.0, false),
    }
}
