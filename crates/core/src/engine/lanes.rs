//! Numbers for sets of scopes: calls that touch the same scopes share a lane.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::id::Scope;
use crate::schedule::Lane;

/// Most lanes of one account; further sets share the account's own lane, which
/// is the cautious side: they wait where the whole account waits.
const LANES_MAX: usize = 1_024;

/// The account's own lane: calls that touch nothing narrower.
const OWN: Lane = Lane(0);

/// The lanes of one account.
#[derive(Debug)]
pub(super) struct Lanes {
    numbers: BTreeMap<Arc<[Scope]>, Lane>,
    scopes: Vec<Arc<[Scope]>>,
}

impl Lanes {
    pub(super) fn new(account: &Scope) -> Lanes {
        let own: Arc<[Scope]> = Arc::from([account.clone()]);
        Lanes {
            numbers: BTreeMap::from([(Arc::clone(&own), OWN)]),
            scopes: vec![own],
        }
    }

    /// The lane of a set of scopes.
    pub(super) fn of(&mut self, scopes: &Arc<[Scope]>) -> Lane {
        debug_assert_eq!(
            scopes.first(),
            self.scopes[0].first(),
            "every call touches its account's scope"
        );
        if let Some(lane) = self.numbers.get(scopes) {
            return *lane;
        }
        let number = u32::try_from(self.scopes.len()).ok();
        let Some(number) = number.filter(|_| self.scopes.len() < LANES_MAX) else {
            return OWN;
        };
        self.numbers.insert(Arc::clone(scopes), Lane(number));
        self.scopes.push(Arc::clone(scopes));
        Lane(number)
    }

    /// The scopes of a lane.
    pub(super) fn scopes(&self, lane: Lane) -> &[Scope] {
        let index = usize::try_from(lane.0).unwrap_or(0);
        self.scopes.get(index).unwrap_or(&self.scopes[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> Arc<[Scope]> {
        names.iter().map(|name| Scope::new(name).unwrap()).collect()
    }

    #[test]
    fn equal_sets_share_a_lane_and_the_account_has_the_first() {
        let own = set(&["account:a"]);
        let mut lanes = Lanes::new(&own[0]);
        assert_eq!(lanes.of(&own), OWN);
        let model = lanes.of(&set(&["account:a", "model:m"]));
        assert_eq!(model, Lane(1));
        assert_eq!(lanes.of(&set(&["account:a", "model:m"])), model);
        assert_eq!(lanes.scopes(model), &*set(&["account:a", "model:m"]));
    }

    #[test]
    fn sets_beyond_the_bound_share_the_accounts_lane() {
        let own = set(&["account:a"]);
        let mut lanes = Lanes::new(&own[0]);
        for n in 1..LANES_MAX {
            lanes.of(&set(&["account:a", &format!("model:{n}")]));
        }
        assert_eq!(lanes.of(&set(&["account:a", "model:one too many"])), OWN);
        assert_eq!(lanes.of(&set(&["account:a", "model:7"])), Lane(7));
    }
}
