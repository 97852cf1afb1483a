//! The whole process against what a machine does to it: a disk without space,
//! signals, a second governor on the same folder, callers that come back; and that
//! operators and agents are told what is so.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

#[path = "../support/mod.rs"]
mod support;

mod disk;
mod operators;
mod repeats;
mod restarts;
mod resumed;
mod seats;
mod stopping;
mod world;
