//! A whole governor in a simulated world: several accounts with a provider
//! behind each, a task book, a journal that is late and sometimes fails, a
//! process that dies, agents with plans, and people who decide.
//!
//! Time is a number; nothing waits. What happens next is always the earliest
//! thing that is due, so a seed gives the same world every time. After every
//! step the invariants are checked ([`crate::check`]).
//!
//! ```text
//! agents ──submit──▶ engine ──record──▶ journal ──ack──▶ engine ──grant──▶ wire ──▶ provider
//!    ▲                  ▲                  │ death: what was not committed is gone
//!    └──── answers ─────┴──── reports ─────┴───────────────────────────────────┘
//! ```

mod calls;
pub mod journal;
mod metered;
pub mod node;
pub mod order;
mod outputs;
pub mod random;
pub mod scenario;
mod sends;
pub mod trace;
pub mod wire;

use std::collections::BTreeMap;

use rategov_core::action::outcome::Evidence;
use rategov_core::engine::BodyEnd;
use rategov_core::event::{CancelledBy, Found};
use rategov_core::id::{ActionId, EscalationId};
use rategov_core::observe::Facts;
use rategov_core::tasks::TaskKey;
use rategov_core::time::{Moment, Span};

use crate::agents::Operation;
use crate::check::{Broken, Check};
use crate::provider::{Provider, Ticket};
use journal::{Death, Journal};
use node::{Cell, Known, Node, Planted, account_of};
use order::Order;
use random::Random;
use scenario::{BEGIN, Scenario, Trouble};
use sends::Wire;
use trace::Trace;

/// Steps of one world at most: a world that needs more does not come to rest.
const STEPS_MAX: u64 = 400_000;
/// How long after the calm everything must have ended.
const REST_AFTER: Span = Span::from_secs(4 * 3_600);

/// Names a send on its way.
type WireId = u64;

/// What is going to happen.
#[derive(Debug)]
enum Due {
    /// An agent makes a call of its operation.
    Call(usize),
    HangUp(usize, ActionId),
    Cancel(usize, ActionId),
    EndTask(usize),
    /// A person looks at a question.
    Decide(usize, EscalationId),
    Commit,
    FirstByte(WireId),
    Arrive(WireId),
    Report(WireId, Evidence),
    Head(WireId, Facts, Span, BodyEnd),
    BodyEnd(WireId, BodyEnd),
    Found(WireId, Found, Option<Facts>),
    /// The provider is done with a call.
    Finish(usize, Ticket),
    /// The engines hear that a task ended.
    TaskEnded(TaskKey, u32, CancelledBy),
    Rebuild(usize),
    RebuildBook,
    Die(Death),
    Start,
    /// An operator looks whether a site waits for somebody.
    Reopen(usize),
}

/// A world. See the module.
pub struct World {
    now: Moment,
    scenario: Scenario,
    planted: Option<Planted>,
    node: Option<Node>,
    /// Counts the lives of the process.
    life: u32,
    journal: Journal,
    commit_is_due: bool,
    sites: Vec<Provider>,
    operations: Vec<Operation>,
    orders: BTreeMap<ActionId, Order>,
    /// Which operations wait for an action's answer.
    waiting: BTreeMap<ActionId, Vec<usize>>,
    wires: BTreeMap<WireId, Wire>,
    due: BTreeMap<(Moment, u64), Due>,
    serial: u64,
    steps: u64,
    count: Count,
    check: Check,
    trace: Trace,
    wire_chance: Random,
    disk_chance: Random,
    agent_chance: Random,
    people_chance: Random,
    engine_chance: Random,
}

/// How a world ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Stands for everything that happened.
    pub hash: u64,
    /// Things that happened.
    pub steps: u64,
    /// Actions that were taken in hand.
    pub actions: u64,
    /// Requests that reached a provider.
    pub arrivals: u64,
    /// How often the process died.
    pub deaths: u64,
    /// Batches of the journal that were lost.
    pub commits_lost: u64,
    /// Questions that people answered.
    pub decisions: u64,
    /// Scopes that were closed until somebody reopened them.
    pub reopened: u64,
}

/// What is counted on the way.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    commits_lost: u64,
    decisions: u64,
    reopened: u64,
}

impl World {
    /// The world of a seed. `aloud` prints what happens.
    pub fn new(seed: u64, planted: Option<Planted>, aloud: bool) -> World {
        let scenario = Scenario::of(seed);
        let mut agent_chance = Random::new(seed, "agents");
        let operations = Operation::of(&scenario, &mut agent_chance);
        let sites = scenario.places.iter();
        let sites = sites.map(|place| Provider::new(place.config.clone()));
        World {
            now: BEGIN,
            sites: sites.collect(),
            operations,
            planted,
            node: None,
            life: 0,
            journal: Journal::default(),
            commit_is_due: false,
            orders: BTreeMap::new(),
            waiting: BTreeMap::new(),
            wires: BTreeMap::new(),
            due: BTreeMap::new(),
            serial: 0,
            steps: 0,
            count: Count::default(),
            check: Check::default(),
            trace: Trace::new(aloud),
            wire_chance: Random::new(seed, "wires"),
            disk_chance: Random::new(seed, "disk"),
            agent_chance,
            people_chance: Random::new(seed, "people"),
            engine_chance: Random::new(seed, "engines"),
            scenario,
        }
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// The first invariant that is broken.
    pub fn run(&mut self) -> Result<Ended, Broken> {
        self.prepare();
        let end = self.scenario.calm_from + REST_AFTER;
        while let Some((at, next)) = self.next() {
            if end < at {
                break;
            }
            self.steps += 1;
            if STEPS_MAX < self.steps {
                return Err(format!("invariant 17: no rest after {STEPS_MAX} steps"));
            }
            self.now = self.now.max(at);
            match next {
                Some(due) => self.happen(due)?,
                None => self.wake()?,
            }
            self.check_step()?;
        }
        self.now = end;
        self.check_end()?;
        Ok(Ended {
            hash: self.trace.hash(),
            steps: self.steps,
            actions: self.journal.committed().actions().count() as u64,
            arrivals: self
                .sites
                .iter()
                .map(|site| site.ledger().totals().arrived)
                .sum(),
            deaths: u64::from(self.life) - 1,
            commits_lost: self.count.commits_lost,
            decisions: self.count.decisions,
            reopened: self.count.reopened,
        })
    }

    /// The last lines of what happened.
    pub fn tail(&self) -> impl Iterator<Item = &str> {
        self.trace.tail()
    }

    /// What is decided before anything happens.
    fn prepare(&mut self) {
        for (site, place) in self.scenario.places.iter().enumerate() {
            let pushed = self.sites[site].push_steps(BEGIN, place.script.clone());
            debug_assert!(pushed.is_ok(), "a short script fits");
        }
        for op in 0..self.operations.len() {
            let starts = self.operations[op].starts;
            self.at(starts, Due::Call(op));
        }
        for at in self.scenario.deaths.clone() {
            let death = match self.disk_chance.happens(500) {
                true => Death::Killed,
                false => Death::PowerLost,
            };
            self.at(at, Due::Die(death));
        }
        self.at(BEGIN, Due::Start);
        for site in 0..self.scenario.places.len() {
            self.at(self.scenario.calm_from, Due::Reopen(site));
        }
    }

    /// The earliest thing that is due: something outside, or an engine's own time.
    fn next(&mut self) -> Option<(Moment, Option<Due>)> {
        let timeout = self.node.as_ref().map_or(Moment::NEVER, |node| {
            let timeouts = node.cells.iter().map(|cell| cell.engine.poll_timeout());
            timeouts.min().unwrap_or(Moment::NEVER)
        });
        let outside = self.due.keys().next().map_or(Moment::NEVER, |(at, _)| *at);
        if timeout.min(outside) == Moment::NEVER {
            return None;
        }
        if timeout < outside {
            return Some((timeout, None));
        }
        let ((at, _), due) = self.due.pop_first()?;
        Some((at, Some(due)))
    }

    /// Wakes every engine whose time has come.
    fn wake(&mut self) -> Result<(), Broken> {
        for site in 0..self.scenario.places.len() {
            let chance = self.chance();
            let now = self.now;
            let Some(cell) = self.cell(site) else {
                continue;
            };
            if cell.engine.poll_timeout() <= now {
                cell.engine.handle_timeout(now, chance);
                self.pump(site)?;
            }
        }
        Ok(())
    }

    fn happen(&mut self, due: Due) -> Result<(), Broken> {
        match due {
            Due::Call(op) => self.call(op),
            Due::HangUp(op, action) => self.hang_up(op, action),
            Due::Cancel(op, action) => self.cancel(op, action),
            Due::EndTask(op) => self.end_task(op),
            Due::Decide(site, question) => self.decide(site, question),
            Due::Commit => self.commit(),
            Due::FirstByte(wire) => self.first_byte(wire),
            Due::Arrive(wire) => self.arrive(wire),
            Due::Report(wire, evidence) => self.report(wire, evidence),
            Due::Head(wire, facts, end_after, end) => self.head(wire, facts, end_after, end),
            Due::BodyEnd(wire, end) => self.body_end(wire, end),
            Due::Found(wire, found, facts) => self.found(wire, found, facts),
            Due::Finish(site, ticket) => {
                let how = crate::provider::ledger::Finish::Answered;
                self.sites[site].finish(self.now, ticket, how);
                Ok(())
            }
            Due::TaskEnded(key, stops, by) => self.task_ended(&key, stops, &by),
            Due::Rebuild(site) => self.rebuild(site),
            Due::RebuildBook => self.rebuild_book(),
            Due::Die(death) => self.die(death),
            Due::Start => self.start(),
            Due::Reopen(site) => self.reopen(site),
        }
    }

    // ---- the process ----------------------------------------------------------

    fn known(&self) -> Known<'_> {
        Known {
            scenario: &self.scenario,
            orders: &self.orders,
            planted: self.planted,
        }
    }

    fn start(&mut self) -> Result<(), Broken> {
        self.life += 1;
        self.trace
            .note(self.now, format_args!("start of life {}", self.life));
        let false_results = self
            .known()
            .false_results(self.journal.committed(), self.now);
        for (account, event) in false_results {
            self.force(account, event)?;
        }
        let mut cells = Vec::with_capacity(self.scenario.places.len());
        for site in 0..self.scenario.places.len() {
            let chance = self.chance();
            let fold = self.journal.committed();
            let engine = self.known().engine(fold, self.now, site, chance);
            cells.push(Cell {
                account: account_of(site),
                engine,
                life: 1,
                faulted: false,
            });
        }
        let book = self.known().book(self.journal.committed());
        self.node = Some(Node {
            cells,
            book,
            book_life: 1,
        });
        for site in 0..self.scenario.places.len() {
            self.ask_people_again(site);
            self.pump(site)?;
        }
        Ok(())
    }

    fn die(&mut self, death: Death) -> Result<(), Broken> {
        if self.node.take().is_none() {
            return Ok(());
        }
        self.trace.note(self.now, format_args!("dies: {death:?}"));
        self.journal.die(death);
        self.commit_is_due = false;
        self.check.died(&self.journal, death);
        let cut_off: Vec<usize> = std::mem::take(&mut self.waiting)
            .into_values()
            .flatten()
            .collect();
        for op in cut_off {
            self.cut_off(op);
        }
        let down = self.disk_chance.millis(10, 20_000);
        self.later(down, Due::Start);
        Ok(())
    }

    /// An engine that lost a commit is built anew from what was kept.
    fn rebuild(&mut self, site: usize) -> Result<(), Broken> {
        let chance = self.chance();
        let fold = self.journal.committed();
        let engine = self.known().engine(fold, self.now, site, chance);
        let open: Vec<ActionId> = self.orders_of(site);
        let Some(cell) = self.cell(site) else {
            return Ok(());
        };
        cell.engine = engine;
        cell.life += 1;
        cell.faulted = false;
        self.trace
            .note(self.now, format_args!("site {site} is built anew"));
        for id in open {
            self.check.closed(id);
        }
        self.check.rebuilt(site, &self.journal);
        self.ask_people_again(site);
        self.pump(site)
    }

    fn rebuild_book(&mut self) -> Result<(), Broken> {
        let book = self.known().book(self.journal.committed());
        if let Some(node) = &mut self.node {
            node.book = book;
            node.book_life += 1;
        }
        Ok(())
    }

    // ---- small things -----------------------------------------------------------

    fn cell(&mut self, site: usize) -> Option<&mut Cell> {
        self.node.as_mut()?.cells.get_mut(site)
    }

    fn orders_of(&self, site: usize) -> Vec<ActionId> {
        let own = self.orders.iter().filter(|(_, order)| order.site == site);
        own.map(|(id, _)| *id).collect()
    }

    fn trouble(&self) -> Trouble {
        match self.now < self.scenario.calm_from {
            true => self.scenario.trouble,
            false => Trouble::NONE,
        }
    }

    fn chance(&mut self) -> rategov_core::engine::Chance {
        self.serial += 1;
        self.engine_chance.chance(self.serial)
    }

    fn later(&mut self, span: Span, due: Due) {
        self.at(self.now + span, due);
    }

    fn at(&mut self, at: Moment, due: Due) {
        self.serial += 1;
        self.due.insert((at.max(self.now), self.serial), due);
    }

    fn check_step(&mut self) -> Result<(), Broken> {
        let Some(node) = &self.node else {
            return Ok(());
        };
        for cell in node.cells.iter().filter(|cell| !cell.faulted) {
            self.check.step(self.now, &cell.engine)?;
        }
        Ok(())
    }

    /// What the provider counts for an action.
    fn effects_of(&self, site: usize, id: ActionId) -> u64 {
        let effects = self.sites[site].ledger().effects();
        let own = effects.filter(|effect| {
            let cause = self.check.causes.get(&(site, effect.arrival));
            cause == Some(&id)
        });
        own.count() as u64
    }

    /// What it counts for the agent's own reference.
    fn effects_of_operation(&self, order: &Order) -> u64 {
        let ledger = self.sites[order.site].ledger();
        ledger.effects_of_operation(&order.reference())
    }

    fn check_end(&self) -> Result<(), Broken> {
        for row in self.journal.committed().actions() {
            let id = row.requested.action;
            let Some(order) = self.orders.get(&id) else {
                return Err(format!("{id} is in the journal and nobody asked for it"));
            };
            let by_itself = self.effects_of(order.site, id);
            let by_operation = self.effects_of_operation(order);
            self.check.ended(row, by_itself, by_operation)?;
        }
        if let Some(node) = &self.node {
            for cell in &node.cells {
                if !cell.engine.is_idle() || 0 < cell.engine.on_the_wire() {
                    return Err(format!("invariant 17: {} does not rest", cell.account));
                }
            }
        }
        Ok(())
    }
}
