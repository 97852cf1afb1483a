//! Questions to a person: asked once per cause, answered once, and never open for ever.

use super::Engine;
use super::input::{Chance, Decision};
use super::live::{Caller, Turn};
use super::output::{Following, Output};
use super::timers::Timer;
use crate::action::choices::{self, Applied, CanLookUp, KeyPromise, NewOperation, Situation};
use crate::action::decide::{Interest, Replay};
use crate::action::problem::Code;
use crate::event::{Decider, Durability, Event, bounded_text};
use crate::id::{ActionId, EscalationId, Operator, Scope};
use crate::ledger::Change;
use crate::record::EscalationRow;
use crate::time::Moment;
use crate::word::{Cause, Choice, State, Trigger};

/// Most open questions of one account; the actions bound the rest.
const QUESTIONS_MAX: usize = 10_000;

/// Why a decision is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecisionError {
    /// There is no such open question: it was answered, or ran out.
    NotOpen,
    /// The choice was not offered.
    NotOffered {
        /// What is offered.
        offered: Vec<Choice>,
    },
    /// Something changed since the question was shown.
    Changed {
        /// The version now.
        version: u32,
    },
    /// The journal can't be written.
    AuditUnavailable,
}

impl Engine {
    /// A person answers. Exactly one answer wins; what follows leaves through
    /// the outputs once the answer is durable.
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
        let Some(row) = self.escalations.get(&escalation) else {
            return Err(DecisionError::NotOpen);
        };
        if !row.choices.contains(&decision.choice) {
            return Err(DecisionError::NotOffered {
                offered: row.choices.clone(),
            });
        }
        if decision
            .version
            .is_some_and(|version| version != row.version)
        {
            return Err(DecisionError::Changed {
                version: row.version,
            });
        }
        let action = row.action;
        // What was offered may no longer hold: a key can grow too old while a person thinks.
        if let Some(id) = action
            && let Some(situation) = self.situation(id, row.trigger)
        {
            if !choices::is_offered(decision.choice, &situation, now) {
                let offered = choices::offers(&situation, now);
                let offered = offered.into_iter().map(|offer| offer.choice).collect();
                return Err(DecisionError::NotOffered { offered });
            }
        }
        let scope = row.scope.clone();
        self.close_question(
            now,
            escalation,
            action,
            decision.choice,
            Decider::Operator(decision.by.clone()),
            decision.note,
        );
        match action {
            Some(id) => self.carry_out(now, &mut chance, id, decision.choice, decision.by),
            None => {
                self.carry_out_for_scope(now, &mut chance, &scope, decision.choice, decision.by)
            }
        }
        self.dispatch(now);
        Ok(())
    }

    fn close_question(
        &mut self,
        now: Moment,
        escalation: EscalationId,
        action: Option<ActionId>,
        choice: Choice,
        by: Decider,
        note: Option<String>,
    ) {
        let Some(row) = self.escalations.remove(&escalation) else {
            return;
        };
        self.timers.disarm(row.expires, Timer::Question(escalation));
        let event = Event::Decided {
            escalation,
            action,
            choice,
            by,
            note: note.map(|note| bounded_text(&note)),
        };
        match action {
            Some(id) if self.actions.contains_key(&id) => {
                self.record(now, id, event);
            }
            _ => {
                self.outbox.record(now, Durability::Power, event);
            }
        }
    }

    /// What a decision about an action does.
    fn carry_out(
        &mut self,
        now: Moment,
        chance: &mut Chance,
        id: ActionId,
        choice: Choice,
        by: Operator,
    ) {
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        match choice {
            Choice::Query => {
                // The person's own look-ups come on top of the budget that is used up.
                self.record(
                    now,
                    id,
                    Event::ReconciliationRequired {
                        action: id,
                        why: format!("operator {by} asks for a look-up"),
                        not_before: now,
                    },
                );
                self.enqueue(now, id, Turn::Lookup, now);
                let next = Following::Lookup;
                self.outbox.free(Output::Continue {
                    action: id,
                    next,
                    due: now,
                });
            }
            Choice::RetrySameKey => {
                live.extra_attempts += 1;
                let why = format!("operator {by} decided");
                self.schedule_attempt(now, id, now, Cause::Person, why);
            }
            Choice::ItHappened => self.reconciled(now, id, "person"),
            Choice::ItDidNot => {
                self.record(
                    now,
                    id,
                    Event::Reconciled {
                        action: id,
                        applied: false,
                        by: "person".to_owned(),
                        operation_id: None,
                    },
                );
                self.finish_in_own_words(
                    now,
                    id,
                    State::FailedDefinite,
                    Code::NotApplied,
                    "an operator established that the operation did not happen",
                );
            }
            Choice::SendNew => {
                self.finish_in_own_words(
                    now,
                    id,
                    State::Superseded,
                    Code::Superseded,
                    "an operator allowed a new operation in place of this one; send it again with a new key",
                );
            }
            Choice::Cancel => {
                let live_is_uncertain = live.row.uncertain;
                let state = if live_is_uncertain {
                    State::AbandonedUnknown
                } else {
                    State::CancelledNotSent
                };
                self.finish_in_own_words(
                    now,
                    id,
                    state,
                    if live_is_uncertain {
                        Code::OutcomeUnknown
                    } else {
                        Code::Cancelled
                    },
                    "an operator gave the operation up",
                );
            }
            Choice::Wait | Choice::RaiseQuota | Choice::ChangePlan => {
                // Offered for waits only, and waits are asked about per scope.
                let why = "an operator chose to wait";
                self.ask_about(now, chance, id, Trigger::UncertainEffect, why);
            }
        }
    }

    fn carry_out_for_scope(
        &mut self,
        now: Moment,
        chance: &mut Chance,
        scope: &Scope,
        choice: Choice,
        by: Operator,
    ) {
        match choice {
            Choice::Wait => self.handle_resume(now, *chance, scope, by),
            _ => {
                // Cancel: whatever waits for the scope and was never sent is handed back.
                let waiting: Vec<ActionId> = self
                    .asks
                    .values()
                    .filter(|id| {
                        self.actions.get(id).is_some_and(|live| {
                            live.never_sent() && live.setup.scopes.contains(scope)
                        })
                    })
                    .copied()
                    .collect();
                for id in waiting {
                    let why = format!("operator {by} gave up what waits for {scope}");
                    self.refuse_live(now, id, Code::Cancelled, why, None);
                }
            }
        }
    }

    /// Asks a person about an action.
    pub(super) fn ask_about(
        &mut self,
        now: Moment,
        chance: &mut Chance,
        id: ActionId,
        trigger: Trigger,
        why: &str,
    ) {
        let Some(situation) = self.situation(id, trigger) else {
            return;
        };
        let offers = choices::offers(&situation, now);
        let choices = offers.into_iter().map(|offer| offer.choice).collect();
        let live = &self.actions[&id];
        let escalation = EscalationId(chance.id());
        let scope = live.setup.scopes.first().unwrap_or(&self.scope).clone();
        let event = Event::Escalated {
            escalation,
            action: Some(id),
            scope,
            trigger,
            choices,
            why: bounded_text(why),
            version: live.row.version + 1,
            expires: now + self.policy.escalation_expires,
        };
        let row = EscalationRow::open(&event, now);
        let seq = self.record(now, id, event);
        if let Some(row) = row {
            self.timers.arm(row.expires, Timer::Question(escalation));
            self.escalations.insert(escalation, row);
        }
        self.outbox.after(seq, Output::Asked { escalation });
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        let held = matches!(live.caller, Caller::Held(_));
        live.caller = Caller::Gone;
        if held {
            let output = Output::Finish {
                action: id,
                state: State::Escalated,
                code: Code::Escalated,
                why: why.to_owned(),
                operation_id: live.row.operation_id.clone(),
                escalation: Some(escalation),
                retry_at: None,
            };
            self.outbox.after(seq, output);
        }
    }

    /// What a question about an action is about, as things stand.
    pub fn situation(&self, id: ActionId, trigger: Trigger) -> Option<Situation> {
        let live = self.actions.get(&id)?;
        let profile = &live.setup.profile;
        Some(Situation {
            trigger,
            applied: if live.row.uncertain {
                Applied::Maybe
            } else {
                Applied::No
            },
            lookup: if profile.lookup.is_some() {
                CanLookUp::Yes
            } else {
                CanLookUp::No
            },
            key: match live.row.requested.key {
                Some(_) => KeyPromise::of(profile, live.row.key_safe_until),
                _ => KeyPromise::Nothing,
            },
            new_operation: if live.setup.may_send_new {
                NewOperation::Allowed
            } else {
                NewOperation::Forbidden
            },
            replay: if live.row.requested.replayable {
                Replay::Kept
            } else {
                Replay::NotKept
            },
            // A cancelled action is never sent again, whoever decides.
            interest: if live.row.cancelled {
                Interest::Cancelled
            } else {
                Interest::Wanted
            },
        })
    }

    /// Asks a person about what changed in the ledger, where it calls for one.
    pub(super) fn consider_asking(&mut self, now: Moment, chance: &mut Chance, change: &Change) {
        match change {
            Change::Hopeless { scope, why } => {
                let (scope, why) = (scope.clone(), why.clone());
                self.ask_about_scope(now, chance, scope, Trigger::QuotaExhausted, &why);
            }
            Change::Refused {
                scope, echo: false, ..
            } => {
                if self.refusals.event(now) {
                    let budget = self.policy.refusal_budget;
                    let why = format!(
                        "{} refusals within {}: the declared limit may be wrong",
                        budget.events, budget.per
                    );
                    let scope = scope.clone();
                    self.ask_about_scope(now, chance, scope, Trigger::LimitMisconfigured, &why);
                }
            }
            _ => {}
        }
    }

    /// Asks a person about a scope, once per cause.
    pub(super) fn ask_about_scope(
        &mut self,
        now: Moment,
        chance: &mut Chance,
        scope: Scope,
        trigger: Trigger,
        why: &str,
    ) {
        let asked = self
            .escalations
            .values()
            .any(|row| row.scope == scope && row.trigger == trigger && row.action.is_none());
        if asked || QUESTIONS_MAX <= self.escalations.len() {
            return;
        }
        let escalation = EscalationId(chance.id());
        let event = Event::Escalated {
            escalation,
            action: None,
            scope,
            trigger,
            choices: vec![Choice::Wait, Choice::Cancel],
            why: bounded_text(why),
            version: 1,
            expires: now + self.policy.escalation_expires,
        };
        let row = EscalationRow::open(&event, now);
        let seq = self.outbox.record(now, Durability::Process, event);
        if let Some(row) = row {
            self.timers.arm(row.expires, Timer::Question(escalation));
            self.escalations.insert(escalation, row);
        }
        self.outbox.after(seq, Output::Asked { escalation });
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
        self.close_question(
            now,
            escalation,
            action,
            Choice::Cancel,
            Decider::Expiry,
            None,
        );
        let Some(id) = action else { return };
        if self.actions.contains_key(&id) {
            self.finish_in_own_words(
                now,
                id,
                State::AbandonedUnknown,
                Code::OutcomeUnknown,
                "nobody answered in time; whether it happened is not known",
            );
        }
    }
}
