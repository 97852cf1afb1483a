//! Cancellation is final: nothing of it ever sends again.
//!
//! | where it is | what happens |
//! | --- | --- |
//! | waits, nothing may have arrived | ends at once, `cancelled_not_sent` |
//! | waits, an earlier attempt is unknown | look-ups go on; no attempt follows |
//! | a read or generation is out | the wire is stopped |
//! | a write is out | it finishes and its result is stored; no attempt follows |

use super::Engine;
use super::input::Chance;
use super::live::{Caller, Open};
use super::output::Output;
use crate::action::problem::Code;
use crate::event::{CancelledBy, Event};
use crate::id::{ActionId, Agent, Task};
use crate::time::Moment;
use crate::word::State;

/// The provider's answer stands because the action may not wait any longer.
pub(super) const WAIT_EXHAUSTED: &str = "wait_exhausted";

impl Engine {
    /// An action is told to stop. Unknown or ended ones are left alone.
    pub fn handle_cancel(&mut self, now: Moment, id: ActionId, by: CancelledBy) {
        let Some(live) = self.actions.get(&id) else {
            return;
        };
        if live.row.cancelled {
            return;
        }
        let (open, uncertain) = (live.open, live.row.uncertain);
        let is_write = live.row.requested.class.is_write();
        let escalated = live.row.state == State::Escalated;
        self.record(now, id, Event::Cancelled { action: id, by });
        match open {
            Some((Open::Attempt(_) | Open::Body(_), _)) if !is_write => {
                self.outbox.free(Output::Abort { action: id });
            }
            Some(_) => {}
            None if uncertain || escalated => {}
            None => {
                self.dequeue(id);
                self.finish_cancelled(now, id);
            }
        }
        self.dispatch(now);
    }

    /// Every action of a task is told to stop.
    pub fn handle_task_cancelled(
        &mut self,
        now: Moment,
        agent: &Agent,
        task: &Task,
        by: &CancelledBy,
    ) {
        let of_task: Vec<ActionId> = self
            .actions
            .values()
            .filter(|live| live.agent() == agent && live.row.requested.task.as_ref() == Some(task))
            .map(super::live::Live::id)
            .collect();
        for id in of_task {
            self.handle_cancel(now, id, by.clone());
        }
    }

    /// The caller's connection dropped. What still waits is withdrawn (the same
    /// key may be submitted again); a write that is out goes on.
    pub fn handle_caller_gone(&mut self, now: Moment, id: ActionId) {
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        live.caller = Caller::Gone;
        if live.row.requested.detached || live.row.uncertain || live.row.state == State::Escalated {
            return;
        }
        match live.open {
            Some((Open::Attempt(_) | Open::Body(_), _)) => {
                if !live.row.requested.class.is_write() {
                    self.outbox.free(Output::Abort { action: id });
                }
            }
            Some((Open::Lookup(_), _)) => {}
            None => {
                self.record(
                    now,
                    id,
                    Event::Cancelled {
                        action: id,
                        by: CancelledBy::Caller,
                    },
                );
                self.dequeue(id);
                self.finish_cancelled(now, id);
                self.dispatch(now);
            }
        }
    }

    /// Ends an action that was told to stop and certainly had no effect.
    pub(super) fn finish_cancelled(&mut self, now: Moment, id: ActionId) {
        self.finish(
            now,
            id,
            State::CancelledNotSent,
            Code::Cancelled.word(),
            |live| {
                Some(Output::Finish {
                    action: live.id(),
                    state: State::CancelledNotSent,
                    code: Code::Cancelled,
                    why: "cancelled before it had any effect".to_owned(),
                    operation_id: None,
                    escalation: None,
                    retry_at: None,
                })
            },
        );
    }

    /// After a lost commit: whoever still waits is let go. Nothing is recorded;
    /// what the journal knows decides what a rebuilt engine does.
    pub(super) fn let_go_after_fault(&mut self, id: ActionId) {
        let Some(live) = self.actions.remove(&id) else {
            return;
        };
        let on_the_wire = live.sent_at.is_some();
        let is_write = live.row.requested.class.is_write();
        let output = match (on_the_wire, is_write) {
            // Its answer, if one comes, passes to its caller: a read changes nothing.
            (true, false) => return,
            (true, true) => Output::Finish {
                action: id,
                state: State::Unknown,
                code: Code::OutcomeUnknown,
                why: "the journal can't be written, so what came of the write can't be recorded"
                    .to_owned(),
                operation_id: None,
                escalation: None,
                retry_at: None,
            },
            (false, _) => Output::Refuse {
                action: id,
                refusal: super::output::Refusal {
                    code: Code::AuditUnavailable,
                    scope: self.scope.clone(),
                    why: "the journal can't be written; nothing is sent unrecorded".to_owned(),
                    retry_at: None,
                },
            },
        };
        self.outbox.free(output);
    }

    /// The time for which a caller is held is over.
    pub(super) fn end_hold(&mut self, now: Moment, id: ActionId, at: Moment) {
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        if live.caller != Caller::Held(at) || live.open.is_some() {
            // An attempt that is out is not a wait: its answer decides.
            return;
        }
        if live.row.requested.detached {
            live.caller = Caller::Gone;
            return;
        }
        if live.never_sent() {
            let why = "it waited as long as its caller is held".to_owned();
            let call = super::dispatch::call_of(&live.setup, &live.row.requested);
            let scopes = live.setup.scopes.clone();
            let call = crate::ledger::Call {
                scopes: &scopes,
                ..call
            };
            let ahead = self.schedule.position(live.ask).unwrap_or(0);
            let retry_at = self.estimate(now, &call, ahead).map(|(at, _, _)| at);
            self.refuse_live(now, id, Code::HoldExceeded, why, retry_at);
            self.dispatch(now);
        } else if live.row.uncertain || live.row.state == State::Escalated {
            live.caller = Caller::Gone;
            let output = Output::Finish {
                action: id,
                state: live.row.state,
                code: Code::StillOpen,
                why: "what came of the write is still being established".to_owned(),
                operation_id: live.row.operation_id.clone(),
                escalation: live.row.escalation,
                retry_at: Some(live.row.not_before),
            };
            self.outbox.free(output);
        } else {
            self.give_last_answer(now, id, WAIT_EXHAUSTED);
        }
    }

    /// The deadline has come: nothing of the action is sent any more. What is
    /// uncertain is still looked up.
    pub(super) fn end_at_deadline(
        &mut self,
        now: Moment,
        chance: &mut Chance,
        id: ActionId,
        at: Moment,
    ) {
        let _ = chance;
        let Some(live) = self.actions.get(&id) else {
            return;
        };
        if live.row.requested.deadline != at
            || live.open.is_some()
            || live.row.uncertain
            || live.row.state == State::Escalated
        {
            return;
        }
        if live.never_sent() {
            let why = "its deadline passed while it waited".to_owned();
            self.refuse_live(now, id, Code::DeadlinePassed, why, None);
            self.dispatch(now);
        } else {
            self.give_last_answer(now, id, Code::DeadlinePassed.word());
        }
    }

    /// An action has waited as long as its budget allows.
    pub(super) fn end_wait_budget(
        &mut self,
        now: Moment,
        chance: &mut Chance,
        id: ActionId,
        at: Moment,
    ) {
        let _ = chance;
        let Some(live) = self.actions.get(&id) else {
            return;
        };
        if live.wait_until == at && live.turn.is_some() && !live.row.uncertain {
            self.give_last_answer(now, id, WAIT_EXHAUSTED);
        }
    }

    /// Ends a waiting action with the last answer that the provider gave.
    pub(super) fn give_last_answer(&mut self, now: Moment, id: ActionId, code: &'static str) {
        self.dequeue(id);
        self.finish(now, id, State::FailedDefinite, code, |live| {
            Some(Output::Deliver {
                action: live.id(),
                attempt: live.row.attempts,
                state: State::FailedDefinite,
            })
        });
        self.dispatch(now);
    }
}
