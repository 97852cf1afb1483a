//! Virtual time: it counts service, not seconds, so it stays fair when the
//! quota shrinks, grows or stops.
//!
//! One step is 2⁻³² of a unit of cost for an agent of weight 1. A call of cost
//! 3 moves an agent of weight 1 by 3·2³² steps and one of weight 4 by ¾·2³².
//! The smallest possible charge, one unit over the largest weight, is still one
//! step, so no weight makes a call free.
//!
//! Why 128 bits: the largest charge is 2³² units at weight 1, which is 2⁶⁴
//! steps. A million of those each second for a hundred years is below 2¹¹⁶, so
//! the counter can't overflow; 64 bits would last for one such call.

use std::num::NonZeroU128;
use std::ops::RangeInclusive;

use super::waiter::AskKey;

/// A point of a rank's virtual time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tag(u128);

/// How far one call moves its agent; even the dearest fits a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step(u64);

/// Where a point lies on the grid `start, start + step, start + 2·step, …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    /// How many grid points come strictly before the point.
    pub(super) before: u128,
    /// Whether the point is itself a grid point.
    pub(super) hit: bool,
}

impl Step {
    /// How far a call of `units` moves an agent of `weight` (zero counts as one).
    pub(super) fn of(units: u32, weight: u32) -> Step {
        Step((u64::from(units.max(1)) << 32) / u64::from(weight.max(1)))
    }

    /// What is at most one step from a length, as far as a word tells.
    pub(super) fn around(self, length: u64) -> RangeInclusive<u64> {
        let longest = length.saturating_add(self.0).min(u64::MAX - 1);
        length.saturating_sub(self.0)..=longest
    }
}

impl Tag {
    /// The point one step later.
    pub(super) fn plus(self, step: Step) -> Tag {
        self.after(1, step)
    }

    /// The point `n` steps later.
    pub(super) fn after(self, n: usize, step: Step) -> Tag {
        let length = u128::from(step.0).saturating_mul(n as u128);
        Tag(self.0.saturating_add(length))
    }

    /// The point one step earlier, or the start.
    pub(super) fn minus(self, step: Step) -> Tag {
        Tag(self.0.saturating_sub(u128::from(step.0)))
    }

    /// How far this point is ahead of another; at most `u64::MAX`.
    pub(super) fn lead(self, other: Tag) -> u64 {
        u64::try_from(self.0.saturating_sub(other.0)).unwrap_or(u64::MAX)
    }

    /// Counts the points of the grid that starts at `start` before this point.
    pub(super) fn on_grid(self, start: Tag, step: Step) -> Grid {
        let Some(length) = self.0.checked_sub(start.0) else {
            return Grid {
                before: 0,
                hit: false,
            };
        };
        // A step of nothing can't be made; one is the nearest grid.
        let step = NonZeroU128::new(step.0.into()).unwrap_or(NonZeroU128::MIN);
        let rest = length % step;
        Grid {
            before: length / step + u128::from(rest != 0),
            hit: rest == 0,
        }
    }
}

/// Who set its tag first, among equal tags.
///
/// An arrival counts as old as its call's place, so a caller that keeps its
/// place also keeps it among other agents; a turn taken counts as new as the
/// newest call seen by then. `serial` makes each turn unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    pub(super) since: AskKey,
    pub(super) serial: u64,
}

/// An agent's position among the agents of its rank; the least goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order {
    pub(super) finish: Tag,
    pub(super) turn: Turn,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_weight_makes_a_call_free() {
        assert!(Tag::default() < Tag::default().plus(Step::of(1, u32::MAX)));
        assert_eq!(Step::of(0, 0), Step::of(1, 1));
    }

    #[test]
    fn a_hundred_years_of_the_dearest_calls_fit() {
        let century = 1_000_000 * 3_600 * 24 * 366 * 100_u64;
        let dearest = Step::of(u32::MAX, 1);
        let end = Tag::default().after(century as usize, dearest);
        assert!(end < end.plus(dearest), "it saturated at {end:?}");
    }

    #[test]
    fn a_grid_counts_what_comes_before() {
        let check = |point: u128, before, hit| {
            assert_eq!(
                Tag(point).on_grid(Tag(10), Step(5)),
                Grid { before, hit },
                "{point}"
            );
        };
        check(9, 0, false);
        check(10, 0, true);
        check(11, 1, false);
        check(20, 2, true);
        check(21, 3, false);
    }

    #[test]
    fn what_no_word_can_tell_is_near_to_nothing() {
        assert_eq!(Step(5).around(3), 0..=8);
        assert_eq!(Step(5).around(13), 8..=18);
        let far = Tag(u128::MAX).lead(Tag(7));
        assert!(!Step(5).around(far).contains(&far));
    }
}
