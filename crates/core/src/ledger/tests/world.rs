//! A provider that counts by brute force, agents that never tire, and the ways
//! between them. Shares no code with what it tests.

use super::{account, read};
use crate::ledger::{Change, Ledger, PermitId};
use crate::observe::{Facts, Meaning, Reach, Reading};
use crate::time::{Draw, Moment, Span};
use std::collections::{BTreeMap, VecDeque};

/// How the provider counts. Times in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    Sliding { limit: u64, window: u64 },
    Fixed { limit: u64, window: u64, phase: u64 },
    Bucket { burst: u64, limit: u64, window: u64 },
    Counter { limit: u64, window: u64, phase: u64 },
}

/// The provider. Every arrival is kept; nothing is clever.
#[derive(Clone, Debug)]
pub(super) struct Provider {
    pub(super) rule: Rule,
    /// Whether a refused call counts, too.
    pub(super) counts_refused: bool,
    counted: VecDeque<u64>,
    /// Of the bucket, in units·window.
    level: u128,
    level_at: u64,
    pub(super) accepted: Vec<u64>,
    pub(super) refused: Vec<u64>,
}

impl Provider {
    pub(super) fn new(rule: Rule) -> Provider {
        let level = match rule {
            Rule::Bucket { burst, window, .. } => u128::from(burst) * u128::from(window),
            _ => 0,
        };
        Provider {
            rule,
            counts_refused: false,
            counted: VecDeque::new(),
            level,
            level_at: 0,
            accepted: Vec::new(),
            refused: Vec::new(),
        }
    }

    fn counted_since(&self, from: u64, to: u64) -> u64 {
        self.counted
            .iter()
            .filter(|at| from <= **at && **at < to)
            .count() as u64
    }

    /// Units left at `now`, before the call that arrives then.
    pub(super) fn left(&mut self, now: u64) -> u64 {
        match self.rule {
            Rule::Sliding { limit, window } => {
                // A call exactly one window old still counts: the hard case.
                let from = now.saturating_sub(window);
                limit.saturating_sub(self.counted_since(from, now + 1))
            }
            Rule::Fixed {
                limit,
                window,
                phase,
            } => {
                let start = start_of(now, window, phase);
                limit.saturating_sub(self.counted_since(start, now + 1))
            }
            Rule::Bucket {
                burst,
                limit,
                window,
            } => {
                let full = u128::from(burst) * u128::from(window);
                let gained = u128::from(now - self.level_at) * u128::from(limit);
                self.level = full.min(self.level + gained);
                self.level_at = now;
                (self.level / u128::from(window)) as u64
            }
            Rule::Counter {
                limit,
                window,
                phase,
            } => {
                let start = start_of(now, window, phase);
                let current = self.counted_since(start, now + 1);
                let before = self.counted_since(start.saturating_sub(window), start);
                let left_of_before = before * (start + window - now).min(window);
                // In units·window, so that nothing is rounded away.
                let used = current * window + left_of_before;
                (limit * window).saturating_sub(used) / window
            }
        }
    }

    /// How long until a unit is back.
    fn wait(&mut self, now: u64) -> u64 {
        match self.rule {
            Rule::Sliding { limit, window } => {
                let from = now.saturating_sub(window);
                let live: Vec<u64> = self
                    .counted
                    .iter()
                    .copied()
                    .filter(|at| from <= *at)
                    .collect();
                let over = live.len() as u64 + 1 - limit;
                live[over as usize - 1] + window + 1 - now
            }
            Rule::Fixed { window, phase, .. } => start_of(now, window, phase) + window - now,
            Rule::Bucket { limit, window, .. } => {
                let missing = u128::from(window) - self.level.min(u128::from(window));
                missing.div_ceil(u128::from(limit)) as u64
            }
            Rule::Counter { window, phase, .. } => (1..)
                .map(|n| n * window / 64)
                .find(|wait| {
                    let at = now + wait;
                    0 < self.clone().left(at.max(start_of(at, window, phase)))
                })
                .unwrap_or(window),
        }
    }

    /// A call arrives. `Err` is how long to wait.
    pub(super) fn arrive(&mut self, now: u64) -> Result<(), u64> {
        let fits = 0 < self.left(now);
        if fits || self.counts_refused {
            self.counted.push_back(now);
        }
        let window = match self.rule {
            Rule::Sliding { window, .. }
            | Rule::Fixed { window, .. }
            | Rule::Bucket { window, .. }
            | Rule::Counter { window, .. } => window,
        };
        while self.counted.front().is_some_and(|at| at + 3 * window < now) {
            self.counted.pop_front();
        }
        if fits {
            self.level = self.level.saturating_sub(u128::from(window));
            self.accepted.push(now);
            return Ok(());
        }
        let wait = self.wait(now);
        self.refused.push(now);
        Err(wait)
    }
}

fn start_of(now: u64, window: u64, phase: u64) -> u64 {
    let phase = phase % window;
    if now < phase {
        0
    } else {
        (now - phase) / window * window + phase
    }
}

/// What the provider tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hints {
    /// Nothing but the status.
    None,
    /// `Retry-After` in whole seconds, rounded up.
    Seconds,
    /// `Retry-After` to the microsecond, and limit, remaining and reset on every answer.
    Headers,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Leave(PermitId),
    Arrive(PermitId),
    Answer(PermitId, Result<u64, u64>),
}

/// Everything that can happen, in order.
#[derive(Debug)]
pub(super) struct World {
    pub(super) ledger: Ledger,
    pub(super) provider: Provider,
    pub(super) hints: Hints,
    /// Calls in flight at most.
    pub(super) in_flight_max: usize,
    /// Delay from grant to first byte, from first byte to arrival, and the time to
    /// answer; each low and high.
    pub(super) commit: (u64, u64),
    pub(super) way: (u64, u64),
    pub(super) service: (u64, u64),
    /// Demand pauses: for this long, after as long of demand.
    pub(super) pause: Option<u64>,
    pub(super) changes: Vec<(Moment, Change)>,
    pub(super) now: Moment,
    in_flight: usize,
    events: BTreeMap<(u64, u64), Event>,
    next_event: u64,
    seed: u64,
}

impl World {
    pub(super) fn new(ledger: Ledger, rule: Rule, seed: u64) -> World {
        World {
            ledger,
            provider: Provider::new(rule),
            hints: Hints::Seconds,
            in_flight_max: 24,
            commit: (0, 2_000),
            way: (5_000, 25_000),
            service: (200_000, 600_000),
            pause: None,
            changes: Vec::new(),
            // Not at zero: a clock that has run for a while hides no sign error.
            now: Moment::from_micros(1_000_000_000),
            in_flight: 0,
            events: BTreeMap::new(),
            next_event: 0,
            seed: seed ^ 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// xorshift64*: the same seed gives the same run.
    fn random(&mut self, (low, high): (u64, u64)) -> u64 {
        self.seed ^= self.seed >> 12;
        self.seed ^= self.seed << 25;
        self.seed ^= self.seed >> 27;
        let drawn = self.seed.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16;
        low + drawn % (high - low + 1)
    }

    fn draw(&mut self) -> Draw {
        Draw::from_u32(self.random((0, u64::from(u32::MAX))) as u32)
    }

    fn later(&mut self, after: u64, event: Event) {
        self.next_event += 1;
        self.events
            .insert((self.now.as_micros() + after, self.next_event), event);
    }

    /// Lets time pass.
    pub(super) fn run(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            let wake = self.start_what_may().min(self.ledger.next_change(self.now));
            let next = self
                .events
                .first_key_value()
                .map_or(u64::MAX, |((at, _), _)| *at);
            let at = Moment::from_micros(next).min(wake);
            assert!(self.now <= at, "time goes back");
            if end <= at {
                break;
            }
            self.now = at;
            if self.ledger.next_change(self.now) <= self.now {
                let draw = self.draw();
                let changes = self.ledger.handle_timeout(self.now, draw);
                self.note(changes);
                assert!(
                    self.now < self.ledger.next_change(self.now),
                    "a timer that stays due"
                );
            }
            while let Some(entry) = self.events.first_entry() {
                if self.now.as_micros() < entry.key().0 {
                    break;
                }
                let event = entry.remove();
                self.happen(event);
            }
        }
        self.now = end;
    }

    fn wants(&self) -> bool {
        let idle = self
            .pause
            .is_some_and(|pause| self.now.as_micros() / pause % 2 == 1);
        self.in_flight < self.in_flight_max && !idle
    }

    /// Starts every call that may; returns when to try again.
    fn start_what_may(&mut self) -> Moment {
        let scopes = [account()];
        while self.wants() {
            match self.ledger.stage(self.now, &read(&scopes)) {
                Ok(staged) => {
                    let permit = self.ledger.secure(self.now, staged);
                    self.in_flight += 1;
                    let commit = self.random(self.commit);
                    self.later(commit, Event::Leave(permit));
                }
                Err(blocked) => {
                    assert!(self.now < blocked.until, "blocked by the past: {blocked:?}");
                    return blocked.until;
                }
            }
        }
        match self.pause {
            Some(pause) => Moment::from_micros((self.now.as_micros() / pause + 1) * pause),
            None => Moment::NEVER,
        }
    }

    fn happen(&mut self, event: Event) {
        let now = self.now.as_micros();
        match event {
            Event::Leave(permit) => {
                self.ledger.sent(self.now, permit);
                let way = self.random(self.way);
                self.later(way, Event::Arrive(permit));
            }
            Event::Arrive(permit) => {
                let (said, served) = match self.provider.arrive(now) {
                    Ok(()) => (Ok(self.provider.left(now)), self.random(self.service)),
                    Err(wait) => (Err(wait), 0),
                };
                let way = self.random(self.way);
                self.later(served + way, Event::Answer(permit, said));
            }
            Event::Answer(permit, said) => {
                let facts = self.facts(said);
                let draw = self.draw();
                let mut changes = self.ledger.answered(self.now, draw, permit, &facts);
                changes.extend(self.ledger.finished(self.now, permit));
                self.in_flight -= 1;
                self.note(changes);
            }
        }
    }

    fn facts(&mut self, said: Result<u64, u64>) -> Facts {
        let mut facts = match said {
            Ok(_) => Facts::bare(200, Meaning::Ok),
            Err(_) => Facts::bare(429, Meaning::RateLimited),
        };
        if let Err(wait) = said {
            let wait = Span::from_micros(wait);
            facts.retry_source = Some("HTTP 429 Retry-After");
            facts.retry_after = match self.hints {
                Hints::None => None,
                Hints::Seconds => Some(Span::from_secs(wait.as_secs_ceil())),
                Hints::Headers => Some(wait),
            };
        }
        if self.hints == Hints::Headers {
            let (limit, reset) = match self.provider.rule {
                Rule::Sliding { limit, window } => (limit, window),
                Rule::Fixed {
                    limit,
                    window,
                    phase,
                }
                | Rule::Counter {
                    limit,
                    window,
                    phase,
                } => {
                    let now = self.now.as_micros();
                    (limit, start_of(now, window, phase) + window - now)
                }
                Rule::Bucket {
                    burst,
                    limit,
                    window,
                } => {
                    let left = said.unwrap_or(0);
                    (burst, (burst - left.min(burst)) * window / limit)
                }
            };
            facts.readings.push(Reading {
                dimension: "requests".to_owned(),
                name: None,
                reach: Reach::Account,
                limit: Some(limit),
                remaining: Some(said.unwrap_or(0)),
                reset_after: Some(Span::from_micros(reset)),
                refills: false,
                fits_after: None,
                window: None,
                source: "x-ratelimit-remaining-requests",
            });
        }
        facts
    }

    fn note(&mut self, changes: Vec<Change>) {
        let now = self.now;
        self.changes
            .extend(changes.into_iter().map(|change| (now, change)));
    }

    /// Calls that arrived since `from` and were accepted, refused.
    pub(super) fn counts_since(&self, from: Moment) -> (u64, u64) {
        let from = from.as_micros();
        let since = |all: &[u64]| all.iter().filter(|at| from <= **at).count() as u64;
        (
            since(&self.provider.accepted),
            since(&self.provider.refused),
        )
    }

    /// Runs for `span` and gives what was accepted and refused in it.
    pub(super) fn measure(&mut self, span: Span) -> (u64, u64) {
        let from = self.now;
        self.run(span);
        self.counts_since(from)
    }

    /// Refusals that the ledger took as news.
    pub(super) fn refusal_events(&self) -> usize {
        let news = |change: &Change| matches!(change, Change::Refused { echo: false, .. });
        self.changes
            .iter()
            .filter(|(_, change)| news(change))
            .count()
    }
}
