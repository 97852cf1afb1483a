//! Bringing the database to the newest form.
//!
//! Forms are numbered by the files in `migrations/`; SQLite's `user_version`
//! says which one a database has. Each step commits alone with its number, so
//! a crash in between leaves one form or the other. A database of a later
//! program is refused rather than guessed at.

use rusqlite::{Connection, TransactionBehavior};

use crate::error::Error;

const STEPS: [&str; 7] = [
    include_str!("migrations/0001_journal.sql"),
    include_str!("migrations/0002_stops.sql"),
    include_str!("migrations/0003_exhausted.sql"),
    include_str!("migrations/0004_uncounted.sql"),
    include_str!("migrations/0005_blocks.sql"),
    include_str!("migrations/0006_units.sql"),
    include_str!("migrations/0007_spare.sql"),
];

/// The newest form that this program knows.
pub(crate) const NEWEST: i64 = STEPS.len() as i64;

pub(crate) fn form(db: &Connection) -> Result<i64, Error> {
    Ok(db.query_row("PRAGMA user_version", (), |row| row.get(0))?)
}

pub(crate) fn migrate(db: &mut Connection) -> Result<(), Error> {
    let found = form(db)?;
    let done = usize::try_from(found)
        .ok()
        .filter(|done| *done <= STEPS.len())
        .ok_or(Error::TooNew {
            found,
            known: NEWEST,
        })?;
    for (n, step) in STEPS.iter().enumerate().skip(done) {
        let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        tx.execute_batch(step)?;
        tx.pragma_update(None, "user_version", n as i64 + 1)?;
        tx.commit()?;
    }
    if done < STEPS.len() {
        // On the disk before the first key is: a database without a form beside a key
        // is one that was lost, not one whose making a loss of power cut short. A step
        // may have made the log long: what it took is given back.
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))?;
    }
    Ok(())
}
