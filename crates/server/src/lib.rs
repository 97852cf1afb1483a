//! Everything with a socket: the gateway that agents call, the operators'
//! interface, and the driver that owns the engines between them.
//!
//! Decisions are the core's; this crate finds out what happened and does what
//! was decided.

pub mod gateway;
