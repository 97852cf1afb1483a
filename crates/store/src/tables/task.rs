//! Tasks: their budgets, and that a cancelled one stays cancelled.

use rategov_core::id::{Agent, Task};
use rategov_core::record::TaskRow;
use rusqlite::{Connection, named_params};

use crate::clock::{Rebase, Stamp, Stamped};
use crate::db::{Col, Columns, row};
use crate::error::Error;

pub(crate) fn load(db: &Connection, agent: &Agent, task: &Task) -> Result<Option<TaskRow>, Error> {
    row(
        db,
        "SELECT * FROM task WHERE agent = ?1 AND task = ?2",
        (agent.as_str(), task.as_str()),
        |columns| Ok(read(columns)?.row),
    )
}

pub(crate) fn read(columns: Columns<'_, '_>) -> Result<Stamped<TaskRow>, Error> {
    let row = TaskRow {
        task: columns.name("task", Task::new)?,
        agent: columns.name("agent", Agent::new)?,
        goal: columns.get("goal")?,
        opened_at: columns.col("opened_at")?,
        deadline: columns.col("deadline")?,
        retries: columns.get("retries")?,
        waited: columns.col("waited")?,
        stops: columns.later("stops")?,
        cancelled: columns.get("cancelled")?,
    };
    Ok(Stamped {
        row,
        stamp: columns.stamp()?,
    })
}

/// Puts the row there, or over what is there.
pub(crate) fn save(db: &Connection, task: &TaskRow, stamp: Stamp) -> Result<(), Error> {
    db.prepare_cached(
        "INSERT OR REPLACE INTO task VALUES (:agent, :task, :goal, :opened_at, :deadline, :retries,
            :waited, :cancelled, :boot, :at, :wall, :stops)",
    )?
    .execute(named_params! {
        ":agent": task.agent.as_str(),
        ":task": task.task.as_str(),
        ":goal": task.goal,
        ":opened_at": Col(task.opened_at),
        ":deadline": Col(task.deadline),
        ":retries": task.retries,
        ":waited": Col(task.waited),
        ":cancelled": task.cancelled,
        ":stops": task.stops,
        ":boot": Col(stamp.boot),
        ":at": Col(stamp.at),
        ":wall": Col(stamp.wall),
    })?;
    Ok(())
}

/// Places a task on this boot's clock and writes it back.
pub(crate) fn rebase(
    db: &Connection,
    stored: Stamped<TaskRow>,
    rebase: &Rebase,
) -> Result<TaskRow, Error> {
    let Stamped { mut row, stamp } = stored;
    if rebase.is_exact(stamp) {
        return Ok(row);
    }
    row.opened_at = rebase.moment(stamp, row.opened_at);
    row.deadline = rebase.moment(stamp, row.deadline);
    save(db, &row, rebase.stamp())?;
    Ok(row)
}
