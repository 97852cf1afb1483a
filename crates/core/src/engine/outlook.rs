//! When a waiting call will start, as far as anybody can say.
//!
//! Promise: nine of ten calls start by the time that was stated when they began
//! to wait, while the load stays as it was. So the estimate leans to the late side:
//!
//! `start = block ends + (calls ahead + calls that will pass it) / free rate`
//!
//! - *block ends*: what the ledger says of the scope in the way. A seat comes
//!   free, and a probe comes back, after the time that a call takes: its mean
//!   and two mean deviations, reckoned as TCP does it (RFC 6298).
//! - *calls ahead*: the schedule's count, each at the account's rate. Where no
//!   rate is known and the scope comes out of a refusal, as its ramp spaces them.
//! - *free rate*: the account's rate less what better ranks used lately, but
//!   never less than the rank's floor.
//! - *calls that will pass it*: better ones while it is blocked; and of its own
//!   rank those of other agents as they came lately, but fair queueing lets no
//!   agent pass it more often than it has calls of its own before it, and once.
//!
//! Example: 60 calls in 10 s, 12 background calls ahead, interactive work used
//! 20 in the last 10 s. The free rate is 4 in a second, so the start is stated
//! 3 s after the block ends, and 20 % later for what nobody foresees.

use super::Engine;
use super::live::Live;
use super::output::WaitReason;
use crate::id::Scope;
use crate::ledger::{Blocked, Call, Reason};
use crate::time::{Moment, Span};
use crate::word::Priority;

/// The part of a stated wait that is added for what nobody foresees, in thousandths.
const UNFORESEEN_PERMILLE: u64 = 200;
/// The least that is left to a rank without a floor, of the account's rate, in thousandths.
const LEAST_PERMILLE: u64 = 20;
/// How far back the use by better ranks is looked at.
const LOOK_BACK: Span = Span::from_secs(10);
/// What a call is assumed to take before one was seen.
const SERVICE_ASSUMED: Span = Span::from_secs(2);

/// How a call stands in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Calls that go before it.
    pub(super) ahead: usize,
    /// Those of its own agent and rank that do.
    pub(super) own: usize,
}

/// A wait that lies before a call.
#[derive(Clone, Debug)]
pub(super) struct Wait {
    pub(super) scope: Scope,
    pub(super) reason: WaitReason,
    /// When it is expected to end; `None` if nobody can say.
    pub(super) until: Option<Moment>,
}

/// How much went lately, and how long it took. A few words of memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Pulse {
    slice: u64,
    /// Starts of each rank in this slice of [`LOOK_BACK`] and the one before.
    starts: [[u64; 2]; 3],
    /// The same of arrivals.
    arrivals: [[u64; 2]; 3],
    /// Mean time of a call and its mean deviation, once one was seen.
    service: Option<(Span, Span)>,
}

impl Pulse {
    /// A call of a rank started.
    pub(super) fn started(&mut self, now: Moment, priority: Priority) {
        self.turn(now);
        self.starts[priority as usize][0] += 1;
    }

    /// A call of a rank came.
    pub(super) fn arrived(&mut self, now: Moment, priority: Priority) {
        self.turn(now);
        self.arrivals[priority as usize][0] += 1;
    }

    /// A call took this long.
    pub(super) fn took(&mut self, span: Span) {
        let (mean, deviation) = match self.service {
            None => (span, span.scale(1, 2)),
            Some((mean, deviation)) => {
                let off = span.saturating_sub(mean).max(mean.saturating_sub(span));
                (
                    mean.scale(7, 8) + span.scale(1, 8),
                    deviation.scale(3, 4) + off.scale(1, 4),
                )
            }
        };
        self.service = Some((mean, deviation));
    }

    /// How long a call takes on average.
    fn service_mean(&self) -> Span {
        self.service.map_or(SERVICE_ASSUMED, |(mean, _)| mean)
    }

    /// How long a call takes in nine of ten cases.
    fn service(&self) -> Span {
        let (mean, deviation) = self.service.unwrap_or((SERVICE_ASSUMED, Span::ZERO));
        mean + deviation.saturating_mul(2)
    }

    /// Starts of ranks better than this one in the last [`LOOK_BACK`].
    fn better(&self, now: Moment, priority: Priority) -> u64 {
        let better = &self.starts[..priority as usize];
        better.iter().map(|of| self.lately(now, *of)).sum()
    }

    /// Arrivals of a rank in the last [`LOOK_BACK`].
    fn came(&self, now: Moment, priority: Priority) -> u64 {
        self.lately(now, self.arrivals[priority as usize])
    }

    fn lately(&self, now: Moment, [current, before]: [u64; 2]) -> u64 {
        match slice_of(now).saturating_sub(self.slice) {
            0 => current.max(before),
            1 => current,
            _ => 0,
        }
    }

    fn turn(&mut self, now: Moment) {
        let slice = slice_of(now);
        match slice.saturating_sub(self.slice) {
            0 => return,
            1 => {
                self.starts = self.starts.map(|[current, _]| [0, current]);
                self.arrivals = self.arrivals.map(|[current, _]| [0, current]);
            }
            _ => {
                self.starts = Default::default();
                self.arrivals = Default::default();
            }
        }
        self.slice = slice;
    }
}

/// `n · by / of`, at most `u64::MAX`.
fn scale(n: u64, by: Span, of: Span) -> u64 {
    let wide = u128::from(n) * u128::from(by.as_micros()) / u128::from(of.as_micros().max(1));
    u64::try_from(wide).unwrap_or(u64::MAX)
}

fn slice_of(now: Moment) -> u64 {
    now.as_micros() / LOOK_BACK.as_micros()
}

impl Engine {
    /// How a waiting call stands in the queue.
    pub(super) fn line_of(&self, live: &Live) -> Line {
        let (agent, priority) = (live.agent(), live.row.requested.priority);
        let load = self.loads.of(agent);
        Line {
            ahead: self.schedule.position(live.ask).unwrap_or(0),
            own: load.map_or(0, |load| load.before(priority, live.ask)),
        }
    }

    /// The wait that lies before a call that stands like this; `None` if it
    /// could start now.
    pub(super) fn wait_of(&self, now: Moment, call: &Call<'_>, line: Line) -> Option<Wait> {
        let blocked = self.ledger.block(now, call);
        if blocked.is_none() && line.ahead == 0 {
            return None;
        }
        let (scope, reason, base) = match &blocked {
            Some(blocked) => (
                blocked.scope.clone(),
                WaitReason::Scope(blocked.reason),
                self.end_of(now, blocked),
            ),
            None => (self.scope.clone(), WaitReason::Turn, Some(now)),
        };
        let queue = self.queue_time(now, call, line, base, blocked.as_ref());
        let until = match (base, queue) {
            (Some(base), Some(queue)) => Some(base + queue),
            _ => None,
        };
        // The end of a used-up quota was named, and may be hours away: only what comes
        // after it is a guess. A rate's hold is short, and a probe at its end may find
        // the provider refusing still.
        let guessed_from = match (reason, base) {
            (WaitReason::Scope(Reason::Exhausted), Some(base)) => base,
            _ => now,
        };
        let until = until.map(|at| at + at.since(guessed_from).scale(UNFORESEEN_PERMILLE, 1_000));
        Some(Wait {
            scope,
            reason,
            until,
        })
    }

    /// When a block is expected to end.
    fn end_of(&self, now: Moment, blocked: &Blocked) -> Option<Moment> {
        match (blocked.reason, blocked.until) {
            (Reason::Closed | Reason::Exhausted, Moment::NEVER) => None,
            (Reason::Closed | Reason::Exhausted, until) => Some(until + self.pulse.service()),
            (_, until) if until < Moment::NEVER => Some(until),
            // A seat, or the probe's answer.
            (Reason::Concurrency | Reason::Reserved | Reason::Probing, _) => {
                Some(now + self.pulse.service())
            }
            // What is promised and has not left says nothing yet of when it is back.
            (Reason::Quota, _) if 0 < self.ledger.open() => Some(now + self.pulse.service()),
            _ => None,
        }
    }

    /// How long the calls ahead take once the block has ended.
    fn queue_time(
        &self,
        now: Moment,
        call: &Call<'_>,
        line: Line,
        base: Option<Moment>,
        blocked: Option<&Blocked>,
    ) -> Option<Span> {
        let ahead = line.ahead as u64;
        let reason = blocked.map(|blocked| blocked.reason);
        if let (Some(Reason::Concurrency | Reason::Reserved), Some(blocked)) = (reason, blocked) {
            let seats = self.ledger.seats(&blocked.scope)?;
            return Some(
                self.pulse
                    .service_mean()
                    .scale(ahead, u64::from(seats.max(1))),
            );
        }
        let Some(rate) = self.ledger.rate(&self.scope) else {
            return match reason {
                Some(Reason::Closed | Reason::Exhausted | Reason::Probing | Reason::Ramping) => {
                    let scope = blocked.map_or(&self.scope, |blocked| &blocked.scope);
                    Some(self.ledger.climb(now, scope, ahead + 1))
                }
                // Nothing limits those ahead but what blocks this call too.
                _ => Some(Span::ZERO),
            };
        };
        // Units per LOOK_BACK, in thousandths.
        let better = self.pulse.better(now, call.priority).saturating_mul(1_000);
        let whole = scale(rate.units.saturating_mul(1_000), LOOK_BACK, rate.per).max(1);
        let floor = u64::from(self.policy.floor_permille(call.priority)).max(LEAST_PERMILLE);
        let owed = whole.saturating_mul(floor) / 1_000;
        let free = whole.saturating_sub(better).max(owed).max(1);
        // Better calls that come while it is blocked go before it.
        let coming = scale(better, base.unwrap_or(now).since(now), LOOK_BACK);
        let ahead = ahead.saturating_mul(1_000).saturating_add(coming);
        let at_least = LOOK_BACK.scale(ahead, free);
        // Others of its rank come between as fast as they came, up to their fair share.
        let agents = self.loads.queueing(call.priority).max(1) as u64;
        let others = self.pulse.came(now, call.priority) * 1_000 * (agents - 1) / agents;
        let fair = (line.own as u64 + 1).saturating_mul(agents * 1_000) + coming;
        let at_most = LOOK_BACK.scale(fair, free).max(at_least);
        Some(match free.saturating_sub(others) {
            0 => at_most,
            left => LOOK_BACK.scale(ahead, left).min(at_most),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::START + Span::from_millis(ms)
    }

    #[test]
    fn what_better_ranks_used_is_forgotten_after_two_slices() {
        let mut pulse = Pulse::default();
        (0..20).for_each(|n| pulse.started(at(40_000 + n * 100), Priority::Interactive));
        pulse.started(at(43_000), Priority::Normal);
        assert_eq!(pulse.better(at(45_000), Priority::Background), 21);
        assert_eq!(pulse.better(at(45_000), Priority::Normal), 20);
        assert_eq!(pulse.better(at(45_000), Priority::Interactive), 0);
        assert_eq!(pulse.better(at(55_000), Priority::Background), 21);
        assert_eq!(pulse.better(at(65_000), Priority::Background), 0);
    }

    #[test]
    fn the_time_of_a_call_leans_to_the_late_side() {
        let mut pulse = Pulse::default();
        assert_eq!(pulse.service(), SERVICE_ASSUMED);
        for n in 0..100 {
            pulse.took(Span::from_millis(200 + (n * 37) % 400));
        }
        let service = pulse.service();
        assert!(Span::from_millis(500) <= service, "{service}");
        assert!(service <= Span::from_millis(800), "{service}");
    }
}
