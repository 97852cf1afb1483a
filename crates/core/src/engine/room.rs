//! The bounds of the queue: whether one more call may wait, and who makes room.
//!
//! | bound | who goes |
//! | --- | --- |
//! | `max_waiting` of the account | its newest call of the lowest rank (R-SCHED-4) |
//! | `max_waiting_per_agent` | the agent's newest call of its lowest rank |
//! | the time for which its caller is held, its deadline | the call itself, with the time |
//!
//! If the newest of the lowest rank is the arriving call itself, or one that
//! was sent before, the arriving call is turned away.

use super::Engine;
use super::follow::until_reopened;
use super::live::{Caller, Live, Turn};
use super::outlook::{Line, Wait};
use super::output::{Output, Refusal, WaitReason};
use crate::action::problem::Code;
use crate::id::{ActionId, Scope};
use crate::ledger::Reason;
use crate::schedule::{AskKey, Full, Waiter};
use crate::time::{Moment, Span};
use crate::word::{Priority, State};

/// When nobody can say when there will be room, a caller may come back then.
const COME_BACK: Span = Span::from_secs(1);

impl Engine {
    /// Whether the call may become an action. Making room may hand back another one.
    pub(super) fn admissible(&mut self, now: Moment, live: &Live) -> Result<(), Refusal> {
        let requested = &live.row.requested;
        if self.outbox.is_poisoned() {
            let why = "the journal can't be written; nothing is sent unrecorded".to_owned();
            let retry_at = Some(now + Span::from_secs(5));
            return Err(self.refusal(Code::AuditUnavailable, why, retry_at));
        }
        if requested.deadline <= now {
            let why = "the deadline has passed".to_owned();
            return Err(self.refusal(Code::DeadlinePassed, why, None));
        }
        let arriving = self.waiter(live, now);
        let of_agent = self
            .loads
            .of(&requested.agent)
            .map_or(0, super::loads::Load::waiting);
        if self.policy.max_waiting_per_agent <= of_agent {
            let why = format!("agent {} has {of_agent} calls waiting", requested.agent);
            self.make_room(now, &arriving, Full::Agent, Code::AgentQueueFull, why)?;
        }
        if self.policy.max_waiting <= self.asks.len() {
            let why = format!("{} calls wait for this account", self.asks.len());
            self.make_room(now, &arriving, Full::Account, Code::QueueFull, why)?;
        }
        self.fits_in_time(now, live, arriving)
    }

    /// Whether the call can start while somebody waits for it. If so it has its
    /// place in the schedule already: its position is asked of the queue itself,
    /// and counts what it will count while the call waits.
    fn fits_in_time(&mut self, now: Moment, live: &Live, arriving: Waiter) -> Result<(), Refusal> {
        let ask = arriving.ask;
        self.schedule.insert(now, arriving);
        let fits = self.starts_in_time(now, live);
        if fits.is_err() {
            self.schedule.remove(ask);
        }
        fits
    }

    fn starts_in_time(&self, now: Moment, live: &Live) -> Result<(), Refusal> {
        let requested = &live.row.requested;
        let call = super::dispatch::call_of(live);
        let held_until = match live.caller {
            Caller::Held(until) if !requested.detached => until,
            _ => Moment::NEVER,
        };
        // A call that fits with everybody before it fits wherever its place is,
        // and that place is dear to find.
        let waiting = self.asks.len();
        let last = Line {
            ahead: waiting,
            own: waiting,
        };
        match self.wait_of(now, &call, last) {
            None => return Ok(()),
            Some(Wait {
                until: Some(at), ..
            }) if at <= held_until.min(requested.deadline) => return Ok(()),
            Some(_) => {}
        }
        let Some(wait) = self.wait_of(now, &call, self.line_of(live)) else {
            return Ok(());
        };
        let reason = wait.reason;
        let exhausted = reason == WaitReason::Scope(Reason::Exhausted);
        let shut = exhausted || reason == WaitReason::Scope(Reason::Closed);
        let (code, why, retry_at) = match wait.until {
            None if shut => {
                let why = until_reopened(&wait.scope);
                (Code::QuotaExhausted, why, None)
            }
            Some(at) if exhausted && requested.deadline.min(held_until) < at => {
                let why = format!(
                    "{} is used up until then; {}",
                    wait.scope,
                    at_the_earliest(now, at, reason)
                );
                (Code::QuotaExhausted, why, Some(at))
            }
            Some(at) if requested.deadline < at => {
                let why = format!(
                    "{}; its deadline is in {}",
                    at_the_earliest(now, at, reason),
                    requested.deadline.since(now)
                );
                (Code::DeadlinePassed, why, None)
            }
            Some(at) if held_until < at => {
                let why = format!(
                    "{}; its caller is held for {}",
                    at_the_earliest(now, at, reason),
                    held_until.since(now)
                );
                (Code::HoldExceeded, why, Some(at))
            }
            _ => return Ok(()),
        };
        Err(Refusal {
            scope: wait.scope,
            ..self.refusal(code, why, retry_at)
        })
    }

    pub(super) fn refusal(&self, code: Code, why: String, retry_at: Option<Moment>) -> Refusal {
        Refusal {
            code,
            scope: self.scope.clone(),
            why,
            retry_at,
        }
    }

    /// Hands back the newest call of the lowest rank, or says that this is the
    /// arriving one.
    fn make_room(
        &mut self,
        now: Moment,
        arriving: &Waiter,
        full: Full,
        code: Code,
        why: String,
    ) -> Result<(), Refusal> {
        let victim = self
            .worst_waiting(arriving, full)
            .and_then(|ask| self.asks.get(&ask).copied())
            .filter(|id| self.actions.get(id).is_some_and(Live::never_sent));
        let Some(victim) = victim else {
            let retry_at = Some(self.room_at(now, arriving));
            return Err(self.refusal(code, why, retry_at));
        };
        let retry_at = Some(self.room_at(now, arriving));
        let why = format!("{why}, and better ones came");
        self.refuse_live(now, victim, code, why, retry_at);
        Ok(())
    }

    /// The newest waiting call of the lowest rank, if it is worse than the arriving one.
    fn worst_waiting(&self, arriving: &Waiter, full: Full) -> Option<AskKey> {
        let scheduled = self.schedule.evict(arriving, full);
        if full == Full::Account {
            return scheduled;
        }
        let kept = self.loads.of(&arriving.agent).and_then(|load| load.worst());
        let rank_of = |ask: AskKey| self.schedule.get(ask).map(|waiter| (waiter.priority, ask));
        let own = (arriving.priority, arriving.place.unwrap_or(arriving.ask));
        let worst: Option<(Priority, AskKey)> =
            kept.into_iter().chain(scheduled.and_then(rank_of)).max();
        worst.filter(|worst| own < *worst).map(|(_, ask)| ask)
    }

    /// When a place should be free again.
    fn room_at(&self, now: Moment, arriving: &Waiter) -> Moment {
        let call = crate::ledger::Call {
            scopes: self.lanes.scopes(arriving.lane),
            cost: arriving.cost,
            estimate: None,
            priority: arriving.priority,
            probe_safe: true,
        };
        let line = Line {
            ahead: self.asks.len(),
            own: self.asks.len(),
        };
        let wait = self.wait_of(now, &call, line);
        let at = wait.and_then(|wait| wait.until);
        at.unwrap_or(now + COME_BACK)
    }

    /// Ends an action in hand that was never sent, with a refusal. If a time to
    /// come back is named its place is kept.
    pub(super) fn refuse_live(
        &mut self,
        now: Moment,
        id: ActionId,
        code: Code,
        why: String,
        retry_at: Option<Moment>,
    ) {
        let refusal = self.refusal(code, why, retry_at);
        self.refuse_live_with(now, id, refusal);
    }

    pub(super) fn refuse_live_with(&mut self, now: Moment, id: ActionId, refusal: Refusal) {
        self.dequeue(now, id);
        if let Some(live) = self.actions.get(&id) {
            let (requested, place) = (live.row.requested.clone(), live.place.unwrap_or(live.ask));
            if let Some(at) = refusal.retry_at {
                self.places.keep(&requested, place, at);
            }
        }
        let code = refusal.code.word();
        self.finish(now, id, State::CancelledNotSent, code, |_| {
            Some(Output::Refuse {
                action: id,
                refusal,
            })
        });
    }

    /// Keeps the place of a call that was refused before it became an action.
    pub(super) fn keep_place(&mut self, live: &Live, retry_at: Option<Moment>) {
        if let Some(at) = retry_at {
            let place = live.place.unwrap_or(live.ask);
            self.places.keep(&live.row.requested, place, at);
        }
    }

    /// Refuses everything that waits for a scope and was never sent.
    pub(super) fn give_up_waiting(&mut self, now: Moment, scope: &Scope, code: Code, why: &str) {
        let waits = |live: &&Live| {
            live.never_sent()
                && matches!(live.turn, Some(Turn::Attempt(_)))
                && live.setup.scopes.contains(scope)
        };
        let waiting: Vec<ActionId> = self.actions.values().filter(waits).map(Live::id).collect();
        for id in waiting {
            let refusal = Refusal {
                scope: scope.clone(),
                ..self.refusal(code, why.to_owned(), None)
            };
            self.refuse_live_with(now, id, refusal);
        }
    }
}

fn at_the_earliest(now: Moment, at: Moment, reason: WaitReason) -> String {
    format!(
        "it could start in {} at the earliest ({})",
        at.since(now),
        reason.word()
    )
}
