//! Whole files: the examples as they are meant, and broken ones as they are refused.

mod broken;
mod examples;
mod guide;
mod properties;
mod secrets;

use super::Loaded;

/// Settings of a text without a mistake.
#[track_caller]
fn loaded(text: &str) -> Loaded {
    match super::read("rategov.yaml", text) {
        Ok(loaded) => loaded,
        Err(mistakes) => panic!("{mistakes}"),
    }
}
