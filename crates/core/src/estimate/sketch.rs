//! How a quantity is distributed, in a few hundred bytes.
//!
//! A histogram whose buckets grow with their values: each doubling has eight of
//! them, so a value is known to within an eighth, whether it is twenty tokens or
//! two million. Only buckets that hold something are kept.
//!
//! ```text
//! value    0 … 7      8 … 15     16 17 │ 18 19 │ … 31    32 … 35 │ …
//! bucket   0 … 7      8 … 15     16    │ 17    │ … 23    24      │ …
//! ```
//!
//! # Example
//! After 100, 110, 120 and 900 the buckets 36 (96–103), 37 (104–111), 39 (120–127)
//! and 62 (896–959) hold one each. The median is the third of four, as if a fifth
//! were coming: bucket 39, half-way through it, 124.
//!
//! # Ageing
//! What was learnt long ago counts less: when [`SAMPLES_MAX`] are held, every
//! count is halved. A half that is left over goes to the next bucket, so the ends,
//! which hold one sample here and there, keep their weight; rounding them down
//! would forget the tail, rounding them up would never forget anything.
//!
//! Bounds: 256 buckets of four bytes. Cost: O(buckets held), in practice under 60.
//!
//! Source: the log-linear buckets of HdrHistogram (Tene); the bound on the relative
//! error is that of DDSketch (Masson, Rim, Lee, VLDB 2019).

/// Samples that are held; beyond them all counts are halved.
pub const SAMPLES_MAX: u32 = 1_024;
/// Buckets in one doubling, and values that have a bucket each.
const STEPS: u64 = 8;
/// Largest value that is told apart; more counts as this.
pub const VALUE_MAX: u64 = (1 << 34) - 1;

/// A distribution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch {
    /// Bucket and count, by bucket; no count is zero.
    held: Vec<(u8, u16)>,
    samples: u32,
}

/// The bucket of a value.
fn bucket(value: u64) -> u8 {
    let value = value.min(VALUE_MAX);
    if value < STEPS {
        return value as u8;
    }
    let exponent = u64::from(value.ilog2());
    let step = (value >> (exponent - 3)) & (STEPS - 1);
    ((exponent - 2) * STEPS + step) as u8
}

/// The least value of a bucket, and how many it has.
fn values_of(bucket: u8) -> (u64, u64) {
    let bucket = u64::from(bucket);
    if bucket < STEPS {
        return (bucket, 1);
    }
    let shift = bucket / STEPS - 1;
    ((STEPS + bucket % STEPS) << shift, 1 << shift)
}

impl Sketch {
    /// A distribution that was saved. Counts beyond the bound are left out.
    pub fn of(mut held: Vec<(u8, u16)>) -> Sketch {
        held.sort_by_key(|(bucket, _)| *bucket);
        held.dedup_by_key(|(bucket, _)| *bucket);
        let mut samples: u32 = 0;
        held.retain(|(_, count)| {
            let fits = 0 < *count && samples + u32::from(*count) < SAMPLES_MAX;
            samples += if fits { u32::from(*count) } else { 0 };
            fits
        });
        Sketch { held, samples }
    }

    /// What is to be saved: buckets and their counts.
    pub fn held(&self) -> &[(u8, u16)] {
        &self.held
    }

    /// Samples held.
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Takes a sample in; whether all counts were halved.
    pub fn add(&mut self, value: u64) -> bool {
        let bucket = bucket(value);
        match self.held.binary_search_by_key(&bucket, |(it, _)| *it) {
            Ok(at) => self.held[at].1 += 1,
            Err(at) => self.held.insert(at, (bucket, 1)),
        }
        self.samples += 1;
        let is_full = SAMPLES_MAX <= self.samples;
        if is_full {
            self.halve();
        }
        is_full
    }

    fn halve(&mut self) {
        let mut left = 0;
        for (_, count) in &mut self.held {
            let whole = *count + left;
            left = whole % 2;
            *count = whole / 2;
        }
        self.held.retain(|(_, count)| 0 < *count);
        self.samples = self.held.iter().map(|(_, count)| u32::from(*count)).sum();
    }

    /// The value below which a share of the samples lies, in thousandths; 0 without any.
    pub fn quantile(&self, permille: u32) -> u64 {
        let (bucket, before, count) = self.ranked(permille);
        let (least, width) = values_of(bucket);
        let rank = self.rank(permille).saturating_sub(before).max(1);
        // The samples of a bucket lie evenly in it, as far as anybody knows.
        least + width * u64::from(2 * rank - 1) / u64::from(2 * count.max(1))
    }

    /// The greatest value of the bucket `further` steps beyond that of a quantile.
    pub fn beyond(&self, permille: u32, further: u8) -> u64 {
        let (bucket, _, _) = self.ranked(permille);
        let (least, width) = values_of(bucket.saturating_add(further));
        least + width - 1
    }

    /// How many steps lie between two quantiles: eight are a doubling.
    pub fn steps_between(&self, lower: u32, upper: u32) -> u8 {
        let (upper, _, _) = self.ranked(upper);
        upper.saturating_sub(self.ranked(lower).0)
    }

    /// Which of the samples, counted from 1, a quantile is: as if one more were
    /// coming, which may be larger than all of them.
    fn rank(&self, permille: u32) -> u32 {
        let rank = (permille * (self.samples + 1)).div_ceil(1_000);
        rank.clamp(1, self.samples.max(1))
    }

    /// The bucket of a quantile, the samples below that bucket and those in it.
    fn ranked(&self, permille: u32) -> (u8, u32, u32) {
        let rank = self.rank(permille);
        let mut before = 0;
        for (bucket, count) in &self.held {
            let count = u32::from(*count);
            if rank <= before + count {
                return (*bucket, before, count);
            }
            before += count;
        }
        (0, 0, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Sketch {
        let mut sketch = Sketch::default();
        for value in values {
            sketch.add(value);
        }
        sketch
    }

    #[test]
    fn the_worked_example_holds() {
        let sketch = of([100, 110, 120, 900]);
        assert_eq!(sketch.held(), [(36, 1), (37, 1), (39, 1), (62, 1)]);
        assert_eq!(sketch.quantile(500), 124);
        assert_eq!(sketch.quantile(200), 100);
        assert_eq!(sketch.beyond(990, 0), 959);
        assert_eq!(Sketch::default().quantile(500), 0);
    }

    #[test]
    fn ageing_follows_a_change_and_keeps_the_tail_in_proportion() {
        let mut sketch = of((0..1_000).map(|n| if n % 50 == 0 { 80_000 + 9_000 * n } else { 100 }));
        let rare = |sketch: &Sketch| {
            let beyond = sketch.held().iter().filter(|(bucket, _)| 100 < *bucket);
            beyond.map(|(_, count)| u32::from(*count)).sum::<u32>()
        };
        assert_eq!(rare(&sketch), 20);
        sketch.halve();
        assert_eq!((sketch.samples(), rare(&sketch)), (500, 10));
        for _ in 0..3_000 {
            sketch.add(5_000);
        }
        assert!((4_608..5_120).contains(&sketch.quantile(500)));
        assert!(sketch.samples() < SAMPLES_MAX);
    }

    #[test]
    fn what_was_saved_is_the_same_and_nonsense_is_bounded() {
        let sketch = of((1..600).map(|n| n * n));
        assert_eq!(Sketch::of(sketch.held().to_vec()), sketch);
        let absurd = Sketch::of(vec![(9, u16::MAX), (3, 5), (3, 9), (4, 0)]);
        assert_eq!((absurd.held(), absurd.samples()), (&[(3, 5)][..], 5));
    }

    proptest! {
        #[test]
        fn every_value_lies_in_its_bucket_which_is_an_eighth_wide(value in any::<u64>()) {
            let (least, width) = values_of(bucket(value));
            let value = value.min(VALUE_MAX);
            prop_assert!(least <= value && value < least + width);
            prop_assert!(width == 1 || width * STEPS <= least);
        }

        #[test]
        fn a_quantile_is_within_an_eighth_of_the_sample_it_stands_for(
            mut values in prop::collection::vec(0u64..1 << 30, 1..200),
            permille in 1u32..1_000,
        ) {
            let sketch = of(values.iter().copied());
            values.sort_unstable();
            let exact = values[sketch.rank(permille) as usize - 1];
            let found = sketch.quantile(permille);
            prop_assert!(found.abs_diff(exact) <= exact / STEPS + 1, "{found} for {exact}");
        }
    }
}
