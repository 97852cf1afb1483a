//! The end of an action: its record first, then its caller.

use super::Engine;
use super::admit::{Finished, Payload};
use super::live::{Caller, LastWord, Live};
use super::output::Output;
use super::timers::Timer;
use crate::action::problem::Code;
use crate::event::Event;
use crate::id::ActionId;
use crate::time::Moment;
use crate::word::State;

/// Finished keys that are remembered here, so that a repeat that races the end
/// of its action finds it. The store knows all of them.
const FINISHED_KEYS_MAX: usize = 10_000;

impl Engine {
    /// Ends an action. What `output` says leaves once the end is durable, unless
    /// nothing relies on its record ([`Live::answers_at_once`]).
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
        debug_assert!(
            !(live.row.uncertain && state == State::FailedDefinite),
            "failed is said only of what certainly did not happen"
        );
        let at_once = live.answers_at_once();
        let event = Event::Terminal {
            action: id,
            state,
            code: code.to_owned(),
            attempts: live.row.attempts,
            waited: live.row.waited,
        };
        let output = output(live);
        let seq = self.record(now, id, event);
        let Some(live) = self.actions.remove(&id) else {
            return;
        };
        self.disarm_all(&live);
        self.remember_finished(&live);
        match output {
            Some(output) if at_once => self.outbox.free(output),
            Some(output) => self.outbox.after(seq, output),
            None => {}
        }
    }

    /// Ends an action in the governor's own words.
    pub(super) fn finish_with(
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

    /// Ends an action that was told to stop and certainly had no effect.
    pub(super) fn finish_cancelled(&mut self, now: Moment, id: ActionId) {
        let (state, code) = (State::CancelledNotSent, Code::Cancelled);
        let why = "cancelled before it had any effect";
        self.finish_with(now, id, state, code, why, None);
    }

    /// Ends a waiting action with the last word that there is: the provider's
    /// last answer, or what the governor says where none came.
    pub(super) fn give_last_word(&mut self, now: Moment, id: ActionId) {
        self.dequeue(now, id);
        let state = State::FailedDefinite;
        match self.actions.get(&id).map(|live| live.last_word) {
            Some(LastWord::Answer(attempt)) => {
                let code = self.actions[&id].code_of_answer(true);
                self.finish(now, id, state, code, |live| {
                    Some(Output::Deliver {
                        action: live.id(),
                        attempt,
                        state,
                    })
                });
            }
            Some(LastWord::Own(code)) => {
                self.finish_with(now, id, state, code, code.problem().detail, None);
            }
            Some(LastWord::Nothing) => {
                let code = Code::Interrupted;
                self.finish_with(now, id, state, code, code.problem().detail, None);
            }
            None => {}
        }
        self.dispatch(now);
    }

    /// The caller is held no longer.
    pub(super) fn let_go(&mut self, id: ActionId) {
        if let Some(live) = self.actions.get_mut(&id)
            && let Caller::Held(until) = live.caller
        {
            live.caller = Caller::Gone;
            self.timers.disarm(until, Timer::Hold(id));
        }
    }

    fn disarm_all(&mut self, live: &Live) {
        let id = live.id();
        self.timers
            .disarm(live.row.requested.deadline, Timer::Deadline(id));
        self.timers.disarm(live.wait_until, Timer::WaitBudget(id));
        if let Some(end) = live.row.key_safe_until {
            self.timers.disarm(end, Timer::KeyEnd(id));
        }
        if let Caller::Held(until) = live.caller {
            self.timers.disarm(until, Timer::Hold(id));
        }
    }

    /// Remembers a finished key for a while, and forgets the rest.
    fn remember_finished(&mut self, live: &Live) {
        let requested = &live.row.requested;
        self.equals.remove(&(requested.fingerprint, live.id()));
        if live.row.uncertain {
            self.doubts.remove(&(requested.endpoint.clone(), live.id()));
        }
        let Some(key) = requested.key.clone() else {
            return;
        };
        if self.keys.get(&key) == Some(&live.id()) {
            self.keys.remove(&key);
        }
        self.finishes += 1;
        let finished = Finished {
            order: self.finishes,
            action: live.id(),
            payload: Payload::of(requested),
            again: live.row.may_be_sent_anew().then(|| live.used()),
        };
        self.forget_finished(&key);
        self.finished_order.insert(finished.order, key.clone());
        self.finished.insert(key, finished);
        while FINISHED_KEYS_MAX < self.finished_order.len() {
            if let Some((_, oldest)) = self.finished_order.pop_first() {
                self.finished.remove(&oldest);
            }
        }
    }

    /// A key is in use again.
    pub(super) fn forget_finished(&mut self, key: &str) {
        if let Some(finished) = self.finished.remove(key) {
            self.finished_order.remove(&finished.order);
        }
    }
}
