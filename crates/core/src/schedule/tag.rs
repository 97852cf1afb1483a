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

use super::waiter::AskKey;

/// A point of a rank's virtual time, or a length of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tag(u128);

/// Where a point lies on the grid `start, start + step, start + 2·step, …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    /// How many grid points come strictly before the point.
    pub(super) before: u128,
    /// Whether the point is itself a grid point.
    pub(super) hit: bool,
}

impl Tag {
    /// How far a call of `units` moves an agent of `weight` (zero counts as one).
    pub(super) fn share(units: u32, weight: u32) -> Tag {
        Tag((u128::from(units.max(1)) << 32) / u128::from(weight.max(1)))
    }

    /// The point `length` later.
    pub(super) fn plus(self, length: Tag) -> Tag {
        Tag(self.0.saturating_add(length.0))
    }

    /// The point `length` earlier, or the start.
    pub(super) fn minus(self, length: Tag) -> Tag {
        Tag(self.0.saturating_sub(length.0))
    }

    /// The length `n` times.
    pub(super) fn times(self, n: usize) -> Tag {
        Tag(self.0.saturating_mul(n as u128))
    }

    /// Counts the points of the grid that starts at `start` before this point.
    pub(super) fn on_grid(self, start: Tag, step: Tag) -> Grid {
        let Some(length) = self.0.checked_sub(start.0) else {
            return Grid {
                before: 0,
                hit: false,
            };
        };
        // A step of nothing can't be made by `share`; one is the nearest grid.
        let step = NonZeroU128::new(step.0).unwrap_or(NonZeroU128::MIN);
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
        assert!(Tag::share(1, u32::MAX) > Tag::default());
        assert_eq!(Tag::share(0, 0), Tag::share(1, 1));
    }

    #[test]
    fn a_hundred_years_of_the_dearest_calls_fit() {
        let century = 1_000_000 * 3_600 * 24 * 366 * 100_u64;
        let end = Tag::share(u32::MAX, 1).times(century as usize);
        assert!(
            end < end.plus(Tag::share(u32::MAX, 1)),
            "it saturated at {end:?}"
        );
    }

    #[test]
    fn a_grid_counts_what_comes_before() {
        let check = |point: u128, before, hit| {
            assert_eq!(
                Tag(point).on_grid(Tag(10), Tag(5)),
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
}
