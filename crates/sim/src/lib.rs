//! The simulated world of Rate Governor, and the provider that tests believe.
//!
//! [`provider`] is an API as a value: limits, records, faults, and its own
//! count of arrivals and effects, in virtual time. [`fake_provider`] puts the
//! same value behind real sockets. Neither shares window code with the core.

pub mod fake_provider;
pub mod provider;
