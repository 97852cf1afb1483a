//! A sorted ring: what comes in order and leaves from the front, mostly.
//!
//! Not a tree, because its two hot ends are constant time and because an index
//! into it is a position. Putting one into the middle, or taking it from there,
//! moves at most half of the ring, so it is for what is bounded by one agent's
//! calls: at the default bound of 256 and 16 bytes each that is 2 KiB.

use std::collections::VecDeque;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Ring<T>(VecDeque<T>);

impl<T> Default for Ring<T> {
    fn default() -> Ring<T> {
        Ring(VecDeque::new())
    }
}

impl<T: Ord + Copy> Ring<T> {
    /// Puts one at its place; at the end, if it is the greatest.
    pub(crate) fn insert(&mut self, one: T) {
        if self.0.back().is_none_or(|last| *last < one) {
            return self.0.push_back(one);
        }
        if let Err(at) = self.0.binary_search(&one) {
            self.0.insert(at, one);
        }
    }

    /// Takes one out; whether it was there.
    pub(crate) fn remove(&mut self, one: T) -> bool {
        if self.0.front() == Some(&one) {
            return self.0.pop_front().is_some();
        }
        self.0
            .binary_search(&one)
            .is_ok_and(|at| self.0.remove(at).is_some())
    }

    /// The least.
    pub(crate) fn first(&self) -> Option<T> {
        self.0.front().copied()
    }

    /// The greatest.
    pub(crate) fn last(&self) -> Option<T> {
        self.0.back().copied()
    }

    /// How many are less than this one. O(1) for one beyond the greatest, which is
    /// asked about most; else O(log n).
    pub(crate) fn before(&self, one: T) -> usize {
        match self.last() {
            Some(last) if last < one => self.0.len(),
            _ => self.0.partition_point(|other| *other < one),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_comes_late_is_put_at_its_place() {
        let mut ring = Ring::default();
        for n in [1, 2, 5, 6, 3, 3] {
            ring.insert(n);
        }
        assert_eq!(ring.0, [1, 2, 3, 5, 6]);
        assert_eq!((ring.before(5), ring.before(6), ring.before(9)), (3, 4, 5));
        assert!(ring.remove(5) && !ring.remove(5));
        assert_eq!(
            (ring.first(), ring.last(), ring.len()),
            (Some(1), Some(6), 4)
        );
    }
}
