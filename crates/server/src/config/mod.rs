//! The configuration: as written, as meant, and everything wrong with it at once.

pub mod mistake;
pub(crate) mod tree;
pub mod units;

/// Most entries of one map or list.
pub(crate) const ENTRIES_MAX: usize = 10_000;

/// Longest key, in bytes.
pub(crate) const KEY_BYTES_MAX: usize = 512;
