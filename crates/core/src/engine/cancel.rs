//! Cancellation is final: nothing of it ever sends again.
//!
//! | where it is | what happens |
//! | --- | --- |
//! | waits, nothing may have arrived | ends at once, `cancelled_not_sent` |
//! | waits to repeat an attempt of unknown outcome | look-ups if possible, else ends as unknown |
//! | is being looked up | look-ups go on; no attempt follows |
//! | is with a person | stays there; nothing that sends is offered any more |
//! | is granted, its first byte has not left | it is called back: that byte never leaves |
//! | a read or generation is out | the wire is stopped |
//! | a write is out | it finishes and its result is stored; no attempt follows |
//!
//! "Has left" is decided here, under the engine's lock, by the question that comes
//! just before the first byte ([`Engine::handle_sent`]), so a confirmed cancellation
//! can't be overtaken by a send that was still dialling.
//!
//! A caller that merely leaves withdraws what still waits or dials; its key may come back.

use super::Engine;
use super::input::Chance;
use super::live::{Leave, Live, OnWire, Open, Turn};
use super::output::Output;
use crate::action::problem::Code;
use crate::event::{CancelledBy, Event};
use crate::id::ActionId;
use crate::tasks::TaskKey;
use crate::time::Moment;
use crate::word::State;

/// Whether a send can be stopped without leaving something unknown behind.
fn may_be_stopped(wire: OnWire, is_write: bool) -> bool {
    match wire.what {
        Open::Attempt(_) => !is_write || wire.sent_at.is_none(),
        Open::Body(_) => !is_write,
        // A look-up settles what was sent, whoever wants it.
        Open::Lookup(_) => false,
    }
}

impl Engine {
    /// An action is told to stop. Unknown or ended ones are left alone.
    pub fn handle_cancel(
        &mut self,
        now: Moment,
        mut chance: Chance,
        id: ActionId,
        by: CancelledBy,
    ) {
        self.cancel(now, &mut chance, id, by);
        self.dispatch(now);
    }

    /// A task was told to stop, so often by now: so is every action that it had in
    /// hand then.
    pub fn handle_task_cancelled(
        &mut self,
        now: Moment,
        mut chance: Chance,
        task: &TaskKey,
        stops: u32,
        by: &CancelledBy,
    ) {
        let of_task: Vec<ActionId> = self
            .actions
            .values()
            .filter(|live| live.row.requested.task_stops < stops)
            .filter(|live| *live.agent() == task.0 && live.task_key() == *task)
            .map(Live::id)
            .collect();
        for id in of_task {
            self.cancel(now, &mut chance, id, by.clone());
        }
        self.dispatch(now);
    }

    fn cancel(&mut self, now: Moment, chance: &mut Chance, id: ActionId, by: CancelledBy) {
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        if live.row.cancelled || self.outbox.is_poisoned() {
            return;
        }
        self.record(now, id, Event::Cancelled { action: id, by });
        let live = &self.actions[&id];
        let is_write = live.row.requested.class.is_write();
        match (live.open, live.turn) {
            (Some(wire), _) if may_be_stopped(wire, is_write) => self.call_back(id),
            (Some(_), _) => {}
            (None, Some(Turn::Attempt(_))) if live.row.uncertain => {
                let why = "it was cancelled while an attempt of it may have happened";
                self.stop_repeating(now, chance, id, why);
            }
            (None, Some(Turn::Attempt(_))) => {
                self.dequeue(now, id);
                self.finish_cancelled(now, id);
            }
            // Being looked up, or with a person.
            (None, Some(Turn::Lookup) | None) => {}
        }
    }

    /// The caller's connection dropped. What still waits is withdrawn (the same
    /// key may be submitted again); a write that is out goes on.
    pub fn handle_caller_gone(&mut self, now: Moment, id: ActionId) {
        self.let_go(id);
        let Some(live) = self.actions.get(&id) else {
            return;
        };
        if live.row.requested.detached || live.row.uncertain || self.outbox.is_poisoned() {
            return;
        }
        let is_write = live.row.requested.class.is_write();
        match (live.open, live.turn) {
            (Some(wire), _) if may_be_stopped(wire, is_write) => self.call_back(id),
            (None, Some(Turn::Attempt(_))) => {
                let by = CancelledBy::Caller;
                self.dequeue(now, id);
                self.record(now, id, Event::Cancelled { action: id, by });
                self.finish_cancelled(now, id);
                self.dispatch(now);
            }
            _ => {}
        }
    }

    /// Stops what is out for an action: if its first byte has not left, it won't.
    fn call_back(&mut self, id: ActionId) {
        if let Some(live) = self.actions.get_mut(&id)
            && let Some(wire) = &mut live.open
        {
            wire.leave = Leave::CalledBack;
        }
        self.outbox.free(Output::Abort { action: id });
    }

    /// After a lost commit: whoever still waits is let go. Nothing is recorded;
    /// what the journal knows decides what a rebuilt engine does. A read whose
    /// grant left is its runner's, also while it dials: it stays here until that
    /// reports, and is answered then.
    pub(super) fn let_go_after_fault(&mut self, id: ActionId, never_granted: bool) {
        let Some(live) = self.actions.get(&id) else {
            return;
        };
        let out = live.open.filter(|wire| match wire.what {
            Open::Attempt(_) => !never_granted,
            Open::Body(_) => true,
            Open::Lookup(_) => false,
        });
        let has_left = out.is_some_and(|wire| wire.sent_at.is_some());
        let may_have_arrived = has_left || live.row.uncertain;
        let is_write = live.row.requested.class.is_write();
        if live.row.requested.detached && !is_write {
            // Nobody waits for it here; whoever takes the account up sends it again.
            self.actions.remove(&id);
            return;
        }
        let output = match (is_write, may_have_arrived) {
            // Its answer, if one comes, passes to its caller: a read changes nothing.
            (false, _) if out.is_some() => return,
            (true, true) => Output::Finish {
                action: id,
                state: State::Unknown,
                code: Code::OutcomeUnknown,
                why: "the journal can't be written, so what came of the write can't be recorded"
                    .to_owned(),
                operation_id: live.row.operation_id.clone(),
                escalation: live.row.escalation,
                retry_at: None,
            },
            _ => Output::Refuse {
                action: id,
                refusal: super::output::Refusal {
                    code: Code::AuditUnavailable,
                    scope: self.scope.clone(),
                    why: "the journal can't be written; nothing is sent unrecorded".to_owned(),
                    retry_at: None,
                },
            },
        };
        self.actions.remove(&id);
        self.outbox.free(output);
    }
}
