//! What must hold of a trial, and why no more can be asked.
//!
//! **The ceiling.** A governor that must never be refused can't know where in
//! the jitter `J` a call arrives. What it can use for long is then, by the shape:
//!
//! | shape | ceiling | because |
//! |---|---|---|
//! | fixed of unknown phase, sliding, one or two | `W/(W + J)` | calls of `W + J` may meet in one window |
//! | counter | the same, less `1/Q` | starts must be even, and one is always the new one |
//! | bucket, `B ≥ 1 + R·J` | 1 | the bucket takes up the jitter |
//! | smaller bucket | `1/(1 + R·J − (B − 1))` | else two calls meet an empty one |
//!
//! Where a window charges the most at arrival and gives the rest back in the end, what
//! is open holds the most (a bucket refills meanwhile): `1/(1 + (L/W)·most/mean)` of
//! that, `L` the time for which the governor must take a call for open: work, both
//! ways, jitter. Example: 16,100 tokens at most, 665 on the mean, 1.84 s: 57.4 % of a
//! minute's limit.
//!
//! Who doesn't know the shape must be safe for all but the smaller buckets: the
//! counter's ceiling. Example: 100 per 10 s, J = 500 ms: 95.2 % if the window is
//! known to slide, 94.2 % if nothing is known.
//!
//! **The bounds.** No refusal if the limit was declared, nor if headers tell it,
//! after the first answer. If nothing is told, one event for each attempt to find
//! out more, which may be made every ten minutes. Utilisation: 98 %, or the
//! ceiling less 0.2 % if that is lower. Of a limit declared in another shape, 95 %
//! after five windows; of a limit on tokens 95 %, since each call is a guess. After
//! something happened: one event, and 90 % of what is left within two windows.

use rategov_core::time::Span;

use super::count::Verdict;
use super::trial::{JUDGED, Knowledge, Shape, Trial};
use super::work::Work;

/// Share of the limit that must be used, in ten-thousandths.
const USED_MIN: u64 = 9_800;
/// The same of a limit that was declared in another shape.
const USED_MIN_WRONG: u64 = 9_500;
/// The same of tokens.
const USED_MIN_TOKENS: u64 = 9_500;
/// Distance to the ceiling that is allowed.
const BELOW_CEILING: u64 = 20;
/// Share of what is left that must be used again after something happened.
const REGAINED_MIN: u64 = 9_000;
/// How often a governor that is told nothing may try for more.
const TRIES_EVERY: Span = Span::from_secs(600);

/// The share of the limit that can be used for long, in ten-thousandths.
pub fn ceiling(trial: &Trial) -> u64 {
    let (limit, window) = (trial.size.limit, trial.size.window.as_micros());
    let log = 10_000 * window / (window + trial.jitter.as_micros());
    let even = log * (limit - 1) / limit;
    let by_shape = match (trial.shape, trial.shape.capacity(trial.size)) {
        (_, Some(capacity)) => {
            // R·J and the room beside one call, in calls times the window.
            let bunched = limit * trial.jitter.as_micros();
            let room = (capacity - 1) * window;
            10_000 * window / (window + bunched.saturating_sub(room))
        }
        (Shape::SlidingCounter, _) => even,
        (_, None) => log,
    };
    let free = match trial.shape.capacity(trial.size) {
        Some(_) => 10_000,
        None => trial.work.kept_free(trial.size.window, trial.jitter),
    };
    let (by_shape, even) = (by_shape * free / 10_000, even * free / 10_000);
    match trial.knowledge {
        Knowledge::Declared | Knowledge::Both(_) => by_shape,
        _ => by_shape.min(even),
    }
}

/// What a trial missed; empty if every bound holds.
pub fn missed(trial: &Trial, verdict: &Verdict) -> Vec<String> {
    let mut missed = Vec::new();
    let mut at_most = |what: &str, counted: u64, most: u64| {
        if most < counted {
            missed.push(format!("{counted} {what}, at most {most}"));
        }
    };
    let happened = trial.happening.is_event();
    match trial.knowledge {
        Knowledge::Declared | Knowledge::Both(_) | Knowledge::Told(_) if happened => {
            at_most("events before", verdict.events - verdict.late_events, 0);
            at_most("events", verdict.late_events, 1);
        }
        Knowledge::Declared | Knowledge::Both(_) | Knowledge::Told(_) => {
            at_most("refusals", verdict.refusals, 0);
        }
        Knowledge::Hinted | Knowledge::Silent => {
            let judged = trial.size.window.saturating_mul(JUDGED);
            let tries = judged.as_micros().div_ceil(TRIES_EVERY.as_micros());
            at_most("events", verdict.late_events, tries + u64::from(happened));
        }
        Knowledge::Wrong(_) => {}
    }
    let mut at_least = |what: &str, share: u64, least: u64| {
        if share < least {
            let (got, wanted) = (percent(share), percent(least));
            missed.push(format!("{got} {what}, at least {wanted}"));
        }
    };
    if happened {
        at_least("regained", verdict.regained, REGAINED_MIN);
    } else {
        at_least("used", verdict.used, used_min(trial));
    }
    missed
}

/// The share that must be used.
pub fn used_min(trial: &Trial) -> u64 {
    let asked = match (trial.work, trial.knowledge) {
        (Work::Tokens { .. }, _) => USED_MIN_TOKENS,
        (Work::Calls, Knowledge::Wrong(_)) => USED_MIN_WRONG,
        (Work::Calls, _) => USED_MIN,
    };
    asked.min(ceiling(trial).saturating_sub(BELOW_CEILING))
}

/// `98.04%`.
pub(super) fn percent(share: u64) -> String {
    format!("{}.{:02}%", share / 100, share % 100)
}
