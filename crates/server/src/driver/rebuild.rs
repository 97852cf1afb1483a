//! Taking accounts up: at the first call, at a restart, and after a lost commit.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rategov_core::engine::{Engine, Resumption, TaskAllowance};
use rategov_core::id::{Account, ActionId, Scope};
use rategov_core::record::{ActionRow, Tables};
use rategov_core::tasks::{TaskBook, task_key};
use rategov_core::time::Moment;
use rategov_store::Source;

use super::{Cell, Driver, Mail, Mailbox, Resume, chance, lock};
use crate::fail;

/// How long a rebuilding waits between two tries.
const REBUILD_PAUSE: Duration = Duration::from_secs(1);

impl Driver {
    /// Connects who builds setups and runners. Once, before the first call.
    pub fn connect(&self, resume: Arc<dyn Resume>) {
        let first = self.0.resume.set(resume).is_ok();
        debug_assert!(first, "connected twice");
    }

    /// Takes up every account that the tables have something of.
    pub fn take_up(&self, accounts: BTreeMap<Account, Tables>) {
        for (account, tables) in accounts {
            self.install(&account, 1, tables);
        }
    }

    /// The cell of an account; made if this is its first call, or the first since it
    /// was let go.
    ///
    /// # Errors
    /// If the tables can't be read.
    pub async fn cell(&self, account: &Account) -> Result<Arc<Cell>, rategov_store::Error> {
        if let Some(cell) = self.cell_of(account) {
            return Ok(cell);
        }
        let (generation, tables) = match self.tables_of(account).await? {
            Some(tables) => (self.next_generation(), tables),
            None => (1, Tables::default()),
        };
        Ok(self.install(account, generation, tables))
    }

    /// Every account in hand.
    pub fn cells(&self) -> Vec<Arc<Cell>> {
        let cells = self.0.cells.read().unwrap_or_else(PoisonError::into_inner);
        cells.values().cloned().collect()
    }

    /// The cell of an account, if it is in hand: for who only looks.
    pub fn cell_of(&self, account: &Account) -> Option<Arc<Cell>> {
        let cells = self.0.cells.read().unwrap_or_else(PoisonError::into_inner);
        cells.get(account).cloned()
    }

    /// Builds an engine from tables, starts the runners of its actions, and only
    /// then lets its outputs out.
    pub(super) fn install(&self, account: &Account, generation: u32, tables: Tables) -> Arc<Cell> {
        let now = self.0.clock.now();
        let resume = self.0.resume.get();
        let mut resumptions: BTreeMap<ActionId, Resumption> = BTreeMap::new();
        let mut mailboxes = Vec::new();
        for row in &tables.actions {
            let id = row.requested.action;
            let setup = resume.and_then(|resume| resume.setup(row));
            // A read that the life before still passes on keeps its runner.
            if setup.is_some()
                && let Some(mailbox) = self.0.registry.open(id, generation)
            {
                mailboxes.push((row.clone(), mailbox));
            }
            let task = self.task_of(row);
            resumptions.insert(id, Resumption { setup, task });
        }
        let policy = resume
            .map(|resume| resume.policy(account))
            .unwrap_or_default();
        let engine = Engine::restore(
            account.clone(),
            account_scope(account),
            policy,
            now,
            chance(),
            tables,
            &resumptions,
        );
        let cell = Arc::new(Cell::new(generation, engine));
        {
            let mut cells = self.0.cells.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(existing) = cells.get(account).filter(|cell| !cell.is_closed()) {
                // Another first call was faster.
                return Arc::clone(existing);
            }
            cells.insert(account.clone(), Arc::clone(&cell));
        }
        if let Some(resume) = resume {
            for (row, mailbox) in mailboxes {
                resume.start(&cell, &row, mailbox);
            }
        }
        fail::point(fail::RESTART_BEFORE_RECORDS);
        self.with(&cell, |_| {});
        let (driver, waked) = (self.clone(), Arc::clone(&cell));
        self.0.runtime.spawn(async move {
            while waked.due(&driver.0.clock).await {
                fail::point(fail::WAIT_OVER_BEFORE_ENGINE);
                let now: Moment = driver.0.clock.now();
                driver.with(&waked, |engine| engine.handle_timeout(now, chance()));
            }
        });
        cell
    }

    /// What the task of a stored action still allows; `None` if it was told to stop
    /// since.
    fn task_of(&self, row: &ActionRow) -> Option<TaskAllowance> {
        let requested = &row.requested;
        let key = task_key(&requested.agent, requested.task.as_ref());
        let tasks = lock(&self.0.tasks);
        tasks
            .may_send(&key, requested.task_stops)
            .then(|| tasks.allowance(&key))
    }

    /// A commit was lost: the account is taken up again from the tables, as after
    /// a restart. Its runners let go as soon as the cell is closed, except one that
    /// passes a read on to a caller that waits for it.
    pub(super) fn rebuild(&self, cell: &Arc<Cell>) {
        cell.close();
        let (driver, cell) = (self.clone(), Arc::clone(cell));
        self.0.runtime.spawn(async move {
            loop {
                tokio::time::sleep(REBUILD_PAUSE).await;
                let (store, account) = (driver.0.store.clone(), cell.account.clone());
                let now = driver.0.clock.paired();
                let recovered = tokio::task::spawn_blocking(move || {
                    store.recover(&Source::Account(account), &now)
                });
                match recovered.await {
                    // A write that is still on the wire is stopped first: what may
                    // have arrived is counted from when nothing more can leave. And
                    // what goes on without its caller gets another runner, which
                    // must not find the old one in its place.
                    Ok(Ok(tables)) if driver.has_a_runner_that_must_end(&tables) => {}
                    Ok(Ok(tables)) => {
                        tracing::info!(account = %cell.account, "taken up again");
                        driver.install(&cell.account, driver.next_generation(), tables);
                        return;
                    }
                    Ok(Err(cause)) => {
                        tracing::error!(account = %cell.account, %cause, "can't be taken up yet")
                    }
                    Err(_) => return,
                }
            }
        });
    }

    /// The number of an engine's life that is not its first.
    fn next_generation(&self) -> u32 {
        self.0.generation.fetch_add(1, Ordering::AcqRel) + 1
    }

    fn has_a_runner_that_must_end(&self, tables: &Tables) -> bool {
        tables.actions.iter().any(|row| {
            let requested = &row.requested;
            (requested.class.is_write() || requested.detached)
                && self.0.registry.has(requested.action)
        })
    }

    /// Nobody can run this action. What was granted to it is handed back, and so is
    /// whatever will be: its mailbox is closed.
    pub fn leave_unrun(&self, cell: &Arc<Cell>, mailbox: Mailbox, first: Mail) {
        let now = self.0.clock.now();
        for mail in std::iter::once(first).chain(mailbox.close()) {
            if let Mail::Output(output) = mail {
                self.with(cell, |engine| {
                    engine.handle_undelivered(now, chance(), &output);
                });
            }
        }
    }

    /// The same for the task book.
    pub(super) fn rebuild_tasks(&self) {
        let driver = self.clone();
        self.0.runtime.spawn(async move {
            loop {
                tokio::time::sleep(REBUILD_PAUSE).await;
                let store = driver.0.store.clone();
                let now = driver.0.clock.paired();
                let recovered =
                    tokio::task::spawn_blocking(move || store.recover(&Source::Tasks, &now));
                match recovered.await {
                    Ok(Ok(tables)) => {
                        let mut tasks = lock(&driver.0.tasks);
                        driver.0.tasks_generation.fetch_add(1, Ordering::AcqRel);
                        *tasks = TaskBook::restore(tasks.limits(), tables.tasks);
                        return;
                    }
                    Ok(Err(cause)) => tracing::error!(%cause, "the task book can't be read yet"),
                    Err(_) => return,
                }
            }
        });
    }
}

/// The scope of an account as a whole: `account:NAME`, without its provider.
pub fn account_scope(account: &Account) -> Scope {
    let name = account
        .as_str()
        .split_once('/')
        .map_or(account.as_str(), |(_, name)| name);
    Scope::new(&format!("account:{name}")).unwrap_or_else(|_| {
        // An account's name is at most 200 bytes, the prefix adds eight: cut it.
        let cut: String = name.chars().take(180).collect();
        Scope::new(&format!("account:{cut}"))
            .unwrap_or_else(|_| unreachable!("printable and short"))
    })
}
