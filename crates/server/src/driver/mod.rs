//! The only owner of engines.
//!
//! Every account has a `Cell`: its engine behind a short mutex, and a task
//! that wakes it when its time has come. Whoever has something to tell an
//! engine locks it, tells it, and carries out what it answers before the lock
//! is released (`Driver::pump`): records enter the journal's queue under that
//! lock, so the journal's order is the order of decisions. No lock spans an
//! await, and where two are needed the task book's comes first.
//!
//! The journal answers through `Driver::acknowledge`, a batch at a time.
//! A lost commit is treated as a crash of that one engine: nothing that relied
//! on it leaves, and `Driver::rebuild` takes the account up again from the
//! tables, by the same path as a restart.

mod attach;
mod cell;
pub mod clock;
mod journal;
mod let_go;
mod notice;
mod people;
mod rebuild;
mod receipts;
mod registry;
mod tasks;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use rategov_core::engine::{BodyEnd, Chance, Engine, Leave, LookupReport, Output, Report, Submit};
use rategov_core::estimate::Usage;
use rategov_core::event::{CancelledBy, Requested};
use rategov_core::id::{Account, ActionId, AttemptNo};
use rategov_core::observe::Facts;
use rategov_core::tasks::{TaskBook, TaskKey};
use rategov_core::time::{Draw, Moment};
use rategov_store::{Attachment, Journal, JournalState, Payload, Store};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::fail;
use tasks::Booking;

pub use attach::Attachments;
pub use cell::Cell;
pub use clock::Clock;
pub use notice::Notice;
pub use people::{Cancelled, NotDecided, NotResumed};
pub use rebuild::account_scope;
pub use receipts::{NotDurable, Receipt};
pub use registry::{Mail, Mailbox};

/// When fewer places than this are free in the journal's queue, new calls are
/// turned away, so that what is under way always finds room.
const JOURNAL_RESERVE: usize = 2_048;

/// Accounts in hand, unless the start says otherwise.
pub const ACCOUNTS_MAX: usize = 10_000;

/// Who builds what the core can't: how an action is treated, and its runner.
pub trait Resume: Send + Sync {
    /// The setup of an action that a restart found, if its route still exists.
    fn setup(&self, row: &rategov_core::record::ActionRow) -> Option<rategov_core::engine::Setup>;
    /// Starts the runner of an action that a restart found.
    fn start(&self, cell: &Arc<Cell>, row: &rategov_core::record::ActionRow, mailbox: Mailbox);
    /// The payload of an action that replaces another one: the same bytes, its own key.
    fn child_payload(&self, parent: Payload, child: &Requested) -> Option<Attachment>;
    /// The policy of an account.
    fn policy(&self, account: &Account) -> rategov_core::policy::AccountPolicy;
    /// What one task may cost.
    fn task_limits(&self) -> rategov_core::policy::TaskLimits;
}

/// Owns every engine. Cheap to clone.
#[derive(Clone)]
pub struct Driver(Arc<Inner>);

struct Inner {
    clock: Clock,
    store: Store,
    journal: Journal,
    /// Records handed to the journal, and those that it has answered.
    handed_over: AtomicU64,
    answered: AtomicU64,
    tasks: Mutex<TaskBook>,
    tasks_generation: AtomicU32,
    cells: RwLock<BTreeMap<Account, Arc<Cell>>>,
    accounts_max: usize,
    /// The number of the last life of any engine.
    generation: AtomicU32,
    /// Accounts that were let go, of which the tables may know something.
    let_go: let_go::LetGo,
    registry: registry::Registry,
    receipts: receipts::Receipts,
    /// Cancelled when the time of a stop is over: whoever still waits is told so.
    stop_over: CancellationToken,
    /// Open while an attempt of a write is on its way to its provider or back.
    writes_out: TaskTracker,
    attachments: Attachments,
    notices: tokio::sync::broadcast::Sender<Notice>,
    resume: std::sync::OnceLock<Arc<dyn Resume>>,
    runtime: tokio::runtime::Handle,
}

/// Locks a mutex. A panic while it was held is a bug, but must not stop the
/// others: the value is a state machine that changes in one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    /// A driver without accounts yet; [`Driver::take_up`] adds what the tables have.
    /// From `accounts_max` on none is added that only a credential names.
    pub fn new(clock: Clock, store: Store, tasks: TaskBook, accounts_max: usize) -> Driver {
        let journal = store.journal();
        Driver(Arc::new(Inner {
            clock,
            journal,
            handed_over: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            store,
            tasks: Mutex::new(tasks),
            tasks_generation: AtomicU32::new(1),
            cells: RwLock::new(BTreeMap::new()),
            accounts_max,
            generation: AtomicU32::new(1),
            let_go: let_go::LetGo::default(),
            registry: registry::Registry::default(),
            receipts: receipts::Receipts::default(),
            stop_over: CancellationToken::new(),
            writes_out: TaskTracker::new(),
            attachments: Attachments::default(),
            notices: tokio::sync::broadcast::channel(1_024).0,
            resume: std::sync::OnceLock::new(),
            runtime: tokio::runtime::Handle::current(),
        }))
    }

    /// The clocks.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// The store, for reading.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Changes of scopes as they happen. A slow reader misses the oldest.
    pub fn notices(&self) -> tokio::sync::broadcast::Receiver<Notice> {
        self.0.notices.subscribe()
    }

    /// A place where the outputs of an action arrive; `None` if a runner of it exists.
    pub fn register(&self, cell: &Cell, action: ActionId) -> Option<Mailbox> {
        self.0.registry.open(action, cell.generation)
    }

    /// Actions that somebody runs now.
    pub fn runners(&self) -> usize {
        self.0.registry.len()
    }

    /// Held while an attempt of a write is out: a governor that stops waits for it.
    pub fn write_out(&self) -> TaskTrackerToken {
        self.0.writes_out.token()
    }

    /// Waits until no attempt of a write is out.
    pub async fn writes_settled(&self) {
        self.0.writes_out.close();
        self.0.writes_out.wait().await;
    }

    /// The time of a stop is over: whoever still waits is to be answered.
    pub fn end_stop(&self) {
        self.0.stop_over.cancel();
    }

    /// Waits until the time of a stop is over.
    pub async fn stop_over(&self) {
        self.0.stop_over.cancelled().await;
    }

    /// Writes to the runner of an action; `false` if it has none.
    pub fn write_to(&self, action: ActionId, mail: Mail) -> bool {
        self.0.registry.send(action, mail)
    }

    // ---- calls ---------------------------------------------------------------

    /// Whether the journal takes the records of a new call.
    ///
    /// # Errors
    /// Why it does not.
    pub fn takes_calls(&self) -> Result<(), JournalState> {
        match self.0.journal.state() {
            JournalState::Takes { free } if JOURNAL_RESERVE <= free => Ok(()),
            state => Err(state),
        }
    }

    /// Whether a granted send was called back since, its task told to stop, or its
    /// scope refused: its first byte had better not leave.
    pub fn is_overtaken(&self, cell: &Arc<Cell>, key: &TaskKey, action: ActionId) -> bool {
        let tasks = lock(&self.0.tasks);
        let engine = lock(&cell.engine);
        !task_allows(&tasks, key, &engine, action) || engine.is_overtaken(action)
    }

    /// Hands a call to its account's engine. `payload` is kept with the record
    /// of a call that a restart may send.
    pub fn submit(&self, cell: &Arc<Cell>, submit: Submit, payload: Option<Attachment>) {
        if let Some(payload) = payload {
            self.0.attachments.put(submit.requested.action, payload);
        }
        let action = submit.requested.action;
        fail::point(fail::SUBMIT_BEFORE_ENGINE);
        let now = self.0.clock.now();
        self.with(cell, |engine| engine.handle_submit(now, chance(), submit));
        self.0.attachments.forget(action);
    }

    /// The first byte of an attempt is about to leave: whether it may. Asked under
    /// the locks under which a task ends and an action is cancelled, so that neither
    /// can be confirmed and overtaken.
    pub fn may_leave(&self, cell: &Arc<Cell>, key: &TaskKey, action: ActionId) -> Leave {
        let tasks = lock(&self.0.tasks);
        let mut engine = lock(&cell.engine);
        if !task_allows(&tasks, key, &engine, action) {
            return Leave::CalledBack;
        }
        engine.handle_sent(self.0.clock.now(), action)
    }

    /// The first byte of a look-up is about to leave.
    pub fn lookup_sent(&self, cell: &Arc<Cell>, action: ActionId) {
        // It changes nothing, so nothing calls it back.
        let _ = lock(&cell.engine).handle_sent(self.0.clock.now(), action);
    }

    /// An attempt ended, or its answer's head came. `result` is kept with the
    /// record that settles a write.
    pub fn report(
        &self,
        cell: &Arc<Cell>,
        key: &TaskKey,
        mut report: Report,
        result: Option<Attachment>,
    ) {
        let now = self.0.clock.now();
        let action = report.action;
        if let Some(result) = result {
            self.0.attachments.put(action, result);
        }
        let mut tasks = lock(&self.0.tasks);
        report.task = tasks.allowance(key);
        let bookings = {
            let mut engine = lock(&cell.engine);
            engine.handle_report(now, chance(), report);
            self.pump(cell, &mut engine, None)
        };
        fail::point(fail::REPORTED_BEFORE_COMMIT);
        self.book(&mut tasks, now, bookings);
        drop(tasks);
        self.0.attachments.forget(action);
    }

    /// The answer of an attempt said what it used, or has ended without saying.
    pub fn used(&self, cell: &Arc<Cell>, action: ActionId, attempt: AttemptNo, usage: &Usage) {
        let now = self.0.clock.now();
        self.with(cell, |engine| {
            engine.handle_usage(now, action, attempt, usage)
        });
    }

    /// A refusal came late, in an answer that streams on.
    pub fn late_refusal(
        &self,
        cell: &Arc<Cell>,
        action: ActionId,
        attempt: AttemptNo,
        facts: &Facts,
    ) {
        let now = self.0.clock.now();
        self.with(cell, |engine| {
            engine.handle_late_refusal(now, chance(), action, attempt, facts)
        });
    }

    /// The body of an answer that streamed on has ended.
    pub fn body_ended(&self, cell: &Arc<Cell>, action: ActionId, attempt: AttemptNo, end: BodyEnd) {
        let now = self.0.clock.now();
        self.with(cell, |engine| {
            engine.handle_body_end(now, chance(), action, attempt, end)
        });
    }

    /// A look-up ended.
    /// `result` is what it found, to be kept if the action ends with it.
    pub fn looked_up(
        &self,
        cell: &Arc<Cell>,
        key: &TaskKey,
        mut report: LookupReport,
        result: Option<Attachment>,
    ) {
        let now = self.0.clock.now();
        let action = report.action;
        if let Some(result) = result {
            self.0.attachments.put(action, result);
        }
        let mut tasks = lock(&self.0.tasks);
        report.task = tasks.allowance(key);
        let bookings = {
            let mut engine = lock(&cell.engine);
            engine.handle_lookup_report(now, chance(), report);
            self.pump(cell, &mut engine, None)
        };
        self.book(&mut tasks, now, bookings);
        drop(tasks);
        self.0.attachments.forget(action);
        fail::point(fail::LOOKUP_REPORTED_BEFORE_COMMIT);
    }

    /// The caller's connection dropped.
    pub fn caller_gone(&self, cell: &Arc<Cell>, action: ActionId) {
        let now = self.0.clock.now();
        self.with(cell, |engine| engine.handle_caller_gone(now, action));
    }

    // ---- operators -----------------------------------------------------------

    /// Another policy is in force: every engine and the task book take it up.
    pub fn policy_changed(&self) {
        let Some(resume) = self.0.resume.get() else {
            return;
        };
        let now = self.0.clock.now();
        for cell in self.cells() {
            let policy = resume.policy(&cell.account);
            self.with(&cell, |engine| engine.handle_policy(now, policy));
        }
        lock(&self.0.tasks).set_limits(resume.task_limits());
    }

    /// Looks at an engine.
    pub fn look<T>(&self, cell: &Cell, look: impl FnOnce(&Engine, Moment) -> T) -> T {
        look(&lock(&cell.engine), self.0.clock.now())
    }

    /// Looks at the task book.
    pub fn look_at_tasks<T>(&self, look: impl FnOnce(&TaskBook) -> T) -> T {
        look(&lock(&self.0.tasks))
    }

    // ---- how it works --------------------------------------------------------

    fn with(&self, cell: &Arc<Cell>, tell: impl FnOnce(&mut Engine)) {
        let bookings = {
            let mut engine = lock(&cell.engine);
            tell(&mut engine);
            self.pump(cell, &mut engine, None)
        };
        self.book_later(bookings);
    }

    /// Carries out what an engine says, under its lock. What concerns the task
    /// book is handed back: its lock comes first and is not taken here.
    /// Who waits for its records gets a receipt for them.
    fn pump(
        &self,
        cell: &Arc<Cell>,
        engine: &mut Engine,
        mut receipt: Option<&mut Receipt>,
    ) -> Vec<Booking> {
        let mut bookings = Vec::new();
        // The writer is woken once, after all of it is there.
        let mut run = self.0.journal.begin();
        while let Some(output) = engine.poll_output() {
            match output {
                Output::Record(record) => {
                    self.append(cell, engine, &mut run, record, receipt.as_deref_mut());
                }
                Output::ChargeTask {
                    task,
                    retries,
                    waited,
                } => {
                    bookings.push(Booking::Charge {
                        task,
                        retries,
                        waited,
                    });
                }
                Output::OpenPath { task, path } => bookings.push(Booking::OpenPath { task, path }),
                Output::Changed(change) => {
                    let notice = Notice {
                        account: cell.account.clone(),
                        change,
                    };
                    notice.log();
                    // Nobody listening is no error.
                    let _ = self.0.notices.send(notice);
                }
                Output::Asked { escalation } => {
                    tracing::warn!(%escalation, account = %cell.account, "a decision is needed");
                }
                Output::Child { parent, child } => self.adopt(cell, parent, &child),
                Output::Faulted => self.rebuild(cell),
                output => {
                    // Every open send has a runner that reports on it, or is over here.
                    if let Some(unread) = self.0.registry.deliver(cell.generation, output) {
                        engine.handle_undelivered(self.0.clock.now(), chance(), &unread);
                    }
                }
            }
        }
        cell.wake_at(engine.poll_timeout());
        bookings
    }

    /// An engine admitted an action in place of another one: its payload is that
    /// one's, under a key of its own. It is read here, under the engine's lock, so
    /// that it commits with the child's first record; a person decides seldom.
    fn adopt(&self, cell: &Arc<Cell>, parent: ActionId, child: &Arc<Requested>) {
        let Some(resume) = self.0.resume.get() else {
            return;
        };
        match self.0.store.reader().payload(parent) {
            Ok(Some(payload)) => {
                if let Some(payload) = resume.child_payload(payload, child) {
                    self.0.attachments.put(child.action, payload);
                }
            }
            Ok(None) => tracing::error!(%parent, "the payload of a replaced action is gone"),
            Err(cause) => tracing::error!(%parent, %cause, "a payload can't be read"),
        }
        if let Some(mailbox) = self.0.registry.open(child.action, cell.generation) {
            let row = rategov_core::record::ActionRow::open(child, self.0.clock.now());
            resume.start(cell, &row, mailbox);
        }
    }

    /// Tells every engine that a task was told to stop. Not under the task book's lock of
    /// the caller's caller: each engine is told from a task of its own.
    fn spread_cancellation(&self, key: TaskKey, stops: u32, by: CancelledBy) {
        for cell in self.cells() {
            let (driver, key, by) = (self.clone(), key.clone(), by.clone());
            self.0.runtime.spawn(async move {
                let now = driver.0.clock.now();
                driver.with(&cell, |engine| {
                    engine.handle_task_cancelled(now, chance(), &key, stops, &by);
                });
            });
        }
    }
}

/// Whether the task of an action in hand was not told to stop since it was admitted.
fn task_allows(tasks: &TaskBook, key: &TaskKey, engine: &Engine, action: ActionId) -> bool {
    tasks.may_send(key, engine.task_stops(action).unwrap_or(0))
}

/// What chance gives to one call of an engine. The last 32 bits of a UUID
/// version 7 are random and serve as the draw, too: whoever sees the id of a
/// question learns what a delay of the past was drawn from, and nothing else.
pub fn chance() -> Chance {
    let id = uuid::Uuid::now_v7().as_u128();
    Chance {
        draw: Draw::from_u32(id as u32),
        id,
    }
}

/// A fresh id for an action.
pub fn new_action_id() -> ActionId {
    ActionId(uuid::Uuid::now_v7().as_u128())
}
