//! What many calls in flight use together: less than the sum of their worst cases.
//!
//! One call in a hundred uses ten times the usual. Reserving that for each would
//! leave most of a quota unused, and reserving the usual would overrun it. Their sum
//! varies less than they do: of independent amounts the means add up, and so do the
//! squares of the deviations.
//!
//! ```text
//! bound  = Σ mean + 2.326 · √( Σ deviation² + (Σ error)² )
//! margin = bound − Σ what the calls reserve themselves
//! ```
//!
//! For n equal calls that is n·μ + z·σ·√n, and (Σ error)² is for the mean itself,
//! which few samples know badly and which is wrong for all n in the same direction.
//! About one time in a hundred the calls use more than the bound.
//!
//! # Example
//! Calls with mean 500, deviation 1,200 and error 20 reserve 300 each, the median.
//!
//! | in flight | reserved | bound | margin | each |
//! |---|---|---|---|---|
//! | 1 | 300 | 3,291 | 2,991 | 3,291 |
//! | 16 | 4,800 | 19,188 | 14,388 | 1,199 |
//! | 100 | 30,000 | 78,295 | 48,295 | 783 |
//!
//! A ledger admits the next call if what is committed, reserved and the margin
//! with it fit the quota. Cost: O(1) for each call that comes or goes.
//!
//! Source: the prediction interval of a sum (textbook); the deviation is that of
//! [`super::figure`].

use super::figure::{Guess, Z_PERMILLE};
use crate::cost::{Cost, Dimension};

/// The dimensions that are estimated; the others are counted.
pub(super) const ESTIMATED: [Dimension; 5] = [
    Dimension::Tokens,
    Dimension::InputTokens,
    Dimension::OutputTokens,
    Dimension::Points,
    Dimension::Spend,
];

/// What one call reserves, and how far that may be off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// To be reserved for the call itself.
    pub cost: Cost,
    /// For its part in a [`Pool`].
    pub(super) guesses: [Guess; ESTIMATED.len()],
}

impl Estimate {
    /// One call that costs what it costs.
    pub fn exactly(cost: Cost) -> Estimate {
        Estimate {
            cost,
            guesses: ESTIMATED.map(|dimension| Guess::exactly(cost.of(dimension))),
        }
    }
}

/// The calls that are in flight in one scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    calls: u64,
    sums: [Sums; ESTIMATED.len()],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    reserved: u64,
    mean: u64,
    error: u64,
    squares: u128,
}

impl Pool {
    /// A call leaves.
    pub fn add(&mut self, estimate: &Estimate) {
        self.calls += 1;
        for (at, sums) in self.sums.iter_mut().enumerate() {
            let guess = estimate.guesses[at];
            sums.reserved += estimate.cost.of(ESTIMATED[at]);
            sums.mean += guess.mean;
            sums.error += guess.error;
            sums.squares += u128::from(guess.deviation).pow(2);
        }
    }

    /// A call has been settled: the one that was added with the same estimate.
    pub fn remove(&mut self, estimate: &Estimate) {
        self.calls = self.calls.saturating_sub(1);
        for (at, sums) in self.sums.iter_mut().enumerate() {
            let guess = estimate.guesses[at];
            let reserved = estimate.cost.of(ESTIMATED[at]);
            sums.reserved = sums.reserved.saturating_sub(reserved);
            sums.mean = sums.mean.saturating_sub(guess.mean);
            sums.error = sums.error.saturating_sub(guess.error);
            sums.squares = sums
                .squares
                .saturating_sub(u128::from(guess.deviation).pow(2));
        }
    }

    /// Calls in flight.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// What they use together, in all but one of a hundred cases. Calls and
    /// concurrency are counted, not estimated: of them it is their number.
    pub fn bound(&self, dimension: Dimension) -> u64 {
        let Some(at) = ESTIMATED.iter().position(|it| *it == dimension) else {
            return self.calls;
        };
        let sums = &self.sums[at];
        let squares = sums.squares + u128::from(sums.error).pow(2);
        let deviation = squares.isqrt() * u128::from(Z_PERMILLE) / 1_000;
        sums.mean
            .saturating_add(u64::try_from(deviation).unwrap_or(u64::MAX))
    }

    /// What must be kept free beside what they reserve themselves.
    pub fn margin(&self, dimension: Dimension) -> u64 {
        match ESTIMATED.iter().position(|it| *it == dimension) {
            Some(at) => self.bound(dimension).saturating_sub(self.sums[at].reserved),
            None => 0,
        }
    }

    /// The margin that there would be with one call more.
    pub fn margin_with(&self, estimate: &Estimate, dimension: Dimension) -> u64 {
        let mut pool = self.clone();
        pool.add(estimate);
        pool.margin(dimension)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn call() -> Estimate {
        let guess = Guess {
            likely: 300,
            mean: 500,
            tail: 3_291,
            deviation: 1_200,
            error: 20,
        };
        Estimate {
            cost: Cost::ONE.with(Dimension::Tokens, 300),
            guesses: [guess; 5],
        }
    }

    #[test]
    fn the_worked_example_holds() {
        let mut pool = Pool::default();
        let mut rows = Vec::new();
        for n in 1..=100 {
            assert_eq!(
                pool.margin_with(&call(), Dimension::Tokens),
                {
                    pool.add(&call());
                    pool.margin(Dimension::Tokens)
                },
                "{n}"
            );
            if [1, 16, 100].contains(&n) {
                let dimension = Dimension::Tokens;
                rows.push((n, pool.bound(dimension), pool.margin(dimension)));
            }
        }
        let expected = [
            (1, 3_291, 2_991),
            (16, 19_188, 14_388),
            (100, 78_295, 48_295),
        ];
        assert_eq!(rows, expected);
        assert_eq!(pool.bound(Dimension::Requests), 100);
        assert_eq!(pool.margin(Dimension::Requests), 0);
    }

    proptest! {
        #[test]
        fn what_came_and_went_leaves_nothing(
            amounts in prop::collection::vec((0u64..1 << 40, 0u64..1 << 34), 1..50),
        ) {
            let estimates: Vec<Estimate> = amounts.iter().map(|(mean, deviation)| Estimate {
                cost: Cost::ONE.with(Dimension::Spend, *mean / 2),
                guesses: [Guess { mean: *mean, deviation: *deviation, ..Guess::default() }; 5],
            }).collect();
            let mut pool = Pool::default();
            estimates.iter().for_each(|estimate| pool.add(estimate));
            for dimension in ESTIMATED {
                prop_assert!(amounts.iter().map(|(mean, _)| mean).sum::<u64>() <= pool.bound(dimension));
            }
            estimates.iter().rev().for_each(|estimate| pool.remove(estimate));
            prop_assert_eq!(pool, Pool::default());
        }
    }
}
