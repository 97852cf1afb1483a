//! What calls cost: the options of what requests and answers tell, and of how a
//! provider charges.

use schemars::JsonSchema;
use serde::Deserialize;

/// What a request says of its cost.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SizingOptions {
    /// What stands there.
    pub what: Option<AskedWord>,
    /// Where, in the order in which they are believed: `$.max_tokens`.
    pub paths: Option<Vec<String>>,
    /// The name of its source.
    pub source: Option<String>,
}

/// What an answer says of its cost.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UsageOptions {
    /// What stands there.
    pub what: Option<ToldWord>,
    /// Where, in the order in which they are believed: `$.usage.output_tokens`.
    pub paths: Option<Vec<String>>,
    /// Members beside each of them, to be added to it.
    pub plus: Option<Vec<String>>,
    /// The name of its source.
    pub source: Option<String>,
}

/// How a provider charges what a call uses.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ChargeOptions {
    /// Tokens in and out, in one pool. Left out: `actual`.
    pub tokens: Option<ChargingWord>,
    /// Tokens in.
    pub input_tokens: Option<ChargingWord>,
    /// Tokens out.
    pub output_tokens: Option<ChargingWord>,
    /// The provider's own units.
    pub points: Option<ChargingWord>,
    /// Money.
    pub spend: Option<ChargingWord>,
    /// Whether input from the provider's cache counts. Left out: `counted`.
    pub cached_input: Option<CountingWord>,
    /// Whether refused calls count. Left out: `excluded`.
    pub rejects: Option<CountingWord>,
    /// The output that is reserved for a call which declares no most.
    pub most_undeclared: Option<u64>,
    /// The name of its source.
    pub source: Option<String>,
}

/// What a request says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AskedWord {
    /// The most tokens out for each choice.
    MostOutput,
    /// How many choices.
    Choices,
    /// Tokens in, counted by the caller.
    InputTokens,
    /// The provider's own units, at most.
    Points,
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToldWord {
    /// Tokens in, those from a cache included.
    Input,
    /// Of these, tokens from a cache.
    CachedInput,
    /// Tokens out.
    Output,
    /// Tokens in and out.
    Total,
    /// The provider's own units.
    Points,
    /// Money.
    Spend,
    /// Generated text, which is counted where no tokens are told.
    Text,
}

/// How an amount is charged that only the answer tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChargingWord {
    /// What was used.
    Actual,
    /// The declared most, and it stays.
    Most,
    /// The declared most until the call has ended, then what was used.
    MostThenRefund,
}

/// Whether something counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CountingWord {
    /// It does.
    Counted,
    /// It does not.
    Excluded,
}

impl AskedWord {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            AskedWord::MostOutput => "most_output",
            AskedWord::Choices => "choices",
            AskedWord::InputTokens => "input_tokens",
            AskedWord::Points => "points",
        }
    }
}

impl ToldWord {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            ToldWord::Input => "input",
            ToldWord::CachedInput => "cached_input",
            ToldWord::Output => "output",
            ToldWord::Total => "total",
            ToldWord::Points => "points",
            ToldWord::Spend => "spend",
            ToldWord::Text => "text",
        }
    }
}

impl ChargingWord {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            ChargingWord::Actual => "actual",
            ChargingWord::Most => "most",
            ChargingWord::MostThenRefund => "most_then_refund",
        }
    }
}

impl CountingWord {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            CountingWord::Counted => "counted",
            CountingWord::Excluded => "excluded",
        }
    }
}
