//! The users' reports, played against the governor as it is served.
//!
//! Every report of the file has a row in [`table`]: played and judged, or named
//! with the reason why not yet. A report without a row fails. `docs/reports-coverage.md`
//! is made from the same table; `UPDATE=1` writes it anew. `REPORT=R17` plays one.

mod caller;
mod cover;
mod judge;
mod killed;
mod page;
mod played;
mod policy;
mod report;
mod table;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cover::Coverage;
use report::Report;

/// Reports that are played at a time.
const AT_A_TIME: usize = 4;

#[test]
fn every_covered_report_ends_as_its_user_would_have_wished() {
    let Some(reports) = report::read_all() else {
        return;
    };
    let only = std::env::var("REPORT").ok();
    let wanted: Vec<&Report> = reports
        .iter()
        .filter(|report| only.as_deref().is_none_or(|only| only == report.id))
        .collect();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(report) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let began = std::time::Instant::now();
                    let wrong = check(report);
                    let took = began.elapsed().as_secs_f64();
                    if let Some(wrong) = wrong {
                        let word = if wrong.is_empty() { "ok" } else { "WRONG" };
                        eprintln!("{:>5} {word} ({took:.1} s) {}", report.id, report.title);
                        if !wrong.is_empty() {
                            let text =
                                format!("{} {}\n  {}", report.id, report.title, wrong.join("\n  "));
                            failures.lock().expect("no panic in here").push(text);
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no panic in here");
    eprintln!("{}", page::summary(&reports));
    assert!(
        failures.is_empty(),
        "{} reports fail:\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}

/// Plays a report; `None` if it is not covered yet.
fn check(report: &Report) -> Option<Vec<String>> {
    let Coverage::Covered(cover) = table::coverage(&report.id)? else {
        return None;
    };
    // A panic in one must not keep the others from being played.
    let checked = catch_unwind(AssertUnwindSafe(|| cover.check(report)));
    Some(checked.unwrap_or_else(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| cause.downcast_ref::<&str>().copied());
        vec![format!("panicked: {}", text.unwrap_or("without a word"))]
    }))
}

#[test]
fn every_report_has_a_row_and_every_row_a_report() {
    let Some(reports) = report::read_all() else {
        return;
    };
    let unlisted: Vec<&str> = reports
        .iter()
        .map(|report| report.id.as_str())
        .filter(|id| table::coverage(id).is_none())
        .collect();
    assert!(unlisted.is_empty(), "unlisted in the table: {unlisted:?}");
    let gone: Vec<&str> = table::ids()
        .into_iter()
        .filter(|id| !reports.iter().any(|report| report.id == *id))
        .collect();
    assert!(gone.is_empty(), "rows without a report: {gone:?}");
}

#[test]
fn the_page_of_what_is_covered_is_current() {
    let Some(reports) = report::read_all() else {
        return;
    };
    page::check(&reports);
}
