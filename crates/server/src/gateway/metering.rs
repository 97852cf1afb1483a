//! What the answer of an attempt cost, told to its engine.
//!
//! | answer | told |
//! |---|---|
//! | read whole before it is judged | before its report |
//! | passed on as it comes | when its last piece has passed, or none comes any more |
//! | an error | only if it reports a use: one that was refused used nothing |
//! | none | nothing: the estimate stays spent |

use http::HeaderMap;
use rategov_core::estimate::Seen;
use rategov_core::id::AttemptNo;

use super::meter::{self, Tap};
use super::reading::Peeked;
use super::run::Runner;

impl Runner {
    /// A tap on an answer, told what was read of it; `None` where nothing is metered.
    pub(super) fn tap(&self, headers: &HeaderMap, peeked: &Peeked) -> Option<Box<Tap>> {
        if !meter::is_metered(&self.job.rule) {
            return None;
        }
        let room = &self.job.gateway.0.meter;
        let mut tap = Box::new(Tap::new(headers, &self.job.settings.meter, room));
        peeked.pieces().for_each(|piece| tap.see(piece));
        Some(tap)
    }

    /// Tells the engine what an answer that was good cost.
    pub(super) fn used(&self, attempt: AttemptNo, tap: Option<&Tap>, seen: Seen) {
        if let Some(tap) = tap {
            let usage = tap.usage(seen);
            self.driver.used(&self.cell, self.id(), attempt, &usage);
        }
    }

    /// The same of one that was an error.
    pub(super) fn used_in_error(&self, attempt: AttemptNo, tap: Option<&Tap>, seen: Seen) {
        let reports = |tap: &&Tap| tap.usage(seen).is_reported();
        self.used(attempt, tap.filter(reports), seen);
    }
}
