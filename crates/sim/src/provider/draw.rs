//! Pseudo-random numbers of the provider: the same seed, arrival and purpose
//! give the same number on every machine, in whatever order they are asked.
//!
//! One round of SplitMix64 (Steele, Lea and Flood, "Fast splittable
//! pseudorandom number generators", 2014) over seed, purpose and index. Worked
//! example: seed 7, purpose `Service`, arrival 1, range 200–600 ms always gives
//! the same service time; arrival 2 another, whatever happened to arrival 1.

use rategov_core::time::{Draw, Span};

/// What a number is drawn for; two purposes never share a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// How long the provider works on a call.
    Service = 1,
    /// The words of a generated text.
    Words = 2,
    /// How long a generated text is.
    Length = 3,
}

/// The seed of a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// The number of `purpose` at `index`.
    pub fn number(self, purpose: Purpose, index: u64) -> u64 {
        let mixed = mix(self.0 ^ mix(purpose as u64));
        mix(mixed.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// A span uniform in `[low, high)`; `low` if the interval is empty.
    pub fn span(self, purpose: Purpose, index: u64, low: Span, high: Span) -> Span {
        Draw::from_u32((self.number(purpose, index) >> 32) as u32).between(low, high)
    }
}

fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_fill_their_range_evenly_and_repeat() {
        let (low, high) = (Span::from_millis(200), Span::from_millis(600));
        let seed = Seed(7);
        let spans: Vec<Span> = (0..4_000)
            .map(|n| seed.span(Purpose::Service, n, low, high))
            .collect();
        assert!(spans.iter().all(|s| low <= *s && *s < high));
        let mean = spans.iter().map(|s| s.as_micros()).sum::<u64>() / 4_000;
        assert!((390_000..410_000).contains(&mean), "mean {mean} us");
        assert_eq!(spans[17], seed.span(Purpose::Service, 17, low, high));
        assert_ne!(spans[17], Seed(8).span(Purpose::Service, 17, low, high));
    }
}
