//! Plays a scenario to a real engine in virtual time, and says whether its queue stalls.
//!
//! While the hostile answers last they are given to whatever is sent. Afterwards the
//! provider is well: it answers everything with a bare 200. Then three more calls
//! arrive, one of each rank, that may wait for ever. What must hold (R-LEDGER-4, -5):
//!
//! | at any time | |
//! |---|---|
//! | a call waits, and nothing is out | the engine names a moment at which it goes on by itself, or a person has been asked |
//! | a call waits | it can be explained: reason, scope, and a start unless an event or a person is waited for |
//! | the books | agree |
//! | one action | is sent no oftener than its class allows |
//!
//! A day after the last of it, each of the three has been sent, or its start is known
//! and within a month, the longest window that providers have; or a person was asked
//! about the scope in its way, because a longer wait is for a person to know. Once that
//! person has reopened what was shut, only quota is waited for, and its time is known.
//! And nothing spins: a scenario takes a bounded number of steps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rategov_core::action::outcome::{Body, Evidence, Lost, NotSent, Upload};
use rategov_core::cost::{Cost, Dimension};
use rategov_core::engine::{
    BodyEnd, Chance, Engine, Leave, LookupReport, Marker, Output, Report, Setup, Submit,
    TaskAllowance,
};
use rategov_core::event::{Found, Requested};
use rategov_core::id::{
    Account, ActionId, Agent, AttemptNo, Credential, Endpoint, Fingerprint, Operator, Provider,
    Scope,
};
use rategov_core::observe::{Facts, Meaning};
use rategov_core::policy::{ClassTable, Lookup, Profile};
use rategov_core::time::{Draw, Moment, Span};
use rategov_core::word::{Class, Mode, Priority};

use crate::scenario::{How, Said, Scenario};

/// Where a scenario begins; a while after the clock did.
const BEGIN: Moment = Moment::from_micros(10_000 * 1_000_000);
/// How long hostile answers are waited for. What holds longer is not provoked further.
const HOSTILE: Span = Span::from_secs(2 * 3_600);
/// How long a well provider is watched: longer than any ladder that the engine climbs
/// by itself, and than a question stays open.
const WELL: Span = Span::from_secs(25 * 3_600);
/// The longest wait for quota that is nobody's business.
const MONTH: Span = Span::from_secs(40 * 24 * 3_600);
/// The longest that a limit may say, and what is added for what nobody foresees.
const YEAR: Span = Span::from_secs(3 * 366 * 24 * 3_600);
/// Most steps of one scenario; a queue that moves takes some hundreds.
const STEPS_MAX: u32 = 50_000;

/// What is still to come.
enum Due {
    Report(ActionId, AttemptNo, Evidence),
    BodyEnd(ActionId, AttemptNo),
    Lookup(LookupReport),
}

struct World<'s> {
    scenario: &'s Scenario,
    said: std::slice::Iter<'s, Said>,
    engine: Engine,
    now: Moment,
    due: BTreeMap<(Moment, u64), Due>,
    serial: u64,
    steps: u32,
    sends: BTreeMap<ActionId, u16>,
    /// Scopes that a person was asked about, at any time.
    asked: BTreeSet<Scope>,
    over: BTreeSet<ActionId>,
}

/// Panics if the queue stalls.
pub fn play(scenario: &Scenario) {
    let account = scope("account:ops");
    let policy = scenario.policy(&account);
    let mut world = World {
        scenario,
        said: scenario.answers.iter(),
        engine: Engine::new(name("billing/ops"), account, policy),
        now: BEGIN,
        due: BTreeMap::new(),
        serial: 0,
        steps: 0,
        sends: BTreeMap::new(),
        asked: BTreeSet::new(),
        over: BTreeSet::new(),
    };
    let classes = [
        Class::Read,
        Class::Generation,
        Class::IdempotentWrite,
        Class::UncertainWrite,
    ];
    for n in 0..12 {
        let priority = Priority::ALL[n % 3];
        let hold = (n % 2 == 0).then_some(Span::from_secs(60));
        world.submit(classes[n % 4], priority, hold);
        world.run_until(world.now + Span::from_millis(300));
    }
    let end = world.now + HOSTILE;
    while !world.said.as_slice().is_empty() && world.now < end {
        world.submit(Class::Read, Priority::Normal, Some(Span::from_secs(60)));
        world.run_until(world.now + Span::from_secs(120));
    }
    world.said = [].iter();
    let late = Priority::ALL.iter();
    let late: Vec<ActionId> = late
        .map(|rank| world.submit(Class::Read, *rank, None))
        .collect();
    world.run_until(world.now + WELL);
    for id in &late {
        world.assert_served(*id);
    }
    // A person answers, and the word helps.
    for scope in world.asked.clone() {
        let (now, chance) = (world.now, world.chance());
        let by = Operator::new("ana").expect("a name");
        world.engine.handle_resume(now, chance, &scope, by);
        world.pump();
    }
    world.run_until(world.now + WELL);
    for id in late {
        world.assert_resumed(id);
    }
}

impl World<'_> {
    /// A call that is held so long, or runs without its caller.
    fn submit(&mut self, class: Class, priority: Priority, hold: Option<Span>) -> ActionId {
        let id = ActionId(u128::from(self.next()));
        let key = class.is_write().then(|| format!("key-{id}"));
        let mut profile = Profile::nothing();
        if class == Class::IdempotentWrite {
            profile.lookup = Some(Lookup {
                authoritative: true,
                settle: Span::from_secs(1),
                max_in_flight: Span::from_secs(5),
                max_lookups: 3,
            });
        }
        let requested = Requested {
            action: id,
            provider: Provider::new("billing").expect("a name"),
            account: name("billing/ops"),
            credential: Credential::new("billing/ops#1").expect("a name"),
            agent: Agent::new(["sync-bot", "desk"][id.0 as usize % 2]).expect("a name"),
            task: None,
            task_stops: 0,
            goal: None,
            priority,
            class,
            method: if class.is_write() { "POST" } else { "GET" }.to_owned(),
            endpoint: Endpoint::new("GET /records").expect("a name"),
            model: Some("m-1".to_owned()),
            path: "/records".to_owned(),
            fingerprint: Fingerprint(id.0.to_be_bytes()),
            payload_digest: [0; 32],
            payload_bytes: 10,
            replayable: true,
            key,
            earlier: None,
            deadline: Moment::NEVER,
            detached: hold.is_none(),
            authorised_by: "agent token".to_owned(),
            parent: None,
        };
        let scopes = ["account:ops", "model:m-1", "endpoint:GET /records"].map(scope);
        let setup = Setup {
            profile: Arc::new(profile),
            scopes: Arc::new(scopes),
            cost: Cost::ONE.with(Dimension::Tokens, 10),
            sizing: None,
            limits: Arc::new(ClassTable::default().of(class).clone()),
            weight: 1,
            agent_concurrent_max: None,
            attempt_timeout: Span::from_secs(60),
            may_send_new: false,
        };
        let submit = Submit {
            requested: Arc::new(requested),
            setup,
            hold_until: hold.map_or(Moment::NEVER, |hold| self.now + hold),
            task: TaskAllowance::UNLIMITED,
            marker: Marker::None,
            earlier: None,
        };
        let chance = self.chance();
        self.engine.handle_submit(self.now, chance, submit);
        self.pump();
        id
    }

    fn run_until(&mut self, end: Moment) {
        loop {
            self.assert_goes_on();
            let timeout = self.engine.poll_timeout();
            let next = self.due.keys().next().map_or(Moment::NEVER, |(at, _)| *at);
            if end < timeout.min(next) {
                self.now = end;
                return;
            }
            self.steps += 1;
            assert!(
                self.steps < STEPS_MAX,
                "the engine spins: {:?}",
                self.scenario
            );
            self.now = self.now.max(timeout.min(next));
            let chance = self.chance();
            if next <= timeout
                && let Some((_, due)) = self.due.pop_first()
            {
                self.happen(chance, due);
            } else {
                self.engine.handle_timeout(self.now, chance);
            }
            self.pump();
        }
    }

    fn happen(&mut self, chance: Chance, due: Due) {
        match due {
            Due::Report(action, attempt, evidence) => {
                let streams = matches!(
                    evidence,
                    Evidence::Answered {
                        body: Body::Open,
                        ..
                    }
                );
                let report = Report {
                    action,
                    attempt,
                    bytes_written: u64::from(!matches!(evidence, Evidence::NotSent(_))),
                    evidence,
                    task: TaskAllowance::UNLIMITED,
                };
                self.engine.handle_report(self.now, chance, report);
                if streams {
                    self.later(Span::from_secs(1), Due::BodyEnd(action, attempt));
                }
            }
            Due::BodyEnd(action, attempt) => {
                let end = BodyEnd::Complete;
                self.engine
                    .handle_body_end(self.now, chance, action, attempt, end);
            }
            Due::Lookup(report) => self.engine.handle_lookup_report(self.now, chance, report),
        }
    }

    /// Does what the engine says, at once; its journal is quick.
    fn pump(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Record(record) => self.engine.handle_committed(record.seq),
                Output::Grant(grant) => self.send(grant.action, grant.attempt),
                Output::Lookup(grant) => self.look_up(grant.action, grant.lookup),
                Output::Finish { action, state, .. } | Output::Deliver { action, state, .. }
                    if state.is_final() =>
                {
                    self.over.insert(action);
                }
                Output::Refuse { action, .. } => drop(self.over.insert(action)),
                Output::Faulted => panic!("the engine is at fault: {:?}", self.scenario),
                _ => {}
            }
            let questions = self.engine.escalations();
            self.asked.extend(questions.map(|row| row.scope.clone()));
        }
        let books = self.engine.check_books();
        assert_eq!(books, Ok(()), "{:?}", self.scenario);
    }

    fn send(&mut self, action: ActionId, attempt: AttemptNo) {
        let sends = self.sends.entry(action).or_default();
        *sends += 1;
        assert!(
            *sends <= 6,
            "{action} is sent for ever: {:?}",
            self.scenario
        );
        let (after, evidence) = self.answer();
        let leaves = !matches!(evidence, Evidence::NotSent(_));
        if leaves && self.engine.handle_sent(self.now, action) == Leave::CalledBack {
            // It never left: the answer is another send's.
            let evidence = Evidence::NotSent(NotSent::Withdrawn);
            self.sends.entry(action).and_modify(|sends| *sends -= 1);
            return self.later(Span::ZERO, Due::Report(action, attempt, evidence));
        }
        self.later(after, Due::Report(action, attempt, evidence));
    }

    fn look_up(&mut self, action: ActionId, lookup: u16) {
        let (after, evidence) = self.answer();
        let sent = !matches!(evidence, Evidence::NotSent(_));
        let facts = match evidence {
            Evidence::Answered { facts, .. } => Some(facts),
            _ => None,
        };
        if sent && self.engine.handle_sent(self.now, action) == Leave::CalledBack {
            return;
        }
        let is_well = facts
            .as_ref()
            .is_some_and(|facts| facts.meaning == Meaning::Ok);
        let report = LookupReport {
            action,
            lookup,
            found: if is_well {
                Found::Nothing
            } else {
                Found::NoAnswer
            },
            facts,
            operation_id: None,
            sent,
            task: TaskAllowance::UNLIMITED,
        };
        self.later(after, Due::Lookup(report));
    }

    /// What comes back to the next send, and after how long.
    fn answer(&mut self) -> (Span, Evidence) {
        let soon = Span::from_millis(100);
        let answered = |facts, body| Evidence::Answered {
            facts,
            body,
            upload: Upload::Complete,
        };
        let Some(said) = self.said.next() else {
            return (
                soon,
                answered(Facts::bare(200, Meaning::Ok), Body::Complete),
            );
        };
        let facts = || said.facts(self.scenario.speech());
        match said.how {
            How::Answered => (soon, answered(facts(), Body::Complete)),
            How::Streamed => (soon, answered(facts(), Body::Open)),
            How::Late => (Span::from_secs(55), answered(facts(), Body::Complete)),
            How::Lost => (soon, Evidence::Lost(Lost::Closed)),
            How::NotSent => (soon, Evidence::NotSent(NotSent::Connect)),
        }
    }

    /// The first two rows of the table at the top.
    fn assert_goes_on(&self) {
        let waiting = self.engine.queue(self.now, 64);
        assert!(
            waiting.len() >= self.engine.waiting().min(1),
            "a wait without a reason"
        );
        for view in &waiting {
            let parked = &view.parked;
            let state = self.engine.scope_state(self.now, &parked.scope);
            let closed = state
                .as_ref()
                .is_some_and(|state| state.mode == Mode::Closed);
            let names_why = state.is_none_or(|state| !state.source.is_empty());
            assert!(
                !closed || names_why,
                "closed without a word why: {:?}",
                self.scenario
            );
            let has_start = parked.expected_start.is_some_and(|at| at < Moment::NEVER);
            let by_itself = self.engine.poll_timeout() < Moment::NEVER;
            let is_asked = self.asked.contains(&parked.scope);
            let goes_on = !self.due.is_empty() || is_asked || (has_start && by_itself);
            let states = self.engine.scopes(self.now);
            let timeout = self.engine.poll_timeout();
            assert!(
                goes_on,
                "{parked:?} at {:?} (next {timeout:?}) stalls: {states:#?} {:?}",
                self.now, self.scenario
            );
        }
    }

    /// The day after.
    fn assert_served(&self, id: ActionId) {
        if self.over.contains(&id) {
            return;
        }
        let parked = self.engine.explain_wait(self.now, id);
        let parked = parked.unwrap_or_else(|| panic!("{id} is lost: {:?}", self.scenario));
        let state = self.engine.scope_state(self.now, &parked.scope);
        let is_asked = self.asked.contains(&parked.scope);
        let is_soon = parked
            .expected_start
            .is_some_and(|at| at.since(self.now) <= MONTH);
        assert!(
            is_asked || is_soon,
            "a day later {parked:?} of {state:?}: {:?}",
            self.scenario
        );
    }

    /// The day after somebody reopened what was shut: only quota is waited for.
    fn assert_resumed(&self, id: ActionId) {
        if self.over.contains(&id) {
            return;
        }
        let parked = self.engine.explain_wait(self.now, id);
        let start = parked.as_ref().and_then(|parked| parked.expected_start);
        assert!(
            start.is_some_and(|at| at.since(self.now) <= YEAR),
            "resumed, {parked:?}: {:?}",
            self.scenario
        );
    }

    fn later(&mut self, span: Span, due: Due) {
        let serial = self.next();
        self.due.insert((self.now + span, serial), due);
    }

    fn next(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn chance(&mut self) -> Chance {
        let serial = self.next();
        let draw = (serial as u32).wrapping_mul(0x9e37_79b9);
        Chance {
            draw: Draw::from_u32(draw),
            id: 1 << 100 | u128::from(serial) << 8,
        }
    }
}

fn scope(text: &str) -> Scope {
    Scope::new(text).expect("a name")
}

fn name(text: &str) -> Account {
    Account::new(text).expect("a name")
}
