//! What happens to an action when its time is over.
//!
//! | its time | it never left | its attempts had no effect | one may have had |
//! | --- | --- | --- | --- |
//! | to hold its caller | refused, with a time | the last word | caller let go, goes on |
//! | to its deadline | refused | the last word | no repeat: looked up, or a person |
//! | to wait for a repeat | – | the last word | no repeat: looked up, or a person |
//! | to use its key | – | the last word | no repeat: looked up, or a person |
//!
//! A send that is out is not a wait: its answer decides. What a person decided
//! is bound by none of these but the key.

use super::Engine;
use super::input::Chance;
use super::live::{Caller, Turn};
use super::output::{Output, Refusal, WaitReason};
use crate::action::problem::Code;
use crate::id::ActionId;
use crate::ledger::Reason;
use crate::time::Moment;
use crate::word::Cause;

/// Why a key is not used again.
const KEY_TOO_OLD: &str =
    "the key is older than the provider promises to remember it, and an attempt may have arrived";
/// Why a repeat is not made.
const NO_TIME_LEFT: &str = "the time to repeat it is over, and an attempt may have happened";

impl Engine {
    /// The time for which a caller is held is over.
    pub(super) fn end_hold(&mut self, now: Moment, id: ActionId, at: Moment) {
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        if live.caller != Caller::Held(at) || live.open.is_some() {
            return;
        }
        if live.row.requested.detached {
            live.caller = Caller::Gone;
        } else if live.turn != Some(Turn::Lookup) && live.never_sent() {
            self.refuse_at_the_end(now, id, at);
        } else if live.row.uncertain || live.row.escalation.is_some() {
            live.caller = Caller::Gone;
            let output = Output::Finish {
                action: id,
                state: live.row.state,
                code: Code::StillOpen,
                why: "what came of the write is still being established".to_owned(),
                operation_id: live.row.operation_id.clone(),
                escalation: live.row.escalation,
                retry_at: Some(live.row.not_before.max(now)),
            };
            self.outbox.free(output);
        } else {
            self.give_last_word(now, id);
        }
    }

    /// Its hold ended while a send was out: what follows the answer is a wait again.
    pub(super) fn let_go_if_over(&mut self, now: Moment, id: ActionId) {
        if let Some(live) = self.actions.get(&id)
            && let Caller::Held(at) = live.caller
            && at <= now
        {
            self.end_hold(now, id, at);
        }
    }

    fn refuse_at_the_end(&mut self, now: Moment, id: ActionId, held_until: Moment) {
        let live = &self.actions[&id];
        let held = held_until.since(live.row.requested_at);
        let call = super::dispatch::call_of(live);
        let wait = self.wait_of(now, &call, self.line_of(live));
        let reason = wait.as_ref().map(|wait| wait.reason);
        let (scope, until) = match wait {
            Some(wait) => (wait.scope, wait.until),
            None => (self.scope.clone(), Some(now)),
        };
        let code = match (until, reason) {
            (None, _) | (_, Some(WaitReason::Scope(Reason::Exhausted))) => Code::QuotaExhausted,
            (Some(_), _) => Code::HoldExceeded,
        };
        let refusal = Refusal {
            code,
            scope,
            why: format!("it waited for the {held} that its caller is held"),
            retry_at: until,
        };
        self.refuse_live_with(now, id, refusal);
        self.dispatch(now);
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
        let Some(live) = self.actions.get(&id) else {
            return;
        };
        if live.row.requested.deadline != at {
            return;
        }
        match live.turn {
            Some(Turn::Attempt(Cause::Person)) | Some(Turn::Lookup) | None => {}
            Some(Turn::Attempt(_)) if live.never_sent() => {
                let why = "its deadline passed while it waited".to_owned();
                self.refuse_live(now, id, Code::DeadlinePassed, why, None);
                self.dispatch(now);
            }
            Some(Turn::Attempt(_)) => self.end_wait(now, chance, id, NO_TIME_LEFT),
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
        if let Some(live) = self.actions.get(&id)
            && live.wait_until == at
            && matches!(live.turn, Some(Turn::Attempt(_)))
        {
            self.end_wait(now, chance, id, NO_TIME_LEFT);
        }
    }

    /// The key of an action may not be used any more.
    pub(super) fn end_key(&mut self, now: Moment, chance: &mut Chance, id: ActionId, at: Moment) {
        if let Some(live) = self.actions.get(&id)
            && live.row.key_safe_until == Some(at)
            && live.row.maybe_arrived
            && matches!(live.turn, Some(Turn::Attempt(_)))
        {
            self.end_wait(now, chance, id, KEY_TOO_OLD);
        }
    }

    fn end_wait(&mut self, now: Moment, chance: &mut Chance, id: ActionId, why: &str) {
        if self.actions[&id].row.uncertain {
            self.stop_repeating(now, chance, id, why);
            self.let_go_if_over(now, id);
            self.dispatch(now);
        } else {
            self.give_last_word(now, id);
        }
    }
}
