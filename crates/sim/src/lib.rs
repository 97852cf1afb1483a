//! The simulated world of Rate Governor, and the provider that tests believe.
//!
//! [`provider`] is an API as a value: limits, records, faults, and its own
//! count of arrivals and effects, in virtual time. [`fake_provider`] puts the
//! same value behind real sockets. Neither shares window code with the core.
//!
//! [`world`] is a whole governor around such providers, in virtual time, with
//! [`agents`] and [`people`]; [`check`] says what must hold in it, and [`seeds`]
//! runs it. [`judge`] is the real engine against every kind of limit.

pub mod agents;
pub mod check;
pub mod fake_provider;
pub mod judge;
pub mod people;
pub mod provider;
pub mod seeds;
pub mod world;
