//! The limits of one scope: what is declared, what was learnt, and whether a
//! call fits all of them.
//!
//! | known | paced by |
//! | --- | --- |
//! | nothing | nothing, until the first header or refusal |
//! | sliding, fixed, a full-size bucket | the sliding log over W + J |
//! | sliding counter, small bucket, unknown kind | the universal pacer and the log |
//! | declared, but refused although it fitted | the universal pacer and the log |
//! | a limit read from headers | the universal pacer, and never more than `remaining` |
//! | refusals only | a pacer at the rate that was accepted, then searching upwards |
//!
//! # Learning from refusals, worked example
//! A provider allows 60 in 10 s and says nothing else. In the first 2 s it
//! accepts 60 calls and then refuses, naming 8 s. Sixty calls in the ten seconds
//! until it opens again are 6 a second: the pacer starts at 98 % of that. Each
//! ten seconds without a refusal add 1 %; a refusal takes back 3 to 15 %, as the
//! accepted rate says.

use super::pacer::Pacer;
use super::window::SlidingLog;
use crate::observe::Reading;
use crate::policy::{Quota, ScopeLimits, WindowKind};
use crate::time::{Moment, Span};

/// Part of the window that is kept as a margin for jitter while nothing is measured.
const JITTER_PART: u64 = 50;
/// How often a learnt rate is raised, and by which part.
const SEARCH_EVERY: Span = Span::from_secs(10);
const SEARCH_PART: u64 = 100;
/// Header samples after which the shape of a header's reset is judged.
const SHAPE_SAMPLES: u8 = 3;

/// Where the limits come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nothing is known.
    Nothing,
    /// The configuration.
    Declared,
    /// The provider's headers.
    Header,
    /// Refusals.
    Learned,
}

impl Origin {
    /// The word shown to people.
    pub fn word(self) -> &'static str {
        match self {
            Origin::Nothing => "nothing",
            Origin::Declared => "declared",
            Origin::Header => "header",
            Origin::Learned => "learned",
        }
    }
}

/// A limit on requests, declared or read.
#[derive(Clone, Debug)]
struct Window {
    quota: Quota,
    log: SlidingLog,
}

/// `remaining` as a header had it, less what was sent since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ceiling {
    pub(super) left: u64,
    pub(super) until: Moment,
}

/// How the resets of a header grow, to tell a bucket from a window.
#[derive(Clone, Copy, Debug, Default)]
struct Shape {
    samples: u8,
    /// Largest reset: a window's length shows in it.
    reset_max: Span,
    /// `reset · limit / used`: constant for a bucket.
    refill_min: Option<Span>,
    refill_max: Span,
}

/// The request limits of a scope.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub(super) origin: Origin,
    pub(super) misdeclared: bool,
    windows: Vec<Window>,
    pacer: Option<Pacer>,
    pub(super) ceiling: Option<Ceiling>,
    shape: Shape,
    /// When it was last considered whether the learnt rate may grow.
    searched_at: Moment,
    /// Calls accepted, and since when, to learn a rate from.
    accepted: u64,
    accepted_since: Option<Moment>,
}

impl Limits {
    pub(super) fn new(declared: Option<&ScopeLimits>, headroom_permille: u32) -> Limits {
        let mut limits = Limits {
            origin: Origin::Nothing,
            misdeclared: false,
            windows: Vec::new(),
            pacer: None,
            ceiling: None,
            shape: Shape::default(),
            searched_at: Moment::START,
            accepted: 0,
            accepted_since: None,
        };
        limits.declare(declared, headroom_permille);
        limits
    }

    /// Takes up what is declared. What was sent and learnt stays where it fits.
    pub(super) fn declare(&mut self, declared: Option<&ScopeLimits>, headroom_permille: u32) {
        let quotas = declared
            .map(|limits| limits.requests.as_slice())
            .unwrap_or_default();
        if quotas.is_empty() {
            if self.origin == Origin::Declared {
                self.windows.clear();
                self.pacer = None;
                self.origin = Origin::Nothing;
            }
            return;
        }
        self.origin = Origin::Declared;
        let old = std::mem::take(&mut self.windows);
        let mut distance: Option<Span> = None;
        for (n, quota) in quotas.iter().enumerate() {
            let kept = u64::from(1_000 - headroom_permille.min(999));
            let cap = (u128::from(quota.limit) * u128::from(kept) / 1_000).max(1);
            let cap = u64::try_from(cap).unwrap_or(u64::MAX);
            let span = quota.window + jitter(quota.window);
            let log = match old.get(n) {
                Some(window) => {
                    let mut log = window.log.clone();
                    log.resize(cap, span);
                    log
                }
                None => SlidingLog::new(cap, span),
            };
            if self.misdeclared || !log_is_enough(quota) {
                let safe = Pacer::safe_distance(cap, quota.window, jitter(quota.window));
                distance = distance.max(Some(safe));
            }
            self.windows.push(Window {
                quota: quota.clone(),
                log,
            });
        }
        self.pace(distance);
    }

    fn pace(&mut self, distance: Option<Span>) {
        match (distance, &mut self.pacer) {
            (Some(distance), Some(pacer)) => pacer.set_distance(distance),
            (distance, pacer) => *pacer = distance.map(Pacer::new),
        }
    }

    /// When `units` fit all limits, and whether it is the pacer that makes wait.
    pub(super) fn free_at(&self, now: Moment, units: u64) -> (Moment, bool) {
        let logs = self
            .windows
            .iter()
            .map(|window| window.log.free_at(now, units));
        let mut quota = logs.max().unwrap_or(now);
        if let Some(ceiling) = self.ceiling
            && now < ceiling.until
            && ceiling.left < units
        {
            quota = quota.max(ceiling.until);
        }
        let paced = self.pacer.as_ref().map_or(now, |pacer| pacer.free_at(now));
        (quota.max(paced), quota < paced)
    }

    pub(super) fn reserve(&mut self, now: Moment, units: u64) {
        for window in &mut self.windows {
            window.log.reserve(units);
        }
        if let Some(pacer) = &mut self.pacer {
            pacer.grant(now, units);
        }
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.left = ceiling.left.saturating_sub(units);
        }
        if self.accepted_since.is_none() {
            self.accepted_since = Some(now);
            self.accepted = 0;
        }
    }

    pub(super) fn send(&mut self, now: Moment, units: u64) {
        for window in &mut self.windows {
            window.log.send(now, units);
        }
        if let Some(pacer) = &mut self.pacer {
            pacer.send(now, units);
        }
    }

    /// It was certainly not sent. `sent` says whether its window had begun.
    pub(super) fn give_back(&mut self, units: u64, sent: bool) {
        for window in &mut self.windows {
            if sent {
                window.log.unsend(units);
            } else {
                window.log.give_back(units);
            }
        }
        if let Some(pacer) = &mut self.pacer {
            pacer.give_back(units);
        }
        if let Some(ceiling) = &mut self.ceiling {
            ceiling.left += units;
        }
    }

    /// A send of another time or process.
    pub(super) fn record(&mut self, at: Moment, units: u64) {
        for window in &mut self.windows {
            window.log.record(at, units);
        }
    }

    /// A call was accepted.
    pub(super) fn accept(&mut self, now: Moment, units: u64) {
        self.accepted += units;
        self.search(now);
    }

    /// Raises a learnt rate a little after each quiet stretch that used it.
    fn search(&mut self, now: Moment) {
        let learned = self.origin == Origin::Learned || self.misdeclared;
        let Some(pacer) = self.pacer.as_mut().filter(|_| learned) else {
            return;
        };
        let quiet = now.since(self.searched_at);
        if quiet < SEARCH_EVERY {
            return;
        }
        let possible = quiet.as_micros() / pacer.distance().as_micros().max(1);
        let since = self
            .accepted_since
            .map_or(Span::ZERO, |since| now.since(since));
        let used = self.accepted.saturating_mul(quiet.as_micros())
            / since.as_micros().max(quiet.as_micros()).max(1);
        self.searched_at = now;
        if possible.saturating_mul(4) <= used.saturating_mul(5) {
            let distance = pacer.distance().scale(SEARCH_PART, SEARCH_PART + 1);
            let floor = self
                .windows
                .iter()
                .map(|window| window.log.span().scale(1, window.log.cap().max(1)))
                .max();
            pacer.set_distance(distance.max(floor.unwrap_or(Span::from_micros(1))));
        }
    }

    /// The provider refused; it opens again at `opens`. Says whether something was learnt.
    pub(super) fn refused(&mut self, opens: Moment) -> bool {
        let since = self.accepted_since.take();
        let accepted = std::mem::take(&mut self.accepted);
        self.searched_at = opens;
        let measured = since.filter(|_| 0 < accepted).map(|since| {
            // 98 % of the rate that was accepted, the hold included.
            opens.since(since).scale(100, 98).scale(1, accepted)
        });
        if matches!(self.origin, Origin::Declared | Origin::Header) && !self.misdeclared {
            // It fitted what is known and was refused all the same.
            self.misdeclared = true;
            let safe = self.windows.iter().map(|window| {
                let quota = &window.quota;
                Pacer::safe_distance(window.log.cap(), quota.window, jitter(quota.window))
            });
            let distance = safe.max().max(self.distance());
            self.pace(distance);
            return true;
        }
        self.slow_down(measured)
    }

    /// One cut: not below 85 % of the old rate, not above 97 % of it.
    fn slow_down(&mut self, measured: Option<Span>) -> bool {
        let distance = match (self.pacer.as_ref().map(Pacer::distance), measured) {
            (Some(old), measured) => {
                let (least, most) = (old.scale(100, 97), old.scale(100, 85));
                measured.unwrap_or(most).clamp(least, most)
            }
            (None, Some(measured)) => measured,
            (None, None) => return false,
        };
        if self.origin == Origin::Nothing {
            self.origin = Origin::Learned;
        }
        self.pace(Some(distance.max(Span::from_micros(1))));
        true
    }

    /// A header described the limit. `sent_since` is what was sent after the
    /// request that it answers. Says whether a limit was learnt.
    pub(super) fn read(&mut self, now: Moment, reading: &Reading, sent_since: u64) -> bool {
        let mut learned = false;
        if let Some(limit) = reading.limit
            && 0 < limit
            && !matches!(self.origin, Origin::Declared)
            && let Some(window) = self.window_of(reading, limit)
        {
            learned = self.learn(limit, window);
        }
        if let Some(remaining) = reading.remaining {
            let until = match reading.reset_after {
                Some(reset) => now + reset,
                // Without a reset the number is good until the next header.
                None if remaining == 0 => now + Span::from_secs(1),
                None => now,
            };
            self.ceiling = Some(Ceiling {
                left: remaining.saturating_sub(sent_since),
                until,
            });
        }
        learned
    }

    /// The window that a reading speaks of: stated, or judged from its resets.
    fn window_of(&mut self, reading: &Reading, limit: u64) -> Option<Span> {
        if reading.window.is_some() {
            return reading.window;
        }
        let (remaining, reset) = (reading.remaining?, reading.reset_after?);
        let used = limit.saturating_sub(remaining).max(1);
        let refill = reset.scale(limit, used);
        let shape = &mut self.shape;
        shape.samples = shape.samples.saturating_add(1);
        shape.reset_max = shape.reset_max.max(reset);
        shape.refill_min = Some(shape.refill_min.map_or(refill, |least| least.min(refill)));
        shape.refill_max = shape.refill_max.max(refill);
        let least = shape.refill_min.unwrap_or(refill);
        let is_bucket = SHAPE_SAMPLES <= shape.samples && shape.refill_max <= least.scale(6, 5);
        let window = if is_bucket { least } else { shape.reset_max };
        (Span::ZERO < window).then_some(window)
    }

    fn learn(&mut self, limit: u64, window: Span) -> bool {
        let same = self.windows.first().is_some_and(|known| {
            known.quota.limit == limit
                && known.quota.window.scale(95, 100) <= window
                && window <= known.quota.window.scale(105, 100)
        });
        if same {
            return false;
        }
        let quota = Quota {
            limit,
            window,
            kind: WindowKind::Unknown,
        };
        let span = window + jitter(window);
        let log = match self.windows.pop() {
            Some(mut known) => {
                known.log.resize(limit, span);
                known.log
            }
            None => SlidingLog::new(limit, span),
        };
        self.windows = vec![Window { quota, log }];
        self.origin = Origin::Header;
        let distance = Pacer::safe_distance(limit, window, jitter(window));
        self.pace(Some(distance));
        true
    }

    /// What may be sent in a stretch of time; `None` if no bound is known.
    pub(super) fn rate(&self) -> Option<(u64, Span)> {
        let windows = self
            .windows
            .iter()
            .map(|window| (window.log.cap(), window.log.span()));
        let paced = self.pacer.iter().map(|pacer| (1, pacer.distance()));
        windows.chain(paced).min_by(|(a, per_a), (b, per_b)| {
            let left = u128::from(*a) * u128::from(per_b.as_micros());
            let right = u128::from(*b) * u128::from(per_a.as_micros());
            left.cmp(&right)
        })
    }

    /// The tightest window: limit, length, spent, reserved.
    pub(super) fn tightest(&self, now: Moment) -> Option<(u64, Span, u64, u64)> {
        self.windows
            .iter()
            .map(|window| {
                let log = &window.log;
                (
                    window.quota.limit,
                    window.quota.window,
                    log.spent(now),
                    log.reserved(),
                )
            })
            .min_by_key(|(limit, _, spent, reserved)| limit.saturating_sub(spent + reserved))
    }

    pub(super) fn distance(&self) -> Option<Span> {
        self.pacer.as_ref().map(Pacer::distance)
    }

    /// Takes up what a restart saved.
    pub(super) fn restore(&mut self, saved: &crate::record::ScopeRow) {
        self.misdeclared = saved.misdeclared;
        if self.origin == Origin::Nothing
            && let (Some(limit), Some(window)) = (saved.limit, saved.window)
        {
            self.learn(limit, window);
        }
        if let Some(distance) = saved.spacing {
            if self.origin == Origin::Nothing {
                self.origin = Origin::Learned;
            }
            self.pace(Some(distance));
        }
    }
}

/// The margin for jitter: 2 % of the window.
fn jitter(window: Span) -> Span {
    window.scale(1, JITTER_PART)
}

/// Whether the sliding log alone is safe for a quota of this kind.
fn log_is_enough(quota: &Quota) -> bool {
    match quota.kind {
        WindowKind::Sliding | WindowKind::Fixed => true,
        WindowKind::TokenBucket { burst } => quota.limit <= burst,
        WindowKind::SlidingCounter | WindowKind::Unknown => false,
    }
}
