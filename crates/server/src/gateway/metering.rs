//! What the answer of an attempt cost, told to its engine.
//!
//! | answer | told |
//! |---|---|
//! | read whole before it is judged | before its report |
//! | passed on as it comes | when its last piece has passed, or none comes any more |
//! | an error | only if it reports a use: one that was refused used nothing |
//! | none | nothing: the estimate stays spent |

use http::HeaderMap;
use rategov_core::estimate::{Seen, Usage};
use rategov_core::id::AttemptNo;

use super::meter::{Metered, Tap};
use super::reading::Peeked;
use super::run::Runner;

impl Runner {
    fn metered(&self) -> Metered {
        Metered::of(&self.job.rule, &self.job.settings.meter)
    }

    /// A tap on an answer, told what was read of it; `None` where nothing is metered.
    /// `cost` is what the answer's facts say that the call used up.
    pub(super) fn tap(
        &self,
        headers: &HeaderMap,
        peeked: &Peeked,
        cost: Option<u64>,
    ) -> Option<Box<Tap>> {
        if self.metered().is_not() {
            return None;
        }
        let room = &self.job.gateway.0.meter;
        let rules = &self.job.settings.meter;
        let mut tap = Box::new(Tap::new(headers, rules, room));
        tap.told_beside(cost.filter(|_| rules.points_beside));
        peeked.pieces().for_each(|piece| tap.see(piece));
        Some(tap)
    }

    fn usage(&self, tap: &Tap, seen: Seen) -> Usage {
        self.metered().used(tap.usage(seen))
    }

    /// Tells the engine what an answer that was good cost.
    pub(super) fn used(&self, attempt: AttemptNo, tap: Option<&Tap>, seen: Seen) {
        if let Some(tap) = tap {
            let usage = self.usage(tap, seen);
            self.driver.used(&self.cell, self.id(), attempt, &usage);
        }
    }

    /// The same of one that was an error.
    pub(super) fn used_in_error(&self, attempt: AttemptNo, tap: Option<&Tap>, seen: Seen) {
        let reports = |tap: &&Tap| self.usage(tap, seen).is_reported();
        self.used(attempt, tap.filter(reports), seen);
    }
}
