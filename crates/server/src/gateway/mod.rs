//! The gateway: from an agent's request to the provider and back.

pub mod error_body;
mod error_shapes;
pub mod sse_opening;
