//! The gateway: from an agent's request to the provider and back.
//!
//! The upper half takes a call in ([`serve`]), hands it to its engine, and runs
//! it ([`run`]) as the engine says. The lower half, the transport, is written
//! around one question: what is *proved* about a request when something goes
//! wrong? [`upstream`] sends and answers with a value that says so, [`counting`]
//! collects the proof between the HTTP library and TLS, and [`evidence`] is the
//! only file that looks into the errors of libraries. Nothing here repeats a
//! request by itself, follows a redirect, or changes a byte of a body.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that can't go on has failed")
)]

pub mod address;
mod admit;
pub mod answer;
mod attempt;
mod body_fields;
pub mod body_path;
pub mod counting;
mod deliver;
pub mod destination;
pub mod detail;
pub mod dial;
pub mod error_body;
mod error_shapes;
pub mod evidence;
pub mod framing;
pub mod headers;
pub mod job;
pub mod line;
mod look;
pub mod meter;
mod metering;
pub mod outgoing;
mod owner;
pub mod policy;
pub mod pool;
pub mod problem;
pub mod purpose;
pub mod reading;
mod refusals;
pub mod reply;
pub mod respond;
pub mod resume;
pub mod run;
pub mod serve;
pub mod spool;
pub mod sse_opening;
pub(crate) mod stream;
mod submit;
pub mod tls;
pub mod understand;
pub mod upstream;
