//! What a call will use, and what it did use.
//!
//! A metered call is one whose request was sized ([`Setup::sizing`]): it draws on
//! limits of tokens, points or money by an estimate. The estimate is made anew
//! whenever the call is about to go, so that what was learnt while it waited counts,
//! and is replaced by what its answer reports:
//!
//! ```text
//! considered   estimate (learnt of its agent, model, endpoint) → staged on every scope
//! granted      reserved; `action_sent` records it
//! usage        settled: the difference goes back, or is a debt; `settled` records it
//! refused      nothing was used, unless the provider counts refusals
//! failed       an answer that is an error and reports nothing used nothing
//! lost         the estimate stays spent
//! ```
//!
//! [`Setup::sizing`]: super::Setup::sizing

use super::Engine;
use super::live::{Live, Open};
use crate::cost::Cost;
use crate::estimate::{Basis, Estimate, Kind, Settled, Sizing, Usage};
use crate::event::Event;
use crate::id::{ActionId, AttemptNo};
use crate::time::Moment;

impl Live {
    /// What it costs, as far as is known.
    pub(super) fn cost(&self) -> Cost {
        self.estimate
            .as_ref()
            .map_or(self.setup.cost, |estimate| estimate.cost)
    }

    /// What calls are alike with it; what it says of its size.
    fn sized(&self) -> Option<(Kind, Sizing)> {
        let sizing = self.setup.sizing.as_deref().copied()?;
        let requested = &self.row.requested;
        let kind = Kind {
            agent: requested.agent.clone(),
            model: requested.model.as_deref().map(Into::into),
            endpoint: requested.endpoint.clone(),
        };
        Some((kind, sizing))
    }
}

impl Engine {
    /// What a call will use, by what is known now; `None` if nothing of it is a guess.
    pub(super) fn estimated(&self, live: &Live) -> Option<Box<Estimate>> {
        let (kind, sizing) = live.sized()?;
        let estimate = self.estimator.estimate(&kind, &sizing, &self.policy.charge);
        Some(Box::new(estimate))
    }

    /// Estimates a call anew.
    pub(super) fn estimate_anew(&mut self, id: ActionId) {
        let Some(live) = self.actions.get(&id) else {
            return;
        };
        if live.setup.sizing.is_none() {
            return;
        }
        let estimate = self.estimated(live);
        if let Some(live) = self.actions.get_mut(&id) {
            live.estimate = estimate;
        }
    }

    /// The answer of an open attempt said what the call used, or it ended without
    /// saying. Before its report or the end of its body; at most once. Of a call that
    /// was not sized, or an attempt that is not open, nothing is learnt.
    pub fn handle_usage(&mut self, now: Moment, id: ActionId, attempt: AttemptNo, usage: &Usage) {
        if self.outbox.is_poisoned() {
            return;
        }
        let Some(live) = self.actions.get(&id) else {
            return;
        };
        let is_open = |what| what == Open::Attempt(attempt) || what == Open::Body(attempt);
        let (Some(wire), Some((kind, sizing))) = (live.open, live.sized()) else {
            return;
        };
        if !is_open(wire.what) {
            return;
        }
        let reserved = live.cost();
        let Settled { cost, basis } =
            self.estimator
                .settle(&kind, &sizing, usage, &self.policy.charge);
        self.ledger.used(now, wire.permit, &cost);
        if cost != reserved {
            let estimated = basis == Basis::Estimated;
            let event = Event::Settled {
                action: id,
                attempt,
                cost,
                estimated,
            };
            self.record(now, id, event);
        }
        self.dispatch(now);
    }
}
