//! Percentiles of measured times: all samples are kept, none is rounded into a bucket.

use std::time::Duration;

/// Times that were measured one by one.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    nanos: Vec<u64>,
}

impl Sample {
    /// Adds one time.
    pub fn add(&mut self, time: Duration) {
        self.nanos
            .push(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds all times of another sample.
    pub fn extend(&mut self, other: &Sample) {
        self.nanos.extend_from_slice(&other.nanos);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.nanos.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nanos.is_empty()
    }

    /// The time that `permille` of the samples do not exceed (nearest rank);
    /// `None` without samples. Sorts: O(n log n).
    pub fn quantile(&self, permille: u32) -> Option<Duration> {
        let mut sorted = self.nanos.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * permille as usize).div_ceil(1_000).max(1);
        sorted.get(rank - 1).copied().map(Duration::from_nanos)
    }
}

/// The middle of several figures; of an even number the lower of the two. 0 without any.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
        .get(sorted.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(millis: &[u64], permille: u32, expected: u64) {
        let mut sample = Sample::default();
        for each in millis {
            sample.add(Duration::from_millis(*each));
        }
        assert_eq!(
            sample.quantile(permille),
            Some(Duration::from_millis(expected))
        );
    }

    #[test]
    fn a_quantile_is_a_time_that_was_measured() {
        check(&[5], 500, 5);
        check(&[4, 1, 3, 2], 500, 2);
        check(&[4, 1, 3, 2], 501, 3);
        check(&[4, 1, 3, 2], 1_000, 4);
        check(&[4, 1, 3, 2], 0, 1);
        assert_eq!(Sample::default().quantile(500), None);
    }

    #[test]
    fn the_median_of_an_even_number_is_the_lower_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]).to_bits(), 2.0_f64.to_bits());
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]).to_bits(), 2.0_f64.to_bits());
        assert_eq!(median(&[]).to_bits(), 0.0_f64.to_bits());
    }
}
