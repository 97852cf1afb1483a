//! Asking the provider what happened, and what its answer proves.

use super::Engine;
use super::input::{Chance, LookupReport, TaskAllowance};
use super::live::{Open, Turn};
use super::output::{Following, Output};
use crate::action::decide::{Interest, Judged, after_absence};
use crate::action::lookup::{self, Learned, Lookups};
use crate::action::outcome::{AfterUnknown, Evidence, Lost};
use crate::action::problem::Code;
use crate::event::{Event, Found, bounded_text};
use crate::id::ActionId;
use crate::time::{Moment, Span};
use crate::word::{Cause, Outcome, State, Trigger};

impl Engine {
    /// A look-up ended. Reports of look-ups that are not open are ignored.
    pub fn handle_lookup_report(&mut self, now: Moment, mut chance: Chance, report: LookupReport) {
        if self.outbox.is_poisoned() {
            return;
        }
        let id = report.action;
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        let Some((Open::Lookup(number), permit)) = live.open else {
            return;
        };
        if number != report.lookup {
            return;
        }
        live.open = None;
        let agent = live.row.requested.agent.clone();
        let changes = match &report.facts {
            _ if !report.sent => {
                self.ledger.withdraw(now, permit);
                Vec::new()
            }
            Some(facts) => self.ledger.answered(now, chance.draw(), permit, facts),
            None => self.ledger.lost(now, chance.draw(), permit),
        };
        self.publish(now, &mut chance, changes);
        if report.sent {
            let changes = self.ledger.finished(now, permit);
            self.publish(now, &mut chance, changes);
        }
        self.agent_seat_free(now, &agent);
        self.judge_lookup(now, &mut chance, &report);
        self.dispatch(now);
    }

    fn judge_lookup(&mut self, now: Moment, chance: &mut Chance, report: &LookupReport) {
        let id = report.action;
        let live = &self.actions[&id];
        let Some(profile) = live.setup.profile.lookup.clone() else {
            return;
        };
        let last_sent_at = live.row.last_sent_at.unwrap_or(now);
        let so_far = Lookups {
            last_send: last_sent_at,
            made: report.lookup,
        };
        let asked_at = live.sent_at.unwrap_or(now);
        let learned = lookup::learn(found_of(report), &profile, so_far, asked_at, now);
        let next = match learned {
            Learned::AskAgain { not_before } => Some(not_before),
            _ => None,
        };
        self.record(
            now,
            id,
            Event::LookedUp {
                action: id,
                lookup: report.lookup,
                found: report.found,
                status: report.facts.as_ref().map(|facts| facts.status),
                operation_id: report.operation_id.as_deref().map(bounded_text),
                next,
            },
        );
        match learned {
            Learned::Happened => self.reconciled(now, id, "lookup"),
            Learned::Failed => {
                self.record(
                    now,
                    id,
                    Event::Reconciled {
                        action: id,
                        applied: false,
                        by: "lookup".to_owned(),
                        operation_id: None,
                    },
                );
                self.finish_in_own_words(
                    now,
                    id,
                    State::FailedDefinite,
                    Code::NotApplied,
                    "the provider says that the operation failed for good",
                );
            }
            Learned::Absent => self.proven_absent(now, chance, id),
            Learned::AskAgain { not_before } => {
                self.enqueue(now, id, Turn::Lookup, not_before);
                let next = Following::Lookup;
                self.outbox.free(Output::Continue {
                    action: id,
                    next,
                    due: not_before,
                });
            }
            Learned::CannotKnow(blind) => {
                self.ask_about(now, chance, id, Trigger::UncertainEffect, blind.says());
            }
        }
    }

    /// What was unknown is known to have happened.
    pub(super) fn reconciled(&mut self, now: Moment, id: ActionId, by: &str) {
        let operation_id = self.actions[&id].row.operation_id.clone();
        self.record(
            now,
            id,
            Event::Reconciled {
                action: id,
                applied: true,
                by: by.to_owned(),
                operation_id,
            },
        );
        self.finish_in_own_words(
            now,
            id,
            State::Succeeded,
            Code::ResultLost,
            "the answer was lost, but the provider confirms that the operation was carried out",
        );
    }

    /// What was unknown is known not to have happened: the same key may go again.
    pub(super) fn proven_absent(&mut self, now: Moment, chance: &mut Chance, id: ActionId) {
        self.record(
            now,
            id,
            Event::Reconciled {
                action: id,
                applied: false,
                by: "lookup".to_owned(),
                operation_id: None,
            },
        );
        // The last attempt is described as what it turned out to be: nothing.
        let evidence = Evidence::Lost(Lost::Closed);
        let live = &self.actions[&id];
        let judged = Judged {
            after_unknown: AfterUnknown::No,
            interest: if live.row.cancelled {
                Interest::Cancelled
            } else {
                Interest::Wanted
            },
            held_until: Moment::NEVER,
            ..self.judged(now, chance, live, &evidence, TaskAllowance::UNLIMITED)
        };
        let next = after_absence(&judged);
        self.carry_out_next(now, chance, id, Outcome::Failed, next);
    }

    /// Another attempt follows at `due`.
    pub(super) fn schedule_attempt(
        &mut self,
        now: Moment,
        id: ActionId,
        due: Moment,
        cause: Cause,
        why: String,
    ) {
        let live = &self.actions[&id];
        let wait = due.since(now);
        let waited = live.row.waited + wait;
        let left = live.setup.limits.max_wait.saturating_sub(live.row.waited);
        let attempt = live.row.attempts + 1;
        let task = live.row.requested.task.clone();
        self.record(
            now,
            id,
            Event::RetryScheduled {
                action: id,
                attempt,
                due,
                waited,
                why: bounded_text(&why),
            },
        );
        if let Some(live) = self.actions.get_mut(&id) {
            let until = if cause == Cause::Policy && Span::ZERO < left {
                now + left
            } else {
                Moment::NEVER
            };
            live.wait_until = until;
            self.timers.arm(until, super::timers::Timer::WaitBudget(id));
        }
        if let Some(task) = task {
            self.outbox.free(Output::ChargeTask {
                task,
                retries: 1,
                waited: wait,
            });
        }
        self.enqueue(now, id, Turn::Attempt(cause), due);
        self.outbox.free(Output::Continue {
            action: id,
            next: Following::Attempt,
            due,
        });
    }
}

/// The report in the terms of the look-up table.
fn found_of(report: &LookupReport) -> lookup::Found {
    match report.found {
        Found::Done => lookup::Found::Done,
        Found::Failed => lookup::Found::Failed,
        Found::Running => lookup::Found::Running,
        Found::Nothing => lookup::Found::Nothing,
        Found::NoAnswer => lookup::Found::NoAnswer {
            retry_after: report.facts.as_ref().and_then(|facts| facts.retry_after),
        },
    }
}
