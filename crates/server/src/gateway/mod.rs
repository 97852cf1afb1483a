//! The gateway: from an agent's request to the provider and back.

pub mod error_body;
pub mod sse_opening;
