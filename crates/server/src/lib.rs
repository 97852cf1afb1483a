//! Placeholder opening, replaced with the crate's promise.

pub mod auth;
pub mod config;
pub mod route;
