//! How a scope climbs back after a refusal: spaced, jittered, and ever faster.
//!
//! | what is known | first spacing | then | ends |
//! | --- | --- | --- | --- |
//! | a limit (declared, or from headers) | the universal pacer's | stays | after 3 s |
//! | a rate `R` concluded from refusals | of R/10 or 2/s, the faster | doubles each second to 0.7·R, then + 2 % of R a second | at 0.98·R |
//! | nothing | 500 ms | doubles each second | after 10 s |
//!
//! In its first seconds starts are at least 60 ms apart, so that many agents
//! behind one hold return one by one and not as a wave. Jitter of up to a
//! quarter of the spacing is only ever added. Example: R = 6/s. The first
//! starts are 500 ms apart (2/s), from the first second on 250 ms (4/s), from
//! the second 238 ms (0.7·R), and 14 s later 170 ms (0.98·R).
//! Source: the slow start of TCP (RFC 5681), with the least spacing that the
//! reference scenario asks for.

use crate::time::{Draw, Moment, Span};

/// Least distance of two starts in the first seconds. The specification asks
/// for 50 ms at the provider; the rest covers the unequal ways there.
const SPACING_MIN: Span = Span::from_millis(60);
/// Spacing of the first starts if nothing is known.
const SPACING_FIRST: Span = Span::from_millis(500);
/// How long a ramp lasts if the limit is known.
const KNOWN_LASTS: Span = Span::from_secs(3);
/// Doublings if nothing is known.
const BLIND_DOUBLINGS: u64 = 10;
/// Seconds for which [`SPACING_MIN`] holds if nothing, or only a rate, is known.
const SPACED_SECS: u64 = 5;
/// Share of the learnt rate to which the ramp doubles, in thousandths.
const DOUBLES_TO_PERMILLE: u64 = 700;
/// Added each second from there on, in thousandths.
const STEP_PERMILLE: u64 = 20;
/// Share of the learnt rate at which the ramp ends, in thousandths.
pub(super) const SAFE_PERMILLE: u64 = 980;

/// What a scope climbs back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The spacing of the universal pacer of a known limit.
    Known(Span),
    /// The spacing of the rate that refusals taught.
    Learnt(Span),
    /// Nothing is known.
    Blind,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ramp {
    woke: Moment,
    target: Target,
    draw: Draw,
    next: Moment,
    ends: Moment,
}

impl Ramp {
    /// A ramp that begins now; its first start comes one spacing later.
    pub(super) fn new(now: Moment, target: Target, draw: Draw) -> Ramp {
        let lasts = match target {
            Target::Known(_) => KNOWN_LASTS,
            Target::Learnt(spacing) => {
                let steps = (SAFE_PERMILLE - DOUBLES_TO_PERMILLE) / STEP_PERMILLE;
                Span::from_secs(doublings(spacing) + steps)
            }
            Target::Blind => Span::from_secs(BLIND_DOUBLINGS),
        };
        let mut ramp = Ramp {
            woke: now,
            target,
            draw,
            next: now,
            ends: now + lasts,
        };
        ramp.start(now);
        ramp
    }

    /// When it is over.
    pub(super) fn ends(&self) -> Moment {
        self.ends
    }

    /// The next start is not before this.
    pub(super) fn next(&self) -> Moment {
        self.next
    }

    /// A start is granted. Returns what [`Ramp::take_back`] needs.
    pub(super) fn start(&mut self, now: Moment) -> (Moment, Moment) {
        let before = self.next;
        let spacing = self.spacing(now);
        let jitter = self.draw.between(Span::ZERO, spacing.scale(1, 4));
        self.draw = self.draw.again();
        self.next = now + spacing + jitter;
        (before, self.next)
    }

    /// The last start never left: its turn is free again.
    pub(super) fn take_back(&mut self, (before, after): (Moment, Moment)) {
        if self.next == after {
            self.next = before;
        }
    }

    /// When it began.
    pub(super) fn woke(&self) -> Moment {
        self.woke
    }

    fn spacing(&self, now: Moment) -> Span {
        self.target.spacing(now.since(self.woke))
    }
}

impl Target {
    /// The distance of two starts this long after the ramp began, without jitter.
    fn spacing(self, climbed: Span) -> Span {
        let secs = climbed.as_micros() / 1_000_000;
        match self {
            Target::Known(spacing) => spacing.max(halved(SPACING_MIN, secs)),
            Target::Learnt(spacing) => {
                let doublings = doublings(spacing);
                if secs < doublings {
                    return halved(first(spacing), secs)
                        .max(halved(SPACING_MIN, secs.saturating_sub(SPACED_SECS)));
                }
                let share = DOUBLES_TO_PERMILLE + STEP_PERMILLE * (secs - doublings);
                spacing.scale(1_000, share.min(SAFE_PERMILLE))
            }
            Target::Blind if secs < SPACED_SECS => halved(SPACING_FIRST, secs).max(SPACING_MIN),
            Target::Blind => halved(SPACING_MIN, secs + 1 - SPACED_SECS),
        }
    }
}

/// How long `starts` more starts take if nothing is known, so long after the ramp
/// began, with the most jitter. From its end on nothing spaces them.
/// Example: of a fresh one the tenth comes in the third second. Cost: a step a second.
pub(super) fn blind_climb(climbed: Span, starts: u64) -> Span {
    let ends = Span::from_secs(BLIND_DOUBLINGS);
    let (mut at, mut left) = (climbed, starts);
    while at < ends && 0 < left {
        let spacing = Target::Blind.spacing(at).scale(5, 4);
        let second_ends = Span::from_secs(at.as_micros() / 1_000_000 + 1);
        let rest = second_ends.saturating_sub(at).as_micros();
        let starting = left.min(rest.div_ceil(spacing.as_micros().max(1)));
        at += spacing.saturating_mul(starting);
        left -= starting;
    }
    at.saturating_sub(climbed)
}

fn halved(span: Span, times: u64) -> Span {
    Span::from_micros(span.as_micros() >> times.min(63))
}

/// The first spacing on the way back to a learnt one.
fn first(learnt: Span) -> Span {
    SPACING_FIRST
        .min(learnt.saturating_mul(10))
        .max(learnt.scale(1_000, DOUBLES_TO_PERMILLE))
}

/// Seconds of doubling until 0.7 of the learnt rate is reached.
fn doublings(learnt: Span) -> u64 {
    let goal = learnt.scale(1_000, DOUBLES_TO_PERMILLE);
    (0..64)
        .find(|n| halved(first(learnt), *n) <= goal)
        .unwrap_or(63)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts as early as the ramp allows; gives the starts in each second after the wake.
    fn starts(target: Target, draw: Draw) -> Vec<Moment> {
        let woke = Moment::START + Span::from_secs(100);
        let mut ramp = Ramp::new(woke, target, draw);
        let mut starts = vec![woke];
        while ramp.next() < ramp.ends() {
            let now = ramp.next();
            starts.push(now);
            ramp.start(now);
        }
        starts
    }

    fn check_spaced(target: Target, within_secs: u64) {
        for seed in [0, 1, 77, u32::MAX] {
            let starts = starts(target, Draw::from_u32(seed));
            let early = starts[0] + Span::from_secs(within_secs);
            for pair in starts.windows(2).filter(|pair| pair[1] < early) {
                assert!(
                    Span::from_millis(50) <= pair[1].since(pair[0]),
                    "{target:?}"
                );
            }
        }
    }

    #[test]
    fn the_first_starts_are_at_least_fifty_milliseconds_apart() {
        check_spaced(Target::Blind, 5);
        check_spaced(Target::Known(Span::from_millis(12)), 1);
        check_spaced(Target::Known(Span::from_millis(173)), 3);
        check_spaced(Target::Learnt(Span::from_millis(167)), 10);
    }

    #[test]
    fn two_draws_give_different_starts() {
        let one = starts(Target::Blind, Draw::from_u32(1));
        let other = starts(Target::Blind, Draw::from_u32(2_000_000_000));
        assert_ne!(one[1], other[1]);
    }

    #[test]
    fn a_blind_ramp_doubles_and_is_over_after_ten_seconds() {
        let starts = starts(Target::Blind, Draw::ZERO);
        let in_second = |s: u64| {
            starts
                .iter()
                .filter(|at| at.since(starts[0]).as_micros() / 1_000_000 == s)
                .count()
        };
        assert_eq!((0..4).map(in_second).collect::<Vec<_>>(), [2, 4, 6, 14]);
        assert!(200 < in_second(9), "{}", in_second(9));
        let lasted = starts[starts.len() - 1].since(starts[0]);
        assert!(lasted < Span::from_secs(10), "{lasted}");
    }

    #[test]
    fn a_blind_climb_is_never_said_to_be_shorter_than_it_is() {
        for draw in [Draw::ZERO, Draw::from_u32(77), Draw::from_u32(u32::MAX)] {
            let starts = starts(Target::Blind, draw);
            for (n, at) in starts.iter().enumerate().skip(1) {
                let took = at.since(starts[0]);
                let said = blind_climb(Span::ZERO, n as u64);
                assert!(
                    took <= said || Span::from_secs(10) <= said,
                    "{n}: {took} {said}"
                );
                assert!(
                    said <= took.scale(3, 2) + Span::from_secs(1),
                    "{n}: {took} {said}"
                );
            }
        }
        assert_eq!(blind_climb(Span::from_secs(10), 50), Span::ZERO);
    }

    #[test]
    fn a_learnt_ramp_stays_below_the_learnt_rate() {
        for spacing_ms in [20, 167, 900, 20_000] {
            let spacing = Span::from_millis(spacing_ms);
            let starts = starts(Target::Learnt(spacing), Draw::ZERO);
            for pair in starts.windows(2) {
                assert!(spacing <= pair[1].since(pair[0]), "{spacing}");
            }
        }
    }

    #[test]
    fn a_start_that_never_left_gives_its_turn_back() {
        let mut ramp = Ramp::new(Moment::START, Target::Blind, Draw::ZERO);
        let now = ramp.next();
        let turn = ramp.start(now);
        ramp.take_back(turn);
        assert_eq!(ramp.next(), now);
    }
}
