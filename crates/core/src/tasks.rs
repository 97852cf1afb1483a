//! The task book: what spans accounts. A task's budget, its breaker, and its end.
//!
//! A task is named by its agent and its own name; calls that name none share
//! their agent's default task. The book is asked before each send of a task's
//! action, under the same lock order everywhere: task book first, engine second.
//!
//! | | a task with a name | an agent's default task |
//! | --- | --- | --- |
//! | begins | with its first call | with the agent's first call that names none |
//! | deadline of its calls | `deadline` after its beginning | none |
//! | budgets | until its end | anew after each `deadline` |
//! | a cancel | ends it for good | stops what it has in hand, and it goes on |
//!
//! Like an engine it is a value with an outbox: what it decides is recorded
//! first, and `Cancelled` is told to the engines only after the journal has it.
//! Whoever asked for a cancel is told so by that output, not by the call.
//! Failures that the breaker counted are forgotten at a restart, which is an
//! operator's act; budgets and ends are not.

mod roll;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

pub use roll::{TASKS_MAX, TASKS_PER_AGENT_MAX};

use crate::action::breaker::{Breaker, Constraint, Path};
use crate::action::failure::Failure;
use crate::engine::TaskAllowance;
use crate::event::{CancelledBy, Durability, Event, Record, bounded_text};
use crate::id::{Account, Agent, RecordSeq, Task};
use crate::policy::TaskLimits;
use crate::record::TaskRow;
use crate::time::{Moment, Span};
use roll::{Roll, is_default};

/// The name that calls without a task share.
pub const DEFAULT_TASK: &str = "default";

/// Key of a task: tasks of different agents never meet.
pub type TaskKey = (Agent, Task);

/// The key of a call's task; calls that name none share their agent's default.
pub fn task_key(agent: &Agent, task: Option<&Task>) -> TaskKey {
    let task = task.cloned().unwrap_or_else(|| {
        Task::new(DEFAULT_TASK).expect("the default's name is short printable ASCII")
    });
    (agent.clone(), task)
}

/// Why a task may not send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskRefusal {
    /// It was cancelled or ended.
    Cancelled,
    /// Its deadline has passed.
    DeadlineExceeded,
    /// This path failed identically too often.
    BreakerTripped(Constraint),
    /// Too many tasks are open, of this agent or of all.
    TooMany,
    /// The journal can't be written.
    AuditUnavailable,
}

/// A budget of a task of which nothing is left: its calls go on, and none is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// As many repeats as it may have.
    Retries(u32),
    /// As much waiting as it may have.
    Wait(Span),
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spent::Retries(most) => write!(f, "all {most} repeats of the task are spent"),
            Spent::Wait(most) => write!(f, "all {most} of waiting of the task are spent"),
        }
    }
}

/// What the caller of the book must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskOutput {
    /// Append this to the journal.
    Record(Record),
    /// Tell every engine that the task was told to stop.
    Cancelled {
        /// The task.
        key: TaskKey,
        /// How often by now.
        stops: u32,
        /// By whom.
        by: CancelledBy,
    },
    /// A commit was lost: rebuild the book from the tables.
    Faulted,
}

/// All tasks. See the module.
#[derive(Debug)]
pub struct TaskBook {
    limits: TaskLimits,
    roll: Roll,
    last: RecordSeq,
    ready: VecDeque<TaskOutput>,
    held: BTreeMap<RecordSeq, TaskOutput>,
    poisoned: bool,
}

impl TaskBook {
    /// An empty book.
    pub fn new(limits: TaskLimits) -> TaskBook {
        TaskBook {
            limits,
            roll: Roll::default(),
            last: RecordSeq(0),
            ready: VecDeque::new(),
            held: BTreeMap::new(),
            poisoned: false,
        }
    }

    /// The book as the tables have it; of more than [`TASKS_MAX`] tasks those
    /// that have not ended, and of these the latest, go first.
    pub fn restore(limits: TaskLimits, mut rows: Vec<TaskRow>) -> TaskBook {
        rows.sort_by(|a, b| {
            (a.cancelled, b.opened_at, &a.agent, &a.task).cmp(&(
                b.cancelled,
                a.opened_at,
                &b.agent,
                &b.task,
            ))
        });
        let mut book = TaskBook::new(limits);
        for row in rows.into_iter().take(TASKS_MAX) {
            let breaker = Breaker::new(limits.breaker_failures);
            book.roll.put(row, breaker, limits.deadline);
        }
        book
    }

    /// Whether a call of a task may be admitted; opens the task on its first call.
    ///
    /// # Errors
    /// [`TaskRefusal`], with the reason.
    pub fn admit(
        &mut self,
        now: Moment,
        key: &TaskKey,
        goal: Option<String>,
        path: &Path,
    ) -> Result<TaskAllowance, TaskRefusal> {
        self.open(now, key, goal)?;
        let Some(open) = self.roll.get(key) else {
            return Err(TaskRefusal::TooMany);
        };
        if open.row.cancelled {
            return Err(TaskRefusal::Cancelled);
        }
        if open.row.deadline <= now {
            return Err(TaskRefusal::DeadlineExceeded);
        }
        if let Some(constraint) = open.breaker.constraint(path) {
            return Err(TaskRefusal::BreakerTripped(constraint));
        }
        Ok(self.allowance(key))
    }

    /// What a task still allows.
    pub fn allowance(&self, key: &TaskKey) -> TaskAllowance {
        let (retries, waited, stops) = match self.roll.get(key) {
            Some(open) if open.row.cancelled => {
                return TaskAllowance {
                    retries: 0,
                    wait: Span::ZERO,
                    stops: open.row.stops,
                };
            }
            Some(open) => (open.row.retries, open.row.waited, open.row.stops),
            None => (0, Span::ZERO, 0),
        };
        TaskAllowance {
            retries: self.limits.max_retries.saturating_sub(retries),
            wait: self.limits.max_wait.saturating_sub(waited),
            stops,
        }
    }

    /// The budget of a task that is used up, if one is. O(log n).
    pub fn spent(&self, now: Moment, key: &TaskKey) -> Option<Spent> {
        let open = self.roll.get(key)?;
        let (row, limits) = (&open.row, self.limits);
        if row.cancelled || (is_default(key) && open.is_over(now)) {
            None
        } else if limits.max_retries <= row.retries {
            Some(Spent::Retries(limits.max_retries))
        } else if limits.max_wait <= row.waited {
            Some(Spent::Wait(limits.max_wait))
        } else {
            None
        }
    }

    /// From when the next call of a default task begins its budgets anew; other tasks
    /// have theirs once.
    pub fn renews_at(&self, key: &TaskKey) -> Option<Moment> {
        let open = self.roll.get(key).filter(|_| is_default(key))?;
        Some(open.over_from())
    }

    /// Whether a send of a call may leave that was admitted after so many stops.
    pub fn may_send(&self, key: &TaskKey, stops: u32) -> bool {
        self.roll
            .get(key)
            .is_none_or(|open| open.row.may_send(stops))
    }

    /// Whether a task was told to stop, or its deadline has passed: none of its calls
    /// is admitted any more. A default task never ends.
    pub fn has_ended(&self, now: Moment, key: &TaskKey) -> bool {
        self.roll
            .get(key)
            .is_some_and(|open| open.row.cancelled || open.row.deadline <= now)
    }

    /// The deadline of a task, if it is known.
    pub fn deadline(&self, key: &TaskKey) -> Option<Moment> {
        self.roll.get(key).map(|open| open.row.deadline)
    }

    /// Books repeats and waiting.
    pub fn charge(&mut self, now: Moment, key: &TaskKey, retries: u32, waited: Span) {
        let Some(open) = self.roll.get_mut(key) else {
            return;
        };
        let event = Event::TaskCharged {
            task: key.1.clone(),
            agent: key.0.clone(),
            retries: open.row.retries.saturating_add(retries),
            waited: open.row.waited + waited,
        };
        open.row.apply(&event);
        self.record(now, Durability::Process, event);
    }

    /// A deterministic failure on a path of a task. Says so if it tripped the breaker.
    pub fn failed(
        &mut self,
        now: Moment,
        key: &TaskKey,
        path: &Path,
        failure: &Failure,
    ) -> Option<Constraint> {
        self.roll.get_mut(key)?.breaker.failed(now, path, failure)
    }

    /// A success on a path of a task.
    pub fn succeeded(&mut self, key: &TaskKey, path: &Path) {
        if let Some(open) = self.roll.get_mut(key) {
            open.breaker.succeeded(path);
        }
    }

    /// A task is told to stop: nothing that it has in hand ever sends again, and it
    /// ends. Unknown tasks are opened and ended, so that a late call finds them
    /// ended. A default task goes on; its budgets stay spent.
    ///
    /// # Errors
    /// [`TaskRefusal::TooMany`] if the book is full of open tasks,
    /// [`TaskRefusal::AuditUnavailable`] if the end could not be recorded.
    pub fn cancel(
        &mut self,
        now: Moment,
        key: &TaskKey,
        by: CancelledBy,
    ) -> Result<(), TaskRefusal> {
        self.open(now, key, None)?;
        let Some(open) = self.roll.get_mut(key) else {
            return Err(TaskRefusal::TooMany);
        };
        if open.row.cancelled {
            return Ok(());
        }
        let event = Event::TaskCancelled {
            task: key.1.clone(),
            agent: key.0.clone(),
            by: by.clone(),
        };
        open.row.apply(&event);
        let stops = open.row.stops;
        if open.row.cancelled {
            self.roll.end(now, key);
        }
        let seq = self.record(now, Durability::Power, event);
        let output = TaskOutput::Cancelled {
            key: key.clone(),
            stops,
            by,
        };
        self.held.insert(seq, output);
        Ok(())
    }

    /// A person gives a stopped path of one task a new chance.
    pub fn open_path(&mut self, key: &TaskKey, path: &Path) {
        if let Some(open) = self.roll.get_mut(key) {
            open.breaker.reset(path);
        }
    }

    /// An operator gives every path of an account a new chance.
    pub fn reset_breakers_of(&mut self, account: &Account) {
        for open in self.roll.iter_mut() {
            open.breaker.reset_account(account);
        }
    }

    /// Every path gets a new chance.
    fn reset_breakers(&mut self) {
        for open in self.roll.iter_mut() {
            open.breaker.reset_all(self.limits.breaker_failures);
        }
    }

    /// Other limits are in force from now on. Deadlines that were given stay.
    pub fn set_limits(&mut self, limits: TaskLimits) {
        self.limits = limits;
        self.reset_breakers();
    }

    /// The limits in force.
    pub fn limits(&self) -> TaskLimits {
        self.limits
    }

    /// Every task, for display.
    pub fn rows(&self) -> impl Iterator<Item = &TaskRow> {
        self.roll.iter().map(|open| &open.row)
    }

    /// The next instruction.
    pub fn poll_output(&mut self) -> Option<TaskOutput> {
        self.ready.pop_front()
    }

    /// The journal has a record.
    pub fn handle_committed(&mut self, seq: RecordSeq) {
        if let Some(output) = self.held.remove(&seq) {
            self.ready.push_back(output);
        }
    }

    /// The journal lost a record: the book counts as crashed.
    pub fn handle_commit_failed(&mut self) {
        if !self.poisoned {
            self.poisoned = true;
            self.held.clear();
            self.ready
                .retain(|output| !matches!(output, TaskOutput::Record(_)));
            self.ready.push_back(TaskOutput::Faulted);
        }
    }

    /// Opens a task that is not known, and begins the next period of a default
    /// task whose period is over.
    fn open(
        &mut self,
        now: Moment,
        key: &TaskKey,
        goal: Option<String>,
    ) -> Result<(), TaskRefusal> {
        if self.poisoned {
            return Err(TaskRefusal::AuditUnavailable);
        }
        let known = self.roll.get(key);
        if known.is_some_and(|open| !(is_default(key) && open.is_over(now))) {
            return Ok(());
        }
        if !self.roll.make_room(now, key) {
            return Err(TaskRefusal::TooMany);
        }
        self.begin(now, key, goal);
        Ok(())
    }

    fn begin(&mut self, now: Moment, key: &TaskKey, goal: Option<String>) {
        let deadline = match is_default(key) {
            true => Moment::NEVER,
            false => now + self.limits.deadline,
        };
        let event = Event::TaskOpened {
            task: key.1.clone(),
            agent: key.0.clone(),
            goal: goal.map(|goal| bounded_text(&goal)),
            deadline,
            stops: self.roll.get(key).map_or(0, |known| known.row.stops),
        };
        if let Some(row) = TaskRow::open(&event, now) {
            let breaker = Breaker::new(self.limits.breaker_failures);
            self.roll.put(row, breaker, self.limits.deadline);
        }
        self.record(now, Durability::Process, event);
    }

    fn record(&mut self, at: Moment, durability: Durability, event: Event) -> RecordSeq {
        self.last = RecordSeq(self.last.0 + 1);
        if !self.poisoned {
            let record = Record {
                seq: self.last,
                at,
                durability,
                event,
            };
            self.ready.push_back(TaskOutput::Record(record));
        }
        self.last
    }
}
