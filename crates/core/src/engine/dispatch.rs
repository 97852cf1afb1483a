//! Who goes now: the best waiting call whose every scope agrees.
//!
//! A call is bound to quota at the last moment, here, and nowhere earlier. The
//! order is the schedule's (floors over strict rank, fair between agents); the
//! permission is the ledger's (all scopes or none). What stands in the way of
//! one call decides which others need not be tried:
//!
//! | in the way | also waits |
//! | --- | --- |
//! | the account's quota, gate or seats | every call of the account |
//! | seats kept for interactive calls | every other rank |
//! | even spacing | every call of this rank |
//! | a narrower scope | this rank in this lane |

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Engine;
use super::input::Setup;
use super::live::{Live, Open, Turn};
use super::output::{Grant, LookupGrant, Output, WaitReason};
use crate::event::{Event, Requested};
use crate::id::{ActionId, Scope};
use crate::ledger::{Blocked, Call, Reason, Staged};
use crate::schedule::{Lane, Pace, Pick, Way};
use crate::time::{Moment, Span};
use crate::word::{Class, Priority};

/// Calls started in one go, so that one lock is never held for long; the rest
/// goes at the next wake-up, which is at once.
const STARTS_MAX: usize = 512;
/// Scopes whose ranks are spaced; further ones share the account's spacing.
pub(super) const SPACINGS_MAX: usize = 1_024;
/// Calls searched for one that may probe a closed scope.
const PROBE_SEARCH_MAX: usize = 256;

/// Whether a call heeds the even spacing of its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manners {
    /// It does.
    Spaced,
    /// Its rank is owed service, or it is the probe.
    Owed,
}

/// What stands in the way of a call.
#[derive(Clone, Debug)]
pub(super) struct InTheWay {
    pub(super) scope: Scope,
    pub(super) reason: WaitReason,
    pub(super) until: Moment,
}

impl From<Blocked> for InTheWay {
    fn from(blocked: Blocked) -> InTheWay {
        InTheWay {
            scope: blocked.scope,
            reason: WaitReason::Scope(blocked.reason),
            until: blocked.until,
        }
    }
}

/// Which calls need not be tried in this round. See the table above.
#[derive(Debug, Default)]
struct Blocks {
    all: bool,
    ranks: BTreeMap<Priority, Way>,
    lanes: BTreeMap<(Lane, Priority), Way>,
}

impl Blocks {
    fn way(&self, lane: Lane, priority: Priority) -> Way {
        if self.all {
            return Way::Blocked;
        }
        let rank = self.ranks.get(&priority).copied();
        let lane = self.lanes.get(&(lane, priority)).copied();
        match (rank, lane) {
            (None, None) => Way::Open,
            (Some(Way::Blocked), _) | (_, Some(Way::Blocked)) => Way::Blocked,
            _ => Way::Held,
        }
    }

    fn add(&mut self, account: &Scope, lane: Lane, priority: Priority, way: &InTheWay) {
        let whole_account = way.scope == *account;
        match way.reason {
            WaitReason::Scope(Reason::Reserved) if whole_account => {
                for rank in Priority::ALL
                    .iter()
                    .filter(|rank| **rank != Priority::Interactive)
                {
                    self.ranks.insert(*rank, Way::Blocked);
                }
            }
            WaitReason::Scope(_) if whole_account => self.all = true,
            WaitReason::Spacing if whole_account => {
                self.ranks.entry(priority).or_insert(Way::Held);
            }
            WaitReason::Spacing => {
                self.lanes.entry((lane, priority)).or_insert(Way::Held);
            }
            _ => {
                self.lanes.insert((lane, priority), Way::Blocked);
            }
        }
    }
}

/// What the ledger is asked for on behalf of an action.
pub(super) fn call_of<'a>(setup: &'a Setup, requested: &Requested) -> Call<'a> {
    Call {
        scopes: &setup.scopes,
        cost: setup.cost,
        priority: requested.priority,
        probe_safe: requested.class != Class::UncertainWrite,
    }
}

impl Engine {
    /// Starts whatever may start now, and notes when to look again.
    pub(super) fn dispatch(&mut self, now: Moment) {
        let mut blocks = Blocks::default();
        let mut wake = self.ledger.next_change(now).min(self.schedule.next_ready());
        for started in 0.. {
            if started == STARTS_MAX {
                wake = now;
                break;
            }
            let Some(pick) = self.schedule.pick(now, |lane, rank| blocks.way(lane, rank)) else {
                break;
            };
            if let Err((lane, priority, way)) = self.try_start(now, pick, &blocks) {
                wake = wake.min(way.until);
                blocks.add(&self.scope, lane, priority, &way);
            }
        }
        self.wake = wake;
    }

    /// Starts one call, or says what stands in its way.
    fn try_start(
        &mut self,
        now: Moment,
        pick: Pick,
        blocks: &Blocks,
    ) -> Result<(), (Lane, Priority, InTheWay)> {
        let ask = pick.ask();
        let Some(id) = self.asks.get(&ask).copied() else {
            debug_assert!(false, "the schedule knows an ask that the engine does not");
            self.schedule.remove(ask);
            return Ok(());
        };
        let live = &self.actions[&id];
        let (lane, priority) = (live.lane, live.row.requested.priority);
        // Spacing was found in the way already and the call was picked all the
        // same: its rank is owed its floor.
        let manners = match blocks.way(lane, priority) {
            Way::Held => Manners::Owed,
            Way::Open | Way::Blocked => Manners::Spaced,
        };
        match self.what_is_in_the_way(now, live, manners) {
            Ok(staged) => {
                self.start(now, id, pick, staged);
                Ok(())
            }
            Err(way) if way.reason == WaitReason::Scope(Reason::Probing) => {
                // The head of the line can't be the probe; perhaps one behind it can.
                match self.find_probe(now) {
                    Some((probe, pick, staged)) => {
                        self.start(now, probe, pick, staged);
                        Ok(())
                    }
                    None => Err((lane, priority, way)),
                }
            }
            Err(way) => Err((lane, priority, way)),
        }
    }

    /// Stages a call on every scope, without side effect.
    pub(super) fn what_is_in_the_way(
        &self,
        now: Moment,
        live: &Live,
        manners: Manners,
    ) -> Result<Staged, InTheWay> {
        let priority = live.row.requested.priority;
        let staged = self
            .ledger
            .stage(now, &call_of(&live.setup, &live.row.requested))
            .map_err(InTheWay::from)?;
        if manners == Manners::Owed {
            return Ok(staged);
        }
        for scope in live.setup.scopes.iter() {
            let Some(spacing) = self.spacings.get(scope) else {
                continue;
            };
            let until = spacing.free_at(now, priority, live.setup.cost, self.pace(scope));
            if now < until {
                let scope = scope.clone();
                return Err(InTheWay {
                    scope,
                    reason: WaitReason::Spacing,
                    until,
                });
            }
        }
        Ok(staged)
    }

    fn pace(&self, scope: &Scope) -> Option<Pace> {
        self.ledger.rate(scope).map(|rate| Pace {
            units: rate.units,
            per: rate.per,
        })
    }

    fn find_probe(&self, now: Moment) -> Option<(ActionId, Pick, Staged)> {
        self.schedule
            .iter()
            .take(PROBE_SEARCH_MAX)
            .find_map(|waiter| {
                let id = self.asks.get(&waiter.ask)?;
                let live = self.actions.get(id)?;
                if live.row.requested.class == Class::UncertainWrite || now < waiter.ready_at {
                    return None;
                }
                let staged = self.what_is_in_the_way(now, live, Manners::Owed).ok()?;
                Some((*id, self.schedule.pick_out(waiter.ask)?, staged))
            })
    }

    /// The call goes: quota is secured, the record leaves, the grant is held.
    fn start(&mut self, now: Moment, id: ActionId, pick: Pick, staged: Staged) {
        let permit = self.ledger.secure(now, staged);
        let Some(live) = self.actions.get_mut(&id) else {
            return;
        };
        let turn = live.turn.take();
        let ask = live.ask;
        let agent = live.row.requested.agent.clone();
        let scopes = Arc::clone(&live.setup.scopes);
        let cost = live.setup.cost;
        self.asks.remove(&ask);
        // The charge stays even if nothing is sent in the end: a connection that
        // can't be made is not a reason to be served more often.
        let taken = self.schedule.take(pick);
        debug_assert!(
            taken.is_some_and(|taken| taken.waiter.ask == ask),
            "another call was picked"
        );
        self.loads.change(&agent, |load| {
            load.scheduled -= 1;
            load.open += 1;
        });
        for scope in scopes.iter() {
            let pace = self.pace(scope);
            if let Some(spacing) = self.spacings.get_mut(scope) {
                spacing.sent(now, cost, pace);
            }
        }
        match turn {
            Some(Turn::Attempt(cause)) => {
                let Some(live) = self.actions.get_mut(&id) else {
                    return;
                };
                let attempt = live.row.attempts + 1;
                live.open = Some((Open::Attempt(attempt), permit));
                live.sent_at = None;
                let late = if attempt == 1 {
                    Span::ZERO
                } else {
                    now.since(live.row.not_before)
                };
                let event = Event::ActionSent {
                    action: id,
                    attempt,
                    cause,
                    scopes: live.setup.scopes.to_vec(),
                    cost: live.setup.cost,
                    waited: live.row.waited + late,
                    key_safe_until: self.key_safe_until(now, id),
                };
                let seq = self.record(now, id, event);
                self.outbox.after(
                    seq,
                    Output::Grant(Grant {
                        action: id,
                        attempt,
                        cause,
                    }),
                );
            }
            Some(Turn::Lookup) => {
                let Some(live) = self.actions.get_mut(&id) else {
                    return;
                };
                let lookup = live.row.lookups + 1;
                live.open = Some((Open::Lookup(lookup), permit));
                live.sent_at = None;
                let event = Event::LookupSent {
                    action: id,
                    lookup,
                    scopes: live.setup.scopes.to_vec(),
                    cost: live.setup.cost,
                };
                let seq = self.record(now, id, event);
                self.outbox
                    .after(seq, Output::Lookup(LookupGrant { action: id, lookup }));
            }
            None => debug_assert!(false, "started without a turn"),
        }
    }

    /// From when the key of an action must not be sent any more: counted from its first send.
    fn key_safe_until(&self, now: Moment, id: ActionId) -> Option<Moment> {
        let live = &self.actions[&id];
        live.row.requested.key.as_ref()?;
        if live.row.key_safe_until.is_some() && live.row.maybe_arrived {
            return live.row.key_safe_until;
        }
        let idempotency = live.setup.profile.idempotency.as_ref()?;
        let in_flight = live
            .setup
            .profile
            .lookup
            .as_ref()
            .map_or(Span::ZERO, |l| l.max_in_flight);
        Some(crate::action::key::safe_until(
            now,
            idempotency.lifetime,
            live.setup.attempt_timeout,
            in_flight,
        ))
    }

    /// One send of an agent ended: one that its own limit kept back may queue.
    pub(super) fn agent_seat_free(&mut self, now: Moment, agent: &crate::id::Agent) {
        let mut next = None;
        self.loads.change(agent, |load| {
            load.open = load.open.saturating_sub(1);
            next = load.kept_back.pop_first();
        });
        let Some(ask) = next else { return };
        if let Some(id) = self.asks.get(&ask).copied()
            && let Some(live) = self.actions.get(&id)
            && let Some(turn) = live.turn
        {
            let ready_at = live.row.not_before.max(now);
            self.enqueue(now, id, turn, ready_at);
        }
    }
}
