//! Chance, from one seed: the same seed gives the same world on every machine.
//!
//! SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
//! generators", 2014). Each part of the world has a stream of its own, so that
//! one more question in one place does not change every answer elsewhere.

use rategov_core::engine::Chance;
use rategov_core::time::{Draw, Span};

/// A stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed and a purpose.
    pub fn new(seed: u64, purpose: &str) -> Random {
        let mut random = Random(seed);
        for byte in purpose.bytes() {
            random.0 ^= random.number() ^ u64::from(byte);
        }
        random
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 if there is none.
    pub fn below(&mut self, n: u64) -> u64 {
        match n {
            0 => 0,
            n => ((u128::from(self.number()) * u128::from(n)) >> 64) as u64,
        }
    }

    /// An index of a list of `n`.
    pub fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// One of a list.
    ///
    /// # Panics
    /// If the list is empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.index(list.len())]
    }

    /// Whether something happens that does so `permille` times in a thousand.
    pub fn happens(&mut self, permille: u64) -> bool {
        self.below(1_000) < permille
    }

    /// A span in `[low, high)` milliseconds.
    pub fn millis(&mut self, low: u64, high: u64) -> Span {
        let width = Span::from_millis(high.saturating_sub(low)).as_micros();
        Span::from_millis(low) + Span::from_micros(self.below(width))
    }

    /// What an engine is given for one call. Ids are unique as long as each call
    /// takes fewer than 256 of them.
    pub fn chance(&mut self, serial: u64) -> Chance {
        Chance {
            draw: Draw::from_u32(self.number() as u32),
            id: (1 << 120) + (u128::from(serial) << 8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_repeats_and_another_purpose_is_another_stream() {
        let numbers = |purpose| {
            let mut random = Random::new(7, purpose);
            [random.number(), random.number(), random.number()]
        };
        assert_eq!(numbers("wire"), numbers("wire"));
        assert_ne!(numbers("wire"), numbers("people"));
    }

    #[test]
    fn what_happens_half_of_the_time_does() {
        let mut random = Random::new(1, "coin");
        let heads = (0..10_000).filter(|_| random.happens(500)).count();
        assert!((4_800..5_200).contains(&heads), "{heads}");
        assert!((0..1_000).all(|_| (5..9).contains(&random.millis(5, 9).as_millis())));
    }
}
