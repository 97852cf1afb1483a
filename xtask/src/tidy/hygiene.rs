//! Any tracked file: nothing that only one machine knows, nothing too large.

use super::tree::File;
use super::{Finding, Rule};

/// Larger files belong to the test data or nowhere.
pub const BYTES_MAX: usize = 200_000;

/// Folders of one particular machine. Put together here so that this file
/// doesn't hold them.
const MACHINE_FOLDERS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/tmp", "/wt"),
    concat!("/ho", "me/"),
];

/// Where packages may come from, by the file that says so: the file's last part,
/// what introduces an address in it, and the public registry.
const REGISTRIES: &[(&str, &str, &str)] = &[
    (
        "Cargo.lock",
        "source = \"",
        "registry+https://github.com/rust-lang/crates.io-index\"",
    ),
    (
        "package-lock.json",
        "\"resolved\": \"",
        "https://registry.npmjs.org/",
    ),
];

/// Settings that point a package manager elsewhere.
const REDIRECTIONS: &[(&str, &str)] = &[
    ("requirements.txt", "--index-url"),
    ("requirements.txt", "--extra-index-url"),
    ("requirements.txt", "--find-links"),
    (".npmrc", "registry"),
    ("pip.conf", "index-url"),
    (".cargo/config.toml", "replace-with"),
];

/// Checks one file.
pub fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let path = file.path.as_str();
    if file.bytes > BYTES_MAX && !file.is_test_data() {
        let what = format!(
            "{} bytes, {BYTES_MAX} are allowed outside test data",
            file.bytes
        );
        findings.push(Finding::file(Rule::Size, path, what));
    }
    for (index, line) in file.text.lines().enumerate() {
        if let Some(folder) = MACHINE_FOLDERS
            .iter()
            .find(|folder| names_folder(line, folder))
        {
            let what = format!("`{folder}` is a folder of one machine");
            findings.push(Finding::line(Rule::Place, path, index + 1, what));
        }
        if let Some(what) = foreign_source(path, line) {
            findings.push(Finding::line(Rule::Place, path, index + 1, what));
        }
    }
    findings
}

/// Whether a line names an absolute folder, not the middle of a longer path.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before
            .is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '}' | '*'))
    })
}

fn foreign_source(path: &str, line: &str) -> Option<String> {
    let is = |name: &str| path == name || path.ends_with(&format!("/{name}"));
    for (name, introduction, public) in REGISTRIES {
        let Some((_, address)) = line.split_once(introduction).filter(|_| is(name)) else {
            continue;
        };
        if !address.starts_with(public) {
            return Some(format!("a package comes from elsewhere than {public}"));
        }
    }
    let redirection = REDIRECTIONS
        .iter()
        .find(|(name, word)| is(name) && line.contains(word));
    redirection.map(|(_, word)| format!("`{word}` belongs to a machine, not to the project"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::Tree;

    #[track_caller]
    fn check_text(path: &str, text: &str, expected: &[(Rule, Option<usize>)]) {
        let tree = Tree::of(&[(path, text)]);
        let found = check(tree.get(path).unwrap());
        let got: Vec<_> = found
            .iter()
            .map(|finding| (finding.rule, finding.line))
            .collect();
        assert_eq!(got, expected, "{found:?}");
    }

    #[test]
    fn folders_of_one_machine_are_found() {
        for folder in MACHINE_FOLDERS {
            check_text(
                "a.md",
                &format!("one\nsee {folder}x\n"),
                &[(Rule::Place, Some(2))],
            );
            check_text(
                "a.md",
                &format!("see `{folder}x`\n"),
                &[(Rule::Place, Some(1))],
            );
            check_text("a.md", &format!("rategov{folder}1\n"), &[]);
        }
    }

    #[test]
    fn packages_come_from_the_public_registries_only() {
        let crates = "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n";
        check_text("Cargo.lock", crates, &[]);
        let git = "source = \"git+https://example.com/x\"\n";
        check_text("Cargo.lock", git, &[(Rule::Place, Some(1))]);
        let npm = "  \"resolved\": \"https://registry.npmjs.org/x/-/x-1.0.0.tgz\",\n";
        check_text("e2e/package-lock.json", npm, &[]);
        let other = "  \"resolved\": \"https://npm.example.com/x-1.0.0.tgz\",\n";
        check_text("e2e/package-lock.json", other, &[(Rule::Place, Some(1))]);
        let index = "--index-url https://example.com\n";
        check_text("e2e/requirements.txt", index, &[(Rule::Place, Some(1))]);
    }

    #[test]
    fn a_large_file_is_test_data_or_nothing() {
        let large = "x".repeat(BYTES_MAX + 1);
        check_text("docs/a.svg", &large, &[(Rule::Size, None)]);
        check_text("crates/a/tests/data/b.json", &large, &[]);
        check_text("docs/a.svg", &large[..BYTES_MAX], &[]);
    }
}
