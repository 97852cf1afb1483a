//! What the tests of the engine share.

pub mod call;
pub mod provider;
pub mod world;
