//! Broken files, and what their authors are told.

mod agents;
mod endpoints;
mod form;
mod limits;
mod providers;

/// What is said of a text that must not load.
#[track_caller]
fn check(text: &str) -> String {
    match crate::config::read("rategov.yaml", text.strip_prefix('\n').unwrap_or(text)) {
        Ok(_) => panic!("this loads:\n{text}"),
        Err(mistakes) => mistakes.to_string(),
    }
}
