//! What the tests of the engine share.

pub(crate) mod call;
mod look;
pub(crate) mod provider;
mod runner;
pub(crate) mod world;
