//! Asking the provider what happened, and what its answer proves.

use super::Engine;
use super::input::{Chance, LookupReport};
use super::live::Open;
use crate::action::decide::after_absence;
use crate::action::lookup::{self, Learned, Lookups};
use crate::action::outcome::{Evidence, Lost, NotSent};
use crate::action::problem::Code;
use crate::event::{Event, Found, bounded_text};
use crate::id::ActionId;
use crate::time::Moment;
use crate::word::{Outcome, State, Trigger};

impl Engine {
    /// A look-up ended. Reports of look-ups that are not open are ignored.
    pub fn handle_lookup_report(&mut self, now: Moment, mut chance: Chance, report: LookupReport) {
        if self.outbox.is_poisoned() {
            return;
        }
        let id = report.action;
        let Some(wire) = self.take_wire(id, Open::Lookup(report.lookup)) else {
            return;
        };
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        live.task = report.task;
        let agent = live.agent().clone();
        let changes = match &report.facts {
            _ if !report.sent => {
                self.ledger.withdraw(now, wire.permit);
                Vec::new()
            }
            Some(facts) => self.ledger.answered(now, chance.draw(), wire.permit, facts),
            None => self.ledger.lost(now, chance.draw(), wire.permit),
        };
        self.publish(now, &mut chance, changes);
        if report.sent {
            self.measure_spread(now, wire);
        }
        let evidence = match report.sent {
            true => Evidence::NotProcessed,
            false => Evidence::NotSent(NotSent::Connect),
        };
        self.release(now, &mut chance, wire, &agent, &evidence);
        // An answer proves nothing about what arrived after it was asked for.
        let asked_at = wire.sent_at.unwrap_or(wire.since);
        self.judge_lookup(now, &mut chance, &report, asked_at);
        self.let_go_if_over(now, id);
        self.dispatch(now);
    }

    fn judge_lookup(
        &mut self,
        now: Moment,
        chance: &mut Chance,
        report: &LookupReport,
        asked_at: Moment,
    ) {
        let id = report.action;
        let live = &self.actions[&id];
        let so_far = Lookups {
            last_send: live.row.last_sent_at.unwrap_or(now),
            made: live.lookups(),
        };
        let learned = match &live.setup.profile.lookup {
            Some(rules) => lookup::learn(found_of(report), rules, so_far, asked_at, now),
            None => Learned::CannotKnow(lookup::Blind::NoAnswer),
        };
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
        let was_done = self.actions[&id].row.code == Outcome::Done.word();
        match learned {
            Learned::Happened => self.it_happened(now, id, "lookup"),
            Learned::AskAgain { not_before } => self.queue_look_up(now, id, not_before),
            // The provider's own success stands, whatever its look-up says of the result.
            _ if was_done => {
                let code = Code::ResultLost;
                let detail = code.problem().detail;
                self.finish_with(now, id, State::Succeeded, code, detail, None);
            }
            Learned::Failed => {
                let why = "the provider says that the operation failed for good";
                self.it_did_not(now, id, "lookup");
                self.finish_with(now, id, State::FailedDefinite, Code::NotApplied, why, None);
            }
            Learned::Absent => {
                self.it_did_not(now, id, "lookup");
                self.send_after_absence(now, chance, id);
            }
            Learned::CannotKnow(blind) => {
                if self.actions[&id].row.cancelled {
                    let code = Code::OutcomeUnknown;
                    self.finish_with(now, id, State::AbandonedUnknown, code, blind.says(), None);
                } else {
                    self.ask_about(now, chance, id, Trigger::UncertainEffect, blind.says());
                }
            }
        }
    }

    /// What was unknown is known to have happened: the action ends.
    pub(super) fn it_happened(&mut self, now: Moment, id: ActionId, by: &str) {
        let operation_id = self.actions[&id].row.operation_id.clone();
        let event = Event::Reconciled {
            action: id,
            applied: true,
            by: by.to_owned(),
            operation_id,
        };
        self.record(now, id, event);
        let why = "the answer was lost, but it is established that the operation was carried out";
        self.finish_with(now, id, State::Succeeded, Code::ResultLost, why, None);
    }

    /// What was unknown is known not to have happened.
    pub(super) fn it_did_not(&mut self, now: Moment, id: ActionId, by: &str) {
        let event = Event::Reconciled {
            action: id,
            applied: false,
            by: by.to_owned(),
            operation_id: None,
        };
        self.record(now, id, event);
    }

    /// Absence is proved: the same key may go again.
    fn send_after_absence(&mut self, now: Moment, chance: &mut Chance, id: ActionId) {
        // The last attempt is described as what it turned out to be: nothing.
        let evidence = Evidence::Lost(Lost::Closed);
        let live = &self.actions[&id];
        let next = after_absence(&self.judged_for_itself(now, chance, live, &evidence));
        self.follow(now, chance, id, Outcome::Failed, next);
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
