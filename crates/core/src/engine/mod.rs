//! The only door to an account: who may send what, when, and what follows.
//!
//! One engine owns one account: its queue, its ledger, its open actions and
//! the questions about them. It is a value. Methods come in four kinds:
//!
//! - getters;
//! - `handle_*`: something happened outside;
//! - [`Engine::poll_output`]: what the caller must now do, in order. Call it
//!   until it is empty after every `handle_*`;
//! - [`Engine::poll_timeout`]: when to call [`Engine::handle_timeout`].
//!
//! Time never goes back. Records leave first and what relies on them only
//! after [`Engine::handle_committed`] (see `outbox`).
//!
//! One call, seen from here:
//!
//! ```text
//! handle_submit      record action_requested; a place in the queue
//!   dispatch         every scope agrees: record action_sent, hold the grant
//! handle_committed   Grant leaves; the caller dials
//! handle_sent        the first byte may leave: the slot's window starts
//! handle_report      the ledger learns, record action_result, then the table
//!                    decides: Deliver, another attempt, a look-up, a person
//! handle_body_end    the seat is free; whoever is next goes
//! ```
//!
//! Everything is bounded: waiting calls by the policy, lanes, learnt scopes,
//! finished keys and questions by constants beside them.

mod admit;
mod books;
mod cancel;
mod decision;
mod dispatch;
mod explain;
mod finish;
mod follow;
mod input;
mod judge;
mod lanes;
mod live;
mod loads;
mod lookup;
mod outbox;
mod outlook;
mod output;
mod over;
mod places;
mod question;
mod queue;
mod restore;
mod room;
mod settle;
mod spread;
mod start;
mod timers;
mod usage;
mod ways;

use std::collections::{BTreeMap, BTreeSet};

pub use crate::action::budget::TaskAllowance;
pub use decision::DecisionError;
pub use explain::{ActionView, QueueView};
pub use input::{
    BodyEnd, Chance, Decision, Earlier, LookupReport, Marker, Report, Resumption, Setup, Submit,
};
pub use live::Leave;
pub use output::{Following, Grant, LookupGrant, Output, Parked, Refusal, WaitReason};

use crate::action::breaker::Path;
use crate::action::budget::{RatioBudget, RefusalWindow};
use crate::estimate::Estimator;
use crate::event::{Durability, Event, ScopeChange, bounded_text};
use crate::id::{
    Account, ActionId, Endpoint, EscalationId, Fingerprint, Operator, RecordSeq, Scope,
};
use crate::ledger::{Change, Ledger};
use crate::policy::AccountPolicy;
use crate::recall::Recall;
use crate::record::EscalationRow;
use crate::schedule::{AskKey, Schedule, Spacing};
use crate::tasks::TaskKey;
use crate::time::Moment;
use crate::word::{Outcome, State};
use timers::{Timer, Timers};

/// One account. See the module.
#[derive(Debug)]
pub struct Engine {
    account: Account,
    scope: Scope,
    policy: AccountPolicy,
    ledger: Ledger,
    schedule: Schedule,
    spacings: BTreeMap<Scope, Spacing>,
    lanes: lanes::Lanes,
    /// The actions in hand.
    actions: Recall<ActionId, live::Live>,
    /// Everything that waits, wherever.
    asks: BTreeMap<AskKey, ActionId>,
    next_ask: AskKey,
    /// Keys of actions in hand.
    keys: BTreeMap<String, ActionId>,
    /// Actions in hand by what they ask for.
    equals: BTreeSet<(Fingerprint, ActionId)>,
    /// Writes in hand whose outcome is unknown, by where they went.
    doubts: BTreeSet<(Endpoint, ActionId)>,
    finished: BTreeMap<String, admit::Finished>,
    finished_order: BTreeMap<u64, String>,
    finishes: u64,
    places: places::Places,
    loads: loads::Loads,
    escalations: BTreeMap<EscalationId, EscalationRow>,
    /// What a question about a stopped path may open. As forgetful as the
    /// breakers are: a restart opens every path.
    stopped_paths: BTreeMap<EscalationId, (TaskKey, Path)>,
    timers: Timers,
    /// When the dispatcher has something new to try.
    wake: Moment,
    pulse: outlook::Pulse,
    spread: spread::Spread,
    estimator: Estimator,
    retry_budget: RatioBudget,
    refusals: BTreeMap<Scope, RefusalWindow>,
    outbox: outbox::Outbox,
}

impl Engine {
    /// An engine for an account of which nothing is known yet.
    pub fn new(account: Account, scope: Scope, policy: AccountPolicy) -> Engine {
        Engine {
            ledger: Ledger::new(scope.clone(), &policy),
            schedule: Schedule::new(policy.floors_permille),
            retry_budget: RatioBudget::new(policy.retry_budget),
            lanes: lanes::Lanes::new(&scope),
            account,
            scope,
            policy,
            spacings: BTreeMap::new(),
            actions: Recall::default(),
            asks: BTreeMap::new(),
            next_ask: 1,
            keys: BTreeMap::new(),
            equals: BTreeSet::new(),
            doubts: BTreeSet::new(),
            finished: BTreeMap::new(),
            finished_order: BTreeMap::new(),
            finishes: 0,
            places: places::Places::default(),
            loads: loads::Loads::default(),
            escalations: BTreeMap::new(),
            stopped_paths: BTreeMap::new(),
            timers: Timers::default(),
            wake: Moment::NEVER,
            pulse: outlook::Pulse::default(),
            spread: spread::Spread::default(),
            estimator: Estimator::default(),
            refusals: BTreeMap::new(),
            outbox: outbox::Outbox::new(),
        }
    }

    /// The next instruction, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outbox.poll()
    }

    /// When to call [`Engine::handle_timeout`]; [`Moment::NEVER`] if nothing is due by itself.
    pub fn poll_timeout(&self) -> Moment {
        if self.outbox.is_poisoned() {
            return Moment::NEVER;
        }
        self.wake.min(self.timers.next())
    }

    /// The journal has a record, as durable as was asked.
    pub fn handle_committed(&mut self, seq: RecordSeq) {
        self.outbox.committed(seq);
    }

    /// The journal lost a record. The engine counts as crashed: nothing that
    /// relied on it leaves, callers that still wait are turned away, and the
    /// owner rebuilds the engine from the tables ([`Output::Faulted`]).
    pub fn handle_commit_failed(&mut self, seq: RecordSeq) {
        let _ = seq;
        if self.outbox.is_poisoned() {
            return;
        }
        let never_granted = self.outbox.poison();
        let in_hand: Vec<ActionId> = self.actions.keys().copied().collect();
        for id in in_hand {
            self.let_go_after_fault(id, never_granted.contains(&id));
        }
        self.outbox.free(Output::Faulted);
    }

    /// Time has come to [`Engine::poll_timeout`].
    pub fn handle_timeout(&mut self, now: Moment, mut chance: Chance) {
        if self.outbox.is_poisoned() {
            return;
        }
        while let Some((at, timer)) = self.timers.due(now) {
            match timer {
                Timer::Hold(id) => self.end_hold(now, id, at),
                Timer::Deadline(id) => self.end_at_deadline(now, &mut chance, id, at),
                Timer::WaitBudget(id) => self.end_wait_budget(now, &mut chance, id, at),
                Timer::KeyEnd(id) => self.end_key(now, &mut chance, id, at),
                Timer::Question(id) => self.expire_question(now, id, at),
            }
        }
        if self.wake <= now {
            let changes = self.ledger.handle_timeout(now, chance.draw());
            self.publish(now, &mut chance, changes);
            self.dispatch(now);
        }
    }

    /// Other rules are in force from now on. Open permits, debts and waits stay.
    pub fn handle_policy(&mut self, now: Moment, policy: AccountPolicy) {
        self.ledger.set_policy(now, &policy);
        self.retry_budget.set_policy(policy.retry_budget);
        for window in self.refusals.values_mut() {
            window.set_policy(policy.refusal_budget);
        }
        self.schedule.set_floors(policy.floors_permille);
        self.policy = policy;
        self.dispatch(now);
    }

    /// An operator reopens a scope. Nothing happens while the journal can't be written.
    pub fn handle_resume(&mut self, now: Moment, mut chance: Chance, scope: &Scope, by: Operator) {
        if self.outbox.is_poisoned() {
            return;
        }
        self.resume(now, &mut chance, scope, by);
        self.dispatch(now);
    }

    // ---- shared by the rooms -------------------------------------------------

    fn resume(&mut self, now: Moment, chance: &mut Chance, scope: &Scope, by: Operator) {
        let event = Event::Resumed {
            scope: scope.clone(),
            by,
        };
        self.outbox.record(now, Durability::Power, event);
        self.refusals.remove(scope);
        let changes = self.ledger.resume(now, scope);
        self.publish(now, chance, changes);
    }

    /// Records an event about an action in hand, and folds it into its row.
    fn record(&mut self, now: Moment, id: ActionId, event: Event) -> RecordSeq {
        let live = self.actions.get_mut(&id);
        debug_assert!(
            live.is_some(),
            "a record about an action that is not in hand"
        );
        let mut durability = Durability::Process;
        if let Some(live) = live {
            if matches!(event, Event::Settled { .. }) {
                durability = Durability::Soon;
            } else if live.row.requested.class.is_write() {
                durability = Durability::Power;
            } else if live.answers_at_once() && is_success(&event) {
                durability = Durability::Soon;
            }
            if !matches!(event, Event::ActionRequested(_)) {
                let was_uncertain = live.row.uncertain;
                let applied = live.row.apply(&event, now);
                let endpoint = &live.row.requested.endpoint;
                match (was_uncertain, live.row.uncertain) {
                    (false, true) => drop(self.doubts.insert((endpoint.clone(), id))),
                    (true, false) => drop(self.doubts.remove(&(endpoint.clone(), id))),
                    _ => {}
                }
                debug_assert!(
                    applied.is_ok(),
                    "{}",
                    applied.err().map_or_else(String::new, |e| e.to_string())
                );
            }
        }
        if matches!(event, Event::Decided { .. }) {
            durability = Durability::Power;
        }
        self.outbox.record(now, durability, event)
    }

    /// Publishes what changed in the ledger: journal first, then everybody.
    fn publish(&mut self, now: Moment, chance: &mut Chance, changes: Vec<Change>) {
        let mut saved: BTreeSet<Scope> = BTreeSet::new();
        for change in changes {
            self.save_scope(now, &change, &mut saved);
            self.consider_asking(now, chance, &change);
            self.outbox.free(Output::Changed(change));
        }
    }

    /// Records what a restart should know of a scope that changed. What was
    /// learnt rides with a change of mode of the same moment.
    fn save_scope(&mut self, now: Moment, change: &Change, saved: &mut BTreeSet<Scope>) {
        if !change.is_worth_saving() {
            return;
        }
        let scope = change.scope();
        let (modes, why) = match change {
            Change::Mode { from, to, why, .. } => (Some((*from, *to)), why.as_str()),
            Change::Held { why, .. } => (None, why.as_str()),
            Change::Left { .. } => (None, "less is left of a limit"),
            _ => (None, "a limit was learnt"),
        };
        if modes.is_none() && saved.contains(scope) {
            return;
        }
        let Some(row) = self.ledger.save(now, scope) else {
            return;
        };
        let (from, to) = modes.unwrap_or((row.mode, row.mode));
        saved.insert(scope.clone());
        let event = Event::Scope(Box::new(ScopeChange {
            scope: scope.clone(),
            from,
            to,
            why: bounded_text(why),
            status: None,
            saved: row,
        }));
        let durability = match change {
            Change::Left { .. } => Durability::Soon,
            _ => Durability::Process,
        };
        self.outbox.record(now, durability, event);
    }
}

/// Whether an event only says that all went well.
fn is_success(event: &Event) -> bool {
    match event {
        Event::ActionResult { outcome, .. } => *outcome == Outcome::Done,
        Event::Terminal { state, .. } => *state == State::Succeeded,
        _ => false,
    }
}
