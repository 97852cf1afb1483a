//! The gateway: from an agent's request to the provider and back.
//!
//! The lower half, the transport, is written around one question: what is
//! *proved* about a request when something goes wrong? [`upstream`] sends and
//! answers with a value that says so, [`counting`] collects the proof between
//! the HTTP library and TLS, and [`evidence`] is the only file that looks into
//! the errors of libraries. Nothing here repeats a request, follows a
//! redirect, or changes a byte of a body.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that can't go on has failed")
)]

pub mod address;
pub mod answer;
pub mod counting;
pub mod destination;
pub mod detail;
pub mod dial;
pub mod evidence;
pub mod framing;
pub mod headers;
pub mod line;
pub mod outgoing;
pub mod pool;
pub mod spool;
pub mod tls;
pub mod upstream;
