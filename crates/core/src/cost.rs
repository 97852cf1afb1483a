//! What a call uses up: an amount in each dimension of a quota.

/// What a quota counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// Calls.
    Requests,
    /// Calls that are open at the same time.
    Concurrent,
}

impl Dimension {
    /// The word used in configuration, API and records.
    pub fn word(self) -> &'static str {
        match self {
            Dimension::Requests => "requests",
            Dimension::Concurrent => "concurrent",
        }
    }
}

/// The cost of one call in requests. Every call costs at least one.
///
/// Further dimensions (tokens, points, spend) become further fields; what
/// reads a cost asks for one dimension at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// Calls, at least 1.
    pub requests: u32,
}

impl Cost {
    /// One call.
    pub const ONE: Cost = Cost { requests: 1 };
}
