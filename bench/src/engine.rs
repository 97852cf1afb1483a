//! One account's engine, driven as fast as it goes.
//!
//! A cycle is what one call costs the engine from its arrival to its end:
//!
//! ```text
//! handle_submit       it joins a queue of 10,000
//! handle_body_end     an earlier call ends, the best waiting one is started
//! handle_committed    for each of its four records; the grant leaves
//! handle_sent, handle_report
//! ```
//!
//! As many calls arrive as end, so the queue keeps its length. What holds it
//! back is the account's 64 seats; the declared quota is far above what is
//! sent, so every start pays for the window's bookkeeping and none waits for it.
//! Time is virtual and moves 5 µs a cycle.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rategov_core::action::outcome::{Body, Evidence, Upload};
use rategov_core::cost::{Cost, Dimension};
use rategov_core::engine::{
    BodyEnd, Chance, Engine, Leave, Marker, Output, Report, Setup, Submit, TaskAllowance,
};
use rategov_core::event::Requested;
use rategov_core::id::{
    Account, ActionId, Agent, AttemptNo, Credential, Endpoint, Fingerprint, NameError, Provider,
    RecordSeq, Scope,
};
use rategov_core::observe::{Facts, Meaning};
use rategov_core::policy::{
    AccountPolicy, ClassLimits, ClassTable, Profile, Quota, ScopeLimits, WindowKind,
};
use rategov_core::time::{Draw, Moment, Span};
use rategov_core::word::{Class, Priority};

/// Calls that wait while cycles are counted.
pub const WAITING: usize = 10_000;
/// Calls that the account may have open.
const SEATS: u32 = 64;
/// How far the virtual clock moves in one cycle.
const STEP: Span = Span::from_micros(5);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scene {
    /// How many agents the calls belong to.
    pub agents: usize,
    /// Whether a part of the queue waits for something of its own.
    pub lanes: Lanes,
}

/// What the queue waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// All of it for the account's seats.
    Open,
    /// Half of it for a model whose quota is used up; every choice has to get past it.
    HalfBlocked,
}

impl Lanes {
    /// In words.
    pub fn word(self) -> &'static str {
        match self {
            Lanes::Open => "all for a seat",
            Lanes::HalfBlocked => "half for a spent model quota",
        }
    }
}

/// What was counted.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// Cycles.
    pub cycles: u64,
    /// Time that they took.
    pub took: Duration,
    /// Calls that waited when the count ended.
    pub waiting: usize,
}

impl Counted {
    /// Cycles in a second.
    pub fn per_second(&self) -> f64 {
        self.cycles as f64 / self.took.as_secs_f64()
    }
}

/// An engine with a full queue.
pub struct World {
    engine: Engine,
    now: Moment,
    next_id: u128,
    agents: Vec<Agent>,
    open: VecDeque<(ActionId, AttemptNo)>,
    template: Requested,
    setup: Setup,
    blocked: Setup,
}

impl World {
    /// Fills the queue.
    ///
    /// # Errors
    /// If a name in here were not one.
    pub fn new(scene: Scene) -> Result<World, NameError> {
        let account = Scope::new("account:bench")?;
        let slow = Scope::new("model:slow")?;
        let policy = policy(&account, &slow);
        let setup = Setup {
            profile: Arc::new(Profile::nothing()),
            scopes: Arc::from([account.clone()]),
            cost: Cost::ONE,
            sizing: None,
            limits: Arc::new(ClassTable::default().of(Class::Read).clone()),
            weight: 1,
            agent_concurrent_max: None,
            attempt_timeout: Span::from_secs(600),
            may_send_new: false,
        };
        let blocked = Setup {
            scopes: Arc::from([account.clone(), slow]),
            ..setup.clone()
        };
        let agents: Result<Vec<Agent>, NameError> = (0..scene.agents)
            .map(|n| Agent::new(&format!("agent-{n}")))
            .collect();
        let mut world = World {
            engine: Engine::new(Account::new("bench/bench")?, account, policy),
            now: Moment::from_micros(1_000_000),
            next_id: 0x0192_f3a4_5678_7000_8000_0000_0000_0000,
            agents: agents?,
            open: VecDeque::new(),
            template: requested()?,
            setup,
            blocked,
        };
        if scene.lanes == Lanes::HalfBlocked {
            // The first of them takes the model's whole quota, the rest waits for it.
            for _ in 0..=WAITING / 2 {
                world.submit(Lanes::HalfBlocked);
            }
        }
        while world.engine.waiting() < WAITING {
            world.submit(Lanes::Open);
        }
        Ok(world)
    }

    /// Runs cycles for a time, or a little longer: the clock is read every 256.
    pub fn run(&mut self, time: Duration) -> Counted {
        let begun = Instant::now();
        let mut cycles = 0;
        loop {
            for _ in 0..256 {
                self.cycle();
            }
            cycles += 256;
            let took = begun.elapsed();
            if took >= time {
                return Counted {
                    cycles,
                    took,
                    waiting: self.engine.waiting(),
                };
            }
        }
    }

    fn cycle(&mut self) {
        self.now = self.now + STEP;
        self.submit(Lanes::Open);
        if let Some((id, attempt)) = self.open.pop_front() {
            let chance = self.chance();
            self.engine
                .handle_body_end(self.now, chance, id, attempt, BodyEnd::Complete);
        }
        if self.engine.poll_timeout() <= self.now {
            let chance = self.chance();
            self.engine.handle_timeout(self.now, chance);
        }
        self.follow();
    }

    fn submit(&mut self, lanes: Lanes) {
        self.next_id += 1;
        let turn = self.next_id as usize;
        let requested = Requested {
            action: ActionId(self.next_id),
            agent: self.agents[turn % self.agents.len()].clone(),
            priority: Priority::ALL[turn / 7 % Priority::ALL.len()],
            fingerprint: Fingerprint(self.next_id.to_be_bytes()),
            ..self.template.clone()
        };
        let setup = match lanes {
            Lanes::Open => self.setup.clone(),
            Lanes::HalfBlocked => self.blocked.clone(),
        };
        let submit = Submit {
            marker: Marker::None,
            earlier: None,
            requested: Arc::new(requested),
            setup,
            hold_until: Moment::NEVER,
            task: TaskAllowance::UNLIMITED,
        };
        let chance = self.chance();
        self.engine.handle_submit(self.now, chance, submit);
        self.follow();
    }

    /// Carries out what the engine says, as a journal and a provider without delay would.
    fn follow(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Record(record) => {
                    let seq: RecordSeq = record.seq;
                    black_box(&record);
                    self.engine.handle_committed(seq);
                }
                Output::Grant(grant) => {
                    if self.engine.handle_sent(self.now, grant.action) == Leave::CalledBack {
                        continue;
                    }
                    let report = Report {
                        action: grant.action,
                        attempt: grant.attempt,
                        evidence: Evidence::Answered {
                            facts: Facts::bare(200, Meaning::Ok),
                            body: Body::Open,
                            upload: Upload::Complete,
                        },
                        bytes_written: 300,
                        task: TaskAllowance::UNLIMITED,
                    };
                    let chance = self.chance();
                    self.engine.handle_report(self.now, chance, report);
                    self.open.push_back((grant.action, grant.attempt));
                }
                other => {
                    black_box(&other);
                }
            }
        }
    }

    fn chance(&mut self) -> Chance {
        self.next_id += 1;
        Chance {
            draw: Draw::from_u32(self.next_id as u32),
            id: self.next_id,
        }
    }
}

fn policy(account: &Scope, slow: &Scope) -> AccountPolicy {
    let large = Quota {
        dimension: Dimension::Requests,
        limit: 2_000_000,
        window: Span::from_secs(1),
        kind: WindowKind::Sliding,
    };
    let spent = Quota {
        dimension: Dimension::Requests,
        limit: 1,
        window: Span::from_secs(3_600),
        kind: WindowKind::Sliding,
    };
    AccountPolicy {
        scopes: vec![
            (
                account.clone(),
                ScopeLimits {
                    quotas: vec![large],
                    max_concurrent: Some(SEATS),
                },
            ),
            (
                slow.clone(),
                ScopeLimits {
                    quotas: vec![spent],
                    max_concurrent: None,
                },
            ),
        ],
        max_waiting: 2 * WAITING,
        max_waiting_per_agent: 2 * WAITING,
        classes: ClassTable {
            read: ClassLimits {
                max_attempts: 1,
                ..ClassTable::default().read
            },
            ..ClassTable::default()
        },
        ..AccountPolicy::default()
    }
}

fn requested() -> Result<Requested, NameError> {
    Ok(Requested {
        action: ActionId(0),
        provider: Provider::new("bench")?,
        account: Account::new("bench/bench")?,
        credential: Credential::new("bench/bench#own")?,
        agent: Agent::new("agent")?,
        task: None,
        task_stops: 0,
        goal: None,
        priority: Priority::Normal,
        class: Class::Read,
        method: "GET".to_owned(),
        endpoint: Endpoint::new("GET /records/{id}")?,
        model: None,
        path: "/records/17".to_owned(),
        fingerprint: Fingerprint([7; 16]),
        payload_digest: [0; 32],
        payload_bytes: 0,
        replayable: true,
        key: None,
        earlier: None,
        deadline: Moment::NEVER,
        detached: false,
        authorised_by: "configuration as agent".to_owned(),
        parent: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(scene: Scene) {
        let mut world = World::new(scene).unwrap();
        let counted = world.run(Duration::ZERO);
        assert_eq!(counted.waiting, WAITING, "the queue keeps its length");
        assert_eq!(world.open.len(), SEATS as usize, "every seat is taken");
        // A cycle starts exactly one call: all that came are waiting, open or ended.
        let before = world.open.front().copied();
        world.run(Duration::ZERO);
        assert_ne!(
            world.open.front().copied(),
            before,
            "calls end and others start"
        );
    }

    #[test]
    fn the_queue_keeps_its_length_while_calls_come_and_go() {
        check(Scene {
            agents: 9,
            lanes: Lanes::Open,
        });
        check(Scene {
            agents: 200,
            lanes: Lanes::HalfBlocked,
        });
    }
}
