//! Questions to a person: asked once per cause, bounded, and never open for ever.
//!
//! An action asks when nothing else can establish what happened. A scope asks
//! when no wait helps that anybody would bear, or when refusals keep coming
//! below the limit that was declared for it. What is asked is state, not a
//! paused call: its caller is let go with the question's id.

use super::Engine;
use super::input::Chance;
use super::output::{Output, Refusal};
use super::timers::Timer;
use crate::action::breaker::Path;
use crate::action::budget::RefusalWindow;
use crate::action::choices::{self, Applied, CanLookUp, KeyPromise, NewOperation, Situation};
use crate::action::decide::{Interest, Replay};
use crate::action::problem::Code;
use crate::event::{Durability, Event, bounded_text};
use crate::id::{ActionId, Endpoint, EscalationId, Scope};
use crate::ledger::Change;
use crate::record::EscalationRow;
use crate::tasks::TaskKey;
use crate::time::{Moment, Span};
use crate::word::{Mode, State, Trigger};

/// Most open questions about scopes; those about actions are bounded by the actions.
const QUESTIONS_MAX: usize = 10_000;
/// Scopes whose refusals are counted; the one that was refused longest ago is forgotten.
pub(super) const REFUSED_SCOPES_MAX: usize = 1_000;

/// Beyond this a hold is for a person to know, whatever it comes from.
const HELD_FOR_A_PERSON: Span = Span::from_secs(3_600);
/// Beyond this a wait for quota is, too: the longest window that is documented is a month.
const WAITED_FOR_A_PERSON: Span = Span::from_secs(32 * 24 * 3_600);

impl Engine {
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
        let live = &self.actions[&id];
        debug_assert!(
            live.turn.is_none() && live.open.is_none(),
            "a person is asked about what rests"
        );
        let escalation = EscalationId(chance.id());
        let event = Event::Escalated {
            escalation,
            action: Some(id),
            scope: live.setup.scopes.first().unwrap_or(&self.scope).clone(),
            trigger,
            choices: choices_of(&situation, now),
            why: bounded_text(why),
            version: live.row.version + 1,
            expires: now + self.policy.escalation_expires,
        };
        let row = EscalationRow::open(&event, now);
        let seq = self.record(now, id, event);
        self.take_question(row);
        self.outbox.after(seq, Output::Asked { escalation });
        self.let_go(id);
        // Also where the first caller has left: others may have joined since.
        let output = Output::Finish {
            action: id,
            state: State::Escalated,
            code: Code::Escalated,
            why: why.to_owned(),
            operation_id: self.actions[&id].row.operation_id.clone(),
            escalation: Some(escalation),
            retry_at: None,
        };
        self.outbox.after(seq, output);
    }

    /// An open question, from now on or as the tables have it.
    pub(super) fn take_question(&mut self, row: Option<EscalationRow>) {
        if let Some(row) = row {
            self.timers
                .arm(row.expires, Timer::Question(row.escalation));
            self.escalations.insert(row.escalation, row);
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
                None => KeyPromise::Nothing,
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
            } if self.charge_refusal(now, scope) => {
                let budget = self.policy.refusal_budget;
                let why = format!(
                    "{} refusals within {}: the declared limit may be wrong",
                    budget.events, budget.per
                );
                let scope = scope.clone();
                self.ask_about_scope(now, chance, scope, Trigger::LimitMisconfigured, &why);
            }
            // Whoever asked for it, and for whatever reason.
            Change::Mode {
                scope,
                to: Mode::Closed,
                why,
                next_allowed_at,
                ..
            } => {
                let until = next_allowed_at.unwrap_or(Moment::NEVER);
                self.ask_about_hold(now, chance, scope, until, why);
            }
            Change::Held { scope, why, until } => {
                self.ask_about_hold(now, chance, scope, *until, why);
            }
            _ => {}
        }
    }

    /// Asks a person about a hold that nobody would bear.
    fn ask_about_hold(
        &mut self,
        now: Moment,
        chance: &mut Chance,
        scope: &Scope,
        until: Moment,
        why: &str,
    ) {
        let held = until.since(now);
        if HELD_FOR_A_PERSON < held {
            // The same question as an action would ask whose answer is handed back.
            let (trigger, why) = match until {
                Moment::NEVER => (
                    Trigger::QuotaExhausted,
                    format!("it is held until somebody resumes it: {why}"),
                ),
                _ => (
                    Trigger::WaitBeyondDeadline,
                    format!("it is held for {held}: {why}"),
                ),
            };
            self.ask_about_scope(now, chance, scope.clone(), trigger, &why);
        }
    }

    /// Asks a person about what nobody waits for: a call is refused until then.
    pub(super) fn consider_refusal(&mut self, now: Moment, chance: &mut Chance, refusal: &Refusal) {
        if let Some(at) = refusal.retry_at {
            self.ask_about_wait(now, chance, &refusal.scope, at, &refusal.why);
        }
    }

    /// The same where calls wait, and nothing is out that could change anything.
    pub(super) fn consider_waits(&mut self, now: Moment, chance: &mut Chance) {
        // Cheap, because it is asked at every call and answer.
        let something_is_out = 0 < self.ledger.open();
        if something_is_out || self.wake.since(now) <= WAITED_FOR_A_PERSON {
            return;
        }
        let first = self.asks.values().next().copied();
        if let Some(parked) = first.and_then(|id| self.explain_wait(now, id)) {
            let until = parked.expected_start.unwrap_or(Moment::NEVER);
            let why = format!("calls wait: {}", parked.reason.word());
            self.ask_about_wait(now, chance, &parked.scope, until, &why);
        }
    }

    fn ask_about_wait(
        &mut self,
        now: Moment,
        chance: &mut Chance,
        scope: &Scope,
        until: Moment,
        why: &str,
    ) {
        if WAITED_FOR_A_PERSON < until.since(now) {
            let trigger = Trigger::WaitBeyondDeadline;
            self.ask_about_scope(now, chance, scope.clone(), trigger, why);
        }
    }

    /// Books a refusal on its scope. Says whether a person should be asked: the
    /// budget is spent, and there is a declared limit that may be wrong.
    fn charge_refusal(&mut self, now: Moment, scope: &Scope) -> bool {
        if !self.refusals.contains_key(scope) {
            self.refusals
                .retain(|_, window| window.moments().last().is_some());
            if REFUSED_SCOPES_MAX <= self.refusals.len() {
                let oldest = self
                    .refusals
                    .iter()
                    .min_by_key(|(_, window)| window.moments().last());
                if let Some(oldest) = oldest.map(|(scope, _)| scope.clone()) {
                    self.refusals.remove(&oldest);
                }
            }
        }
        let budget = self.policy.refusal_budget;
        let window = self
            .refusals
            .entry(scope.clone())
            .or_insert_with(|| RefusalWindow::new(budget));
        let spent = window.event(now);
        spent && self.ledger.has_declared_quota(scope)
    }

    /// The breaker of a task stopped the path of a write: a person is asked once
    /// whether it may be opened again. `why` is what the agent is told.
    pub fn handle_path_stopped(
        &mut self,
        now: Moment,
        mut chance: Chance,
        task: TaskKey,
        endpoint: Endpoint,
        why: &str,
    ) {
        if self.outbox.is_poisoned() {
            return;
        }
        let scope = endpoint_scope(&endpoint).unwrap_or_else(|| self.scope.clone());
        let trigger = Trigger::BreakerTripped;
        if let Some(question) = self.ask_about_scope(now, &mut chance, scope, trigger, why) {
            let account = self.account.clone();
            let path = Path { account, endpoint };
            self.stopped_paths.insert(question, (task, path));
        }
    }

    /// Asks a person about a scope, once per cause. Gives the question, if it is new.
    pub(super) fn ask_about_scope(
        &mut self,
        now: Moment,
        chance: &mut Chance,
        scope: Scope,
        trigger: Trigger,
        why: &str,
    ) -> Option<EscalationId> {
        // A wait that is too long needs no question of its own where somebody is
        // asked about the same scope already.
        let asked = self.escalations.values().any(|row| {
            row.action.is_none()
                && row.scope == scope
                && (row.trigger == trigger || trigger == Trigger::WaitBeyondDeadline)
        });
        if asked || QUESTIONS_MAX <= self.escalations.len() {
            return None;
        }
        let escalation = EscalationId(chance.id());
        let event = Event::Escalated {
            escalation,
            action: None,
            scope,
            trigger,
            choices: choices_of(&scope_situation(trigger), now),
            why: bounded_text(why),
            version: 1,
            expires: now + self.policy.escalation_expires,
        };
        let row = EscalationRow::open(&event, now);
        let seq = self.outbox.record(now, Durability::Process, event);
        self.take_question(row);
        self.outbox.after(seq, Output::Asked { escalation });
        Some(escalation)
    }
}

/// `endpoint:POST /jobs`, unless the template is too long for a name.
fn endpoint_scope(endpoint: &Endpoint) -> Option<Scope> {
    Scope::new(&format!("endpoint:{endpoint}")).ok()
}

/// What a question about a scope is about: nothing was sent, and something waits.
fn scope_situation(trigger: Trigger) -> Situation {
    Situation {
        trigger,
        applied: Applied::No,
        lookup: CanLookUp::No,
        key: KeyPromise::Nothing,
        new_operation: NewOperation::Forbidden,
        replay: Replay::Kept,
        interest: Interest::Wanted,
    }
}

fn choices_of(situation: &Situation, now: Moment) -> Vec<crate::word::Choice> {
    let offers = choices::offers(situation, now);
    offers.into_iter().map(|offer| offer.choice).collect()
}
