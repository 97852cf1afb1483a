//! Opening the database, and values on their way in and out of it.
//!
//! Connections of the writer and of readers differ in one thing: readers can't
//! write. `secure_delete` overwrites what is erased, so that a payload is gone
//! from the file's free pages too.

use std::path::Path;
use std::time::Duration;

use rategov_core::id::{ActionId, EscalationId};
use rategov_core::time::{Moment, Span, WallTime};
use rusqlite::config::DbConfig;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags};

use crate::clock::{BootNo, Stamp};
use crate::codec::parse_word;
use crate::error::Error;

/// Largest size that the write-ahead log keeps between checkpoints.
const WAL_BYTES_KEPT: i64 = 64 << 20;

/// Pages that the writer keeps, in KiB: the edges of all trees that grow, and the rows
/// of open actions. With SQLite's 2 MiB it reads a page back for every call.
const CACHE_KIB: i64 = 8 << 10;

/// How long a connection waits for another one. Only a checkpoint of a foreign
/// tool can hold the database; the writer is alone otherwise.
const BUSY: Duration = Duration::from_secs(5);

/// Prepared statements a connection keeps; there are about thirty.
const STATEMENTS_KEPT: usize = 64;

fn open(path: &Path, flags: OpenFlags) -> Result<Connection, Error> {
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(BUSY)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    // Otherwise every new value of a parameter that a plan could depend on makes SQLite
    // plan the statement anew, which costs more than most of them.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(db)
}

pub(crate) fn open_writer(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = open(path, flags)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.pragma_update(None, "secure_delete", "ON")?;
    db.pragma_update(None, "foreign_keys", "OFF")?;
    db.pragma_update(None, "trusted_schema", "OFF")?;
    db.pragma_update(None, "journal_size_limit", WAL_BYTES_KEPT)?;
    // Negative means KiB, not pages.
    db.pragma_update(None, "cache_size", -CACHE_KIB)?;
    // The writer folds the log in itself, when nobody waits for it.
    db.pragma_update(None, "wal_autocheckpoint", 0)?;
    Ok(db)
}

/// Bounds the size that the database may grow to through this connection.
pub(crate) fn limit(db: &Connection, bytes_max: u64) -> Result<(), Error> {
    let page: u64 = db.query_row("PRAGMA page_size", (), |row| {
        Ok(row.get::<_, Col<u64>>(0)?.0)
    })?;
    let pages = Col(bytes_max / page.max(1));
    db.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    Ok(())
}

pub(crate) fn open_reader(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = open(path, flags)?;
    db.pragma_update(None, "query_only", "ON")?;
    db.pragma_update(None, "trusted_schema", "OFF")?;
    Ok(db)
}

/// A value of the core as a column of the database.
///
/// Moments and spans beyond what SQLite can hold are "never" and "no bound",
/// which the largest integer stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Col<T>(pub(crate) T);

macro_rules! unsigned_micros {
    ($($ty:ident)*) => {$(
        impl ToSql for Col<$ty> {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                let micros = i64::try_from(self.0.as_micros()).unwrap_or(i64::MAX);
                Ok(ToSqlOutput::from(micros))
            }
        }
        impl FromSql for Col<$ty> {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                let micros = match i64::column_result(value)? {
                    i64::MAX => u64::MAX,
                    micros => u64::try_from(micros).map_err(|_| FromSqlError::OutOfRange(micros))?,
                };
                Ok(Col($ty::from_micros(micros)))
            }
        }
    )*};
}

unsigned_micros! { Moment Span }

impl ToSql for Col<WallTime> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0.as_micros()))
    }
}

impl FromSql for Col<WallTime> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        i64::column_result(value)
            .map(WallTime::from_micros)
            .map(Col)
    }
}

impl ToSql for Col<BootNo> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0.0))
    }
}

impl FromSql for Col<BootNo> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        i64::column_result(value).map(BootNo).map(Col)
    }
}

/// A whole number that may go beyond what SQLite can hold; such a one is stored
/// as the largest it can.
impl ToSql for Col<u64> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(i64::try_from(self.0).unwrap_or(i64::MAX)))
    }
}

impl FromSql for Col<u64> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let number = i64::column_result(value)?;
        let number = u64::try_from(number).map_err(|_| FromSqlError::OutOfRange(number))?;
        Ok(Col(number))
    }
}

macro_rules! ids {
    ($($ty:ident)*) => {$(
        impl ToSql for Col<$ty> {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(ToSqlOutput::from(self.0.0.to_be_bytes().to_vec()))
            }
        }
        impl FromSql for Col<$ty> {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                let bytes: [u8; 16] = value
                    .as_blob()?
                    .try_into()
                    .map_err(|_| FromSqlError::InvalidType)?;
                Ok(Col($ty(u128::from_be_bytes(bytes))))
            }
        }
    )*};
}

ids! { ActionId EscalationId }

/// Reads the columns of one row by name.
pub(crate) struct Columns<'a, 'stmt>(pub(crate) &'a rusqlite::Row<'stmt>);

impl Columns<'_, '_> {
    pub(crate) fn get<T: FromSql>(&self, name: &str) -> Result<T, Error> {
        Ok(self.0.get(name)?)
    }

    /// A value of a column that came with a later form; a reader may meet a
    /// database that nobody has brought up to it yet.
    pub(crate) fn later<T: FromSql + Default>(&self, name: &str) -> Result<T, Error> {
        match self.0.get(name) {
            Err(rusqlite::Error::InvalidColumnName(_)) => Ok(T::default()),
            value => Ok(value?),
        }
    }

    /// A value that is stored as [`Col`].
    pub(crate) fn col<T>(&self, name: &str) -> Result<T, Error>
    where
        Col<T>: FromSql,
    {
        Ok(self.0.get::<_, Col<T>>(name)?.0)
    }

    /// The same, where it may be absent.
    pub(crate) fn maybe<T>(&self, name: &str) -> Result<Option<T>, Error>
    where
        Col<T>: FromSql,
    {
        Ok(self.0.get::<_, Option<Col<T>>>(name)?.map(|col| col.0))
    }

    /// A word of a closed vocabulary.
    pub(crate) fn word<T: crate::codec::Word>(&self, name: &'static str) -> Result<T, Error> {
        let text: String = self.get(name)?;
        parse_word(&text).ok_or_else(|| Error::Corrupt(name.to_owned()))
    }

    /// The same, where it may be absent.
    pub(crate) fn maybe_word<T: crate::codec::Word>(
        &self,
        name: &'static str,
    ) -> Result<Option<T>, Error> {
        let text: Option<String> = self.get(name)?;
        text.map(|text| parse_word(&text).ok_or_else(|| Error::Corrupt(name.to_owned())))
            .transpose()
    }

    /// A name that must obey the core's rules.
    pub(crate) fn name<T, E>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, Error> {
        let text: String = self.get(name)?;
        parse(&text).map_err(|_| Error::Corrupt(name.to_owned()))
    }

    /// The same, where it may be absent.
    pub(crate) fn maybe_name<T, E>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Error> {
        let text: Option<String> = self.get(name)?;
        text.map(|text| parse(&text).map_err(|_| Error::Corrupt(name.to_owned())))
            .transpose()
    }

    /// The row's stamp.
    pub(crate) fn stamp(&self) -> Result<Stamp, Error> {
        Ok(Stamp {
            boot: self.col("boot")?,
            at: self.col("at")?,
            wall: self.col("wall")?,
        })
    }
}

/// All rows of a statement, each through `read`.
pub(crate) fn rows<T>(
    db: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    mut read: impl FnMut(Columns<'_, '_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        out.push(read(Columns(row))?);
    }
    Ok(out)
}

/// The first row of a statement, if there is one.
pub(crate) fn row<T>(
    db: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
    read: impl FnOnce(Columns<'_, '_>) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(|row| read(Columns(row))).transpose()
}
