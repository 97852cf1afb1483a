//! Removing what nobody needs any more from the tables beside the log.
//!
//! The log itself is not touched. What goes, after [`KEPT`]: finished actions
//! with their sends and results, decided questions, tasks whose deadline is
//! long past. A duplicate of a swept action is a new action, which is why the
//! time is longer than any provider remembers a key.
//!
//! An action that ended so long ago was asked for even earlier, so the sweep looks
//! through the oldest ids, of which none is left but the few that took longer than
//! that to end. An id of a clock that ran ahead waits until its time has come.
//!
//! One sweep removes at most 500 actions, so it never holds the writer
//! for long.

use rategov_core::id::ActionId;
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
    let before = WallTime::from_micros(now.as_micros().saturating_sub(kept));
    let (first_kept, before) = (Col(first_id_of(before)), Col(before));
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let old = "SELECT id FROM action WHERE id < ?3 AND open = 0 AND wall < ?1
        ORDER BY id LIMIT ?2";
    for table in ["attempt", "payload", "result"] {
        tx.execute(
            &format!("DELETE FROM {table} WHERE action IN ({old})"),
            (before, ROWS_MAX, first_kept),
        )?;
    }
    let actions = tx.execute(
        &format!("DELETE FROM action WHERE id IN ({old})"),
        (before, ROWS_MAX, first_kept),
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

/// The least id of an action that is asked for at this time: ids are UUIDs of version
/// 7 (RFC 9562), whose first 48 bits are the milliseconds since 1970.
fn first_id_of(wall: WallTime) -> ActionId {
    let ms = u128::try_from(wall.as_micros()).unwrap_or(0) / 1_000;
    ActionId(ms << 80)
}
