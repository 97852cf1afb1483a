//! Removing what nobody needs any more from the tables beside the log.
//!
//! The log itself is not touched. What goes, after [`KEPT`]: finished actions
//! with their sends and results, decided questions, tasks whose deadline is
//! long past. A duplicate of a swept action is a new action, which is why the
//! time is longer than any provider remembers a key.
//!
//! One sweep removes at most 500 actions, so it never holds the writer
//! for long.

use rategov_core::time::{Span, WallTime};
use rusqlite::{Connection, TransactionBehavior};

use crate::db::Col;
use crate::error::Error;

/// How long finished things are kept.
pub const KEPT: Span = Span::from_secs(30 * 24 * 3_600);

/// Most actions of one sweep.
const ROWS_MAX: u32 = 500;

/// Removes what ended before `now - KEPT`. Says whether there is more.
pub(crate) fn sweep(db: &mut Connection, now: WallTime) -> Result<bool, Error> {
    let kept = i64::try_from(KEPT.as_micros()).unwrap_or(i64::MAX);
    let before = Col(WallTime::from_micros(now.as_micros().saturating_sub(kept)));
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let old = "SELECT id FROM action WHERE open = 0 AND wall < ?1 ORDER BY wall LIMIT ?2";
    for table in ["attempt", "payload", "result"] {
        tx.execute(
            &format!("DELETE FROM {table} WHERE action IN ({old})"),
            (before, ROWS_MAX),
        )?;
    }
    let actions = tx.execute(
        &format!("DELETE FROM action WHERE id IN ({old})"),
        (before, ROWS_MAX),
    )?;
    tx.execute(
        "DELETE FROM escalation WHERE chosen IS NOT NULL AND wall < ?1",
        [before],
    )?;
    tx.execute(
        "DELETE FROM task WHERE wall + (deadline - at) < ?1 AND wall < ?1",
        [before],
    )?;
    tx.commit()?;
    Ok(actions == ROWS_MAX as usize)
}
