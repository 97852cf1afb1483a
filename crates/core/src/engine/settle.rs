//! What came of a send: the ledger learns first, then the record, then the
//! table decides.
//!
//! | told | then |
//! | --- | --- |
//! | the first byte is about to leave | whether it may; its slot's window starts |
//! | an attempt ended, or the head of its answer came | ledger, record, decision |
//! | a body that streamed on has ended | the seat is free, the action ends |
//! | a grant found nobody to carry it out | it counts as withdrawn, a look-up as unanswered |

use super::Engine;
use super::follow::Budgets;
use super::input::{BodyEnd, Chance, LookupReport, Report};
use super::judge::LastWords;
use super::live::{LastWord, Leave, Live, OnWire, Open};
use super::output::Output;
use crate::action::decide::decide;
use crate::action::next::Next;
use crate::action::outcome::{Body, Certainty, Evidence, Lost, NotSent};
use crate::action::problem::Code;
use crate::event::{Event, Found, bounded_text};
use crate::id::{ActionId, Agent, AttemptNo};
use crate::observe::Facts;
use crate::record::WITHDRAWN;
use crate::time::Moment;
use crate::word::{Cause, Outcome, State};

/// The provider did it, and its answer was passed on.
pub(super) const DONE: &str = "done";

impl Engine {
    /// The first byte of an open send is about to leave: whether it may. If so, its
    /// slot's window starts. It is the last question before an effect, so whatever
    /// called the send back since its grant is heard here: a cancellation, a caller
    /// that left, a scope that closed, a commit that was lost.
    pub fn handle_sent(&mut self, now: Moment, id: ActionId) -> Leave {
        let Some(wire) = self.actions.get(&id).and_then(|live| live.open) else {
            return Leave::CalledBack;
        };
        if wire.sent_at.is_some() {
            return Leave::Free;
        }
        // A look-up that is overtaken learns it from the provider's answer.
        if matches!(wire.what, Open::Attempt(_)) && self.is_called_back(wire) {
            return Leave::CalledBack;
        }
        if let Some(open) = self
            .actions
            .get_mut(&id)
            .and_then(|live| live.open.as_mut())
        {
            open.sent_at = Some(now);
        }
        if !self.outbox.is_poisoned() {
            self.ledger.sent(now, wire.permit);
        }
        Leave::Free
    }

    /// Whether a send was overtaken since its grant, and its first byte has not left:
    /// it was called back, or a scope was closed and it would only repeat the refusal.
    /// Whoever sends had better not even dial, and report it as withdrawn.
    pub fn is_overtaken(&self, id: ActionId) -> bool {
        let wire = self.actions.get(&id).and_then(|live| live.open);
        wire.is_some_and(|wire| wire.sent_at.is_none() && self.is_called_back(wire))
    }

    fn is_called_back(&self, wire: OnWire) -> bool {
        wire.leave == Leave::CalledBack || self.ledger.is_overtaken(wire.permit)
    }

    /// An attempt ended, or the head of its answer came. Reports of attempts
    /// that are not open are ignored: a permit ends once.
    pub fn handle_report(&mut self, now: Moment, mut chance: Chance, report: Report) {
        if self.outbox.is_poisoned() {
            return self.report_after_fault(&report);
        }
        let id = report.action;
        let Some(wire) = self.take_wire(id, Open::Attempt(report.attempt)) else {
            return;
        };
        let Some(live) = self.actions.get(&id) else {
            return;
        };
        let said_before = live.last_word;
        // Its scope closed; or its caller left, and another has joined since.
        let is_wanted = !live.row.cancelled && live.is_wanted();
        let waits_again = is_wanted
            && wire.sent_at.is_none()
            && matches!(report.evidence, Evidence::NotSent(NotSent::Withdrawn))
            && self.is_called_back(wire);
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        live.task = report.task;
        let body = match &report.evidence {
            Evidence::Answered { body, .. } => *body,
            _ => Body::Complete,
        };
        if body == Body::Open {
            let what = Open::Body(report.attempt);
            live.open = Some(OnWire { what, ..wire });
        }
        self.teach(now, &mut chance, wire, &report.evidence);
        if !matches!(report.evidence, Evidence::NotSent(_)) {
            self.measure_spread(now, wire);
        }
        if body != Body::Open {
            let agent = self.actions[&id].agent().clone();
            self.release(now, &mut chance, wire, &agent, &report.evidence);
        }
        if report.attempt == 1 && !matches!(report.evidence, Evidence::NotSent(_)) {
            self.retry_budget.earn();
        }

        let live = &self.actions[&id];
        let judged = self.judged(now, &mut chance, live, &report.evidence);
        let (certainty, outcome) = (judged.certainty(), judged.outcome());
        let (mut next, last_word) = (decide(&judged), judged.last_word(report.attempt));
        if body == Body::Open && outcome == Outcome::Done {
            // A write's answer that is too large to be kept passes through once.
            next = Next::Deliver { hand_back: None };
        }
        let facts = facts_of(&report.evidence);
        let event = Event::ActionResult {
            action: id,
            attempt: report.attempt,
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
            sent_at: wire.sent_at.or_else(|| {
                let left = certainty != Certainty::NotSent;
                left.then_some(wire.since)
            }),
        };
        let meaning = facts.map(|facts| facts.meaning);
        if let Some(live) = self.actions.get_mut(&id) {
            live.last_word = last_word;
            live.last_outcome = Some(outcome);
            live.last_meaning = meaning;
        }
        self.record(now, id, event);
        if body == Body::Open && !matches!(next, Next::Deliver { .. }) {
            // Its head was enough: the rest is not wanted, and the seat is free.
            self.drop_body(now, &mut chance, id, &report.evidence);
        }
        if waits_again {
            self.wait_again(now, &mut chance, id, said_before);
        } else {
            self.follow(now, &mut chance, id, outcome, next);
        }
        self.let_go_if_over(now, id);
        self.dispatch(now);
        self.consider_waits(now, &mut chance);
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
        if self.outbox.is_poisoned() {
            self.actions.remove(&id);
            return;
        }
        let Some(wire) = self.take_wire(id, Open::Body(attempt)) else {
            return;
        };
        let live = &self.actions[&id];
        let agent = live.agent().clone();
        let is_write = live.row.requested.class.is_write();
        let done = live.last_outcome == Some(Outcome::Done);
        let answered = live.code_of_answer(false);
        self.pulse
            .took(now.since(wire.sent_at.unwrap_or(wire.since)));
        let changes = self.ledger.finished(now, wire.permit);
        self.publish(now, &mut chance, changes);
        self.agent_seat_free(now, &agent);
        let (state, code) = match (end, done) {
            (BodyEnd::Complete, true) => (State::Succeeded, DONE),
            (BodyEnd::Complete, false) => (State::FailedDefinite, answered),
            // It happened, whatever became of its description.
            (_, true) if is_write => (State::Succeeded, Code::ResultLost.word()),
            (BodyEnd::Cut | BodyEnd::ErrorEvent, _) => {
                (State::FailedDefinite, Code::StreamBroken.word())
            }
            (BodyEnd::CallerGone, _) => (State::FailedDefinite, Code::Cancelled.word()),
        };
        self.finish(now, id, state, code, |_| None);
        self.dispatch(now);
    }

    /// A stream that had begun well carries a refusal further on. What it says of the
    /// limits holds as if it had come at the head; what becomes of the action is
    /// decided at the body's end, for bytes of its answer have passed.
    pub fn handle_late_refusal(
        &mut self,
        now: Moment,
        mut chance: Chance,
        id: ActionId,
        attempt: AttemptNo,
        facts: &Facts,
    ) {
        let open = self.actions.get(&id).and_then(|live| live.open);
        let streaming = open.filter(|wire| wire.what == Open::Body(attempt));
        let Some(wire) = streaming.filter(|_| !self.outbox.is_poisoned()) else {
            return;
        };
        let changes = self.ledger.answered(now, chance.draw(), wire.permit, facts);
        self.publish(now, &mut chance, changes);
        self.dispatch(now);
    }

    /// An instruction found nobody to carry it out. A grant counts as withdrawn and
    /// a look-up as unanswered: nothing of either left, and no seat may stay taken
    /// by a send that nobody makes. Whatever else nobody hears changes nothing.
    pub fn handle_undelivered(&mut self, now: Moment, chance: Chance, output: &Output) {
        let task_of = |id| self.actions.get(&id).map(|live: &Live| live.task);
        match output {
            Output::Grant(grant) => {
                let Some(task) = task_of(grant.action) else {
                    return;
                };
                let report = Report {
                    action: grant.action,
                    attempt: grant.attempt,
                    evidence: Evidence::NotSent(NotSent::Withdrawn),
                    bytes_written: 0,
                    task,
                };
                self.handle_report(now, chance, report);
            }
            Output::Lookup(grant) => {
                let Some(task) = task_of(grant.action) else {
                    return;
                };
                let report = LookupReport {
                    action: grant.action,
                    lookup: grant.lookup,
                    found: Found::NoAnswer,
                    facts: None,
                    operation_id: None,
                    sent: false,
                    task,
                };
                self.handle_lookup_report(now, chance, report);
            }
            _ => {}
        }
    }

    /// An attempt was withdrawn although it is wanted: it never left, so it costs
    /// nothing, what was said of an earlier one stands, and it waits for its scope
    /// like any other, unless only a person can open that again.
    fn wait_again(&mut self, now: Moment, chance: &mut Chance, id: ActionId, said: LastWord) {
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        live.last_word = match said {
            LastWord::Nothing => LastWord::Own(Code::HoldExceeded),
            said => said,
        };
        let (is_first, uncertain) = (live.used().attempts == 0, live.row.uncertain);
        let due = self.held_until(now, &self.actions[&id]);
        let why = "it was called back before it left";
        match due {
            Moment::NEVER if uncertain => self.stop_repeating(now, chance, id, why),
            Moment::NEVER if is_first => self.give_up_on_shut(now, chance, id),
            Moment::NEVER => self.give_last_word(now, id),
            due => self.schedule_attempt(now, id, due, Cause::Policy, why, Budgets::Unsent),
        }
    }

    /// Takes what is out for an action, if it is this.
    pub(super) fn take_wire(&mut self, id: ActionId, what: Open) -> Option<OnWire> {
        let open = &mut self.actions.get_mut(&id)?.open;
        let wire = open.filter(|wire| wire.what == what)?;
        *open = None;
        Some(wire)
    }

    /// What an answer says of the limits holds before anything is scheduled again.
    fn teach(&mut self, now: Moment, chance: &mut Chance, wire: OnWire, evidence: &Evidence) {
        let changes = match evidence {
            Evidence::NotSent(_) => {
                self.ledger.withdraw(now, wire.permit);
                Vec::new()
            }
            Evidence::Answered { facts, .. } => {
                self.ledger.answered(now, chance.draw(), wire.permit, facts)
            }
            Evidence::NotProcessed | Evidence::Lost(_) => {
                self.ledger.lost(now, chance.draw(), wire.permit)
            }
        };
        self.publish(now, chance, changes);
    }

    /// A call that left was answered, or is lost: the limits learn how far apart
    /// calls arrive.
    pub(super) fn measure_spread(&mut self, now: Moment, wire: OnWire) {
        if let Some(spread) = self.spread.took(now.since(wire.since)) {
            self.ledger.set_spread(now, spread);
        }
    }

    /// A send is over: its seats are free.
    pub(super) fn release(
        &mut self,
        now: Moment,
        chance: &mut Chance,
        wire: OnWire,
        agent: &Agent,
        evidence: &Evidence,
    ) {
        if !matches!(evidence, Evidence::NotSent(_)) {
            self.pulse
                .took(now.since(wire.sent_at.unwrap_or(wire.since)));
            let changes = self.ledger.finished(now, wire.permit);
            self.publish(now, chance, changes);
        }
        self.agent_seat_free(now, agent);
    }

    fn drop_body(&mut self, now: Moment, chance: &mut Chance, id: ActionId, evidence: &Evidence) {
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        let agent = live.agent().clone();
        if let Some(wire) = live.open.take() {
            self.release(now, chance, wire, &agent, evidence);
        }
    }

    /// After a lost commit the answer of a read still passes to its caller: it
    /// changes nothing, and nothing relies on its record.
    fn report_after_fault(&mut self, report: &Report) {
        let id = report.action;
        if self.take_wire(id, Open::Attempt(report.attempt)).is_none() {
            return;
        }
        let output = match &report.evidence {
            Evidence::Answered { body, facts, .. } if *body != Body::Cut => Output::Deliver {
                action: id,
                attempt: report.attempt,
                state: match (body, facts.status) {
                    (Body::Open, _) => State::Dispatching,
                    (_, ..400) => State::Succeeded,
                    _ => State::FailedDefinite,
                },
            },
            _ => Output::Finish {
                action: id,
                state: State::Interrupted,
                code: Code::Interrupted,
                why: "the journal can't be written, and no usable answer came".to_owned(),
                operation_id: None,
                escalation: None,
                retry_at: None,
            },
        };
        self.actions.remove(&id);
        self.outbox.free(output);
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
        Evidence::NotSent(NotSent::Withdrawn) => WITHDRAWN,
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
