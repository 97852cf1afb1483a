//! Documents agree with the code: one heading each, one document for each error
//! code, and every configuration key explained.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::tree::{File, Tree};
use super::{Finding, Rule};

/// Where the documents of the error codes are.
pub const ERRORS: &str = "docs/errors/";
/// The configuration that shows every key.
pub const EXAMPLE: &str = "examples/rategov.yaml";
/// The guide that explains them.
pub const GUIDE: &str = "docs/guide/";
/// Mappings whose keys are names that an operator chooses.
const NAMED: &[&str] = &["providers", "accounts", "agents", "sources", "facts"];

/// Checks every document.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tree
        .files()
        .filter(|file| file.path.ends_with(".md"))
        .filter_map(heading)
        .collect();
    findings.extend(codes(tree));
    findings.extend(keys(tree));
    findings
}

fn heading(file: &File) -> Option<Finding> {
    let mut fenced = false;
    let mut headings = 0;
    for line in file.text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && line.starts_with("# ") {
            headings += 1;
        }
    }
    (headings != 1).then(|| {
        let what = format!("{headings} headings of the first level: a document has one");
        Finding::file(Rule::Heading, &file.path, what)
    })
}

fn codes(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut used: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for file in tree.under("crates/").filter(|file| file.is_rust()) {
        for (index, line) in file.text.lines().enumerate() {
            for code in codes_in(line) {
                used.entry(code).or_insert((&file.path, index + 1));
            }
        }
    }
    for (code, (path, line)) in &used {
        if tree.get(&format!("{ERRORS}{code}.md")).is_none() {
            let what = format!("{code} has no document {ERRORS}{code}.md");
            findings.push(Finding::line(Rule::Codes, path, *line, what));
        }
    }
    for file in tree.under(ERRORS) {
        let name = file.path.trim_start_matches(ERRORS).trim_end_matches(".md");
        if !codes_in(name).any(|code| code == name) {
            continue;
        }
        if !used.contains_key(name) {
            let what = format!("no code of the crates is {name}");
            findings.push(Finding::file(Rule::Codes, &file.path, what));
        }
        if !file.text.starts_with(&format!("# {name} ")) {
            let what = format!("must open with `# {name} WORD`");
            findings.push(Finding::line(Rule::Codes, &file.path, 1, what));
        }
    }
    findings
}

/// Every `RG` with exactly four digits behind it.
fn codes_in(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("RG").filter_map(|(at, _)| {
        let code = line.get(at..at + 6)?;
        let digits = code[2..].bytes().all(|byte| byte.is_ascii_digit());
        let is_name = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric());
        let before = line[..at].chars().next_back();
        let after = line[at + 6..].chars().next();
        (digits && !is_name(before) && !is_name(after)).then_some(code)
    })
}

fn keys(tree: &Tree) -> Vec<Finding> {
    let Some(example) = tree.get(EXAMPLE) else {
        return Vec::new();
    };
    let guide: String = tree.under(GUIDE).map(|file| file.text.as_str()).collect();
    if guide.is_empty() {
        return Vec::new();
    }
    let value: Value = match serde_saphyr::from_str(&example.text) {
        Ok(value) => value,
        Err(cause) => {
            let what = format!("can't be read: {cause}");
            return vec![Finding::file(Rule::Keys, EXAMPLE, what)];
        }
    };
    let mut keys = BTreeSet::new();
    collect(&value, false, &mut keys);
    let explained: BTreeSet<&str> = guide.lines().flat_map(keys_in).collect();
    let finding = |key: &&str| {
        Finding::file(
            Rule::Keys,
            EXAMPLE,
            format!("the key `{key}` is nowhere in {GUIDE}"),
        )
    };
    keys.difference(&explained).map(finding).collect()
}

fn collect<'a>(value: &'a Value, named: bool, keys: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                if !named {
                    keys.insert(key);
                }
                collect(value, NAMED.contains(&key.as_str()) && !named, keys);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, false, keys)),
        _ => {}
    }
}

/// The keys that a line of the guide shows in code marks, alone or in a path:
/// `spool.memory` shows `spool` and `memory`.
fn keys_in(line: &str) -> impl Iterator<Item = &str> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '[' | ']');
    let spans = line.split('`').skip(1).step_by(2);
    let paths = spans.map(|span| span.split(':').next().unwrap_or_default());
    let paths = paths.filter(move |path| path.chars().all(is_path));
    paths
        .flat_map(|path| path.split(['.', '[', ']']))
        .filter(|key| !key.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_tree(files: &[(&str, &str)], expected: &[&str]) {
        let found = check(&Tree::of(files));
        let got: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn a_document_has_one_heading_of_the_first_level() {
        check_tree(
            &[("a.md", "# One\n\n## Two\n\n```sh\n# no heading\n```\n")],
            &[],
        );
        check_tree(
            &[("a.md", "# One\n# Two\n"), ("b.md", "words\n")],
            &[
                "a.md: 2 headings of the first level: a document has one [heading]",
                "b.md: 0 headings of the first level: a document has one [heading]",
            ],
        );
    }

    #[test]
    fn codes_and_documents_agree_both_ways() {
        let code = ("crates/a/src/b.rs", "//! A.\nrow(\"RG9001\")\n");
        check_tree(
            &[code, ("docs/errors/RG9001.md", "# RG9001 some_word\n")],
            &[],
        );
        check_tree(
            &[code],
            &["crates/a/src/b.rs:2: RG9001 has no document docs/errors/RG9001.md [codes]"],
        );
        check_tree(
            &[
                ("docs/errors/RG9002.md", "# RG9002 some_word\n"),
                ("docs/errors/README.md", "# E\n"),
            ],
            &["docs/errors/RG9002.md: no code of the crates is RG9002 [codes]"],
        );
        check_tree(
            &[code, ("docs/errors/RG9001.md", "# Some word\n")],
            &["docs/errors/RG9001.md:1: must open with `# RG9001 WORD` [codes]"],
        );
    }

    #[test]
    fn every_key_of_the_example_is_explained_but_names_are_not() {
        let example = (EXAMPLE, "hold: 1s\nproviders:\n  mine:\n    base_url: x\n");
        check_tree(&[example], &[]);
        let guide = "# G\n\n`hold: 2s` and `providers.NAME.base_url`\n";
        check_tree(&[example, ("docs/guide/a.md", guide)], &[]);
        check_tree(
            &[
                example,
                (
                    "docs/guide/a.md",
                    "# G\n\n`hold` and `base_url`; providers, `a providers b`\n",
                ),
            ],
            &["examples/rategov.yaml: the key `providers` is nowhere in docs/guide/ [keys]"],
        );
    }
}
