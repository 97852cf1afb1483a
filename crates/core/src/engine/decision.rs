//! A person answers: exactly one answer wins, for exactly what was shown, and
//! what follows leaves once the answer is durable.
//!
//! | choice | of an action | of a scope |
//! | --- | --- | --- |
//! | `query_existing_operation` | look-ups, with a fresh budget | |
//! | `retry_same_key` | one more send, beyond its budgets | |
//! | `it_happened`, `it_did_not` | recorded as found out; it ends | |
//! | `send_new_operation` | ends; a child with a new key begins | |
//! | `wait` | waits for its turn | it waits for its hold; a stopped path is opened |
//! | `raise_quota` | waits for its turn | reopens it: one call may see whether the limit was raised |
//! | `change_plan` | ends with the person's instruction | what waits ends with it |
//! | `cancel` | ends | what waits ends |

use std::sync::Arc;

use super::Engine;
use super::follow::Budgets;
use super::input::{Chance, Decision};
use super::live::Live;
use super::output::Output;
use super::timers::Timer;
use crate::action::choices::{self, Applied, Effect};
use crate::action::problem::Code;
use crate::event::{Decider, Durability, Event, Requested, bounded_text};
use crate::id::{ActionId, EscalationId, Operator, Scope};
use crate::record::ActionRow;
use crate::time::Moment;
use crate::word::{Cause, Choice, State};

/// Why a decision is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecisionError {
    /// There is no such open question: it was answered, or ran out.
    NotOpen,
    /// The choice was not offered, or is not safe any more.
    NotOffered {
        /// What is offered.
        offered: Vec<Choice>,
    },
    /// Something changed since the question was shown.
    Changed {
        /// The version now.
        version: u32,
    },
    /// The choice can have a second effect and must be confirmed.
    Unconfirmed {
        /// What must be typed.
        text: &'static str,
    },
    /// The journal can't be written.
    AuditUnavailable,
}

/// What a decision says beside the choice.
struct Said {
    by: Operator,
    note: Option<String>,
}

impl Engine {
    /// A person answers a question.
    ///
    /// # Errors
    /// [`DecisionError`]; nothing changes then.
    pub fn handle_decision(
        &mut self,
        now: Moment,
        mut chance: Chance,
        escalation: EscalationId,
        decision: Decision,
    ) -> Result<(), DecisionError> {
        if self.outbox.is_poisoned() {
            return Err(DecisionError::AuditUnavailable);
        }
        let action = self.test_decision(now, escalation, &decision)?;
        let scope = self.escalations[&escalation].scope.clone();
        let Decision {
            choice, by, note, ..
        } = decision;
        let applied = match action.and_then(|id| self.actions.get(&id)) {
            Some(live) if live.row.uncertain => Applied::Maybe,
            _ => Applied::No,
        };
        let decider = Decider::Operator(by.clone());
        self.close_question(now, escalation, choice, decider, note.clone());
        let said = Said { by, note };
        match action {
            Some(id) => self.carry_out(now, &mut chance, id, choice, applied, &said),
            None => self.carry_out_for_scope(now, &mut chance, &scope, choice, &said),
        }
        self.dispatch(now);
        Ok(())
    }

    /// Tests a decision in the order in which a person would want to hear the
    /// reason. Gives the action that the question is about.
    fn test_decision(
        &self,
        now: Moment,
        escalation: EscalationId,
        decision: &Decision,
    ) -> Result<Option<ActionId>, DecisionError> {
        let row = self
            .escalations
            .get(&escalation)
            .filter(|row| now < row.expires)
            .ok_or(DecisionError::NotOpen)?;
        let Some(live) = row.action.and_then(|id| self.actions.get(&id)) else {
            return match row.choices.contains(&decision.choice) {
                true => Ok(None),
                false => Err(DecisionError::NotOffered {
                    offered: row.choices.clone(),
                }),
            };
        };
        let version = live.row.version;
        if decision.version.is_some_and(|shown| shown != version) {
            return Err(DecisionError::Changed { version });
        }
        // What was offered may no longer hold: a key can grow too old, and an
        // action be cancelled, while a person thinks.
        let Some(situation) = self.situation(live.id(), row.trigger) else {
            return Err(DecisionError::NotOpen);
        };
        let offers = choices::offers(&situation, now);
        let Some(offer) = offers.iter().find(|offer| offer.choice == decision.choice) else {
            let offered = offers.into_iter().map(|offer| offer.choice).collect();
            return Err(DecisionError::NotOffered { offered });
        };
        match offer.confirm {
            Some(text) if decision.typed.as_deref().map(str::trim) != Some(text) => {
                Err(DecisionError::Unconfirmed { text })
            }
            _ => Ok(Some(live.id())),
        }
    }

    fn close_question(
        &mut self,
        now: Moment,
        escalation: EscalationId,
        choice: Choice,
        by: Decider,
        note: Option<String>,
    ) {
        let Some(row) = self.escalations.remove(&escalation) else {
            return;
        };
        let stopped = self.stopped_paths.remove(&escalation);
        self.timers.disarm(row.expires, Timer::Question(escalation));
        let event = Event::Decided {
            escalation,
            action: row.action,
            choice,
            by,
            note: note.map(|note| bounded_text(&note)),
        };
        let seq = match row.action {
            Some(id) if self.actions.contains_key(&id) => self.record(now, id, event),
            _ => self.outbox.record(now, Durability::Power, event),
        };
        if let (Some((task, path)), Choice::Wait) = (stopped, choice) {
            self.outbox.after(seq, Output::OpenPath { task, path });
        }
    }

    /// What a decision about an action does.
    fn carry_out(
        &mut self,
        now: Moment,
        chance: &mut Chance,
        id: ActionId,
        choice: Choice,
        applied: Applied,
        said: &Said,
    ) {
        let by = &said.by;
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        match choices::effect(choice) {
            Effect::LookUp => {
                live.lookups_before = live.row.lookups;
                let why = format!("operator {by} asks for a look-up");
                self.start_look_up(now, id, now, &why);
            }
            Effect::SendOnce | Effect::WaitOn => {
                let why = format!("operator {by} decided");
                self.schedule_attempt(now, id, now, Cause::Person, &why, Budgets::Waived);
            }
            Effect::Supersede => self.supersede(now, chance, id),
            Effect::End | Effect::EndWithInstruction => {
                self.end_as_decided(now, id, choice, applied, said);
            }
        }
    }

    fn end_as_decided(
        &mut self,
        now: Moment,
        id: ActionId,
        choice: Choice,
        applied: Applied,
        said: &Said,
    ) {
        match (choice, applied) {
            (Choice::ItHappened, _) => self.it_happened(now, id, "person"),
            (Choice::ItDidNot, _) => {
                self.it_did_not(now, id, "person");
                let why = "an operator established that the operation did not happen";
                let code = Code::NotApplied;
                self.finish_with(now, id, State::FailedDefinite, code, why, None);
            }
            (_, applied) => {
                let why = match (choice, &said.note) {
                    (Choice::ChangePlan, Some(note)) => {
                        bounded_text(&format!("operator {} says: {note}", said.by))
                    }
                    _ => format!("operator {} gave the operation up", said.by),
                };
                let (state, code) = match applied {
                    Applied::Maybe => (State::AbandonedUnknown, Code::OutcomeUnknown),
                    Applied::No => (State::CancelledNotSent, Code::Cancelled),
                };
                self.finish_with(now, id, state, code, &why, None);
            }
        }
    }

    /// A person lets a new operation go in place of one whose outcome is
    /// unknown. The child is recorded before its parent ends: whatever a crash
    /// leaves of the two, there is one child.
    pub(super) fn supersede(&mut self, now: Moment, chance: &mut Chance, id: ActionId) {
        let live = &self.actions[&id];
        let setup = live.setup.clone();
        let parent = &live.row.requested;
        let key = parent
            .key
            .as_ref()
            .map(|_| ActionId(chance.id()).to_string());
        let requested = Arc::new(Requested {
            action: ActionId(chance.id()),
            key,
            parent: Some(id),
            deadline: Moment::NEVER,
            detached: true,
            ..Requested::clone(parent)
        });
        let ask = self.next_ask;
        self.next_ask += 1;
        let replaced_by = requested.action;
        let lane = self.lanes.of(&setup.scopes);
        let child = Live::new(ActionRow::open(&requested, now), setup, ask, lane);
        // Before the child's first record, which commits with the payload, and before
        // the parent's end, which erases it.
        self.outbox.free(Output::Child {
            parent: id,
            child: requested,
        });
        self.admit(now, child);
        self.end_superseded(now, id, replaced_by);
    }

    /// The parent of a child that is recorded ends.
    pub(super) fn end_superseded(&mut self, now: Moment, id: ActionId, child: ActionId) {
        let why = format!("an operator allowed a new operation in its place: action {child}");
        self.finish_with(now, id, State::Superseded, Code::Superseded, &why, None);
    }

    fn carry_out_for_scope(
        &mut self,
        now: Moment,
        chance: &mut Chance,
        scope: &Scope,
        choice: Choice,
        said: &Said,
    ) {
        let by = &said.by;
        // A person has looked at it: the refusals so far are dealt with.
        self.refusals.remove(scope);
        match choice {
            Choice::RaiseQuota => self.resume(now, chance, scope, by.clone()),
            Choice::ChangePlan => {
                let why = match &said.note {
                    Some(note) => bounded_text(&format!("operator {by} says: {note}")),
                    None => format!("operator {by} asks for another plan"),
                };
                self.give_up_waiting(now, scope, Code::Cancelled, &why);
            }
            Choice::Cancel => {
                let why = format!("operator {by} gave up what waits for {scope}");
                self.give_up_waiting(now, scope, Code::Cancelled, &why);
            }
            // It goes on waiting for what the provider said.
            _ => {}
        }
    }

    /// A question went unanswered: fail closed, and say so.
    pub(super) fn expire_question(&mut self, now: Moment, escalation: EscalationId, at: Moment) {
        let Some(row) = self.escalations.get(&escalation) else {
            return;
        };
        if row.expires != at {
            return;
        }
        let action = row.action;
        self.close_question(now, escalation, Choice::Cancel, Decider::Expiry, None);
        let Some(id) = action else { return };
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        let (state, code, why) = match live.row.uncertain {
            true => (
                State::AbandonedUnknown,
                Code::OutcomeUnknown,
                "nobody answered in time; whether it happened is not known",
            ),
            false => (
                State::FailedDefinite,
                Code::NotApplied,
                "nobody answered in time; it certainly did not happen",
            ),
        };
        self.finish_with(now, id, state, code, why, None);
        self.dispatch(now);
    }
}
