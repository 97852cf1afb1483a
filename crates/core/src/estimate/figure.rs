//! One learnt quantity: what it is likely to be, and how wrong that can be.
//!
//! Three numbers answer three questions:
//!
//! | number | question |
//! |---|---|
//! | [`Guess::likely`] | what will one call use? The median: half use less |
//! | [`Guess::mean`] | what do many use each? |
//! | [`Guess::deviation`] | how far off can the sum of some be? See [`super::pool`] |
//!
//! # The tail
//! Token counts have heavy tails: with a coefficient of variation of 3 the largest
//! of a hundred is eleven times the mean, and the deviation that fifty samples show is
//! mostly too small. So the deviation is not the samples' own alone, but at least
//! what makes the bound of a single call its 99 % quantile:
//!
//! ```text
//! deviation = max(standard deviation, (tail − mean) / 2.326)
//! ```
//!
//! The tail is the 99 % quantile, moved outward by a part of its distance from the
//! median, in steps of [`super::sketch`] (which are equal ratios): few samples
//! seldom include what one in a hundred reaches.
//!
//! | samples | below 50 | below 100 | below 300 | more |
//! |---|---|---|---|---|
//! | further by | 1/2 | 1/3 | 1/8 | 1/16 |
//!
//! # Example
//! 60 samples, median 300, the largest 2,400: three doublings, 24 steps. The tail is
//! 8 steps further, at 4,800 (5,119 with its bucket). With a mean of 500 the
//! deviation is (5,119 − 500) / 2.326 = 1,985, whatever the samples' own is.
//!
//! Source: conformal prediction for the rank (Vovk, Gammerman, Shafer 2005, §2); the
//! fractions are ours, from simulated log-normal use with a coefficient of variation
//! from 0.3 to 3 (the test `bounds` repeats it).

use super::sketch::{SAMPLES_MAX, Sketch, VALUE_MAX};

/// The 99 % quantile of the normal distribution, in thousandths.
pub(super) const Z_PERMILLE: u64 = 2_326;
/// Fewer samples say too little.
pub(super) const SAMPLES_MIN: u32 = 10;

/// What a quantity is taken to be for one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guess {
    /// The median.
    pub likely: u64,
    /// The mean.
    pub mean: u64,
    /// The most that is expected: about one in a hundred uses more.
    pub tail: u64,
    /// How far one call's use lies from the mean.
    pub deviation: u64,
    /// How far the mean itself may be off, for all calls in the same direction.
    pub error: u64,
}

impl Guess {
    /// A quantity that is known.
    pub fn exactly(amount: u64) -> Guess {
        Guess {
            likely: amount,
            mean: amount,
            tail: amount,
            deviation: 0,
            error: 0,
        }
    }

    /// A quantity of which nothing is known but a usual and an unusual amount.
    pub fn untaught(likely: u64, mean: u64, tail: u64) -> Guess {
        let deviation = deviation_to(mean, tail);
        Guess {
            likely,
            mean,
            tail,
            deviation,
            error: deviation / 3,
        }
    }

    /// The same for `parts` parts out of a whole of `of`.
    pub fn scaled(self, parts: u64, of: u64) -> Guess {
        let scale = |amount: u64| {
            let exact = u128::from(amount) * u128::from(parts) / u128::from(of.max(1));
            u64::try_from(exact).unwrap_or(u64::MAX).min(VALUE_MAX)
        };
        Guess {
            likely: scale(self.likely),
            mean: scale(self.mean),
            tail: scale(self.tail),
            deviation: scale(self.deviation),
            error: scale(self.error),
        }
    }

    /// The same where more than `most` is impossible. A quantity between 0 and `most`
    /// has no larger deviation than half of it; the bound of one call stays within it.
    pub fn at_most(self, most: u64) -> Guess {
        let (mean, tail) = (self.mean.min(most), self.tail.min(most));
        Guess {
            likely: self.likely.min(most),
            mean,
            tail,
            deviation: self.deviation.min(deviation_to(mean, most)),
            error: self.error.min(most - mean),
        }
    }

    /// Two quantities together, independent of each other.
    pub fn and(self, other: Guess) -> Guess {
        let together = |a: u64, b: u64| {
            let squares = u128::from(a).pow(2) + u128::from(b).pow(2);
            u64::try_from(squares.isqrt()).unwrap_or(u64::MAX)
        };
        Guess {
            likely: self.likely + other.likely,
            mean: self.mean + other.mean,
            tail: self.tail + other.tail,
            deviation: together(self.deviation, other.deviation),
            error: self.error + other.error,
        }
    }
}

/// The deviation that puts the bound of one call at `tail`.
fn deviation_to(mean: u64, tail: u64) -> u64 {
    tail.saturating_sub(mean) * 1_000 / Z_PERMILLE
}

/// A quantity and what was learnt of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figure {
    sketch: Sketch,
    sum: u64,
    squares: u128,
}

impl Figure {
    /// What was saved.
    pub fn of(sketch: Sketch, sum: u64, squares: u128) -> Figure {
        let most = u64::from(SAMPLES_MAX) * VALUE_MAX;
        Figure {
            sketch,
            sum: sum.min(most),
            squares: squares.min(u128::from(most) * u128::from(VALUE_MAX)),
        }
    }

    /// What is to be saved: the distribution, the sum and the sum of the squares.
    pub fn parts(&self) -> (&Sketch, u64, u128) {
        (&self.sketch, self.sum, self.squares)
    }

    /// Takes in what a call used.
    pub fn add(&mut self, amount: u64) {
        let amount = amount.min(VALUE_MAX);
        self.sum += amount;
        self.squares += u128::from(amount).pow(2);
        if self.sketch.add(amount) {
            self.sum /= 2;
            self.squares /= 2;
        }
    }

    /// Whether it has been told enough to be asked.
    pub fn is_taught(&self) -> bool {
        SAMPLES_MIN <= self.sketch.samples()
    }

    /// How widely it varies: steps of an eighth of a doubling between what one in
    /// ten and what nine in ten stay below.
    pub fn spread(&self) -> u8 {
        self.sketch.steps_between(100, 900)
    }

    /// What the next call will use; `None` until enough is known.
    pub fn guess(&self) -> Option<Guess> {
        if !self.is_taught() {
            return None;
        }
        let samples = u64::from(self.sketch.samples());
        let mean = self.sum.div_ceil(samples);
        let square = u128::from(self.sum / samples).pow(2);
        let variance = (self.squares / u128::from(samples)).saturating_sub(square);
        let own = u64::try_from(variance.isqrt()).unwrap_or(u64::MAX);
        let distance = self.sketch.steps_between(500, 990);
        let further = match samples {
            0..50 => distance.div_ceil(2),
            50..100 => distance.div_ceil(3),
            100..300 => distance.div_ceil(8),
            300.. => distance.div_ceil(16),
        };
        let tail = self.sketch.beyond(990, further).max(mean);
        let deviation = own.max(deviation_to(mean, tail));
        Some(Guess {
            likely: self.sketch.quantile(500),
            mean,
            tail,
            deviation,
            error: (deviation / samples.isqrt()).max(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Figure {
        let mut figure = Figure::default();
        values.into_iter().for_each(|value| figure.add(value));
        figure
    }

    #[test]
    fn the_worked_example_holds() {
        // 57 calls around 300, and three of 2,400 that bring the mean to about 400.
        let figure = of((0..57).map(|n| 290 + n % 20).chain([2_400, 2_400, 2_400]));
        let guess = figure.guess().unwrap();
        assert!((288..320).contains(&guess.likely), "{guess:?}");
        assert_eq!(guess.tail, 5_119);
        assert_eq!(guess.deviation, (5_119 - guess.mean) * 1_000 / 2_326);
    }

    #[test]
    fn nothing_is_said_before_enough_is_known() {
        assert_eq!(of([5; 9]).guess(), None);
        assert_eq!(of([5; 10]).guess().map(|guess| guess.likely), Some(5));
    }

    #[test]
    fn what_is_always_the_same_is_known_nearly_exactly() {
        let guess = of([1_000; 200]).guess().unwrap();
        assert_eq!(guess.mean, 1_000);
        assert!(guess.likely.abs_diff(1_000) <= 125, "{guess:?}");
        assert!(guess.deviation <= 20 && guess.error <= 2, "{guess:?}");
    }

    #[test]
    fn a_declared_most_bounds_all_of_a_guess() {
        let guess = Guess::untaught(400, 600, 9_000).at_most(500);
        assert_eq!((guess.likely, guess.mean, guess.tail), (400, 500, 500));
        assert_eq!((guess.deviation, guess.error), (0, 0));
    }

    #[test]
    fn ageing_keeps_the_mean() {
        let figure = of((0..5_000).map(|n| 100 + n % 100));
        let guess = figure.guess().unwrap();
        assert!((145..155).contains(&guess.mean), "{guess:?}");
    }

    #[test]
    fn no_amount_overflows() {
        let guess = of([u64::MAX; 3_000]).guess().unwrap();
        let more = guess.scaled(u64::MAX, 1);
        assert!(guess.mean <= VALUE_MAX && more.likely <= VALUE_MAX);
        assert!(more.and(more).tail <= 4 * VALUE_MAX);
    }
}
