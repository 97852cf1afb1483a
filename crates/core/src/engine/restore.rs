//! A restart: what the tables say, and what that means now.
//!
//! | found | class | means |
//! | --- | --- | --- |
//! | attempt open | write | unknown: reconcile, with the original key |
//! | attempt open | read, generation | `interrupted`; again only if detached |
//! | attempt closed, nothing decided yet | any | decided now, as its outcome says |
//! | reconciling | write | look-ups go on, within their budget |
//! | with a person | any | the question stays open |
//! | decided, not carried out yet | any | carried out now |
//! | cancelled, or its task told to stop | any | ends; what may have happened is looked up first |
//! | waits to repeat an attempt of unknown outcome | write | goes on |
//! | waits | any | its caller is gone: withdrawn, unless detached |
//! | its route is gone | any | with a person if it may have happened, else it ends |
//!
//! An open attempt is never taken as "not sent", whatever memory knew. The
//! crash may have come between any two records; so each of them leaves enough
//! in the row to go on from ([`ActionRow::code`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Engine;
use super::follow::Budgets;
use super::input::{Chance, Resumption, Setup};
use super::live::{LastWord, Live, Turn};
use super::timers::Timer;
use crate::action::backoff::{self, RetryNo};
use crate::action::budget::RefusalWindow;
use crate::action::budget::TaskAllowance;
use crate::action::outcome::{Certainty, Lost};
use crate::action::problem::Code;
use crate::cost::Cost;
use crate::event::{CancelledBy, Event, Found};
use crate::id::{Account, ActionId, Scope};
use crate::policy::{AccountPolicy, Profile};
use crate::record::{ActionRow, AttemptRow, SUPERSEDED, SendKind, Tables};
use crate::time::{Moment, Span};
use crate::word::{Cause, Class, Outcome, State, Trigger};

/// Refused attempts that were opened this close together are taken for echoes
/// of one event.
const SAME_EVENT: Span = Span::from_secs(1);

impl Engine {
    /// The engine of an account as the tables have it. `resumptions` says how
    /// each action in hand goes on, whether or not anybody runs it; an action
    /// without a route gets what is safe.
    ///
    /// Cost: O(n log n) in the rows.
    pub fn restore(
        account: Account,
        scope: Scope,
        policy: AccountPolicy,
        now: Moment,
        mut chance: Chance,
        tables: Tables,
        resumptions: &BTreeMap<ActionId, Resumption>,
    ) -> Engine {
        let mut engine = Engine::new(account.clone(), scope, policy);
        let scopes: Vec<_> = tables
            .scopes
            .into_iter()
            .filter(|(owner, _)| *owner == account)
            .map(|(_, row)| row)
            .collect();
        engine.ledger.restore(now, &scopes, &tables.attempts);
        engine.restore_budgets(&tables.attempts);
        for row in tables.escalations {
            if row.chosen.is_none() {
                engine.take_question(Some(row));
            }
        }
        let mut rows = tables.actions;
        rows.retain(|row| !row.state.is_final());
        rows.sort_by_key(|row| row.requested.action);
        let children: BTreeMap<ActionId, ActionId> = rows
            .iter()
            .filter_map(|row| Some((row.requested.parent?, row.requested.action)))
            .collect();
        let ids: Vec<ActionId> = rows.iter().map(|row| row.requested.action).collect();
        for row in rows {
            engine.take_up(row, resumptions);
        }
        engine.hear_of_stops(now, &ids, resumptions);
        engine.close_lost_lookups(now, &tables.attempts);
        for id in ids {
            let child = children.get(&id).copied();
            engine.resume_action(now, &mut chance, id, child);
        }
        engine.dispatch(now);
        engine
    }

    fn take_up(&mut self, row: ActionRow, resumptions: &BTreeMap<ActionId, Resumption>) {
        let id = row.requested.action;
        let known = resumptions.get(&id);
        let setup = known
            .and_then(|known| known.setup.clone())
            .unwrap_or_else(|| self.setup_without_route(&row));
        let requested = Arc::clone(&row.requested);
        let ask = self.next_ask;
        self.next_ask += 1;
        if let Some(key) = &requested.key {
            self.keys.insert(key.clone(), id);
        }
        self.equals.insert((requested.fingerprint, id));
        if row.uncertain {
            self.doubts.insert((requested.endpoint.clone(), id));
        }
        let lane = self.lanes.of(&setup.scopes);
        let mut live = Live::new(row, setup, ask, lane);
        live.task = known
            .and_then(|known| known.task)
            .unwrap_or(TaskAllowance::UNLIMITED);
        live.last_outcome = Outcome::parse(&live.row.code);
        if 0 < live.row.attempts {
            // Its answers are gone with the process; this much is known of them.
            live.last_word = LastWord::Own(match requested.class {
                Class::Read => Code::UpstreamLost,
                Class::Generation => Code::PossiblyBilled,
                Class::IdempotentWrite | Class::UncertainWrite => Code::NotApplied,
            });
        }
        self.timers.arm(requested.deadline, Timer::Deadline(id));
        self.actions.insert(id, live);
    }

    /// How an action is treated whose endpoint is not configured any more: it
    /// draws on the account, nothing is promised about it, and it is not sent.
    fn setup_without_route(&self, row: &ActionRow) -> Setup {
        let class = row.requested.class;
        Setup {
            profile: Arc::new(Profile::nothing()),
            scopes: Arc::from([self.scope.clone()]),
            cost: Cost::ONE,
            sizing: None,
            limits: Arc::new(crate::policy::ClassLimits {
                max_attempts: 0,
                ..self.policy.classes.of(class).clone()
            }),
            weight: 1,
            agent_concurrent_max: None,
            attempt_timeout: Span::ZERO,
            may_send_new: false,
        }
    }

    /// The budgets that a scope shares, as far as the attempts tell: first ones
    /// earned, repeats of what was not plainly refused have spent.
    fn restore_budgets(&mut self, attempts: &[AttemptRow]) {
        let mut rows: Vec<&AttemptRow> = attempts
            .iter()
            .filter(|row| row.kind == SendKind::Attempt && row.scopes.first() == Some(&self.scope))
            .collect();
        rows.sort_by_key(|row| (row.opened_at, row.action, row.attempt));
        let mut outcomes: BTreeMap<ActionId, Option<Outcome>> = BTreeMap::new();
        let mut last_refusal: Option<Moment> = None;
        for row in rows {
            let before = outcomes.insert(row.action, row.outcome);
            match (row.attempt, before) {
                (1, _) if row.outcome != Some(Outcome::NotSent) => self.retry_budget.earn(),
                (1, _) | (_, Some(Some(Outcome::Refused))) => {}
                _ => {
                    // An empty budget stays empty.
                    let _ = self.retry_budget.spend();
                }
            }
            if row.status == Some(429) {
                let echo = last_refusal.is_some_and(|last| row.opened_at.since(last) < SAME_EVENT);
                last_refusal = Some(row.opened_at);
                if !echo {
                    let budget = self.policy.refusal_budget;
                    self.refusals
                        .entry(self.scope.clone())
                        .or_insert_with(|| RefusalWindow::new(budget))
                        .event(row.opened_at);
                }
            }
        }
    }

    /// Tasks that were told to stop when the engine could not hear of it. That is
    /// recorded before anything follows from any row.
    fn hear_of_stops(
        &mut self,
        now: Moment,
        ids: &[ActionId],
        resumptions: &BTreeMap<ActionId, Resumption>,
    ) {
        for id in ids {
            let stopped = resumptions.get(id).is_some_and(|it| it.task.is_none());
            if stopped && !self.actions[id].row.cancelled {
                let by = CancelledBy::Task;
                self.record(now, *id, Event::Cancelled { action: *id, by });
            }
        }
    }

    /// Look-ups that were out: nobody will report them.
    fn close_lost_lookups(&mut self, now: Moment, attempts: &[AttemptRow]) {
        for row in attempts {
            let is_open = row.kind == SendKind::Lookup && row.certainty.is_none();
            let in_hand = self
                .actions
                .get(&row.action)
                .is_some_and(|live| live.row.lookups == row.attempt);
            if is_open && in_hand {
                let event = Event::LookedUp {
                    action: row.action,
                    lookup: row.attempt,
                    found: Found::NoAnswer,
                    status: None,
                    operation_id: None,
                    next: None,
                };
                self.record(now, row.action, event);
            }
        }
    }

    /// One row of the table above.
    fn resume_action(
        &mut self,
        now: Moment,
        chance: &mut Chance,
        id: ActionId,
        child: Option<ActionId>,
    ) {
        let live = &self.actions[&id];
        let row = &live.row;
        let is_write = row.requested.class.is_write();
        match row.state {
            State::Dispatching => {
                self.close_lost_attempt(now, id);
                match is_write {
                    true => self.find_out(now, chance, id, Lost::OwnCrash),
                    false => self.repeat_or_interrupt(now, id),
                }
            }
            State::Unknown if is_write => self.find_out(now, chance, id, Lost::OwnCrash),
            State::Unknown => self.repeat_or_interrupt(now, id),
            State::Reconciling if live.setup.profile.lookup.is_some() => {
                let due = row.not_before.max(now);
                self.queue_look_up(now, id, due);
            }
            State::Reconciling => self.find_out(now, chance, id, Lost::OwnCrash),
            State::Escalated => {
                let asked = row.escalation;
                if asked.is_none_or(|question| !self.escalations.contains_key(&question)) {
                    let why = "its question was lost";
                    self.ask_about(now, chance, id, Trigger::UncertainEffect, why);
                }
            }
            State::Admitted | State::Waiting => self.resume_waiting(now, chance, id, child),
            State::Succeeded
            | State::FailedDefinite
            | State::CancelledNotSent
            | State::AbandonedUnknown
            | State::Superseded
            | State::Interrupted => debug_assert!(false, "an ended action was taken up"),
        }
    }

    /// An action between two sends: what is known of it decides.
    fn resume_waiting(
        &mut self,
        now: Moment,
        chance: &mut Chance,
        id: ActionId,
        child: Option<ActionId>,
    ) {
        let live = &self.actions[&id];
        let row = &live.row;
        let is_write = row.requested.class.is_write();
        let known = Outcome::parse(&row.code);
        if row.code == SUPERSEDED && !row.cancelled {
            match child {
                Some(child) => self.end_superseded(now, id, child),
                None => self.supersede(now, chance, id),
            }
        } else if known == Some(Outcome::Done) {
            let (state, code) = match is_write {
                true => (State::Succeeded, Code::ResultLost),
                false => (State::Interrupted, Code::Interrupted),
            };
            self.finish_with(now, id, state, code, code.problem().detail, None);
        } else if row.uncertain && (known.is_some() || row.cancelled) {
            self.find_out(now, chance, id, Lost::OwnCrash);
        } else if known == Some(Outcome::Failed) {
            let code = match is_write {
                true => Code::NotApplied,
                false => Code::Interrupted,
            };
            let state = State::FailedDefinite;
            self.finish_with(now, id, state, code, code.problem().detail, None);
        } else if row.cancelled {
            self.finish_cancelled(now, id);
        } else if row.uncertain || row.requested.detached {
            self.queue_again(now, chance, id);
        } else {
            let by = CancelledBy::Caller;
            self.record(now, id, Event::Cancelled { action: id, by });
            self.finish_cancelled(now, id);
        }
    }

    /// A waiting action waits on, within what is left of its budgets.
    fn queue_again(&mut self, now: Moment, chance: &mut Chance, id: ActionId) {
        let live = &self.actions[&id];
        let row = &live.row;
        let (attempts, uncertain) = (row.attempts, row.uncertain);
        let (scheduled, left) = (row.not_before, self.wait_left(id));
        // Without a route nothing is sent.
        if live.setup.limits.max_attempts == 0 {
            let why = "its endpoint is not configured any more";
            match uncertain {
                true => self.ask_about(now, chance, id, Trigger::UncertainEffect, why),
                false => {
                    let (state, code) = (State::CancelledNotSent, Code::Cancelled);
                    self.finish_with(now, id, state, code, why, None);
                }
            }
            return;
        }
        // The last attempt was refused, and the crash came before its repeat was planned.
        if 0 < attempts && !row.code.is_empty() {
            if live.used().attempts_left(&live.setup.limits) == 0 {
                return self.give_last_word(now, id);
            }
            let n = RetryNo::after(live.used().attempts);
            let due = now + backoff::delay(&self.policy.backoff, n, None, chance.draw());
            let why = "the governor stopped before the repeat was planned";
            return self.schedule_attempt(now, id, due, Cause::Policy, why, Budgets::Bind);
        }
        let cause = match (attempts, uncertain) {
            (0, _) => Cause::First,
            (_, true) => Cause::Reconciliation,
            (_, false) => Cause::Policy,
        };
        self.enqueue(now, id, Turn::Attempt(cause), scheduled.max(now));
        if 0 < attempts {
            self.bound_wait(id, scheduled + left);
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

    /// A read or generation that was open: sent again only if somebody will
    /// fetch it, and its budget allows.
    fn repeat_or_interrupt(&mut self, now: Moment, id: ActionId) {
        let live = &self.actions[&id];
        let row = &live.row;
        let may = row.requested.detached
            && row.requested.replayable
            && !row.cancelled
            && 0 < live.used().attempts_left(&live.setup.limits)
            && (row.requested.class == Class::Read || live.setup.limits.ambiguous_retry);
        if may {
            let why = "the governor stopped while the attempt was open";
            self.schedule_attempt(now, id, now, Cause::Policy, why, Budgets::Bind);
            return;
        }
        let (state, code) = match row.cancelled {
            true => (State::CancelledNotSent, Code::Cancelled),
            false => (State::Interrupted, Code::Interrupted),
        };
        self.finish_with(now, id, state, code, code.problem().detail, None);
    }
}
