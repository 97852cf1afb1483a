//! What the decision tables are asked: an action, its evidence, and everything
//! that bounds another send.

use super::Engine;
use super::input::Chance;
use super::live::{Caller, LastWord, Live};
use crate::action::decide::{Interest, Judged, Ratio, Replay, ToAgent, decide};
use crate::action::next::Next;
use crate::action::outcome::{AfterUnknown, Evidence};
use crate::id::{AttemptNo, Scope};
use crate::observe::Meaning;
use crate::time::Moment;

impl Engine {
    /// Until when the provider itself holds a scope of the action, which is
    /// [`Moment::NEVER`] until a person reopens it. Only a refusal needs it, and
    /// most answers are none.
    fn gate(&self, now: Moment, live: &Live, evidence: &Evidence) -> Moment {
        if let Evidence::Answered { facts, .. } = evidence
            && facts.meaning == Meaning::Ok
        {
            return now;
        }
        self.held_until(now, live)
    }

    /// The latest end of what holds a scope of an action; `now` if nothing does.
    pub(super) fn held_until(&self, now: Moment, live: &Live) -> Moment {
        let held = |scope| self.ledger.held_until(now, scope);
        live.setup.scopes.iter().map(held).max().unwrap_or(now)
    }

    /// The scope of an action that is closed until a person reopens it.
    pub(super) fn shut_scope(&self, now: Moment, live: &Live) -> Option<Scope> {
        let is_shut = |scope: &&Scope| self.ledger.held_until(now, scope) == Moment::NEVER;
        live.setup.scopes.iter().find(is_shut).cloned()
    }

    /// An action and what was seen of its last attempt, as the tables take it.
    pub(super) fn judged<'a>(
        &'a self,
        now: Moment,
        chance: &mut Chance,
        live: &'a Live,
        evidence: &'a Evidence,
    ) -> Judged<'a> {
        let row = &live.row;
        let gate = self.gate(now, live, evidence);
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
            used: live.used(),
            lookups_made: live.lookups(),
            task: live.task,
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
            interest: match (row.cancelled, live.is_wanted()) {
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

    /// The same for an action whose attempt was settled by other means than its
    /// caller's wait: it goes on although nobody is held for it.
    pub(super) fn judged_for_itself<'a>(
        &'a self,
        now: Moment,
        chance: &mut Chance,
        live: &'a Live,
        evidence: &'a Evidence,
    ) -> Judged<'a> {
        let interest = match live.row.cancelled {
            true => Interest::Cancelled,
            false => Interest::Wanted,
        };
        Judged {
            after_unknown: AfterUnknown::No,
            interest,
            held_until: Moment::NEVER,
            ..self.judged(now, chance, live, evidence)
        }
    }
}

/// What is said if no further send is made.
pub(super) trait LastWords {
    fn last_word(&self, attempt: AttemptNo) -> LastWord;
}

impl LastWords for Judged<'_> {
    /// The table itself says it: its answer when nothing is kept for a repeat.
    fn last_word(&self, attempt: AttemptNo) -> LastWord {
        let final_word = Judged {
            replay: Replay::NotKept,
            ..*self
        };
        match decide(&final_word) {
            Next::GiveUp { code, .. } => LastWord::Own(code),
            _ => LastWord::Answer(attempt),
        }
    }
}
