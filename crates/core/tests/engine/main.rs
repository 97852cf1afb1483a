//! What an engine does, in virtual time, told as sentences.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod bounds;
mod callers;
mod cancels;
mod commits;
mod histories;
mod questions;
mod reads;
mod refusals;
mod repeats;
mod restarts;
mod rows;
mod shut;
mod spread;
mod support;
mod times;
mod writes;
