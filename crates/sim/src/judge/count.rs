//! What is counted at the provider during a trial, and what follows from it.

use rategov_core::time::{Moment, Span};

use super::trial::{JUDGED, WARM_UP};

/// Moments of a window at which is looked whether something is asked for.
const STEPS: u64 = 100;

/// One of the governor's calls, as the provider saw it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Met {
    /// When its first byte left.
    pub(super) left: Moment,
    /// When it arrived.
    pub(super) arrived: Moment,
    /// When its answer was back.
    pub(super) heard: Moment,
    /// Whether it was let in.
    pub(super) accepted: bool,
    /// What it was charged in the end.
    pub(super) units: u64,
}

/// Everything that was counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Count {
    pub(super) met: Vec<Met>,
    /// Questions that the engine put to a person.
    pub(super) asked: u64,
    /// Calls that came back to their callers without an answer of the provider.
    pub(super) turned_away: u64,
    /// Calls of somebody else that the provider let in.
    pub(super) foreign: u64,
}

/// What a trial showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Refusals of calls that left after the first answer was heard.
    pub refusals: u64,
    /// Those of them that arrived after the warm-up.
    pub late_refusals: u64,
    /// The same as events: echoes count with the first.
    pub events: u64,
    /// Events after the warm-up; if something happens, it happens then.
    pub late_events: u64,
    /// Accepted of what the limit allowed while something was asked for, in
    /// ten-thousandths, over the windows that are judged.
    pub used: u64,
    /// The same over two windows, beginning two windows after something happened,
    /// of what was left by then.
    pub regained: u64,
    /// Questions that the engine put to a person.
    pub asked: u64,
    /// Calls that came back without an answer of the provider.
    pub turned_away: u64,
    /// Calls that the provider counted in all.
    pub calls: u64,
}

/// A stretch of a trial in which use is measured. Its first and its last window
/// weigh in and out evenly: else a governor that sends everything at the start of
/// a window would win or lose a whole window by where the stretch ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    from: Moment,
    window: Span,
    windows: u64,
}

impl Stretch {
    /// It weighs as much as `windows` windows, and lasts one more.
    pub(super) fn new(from: Moment, window: Span, windows: u64) -> Stretch {
        Stretch {
            from,
            window,
            windows,
        }
    }

    /// When it begins.
    pub(super) fn from(self) -> Moment {
        self.from
    }

    /// When it ends.
    pub(super) fn to(self) -> Moment {
        self.from + self.window.saturating_mul(self.windows + 1)
    }

    /// What a moment weighs, in microseconds of a whole window.
    pub(super) fn weight(self, at: Moment) -> u64 {
        if at < self.from {
            return 0;
        }
        let (since, left) = (at.since(self.from), self.to().since(at));
        since.min(left).min(self.window).as_micros()
    }

    /// Ten-thousandths that were used of `limit` units a window, while something
    /// was asked for.
    fn used(self, met: &[Met], limit: u64, is_on: &dyn Fn(Moment) -> bool) -> u64 {
        let accepted = met.iter().filter(|met| met.accepted);
        let used: u128 = accepted
            .map(|met| u128::from(self.weight(met.arrived)) * u128::from(met.units))
            .sum();
        let step = self.window.scale(1, STEPS);
        let mut asked: u128 = 0;
        let mut at = self.from;
        while at < self.to() {
            asked += u128::from(if is_on(at) { self.weight(at) } else { 0 });
            at = at + step;
        }
        let allowed = asked * u128::from(limit);
        u64::try_from(used * u128::from(STEPS) * 10_000 / allowed.max(1)).unwrap_or(u64::MAX)
    }
}

/// When what is judged begins, and what there is to use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// When the trial begins.
    pub(super) begin: Moment,
    /// The window.
    pub(super) window: Span,
    /// Units a window that are the governor's at the end.
    pub(super) left: u64,
}

impl Frame {
    /// What is judged.
    pub(super) fn judged(self) -> Stretch {
        let from = self.begin + self.window.saturating_mul(WARM_UP);
        Stretch::new(from, self.window, JUDGED)
    }

    /// Two windows, beginning two windows after something happened.
    fn regained(self) -> Stretch {
        let from = self.judged().from() + self.window.saturating_mul(2);
        Stretch::new(from, self.window, 2)
    }
}

impl Count {
    /// The verdict. `is_on` says when something was asked for.
    pub(super) fn verdict(&self, frame: Frame, is_on: &dyn Fn(Moment) -> bool) -> Verdict {
        let first_heard = self.met.iter().map(|met| met.heard).min();
        let informed = |met: &&Met| first_heard.is_some_and(|heard| heard < met.left);
        let refused: Vec<Met> = self
            .met
            .iter()
            .filter(|met| !met.accepted)
            .filter(informed)
            .copied()
            .collect();
        let events = events(&refused);
        let late = events
            .iter()
            .filter(|at| frame.judged().from() <= **at)
            .count();
        Verdict {
            refusals: refused.len() as u64,
            late_refusals: (refused.iter())
                .filter(|met| frame.judged().from() <= met.arrived)
                .count() as u64,
            events: events.len() as u64,
            late_events: late as u64,
            used: frame.judged().used(&self.met, frame.left, is_on),
            regained: frame.regained().used(&self.met, frame.left, is_on),
            asked: self.asked,
            turned_away: self.turned_away,
            calls: self.met.len() as u64,
        }
    }
}

/// When each event of a list of refusals arrived. A refusal belongs to the event
/// before it if its call left before the governor heard of that one.
fn events(refused: &[Met]) -> Vec<Moment> {
    let mut by_leaving = refused.to_vec();
    by_leaving.sort_by_key(|met| met.left);
    let mut events = Vec::new();
    let mut heard = Moment::START;
    for met in by_leaving {
        if heard <= met.left {
            events.push(met.arrived);
            heard = met.heard;
        } else {
            heard = heard.min(met.heard);
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(left: u64, heard: u64) -> Met {
        let ms = |ms| Moment::START + Span::from_millis(ms);
        Met {
            left: ms(left),
            arrived: ms((left + heard) / 2),
            heard: ms(heard),
            accepted: false,
            units: 1,
        }
    }

    #[test]
    fn what_left_before_a_refusal_was_heard_is_its_echo() {
        let burst = [refused(0, 100), refused(50, 150), refused(99, 180)];
        assert_eq!(events(&burst).len(), 1);
        assert_eq!(events(&[refused(0, 100), refused(100, 200)]).len(), 2);
        // The one that is heard first counts, whichever left first.
        let overtaken = [refused(0, 500), refused(10, 60), refused(70, 120)];
        assert_eq!(events(&overtaken).len(), 2);
        assert_eq!(events(&[]).len(), 0);
    }

    #[test]
    fn where_a_stretch_ends_does_not_matter_to_who_sends_all_at_once() {
        let window = Span::from_secs(10);
        let used = |phase: u64| {
            let met: Vec<Met> = (0..20)
                .flat_map(|n| (0..50).map(move |_| n * 10_000 + phase))
                .map(|ms| Met {
                    accepted: true,
                    arrived: Moment::START + Span::from_millis(ms),
                    ..refused(ms, ms)
                })
                .collect();
            let stretch = Stretch::new(Moment::from_micros(33_000_000), window, 4);
            let half = stretch.used(&met, 100, &|at| at.as_micros() % 10_000_000 < 5_000_000);
            (stretch.used(&met, 100, &|_| true), half)
        };
        // 50 of 100 a window is a half, and the whole if half of the time was asked for.
        for phase in [0, 1, 2_999, 3_000, 3_001, 9_999] {
            let (all, half) = used(phase);
            assert_eq!(all, 5_000, "phase {phase}");
            assert!((9_950..=10_050).contains(&half), "phase {phase}: {half}");
        }
    }
}
