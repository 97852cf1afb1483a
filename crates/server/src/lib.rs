//! Placeholder opening, replaced with the crate's promise.

pub mod config;
pub mod route;
