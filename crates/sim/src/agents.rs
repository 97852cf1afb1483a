//! The agents of a world: what each wants to get done, and how it behaves when
//! it is answered, refused, kept waiting or cut off.
//!
//! An agent has operations; each becomes one action, or several one after the
//! other: an SDK that repeats a call under the same key, an agent that comes
//! back at the time it was told, or that repeats what it was told is safe to
//! repeat. How often an operation may take effect follows from that, and is
//! counted in [`Operation::allowed`].

use std::collections::BTreeSet;

use rategov_core::id::ActionId;
use rategov_core::time::{Moment, Span};
use rategov_core::word::{Priority, State};

use crate::world::order::Kind;
use crate::world::random::Random;
use crate::world::scenario::{BEGIN, Scenario};

/// One thing that an agent wants to get done.
#[derive(Clone, Debug)]
pub struct Operation {
    /// By which agent.
    pub agent: usize,
    /// At which site.
    pub site: usize,
    /// Of what kind.
    pub kind: Kind,
    /// Of which of the agent's tasks; `None` for its default.
    pub task: Option<u8>,
    /// Its rank.
    pub priority: Priority,
    /// How long its caller is held.
    pub hold: Span,
    /// By when it must be sent.
    pub deadline: Option<Span>,
    /// Whether it goes on without its caller.
    pub detached: bool,
    /// When it is first called.
    pub starts: Moment,
    /// After how long the agent hangs up.
    pub hangs_up: Option<Span>,
    /// After how long the agent cancels it.
    pub cancels: Option<Span>,
    /// After how long the agent ends the whole task.
    pub ends_task: Option<Span>,
    /// How often it is repeated at most.
    pub repeats: u8,
    /// How many effects more people allowed.
    pub by_people: u64,
    /// Calls made so far.
    pub calls: u8,
    /// Its actions without a key that may have happened, as far as the agent
    /// was told. Each is an operation of its own for everybody else.
    pub doubtful: BTreeSet<ActionId>,
}

/// What an agent does next about an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Nothing more.
    Content,
    /// The same call again, at this time.
    Again(Moment),
}

impl Operation {
    /// The operations of all agents.
    pub fn of(scenario: &Scenario, random: &mut Random) -> Vec<Operation> {
        let lasts = scenario.calm_from.since(BEGIN).as_millis();
        let all = scenario.agents * scenario.operations;
        (0..all)
            .map(|n| {
                let maybe = |random: &mut Random, permille, low, high| {
                    let happens = random.happens(permille);
                    let span = random.millis(low, high);
                    happens.then_some(span)
                };
                // Half of them come in bursts, so that there is something to queue for.
                let starts = match random.happens(500) {
                    true => BEGIN + random.millis(0, lasts),
                    false => BEGIN + Span::from_millis((n as u64 % 3) * lasts / 4),
                };
                Operation {
                    agent: n % scenario.agents,
                    site: random.index(scenario.places.len()),
                    kind: *random.pick(&Kind::MIX),
                    task: maybe(random, 600, 0, 3).map(|span| (span.as_millis() % 3) as u8),
                    priority: *random.pick(Priority::ALL),
                    hold: random.millis(3_000, 90_000),
                    deadline: maybe(random, 200, 2_000, 60_000),
                    detached: random.happens(150),
                    starts,
                    hangs_up: maybe(random, 200, 10, 20_000),
                    cancels: maybe(random, 100, 10, 30_000),
                    ends_task: maybe(random, 30, 10, 30_000),
                    repeats: random.below(4) as u8,
                    by_people: 0,
                    calls: 0,
                    doubtful: BTreeSet::new(),
                }
            })
            .collect()
    }

    /// Whether the agent's library would say "I repeat".
    pub fn is_repeat(&self) -> bool {
        0 < self.calls
    }

    /// How many effects its writes may have.
    pub fn allowed(&self) -> u64 {
        self.by_people + (self.doubtful.len() as u64).max(1)
    }

    fn may_repeat(&self) -> bool {
        self.calls <= self.repeats
    }

    /// It was refused before it was sent, with a time to come back.
    pub fn refused(&self, retry_at: Option<Moment>) -> Reaction {
        match retry_at.filter(|_| self.may_repeat()) {
            Some(at) => Reaction::Again(at),
            None => Reaction::Content,
        }
    }

    /// It ended. What the governor calls safe to send again is sent again by
    /// some; nobody repeats what may have happened.
    pub fn ended(&self, now: Moment, state: State, code: &str, random: &mut Random) -> Reaction {
        let safe = matches!(
            code,
            "not_applied"
                | "upstream_unreachable"
                | "upstream_refused"
                | "interrupted"
                | "hold_exceeded"
                | "queue_full"
        );
        let safe = safe
            && matches!(
                state,
                State::FailedDefinite | State::CancelledNotSent | State::Interrupted
            );
        match safe && self.may_repeat() && random.happens(500) {
            true => Reaction::Again(now + random.millis(10, 5_000)),
            false => Reaction::Content,
        }
    }

    /// Its connection broke, by its own doing or the governor's.
    pub fn cut_off(&self, now: Moment, random: &mut Random) -> Reaction {
        match self.may_repeat() && random.happens(700) {
            true => Reaction::Again(now + random.millis(100, 6_000)),
            false => Reaction::Content,
        }
    }
}
