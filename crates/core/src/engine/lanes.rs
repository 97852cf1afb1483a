//! Numbers for sets of scopes: calls that touch the same scopes share a lane.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::id::Scope;
use crate::schedule::Lane;

/// Most lanes of one account; further sets share the account's own lane, which
/// is the cautious side: they wait where the whole account waits.
const LANES_MAX: usize = 1_024;

/// The lanes of one account.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    numbers: BTreeMap<Arc<[Scope]>, Lane>,
}

impl Lanes {
    /// The lane of a set of scopes.
    pub(super) fn of(&mut self, scopes: &Arc<[Scope]>) -> Lane {
        if let Some(lane) = self.numbers.get(scopes) {
            return *lane;
        }
        if self.numbers.len() >= LANES_MAX {
            return Lane(0);
        }
        let lane = Lane(u32::try_from(self.numbers.len()).unwrap_or(0));
        self.numbers.insert(Arc::clone(scopes), lane);
        lane
    }
}
