//! What a call uses up, as an amount in each dimension.
//!
//! Stands here until `crate::cost` has the same types.

/// What a quota counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// Calls.
    Requests,
    /// Tokens in and out.
    Tokens,
    /// Tokens in.
    InputTokens,
    /// Tokens out.
    OutputTokens,
    /// The provider's own units.
    Points,
    /// Money, in millionths of the account's currency.
    Spend,
    /// Calls that are open at the same time.
    Concurrent,
}

/// What one call uses up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost([u64; 6]);

impl Cost {
    /// One call, and nothing else.
    pub const ONE: Cost = Cost([1, 0, 0, 0, 0, 0]);

    /// The amount in one dimension; a call is open once.
    pub fn of(&self, dimension: Dimension) -> u64 {
        match dimension {
            Dimension::Concurrent => 1,
            other => self.0[other as usize],
        }
    }

    /// The same with another amount in one dimension.
    #[must_use]
    pub fn with(mut self, dimension: Dimension, amount: u64) -> Cost {
        if dimension != Dimension::Concurrent {
            self.0[dimension as usize] = amount;
        }
        self
    }
}
