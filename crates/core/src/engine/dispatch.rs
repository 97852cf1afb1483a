//! Who goes now: the best waiting call whose every scope agrees.
//!
//! A call is bound to quota at the last moment, here, and nowhere earlier. The
//! order is the schedule's (floors over strict rank, fair between agents); the
//! permission is the ledger's (all scopes or none). What is due by itself, such
//! as a deadline, always comes before: a call whose time is over never goes.

use super::Engine;
use super::live::Live;
use super::output::WaitReason;
use super::ways::{Found, InTheWay, Ways};
use crate::id::{ActionId, Scope};
use crate::ledger::{Call, Reason, Staged};
use crate::schedule::{Lane, Pick, Way};
use crate::time::Moment;
use crate::word::{Class, Priority};

/// Calls started in one go, so that one lock is never held for long; the rest
/// goes at the next wake-up, which is at once.
const STARTS_MAX: usize = 512;
/// Scopes whose ranks are spaced; further ones are not.
const SPACINGS_MAX: usize = 1_024;
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

/// What the ledger is asked for on behalf of an action.
pub(super) fn call_of(live: &Live) -> Call<'_> {
    let requested = &live.row.requested;
    Call {
        scopes: &live.setup.scopes,
        cost: live.cost(),
        estimate: live.estimate.as_deref(),
        priority: requested.priority,
        probe_safe: requested.class != Class::UncertainWrite,
    }
}

/// Why a picked call did not start.
type NotNow = (Lane, Priority, InTheWay);

impl Engine {
    /// Starts whatever may start now, and notes when to look again.
    pub(super) fn dispatch(&mut self, now: Moment) {
        if self.outbox.is_poisoned() {
            return;
        }
        if self.timers.next() <= now {
            self.wake = now;
            return;
        }
        let mut found = Found::new();
        let mut started = 0;
        while let Some(pick) = self.pick(now, &found) {
            match self.try_start(now, pick, &found) {
                Ok(()) => {
                    found.started();
                    started += 1;
                }
                Err(Some((lane, priority, way))) => found.tried(lane, priority, &way),
                // It was set aside; the schedule offers another.
                Err(None) => {}
            }
            if started == STARTS_MAX {
                self.wake = now;
                return;
            }
        }
        self.wake = found
            .wake()
            .min(self.ledger.next_change(now))
            .min(self.schedule.next_ready());
    }

    fn pick(&mut self, now: Moment, found: &Found) -> Option<Pick> {
        if self.ledger.is_shut(now, &self.scope) {
            // Every lane touches the account, so none need be asked.
            self.schedule.wake(now);
            return None;
        }
        let ways = Ways {
            now,
            ledger: &self.ledger,
            lanes: &self.lanes,
            spacings: &self.spacings,
        };
        self.schedule
            .pick(now, |lane, rank| ways.way(found, lane, rank))
    }

    pub(super) fn ways(&self, now: Moment) -> Ways<'_> {
        Ways {
            now,
            ledger: &self.ledger,
            lanes: &self.lanes,
            spacings: &self.spacings,
        }
    }

    /// Starts one call, or says what stands in its way.
    fn try_start(&mut self, now: Moment, pick: Pick, found: &Found) -> Result<(), Option<NotNow>> {
        let ask = pick.ask();
        let Some(id) = self.asks.get(&ask).copied() else {
            debug_assert!(false, "the schedule knows an ask that the engine does not");
            self.schedule.remove(ask);
            return Err(None);
        };
        if self.keep_back_if_full(id) {
            return Err(None);
        }
        self.estimate_anew(id);
        let live = &self.actions[&id];
        let (lane, priority) = (live.lane, live.row.requested.priority);
        // Spacing was found in the way already and the call was picked all the
        // same: its rank is owed its floor.
        let manners = match self.ways(now).way(found, lane, priority) {
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
                    None => Err(Some((lane, priority, way))),
                }
            }
            Err(way) => Err(Some((lane, priority, way))),
        }
    }

    /// Stages a call on every scope, without side effect.
    pub(super) fn what_is_in_the_way(
        &self,
        now: Moment,
        live: &Live,
        manners: Manners,
    ) -> Result<Staged, InTheWay> {
        let call = call_of(live);
        let staged = self.ledger.stage(now, &call).map_err(InTheWay::from)?;
        if manners == Manners::Owed {
            return Ok(staged);
        }
        match self.ways(now).spaced(&call) {
            Some((_, until)) => Err(InTheWay {
                reason: WaitReason::Spacing,
                until,
            }),
            None => Ok(staged),
        }
    }

    fn find_probe(&self, now: Moment) -> Option<(ActionId, Pick, Staged)> {
        self.schedule
            .iter()
            .take(PROBE_SEARCH_MAX)
            .find_map(|waiter| {
                let id = self.asks.get(&waiter.ask)?;
                let live = self.actions.get(id)?;
                let full = self
                    .loads
                    .of(live.agent())
                    .is_some_and(|load| load.is_full(live.setup.agent_concurrent_max));
                let safe = live.row.requested.class != Class::UncertainWrite;
                if !safe || full || now < waiter.ready_at {
                    return None;
                }
                let staged = self.what_is_in_the_way(now, live, Manners::Owed).ok()?;
                Some((*id, self.schedule.pick_out(waiter.ask)?, staged))
            })
    }

    /// A call of a rank came for a scope: lower ranks are spaced for a while.
    pub(super) fn note_seen(&mut self, now: Moment, scope: &Scope, priority: Priority) {
        if let Some(spacing) = self.spacings.get_mut(scope) {
            spacing.seen(now, priority);
        } else if self.spacings.len() < SPACINGS_MAX {
            let spacing = self.spacings.entry(scope.clone()).or_default();
            spacing.seen(now, priority);
        }
    }
}
