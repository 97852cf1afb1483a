//! The list of exceptions, which only ever shrinks.
//!
//! One a line: `RULE PATH [NUMBER] — REASON`. The number is the limit that holds
//! for this file instead of the usual one. An exception that nothing needs any
//! more is a finding, and so is a limit that lies more than a few lines above
//! what the file now has: whoever makes a file shorter also shortens the list.
//!
//! ```text
//! length crates/a/src/big.rs 620 — the table of one specification, read as a whole
//! sleep  crates/b/tests/real.rs — measures the real clock of the machine
//! ```

use super::tree::Tree;
use super::{Finding, Rule};

/// Where the list is.
pub const LIST: &str = "xtask/tidy-exceptions.txt";
/// How far a limit may lie above what it is for.
const SLACK: usize = 20;
/// Rules that may have exceptions.
const EXCUSABLE: &[Rule] = &[Rule::Length, Rule::Width, Rule::Sleep];

/// One line of the list.
#[derive(Clone, Debug)]
struct Entry {
    line: usize,
    rule: Rule,
    path: String,
    limit: Option<usize>,
    used: bool,
}

/// The list, with a note of what was needed.
#[derive(Clone, Debug, Default)]
pub struct Exceptions {
    entries: Vec<Entry>,
    findings: Vec<Finding>,
}

impl Exceptions {
    /// Reads the list of a tree; without the file there are no exceptions.
    pub fn of(tree: &Tree) -> Exceptions {
        let mut exceptions = Exceptions::default();
        let text = tree.get(LIST).map_or("", |file| file.text.as_str());
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match Entry::parse(line, index + 1) {
                Ok(entry) => exceptions.entries.push(entry),
                Err(what) => exceptions.finding(index + 1, what),
            }
        }
        exceptions
    }

    /// Whether the list excuses this file from the rule as a whole.
    pub fn allows(&mut self, rule: Rule, path: &str) -> bool {
        self.entry(rule, path).is_some()
    }

    /// The limit that holds for a file which has `count` of something.
    pub fn limit(&mut self, rule: Rule, path: &str, count: usize, usual: usize) -> usize {
        if count <= usual {
            return usual;
        }
        let Some(entry) = self.entry(rule, path) else {
            return usual;
        };
        let (limit, line) = (entry.limit.unwrap_or(usual), entry.line);
        if limit > count + SLACK {
            let what = format!("{path} has {count} now: lower its limit of {limit} to that");
            self.finding(line, what);
        }
        limit
    }

    /// What is wrong with the list itself, once every file was checked.
    pub fn stale(mut self) -> Vec<Finding> {
        let unused: Vec<_> = self
            .entries
            .iter()
            .filter(|entry| !entry.used)
            .cloned()
            .collect();
        for entry in unused {
            let what = format!(
                "nothing in {} needs it any more: remove the line",
                entry.path
            );
            self.finding(entry.line, what);
        }
        self.findings
    }

    fn entry(&mut self, rule: Rule, path: &str) -> Option<&Entry> {
        let entry = self
            .entries
            .iter_mut()
            .find(|e| e.rule == rule && e.path == path)?;
        entry.used = true;
        Some(entry)
    }

    fn finding(&mut self, line: usize, what: String) {
        self.findings
            .push(Finding::line(Rule::Exception, LIST, line, what));
    }
}

impl Entry {
    fn parse(text: &str, line: usize) -> Result<Entry, String> {
        let Some((head, reason)) = text.split_once(" — ") else {
            return Err("an exception reads `RULE PATH [NUMBER] — REASON`".to_owned());
        };
        if reason.trim().is_empty() {
            return Err("the reason is missing".to_owned());
        }
        let words: Vec<&str> = head.split_whitespace().collect();
        let (rule, path, limit) = match words.as_slice() {
            [rule, path] => (*rule, *path, None),
            [rule, path, limit] => match limit.parse::<usize>() {
                Ok(limit) => (*rule, *path, Some(limit)),
                Err(_) => return Err(format!("`{limit}` is not a number")),
            },
            _ => return Err("an exception reads `RULE PATH [NUMBER] — REASON`".to_owned()),
        };
        let Some(rule) = EXCUSABLE.iter().copied().find(|known| known.word() == rule) else {
            return Err(format!("the rule `{rule}` has no exceptions"));
        };
        if (rule == Rule::Length) != limit.is_some() {
            return Err("`length` has a number, other rules have none".to_owned());
        }
        Ok(Entry {
            line,
            rule,
            path: path.to_owned(),
            limit,
            used: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Exceptions {
        Exceptions::of(&Tree::of(&[(LIST, text)]))
    }

    #[track_caller]
    fn check(exceptions: Exceptions, expected: &[&str]) {
        let found: Vec<_> = exceptions
            .stale()
            .into_iter()
            .map(|finding| finding.what)
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn an_exception_raises_the_limit_of_its_file_only() {
        let mut exceptions = list("# why\n\nlength a.rs 620 — a table\n");
        assert_eq!(exceptions.limit(Rule::Length, "a.rs", 610, 500), 620);
        assert_eq!(exceptions.limit(Rule::Length, "b.rs", 610, 500), 500);
        check(exceptions, &[]);
    }

    #[test]
    fn the_list_shrinks_with_what_it_excuses() {
        let mut exceptions = list("length a.rs 620 — a table\n");
        assert_eq!(exceptions.limit(Rule::Length, "a.rs", 480, 500), 500);
        check(
            exceptions,
            &["nothing in a.rs needs it any more: remove the line"],
        );
        let mut exceptions = list("length a.rs 620 — a table\n");
        assert_eq!(exceptions.limit(Rule::Length, "a.rs", 599, 500), 620);
        check(
            exceptions,
            &["a.rs has 599 now: lower its limit of 620 to that"],
        );
    }

    #[test]
    fn a_test_that_sleeps_is_excused_by_name() {
        let mut exceptions = list("sleep a.rs — the real clock\n");
        assert!(exceptions.allows(Rule::Sleep, "a.rs"));
        assert!(!exceptions.allows(Rule::Sleep, "b.rs"));
        check(exceptions, &[]);
    }

    #[test]
    fn a_line_that_says_nothing_is_a_finding() {
        check(
            list("length a.rs 620\n"),
            &["an exception reads `RULE PATH [NUMBER] — REASON`"],
        );
        check(
            list("length a.rs many — why\n"),
            &["`many` is not a number"],
        );
        check(
            list("length a.rs — why\n"),
            &["`length` has a number, other rules have none"],
        );
        check(
            list("purity a.rs — why\n"),
            &["the rule `purity` has no exceptions"],
        );
        check(
            list("sleep a.rs —  \n"),
            &["an exception reads `RULE PATH [NUMBER] — REASON`"],
        );
    }
}
