//! What a call uses up: an amount in each dimension of a quota.
//!
//! A cost is a vector. Each limit counts one dimension of it and takes no notice
//! of the others; a call goes only if every limit of every scope has room for
//! its own part. Example: one chat call of 900 tokens of prompt that may produce
//! 400 is `requests 1, tokens 1,300, input_tokens 900, output_tokens 400`; a
//! quota of tokens per minute reads 1,300, one of calls per minute reads 1.

use std::fmt;

/// What a quota counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// Calls.
    Requests,
    /// Tokens of question and answer together.
    Tokens,
    /// Tokens of the question.
    InputTokens,
    /// Tokens of the answer.
    OutputTokens,
    /// Points, as a provider weighs its calls: query cost, resource units.
    Points,
    /// Money, in millionths of the account's currency.
    Spend,
    /// Calls that are open at the same time.
    Concurrent,
}

/// When a provider counts what a call uses of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counted {
    /// When the call arrives, by what it might use at most.
    AtStart,
    /// Once it is known, which is when the answer has ended at the latest.
    AtEnd,
}

impl Dimension {
    /// Every dimension of which a call uses an amount, in the order of [`Cost`].
    /// Calls that are open are counted by themselves.
    pub const AMOUNTS: [Dimension; AMOUNTS] = [
        Dimension::Requests,
        Dimension::Tokens,
        Dimension::InputTokens,
        Dimension::OutputTokens,
        Dimension::Points,
        Dimension::Spend,
    ];

    /// The word used in configuration, API and records.
    pub const fn word(self) -> &'static str {
        match self {
            Dimension::Requests => "requests",
            Dimension::Tokens => "tokens",
            Dimension::InputTokens => "input_tokens",
            Dimension::OutputTokens => "output_tokens",
            Dimension::Points => "points",
            Dimension::Spend => "spend",
            Dimension::Concurrent => "concurrent",
        }
    }

    /// The dimension of a word; `None` for any other text.
    pub fn parse(word: &str) -> Option<Dimension> {
        Dimension::AMOUNTS
            .into_iter()
            .chain([Dimension::Concurrent])
            .find(|dimension| dimension.word() == word)
    }

    /// Whether what was reserved may turn out wrong: only a call is always one call.
    pub const fn is_estimated(self) -> bool {
        !matches!(self, Dimension::Requests | Dimension::Concurrent)
    }

    /// Its place in a [`Cost`]; calls that are open have none.
    const fn place(self) -> Option<usize> {
        match self {
            Dimension::Requests => Some(0),
            Dimension::Tokens => Some(1),
            Dimension::InputTokens => Some(2),
            Dimension::OutputTokens => Some(3),
            Dimension::Points => Some(4),
            Dimension::Spend => Some(5),
            Dimension::Concurrent => None,
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Dimensions of which a call uses an amount.
const AMOUNTS: usize = 6;

/// The largest amount of one call: a million millions of tokens, or a million of the
/// currency. Sums of them fit for as long as anybody will run this.
const AMOUNT_MAX: u64 = 1 << 40;

/// An amount in each dimension, nought included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Amounts([u64; AMOUNTS]);

impl Amounts {
    /// The amount in one dimension.
    pub(crate) const fn of(&self, dimension: Dimension) -> u64 {
        match dimension.place() {
            Some(place) => self.0[place],
            None => 0,
        }
    }

    /// Sets the amount in one dimension.
    pub(crate) const fn set(&mut self, dimension: Dimension, amount: u64) {
        if let Some(place) = dimension.place() {
            self.0[place] = amount;
        }
    }

    /// The dimensions with an amount above nought.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Dimension, u64)> + '_ {
        Dimension::AMOUNTS
            .into_iter()
            .zip(self.0)
            .filter(|(_, amount)| 0 < *amount)
    }
}

/// What one call costs, an amount in each of [`Dimension::AMOUNTS`]. Every call
/// costs at least one request. Amounts saturate at 2⁴⁰.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost {
    amounts: Amounts,
}

impl Default for Cost {
    fn default() -> Cost {
        Cost::ONE
    }
}

impl Cost {
    /// One call, and nothing else that is limited.
    pub const ONE: Cost = Cost::requests(1);

    /// So many calls, at least one, and nothing else that is limited.
    pub const fn requests(calls: u32) -> Cost {
        let mut amounts = [0; AMOUNTS];
        amounts[0] = if calls == 0 { 1 } else { calls as u64 };
        Cost {
            amounts: Amounts(amounts),
        }
    }

    /// The amount in one dimension; nought of open calls.
    pub const fn of(&self, dimension: Dimension) -> u64 {
        self.amounts.of(dimension)
    }

    /// The same with another amount in one dimension. Requests stay at least one.
    #[must_use]
    pub const fn with(mut self, dimension: Dimension, amount: u64) -> Cost {
        let is_call = matches!(dimension, Dimension::Requests);
        let amount = if is_call && amount == 0 { 1 } else { amount };
        let amount = if AMOUNT_MAX < amount {
            AMOUNT_MAX
        } else {
            amount
        };
        self.amounts.set(dimension, amount);
        self
    }

    /// The calls, as a number that fits wherever calls are counted.
    pub fn calls(&self) -> u32 {
        u32::try_from(self.of(Dimension::Requests)).unwrap_or(u32::MAX)
    }

    /// The dimensions of which it uses anything, with the amounts.
    pub fn iter(&self) -> impl Iterator<Item = (Dimension, u64)> + '_ {
        self.amounts.iter()
    }

    /// The amounts, to be changed one by one.
    pub(crate) const fn amounts(&self) -> Amounts {
        self.amounts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_amount_has_its_own_place() {
        let mut cost = Cost::ONE;
        for (n, dimension) in (2..).zip(Dimension::AMOUNTS) {
            cost = cost.with(dimension, n);
        }
        let amounts: Vec<u64> = cost.iter().map(|(_, amount)| amount).collect();
        assert_eq!(amounts, [2, 3, 4, 5, 6, 7]);
        assert_eq!(cost.of(Dimension::Concurrent), 0);
    }

    #[test]
    fn a_word_and_its_dimension_are_one() {
        for dimension in Dimension::AMOUNTS
            .into_iter()
            .chain([Dimension::Concurrent])
        {
            assert_eq!(Dimension::parse(dimension.word()), Some(dimension));
        }
        assert_eq!(Dimension::parse("tokens "), None);
    }

    #[test]
    fn a_call_is_at_least_one_request_and_at_most_what_is_counted() {
        assert_eq!(Cost::requests(0), Cost::ONE);
        assert_eq!(Cost::ONE.with(Dimension::Requests, 0), Cost::ONE);
        assert_eq!(
            Cost::ONE.with(Dimension::Requests, u64::MAX).calls(),
            u32::MAX
        );
    }
}
