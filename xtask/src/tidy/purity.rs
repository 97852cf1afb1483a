//! The core stays pure: no clock, no randomness, no I/O, no async, no
//! serialisation, no order that differs from run to run.
//!
//! `crates/core/clippy.toml` says the same to the compiler's lints; this check
//! also sees what clippy doesn't, such as a module that is imported whole.

use super::code::{Code, has_word};
use super::tree::File;
use super::{Finding, Rule};

/// The folder that the rule is about.
pub const CORE: &str = "crates/core/src/";

/// What must not appear in code, and why.
const BANNED: &[(&str, &str)] = &[
    ("Instant", "time is an argument"),
    ("SystemTime::now", "time is an argument"),
    ("std::time::*", "time is an argument"),
    ("std::fs", "the core does no I/O"),
    ("std::net", "the core does no I/O"),
    ("std::io", "the core does no I/O"),
    ("std::env", "settings are arguments"),
    ("std::process", "the core starts nothing"),
    ("std::thread", "the core starts nothing"),
    ("Mutex", "an engine is a value; who owns it locks it"),
    ("RwLock", "an engine is a value; who owns it locks it"),
    (
        "std::sync::atomic",
        "an engine is a value; who owns it locks it",
    ),
    ("OnceLock", "the core has no state of its own"),
    ("async", "the core never waits"),
    (".await", "the core never waits"),
    ("tokio", "the core never waits"),
    ("serde", "serialisation belongs to the outer edge"),
    ("HashMap", "its order differs from run to run: use BTreeMap"),
    ("HashSet", "its order differs from run to run: use BTreeSet"),
    ("RandomState", "randomness is an argument"),
    ("rand::", "randomness is an argument"),
    ("getrandom", "randomness is an argument"),
    ("println!", "the core does no I/O"),
    ("eprintln!", "the core does no I/O"),
    ("static mut", "the core has no state of its own"),
    ("thread_local!", "the core has no state of its own"),
    ("unsafe", "the core needs none"),
];

/// Checks one file, if it is the core's. Tests in it may do what tests do.
pub fn check(file: &File, code: &Code) -> Vec<Finding> {
    if !file.path.starts_with(CORE) || file.path.contains("/tests/") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in code
        .lines()
        .filter(|(number, _)| !code.is_test_line(*number))
    {
        for (word, why) in BANNED {
            if has_word(line, word) {
                let what = format!("`{word}` in the core: {why}");
                findings.push(Finding::line(Rule::Purity, &file.path, number, what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;

    #[track_caller]
    fn check_line(path: &str, line: &str, expected: &[&str]) {
        let text = format!("//! A.\n{line}\n");
        let tree = Tree::of(&[(path, &text)]);
        let found = check(tree.get(path).unwrap(), &Code::of(&text));
        let got: Vec<_> = found.iter().map(|finding| finding.what.as_str()).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn the_core_may_not_touch_the_world() {
        let path = "crates/core/src/engine/mod.rs";
        check_line(
            path,
            "let a = Instant::now();",
            &["`Instant` in the core: time is an argument"],
        );
        check_line(
            path,
            "use std::fs;",
            &["`std::fs` in the core: the core does no I/O"],
        );
        check_line(
            path,
            "async fn a() {}",
            &["`async` in the core: the core never waits"],
        );
        check_line(
            path,
            "use std::collections::HashMap;",
            &["`HashMap` in the core: its order differs from run to run: use BTreeMap"],
        );
    }

    #[test]
    fn words_and_longer_names_are_free() {
        let path = "crates/core/src/engine/mod.rs";
        check_line(path, "// no HashMap, no async", &[]);
        check_line(path, "let instantly = \"Instant\";", &[]);
        check_line(path, "struct InstantOf;", &[]);
        check_line(path, "use std::collections::BTreeMap;", &[]);
    }

    #[test]
    fn other_crates_and_tests_are_free() {
        check_line("crates/store/src/lib.rs", "use std::fs;", &[]);
        check_line("crates/core/tests/a.rs", "use std::fs;", &[]);
        check_line("crates/core/src/engine/tests/a.rs", "use std::fs;", &[]);
        check_line(
            "crates/core/src/a.rs",
            "#[cfg(test)]\nmod tests {\nuse std::fs;\n}",
            &[],
        );
    }
}
