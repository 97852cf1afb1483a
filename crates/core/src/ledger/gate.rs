//! The gate of a scope after a refusal: closed, one probe, a ramp, open.
//!
//! ```text
//! Open ──refusal──▶ Closed(until) ──time──▶ Probing ──good──▶ Ramping ──▶ Open
//!                      ▲                       │
//!                      └──refused or lost──────┘   (the hold doubles)
//! ```
//!
//! One timer holds for everybody; nobody else sets one. Jitter is only ever
//! added. Where the rate is known the ramp is skipped: the pacer is the ramp.
//!
//! The ramp without a known rate: two starts a second in the first second, three
//! in the next, and so on; after ten seconds a tenth more each second; at twenty
//! a second the gate is open. Ten queued calls are through within four seconds,
//! two hundred within twenty, and no moment sees two of them together.

use crate::time::{Draw, Moment, Span};

/// Longest own backoff without a hint.
const HOLD_CAP: Span = Span::from_secs(60);
/// Own backoff without a hint, first step.
const HOLD_BASE: Span = Span::from_secs(1);
/// A scope that was good for this long begins its ladder anew.
pub(super) const GOOD_FOR: Span = Span::from_secs(60);
/// Jitter added to a hold: a tenth of it, within these bounds.
const JITTER_MIN: Span = Span::from_millis(250);
const JITTER_MAX: Span = Span::from_secs(1);
/// Least distance between two starts of a ramp.
const RAMP_DISTANCE_MIN: Span = Span::from_millis(50);

/// Where a gate stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// Calls pass.
    Open,
    /// Nothing passes before `until`; then one probe.
    Closed { until: Moment },
    /// Nothing passes until somebody resumes it.
    Shut,
    /// One call is out to see.
    Probing,
    /// Calls pass one by one, ever closer together.
    Ramping {
        since: Moment,
        next: Moment,
        draw: Draw,
    },
}

/// What a gate says to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    /// It may pass.
    Free,
    /// It may pass if it can be the probe.
    AsProbe,
    /// Not before this.
    Closed(Moment),
    /// Not before the probe is back.
    AwaitProbe,
    /// Not before this, while the rate climbs.
    Ramp(Moment),
}

impl Gate {
    pub(super) fn passage(&self, now: Moment) -> Passage {
        match self {
            Gate::Open => Passage::Free,
            Gate::Closed { until } if now < *until => Passage::Closed(*until),
            Gate::Closed { .. } => Passage::AsProbe,
            Gate::Shut => Passage::Closed(Moment::NEVER),
            Gate::Probing => Passage::AwaitProbe,
            Gate::Ramping { next, .. } if now < *next => Passage::Ramp(*next),
            Gate::Ramping { .. } => Passage::Free,
        }
    }

    /// A call passes. Says whether it is the probe.
    pub(super) fn pass(&mut self, now: Moment) -> bool {
        match self {
            Gate::Closed { .. } => {
                *self = Gate::Probing;
                true
            }
            Gate::Ramping { since, next, draw } => {
                let distance = ramp_distance(now.since(*since));
                // Between 1 and 1.5 distances: added, never subtracted.
                *next = now + draw.between(distance, distance + distance.scale(1, 2));
                *draw = draw.again();
                if distance <= RAMP_DISTANCE_MIN {
                    *self = Gate::Open;
                }
                false
            }
            Gate::Open | Gate::Shut | Gate::Probing => false,
        }
    }

    /// The probe was accepted, and no rate is known to pace by.
    pub(super) fn ramp(now: Moment, draw: Draw) -> Gate {
        let first = ramp_distance(Span::ZERO);
        let next = now + draw.between(RAMP_DISTANCE_MIN, first);
        Gate::Ramping {
            since: now,
            next,
            draw: draw.again(),
        }
    }
}

/// Distance between two starts so long after the ramp began.
fn ramp_distance(elapsed: Span) -> Span {
    let seconds = elapsed.as_micros() / 1_000_000;
    let linear = 2 + seconds.min(10);
    let mut distance = Span::from_secs(1).scale(1, linear);
    for _ in 10..seconds.min(40) {
        distance = distance.scale(10, 11);
    }
    distance.max(RAMP_DISTANCE_MIN)
}

/// How long a hold is: the hint in full with jitter after it, or, without a
/// usable one, full jitter over a step that doubles with `level`.
pub(super) fn hold(hint: Option<Span>, minimum: Span, level: u32, draw: Draw) -> Span {
    match hint {
        Some(hint) if minimum <= hint => {
            let jitter = hint.scale(1, 10).min(JITTER_MAX).max(JITTER_MIN);
            hint.saturating_add(draw.between(Span::ZERO, jitter))
        }
        // Zero and past hints: "now", which is believed once and with a minimum.
        Some(_) if level == 0 => minimum + draw.between(Span::ZERO, Span::from_millis(100)),
        hint => {
            let step = HOLD_BASE.saturating_mul(1 << level.min(16).saturating_add(1).min(16));
            let step = step.min(HOLD_CAP).max(minimum);
            // A hint that keeps failing is floored by the step of this level.
            let low = if hint.is_some() || 0 < level {
                step.scale(1, 2)
            } else {
                minimum
            };
            draw.between(low.max(minimum), step)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::START + Span::from_millis(ms)
    }

    #[test]
    fn a_hint_is_waited_in_full_and_jitter_comes_after_it() {
        for n in [0, u32::MAX / 2, u32::MAX] {
            let held = hold(
                Some(Span::from_secs(10)),
                Span::from_millis(250),
                0,
                Draw::from_u32(n),
            );
            assert!(
                Span::from_secs(10) <= held && held <= Span::from_secs(11),
                "{held}"
            );
        }
    }

    #[test]
    fn a_zero_hint_is_believed_once() {
        let minimum = Span::from_millis(250);
        let first = hold(Some(Span::ZERO), minimum, 0, Draw::from_u32(9));
        assert!(minimum <= first && first <= Span::from_millis(350));
        let again = hold(Some(Span::ZERO), minimum, 1, Draw::from_u32(9));
        assert!(Span::from_secs(1) <= again, "{again}");
    }

    #[test]
    fn without_a_hint_the_ladder_grows_to_a_minute_and_stays() {
        let longest = |level| {
            hold(
                None,
                Span::from_millis(250),
                level,
                Draw::from_u32(u32::MAX),
            )
        };
        let steps: Vec<u64> = (0..8).map(|level| longest(level).as_secs_ceil()).collect();
        assert_eq!(steps, [2, 4, 8, 16, 32, 60, 60, 60]);
        assert!(longest(u32::MAX) <= HOLD_CAP);
    }

    #[test]
    fn two_hundred_calls_leave_a_ramp_one_by_one() {
        let mut gate = Gate::ramp(at(0), Draw::from_u32(77));
        let mut now = at(0);
        let mut starts = Vec::new();
        while starts.len() < 150 && gate != Gate::Open {
            match gate.passage(now) {
                Passage::Ramp(next) => now = next,
                Passage::Free => {
                    starts.push(now);
                    gate.pass(now);
                }
                other => panic!("{other:?}"),
            }
        }
        for pair in starts.windows(2) {
            assert!(RAMP_DISTANCE_MIN <= pair[1].since(pair[0]), "{:?}", pair);
        }
        assert!(now <= at(20_000), "{now:?}");
    }

    #[test]
    fn a_closed_gate_lets_one_probe_through() {
        let mut gate = Gate::Closed { until: at(10_000) };
        assert_eq!(gate.passage(at(9_999)), Passage::Closed(at(10_000)));
        assert_eq!(gate.passage(at(10_000)), Passage::AsProbe);
        assert!(gate.pass(at(10_000)));
        assert_eq!(gate.passage(at(60_000)), Passage::AwaitProbe);
    }
}
