//! The simulated world of Rate Governor.
pub mod provider;
