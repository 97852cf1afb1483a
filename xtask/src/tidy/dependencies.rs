//! Which crate of ours may use which: the direction of dependency.
//!
//! Read from `cargo metadata`, so that a renamed or a target's dependency counts
//! too. Dependencies of tests count like others: a test that reaches upwards ties
//! the crates just as firmly.

use std::collections::BTreeMap;

use anyhow::Context;
use serde_json::Value;

use super::{Finding, Rule};

/// Our crates, and which of ours each may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("rategov-core", &[]),
    ("rategov-audit", &[]),
    ("rategov-store", &["rategov-core", "rategov-audit"]),
    ("rategov-server", &["rategov-core", "rategov-store"]),
    ("rategov-sim", &["rategov-core"]),
    (
        "rategov",
        &[
            "rategov-core",
            "rategov-audit",
            "rategov-store",
            "rategov-server",
            "rategov-sim",
        ],
    ),
    (
        "rategov-fuzz",
        &[
            "rategov-audit",
            "rategov-core",
            "rategov-server",
            "rategov-store",
        ],
    ),
    ("rategov-bench", &["rategov-core"]),
    ("xtask", &[]),
];

/// A package of the workspace and the names of what it uses.
pub type Packages = BTreeMap<String, Vec<String>>;

/// The packages of the workspace, from cargo's metadata.
pub fn packages(metadata: &Value) -> anyhow::Result<Packages> {
    let mut packages = Packages::new();
    for package in metadata["packages"].as_array().context("no `packages`")? {
        let name = package["name"]
            .as_str()
            .context("a package has no `name`")?;
        let uses = package["dependencies"]
            .as_array()
            .context("a package has no `dependencies`")?;
        let uses = uses
            .iter()
            .filter_map(|used| used["name"].as_str())
            .map(str::to_owned);
        packages.insert(name.to_owned(), uses.collect());
    }
    Ok(packages)
}

/// Finds each use that the table doesn't allow.
pub fn check(packages: &Packages) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, uses) in packages {
        let Some((_, allowed)) = MAY_USE.iter().find(|(known, _)| known == name) else {
            let what = format!("the crate `{name}` has no row in xtask/src/tidy/dependencies.rs");
            findings.push(Finding::file(Rule::Direction, "Cargo.toml", what));
            continue;
        };
        let ours = uses
            .iter()
            .filter(|used| packages.contains_key(*used) && *used != name);
        for used in ours.filter(|used| !allowed.contains(&used.as_str())) {
            let what = format!("`{name}` must not use `{used}`: dependencies point the other way");
            findings.push(Finding::file(Rule::Direction, "Cargo.toml", what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_uses(uses: &[(&str, &[&str])], expected: &[&str]) {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let packages = uses
            .iter()
            .map(|(name, uses)| ((*name).to_owned(), owned(uses)))
            .collect();
        let found = check(&packages);
        let got: Vec<_> = found.iter().map(|finding| finding.what.as_str()).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn the_binary_may_use_everything_and_the_core_nothing_of_ours() {
        check_uses(
            &[
                ("rategov", &["rategov-server", "rategov-sim", "clap"]),
                ("rategov-server", &["rategov-core", "rategov-store"]),
                ("rategov-sim", &["rategov-core", "tokio"]),
                ("rategov-store", &["rategov-core", "rategov-audit"]),
                ("rategov-audit", &["sha2"]),
                ("rategov-core", &["sfv"]),
            ],
            &[],
        );
        check_uses(
            &[("rategov-core", &["rategov-audit"]), ("rategov-audit", &[])],
            &["`rategov-core` must not use `rategov-audit`: dependencies point the other way"],
        );
    }

    #[test]
    fn the_simulator_shares_nothing_with_the_server() {
        check_uses(
            &[
                ("rategov-sim", &["rategov-server"]),
                ("rategov-server", &[]),
            ],
            &["`rategov-sim` must not use `rategov-server`: dependencies point the other way"],
        );
    }

    #[test]
    fn a_new_crate_needs_a_row() {
        check_uses(
            &[("rategov-new", &[])],
            &["the crate `rategov-new` has no row in xtask/src/tidy/dependencies.rs"],
        );
    }

    #[test]
    fn cargos_metadata_is_read_by_name() {
        let text = r#"{"packages":[{"name":"a","dependencies":[{"name":"b","kind":"dev"}]}]}"#;
        let read = |text: &str| packages(&serde_json::from_str(text).unwrap());
        assert_eq!(read(text).unwrap()["a"], ["b"]);
        assert!(read("{}").is_err());
    }
}
