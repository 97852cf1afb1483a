//! The simulated process: the engines of all accounts, the task book, and what
//! a start makes of the tables.
//!
//! [`Planted`] bugs live here, around the engine and not in it: each changes
//! what a start reads or what a setup says, as the bug would.

use std::collections::BTreeMap;

use rategov_core::action::outcome::Certainty;
use rategov_core::engine::{Chance, Engine, Resumption, Setup};
use rategov_core::event::Event;
use rategov_core::fold::Fold;
use rategov_core::id::{Account, ActionId, Scope};
use rategov_core::record::{ActionRow, Tables};
use rategov_core::tasks::{TaskBook, task_key};
use rategov_core::time::{Moment, Span};
use rategov_core::word::{Outcome, State};

use super::order::Order;
use super::scenario::Scenario;

/// The longest window that is rebuilt from single attempts.
const WINDOW_MAX: Span = Span::from_secs(3_600);

/// A bug that is put in on purpose, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// An attempt that was open when the process died is taken for "not sent".
    CrashMeansNotSent,
    /// "Not found" is believed although a late copy can still arrive.
    AbsenceAtOnce,
    /// A start forgets that an action was cancelled.
    CancelForgotten,
}

impl Planted {
    /// Every planted bug.
    pub const ALL: [Planted; 3] = [
        Planted::CrashMeansNotSent,
        Planted::AbsenceAtOnce,
        Planted::CancelForgotten,
    ];
}

/// One engine and which of its lives it is in.
#[derive(Debug)]
pub struct Cell {
    /// Whose.
    pub account: Account,
    /// The engine.
    pub engine: Engine,
    /// Counts its lives.
    pub life: u32,
    /// Whether it lost a commit and waits to be rebuilt.
    pub faulted: bool,
}

/// The process.
#[derive(Debug)]
pub struct Node {
    /// By site.
    pub cells: Vec<Cell>,
    /// The task book.
    pub book: TaskBook,
    /// Counts its lives.
    pub book_life: u32,
}

/// The account of a site.
pub fn account_of(site: usize) -> Account {
    Account::new(&format!("provider-{site}/sim")).expect("short printable ASCII")
}

/// The scope of a site's account.
pub fn scope_of(site: usize) -> Scope {
    Scope::new(&format!("account:site-{site}")).expect("short printable ASCII")
}

/// What a start needs to know beside the tables.
#[derive(Clone, Copy)]
pub struct Known<'w> {
    /// Rules and limits.
    pub scenario: &'w Scenario,
    /// Every action of this world.
    pub orders: &'w BTreeMap<ActionId, Order>,
    /// The bug that is put in.
    pub planted: Option<Planted>,
}

impl Known<'_> {
    /// How an action is to be treated.
    pub fn setup(&self, order: &Order) -> Setup {
        let mut setup = order.setup.clone();
        if self.planted == Some(Planted::AbsenceAtOnce) {
            let mut profile = (*setup.profile).clone();
            if let Some(lookup) = &mut profile.lookup {
                lookup.max_in_flight = Span::ZERO;
                lookup.settle = Span::ZERO;
            }
            setup.profile = std::sync::Arc::new(profile);
        }
        setup
    }

    /// The tables of one account as a start reads them.
    fn tables(&self, fold: &Fold, now: Moment, site: usize) -> Tables {
        let (account, scope) = (account_of(site), scope_of(site));
        let mut tables = fold.tables(now, WINDOW_MAX);
        let own = |id: &ActionId| self.orders.get(id).is_some_and(|order| order.site == site);
        tables.actions.retain(|row| own(&row.requested.action));
        tables.attempts.retain(|row| own(&row.action));
        tables.escalations.retain(|row| match &row.action {
            Some(id) => own(id),
            None => row.scope == scope,
        });
        tables.scopes.retain(|(owner, _)| *owner == account);
        tables.tasks.clear();
        if self.planted == Some(Planted::CancelForgotten) {
            tables
                .actions
                .iter_mut()
                .for_each(|row| row.cancelled = false);
        }
        tables
    }

    /// What the planted bug records at a start, by account.
    pub fn false_results(&self, fold: &Fold, now: Moment) -> Vec<(Account, Event)> {
        if self.planted != Some(Planted::CrashMeansNotSent) {
            return Vec::new();
        }
        let open = |row: &&ActionRow| row.state == State::Dispatching;
        let not_sent = |row: &ActionRow| {
            let event = Event::ActionResult {
                action: row.requested.action,
                attempt: row.attempts,
                certainty: Certainty::NotSent,
                outcome: Outcome::NotSent,
                status: None,
                retry_after: None,
                scope: None,
                operation_id: None,
                error_code: None,
                bytes_written: 0,
                sent_at: None,
            };
            (row.requested.account.clone(), event)
        };
        let tables = fold.tables(now, WINDOW_MAX);
        tables.actions.iter().filter(open).map(not_sent).collect()
    }

    /// The engine of a site as the tables have it.
    pub fn engine(&self, fold: &Fold, now: Moment, site: usize, chance: Chance) -> Engine {
        let (account, scope) = (account_of(site), scope_of(site));
        let tables = self.tables(fold, now, site);
        let book = self.book(fold);
        let resumptions: BTreeMap<ActionId, Resumption> = tables
            .actions
            .iter()
            .map(|row| {
                let requested = &row.requested;
                let key = task_key(&requested.agent, requested.task.as_ref());
                let order = self.orders.get(&requested.action);
                let setup = order.map(|order| self.setup(order));
                let may_send = book.may_send(&key, requested.task_stops);
                let task = may_send.then(|| book.allowance(&key));
                (requested.action, Resumption { setup, task })
            })
            .collect();
        let policy = self.scenario.places[site].policy.clone();
        Engine::restore(account, scope, policy, now, chance, tables, &resumptions)
    }

    /// The task book as the tables have it.
    pub fn book(&self, fold: &Fold) -> TaskBook {
        TaskBook::restore(self.scenario.tasks, fold.tasks().cloned().collect())
    }
}
