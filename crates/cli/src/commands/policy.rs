//! `policy check`: every mistake of a configuration, with its line.

use std::process::ExitCode;

use rategov_server::config;
use serde_json::json;

use crate::args::Policy;
use crate::output;

/// Exit code 1 if there is a mistake; warnings alone are none.
pub(crate) fn run(policy: &Policy, as_json: bool) -> anyhow::Result<ExitCode> {
    let Policy::Check { file } = policy;
    let (mistakes, warnings) = match config::load(file) {
        Ok(loaded) => (Vec::new(), loaded.notices),
        Err(mistakes) => (mistakes.0, Vec::new()),
    };
    if as_json {
        let list = |items: &[config::mistake::Mistake]| {
            let one = |it: &config::mistake::Mistake| {
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
            output::note(&format!("{} is valid", file.display()));
        }
    }
    Ok(if mistakes.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
