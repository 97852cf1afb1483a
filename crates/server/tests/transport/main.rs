//! The transport against real sockets: what it claims is compared with what a
//! hand-made server saw.
//!
//! Every server here follows a script, one list of steps for each connection
//! it accepts, and counts what arrived. Nothing sleeps to let something happen:
//! tests wait for the server's own reports.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod certainty;
mod faults;
mod heads;
mod pooling;
mod server;
mod stopping;
mod support;
mod tls;
