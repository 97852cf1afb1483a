//! The actions in hand: a slab, an index in the order of their ids, and the
//! memory of the one that was looked up last.
//!
//! Most of what the engine does is about one action, which it looks up again in
//! each of its rooms. The index would be walked for each of them, and its nodes
//! are seldom near when thousands wait. So the place of the last one is kept:
//! whoever asks for the same again gets it by one comparison.
//!
//! Example: a call that starts is looked up eight times in a row; seven of them
//! cost O(1), one O(log n). What is iterated comes in the order of the ids.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Index;

use super::live::Live;
use crate::id::ActionId;

/// A place that no action has.
const NOWHERE: usize = usize::MAX;

/// See the module.
#[derive(Debug)]
pub(super) struct InHand {
    slab: Vec<Option<Live>>,
    free: Vec<usize>,
    index: BTreeMap<ActionId, usize>,
    last: Cell<(ActionId, usize)>,
}

impl Default for InHand {
    fn default() -> InHand {
        InHand {
            slab: Vec::new(),
            free: Vec::new(),
            index: BTreeMap::new(),
            last: Cell::new((ActionId(0), NOWHERE)),
        }
    }
}

impl InHand {
    /// Takes an action in hand. One that was there under its id is forgotten.
    pub(super) fn insert(&mut self, id: ActionId, live: Live) {
        let place = match self.place(id) {
            Some(place) => place,
            None => {
                let place = self.free.pop().unwrap_or_else(|| {
                    self.slab.push(None);
                    self.slab.len() - 1
                });
                self.index.insert(id, place);
                place
            }
        };
        self.slab[place] = Some(live);
        self.last.set((id, place));
    }

    /// Lets go of an action.
    pub(super) fn remove(&mut self, id: &ActionId) -> Option<Live> {
        let place = self.index.remove(id)?;
        self.last.set((*id, NOWHERE));
        self.free.push(place);
        self.slab[place].take()
    }

    /// An action.
    pub(super) fn get(&self, id: &ActionId) -> Option<&Live> {
        self.slab[self.place(*id)?].as_ref()
    }

    /// An action, to be changed.
    pub(super) fn get_mut(&mut self, id: &ActionId) -> Option<&mut Live> {
        let place = self.place(*id)?;
        self.slab[place].as_mut()
    }

    /// Whether it is in hand.
    pub(super) fn contains_key(&self, id: &ActionId) -> bool {
        self.place(*id).is_some()
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The ids, in their order.
    pub(super) fn keys(&self) -> impl Iterator<Item = &ActionId> {
        self.index.keys()
    }

    /// The actions, in the order of their ids.
    pub(super) fn values(&self) -> impl Iterator<Item = &Live> {
        self.index
            .values()
            .filter_map(|place| self.slab[*place].as_ref())
    }

    fn place(&self, id: ActionId) -> Option<usize> {
        let (last, place) = self.last.get();
        if last == id {
            return (place != NOWHERE).then_some(place);
        }
        let place = *self.index.get(&id)?;
        self.last.set((id, place));
        Some(place)
    }
}

impl Index<&ActionId> for InHand {
    type Output = Live;

    /// # Panics
    /// If it is not in hand.
    fn index(&self, id: &ActionId) -> &Live {
        let live = self.get(id);
        live.unwrap_or_else(|| panic!("action {id} is not in hand"))
    }
}
