//! The one task book beside all engines: what it admits, and what is booked in it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rategov_core::action::breaker::{Constraint, Path};
use rategov_core::action::failure::Failure;
use rategov_core::engine::TaskAllowance;
use rategov_core::id::Endpoint;
use rategov_core::tasks::{TaskBook, TaskKey, TaskOutput, TaskRefusal};
use rategov_core::time::{Moment, Span};
use rategov_store::{Entry, Source};

use super::{Cell, Driver, Receipt, chance, lock};

/// Something to book on a task.
pub(super) enum Booking {
    /// Repeats and waited time.
    Charge {
        task: TaskKey,
        retries: u32,
        waited: Span,
    },
    /// A person gives a stopped path a new chance.
    OpenPath { task: TaskKey, path: Path },
}

impl Driver {
    /// Whether a call of a task may be admitted.
    ///
    /// # Errors
    /// [`TaskRefusal`].
    pub fn admit_task(
        &self,
        key: &TaskKey,
        goal: Option<String>,
        path: &Path,
    ) -> Result<TaskAllowance, TaskRefusal> {
        let now = self.0.clock.now();
        let mut tasks = lock(&self.0.tasks);
        let allowance = tasks.admit(now, key, goal, path);
        self.pump_tasks(&mut tasks, None);
        allowance
    }

    /// The deadline of a task.
    pub fn task_deadline(&self, key: &TaskKey) -> Option<Moment> {
        lock(&self.0.tasks).deadline(key)
    }

    /// A path of a task failed in a way that no repeat can mend, or succeeded.
    pub fn note_path(
        &self,
        key: &TaskKey,
        path: &Path,
        failure: Option<&Failure>,
    ) -> Option<Constraint> {
        let now = self.0.clock.now();
        let mut tasks = lock(&self.0.tasks);
        let tripped = match failure {
            Some(failure) => tasks.failed(now, key, path, failure),
            None => {
                tasks.succeeded(key, path);
                None
            }
        };
        self.pump_tasks(&mut tasks, None);
        tripped
    }

    /// The breaker stopped the path of a write: a person is asked whether it opens.
    pub fn path_stopped(&self, cell: &Arc<Cell>, task: &TaskKey, endpoint: &Endpoint, why: &str) {
        let now = self.0.clock.now();
        self.with(cell, |engine| {
            engine.handle_path_stopped(now, chance(), task.clone(), endpoint.clone(), why);
        });
    }

    pub(super) fn pump_tasks(&self, tasks: &mut TaskBook, mut receipt: Option<&mut Receipt>) {
        let mut run = self.0.journal.begin();
        while let Some(output) = tasks.poll_output() {
            match output {
                TaskOutput::Record(record) => {
                    let entry = Entry {
                        source: Source::Tasks,
                        generation: self.0.tasks_generation.load(Ordering::Acquire),
                        wall: self.0.clock.wall_of(record.at),
                        record,
                        attachments: Vec::new(),
                    };
                    if self
                        .hand_over(&mut run, entry, receipt.as_deref_mut())
                        .is_err()
                    {
                        tasks.handle_commit_failed();
                    }
                }
                TaskOutput::Cancelled { key, stops, by } => {
                    self.spread_cancellation(key, stops, by);
                }
                TaskOutput::Faulted => self.rebuild_tasks(),
            }
        }
    }

    /// Books what an engine asked for, under the task book's lock.
    pub(super) fn book(&self, tasks: &mut TaskBook, now: Moment, bookings: Vec<Booking>) {
        for booking in bookings {
            match booking {
                Booking::Charge {
                    task,
                    retries,
                    waited,
                } => tasks.charge(now, &task, retries, waited),
                Booking::OpenPath { task, path } => tasks.open_path(&task, &path),
            }
        }
        self.pump_tasks(tasks, None);
    }

    /// Books what came up while the task book was not at hand.
    pub(super) fn book_later(&self, bookings: Vec<Booking>) {
        if !bookings.is_empty() {
            let now = self.0.clock.now();
            self.book(&mut lock(&self.0.tasks), now, bookings);
        }
    }
}
