//! The scheduler in a small world: a provider that counts 60 calls in any 10 s,
//! a one-way delay of up to 200 ms, three interactive agents with a call every
//! 1.5 s, and six background agents with work without end.

use std::collections::VecDeque;

use super::*;
use crate::time::Span;
use Priority::{Background, Interactive, Normal};

const QUOTA: usize = 60;
const WINDOW: Span = Span::from_secs(10);
const JITTER: Span = Span::from_millis(200);
const RUN: Span = Span::from_secs(600);
const PACE: Pace = Pace {
    units: QUOTA as u64,
    per: Span::from_millis(10_200),
};
const FLOORS: [u32; 3] = [0, 100, 50];

/// A small generator of numbers that are good enough for phases and delays.
struct Dice(u64);

impl Dice {
    fn below(&mut self, span: Span) -> Span {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        Span::from_micros((self.0 >> 33) % span.as_micros())
    }
}

/// The governor's window: at most 60 sends in any 10.2 s.
#[derive(Default)]
struct Log(VecDeque<Moment>);

impl Log {
    fn free_at(&self, now: Moment) -> Moment {
        match self.0.len() {
            QUOTA => self.0[0] + WINDOW + JITTER,
            _ => now,
        }
    }

    fn send(&mut self, now: Moment) {
        if self.0.len() == QUOTA {
            self.0.pop_front();
        }
        self.0.push_back(now);
    }
}

/// How many of these arrivals a log of 60 in any 10 s refuses.
fn refused(mut arrivals: Vec<Moment>) -> usize {
    arrivals.sort();
    let mut accepted = VecDeque::new();
    let mut refused = 0;
    for arrival in arrivals {
        while accepted
            .front()
            .is_some_and(|first| *first + WINDOW <= arrival)
        {
            accepted.pop_front();
        }
        if accepted.len() < QUOTA {
            accepted.push_back(arrival);
        } else {
            refused += 1;
        }
    }
    refused
}

/// A call that went.
struct Grant {
    priority: Priority,
    agent: usize,
    arrived: Moment,
    at: Moment,
    /// When the provider counts it.
    counted: Moment,
}

/// What happens in the world.
struct World {
    /// Between two calls of each of the three interactive agents.
    every: Span,
    /// Agents with work without end, numbered from 3.
    backlog: Vec<Priority>,
    /// Whether the scope's spacing is asked.
    spaced: bool,
}

impl World {
    fn run(&self, seed: u64) -> Vec<Grant> {
        let mut dice = Dice(seed);
        let (mut schedule, mut spacing) = (Schedule::new(FLOORS), Spacing::new());
        let (mut log, mut grants, mut ask) = (Log::default(), Vec::new(), 0);
        let mut arrive = |schedule: &mut Schedule, arrived, priority, n| {
            ask += 1;
            let waiter = call(ask, priority, n);
            schedule.insert(arrived, Waiter { arrived, ..waiter });
        };
        for (n, priority) in (3..).zip(&self.backlog) {
            (0..4).for_each(|_| arrive(&mut schedule, Moment::START, *priority, n));
        }
        let mut due = [(); 3].map(|_| Moment::START + dice.below(self.every));
        let mut now = Moment::START;
        while now < Moment::START + RUN {
            for (n, at) in due.iter_mut().enumerate() {
                while *at <= now {
                    arrive(&mut schedule, *at, Interactive, n);
                    spacing.seen(*at, Interactive);
                    *at = *at + self.every;
                }
            }
            let (quota, held) = (log.free_at(now), |p| match self.spaced {
                true => spacing.free_at(now, p, Cost::ONE, Some(PACE)),
                false => now,
            });
            let way = |_, p| match () {
                () if quota > now => Way::Blocked,
                () if held(p) > now => Way::Held,
                () => Way::Open,
            };
            let Some(pick) = schedule.pick(now, way) else {
                let ends = [quota, held(Normal), held(Background)].into_iter();
                now = ends.filter(|at| *at > now).chain(due).min().unwrap();
                continue;
            };
            let Waiter {
                priority,
                agent: who,
                cost,
                arrived,
                ..
            } = schedule.take(pick).unwrap().waiter;
            log.send(now);
            spacing.sent(now, cost, Some(PACE));
            let counted = now + dice.below(JITTER);
            let agent = (0..12).find(|n| agent(*n) == who).unwrap();
            grants.push(Grant {
                priority,
                agent,
                arrived,
                at: now,
                counted,
            });
            if agent >= 3 {
                arrive(&mut schedule, now, priority, agent);
            }
        }
        grants
    }
}

/// Checks what holds in any world: no refusal, and the quota is used.
fn check(seed: u64, grants: &[Grant]) {
    assert_eq!(
        refused(grants.iter().map(|g| g.counted).collect()),
        0,
        "seed {seed}"
    );
    let whole = RUN.as_micros() / WINDOW.as_micros() * QUOTA as u64;
    let used_permille = grants.len() as u64 * 1_000 / whole;
    assert!(used_permille >= 975, "seed {seed}: {used_permille}");
}

/// The 95th percentile of the interactive calls' waits.
fn wait_p95(grants: &[Grant]) -> Span {
    let interactive = grants.iter().filter(|g| g.priority == Interactive);
    let mut waits: Vec<_> = interactive.map(|g| g.at.since(g.arrived)).collect();
    waits.sort();
    waits[waits.len() * 95 / 100]
}

fn demo(spaced: bool) -> World {
    World {
        every: Span::from_millis(1_500),
        backlog: vec![Background; 6],
        spaced,
    }
}

#[test]
fn with_spacing_a_person_hardly_waits_and_the_quota_is_used() {
    for seed in 1..=8 {
        let grants = demo(true).run(seed);
        check(seed, &grants);
        let wait = wait_p95(&grants);
        assert!(wait <= Span::from_millis(360), "seed {seed}: {wait}");
        let of = |n: usize| grants.iter().filter(|g| g.agent == n).count();
        let shares: Vec<_> = (3..9).map(of).collect();
        let spread = shares.iter().max().unwrap() - shares.iter().min().unwrap();
        assert!(spread <= 1, "seed {seed}: {shares:?}");
    }
}

#[test]
fn with_priority_alone_a_person_waits_for_the_window() {
    for seed in 1..=8 {
        let grants = demo(false).run(seed);
        check(seed, &grants);
        let wait = wait_p95(&grants);
        assert!(wait >= Span::from_secs(5), "seed {seed}: {wait}");
    }
}

#[test]
fn people_who_want_everything_leave_the_floors() {
    let every = Span::from_millis(75);
    let backlog = [[Normal; 3], [Background; 3], [Background; 3]].concat();
    let grants = World {
        every,
        backlog,
        spaced: true,
    }
    .run(1);
    check(1, &grants);
    // The first window went to those that were there before anybody came.
    let later: Vec<_> = grants.iter().skip(QUOTA).map(|g| g.priority).collect();
    let share = |p| later.iter().filter(|q| **q == p).count() * 1_000 / later.len();
    assert!((98..=103).contains(&share(Normal)), "{}", share(Normal));
    assert!(
        (48..=52).contains(&share(Background)),
        "{}",
        share(Background)
    );
    // The bound of `floors`: (5 + 1) / (0.05 · R) + 2 / R, R = 60 in 10.2 s.
    for n in 6..12 {
        let own: Vec<_> = grants
            .iter()
            .filter(|g| g.agent == n)
            .map(|g| g.at)
            .collect();
        let longest = own.windows(2).map(|pair| pair[1].since(pair[0])).max();
        assert!(
            longest <= Some(PACE.per.scale(6 * 20 + 2, 60)),
            "agent {n}: {longest:?}"
        );
    }
}
