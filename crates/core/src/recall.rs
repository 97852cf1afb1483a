//! A map that remembers what was looked up last.
//!
//! Most of what is done is about one thing, which is looked up again in each
//! room that it passes: an action, the load of its agent. The index would be
//! walked for each of them, its nodes are seldom near when thousands wait, and
//! names compare slowly. So the place of the last one is kept: whoever asks for
//! the same again gets it by one comparison.
//!
//! Example: a call that starts is looked up eight times in a row; seven of them
//! cost O(1), one O(log n). What is iterated comes in the order of the keys.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Index;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Recall<K, V> {
    slab: Vec<Option<(K, V)>>,
    free: Vec<usize>,
    index: BTreeMap<K, usize>,
    last: Cell<usize>,
}

impl<K, V> Default for Recall<K, V> {
    fn default() -> Recall<K, V> {
        Recall {
            slab: Vec::new(),
            free: Vec::new(),
            index: BTreeMap::new(),
            last: Cell::new(0),
        }
    }
}

impl<K: Ord + Clone, V> Recall<K, V> {
    /// Puts a value under its key, and forgets one that was there.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        let place = match self.place(&key) {
            Some(place) => place,
            None => {
                let place = self.free.pop().unwrap_or_else(|| {
                    self.slab.push(None);
                    self.slab.len() - 1
                });
                self.index.insert(key.clone(), place);
                place
            }
        };
        self.slab[place] = Some((key, value));
        self.last.set(place);
    }

    /// Takes a value out.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let place = self.index.remove(key)?;
        self.free.push(place);
        self.slab[place].take().map(|(_, value)| value)
    }

    /// A value.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.slab[self.place(key)?].as_ref().map(|(_, value)| value)
    }

    /// A value, to be changed.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let place = self.place(key)?;
        self.slab[place].as_mut().map(|(_, value)| value)
    }

    /// Whether there is a value.
    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.place(key).is_some()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The keys, in their order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.index.keys()
    }

    /// The values, in the order of their keys.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        let places = self.index.values();
        places.filter_map(|place| self.slab[*place].as_ref().map(|(_, value)| value))
    }

    fn place(&self, key: &K) -> Option<usize> {
        let last = self.last.get();
        if let Some(Some((known, _))) = self.slab.get(last)
            && known == key
        {
            return Some(last);
        }
        let place = *self.index.get(key)?;
        self.last.set(place);
        Some(place)
    }
}

impl<K: Ord + Clone + Display, V> Index<&K> for Recall<K, V> {
    type Output = V;

    /// # Panics
    /// If it is not there.
    fn index(&self, key: &K) -> &V {
        self.get(key)
            .unwrap_or_else(|| panic!("{key} is not there"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_removed_is_not_remembered_and_its_place_is_used_again() {
        let mut recall = Recall::default();
        recall.insert("a", 1);
        recall.insert("b", 2);
        assert_eq!(recall.remove(&"b"), Some(2));
        assert_eq!(recall.get(&"b"), None);
        assert_eq!(recall.remove(&"b"), None);
        recall.insert("c", 3);
        assert_eq!((recall.get(&"b"), recall.get(&"c")), (None, Some(&3)));
        assert_eq!(recall.slab.len(), 2);
    }

    #[test]
    fn a_key_that_comes_back_has_its_latest_value_only() {
        let mut recall = Recall::default();
        recall.insert("b", 2);
        recall.insert("a", 1);
        recall.insert("b", 4);
        assert_eq!(recall.values().collect::<Vec<_>>(), [&1, &4]);
        assert_eq!(recall.len(), 2);
    }
}
