//! Whole files: the example as it is meant, and many broken ones as they are refused.

use super::*;

/// The example as the specification gives it.
const EXAMPLE: &str = include_str!("/work/shared/example.yaml");

#[track_caller]
fn loaded(text: &str) -> Loaded {
    match read("rategov.yaml", text) {
        Ok(loaded) => loaded,
        Err(mistakes) => panic!("{mistakes}"),
    }
}

#[test]
fn debug_example() {
    let loaded = loaded(EXAMPLE);
    println!("{:#?}", loaded.settings);
    for n in &loaded.notices { println!("{n}"); }
    println!("{}", serde_json::to_string_pretty(&schema()).unwrap().len());
}
