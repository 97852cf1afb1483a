//! A call arrives: it joins, is turned away, or gets a place in the queue.

use std::sync::Arc;

use super::Engine;
use super::input::{Chance, Setup, Submit};
use super::live::{Caller, Live, Turn};
use super::output::{Output, Refusal, WaitReason};
use super::timers::Timer;
use crate::action::problem::Code;
use crate::event::{Durability, Event, Requested};
use crate::id::{ActionId, Scope};
use crate::record::ActionRow;
use crate::schedule::{AskKey, Full, Lane, Waiter};
use crate::time::{Moment, Span};
use crate::word::{Cause, Priority, State};

impl Engine {
    /// A call asks to be sent. What comes of it leaves through the outputs:
    /// `Join`, `Refuse`, or `Grant` after an optional `Parked`.
    ///
    /// Cost: O(log n) in the calls that wait.
    pub fn handle_submit(&mut self, now: Moment, chance: Chance, submit: Submit) {
        let _ = chance;
        let requested = Arc::clone(&submit.requested);
        if let Some(output) = self.join(now, &requested) {
            self.outbox.free(output);
            return;
        }
        if let Err(refusal) = self.admissible(now, &submit) {
            self.turn_away(now, &requested, refusal);
            return;
        }
        let id = requested.action;
        let ask = self.next_ask;
        self.next_ask += 1;
        for scope in submit.setup.scopes.iter() {
            if let Some(spacing) = self.spacings.get_mut(scope) {
                spacing.seen(now, requested.priority);
            } else if self.spacings.len() < super::dispatch::SPACINGS_MAX {
                self.spacings
                    .entry(scope.clone())
                    .or_default()
                    .seen(now, requested.priority);
            }
        }
        if let Some(key) = &requested.key {
            self.keys.insert(key.clone(), id);
        }
        let live = Live {
            row: ActionRow::open(&requested, now),
            lane: self.lanes.of(&submit.setup.scopes),
            setup: submit.setup,
            ask,
            turn: None,
            open: None,
            sent_at: None,
            caller: Caller::Held(submit.hold_until),
            wait_until: Moment::NEVER,
            extra_attempts: 0,
        };
        self.timers.arm(submit.hold_until, Timer::Hold(id));
        self.timers.arm(requested.deadline, Timer::Deadline(id));
        self.actions.insert(id, live);
        self.record(now, id, Event::ActionRequested(requested));
        self.enqueue(now, id, Turn::Attempt(Cause::First), now);
        self.dispatch(now);
        self.announce_wait(now, id);
    }

    /// A repeat of an action that exists joins it; a key with another payload is refused.
    fn join(&mut self, now: Moment, requested: &Requested) -> Option<Output> {
        let key = requested.key.as_ref()?;
        let (existing, digest, endpoint) = match self.keys.get(key) {
            Some(existing) => {
                let row = &self.actions.get(existing)?.row.requested;
                (*existing, row.payload_digest, row.endpoint.clone())
            }
            None => {
                let finished = self.finished.get(key)?;
                (
                    finished.action,
                    finished.payload_digest,
                    finished.endpoint.clone(),
                )
            }
        };
        if digest != requested.payload_digest || endpoint != requested.endpoint {
            return Some(Output::Refuse {
                action: requested.action,
                refusal: Refusal {
                    code: Code::KeyReused,
                    scope: self.scope.clone(),
                    why: format!(
                        "the idempotency key belongs to action {existing}, which has another payload"
                    ),
                    retry_at: None,
                },
            });
        }
        if self.actions.contains_key(&existing) {
            self.record(
                now,
                existing,
                Event::Joined {
                    action: existing,
                    by: "key".to_owned(),
                },
            );
        }
        Some(Output::Join {
            action: requested.action,
            existing,
        })
    }

    /// Whether the call may become an action. Making room may hand back another one.
    fn admissible(&mut self, now: Moment, submit: &Submit) -> Result<(), Refusal> {
        let requested = &submit.requested;
        let refuse = |code, scope: &Scope, why: String, retry_at| {
            Err(Refusal {
                code,
                scope: scope.clone(),
                why,
                retry_at,
            })
        };
        if self.outbox.is_poisoned() {
            let why = "the journal can't be written; nothing is sent unrecorded".to_owned();
            return refuse(
                Code::AuditUnavailable,
                &self.scope,
                why,
                Some(now + Span::from_secs(5)),
            );
        }
        if requested.deadline <= now {
            let why = "the deadline has passed".to_owned();
            return refuse(Code::DeadlinePassed, &self.scope, why, None);
        }
        let of_agent = self
            .loads
            .of(&requested.agent)
            .map_or(0, super::live::Load::waiting);
        if self.policy.max_waiting_per_agent <= of_agent {
            let why = format!("agent {} has {of_agent} calls waiting", requested.agent);
            let retry_at = self.expected_start(now, submit, 0).map(|(at, _, _)| at);
            return refuse(Code::AgentQueueFull, &self.scope, why, retry_at);
        }
        if self.policy.max_waiting <= self.asks.len() {
            let arriving = waiter(self.next_ask, requested, &submit.setup, now);
            let evicted = self.schedule.evict(&arriving, Full::Account);
            match evicted.and_then(|ask| self.asks.get(&ask)) {
                Some(victim) if self.actions.get(victim).is_some_and(Live::never_sent) => {
                    let victim = *victim;
                    self.hand_back(now, victim);
                }
                _ => {
                    let why = format!("{} calls wait for this account", self.asks.len());
                    let at = self
                        .expected_start(now, submit, self.asks.len())
                        .map(|(at, _, _)| at);
                    let retry_at = Some(at.unwrap_or(now + Span::from_secs(1)));
                    return refuse(Code::QueueFull, &self.scope, why, retry_at);
                }
            }
        }
        let ahead = self.ahead_of(requested.priority);
        if let Some((at, scope, reason)) = self.expected_start(now, submit, ahead)
            && submit.hold_until < at
            && !requested.detached
        {
            let why = format!(
                "it could start in {} at the earliest ({}); its caller is held for {}",
                at.since(now),
                reason.word(),
                submit.hold_until.since(now)
            );
            return refuse(Code::HoldExceeded, &scope, why, Some(at));
        }
        Ok(())
    }

    /// When a call with `ahead` calls before it would start, and what it would
    /// wait for. `None` if it could start now, or nobody can say.
    pub(super) fn expected_start(
        &self,
        now: Moment,
        submit: &Submit,
        ahead: usize,
    ) -> Option<(Moment, Scope, WaitReason)> {
        let call = super::dispatch::call_of(&submit.setup, &submit.requested);
        self.estimate(now, &call, ahead)
    }

    /// The full queue hands back a call that was never sent.
    fn hand_back(&mut self, now: Moment, id: ActionId) {
        let retry_at = Some(now + Span::from_secs(1));
        let why = "the queue is full and better-ranked calls came".to_owned();
        self.refuse_live(now, id, Code::QueueFull, why, retry_at);
    }

    /// Ends an action in hand that was never sent, with a refusal.
    pub(super) fn refuse_live(
        &mut self,
        now: Moment,
        id: ActionId,
        code: Code,
        why: String,
        retry_at: Option<Moment>,
    ) {
        let scope = self.scope.clone();
        let refusal = Refusal {
            code,
            scope,
            why,
            retry_at,
        };
        self.dequeue(id);
        self.finish(now, id, State::CancelledNotSent, code.word(), |_| {
            Some(Output::Refuse {
                action: id,
                refusal,
            })
        });
    }

    /// Turns a call away before it became an action.
    fn turn_away(&mut self, now: Moment, requested: &Requested, refusal: Refusal) {
        self.outbox.record(
            now,
            Durability::Process,
            Event::TurnedAway {
                agent: requested.agent.clone(),
                code: refusal.code.word().to_owned(),
                scope: refusal.scope.clone(),
                retry_at: refusal.retry_at,
            },
        );
        self.outbox.free(Output::Refuse {
            action: requested.action,
            refusal,
        });
    }

    /// Gives an action a place in the queue.
    pub(super) fn enqueue(&mut self, now: Moment, id: ActionId, turn: Turn, ready_at: Moment) {
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        live.turn = Some(turn);
        self.asks.insert(live.ask, id);
        let over = live.setup.agent_concurrent_max.is_some_and(|max| {
            self.loads
                .of(live.agent())
                .is_some_and(|load| max as usize <= load.open as usize + load.scheduled)
        });
        let ask = live.ask;
        if over {
            self.loads.change(&live.row.requested.agent, |load| {
                load.kept_back.insert(ask);
            });
            return;
        }
        let requested = Arc::clone(&live.row.requested);
        let waiter = Waiter {
            lane: live.lane,
            arrived: live.row.requested_at,
            ..waiter(ask, &requested, &live.setup, ready_at)
        };
        self.loads
            .change(&requested.agent, |load| load.scheduled += 1);
        self.schedule.insert(now, waiter);
    }

    /// How many calls would go before one that arrives now, as far as ranks say.
    fn ahead_of(&self, priority: Priority) -> usize {
        Priority::ALL
            .iter()
            .filter(|rank| **rank <= priority)
            .map(|rank| self.schedule.len_at(*rank))
            .sum()
    }

    /// Takes an action out of the queue, wherever it waits.
    pub(super) fn dequeue(&mut self, id: ActionId) {
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        if live.turn.take().is_none() {
            return;
        }
        let ask = live.ask;
        self.asks.remove(&ask);
        let scheduled = self.schedule.remove(ask).is_some();
        self.loads.change(&live.row.requested.agent, |load| {
            if scheduled {
                load.scheduled -= 1;
            } else {
                load.kept_back.remove(&ask);
            }
        });
    }

    /// Says that an action waits, for what, and until when.
    pub(super) fn announce_wait(&mut self, now: Moment, id: ActionId) {
        if let Some(parked) = self.explain_wait(now, id) {
            self.outbox.free(Output::Parked(parked));
        }
    }

    /// When a call would start if `ahead` calls go before it.
    pub(super) fn estimate(
        &self,
        now: Moment,
        call: &crate::ledger::Call<'_>,
        ahead: usize,
    ) -> Option<(Moment, Scope, WaitReason)> {
        let blocked = self.ledger.stage(now, call).err();
        let (mut at, scope, reason) = match blocked {
            Some(blocked) if blocked.until == Moment::NEVER => return None,
            Some(blocked) => (
                blocked.until,
                blocked.scope,
                WaitReason::Scope(blocked.reason),
            ),
            None if ahead == 0 => return None,
            None => (now, self.scope.clone(), WaitReason::Turn),
        };
        // Calls ahead draw on the account at its rate; without one nobody can say
        // more than the block itself.
        if let Some(rate) = self.ledger.rate(&self.scope) {
            at = at + rate.per.scale(ahead as u64, rate.units.max(1));
        } else if matches!(reason, WaitReason::Turn) {
            return None;
        }
        Some((at, scope, reason))
    }
}

/// A call as the schedule sees it, in the account's own lane.
fn waiter(ask: AskKey, requested: &Requested, setup: &Setup, ready_at: Moment) -> Waiter {
    Waiter {
        ask,
        priority: requested.priority,
        agent: requested.agent.clone(),
        weight: setup.weight,
        lane: Lane(0),
        cost: setup.cost,
        ready_at,
        arrived: ready_at,
        place: None,
    }
}
