//! Every decision of Rate Governor, and nothing else.
//!
//! This crate does no I/O, reads no clock, draws no random number, starts no
//! task and serialises nothing. The same inputs give the same outputs on every
//! machine, which is what lets the simulator replay a failing seed and the
//! tests say what happens without waiting for it.
//!
//! The only door to an account is [`engine::Engine`]. Its methods come in four
//! kinds: getters; `handle_*`, which take what happened outside; `poll_output`,
//! which says what the caller must now do; and `poll_timeout`, which says when
//! to come back. Time is an argument, jitter is a number passed in, and ids are
//! made by the caller.

pub mod action;
pub mod cost;
pub mod engine;
pub mod estimate;
pub mod event;
pub mod fold;
pub mod id;
pub mod ledger;
pub mod observe;
pub mod policy;
mod recall;
pub mod record;
mod ring;
pub mod schedule;
pub mod tasks;
pub mod time;
pub mod word;
