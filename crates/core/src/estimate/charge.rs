//! What a provider counts, and when: the rule that estimate and settlement mirror.
//!
//! | rule | when the call arrives | when it has ended | seen at |
//! |---|---|---|---|
//! | `Actual` | nothing, or a guess of its own | what was used | OpenAI, Anthropic |
//! | `Most` | input + declared most output | stays | Azure OpenAI |
//! | `MostThenRefund` | input + declared most output | what was used | Bedrock, Cerebras |
//!
//! So the same call of 900 tokens in and at most 4,000 out, which will use 250:
//!
//! | rule | reserved | settled |
//! |---|---|---|
//! | `Actual` | 900 + likely output | 1,150 |
//! | `Most` | 4,900 | 4,900 |
//! | `MostThenRefund` | 4,900 | 1,150 |

use crate::cost::{Counted, Dimension};

/// How a provider charges an amount that is known only afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charging {
    /// What was used.
    #[default]
    Actual,
    /// The most that was declared, from the call's arrival, and it stays.
    Most,
    /// The same, until the call has ended; then what was used.
    MostThenRefund,
}

/// Whether input that the provider had in its cache counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CachedInput {
    /// As any other.
    #[default]
    Counted,
    /// Not at all.
    Excluded,
}

/// Whether a call that was refused counts against the limit that refused it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rejects {
    /// It doesn't.
    #[default]
    Free,
    /// It does.
    Counted,
}

/// How a provider charges, in each dimension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// Tokens in and out, in one pool.
    pub tokens: Charging,
    /// Tokens in.
    pub input_tokens: Charging,
    /// Tokens out.
    pub output_tokens: Charging,
    /// The provider's own units.
    pub points: Charging,
    /// Money.
    pub spend: Charging,
    /// Input from the provider's cache.
    pub cached_input: CachedInput,
    /// Refused calls.
    pub rejects: Rejects,
    /// The most output of a call that declares none, where the provider reserves one.
    pub most_undeclared: Option<u64>,
}

impl Charge {
    /// When a dimension is counted. What only the answer tells is held until it has
    /// ended and counts from then on: too long for a provider that counts earlier,
    /// and never too short.
    pub fn counted(&self, dimension: Dimension) -> Counted {
        match (dimension.is_estimated(), self.of(dimension)) {
            (true, Charging::Actual) => Counted::AtEnd,
            (false, _) | (true, Charging::Most | Charging::MostThenRefund) => Counted::AtStart,
        }
    }

    /// The rule of one dimension. Calls cost themselves, whatever comes of them.
    pub fn of(&self, dimension: Dimension) -> Charging {
        match dimension {
            Dimension::Requests | Dimension::Concurrent => Charging::Actual,
            Dimension::Tokens => self.tokens,
            Dimension::InputTokens => self.input_tokens,
            Dimension::OutputTokens => self.output_tokens,
            Dimension::Points => self.points,
            Dimension::Spend => self.spend,
        }
    }
}
