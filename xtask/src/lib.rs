//! The project's own tasks, as a library so that they can be tested.
//!
//! `cargo xtask test` prepares a machine and runs everything; `cargo xtask tidy`
//! checks the rules that no compiler knows; `cargo xtask sim` runs the simulated
//! world for given seeds; `cargo xtask fuzz` searches for hostile inputs; `cargo xtask bench`
//! measures. Nothing here is part of the product.

pub mod bench;
pub mod fuzz;
pub mod needs;
pub mod sim;
pub mod steps;
pub mod test;
pub mod tidy;
pub mod tools;

use std::path::{Path, PathBuf};

/// The root of the repository: the folder above this crate.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
