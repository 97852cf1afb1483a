//! What the tests of the engine share.

pub(crate) mod call;
pub(crate) mod provider;
pub(crate) mod world;
