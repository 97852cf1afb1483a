//! What follows an attempt, carried out: the rows of
//! [`crate::action::next::Next`], one by one.

use super::Engine;
use super::input::Chance;
use super::live::{Open, Turn};
use super::output::{Following, Output};
use super::settle::DONE;
use super::timers::Timer;
use crate::action::next::{Charge, HandBack, Next};
use crate::action::outcome::{Body, Evidence, Lost, Upload};
use crate::action::problem::Code;
use crate::event::{Event, bounded_text};
use crate::id::{ActionId, Scope};
use crate::observe::{Facts, Meaning};
use crate::time::{Moment, Span};
use crate::word::{Cause, Outcome, State, Trigger};

/// Whether a repeat is bound by the waiting that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Budgets {
    /// It is.
    Bind,
    /// It is, but it is no repeat: nothing had left.
    Unsent,
    /// A person decided, and that is its budget.
    Waived,
}

impl Engine {
    /// Carries out what the table decided.
    pub(super) fn follow(
        &mut self,
        now: Moment,
        chance: &mut Chance,
        id: ActionId,
        outcome: Outcome,
        next: Next,
    ) {
        match next {
            Next::Deliver { hand_back } => self.deliver(now, chance, id, outcome, hand_back),
            Next::Retry {
                earliest,
                why,
                charge,
            } => {
                self.pay(charge);
                let cause = Cause::Policy;
                self.schedule_attempt(now, id, earliest, cause, why.word(), Budgets::Bind);
            }
            Next::Reconcile { not_before, why } => {
                self.start_look_up(now, id, not_before, why.says());
            }
            Next::RepeatAsReconciliation {
                earliest,
                why,
                charge,
            } => {
                self.pay(charge);
                self.record(
                    now,
                    id,
                    Event::ReconciliationRequired {
                        action: id,
                        why: why.says().to_owned(),
                        not_before: earliest,
                    },
                );
                let cause = Cause::Reconciliation;
                self.schedule_attempt(now, id, earliest, cause, why.word(), Budgets::Bind);
            }
            Next::Escalate { trigger, why } => self.ask_about(now, chance, id, trigger, why.says()),
            Next::GiveUp {
                code: Code::QuotaExhausted,
                ..
            } => self.give_up_on_shut(now, chance, id),
            Next::GiveUp { code, hand_back } => self.give_up(now, id, code, hand_back),
        }
    }

    /// Nothing of it left, and a scope is closed until a person reopens it: it is
    /// refused like a call that arrives now (R-SCHED-4).
    pub(super) fn give_up_on_shut(&mut self, now: Moment, chance: &mut Chance, id: ActionId) {
        let live = &self.actions[&id];
        let scope = self.shut_scope(now, live);
        let scope = scope.unwrap_or_else(|| self.scope.clone());
        let why = until_reopened(&scope);
        let code = Code::QuotaExhausted;
        self.finish_with(now, id, State::FailedDefinite, code, &why, None);
        self.ask_about_scope(now, chance, scope, Trigger::QuotaExhausted, &why);
    }

    fn give_up(&mut self, now: Moment, id: ActionId, code: Code, hand_back: Option<HandBack>) {
        let state = match (code, self.actions[&id].row.uncertain) {
            (Code::ResultLost, _) => State::Succeeded,
            (_, true) => State::AbandonedUnknown,
            (Code::Cancelled, false) => State::CancelledNotSent,
            _ => State::FailedDefinite,
        };
        let retry_at = hand_back.and_then(|hand_back| hand_back.retry_at());
        self.finish_with(now, id, state, code, code.problem().detail, retry_at);
    }

    fn pay(&mut self, charge: Charge) {
        if charge == Charge::Ratio {
            let paid = self.retry_budget.spend();
            debug_assert!(paid, "a repeat was allowed that nobody can pay for");
        }
    }

    /// The provider's answer is the last word.
    fn deliver(
        &mut self,
        now: Moment,
        chance: &mut Chance,
        id: ActionId,
        outcome: Outcome,
        hand_back: Option<HandBack>,
    ) {
        let live = &self.actions[&id];
        let attempt = live.row.attempts;
        if live
            .open
            .is_some_and(|wire| matches!(wire.what, Open::Body(_)))
        {
            // Its end is told later; the head may leave now.
            let state = State::Dispatching;
            let output = Output::Deliver {
                action: id,
                attempt,
                state,
            };
            match live.answers_at_once() {
                true => self.outbox.free(output),
                false => self.outbox.after_all(output),
            }
            return;
        }
        let state = match outcome {
            Outcome::Done => State::Succeeded,
            _ => State::FailedDefinite,
        };
        let code = match (outcome, hand_back) {
            (Outcome::Done, _) => DONE,
            (_, hand_back) => live.code_of_answer(hand_back.is_some()),
        };
        let ask = hand_back.and_then(|hand_back| hand_back.trigger());
        let scope = self
            .shut_scope(now, live)
            .unwrap_or_else(|| live.setup.scopes.first().unwrap_or(&self.scope).clone());
        self.finish(now, id, state, code, |_| {
            Some(Output::Deliver {
                action: id,
                attempt,
                state,
            })
        });
        if let Some(trigger) = ask {
            let why = match trigger {
                Trigger::QuotaExhausted => until_reopened(&scope),
                _ => "a refused call would have to wait longer than its budget allows".to_owned(),
            };
            self.ask_about_scope(now, chance, scope, trigger, &why);
        }
    }

    /// Another attempt follows at `due`.
    pub(super) fn schedule_attempt(
        &mut self,
        now: Moment,
        id: ActionId,
        due: Moment,
        cause: Cause,
        why: &str,
        budgets: Budgets,
    ) {
        let live = &self.actions[&id];
        debug_assert!(!live.row.cancelled, "a cancelled action is never sent");
        let wait = due.since(now);
        let waited = live.row.waited + wait;
        let attempt = live.row.attempts + 1;
        let task = live.task_key();
        let left = self.wait_left(id);
        self.record(
            now,
            id,
            Event::RetryScheduled {
                action: id,
                attempt,
                due,
                waited,
                why: bounded_text(why),
            },
        );
        self.outbox.free(Output::ChargeTask {
            task,
            retries: u32::from(budgets != Budgets::Unsent),
            waited: wait,
        });
        self.enqueue(now, id, Turn::Attempt(cause), due);
        if budgets != Budgets::Waived {
            self.bound_wait(id, now + left);
        }
        self.outbox.free(Output::Continue {
            action: id,
            next: Following::Attempt,
            due,
        });
    }

    /// Its wait ends by then at the latest.
    pub(super) fn bound_wait(&mut self, id: ActionId, until: Moment) {
        if let Some(live) = self.actions.get_mut(&id) {
            live.wait_until = until;
            self.timers.arm(until, Timer::WaitBudget(id));
        }
    }

    /// The outcome is unknown: look it up before anything else.
    pub(super) fn start_look_up(
        &mut self,
        now: Moment,
        id: ActionId,
        not_before: Moment,
        why: &str,
    ) {
        self.record(
            now,
            id,
            Event::ReconciliationRequired {
                action: id,
                why: bounded_text(why),
                not_before,
            },
        );
        self.queue_look_up(now, id, not_before);
    }

    pub(super) fn queue_look_up(&mut self, now: Moment, id: ActionId, due: Moment) {
        self.enqueue(now, id, Turn::Lookup, due);
        let next = Following::Lookup;
        self.outbox.free(Output::Continue {
            action: id,
            next,
            due,
        });
    }

    /// An attempt is closed whose outcome nobody knows: after a crash, and when
    /// the repeat that would have settled it may not be made any more.
    pub(super) fn find_out(&mut self, now: Moment, chance: &mut Chance, id: ActionId, lost: Lost) {
        let evidence = match self.actions[&id].row.code == Outcome::Done.word() {
            // Only its result was lost.
            true => Evidence::Answered {
                facts: Facts::bare(200, Meaning::Ok),
                body: Body::Cut,
                upload: Upload::Complete,
            },
            false => Evidence::Lost(lost),
        };
        let live = &self.actions[&id];
        let judged = self.judged_for_itself(now, chance, live, &evidence);
        let next = crate::action::decide::decide(&judged);
        self.follow(now, chance, id, Outcome::Unknown, next);
    }

    /// A write of unknown outcome may not be repeated any more: look it up if
    /// that is still possible, else end it or ask.
    pub(super) fn stop_repeating(
        &mut self,
        now: Moment,
        chance: &mut Chance,
        id: ActionId,
        why: &str,
    ) {
        self.dequeue(now, id);
        let live = &self.actions[&id];
        let rules = live.setup.profile.lookup.as_ref();
        let not_before = rules
            .filter(|rules| live.lookups() < rules.max_lookups)
            .and_then(|rules| {
                let last = live.row.last_sent_at.unwrap_or(now);
                crate::action::lookup::first(rules, last, now)
            });
        let cancelled = live.row.cancelled;
        match not_before {
            Some(not_before) => self.start_look_up(now, id, not_before, why),
            None if cancelled => {
                let code = Code::OutcomeUnknown;
                let detail = code.problem().detail;
                self.finish_with(now, id, State::AbandonedUnknown, code, detail, None);
            }
            None => {
                let trigger = Trigger::UncertainEffect;
                self.ask_about(now, chance, id, trigger, why);
            }
        }
    }

    /// The time that a repeat may still wait.
    pub(super) fn wait_left(&self, id: ActionId) -> Span {
        let live = &self.actions[&id];
        let own = live.used().wait_left(&live.setup.limits);
        own.min(live.task.wait)
    }
}

/// Why a call does not wait for a scope that only a person can open.
pub(super) fn until_reopened(scope: &Scope) -> String {
    format!("{scope} is closed until somebody reopens it")
}
