//! How far apart calls may arrive that left together, as measured.
//!
//! Nobody sees a call arrive. But it does so after its start was decided and
//! before the head of its answer is here, so the time between the two bounds its
//! delay from above: commit, dial, TLS and the way there are all inside. Calls
//! whose times are at most `d` arrive within `d` of each other. A provider that
//! is slow to answer gives a useless bound, never a wrong one: the ledger takes
//! 2 % of a window if that is less.
//!
//! The p99.9 is bounded by the longest of each thousand, and what is said is the
//! longest of the last thousands: it grows at once, and falls only after
//! [`THOUSANDS`] better ones. Before the first is complete, twice the longest of the
//! first hundred and more is said, and before that nothing.
//!
//! Example: 60 per minute. Answers take 20–80 ms, so after a thousand calls
//! J = 80 ms in place of 1.2 s, and 99.9 % of the quota can be used in place of
//! 98 %. One answer after 3 s: J = 1.2 s again, for the next 4,000 calls.

use crate::time::Span;

/// Calls of which the longest stands for their p99.9.
const CALLS: u32 = 1_000;
/// Calls after which anything is said, and how much longer than all of them the
/// p99.9 is taken to be until a thousand were seen.
const FIRST: u32 = 100;
const FIRST_FACTOR: u64 = 2;
/// Complete thousands that are remembered.
const THOUSANDS: usize = 4;
/// What is said is rounded up to this: each new word makes every limit anew.
const STEP: Span = Span::from_millis(10);

/// See the module. A few words of memory, O(1) a call.
#[derive(Clone, Debug, Default)]
pub(super) struct Spread {
    calls: u32,
    longest: Span,
    /// The newest first.
    before: [Option<Span>; THOUSANDS],
    said: Option<Span>,
}

impl Spread {
    /// This long after its start was decided the answer of a call was here, or
    /// the hope for one ended. Gives the spread if it is another one now.
    pub(super) fn took(&mut self, span: Span) -> Option<Span> {
        let steps = span.as_micros().div_ceil(STEP.as_micros());
        self.longest = self.longest.max(STEP.saturating_mul(steps));
        self.calls += 1;
        if self.calls == CALLS {
            self.before.rotate_right(1);
            self.before[0] = Some(std::mem::take(&mut self.longest));
            self.calls = 0;
        }
        let spread = match self.before.iter().flatten().max() {
            Some(longest) => Some(self.longest.max(*longest)),
            None if FIRST <= self.calls => Some(self.longest.saturating_mul(FIRST_FACTOR)),
            None => None,
        };
        if spread == self.said {
            return None;
        }
        self.said = spread;
        spread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Span {
        Span::from_millis(ms)
    }

    /// What is said during a thousand calls of this length.
    fn thousand(spread: &mut Spread, length: Span) -> Vec<Span> {
        (0..CALLS).filter_map(|_| spread.took(length)).collect()
    }

    #[test]
    fn nothing_is_said_before_a_hundred_calls_and_twice_the_longest_before_a_thousand() {
        let mut spread = Spread::default();
        assert!((1..FIRST).all(|_| spread.took(ms(20)).is_none()));
        assert_eq!(spread.took(ms(20)), Some(ms(40)));
        assert!((FIRST + 1..CALLS).all(|_| spread.took(ms(20)).is_none()));
        assert_eq!(spread.took(ms(20)), Some(ms(20)));
        assert_eq!(thousand(&mut spread, ms(20)), [], "it is said once");
    }

    #[test]
    fn it_is_never_less_than_the_longest_of_the_last_thousand() {
        let mut spread = Spread::default();
        spread.took(Span::from_micros(71_001));
        assert_eq!(
            thousand(&mut spread, ms(3)),
            [ms(160), ms(80)],
            "rounded up"
        );
    }

    #[test]
    fn one_slow_call_is_believed_at_once_and_forgotten_after_four_better_thousands() {
        let mut spread = Spread::default();
        thousand(&mut spread, ms(20));
        assert_eq!(spread.took(ms(3_000)), Some(ms(3_000)));
        let said: Vec<Vec<Span>> = (0..6).map(|_| thousand(&mut spread, ms(20))).collect();
        let quiet = |n: usize| said[n].is_empty();
        assert!((0..4).all(quiet), "{said:?}");
        assert_eq!(said[4], [ms(20)]);
    }
}
