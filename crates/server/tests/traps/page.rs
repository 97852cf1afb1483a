//! `docs/provider-traps.md` and the tests of this folder say the same: each test that
//! the page names is here, and each test here is on the page.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files of this folder whose tests are about no trap of one provider.
const OTHERS: [&str; 3] = ["main.rs", "any_answer.rs", "page.rs"];

/// The numbers of the catalogue's own list.
const NUMBERS: u32 = 13;

fn page() -> String {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/provider-traps.md");
    std::fs::read_to_string(place).unwrap()
}

/// The cells of every row of the page's tables, but for their heads.
fn rows(page: &str) -> Vec<Vec<&str>> {
    page.lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .map(|line| line.split(" | ").collect::<Vec<_>>())
        .filter(|row| row[0] != "provider")
        .collect()
}

/// What stands between the backticks of a cell.
fn quoted(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`')
}

/// The tests of a source: the functions that an attribute makes one.
fn tests_of(source: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_test = false;
    for line in source.lines() {
        let name = line
            .strip_prefix("fn ")
            .or_else(|| line.strip_prefix("async fn "))
            .and_then(|rest| rest.split('(').next());
        match name {
            Some(name) if is_test => is_test = !names.insert(name.to_owned()),
            _ => is_test = ["#[test]", "#[tokio::test]"].contains(&line),
        }
    }
    names
}

fn tests_of_the_folder() -> BTreeSet<String> {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "traps"]
        .iter()
        .collect();
    let mut names = BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_file() && !OTHERS.contains(&name.as_str()) {
            names.extend(tests_of(&std::fs::read_to_string(path).unwrap()));
        }
    }
    names
}

#[test]
fn every_trap_on_the_page_has_its_test_and_every_test_its_trap() {
    let page = page();
    let named: BTreeSet<String> = rows(&page)
        .iter()
        .filter_map(|row| quoted(row.last()?))
        .map(str::to_owned)
        .collect();
    let tests = tests_of_the_folder();
    let gone: Vec<_> = named.difference(&tests).collect();
    let untold: Vec<_> = tests.difference(&named).collect();
    assert!(
        gone.is_empty(),
        "the page names tests that are not here: {gone:?}"
    );
    assert!(untold.is_empty(), "the page does not name: {untold:?}");
    assert!(100 < named.len(), "{}", named.len());
}

#[test]
fn every_row_of_the_page_is_whole() {
    let page = page();
    for row in rows(&page) {
        let is_test = row.last().copied().and_then(quoted).is_some();
        assert_eq!(row.len(), if is_test { 4 } else { 3 }, "{row:?}");
        assert!(row.iter().all(|cell| !cell.trim().is_empty()), "{row:?}");
    }
    for number in 1..=NUMBERS {
        assert!(
            page.contains(&format!("\n## {number}. ")),
            "{number} is missing"
        );
    }
}

#[test]
fn only_functions_behind_the_attribute_are_tests() {
    let source = "#[test]\nfn a() {}\nfn b() {}\n#[tokio::test]\nasync fn c() {}\n    fn d() {}\n#[test]\nfn e(\n";
    assert_eq!(
        tests_of(source).into_iter().collect::<Vec<_>>(),
        ["a", "c", "e"]
    );
}
