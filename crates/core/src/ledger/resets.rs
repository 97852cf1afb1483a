//! What the resets of a limit tell of its window and shape.
//!
//! **A window that is not named** is concluded from the resets. A window that
//! starts anew is as long as the longest reset seen. A bucket's reset grows with
//! what is used: limit 5,000, 1 used, reset 12 ms, and later 50 used, reset
//! 600 ms; several such readings in a row give the window, 600 ms · 5,000 / 50 = 60 s.
//! A part of a unit may be left that is not told, so of alike readings the longest
//! counts.
//! Where a provider is known to say when its bucket is full again, the first
//! reading gives it, and the first two that contradict each other take it back: some
//! servers use the names of one provider and the counting of another.
//!
//! Where the window is documented, resets that are several times none of a bucket's
//! prove that it is none.

use super::headers::Word;
use crate::time::Span;

/// So many readings in a row prove that resets grow with what is used.
const REFILLS_FROM: u32 = 4;
/// Resets that are told in whole seconds are off by so much, with the way.
const WHOLE_SECONDS: Span = Span::from_secs(2);

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Resets {
    /// The reading of least use, for the shape: units used, reset.
    least: Option<(u64, Span)>,
    /// Readings in a row whose resets grew with what is used.
    agreed: u32,
    /// Whether the resets were seen not to grow with what is used.
    disproved: bool,
    /// Readings in a row whose resets are none of a documented bucket's.
    refuted: u32,
    /// The most use that a bucket's window was concluded from.
    most: u64,
}

impl Resets {
    /// Takes a reading in whose window is not named. Returns the window as far
    /// as it is known by now.
    pub(super) fn infer_window(&mut self, known: Span, limit: u64, word: &Word) -> Span {
        let (Some(remaining), Some(reset)) = (word.remaining, word.reset_after) else {
            return known;
        };
        let used = limit.saturating_sub(remaining);
        if used == 0 || reset.is_zero() {
            return known;
        }
        if word.refills && self.least.is_none() && !self.disproved {
            self.agreed = REFILLS_FROM;
        }
        let refilled = self.refills();
        match self.least {
            Some((least, at_least)) if least.saturating_mul(2) <= used => {
                let expected = at_least.scale(used, least);
                let off = expected
                    .saturating_sub(reset)
                    .max(reset.saturating_sub(expected));
                if off <= expected.scale(1, 4) {
                    self.agreed = self.agreed.saturating_add(1);
                } else {
                    self.agreed = 0;
                    self.disproved = true;
                    self.least = Some((used, reset));
                }
            }
            Some((least, _)) if least <= used => {}
            _ => self.least = Some((used, reset)),
        }
        match (refilled, self.refills()) {
            // The more is used, the less rounding and the way matter.
            (true, true) if used < self.most - self.most / 10 => known,
            (_, true) => {
                // What is left is told in whole units, so up to one less is used, and
                // what follows is too short by that much: the longest is nearest.
                let least = reset.scale(limit, used);
                let is_alike = refilled && used <= self.most + self.most / 10;
                self.most = self.most.max(used);
                if is_alike { known.max(least) } else { least }
            }
            // It was no bucket after all: what was concluded from it is void.
            (true, false) => reset,
            (false, false) => known.max(reset),
        }
    }

    /// Whether a bucket of a documented window tells resets, several in a row, that
    /// are none of a bucket's: there `used` units are back after `used · W / limit`.
    pub(super) fn refutes_bucket(&mut self, limit: u64, window: Span, word: &Word) -> bool {
        let (Some(remaining), Some(reset)) = (word.remaining, word.reset_after) else {
            return false;
        };
        let expected = window.scale(limit.saturating_sub(remaining), limit.max(1));
        let off = expected
            .saturating_sub(reset)
            .max(reset.saturating_sub(expected));
        if off <= expected.scale(1, 4).max(WHOLE_SECONDS) {
            self.refuted = 0;
        } else {
            self.refuted = self.refuted.saturating_add(1);
        }
        REFILLS_FROM <= self.refuted
    }

    /// Whether more comes back evenly, so that "nothing left" is over at once.
    pub(super) fn refills(&self) -> bool {
        REFILLS_FROM <= self.agreed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Moment;

    fn word(remaining: u64, reset_ms: u64) -> Word {
        Word {
            sent_at: Moment::START,
            mark: 0,
            remaining: Some(remaining),
            reset_after: Some(Span::from_millis(reset_ms)),
            refills: false,
        }
    }

    fn check_window(readings: &[(u64, u64)], limit: u64, expected_ms: u64, refills: bool) {
        let mut resets = Resets::default();
        let window = readings
            .iter()
            .fold(Span::ZERO, |known, (remaining, reset)| {
                resets.infer_window(known, limit, &word(*remaining, *reset))
            });
        assert_eq!(
            (window.as_millis(), resets.refills()),
            (expected_ms, refills)
        );
    }

    #[test]
    fn the_longest_reset_is_the_window_unless_resets_grow_with_use() {
        check_window(
            &[(4_999, 3_600_000), (4_000, 3_500_000)],
            5_000,
            3_600_000,
            false,
        );
        check_window(&[(20, 3_000), (59, 10_000), (0, 4_000)], 60, 10_000, false);
        let bucket = [
            (4_999, 12),
            (4_990, 120),
            (4_980, 240),
            (4_960, 480),
            (4_950, 600),
        ];
        check_window(&bucket, 5_000, 60_000, true);
        check_window(&bucket[..4], 5_000, 480, false);
        let no_bucket = [&bucket[..], &[(4_900, 30)]].concat();
        check_window(&no_bucket, 5_000, 30, false);
        check_window(&[(0, 1_200)], 60, 1_200, false);
    }

    #[test]
    fn a_documented_bucket_is_refuted_by_resets_that_do_not_grow_with_use() {
        let minute = Span::from_secs(60);
        let refuted = |readings: &[(u64, u64)]| {
            let mut resets = Resets::default();
            readings.iter().any(|(remaining, reset_ms)| {
                resets.refutes_bucket(600, minute, &word(*remaining, *reset_ms))
            })
        };
        // As a bucket tells, in whole seconds: 1, 300 and all of 600 used, again and again.
        let bucket = [
            (599, 1_000),
            (300, 30_000),
            (0, 60_000),
            (0, 60_000),
            (1, 60_000),
        ];
        assert!(!refuted(&bucket));
        // As a window tells that began twenty seconds ago, nothing left.
        let window = [(0, 40_000), (0, 39_000), (0, 38_000), (0, 37_000)];
        assert!(refuted(&window) && !refuted(&window[..3]));
        // One that fits in between begins the count anew.
        assert!(!refuted(
            &[&window[..3], &bucket[..1], &window[..3]].concat()
        ));
    }
}
