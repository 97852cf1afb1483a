//! A restart: what the tables say, and what that means now.
//!
//! | found | class | means |
//! | --- | --- | --- |
//! | attempt open | write | unknown: reconcile, with the original key |
//! | attempt open | read, generation | `interrupted`; again only if detached |
//! | unknown, reconciling | write | look-ups go on, within their budget |
//! | escalated | any | the question stays open |
//! | waits, maybe arrived once | write | goes on |
//! | waits | any | its caller is gone: withdrawn, unless detached |
//!
//! An open attempt is never taken as "not sent", whatever memory knew.

use std::collections::BTreeMap;

use super::Engine;
use super::input::{Chance, Setup};
use super::live::{Caller, Live, Turn};
use super::output::Output;
use super::timers::Timer;
use crate::action::outcome::Certainty;
use crate::action::problem::Code;
use crate::event::{CancelledBy, Event};
use crate::id::{Account, ActionId, Scope};
use crate::policy::AccountPolicy;
use crate::record::{ActionRow, Tables};
use crate::time::Moment;
use crate::word::{Cause, Outcome, State, Trigger};

impl Engine {
    /// The engine of an account as the tables have it. `setups` says how each
    /// action in hand is to be treated; an action whose route no longer exists
    /// is put to a person if it may have arrived, and ends otherwise.
    pub fn restore(
        account: Account,
        scope: Scope,
        policy: AccountPolicy,
        now: Moment,
        mut chance: Chance,
        tables: Tables,
        setups: &BTreeMap<ActionId, Setup>,
    ) -> Engine {
        let mut engine = Engine::new(account.clone(), scope, policy);
        let scopes: Vec<_> = tables
            .scopes
            .into_iter()
            .filter(|(owner, _)| *owner == account)
            .map(|(_, row)| row)
            .collect();
        engine.ledger.restore(now, &scopes, &tables.attempts);
        for row in tables.escalations {
            engine
                .timers
                .arm(row.expires, Timer::Question(row.escalation));
            engine.escalations.insert(row.escalation, row);
        }
        let mut rows = tables.actions;
        rows.sort_by_key(|row| row.requested.action);
        for row in rows {
            if let Some(setup) = setups.get(&row.requested.action) {
                engine.take_up(row, setup.clone());
            }
        }
        let ids: Vec<ActionId> = engine.actions.keys().copied().collect();
        for id in ids {
            engine.resume_action(now, &mut chance, id);
        }
        engine.dispatch(now);
        engine
    }

    fn take_up(&mut self, row: ActionRow, setup: Setup) {
        let id = row.requested.action;
        let ask = self.next_ask;
        self.next_ask += 1;
        if let Some(key) = &row.requested.key {
            self.keys.insert(key.clone(), id);
        }
        self.timers.arm(row.requested.deadline, Timer::Deadline(id));
        let live = Live {
            lane: self.lanes.of(&setup.scopes),
            row,
            setup,
            ask,
            turn: None,
            open: None,
            sent_at: None,
            caller: Caller::Gone,
            wait_until: Moment::NEVER,
            extra_attempts: 0,
        };
        self.actions.insert(id, live);
    }

    /// One row of the table above.
    fn resume_action(&mut self, now: Moment, chance: &mut Chance, id: ActionId) {
        let live = &self.actions[&id];
        let row = &live.row;
        let is_write = row.requested.class.is_write();
        match row.state {
            State::Dispatching if is_write => {
                self.close_lost_attempt(now, id);
                self.after_unknown(now, chance, id);
            }
            State::Dispatching => {
                self.close_lost_attempt(now, id);
                if self.actions[&id].row.requested.detached {
                    let why = "the governor stopped while the attempt was open".to_owned();
                    self.schedule_attempt(now, id, now, Cause::Policy, why);
                } else {
                    self.interrupted(now, id);
                }
            }
            State::Unknown => {
                self.after_unknown(now, chance, id);
            }
            State::Reconciling => {
                let due = row.not_before.max(now);
                if live.setup.profile.lookup.is_some() {
                    self.enqueue(now, id, Turn::Lookup, due);
                } else {
                    let why = "there is no look-up for it any more";
                    self.ask_about(now, chance, id, Trigger::UncertainEffect, why);
                }
            }
            State::Escalated => {
                if row
                    .escalation
                    .is_none_or(|question| !self.escalations.contains_key(&question))
                {
                    let why = "its question was lost";
                    self.ask_about(now, chance, id, Trigger::UncertainEffect, why);
                }
            }
            State::Admitted | State::Waiting if row.cancelled => self.finish_cancelled(now, id),
            State::Admitted | State::Waiting
                if row.requested.detached || row.maybe_arrived && is_write =>
            {
                let due = row.not_before.max(now);
                let cause = if row.attempts == 0 {
                    Cause::First
                } else {
                    Cause::Policy
                };
                self.enqueue(now, id, Turn::Attempt(cause), due);
            }
            State::Admitted | State::Waiting if row.attempts == 0 || is_write => {
                self.record(
                    now,
                    id,
                    Event::Cancelled {
                        action: id,
                        by: CancelledBy::Caller,
                    },
                );
                self.finish_cancelled(now, id);
            }
            State::Admitted | State::Waiting => self.interrupted(now, id),
            State::Succeeded
            | State::FailedDefinite
            | State::CancelledNotSent
            | State::AbandonedUnknown
            | State::Superseded
            | State::Interrupted => {
                self.actions.remove(&id);
            }
        }
    }

    fn close_lost_attempt(&mut self, now: Moment, id: ActionId) {
        let live = &self.actions[&id];
        let event = Event::ActionResult {
            action: id,
            attempt: live.row.attempts,
            certainty: Certainty::Unknown,
            outcome: Outcome::Unknown,
            status: None,
            retry_after: None,
            scope: None,
            operation_id: None,
            error_code: Some("own_crash".to_owned()),
            bytes_written: 0,
            sent_at: live.row.last_sent_at,
        };
        self.record(now, id, event);
    }

    fn interrupted(&mut self, now: Moment, id: ActionId) {
        self.finish(
            now,
            id,
            State::Interrupted,
            Code::Interrupted.word(),
            |live| {
                Some(Output::Finish {
                    action: live.id(),
                    state: State::Interrupted,
                    code: Code::Interrupted,
                    why: "the governor stopped while it was open; it is safe to send it again"
                        .to_owned(),
                    operation_id: None,
                    escalation: None,
                    retry_at: None,
                })
            },
        );
    }
}
