//! What must hold of each reader of the product, whatever it reads.
//!
//! Everything that arrives from outside is read by somebody: header fields, bodies,
//! paths, configurations, records, exports. Each of these readers has a [`Target`]
//! here: a function of bytes that hands them over and asserts what is promised. Not
//! to panic is the least of it; a date that is written and read is the same date, a
//! body means the same however it is cut into pieces, a secret that was read comes
//! out of no sentence.
//!
//! ```text
//! fuzz/fuzz_targets/NAME.rs ──┐   coverage-guided, nightly: cargo xtask fuzz
//! tests/smoke.rs ─────────────┼──▶ Target::check(bytes)
//! rategov-fuzz run NAME FILE ─┘   one input again, with the toolchain of every day
//! ```
//!
//! A finding becomes a test beside the reader that it was found in, and its input
//! goes nowhere else. Private readers are reached through `rategov_server::doors`.

mod input;
pub mod scenario;
mod targets;
mod words;
pub mod world;

pub use targets::TARGETS;
pub use words::dictionary;

/// One reader and what must hold of it.
#[derive(Clone, Copy)]
pub struct Target {
    /// How it is called on the command line; also the name of its file in `fuzz/`.
    pub name: &'static str,
    /// What must hold, in one sentence.
    pub holds: &'static str,
    /// Panics if it doesn't hold for these bytes.
    pub check: fn(&[u8]),
    /// Inputs to begin with: well-formed, or nearly.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// The target of a name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Checks one input of a target.
///
/// # Panics
/// If there is no such target, or what must hold of it doesn't.
pub fn check(name: &str, bytes: &[u8]) {
    let target = find(name).expect("the programs of the fuzzer have the targets' names");
    (target.check)(bytes);
}
