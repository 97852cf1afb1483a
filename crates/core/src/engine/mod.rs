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
//! after [`Engine::handle_committed`] (see [`outbox`]).
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
mod cancel;
mod dispatch;
mod explain;
mod input;
mod lanes;
mod live;
mod lookup;
mod outbox;
mod output;
mod question;
mod restore;
mod settle;
mod timers;

use std::collections::BTreeMap;

pub use explain::{ActionView, QueueView};
pub use input::{BodyEnd, Chance, Decision, LookupReport, Report, Setup, Submit, TaskAllowance};
pub use output::{Following, Grant, LookupGrant, Output, Parked, Refusal, WaitReason};
pub use question::DecisionError;

use crate::action::budget::{RatioBudget, RefusalWindow};
use crate::event::{Durability, Event};
use crate::id::{Account, ActionId, EscalationId, RecordSeq, Scope};
use crate::ledger::{Change, Ledger};
use crate::policy::AccountPolicy;
use crate::record::{EscalationRow, ScopeRow};
use crate::schedule::{AskKey, Schedule, Spacing};
use crate::time::Moment;
use crate::word::State;
use live::{Live, Loads};
use timers::{Timer, Timers};

/// Finished keys that are remembered here, so that a repeat that races the end
/// of its action finds it. The store knows all of them.
const FINISHED_KEYS_MAX: usize = 10_000;

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
    actions: BTreeMap<ActionId, Live>,
    asks: BTreeMap<AskKey, ActionId>,
    next_ask: AskKey,
    keys: BTreeMap<String, ActionId>,
    finished: BTreeMap<String, Finished>,
    finished_order: std::collections::VecDeque<String>,
    loads: Loads,
    escalations: BTreeMap<EscalationId, EscalationRow>,
    timers: Timers,
    /// When the dispatcher has something new to try.
    wake: Moment,
    retry_budget: RatioBudget,
    refusals: RefusalWindow,
    outbox: outbox::Outbox,
}

/// What is remembered of a finished key.
#[derive(Clone, Debug)]
struct Finished {
    action: ActionId,
    payload_digest: [u8; 32],
    endpoint: crate::id::Endpoint,
}

impl Engine {
    /// An engine for an account of which nothing is known yet.
    pub fn new(account: Account, scope: Scope, policy: AccountPolicy) -> Engine {
        Engine {
            ledger: Ledger::new(scope.clone(), &policy),
            schedule: Schedule::new(policy.floors_permille),
            retry_budget: RatioBudget::new(policy.retry_budget),
            refusals: RefusalWindow::new(policy.refusal_budget),
            account,
            scope,
            policy,
            spacings: BTreeMap::new(),
            lanes: lanes::Lanes::default(),
            actions: BTreeMap::new(),
            asks: BTreeMap::new(),
            next_ask: 1,
            keys: BTreeMap::new(),
            finished: BTreeMap::new(),
            finished_order: std::collections::VecDeque::new(),
            loads: Loads::default(),
            escalations: BTreeMap::new(),
            timers: Timers::default(),
            wake: Moment::NEVER,
            outbox: outbox::Outbox::new(),
        }
    }

    /// The account.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Calls that wait for their turn.
    pub fn waiting(&self) -> usize {
        self.asks.len()
    }

    /// Whether nothing is in hand and nothing is asked: the engine may be dropped.
    pub fn is_idle(&self) -> bool {
        self.actions.is_empty() && self.escalations.is_empty()
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
        self.outbox.poison();
        let in_hand: Vec<ActionId> = self.actions.keys().copied().collect();
        for id in in_hand {
            self.let_go_after_fault(id);
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
        self.refusals.set_policy(policy.refusal_budget);
        self.schedule.set_floors(policy.floors_permille);
        self.policy = policy;
        self.dispatch(now);
    }

    /// An operator reopens a scope.
    pub fn handle_resume(
        &mut self,
        now: Moment,
        mut chance: Chance,
        scope: &Scope,
        by: crate::id::Operator,
    ) {
        self.outbox.record(
            now,
            Durability::Power,
            Event::Resumed {
                scope: scope.clone(),
                by,
            },
        );
        let changes = self.ledger.resume(now, scope);
        self.publish(now, &mut chance, changes);
        self.dispatch(now);
    }

    // ---- shared by the rooms -------------------------------------------------

    /// Records an event about an action in hand, and folds it into its row.
    fn record(&mut self, now: Moment, id: ActionId, event: Event) -> RecordSeq {
        let live = self.actions.get_mut(&id);
        debug_assert!(
            live.is_some(),
            "a record about an action that is not in hand"
        );
        let mut durability = Durability::Process;
        if let Some(live) = live {
            if live.row.requested.class.is_write() {
                durability = Durability::Power;
            }
            if !matches!(event, Event::ActionRequested(_)) {
                let applied = live.row.apply(&event, now);
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
        for change in changes {
            if let Change::Mode {
                scope,
                from,
                to,
                why,
                ..
            } = &change
                && let Some(saved) = self.saved(now, scope)
            {
                self.outbox.record(
                    now,
                    Durability::Process,
                    Event::Scope(Box::new(crate::event::ScopeChange {
                        scope: scope.clone(),
                        from: *from,
                        to: *to,
                        why: crate::event::bounded_text(why),
                        status: None,
                        saved,
                    })),
                );
            }
            self.consider_asking(now, chance, &change);
            self.outbox.free(Output::Changed(change));
        }
    }

    fn saved(&self, now: Moment, scope: &Scope) -> Option<ScopeRow> {
        self.ledger.save(now, scope)
    }

    /// Remembers a finished key for a while.
    fn remember_finished(&mut self, live: &Live) {
        let Some(key) = live.row.requested.key.clone() else {
            return;
        };
        self.keys.remove(&key);
        if matches!(
            live.row.state,
            State::CancelledNotSent | State::FailedDefinite | State::Interrupted
        ) {
            // It had no effect: whether the same key may go again is for the
            // store's record to say.
            return;
        }
        let finished = Finished {
            action: live.id(),
            payload_digest: live.row.requested.payload_digest,
            endpoint: live.row.requested.endpoint.clone(),
        };
        if self.finished.insert(key.clone(), finished).is_none() {
            self.finished_order.push_back(key);
        }
        while FINISHED_KEYS_MAX < self.finished_order.len() {
            if let Some(oldest) = self.finished_order.pop_front() {
                self.finished.remove(&oldest);
            }
        }
    }
}
