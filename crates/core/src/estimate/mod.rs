//! What a call will cost, and what it did cost.
//!
//! Calls are one each, but tokens, points and money are known only afterwards. So a
//! call *reserves* what it is expected to cost before it leaves and *settles* with
//! what its answer reports; the difference goes back, or is a debt.
//!
//! ```text
//! Sizing ─▶ Estimator::estimate ─▶ Estimate { cost, … } ─▶ reserved, and in the Pool
//!                ▲ learns                                       │ the call
//!                └───────── Estimator::settle ◀── Usage ◀───────┘
//!                                   └─▶ Settled { cost, basis }
//! ```
//!
//! What is reserved mirrors how the provider charges ([`charge`]). Where that is
//! the actual use, a call reserves its *median*: half of the calls use less, and a
//! call that will use 300 tokens never waits for room for 30,000. That the sum of
//! those in flight fits all the same is the business of [`pool`], which says what must
//! be kept free beside.
//!
//! # Example
//! An agent's last sixty calls to a model used 0.25 tokens a byte in and, as a
//! median, 300 out. The next one has 8,000 bytes and `max_tokens: 4096`:
//!
//! | dimension | `Actual` | `MostThenRefund` |
//! |---|---|---|
//! | input tokens | 2,000 | 2,000 |
//! | output tokens | 300 | 4,096 |
//! | tokens | 2,300 | 6,096 |
//!
//! It reports 1,950 in and 410 out, and settles with 2,360 tokens under either.

pub mod charge;
pub mod figure;
pub mod kinds;
pub mod pool;
pub mod settle;
pub mod sketch;
pub mod usage;

pub use charge::{CachedInput, Charge, Charging, Rejects};
pub use kinds::{Kind, Level, Quantity, Row};
pub use pool::{Estimate, Pool};
pub use settle::{Basis, Settled};
pub use usage::{MEDIA_BYTES, Seen, Sizing, Usage};

use crate::cost::{Cost, Dimension};
use figure::Guess;
use kinds::{Kinds, SHARE_WHOLE};
use pool::ESTIMATED;
use sketch::VALUE_MAX;

/// The unit of learnt ratios, in bytes.
const KIB: u64 = 1_024;

/// What is learnt of the calls of an account. See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Estimator {
    kinds: Kinds,
}

impl Estimator {
    /// An estimator that knows what was saved ([`Estimator::rows`]).
    pub fn restored(rows: impl IntoIterator<Item = Row>) -> Estimator {
        Estimator {
            kinds: Kinds::of(rows),
        }
    }

    /// What is to be saved: at most [`kinds::KINDS_MAX`] levels with six rows each.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        self.kinds.rows()
    }

    /// What one call reserves.
    pub fn reserve(&self, kind: &Kind, sizing: &Sizing, charge: &Charge) -> Cost {
        self.estimate(kind, sizing, charge).cost
    }

    /// The same, with what a [`Pool`] needs to know of it.
    pub fn estimate(&self, kind: &Kind, sizing: &Sizing, charge: &Charge) -> Estimate {
        let input = self.input(kind, sizing);
        let output = self.output(kind, sizing);
        let most = Guess::exactly(most(sizing, charge, output));
        let charged = |rule, actual: Guess| match rule {
            Charging::Actual => actual,
            Charging::Most | Charging::MostThenRefund => most,
        };
        let of_unit = |declared: Option<u64>, quantity, rule, otherwise| {
            if let Some(declared) = declared {
                return Guess::exactly(declared.min(VALUE_MAX));
            }
            let known = self.kinds.guess(kind, quantity).map(|(guess, _)| guess);
            match (known, rule) {
                (None, _) => Guess::exactly(otherwise),
                (Some(guess), Charging::Actual) => guess,
                (Some(guess), Charging::Most | Charging::MostThenRefund) => {
                    Guess::exactly(guess.tail)
                }
            }
        };
        let guesses = ESTIMATED.map(|dimension| match dimension {
            Dimension::Tokens => match sizing.tokens {
                Some(tokens) => Guess::exactly(tokens.min(VALUE_MAX)),
                None => input.and(charged(charge.tokens, output)),
            },
            Dimension::InputTokens => input,
            Dimension::OutputTokens => charged(charge.output_tokens, output),
            // A provider's own unit is at least one a call.
            Dimension::Points => of_unit(sizing.points, Quantity::Points, charge.points, 1),
            Dimension::Spend => of_unit(sizing.spend, Quantity::Spend, charge.spend, 0),
            Dimension::Requests | Dimension::Concurrent => Guess::default(),
        });
        let mut cost = Cost::ONE.with(Dimension::Requests, sizing.requests.max(1));
        for (dimension, guess) in ESTIMATED.into_iter().zip(&guesses) {
            cost = cost.with(dimension, guess.likely);
        }
        Estimate { cost, guesses }
    }

    /// Tokens in, as they will count.
    fn input(&self, kind: &Kind, sizing: &Sizing) -> Guess {
        if let Some(counted) = sizing.input_counted {
            return Guess::exactly(counted.min(VALUE_MAX));
        }
        let bytes = sizing.prompt_bytes.min(VALUE_MAX);
        match self.kinds.guess(kind, Quantity::Input) {
            Some((guess, _)) => guess.scaled(bytes, KIB),
            // Four bytes a token is English; two is what the densest scripts need.
            None => Guess::untaught(bytes.div_ceil(4), bytes.div_ceil(4), bytes.div_ceil(2)),
        }
    }

    /// Tokens out. Where agents declare a most that fits each call, its share varies
    /// less than the amount does, and tells more; where it is always the same or far
    /// too large, the amount does.
    fn output(&self, kind: &Kind, sizing: &Sizing) -> Guess {
        let choices = sizing.choices.max(1);
        let declared = declared_most(sizing);
        let amount = self.kinds.guess(kind, Quantity::Output);
        let share = declared.and_then(|most| {
            let (guess, spread) = self.kinds.guess(kind, Quantity::Share)?;
            Some((guess.scaled(most, SHARE_WHOLE), spread))
        });
        let guess = match (amount, share) {
            (Some((_, by_amount)), Some((guess, by_share))) if by_share < by_amount => guess,
            (Some((guess, _)), _) => guess.scaled(choices, 1),
            (None, Some((guess, _))) => guess,
            // A paragraph or two, and now and then an essay.
            (None, None) => Guess::untaught(256, 400, 4_096).scaled(choices, 1),
        };
        match declared {
            Some(most) => guess.at_most(most),
            None => guess,
        }
    }
}

/// The most output that a request allows, all its choices together.
fn declared_most(sizing: &Sizing) -> Option<u64> {
    let most = sizing.most_output?;
    Some(most.saturating_mul(sizing.choices.max(1)).min(VALUE_MAX))
}

/// The output that a provider charges which charges the most: what the request
/// declares, else what the provider takes for it, else what is hardly ever exceeded.
fn most(sizing: &Sizing, charge: &Charge, output: Guess) -> u64 {
    let undeclared = charge
        .most_undeclared
        .map(|most| most.saturating_mul(sizing.choices.max(1)).min(VALUE_MAX));
    declared_most(sizing).or(undeclared).unwrap_or(output.tail)
}

#[cfg(test)]
mod tests;
