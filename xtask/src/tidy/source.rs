//! Rust files: how they open, how long and wide they are, and that nothing in
//! them is unfinished or waits for real time.

use super::code::{Code, has_word};
use super::exceptions::Exceptions;
use super::tree::File;
use super::{Finding, Rule};

/// Beyond this a file holds two ideas.
pub const LINES_MAX: usize = 500;
/// Beyond this a line can't be read beside another.
pub const COLUMNS_MAX: usize = 100;

/// Words that mark something unfinished, in code or comment. Put together here
/// so that this file doesn't hold them.
const UNFINISHED: &[&str] = &[
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("#[ign", "ore"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Calls that let real time pass.
const SLEEPS: &[&str] = &["thread::sleep"];
/// Calls that do so unless the runtime's clock is paused.
const TIMED: &[&str] = &["time::sleep", "sleep_until"];
/// What a file says whose runtimes have a paused clock.
const PAUSED: &str = "start_paused";

/// Checks one Rust file.
pub fn check(file: &File, code: &Code, exceptions: &mut Exceptions) -> Vec<Finding> {
    let mut findings = Vec::new();
    let path = file.path.as_str();
    if !file.text.starts_with("//!") {
        let what = "opens without `//!`: say first what the file promises";
        findings.push(Finding::file(Rule::Opening, path, what));
    }
    findings.extend(length(file, exceptions));
    let sleeps: &[&[&str]] = if file.text.contains(PAUSED) {
        &[SLEEPS]
    } else {
        &[SLEEPS, TIMED]
    };
    let mut in_picture = false;
    for (line, (number, code_line)) in file.text.lines().zip(code.lines()) {
        if is_fence(line) {
            in_picture = !in_picture;
        }
        if !in_picture {
            let wide = width(path, number, line);
            findings.extend(wide.filter(|_| !exceptions.allows(Rule::Width, path)));
        }
        findings.extend(unfinished(path, number, line));
        let in_test = path.contains("/tests/") || code.is_test_line(number);
        let sleeps = in_test
            && sleeps
                .iter()
                .copied()
                .flatten()
                .any(|it| code_line.contains(it));
        if sleeps && !exceptions.allows(Rule::Sleep, path) {
            let what = "a test sleeps: use virtual time, or list it with the reason";
            findings.push(Finding::line(Rule::Sleep, path, number, what));
        }
    }
    findings
}

fn length(file: &File, exceptions: &mut Exceptions) -> Option<Finding> {
    let lines = file.text.lines().count();
    let limit = exceptions.limit(Rule::Length, &file.path, lines, LINES_MAX);
    (lines > limit).then(|| {
        let what = format!("{lines} lines, {limit} are allowed: two ideas share this file");
        Finding::file(Rule::Length, &file.path, what)
    })
}

/// Whether a line of a comment begins or ends a picture, a grammar, an example.
fn is_fence(line: &str) -> bool {
    let comment = line.trim_start().strip_prefix("//");
    comment.is_some_and(|it| {
        it.trim_start_matches(['/', '!'])
            .trim_start()
            .starts_with("```")
    })
}

/// Rustfmt keeps code narrow but touches no comment. A picture, a row of a table
/// and an address can't be broken.
fn width(path: &str, number: usize, line: &str) -> Option<Finding> {
    let comment = line.trim_start().strip_prefix("//")?;
    let breaks_nowhere = comment
        .trim_start_matches(['/', '!'])
        .trim_start()
        .starts_with('|')
        || comment.contains("://");
    let columns = line.chars().count();
    (columns > COLUMNS_MAX && !breaks_nowhere).then(|| {
        let what = format!("a comment of {columns} columns, {COLUMNS_MAX} are allowed");
        Finding::line(Rule::Width, path, number, what)
    })
}

fn unfinished(path: &str, number: usize, line: &str) -> Option<Finding> {
    let word = UNFINISHED.iter().find(|word| has_word(line, word))?;
    let what = format!("`{word}` marks something unfinished: finish it, or leave it out");
    Some(Finding::line(Rule::Unfinished, path, number, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;

    #[track_caller]
    fn check_rules(path: &str, text: &str, expected: &[(Rule, Option<usize>)]) {
        let tree = Tree::of(&[(path, text)]);
        let file = tree.get(path).unwrap();
        let found = check(file, &Code::of(text), &mut Exceptions::default());
        let got: Vec<_> = found
            .iter()
            .map(|finding| (finding.rule, finding.line))
            .collect();
        assert_eq!(got, expected, "{found:?}");
    }

    #[test]
    fn a_file_must_open_with_what_it_promises() {
        check_rules("a.rs", "//! Adds.\nfn a() {}\n", &[]);
        check_rules("a.rs", "fn a() {}\n", &[(Rule::Opening, None)]);
        check_rules("a.rs", "", &[(Rule::Opening, None)]);
    }

    #[test]
    fn a_file_of_more_than_five_hundred_lines_is_too_long() {
        let text = |lines: usize| format!("//! Long.\n{}", "// x\n".repeat(lines - 1));
        check_rules("a.rs", &text(LINES_MAX), &[]);
        check_rules("a.rs", &text(LINES_MAX + 1), &[(Rule::Length, None)]);
    }

    #[test]
    fn wide_comments_are_found_and_what_cannot_be_broken_is_not() {
        let wide = "word ".repeat(21);
        check_rules(
            "a.rs",
            &format!("//! A.\n// {wide}\n"),
            &[(Rule::Width, Some(2))],
        );
        check_rules(
            "a.rs",
            &format!("//! A.\n    /// {wide}\n"),
            &[(Rule::Width, Some(2))],
        );
        check_rules("a.rs", &format!("//! A.\nlet a = \"{wide}\";\n"), &[]);
        check_rules("a.rs", &format!("//! A.\n//! | a | {wide} |\n"), &[]);
        check_rules("a.rs", &format!("//! ```text\n//! {wide}\n//! ```\n"), &[]);
        let after = format!("//! ```text\n//! ```\n//! {wide}\n");
        check_rules("a.rs", &after, &[(Rule::Width, Some(3))]);
        check_rules(
            "a.rs",
            &format!("//! A.\n// https://example.com/{wide}\n"),
            &[],
        );
    }

    #[test]
    fn unfinished_work_is_found_in_code_and_comments() {
        for word in UNFINISHED {
            check_rules(
                "a.rs",
                &format!("//! A.\n{word}\n"),
                &[(Rule::Unfinished, Some(2))],
            );
        }
        check_rules(
            "a.rs",
            &format!("//! A.\n// a{}b\n", concat!("XX", "X")),
            &[],
        );
    }

    #[test]
    fn a_test_must_not_sleep_but_a_program_may() {
        let sleeps = "//! A.\nthread::sleep(a);\n";
        check_rules("crates/a/src/lib.rs", sleeps, &[]);
        check_rules("crates/a/tests/b.rs", sleeps, &[(Rule::Sleep, Some(2))]);
        let inner = "//! A.\n#[cfg(test)]\nmod tests {\ntokio::time::sleep(a).await;\n}\n";
        check_rules("crates/a/src/lib.rs", inner, &[(Rule::Sleep, Some(4))]);
        check_rules("crates/a/tests/b.rs", "//! A.\n// thread::sleep\n", &[]);
    }

    #[test]
    fn a_paused_clock_may_be_slept_on_but_not_the_thread() {
        let paused = "//! A.\n#[tokio::test(start_paused = true)]\ntokio::time::sleep(a).await;\n";
        check_rules("crates/a/tests/b.rs", paused, &[]);
        let real = format!("{paused}std::thread::sleep(a);\n");
        check_rules("crates/a/tests/b.rs", &real, &[(Rule::Sleep, Some(4))]);
    }
}
