//! What tests of the whole process share: a governor in a process of its own on
//! a folder of its own, a caller that sees bytes, and waiting for what happens.

#![allow(dead_code, reason = "each of the test programs uses its part")]

pub(crate) mod caller;
pub(crate) mod governor;
pub(crate) mod home;
pub(crate) mod wait;
