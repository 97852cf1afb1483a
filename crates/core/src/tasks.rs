//! The task book: what spans accounts. A task's budget, its breaker, and its end.
//!
//! A task is named by its agent and its own name; calls that name none share
//! their agent's default task, which has budgets but no end. The book is asked
//! before each send of a task's action, under the same lock order everywhere:
//! task book first, engine second.
//!
//! Like an engine it is a value with an outbox: what it decides is recorded
//! first, and `cancelled` is told to the engines only after the journal has it.

use std::collections::{BTreeMap, VecDeque};

use crate::action::breaker::{Breaker, Constraint, Path};
use crate::action::failure::Failure;
use crate::engine::TaskAllowance;
use crate::event::{CancelledBy, Durability, Event, Record};
use crate::id::{Agent, RecordSeq, Task};
use crate::policy::TaskLimits;
use crate::record::TaskRow;
use crate::time::{Moment, Span};

/// Tasks that are remembered. When more come, the one that ended or expired
/// longest ago is forgotten; if none did, the new one is turned away.
pub const TASKS_MAX: usize = 100_000;

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
    /// Too many tasks are open.
    TooMany,
}

#[derive(Debug)]
struct Open {
    row: TaskRow,
    breaker: Breaker,
}

/// What the caller of the book must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskOutput {
    /// Append this to the journal.
    Record(Record),
    /// Tell every engine that the task ended.
    Cancelled {
        /// The task.
        key: TaskKey,
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
    tasks: BTreeMap<TaskKey, Open>,
    /// Ended or expired tasks, the oldest first; candidates for forgetting.
    ended: VecDeque<TaskKey>,
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
            tasks: BTreeMap::new(),
            ended: VecDeque::new(),
            last: RecordSeq(0),
            ready: VecDeque::new(),
            held: BTreeMap::new(),
            poisoned: false,
        }
    }

    /// The book as the tables have it.
    pub fn restore(limits: TaskLimits, rows: Vec<TaskRow>) -> TaskBook {
        let mut book = TaskBook::new(limits);
        for row in rows.into_iter().take(TASKS_MAX) {
            let key = (row.agent.clone(), row.task.clone());
            if row.cancelled {
                book.ended.push_back(key.clone());
            }
            book.tasks.insert(
                key,
                Open {
                    row,
                    breaker: Breaker::new(limits.breaker_failures),
                },
            );
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
        let Some(open) = self.tasks.get(key) else {
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
        match self.tasks.get(key) {
            Some(open) if open.row.cancelled => TaskAllowance {
                retries: 0,
                wait: Span::ZERO,
            },
            Some(open) => TaskAllowance {
                retries: self.limits.max_retries.saturating_sub(open.row.retries),
                wait: self.limits.max_wait.saturating_sub(open.row.waited),
            },
            None => TaskAllowance {
                retries: self.limits.max_retries,
                wait: self.limits.max_wait,
            },
        }
    }

    /// Whether a granted send may still leave.
    pub fn may_send(&self, key: &TaskKey) -> bool {
        self.tasks.get(key).is_none_or(|open| !open.row.cancelled)
    }

    /// The deadline of a task, if it is known.
    pub fn deadline(&self, key: &TaskKey) -> Option<Moment> {
        self.tasks.get(key).map(|open| open.row.deadline)
    }

    /// Books repeats and waiting.
    pub fn charge(&mut self, now: Moment, key: &TaskKey, retries: u32, waited: Span) {
        let Some(open) = self.tasks.get_mut(key) else {
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
        self.tasks.get_mut(key)?.breaker.failed(now, path, failure)
    }

    /// A success on a path of a task.
    pub fn succeeded(&mut self, key: &TaskKey, path: &Path) {
        if let Some(open) = self.tasks.get_mut(key) {
            open.breaker.succeeded(path);
        }
    }

    /// A task ends: nothing of it ever sends again. Unknown tasks are opened and
    /// ended, so that a late call finds them ended.
    ///
    /// # Errors
    /// [`TaskRefusal::TooMany`] if the book is full of open tasks.
    pub fn cancel(
        &mut self,
        now: Moment,
        key: &TaskKey,
        by: CancelledBy,
    ) -> Result<(), TaskRefusal> {
        self.open(now, key, None)?;
        let Some(open) = self.tasks.get_mut(key) else {
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
        self.ended.push_back(key.clone());
        let seq = self.record(now, Durability::Power, event);
        self.held.insert(
            seq,
            TaskOutput::Cancelled {
                key: key.clone(),
                by,
            },
        );
        Ok(())
    }

    /// An operator or another policy gives every path a new chance.
    pub fn reset_breakers(&mut self) {
        for open in self.tasks.values_mut() {
            open.breaker.reset_all(self.limits.breaker_failures);
        }
    }

    /// Other limits are in force from now on.
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
        self.tasks.values().map(|open| &open.row)
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
            self.ready.clear();
            self.ready.push_back(TaskOutput::Faulted);
        }
    }

    fn open(
        &mut self,
        now: Moment,
        key: &TaskKey,
        goal: Option<String>,
    ) -> Result<(), TaskRefusal> {
        if self.tasks.contains_key(key) {
            return Ok(());
        }
        if TASKS_MAX <= self.tasks.len() && !self.forget_one(now) {
            return Err(TaskRefusal::TooMany);
        }
        let deadline = if key.1.as_str() == DEFAULT_TASK {
            Moment::NEVER
        } else {
            now + self.limits.deadline
        };
        let event = Event::TaskOpened {
            task: key.1.clone(),
            agent: key.0.clone(),
            goal: goal.map(|goal| crate::event::bounded_text(&goal)),
            deadline,
        };
        if let Some(row) = TaskRow::open(&event, now) {
            let breaker = Breaker::new(self.limits.breaker_failures);
            self.tasks.insert(key.clone(), Open { row, breaker });
        }
        self.record(now, Durability::Process, event);
        Ok(())
    }

    /// Forgets the task that ended longest ago, else one whose deadline has passed.
    fn forget_one(&mut self, now: Moment) -> bool {
        let ended = self.ended.pop_front().or_else(|| {
            self.tasks
                .iter()
                .find(|(_, open)| open.row.deadline < now)
                .map(|(key, _)| key.clone())
        });
        ended.is_some_and(|key| self.tasks.remove(&key).is_some())
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
