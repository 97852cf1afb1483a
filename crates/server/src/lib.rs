//! Placeholder opening, replaced with the crate's promise.

pub mod config;
