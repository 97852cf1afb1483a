//! A transaction of the writer, in words that SQLite has read before.
//!
//! Given as text, `BEGIN` and `COMMIT` are parsed and compiled for each transaction,
//! which is noticeable where one holds a single call. Here they are kept like every
//! other statement. Dropped without a commit, or after one that failed, it is rolled
//! back.

use std::ops::Deref;

use rusqlite::Connection;

/// An open transaction.
pub(crate) struct Transaction<'db>(&'db Connection);

impl<'db> Transaction<'db> {
    /// Begins one that writes. It borrows the connection for itself alone, since
    /// transactions don't nest.
    pub(crate) fn begin(db: &'db mut Connection) -> rusqlite::Result<Transaction<'db>> {
        db.prepare_cached("BEGIN IMMEDIATE")?.execute(())?;
        Ok(Transaction(db))
    }

    /// Commits it.
    ///
    /// # Errors
    /// If it could not be committed; nothing of it is there then.
    pub(crate) fn commit(self) -> rusqlite::Result<()> {
        self.0.prepare_cached("COMMIT")?.execute(()).map(drop)
    }
}

impl Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // What SQLite rolled back by itself, as on a full disk, is over already.
        if !self.0.is_autocommit() {
            // If this fails the connection stays inside, and the next begin says so.
            let _ = self.0.execute_batch("ROLLBACK");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(db: &Connection) -> i64 {
        db.query_row("SELECT count(*) FROM t", (), |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn what_is_committed_is_there_and_what_is_dropped_is_not() {
        let mut db = Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY)")
            .unwrap();
        for n in 1..=2 {
            let tx = Transaction::begin(&mut db).unwrap();
            tx.execute("INSERT INTO t VALUES (?1)", [n]).unwrap();
            tx.commit().unwrap();
        }
        let tx = Transaction::begin(&mut db).unwrap();
        tx.execute("INSERT INTO t VALUES (3)", ()).unwrap();
        drop(tx);
        assert_eq!(rows(&db), 2);
        assert!(db.is_autocommit());
    }

    #[test]
    fn a_commit_that_fails_leaves_nothing_and_the_next_one_begins() {
        let mut db = Connection::open_in_memory().unwrap();
        db.execute_batch(
            "PRAGMA foreign_keys = ON;
             CREATE TABLE t (n INTEGER PRIMARY KEY);
             CREATE TABLE u (n INTEGER REFERENCES t DEFERRABLE INITIALLY DEFERRED)",
        )
        .unwrap();
        let tx = Transaction::begin(&mut db).unwrap();
        tx.execute("INSERT INTO t VALUES (1)", ()).unwrap();
        tx.execute("INSERT INTO u VALUES (7)", ()).unwrap();
        assert!(tx.commit().is_err());
        assert_eq!(rows(&db), 0);
        let tx = Transaction::begin(&mut db).unwrap();
        tx.execute("INSERT INTO t VALUES (1)", ()).unwrap();
        tx.commit().unwrap();
        assert_eq!(rows(&db), 1);
    }
}
