//! Links between the documents lead somewhere.
//!
//! Only links inside the repository are followed, and only to their file: what
//! lies behind an address is not the project's to promise.

use super::tree::{File, Tree};
use super::{Finding, Rule};

/// Finds each link to a file that is not there.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let documents = tree.files().filter(|file| file.path.ends_with(".md"));
    documents.flat_map(|file| dead(file, tree)).collect()
}

fn dead(file: &File, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut fenced = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        for target in targets(line).filter(|_| !fenced) {
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains(':') {
                continue;
            }
            let exists = resolve(&file.path, target).is_some_and(|path| is_there(tree, &path));
            if !exists {
                let what = format!("the link to `{target}` leads nowhere");
                findings.push(Finding::line(Rule::Link, &file.path, index + 1, what));
            }
        }
    }
    findings
}

/// The targets of `[text](target)` in a line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ']).next())
}

/// A target as a path from the root; `None` if it leads out of the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn is_there(tree: &Tree, path: &str) -> bool {
    tree.get(path).is_some() || tree.under(&format!("{path}/")).next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_link(link: &str, expected: Result<(), &str>) {
        let text = format!("# A\n\nsee {link}\n");
        let tree = Tree::of(&[("docs/guide/a.md", &text), ("docs/b.md", "# B\n")]);
        let found: Vec<_> = check(&tree)
            .into_iter()
            .map(|finding| finding.what)
            .collect();
        let expected: Vec<_> = expected.err().map(str::to_owned).into_iter().collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_link_leads_to_a_file_or_a_folder() {
        check_link("[b](../b.md)", Ok(()));
        check_link("[b](../b.md#part)", Ok(()));
        check_link("[here](#part)", Ok(()));
        check_link("[all](../../docs/)", Ok(()));
        check_link("[out](https://example.com/x.md)", Ok(()));
        check_link("[b](b.md)", Err("the link to `b.md` leads nowhere"));
        check_link(
            "[up](../../../b.md)",
            Err("the link to `../../../b.md` leads nowhere"),
        );
    }
}
