//! What came of a send: the ledger learns first, then the record, then the table decides.

use super::Engine;
use super::input::{BodyEnd, Chance, Report, TaskAllowance};
use super::live::{Caller, Live, Open, Turn};
use super::output::{Following, Output};
use super::timers::Timer;
use crate::action::budget::{self, Used};
use crate::action::decide::{Interest, Judged, Ratio, Replay, ToAgent, decide};
use crate::action::next::{Charge, HandBack, Next};
use crate::action::outcome::{AfterUnknown, Body, Evidence, Lost, NotSent};
use crate::action::problem::Code;
use crate::event::{Event, bounded_text};
use crate::id::{ActionId, AttemptNo, Scope};
use crate::observe::{Facts, Meaning};
use crate::time::Moment;
use crate::word::{Cause, Mode, Outcome, State};

/// The provider did it, and its answer was passed on.
const DONE: &str = "done";
/// The provider's definite answer was passed on, and it is not a success.
const PROVIDER_ANSWER: &str = "provider_answer";

impl Engine {
    /// The first byte of an open send may leave now: its slot's window starts.
    pub fn handle_sent(&mut self, now: Moment, id: ActionId) {
        if let Some(live) = self.actions.get_mut(&id)
            && let Some((_, permit)) = live.open
        {
            live.sent_at = Some(now);
            self.ledger.sent(now, permit);
        }
    }

    /// An attempt ended, or the head of its answer came. Reports of attempts
    /// that are not open are ignored: a permit ends once.
    pub fn handle_report(&mut self, now: Moment, mut chance: Chance, report: Report) {
        if self.outbox.is_poisoned() {
            return;
        }
        let id = report.action;
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        let Some((Open::Attempt(number), permit)) = live.open else {
            return;
        };
        if number != report.attempt {
            return;
        }
        let streams_on = matches!(
            report.evidence,
            Evidence::Answered {
                body: Body::Open,
                ..
            }
        );
        live.open = streams_on.then_some((Open::Body(number), permit));
        let agent = live.row.requested.agent.clone();

        // What an answer says of the limits holds before anything is scheduled again.
        let changes = match &report.evidence {
            Evidence::NotSent(_) => {
                self.ledger.withdraw(now, permit);
                Vec::new()
            }
            Evidence::Answered { facts, .. } => {
                self.ledger.answered(now, chance.draw(), permit, facts)
            }
            Evidence::NotProcessed | Evidence::Lost(_) => {
                self.ledger.lost(now, chance.draw(), permit)
            }
        };
        self.publish(now, &mut chance, changes);
        if !streams_on && !matches!(report.evidence, Evidence::NotSent(_)) {
            let changes = self.ledger.finished(now, permit);
            self.publish(now, &mut chance, changes);
        }
        if !streams_on {
            self.agent_seat_free(now, &agent);
        }
        if number == 1 {
            self.retry_budget.earn();
        }

        let live = &self.actions[&id];
        let judged = self.judged(now, &mut chance, live, &report.evidence, report.task);
        let next = decide(&judged);
        let (certainty, outcome) = (judged.certainty(), judged.outcome());
        let facts = facts_of(&report.evidence);
        let event = Event::ActionResult {
            action: id,
            attempt: number,
            certainty,
            outcome,
            status: facts.map(|facts| facts.status),
            retry_after: facts.and_then(|facts| facts.retry_after),
            scope: (outcome == Outcome::Refused).then(|| self.scope.clone()),
            operation_id: facts
                .and_then(|f| f.operation_id.as_deref())
                .map(bounded_text),
            error_code: error_code(&report.evidence).map(|code| bounded_text(&code)),
            bytes_written: report.bytes_written,
            sent_at: live.sent_at,
        };
        self.record(now, id, event);
        self.carry_out_next(now, &mut chance, id, outcome, next);
        self.dispatch(now);
    }

    /// The body of an answer that streamed on has ended: the seat is free.
    pub fn handle_body_end(
        &mut self,
        now: Moment,
        mut chance: Chance,
        id: ActionId,
        attempt: AttemptNo,
        end: BodyEnd,
    ) {
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        let Some((Open::Body(number), permit)) = live.open else {
            return;
        };
        if number != attempt {
            return;
        }
        live.open = None;
        let agent = live.row.requested.agent.clone();
        let good = live.row.last_status.is_some_and(|status| status < 400);
        let changes = self.ledger.finished(now, permit);
        self.publish(now, &mut chance, changes);
        self.agent_seat_free(now, &agent);
        let (state, code) = match end {
            BodyEnd::Complete if good => (State::Succeeded, DONE),
            BodyEnd::Complete => (State::FailedDefinite, PROVIDER_ANSWER),
            BodyEnd::Cut | BodyEnd::ErrorEvent => {
                (State::FailedDefinite, Code::StreamBroken.word())
            }
            BodyEnd::CallerGone => (State::FailedDefinite, Code::Cancelled.word()),
        };
        self.finish(now, id, state, code, |_| None);
        self.dispatch(now);
    }

    pub(super) fn judged<'a>(
        &'a self,
        now: Moment,
        chance: &mut Chance,
        live: &'a Live,
        evidence: &'a Evidence,
        task: TaskAllowance,
    ) -> Judged<'a> {
        let row = &live.row;
        let wanted = row.requested.detached || matches!(live.caller, Caller::Held(_));
        // Only a refusal needs the gate, and most answers are none.
        let went_well = facts_of(evidence).is_some_and(|facts| facts.meaning == Meaning::Ok);
        let held = |scope: &Scope| {
            let state = self.ledger.state(now, scope)?;
            let held = matches!(state.mode, Mode::Closed | Mode::Probing);
            state.next_allowed_at.filter(|_| held)
        };
        let gate = match went_well {
            true => now,
            false => live.setup.scopes.iter().filter_map(held).max().unwrap_or(now),
        };
        Judged {
            evidence,
            class: row.requested.class,
            profile: &live.setup.profile,
            limits: &live.setup.limits,
            backoff: &self.policy.backoff,
            after_unknown: if row.uncertain {
                AfterUnknown::Yes
            } else {
                AfterUnknown::No
            },
            used: Used {
                attempts: row.attempts.saturating_sub(live.extra_attempts),
                waited: row.waited,
            },
            lookups_made: row.lookups,
            task: budget::TaskAllowance {
                retries: task.retries,
                wait: task.wait,
                deadline: Moment::NEVER,
            },
            ratio: if self.retry_budget.allows() {
                Ratio::Allows
            } else {
                Ratio::Spent
            },
            replay: if row.requested.replayable {
                Replay::Kept
            } else {
                Replay::NotKept
            },
            interest: match (row.cancelled, wanted) {
                (true, _) => Interest::Cancelled,
                (false, true) => Interest::Wanted,
                (false, false) => Interest::Gone,
            },
            to_agent: ToAgent::Nothing,
            now,
            gate,
            held_until: match live.caller {
                Caller::Held(until) if !row.requested.detached => until,
                _ => Moment::NEVER,
            },
            deadline: row.requested.deadline,
            key_safe_until: row.key_safe_until,
            draw: chance.draw(),
        }
    }

    pub(super) fn carry_out_next(
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
                self.schedule_attempt(now, id, earliest, Cause::Policy, why.word().to_owned());
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
                self.schedule_attempt(now, id, earliest, cause, why.word().to_owned());
            }
            Next::Escalate { trigger, why } => self.ask_about(now, chance, id, trigger, why.says()),
            Next::GiveUp { code, hand_back } => {
                let state = match (code, self.actions[&id].row.uncertain) {
                    (Code::ResultLost, _) => State::Succeeded,
                    (_, true) => State::AbandonedUnknown,
                    (Code::Cancelled, false) => State::CancelledNotSent,
                    _ => State::FailedDefinite,
                };
                let retry_at = hand_back.map(|hand_back| hand_back.at);
                self.finish_with(now, id, state, code, code.problem().detail, retry_at);
            }
        }
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
        if matches!(live.open, Some((Open::Body(_), _))) {
            // Its end is told later; the head may leave now.
            let state = State::Dispatching;
            self.outbox.free(Output::Deliver {
                action: id,
                attempt,
                state,
            });
            return;
        }
        let state = match outcome {
            Outcome::Done => State::Succeeded,
            _ => State::FailedDefinite,
        };
        let code = match (outcome, hand_back) {
            (Outcome::Done, _) => DONE,
            (_, Some(_)) => super::cancel::WAIT_EXHAUSTED,
            _ => PROVIDER_ANSWER,
        };
        let ask = hand_back.and_then(|hand_back| hand_back.trigger());
        let scope = live.setup.scopes.first().unwrap_or(&self.scope).clone();
        self.finish(now, id, state, code, |_| {
            Some(Output::Deliver {
                action: id,
                attempt,
                state,
            })
        });
        if let Some(trigger) = ask {
            let why = "a refused call would have to wait longer than its budget allows";
            self.ask_about_scope(now, chance, scope, trigger, why);
        }
    }

    /// The outcome is unknown: look it up before anything else.
    fn start_look_up(&mut self, now: Moment, id: ActionId, not_before: Moment, why: &str) {
        self.record(
            now,
            id,
            Event::ReconciliationRequired {
                action: id,
                why: bounded_text(why),
                not_before,
            },
        );
        self.enqueue(now, id, Turn::Lookup, not_before);
        let next = Following::Lookup;
        self.outbox.free(Output::Continue {
            action: id,
            next,
            due: not_before,
        });
    }

    /// A restart found an attempt whose outcome nobody knows.
    pub(super) fn after_unknown(&mut self, now: Moment, chance: &mut Chance, id: ActionId) {
        let evidence = Evidence::Lost(Lost::OwnCrash);
        let live = &self.actions[&id];
        let judged = Judged {
            after_unknown: AfterUnknown::No,
            // What a crash interrupted is settled even though its caller is gone.
            interest: if live.row.cancelled {
                Interest::Cancelled
            } else {
                Interest::Wanted
            },
            held_until: Moment::NEVER,
            ..self.judged(now, chance, live, &evidence, TaskAllowance::UNLIMITED)
        };
        let next = decide(&judged);
        self.carry_out_next(now, chance, id, Outcome::Unknown, next);
    }

    /// Ends an action: its record first, then its caller.
    pub(super) fn finish(
        &mut self,
        now: Moment,
        id: ActionId,
        state: State,
        code: &'static str,
        output: impl FnOnce(&Live) -> Option<Output>,
    ) {
        let Some(live) = self.actions.get(&id) else {
            return;
        };
        debug_assert!(
            live.turn.is_none() && live.open.is_none(),
            "it is still in hand"
        );
        let (attempts, waited) = (live.row.attempts, live.row.waited);
        let is_write = live.row.requested.class.is_write();
        let code = code.to_owned();
        let event = Event::Terminal {
            action: id,
            state,
            code,
            attempts,
            waited,
        };
        let seq = self.record(now, id, event);
        let Some(live) = self.actions.remove(&id) else {
            return;
        };
        self.timers
            .disarm(live.row.requested.deadline, Timer::Deadline(id));
        self.timers.disarm(live.wait_until, Timer::WaitBudget(id));
        if let Caller::Held(until) = live.caller {
            self.timers.disarm(until, Timer::Hold(id));
        }
        let output = output(&live);
        self.remember_finished(&live);
        match output {
            // The result of a write is stored before its caller sees it. A read's
            // answer need not wait for the disk: nothing relies on its record.
            Some(output) if is_write => self.outbox.after(seq, output),
            Some(output) => self.outbox.free(output),
            None => {}
        }
    }

    pub(super) fn finish_in_own_words(
        &mut self,
        now: Moment,
        id: ActionId,
        state: State,
        code: Code,
        why: &str,
    ) {
        self.finish_with(now, id, state, code, why, None);
    }

    fn finish_with(
        &mut self,
        now: Moment,
        id: ActionId,
        state: State,
        code: Code,
        why: &str,
        retry_at: Option<Moment>,
    ) {
        let why = why.to_owned();
        self.finish(now, id, state, code.word(), |live| {
            Some(Output::Finish {
                action: live.id(),
                state,
                code,
                why,
                operation_id: live.row.operation_id.clone(),
                escalation: live.row.escalation,
                retry_at,
            })
        });
    }
}

fn facts_of(evidence: &Evidence) -> Option<&Facts> {
    match evidence {
        Evidence::Answered { facts, .. } => Some(facts),
        _ => None,
    }
}

/// The provider's code, or the transport's word.
fn error_code(evidence: &Evidence) -> Option<String> {
    let word = match evidence {
        Evidence::Answered {
            facts,
            body: Body::Cut,
            ..
        } if facts.error_code.is_none() => "body_cut",
        Evidence::Answered { facts, .. } => return facts.error_code.clone(),
        Evidence::NotProcessed => "not_processed",
        Evidence::NotSent(NotSent::Dns) => "dns_failure",
        Evidence::NotSent(NotSent::Connect) => "connect_failure",
        Evidence::NotSent(NotSent::Tls) => "tls_failure",
        Evidence::NotSent(NotSent::Certificate) => "certificate_refused",
        Evidence::NotSent(NotSent::ConnectionClosed) => "connection_closed_unused",
        Evidence::NotSent(NotSent::Withdrawn) => "withdrawn",
        Evidence::Lost(Lost::Closed) => "connection_closed",
        Evidence::Lost(Lost::TimedOut) => "timed_out",
        Evidence::Lost(Lost::UploadCut) => "upload_cut",
        Evidence::Lost(Lost::Malformed) => "malformed_answer",
        Evidence::Lost(Lost::CallerGone) => "caller_gone",
        Evidence::Lost(Lost::OwnCrash) => "own_crash",
        Evidence::Lost(Lost::Unreported) => "unreported",
    };
    Some(word.to_owned())
}
