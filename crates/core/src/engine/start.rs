//! A call goes: quota is secured, the record leaves, the grant is held until
//! the journal has it.

use std::sync::Arc;

use super::Engine;
use super::live::{Leave, OnWire, Open, Turn};
use super::output::{Grant, LookupGrant, Output};
use super::ways;
use crate::action::key;
use crate::event::Event;
use crate::id::ActionId;
use crate::ledger::{PermitId, Staged};
use crate::schedule::Pick;
use crate::time::{Moment, Span};
use crate::word::Cause;

impl Engine {
    /// Starts a call that nothing stands in the way of.
    pub(super) fn start(&mut self, now: Moment, id: ActionId, pick: Pick, staged: Staged) {
        let permit = self.ledger.secure(now, staged);
        let Some(live) = self.actions.get_mut(&id) else {
            debug_assert!(false, "a call started that is not in hand");
            return;
        };
        debug_assert!(live.open.is_none(), "one send at a time");
        let turn = live.turn.take();
        let ask = live.ask;
        let agent = live.row.requested.agent.clone();
        let group = live.group();
        let (scopes, cost) = (Arc::clone(&live.setup.scopes), live.cost());
        let max = live.setup.agent_concurrent_max;
        self.asks.remove(&ask);
        // The charge stays even if nothing is sent in the end: a connection that
        // can't be made is not a reason to be served more often.
        let taken = self.schedule.take(pick);
        debug_assert!(
            taken.is_some_and(|taken| taken.waiter.ask == ask),
            "another call was picked"
        );
        self.loads.went(&agent, group, ask);
        self.next_of_group(now, &agent, group, max);
        for scope in scopes.iter() {
            let pace = ways::pace(&self.ledger, scope);
            if let Some(spacing) = self.spacings.get_mut(scope) {
                spacing.sent(now, cost, pace);
            }
        }
        self.pulse.started(now, group.0);
        match turn {
            Some(Turn::Attempt(cause)) => self.open_attempt(now, id, permit, cause),
            Some(Turn::Lookup) => self.open_lookup(now, id, permit),
            None => debug_assert!(false, "started without a turn"),
        }
    }

    fn open_attempt(&mut self, now: Moment, id: ActionId, permit: PermitId, cause: Cause) {
        self.disarm_wait(id);
        let key_safe_until = self.key_safe_until(now, id);
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        debug_assert!(!live.row.cancelled, "a cancelled action is never sent");
        let attempt = live.row.attempts + 1;
        live.open = Some(OnWire {
            what: Open::Attempt(attempt),
            permit,
            since: now,
            sent_at: None,
            leave: Leave::Free,
        });
        // What it waited beyond its backoff, for its turn.
        let late = match attempt {
            1 => Span::ZERO,
            _ => now.since(live.row.not_before),
        };
        let event = Event::ActionSent {
            action: id,
            attempt,
            cause,
            scopes: live.setup.scopes.to_vec(),
            cost: live.cost(),
            waited: live.row.waited + late,
            key_safe_until,
        };
        let task = (Span::ZERO < late).then(|| live.task_key());
        let seq = self.record(now, id, event);
        if let Some(task) = task {
            self.outbox.free(Output::ChargeTask {
                task,
                retries: 0,
                waited: late,
            });
        }
        let grant = Grant {
            action: id,
            attempt,
            cause,
        };
        self.outbox.after(seq, Output::Grant(grant));
    }

    fn open_lookup(&mut self, now: Moment, id: ActionId, permit: PermitId) {
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        let lookup = live.row.lookups + 1;
        live.open = Some(OnWire {
            what: Open::Lookup(lookup),
            permit,
            since: now,
            sent_at: None,
            leave: Leave::Free,
        });
        let event = Event::LookupSent {
            action: id,
            lookup,
            scopes: live.setup.scopes.to_vec(),
            cost: live.setup.cost,
        };
        let seq = self.record(now, id, event);
        let grant = LookupGrant { action: id, lookup };
        self.outbox.after(seq, Output::Lookup(grant));
    }

    /// From when the key of an action must not be sent any more: counted from
    /// the first send that may have arrived.
    fn key_safe_until(&self, now: Moment, id: ActionId) -> Option<Moment> {
        let live = &self.actions[&id];
        live.row.requested.key.as_ref()?;
        if live.row.key_safe_until.is_some() && live.row.maybe_arrived {
            return live.row.key_safe_until;
        }
        key::safe_until_by(&live.setup.profile, now, live.setup.attempt_timeout)
    }
}
