//! What a limit counts, and how much of it a call costs: when it arrives, and
//! once it is over.
//!
//! | dimension | at arrival | once it is over |
//! |---|---|---|
//! | requests | 1 | 1 |
//! | input tokens | what the request holds | the same |
//! | output tokens, charge `actual` | 0 | what was produced |
//! | … `most` | what the request allows at most | the same |
//! | … `most-then-refund` | what the request allows at most | what was produced |
//! | tokens | `actual`: 0; else input and the most output | by the charge, as above |
//! | points | 1 for a read, 5 for a write | the same |
//!
//! Sources: Azure OpenAI and Bedrock charge the most at arrival; Anthropic counts
//! input at arrival and output as it is produced, cached input not at all for most
//! models; gateways such as LiteLLM and Envoy's charge what was used afterwards;
//! GitHub's secondary limits count points (1 for GET, HEAD and OPTIONS, 5 for
//! writes). Example: 500 tokens in, 200 of them cached, at most 4,000 out, 900
//! produced. `most`: 4,500. `most-then-refund` with free cached input: 4,300 at
//! arrival, 1,200 in the end. `actual`: 1,400 in the end.

/// What a limit counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dimension {
    /// Calls.
    #[default]
    Requests,
    /// Input and output together.
    Tokens,
    /// What requests hold.
    InputTokens,
    /// What answers hold.
    OutputTokens,
    /// A price for each method.
    Points,
}

impl Dimension {
    /// Every dimension.
    pub const ALL: [Dimension; 5] = [
        Dimension::Requests,
        Dimension::Tokens,
        Dimension::InputTokens,
        Dimension::OutputTokens,
        Dimension::Points,
    ];

    /// Whether it counts tokens.
    pub const fn is_tokens(self) -> bool {
        !matches!(self, Dimension::Requests | Dimension::Points)
    }

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Dimension::Requests => "requests",
            Dimension::Tokens => "tokens",
            Dimension::InputTokens => "input_tokens",
            Dimension::OutputTokens => "output_tokens",
            Dimension::Points => "points",
        }
    }
}

/// When what an answer costs is charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charge {
    /// What was produced, at the end.
    #[default]
    Actual,
    /// What the request allows at most, at arrival, for good.
    Most,
    /// The same, but at the end what was not produced is given back.
    MostThenRefund,
}

impl Charge {
    /// Every charge.
    pub const ALL: [Charge; 3] = [Charge::Actual, Charge::Most, Charge::MostThenRefund];

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Charge::Actual => "actual",
            Charge::Most => "most",
            Charge::MostThenRefund => "most-then-refund",
        }
    }
}

/// What a limit counts, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// What it counts.
    pub dimension: Dimension,
    /// When output is charged.
    pub charge: Charge,
    /// Whether input that is read from the provider's cache costs nothing.
    pub cached_is_free: bool,
}

/// What the provider knows of a call's size when it arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Tokens in the request.
    pub input: u64,
    /// Those of them that the provider has in its cache.
    pub cached: u64,
    /// Most tokens that the answer may have.
    pub most: u64,
    /// Whether it only reads.
    pub is_read: bool,
    /// Whether a model works for it. Limits on tokens concern no other calls.
    pub is_generation: bool,
}

/// Points of a write.
const POINTS_OF_A_WRITE: u64 = 5;

impl Price {
    /// What a call costs when it arrives.
    pub fn at_arrival(self, load: &Load) -> u64 {
        match (self.dimension, self.charge) {
            (Dimension::Tokens | Dimension::OutputTokens, Charge::Actual) => 0,
            _ => self.cost(load, load.most),
        }
    }

    /// What it costs in the end, if its answer came to `output` tokens.
    pub fn in_the_end(self, load: &Load, output: u64) -> u64 {
        match self.charge {
            Charge::Most => self.cost(load, load.most),
            Charge::Actual | Charge::MostThenRefund => self.cost(load, output),
        }
    }

    fn cost(self, load: &Load, output: u64) -> u64 {
        let input = match self.cached_is_free {
            true => load.input.saturating_sub(load.cached),
            false => load.input,
        };
        match self.dimension {
            Dimension::Requests => 1,
            Dimension::Tokens => input.saturating_add(output),
            Dimension::InputTokens => input,
            Dimension::OutputTokens => output,
            Dimension::Points if load.is_read => 1,
            Dimension::Points => POINTS_OF_A_WRITE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_charge_costs_what_the_example_says() {
        let load = Load {
            input: 500,
            cached: 200,
            most: 4_000,
            is_read: false,
            is_generation: true,
        };
        let price = |dimension, charge, cached_is_free| Price {
            dimension,
            charge,
            cached_is_free,
        };
        let check = |price: Price, arrival, end| {
            let got = (price.at_arrival(&load), price.in_the_end(&load, 900));
            assert_eq!(got, (arrival, end), "{price:?}");
        };
        use {Charge::*, Dimension::*};
        check(price(Tokens, Most, false), 4_500, 4_500);
        check(price(Tokens, MostThenRefund, true), 4_300, 1_200);
        check(price(Tokens, Actual, false), 0, 1_400);
        check(price(InputTokens, Actual, true), 300, 300);
        check(price(OutputTokens, Actual, false), 0, 900);
        check(price(OutputTokens, MostThenRefund, false), 4_000, 900);
        check(price(Requests, Most, false), 1, 1);
        check(price(Points, Actual, false), 5, 5);
    }
}
