//! `docs/reports-coverage.md`, made from the table.

use std::fmt::Write as _;
use std::path::PathBuf;

use crate::cover::Coverage;
use crate::report::Report;
use crate::table;

const HEAD: &str = "\
# Users' reports: what is covered

Reports of real users, each a small scenario, are played against the governor as it
is served: real sockets, virtual time, a fake provider whose own count is what is
judged (`crates/cli/tests/reports`). This page is made from the table there; a test
fails when it is stale, and `UPDATE=1 cargo test -p rategov --test reports page`
writes it anew.

";

/// One line: how many are covered, and which are not.
pub(crate) fn summary(reports: &[Report]) -> String {
    let (mut covered, mut later) = (0, Vec::new());
    for report in reports {
        match table::coverage(&report.id) {
            Some(Coverage::Covered(_)) => covered += 1,
            Some(Coverage::NotYet(why)) => later.push(format!("  {}: {why}", report.id)),
            None => later.push(format!("  {}: unlisted", report.id)),
        }
    }
    format!(
        "covered: {covered}, not yet: {}\n{}",
        later.len(),
        later.join("\n")
    )
}

fn page(reports: &[Report]) -> String {
    let mut text = HEAD.to_owned();
    let (mut covered, mut later, mut reworded) = (String::new(), String::new(), String::new());
    let mut parts = String::new();
    let mut counts = (0, 0);
    for report in reports {
        let (id, title, kind) = (&report.id, &report.title, &report.kind);
        match table::coverage(id) {
            Some(Coverage::Covered(cover)) => {
                counts.0 += 1;
                let _ = writeln!(covered, "| {id} | {title} | {kind} |");
                for (what, why) in cover.left() {
                    let _ = writeln!(parts, "| {id} | {} | {why} |", cell(what));
                }
                for it in cover.reworded() {
                    let (what, here) = (cell(it.text), cell(it.here));
                    let _ = writeln!(reworded, "| {id} | {what} | {here} | {} |", it.because);
                }
            }
            Some(Coverage::NotYet(why)) => {
                counts.1 += 1;
                let _ = writeln!(later, "| {id} | {title} | {why} |");
            }
            None => {}
        }
    }
    let _ = write!(
        text,
        "{} reports are covered, {} are not yet.\n\n## Not yet\n\n| report | title | why |\n|---|---|---|\n{later}\n\
         ## Parts of covered reports that are not judged yet\n\n| report | part | why |\n|---|---|---|\n{parts}\n\
         ## Judged by the specification's words\n\n| report | expected | judged as | why |\n|---|---|---|---|\n{reworded}\n\
         ## Covered\n\n| report | title | kind |\n|---|---|---|\n{covered}",
        counts.0, counts.1
    );
    text
}

/// A text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

/// Compares the page with the table, or writes it with `UPDATE=1`.
///
/// # Panics
/// If it is stale.
pub(crate) fn check(reports: &[Report]) {
    let place = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reports-coverage.md");
    let fresh = page(reports);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&place, fresh).expect("the page can be written");
        return;
    }
    let there = std::fs::read_to_string(&place).unwrap_or_default();
    assert!(
        there == fresh,
        "docs/reports-coverage.md is stale\nhint: UPDATE=1 cargo test -p rategov --test reports page"
    );
}
