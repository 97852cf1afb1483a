//! `explain`: the document of an error code, from the binary itself.

use std::process::ExitCode;

use anyhow::anyhow;
use rategov_server::documents;

use crate::output;

pub(crate) fn run(code: &str) -> anyhow::Result<ExitCode> {
    let document = documents::find(code).ok_or_else(|| {
        anyhow!("there is no code {code:?}\nhint: codes look like RG1003 or hold_exceeded")
    })?;
    output::line(document);
    Ok(ExitCode::SUCCESS)
}
