//! The gate of one scope: open, closed after a refusal, probing, ramping.
//!
//! ```text
//!        refusal                hold over              success
//! open ──────────▶ closed ──────────────▶ probing ──────────────▶ ramping ──▶ open
//!                    ▲                       │                       │
//!                    └───── refused, lost ◀──┴────── refusal ◀───────┘
//! ```
//!
//! **One cut per epoch.** The first refusal of an epoch ends it. Permits carry
//! the epoch in which they were granted, so a refusal of an older one is an
//! echo: it may lengthen the hold if it names a later time, and nothing else.
//! Nine refusals of nine calls that were on the wire together count once.
//!
//! **The hold** is what the provider said; without a word it is base·2ᵏ (1 s,
//! 2 s, 4 s … 60 s), where `k` counts the holds in a row that found the scope
//! still closed. There is one timer for everybody, hence no herd to spread by
//! full jitter, and a hold below base·2ᵏ would only be refused again. A hint
//! that has failed once is floored by base·2ᵏ⁻¹: a hint of 0 s waits 250 ms,
//! then 1 s, then 2 s. Jitter of a tenth (50 ms to 1 s) is only ever added.
//!
//! **k is not forgotten** at the end of a hold, nor by the success of a probe,
//! but only once the scope was good for [`GOOD_WHILE`].

use super::call::{PermitId, Reason};
use super::ramp::{Ramp, Target};
use crate::policy::Backoff;
use crate::time::{Draw, Moment, Span};
use crate::word::Mode;

/// How long a scope must be good before its refusals are forgotten.
pub(super) const GOOD_WHILE: Span = Span::from_secs(60);
/// How long a probe that may be repeated is waited for before any call may probe:
/// a scope that only sees writes must not stay closed for ever.
const ANY_PROBE_AFTER: Span = Span::from_secs(1);
/// A probe without an answer for this long counts as lost. Refusals come fast;
/// should it be accepted after all, its success still opens the scope.
const PROBE_PATIENCE: Span = Span::from_secs(30);
/// The shortest and longest jitter added to a hold.
const JITTER: (Span, Span) = (Span::from_millis(50), Span::from_secs(1));
/// First and longest hold of an exhausted quota that names no reset.
const EXHAUSTED: (Span, Span) = (Span::from_secs(600), Span::from_secs(6 * 3600));

/// The longest hold of a refusal whose wait is only documented.
const DOCUMENTED_MOST: Span = Span::from_secs(3_600);

/// How long a refusal holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// The provider named a time.
    Hinted(Span),
    /// Only its documentation does, as the least: doubled each time that it was too short.
    Documented(Span),
    /// Nobody did: the ladder.
    Ladder,
    /// A long quota is gone and no reset is named: rare probes.
    Exhausted,
    /// Until a person resumes it.
    Person,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Open,
    Closed {
        until: Moment,
        /// The same without jitter.
        opens: Moment,
    },
    Probing {
        since: Moment,
        probe: Option<(PermitId, Moment)>,
    },
    Ramping(Ramp),
}

/// What a permit must give back to the gate if it never leaves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    /// The epoch in which it was granted.
    pub(super) epoch: u64,
    /// Whether it is the probe.
    pub(super) probe: bool,
    ramp: Option<(Moment, Moment)>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    phase: Phase,
    epoch: u64,
    level: u32,
    /// A refusal before this climbs on from `level`.
    fragile_until: Moment,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate {
            phase: Phase::Open,
            epoch: 0,
            level: 0,
            fragile_until: Moment::START,
        }
    }
}

impl Gate {
    /// The gate as a restart reads it back.
    pub(super) fn restored(
        now: Moment,
        mode: Mode,
        until: Option<Moment>,
        (epoch, level): (u64, u32),
    ) -> Gate {
        let phase = match mode {
            Mode::Normal | Mode::Throttled => Phase::Open,
            Mode::Closed => {
                let until = until.unwrap_or(Moment::NEVER);
                Phase::Closed {
                    until,
                    opens: until,
                }
            }
            // The probe or the ramp ended with the process: one probe finds out anew.
            Mode::Probing | Mode::Ramping => Phase::Probing {
                since: now,
                probe: None,
            },
        };
        let was_calm = matches!(phase, Phase::Open) && level == 0;
        Gate {
            phase,
            epoch,
            level,
            fragile_until: if was_calm { now } else { now + GOOD_WHILE },
        }
    }

    /// Counts the refusal events.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How many holds in a row found the scope still closed.
    pub(super) fn level(&self) -> u32 {
        self.level
    }

    /// The phase by now: a hold and a ramp end by themselves.
    fn phase(&self, now: Moment) -> Phase {
        match self.phase {
            Phase::Closed { until, .. } if until <= now => Phase::Probing {
                since: until,
                probe: None,
            },
            Phase::Ramping(ramp) if ramp.ends() <= now => Phase::Open,
            phase => phase,
        }
    }

    /// The mode by now.
    pub(super) fn mode(&self, now: Moment) -> Mode {
        match self.phase(now) {
            Phase::Open => Mode::Normal,
            Phase::Closed { .. } => Mode::Closed,
            Phase::Probing { .. } => Mode::Probing,
            Phase::Ramping(_) => Mode::Ramping,
        }
    }

    /// When the hold ends; `None` if it does not hold, or until a person resumes it.
    pub(super) fn next_allowed_at(&self, now: Moment) -> Option<Moment> {
        match self.phase(now) {
            Phase::Closed { until, .. } if until < Moment::NEVER => Some(until),
            Phase::Ramping(ramp) => Some(ramp.next().max(now)),
            _ => None,
        }
    }

    /// Until when it holds; [`Moment::NEVER`] until a person resumes it, `now` if it does not.
    pub(super) fn held_until(&self, now: Moment) -> Moment {
        match self.phase(now) {
            Phase::Closed { until, .. } => until,
            _ => now,
        }
    }

    /// How long it has been climbing back.
    pub(super) fn climbed(&self, now: Moment) -> Span {
        match self.phase(now) {
            Phase::Ramping(ramp) => now.since(ramp.woke()),
            _ => Span::ZERO,
        }
    }

    /// Whether nothing of an earlier refusal is left.
    pub(super) fn is_calm(&self, now: Moment) -> bool {
        matches!(self.phase(now), Phase::Open) && self.fragile_until <= now
    }

    /// What stands in the way of a call.
    pub(super) fn block(&self, now: Moment, probe_safe: bool) -> Option<(Reason, Moment)> {
        match self.phase(now) {
            Phase::Open => None,
            Phase::Closed { until, .. } => Some((Reason::Closed, until)),
            Phase::Probing { probe: Some(_), .. } => Some((Reason::Probing, Moment::NEVER)),
            Phase::Probing { since, probe: None } => {
                let any_from = since + ANY_PROBE_AFTER;
                (!probe_safe && now < any_from).then_some((Reason::Probing, any_from))
            }
            Phase::Ramping(ramp) => (now < ramp.next()).then_some((Reason::Ramping, ramp.next())),
        }
    }

    /// A call that nothing blocks is granted.
    pub(super) fn grant(&mut self, now: Moment, permit: PermitId) -> Turn {
        self.phase = self.phase(now);
        let mut turn = Turn {
            epoch: self.epoch,
            ..Turn::default()
        };
        match &mut self.phase {
            Phase::Probing { probe, .. } if probe.is_none() => {
                *probe = Some((permit, now));
                turn.probe = true;
            }
            Phase::Ramping(ramp) => turn.ramp = Some(ramp.start(now)),
            Phase::Open | Phase::Closed { .. } | Phase::Probing { .. } => {}
        }
        turn
    }

    /// A granted call never left.
    pub(super) fn take_back(&mut self, permit: PermitId, turn: Turn) {
        match (&mut self.phase, turn.ramp) {
            (Phase::Probing { probe, .. }, _) if probe.is_some_and(|(id, _)| id == permit) => {
                *probe = None;
            }
            (Phase::Ramping(ramp), Some(ramped)) => ramp.take_back(ramped),
            _ => {}
        }
    }

    /// Whether this answer's refusal repeats one that is known.
    pub(super) fn is_echo(&self, turn: Turn) -> bool {
        turn.epoch < self.epoch
    }

    /// An echo: lengthens a hold that stands, if it names a later time.
    pub(super) fn echo(&mut self, now: Moment, draw: Draw, hint: Option<Span>) {
        let Some(hint) = hint else { return };
        let opens_later = now + hint;
        match &mut self.phase {
            Phase::Closed { until, opens } if *opens < opens_later => {
                *opens = opens_later;
                *until = (*until).max(opens_later + jitter(draw, hint));
            }
            // The hold is over, but nothing has been accepted since.
            Phase::Probing { .. } if now < opens_later => {
                self.phase = Phase::Closed {
                    until: opens_later + jitter(draw, hint),
                    opens: opens_later,
                };
            }
            _ => {}
        }
    }

    /// A refusal that is news: ends the epoch and closes the gate. Returns until when.
    pub(super) fn refuse(
        &mut self,
        now: Moment,
        draw: Draw,
        backoff: &Backoff,
        hold: Hold,
        turn: Turn,
    ) -> Moment {
        self.climb(now, hold, turn);
        self.epoch += 1;
        let wait = match hold {
            Hold::Hinted(hint) => {
                let floor = match self.level.checked_sub(1) {
                    Some(failed) => ladder(backoff.base, backoff.cap, failed),
                    None => Span::ZERO,
                };
                hint.max(backoff.minimum).max(floor)
            }
            Hold::Documented(least) => {
                ladder(least, DOCUMENTED_MOST.max(least), self.level).max(backoff.minimum)
            }
            Hold::Ladder => ladder(backoff.base, backoff.cap, self.level),
            Hold::Exhausted => ladder(EXHAUSTED.0, EXHAUSTED.1, self.level),
            Hold::Person => Span::MAX,
        };
        self.close(now, draw, wait)
    }

    /// The provider is overloaded: holds for the time it named. No epoch ends
    /// and nothing is concluded. Returns until when.
    pub(super) fn overload(
        &mut self,
        now: Moment,
        draw: Draw,
        backoff: &Backoff,
        hint: Span,
    ) -> Moment {
        let hint = hint.max(backoff.minimum);
        match self.phase(now) {
            Phase::Closed { until, opens } if now + hint <= opens => until,
            _ => self.close(now, draw, hint),
        }
    }

    /// The probe came to nothing: the next one later. Returns whether this was the probe.
    pub(super) fn lose_probe(
        &mut self,
        now: Moment,
        draw: Draw,
        backoff: &Backoff,
        permit: PermitId,
    ) -> bool {
        let is_probe =
            matches!(self.phase, Phase::Probing { probe: Some((id, _)), .. } if id == permit);
        if is_probe {
            let wait = ladder(backoff.base, backoff.cap, self.level);
            self.close(now, draw, wait);
        }
        is_probe
    }

    /// Whether a call's acceptance opens the gate: it was a probe of this epoch.
    /// Nothing else does.
    pub(super) fn would_open(&self, turn: Turn) -> bool {
        let waits = matches!(self.phase, Phase::Closed { .. } | Phase::Probing { .. });
        waits && turn.probe && turn.epoch == self.epoch
    }

    /// The probe was accepted: the scope climbs back.
    pub(super) fn open(&mut self, now: Moment, draw: Draw, target: Target) {
        self.phase = Phase::Ramping(Ramp::new(now, target, draw));
        self.fragile_until = now + GOOD_WHILE;
    }

    /// A person reopens it: the hold is over, and one call goes first.
    /// Returns whether it was closed.
    pub(super) fn resume(&mut self, now: Moment) -> bool {
        let closed = matches!(self.phase(now), Phase::Closed { .. });
        if closed {
            self.level = 0;
            self.phase = Phase::Probing {
                since: now,
                probe: None,
            };
        }
        closed
    }

    /// When the hold ends without jitter; what a lesson is measured against.
    pub(super) fn opens(&self) -> Option<Moment> {
        match self.phase {
            Phase::Closed { opens, .. } if opens < Moment::NEVER => Some(opens),
            _ => None,
        }
    }

    /// When this gate changes by itself; [`Moment::NEVER`] if it does not.
    pub(super) fn next_change(&self) -> Moment {
        match self.phase {
            Phase::Open => Moment::NEVER,
            Phase::Closed { until, .. } => until,
            Phase::Probing {
                probe: Some((_, sent)),
                ..
            } => sent + PROBE_PATIENCE,
            Phase::Probing { since, probe: None } => since + ANY_PROBE_AFTER,
            Phase::Ramping(ramp) => ramp.ends(),
        }
    }

    /// Time passed: what ended by itself has ended. Returns whether a probe fell silent.
    pub(super) fn pass(&mut self, now: Moment, draw: Draw, backoff: &Backoff) -> bool {
        self.phase = self.phase(now);
        match self.phase {
            Phase::Probing {
                probe: Some((permit, sent)),
                ..
            } if sent + PROBE_PATIENCE <= now => self.lose_probe(now, draw, backoff, permit),
            _ => false,
        }
    }

    /// `k` of the module: a failed probe climbs; a scope that was good for a while
    /// begins anew; between the two only a hint keeps the level.
    fn climb(&mut self, now: Moment, hold: Hold, turn: Turn) {
        self.level = match hold {
            _ if turn.probe => self.level.saturating_add(1),
            _ if self.fragile_until <= now => 0,
            Hold::Hinted(_) => self.level,
            _ => self.level.saturating_add(1),
        };
    }

    fn close(&mut self, now: Moment, draw: Draw, wait: Span) -> Moment {
        let opens = now + wait;
        let until = opens + jitter(draw, wait);
        self.phase = Phase::Closed { until, opens };
        until
    }
}

/// `base·2ᵏ`, at most `cap`.
fn ladder(base: Span, cap: Span, level: u32) -> Span {
    base.saturating_mul(1u64.checked_shl(level).unwrap_or(u64::MAX))
        .min(cap)
}

/// A tenth of the wait, at least 50 ms and at most 1 s; only ever added.
fn jitter(draw: Draw, wait: Span) -> Span {
    let widest = wait.scale(1, 10).max(JITTER.0).min(JITTER.1);
    draw.between(Span::ZERO, widest)
}
