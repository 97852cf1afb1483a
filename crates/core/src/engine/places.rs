//! Places in the queue of calls that were refused before sending.
//!
//! Whoever is told "come back at 12:00:30" and does so stands where it would
//! stand had it waited (R-SCHED-4); otherwise a busy queue would be served to
//! those who never go away. A returning call is known by its agent and the
//! fingerprint of its request; of several equal ones the oldest place is used
//! first.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::Requested;
use crate::id::{Agent, Fingerprint};
use crate::schedule::AskKey;
use crate::time::{Moment, Span};

/// How long after the stated time a place is kept.
const GRACE: Span = Span::from_secs(60);

/// Most places that are kept; the one that lapses first goes.
const PLACES_MAX: usize = 10_000;

type Claim = (Agent, Fingerprint, AskKey);

/// The places of one account's queue.
#[derive(Debug, Default)]
pub(super) struct Places {
    kept: BTreeMap<Claim, Moment>,
    by_lapse: BTreeSet<(Moment, Claim)>,
}

impl Places {
    /// Keeps a place for a call that was told to come back at `retry_at`.
    pub(super) fn keep(&mut self, requested: &Requested, place: AskKey, retry_at: Moment) {
        let lapses = retry_at + GRACE;
        let claim = (requested.agent.clone(), requested.fingerprint, place);
        if let Some(before) = self.kept.insert(claim.clone(), lapses) {
            self.by_lapse.remove(&(before, claim.clone()));
        }
        self.by_lapse.insert((lapses, claim));
        while PLACES_MAX < self.kept.len() {
            if let Some((_, claim)) = self.by_lapse.pop_first() {
                self.kept.remove(&claim);
            }
        }
    }

    /// Whether nobody may come back for a place any more.
    pub(super) fn have_lapsed(&self, now: Moment) -> bool {
        self.by_lapse
            .last()
            .is_none_or(|(lapses, _)| *lapses <= now)
    }

    /// The place of a call that has come back in time, if it has one.
    pub(super) fn take(&mut self, now: Moment, requested: &Requested) -> Option<AskKey> {
        while let Some((lapses, claim)) = self.by_lapse.first()
            && *lapses <= now
        {
            self.kept.remove(claim);
            self.by_lapse.pop_first();
        }
        if self.kept.is_empty() {
            return None;
        }
        let of = |place| (requested.agent.clone(), requested.fingerprint, place);
        let (claim, lapses) = self.kept.range(of(0)..=of(AskKey::MAX)).next()?;
        let (claim, lapses) = (claim.clone(), *lapses);
        self.kept.remove(&claim);
        let place = claim.2;
        self.by_lapse.remove(&(lapses, claim));
        Some(place)
    }
}
