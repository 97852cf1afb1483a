//! What is known of each scope.

use rategov_core::id::{Account, Scope};
use rategov_core::record::ScopeRow;
use rusqlite::{Connection, named_params};

use crate::clock::{Rebase, Stamp, Stamped};
use crate::codec::{Word, decode_told, encode_told};
use crate::db::{Col, Columns};
use crate::error::Error;

pub(crate) fn read(columns: Columns<'_, '_>) -> Result<(Account, Stamped<ScopeRow>), Error> {
    let account = columns.name("account", Account::new)?;
    let row = ScopeRow {
        scope: columns.name("scope", Scope::new)?,
        mode: columns.word("mode")?,
        next_allowed_at: columns.maybe("next_allowed_at")?,
        remaining: columns.maybe("remaining")?,
        limit: columns.maybe("limit")?,
        window: columns.maybe("window")?,
        reset_at: columns.maybe("reset_at")?,
        spacing: columns.maybe("spacing")?,
        max_concurrent: columns.get("max_concurrent")?,
        epoch: columns.col("epoch")?,
        hold_level: columns.get("hold_level")?,
        misdeclared: columns.get("misdeclared")?,
        exhausted: columns.later("exhausted")?,
        told: match columns.later::<Option<Vec<u8>>>("told")? {
            Some(bytes) => decode_told(&bytes).map_err(|_| Error::Corrupt("told".to_owned()))?,
            None => Vec::new(),
        },
        source: columns.get("source")?,
    };
    Ok((
        account,
        Stamped {
            row,
            stamp: columns.stamp()?,
        },
    ))
}

/// Puts the row there, or over what is there.
pub(crate) fn save(
    db: &Connection,
    account: &Account,
    scope: &ScopeRow,
    stamp: Stamp,
) -> Result<(), Error> {
    let told = match scope.told.is_empty() {
        true => None,
        false => {
            let bytes = encode_told(&scope.told).map_err(|e| Error::Corrupt(e.to_string()))?;
            Some(bytes)
        }
    };
    db.prepare_cached(
        "INSERT OR REPLACE INTO scope VALUES (:account, :scope, :mode, :next_allowed_at, :remaining,
            :limit, :window, :reset_at, :spacing, :max_concurrent, :epoch, :hold_level,
            :misdeclared, :source, :boot, :at, :wall, :exhausted, :told)",
    )?
    .execute(named_params! {
        ":account": account.as_str(),
        ":scope": scope.scope.as_str(),
        ":mode": scope.mode.text(),
        ":next_allowed_at": scope.next_allowed_at.map(Col),
        ":remaining": scope.remaining.map(Col),
        ":limit": scope.limit.map(Col),
        ":window": scope.window.map(Col),
        ":reset_at": scope.reset_at.map(Col),
        ":spacing": scope.spacing.map(Col),
        ":max_concurrent": scope.max_concurrent,
        ":epoch": Col(scope.epoch),
        ":hold_level": scope.hold_level,
        ":misdeclared": scope.misdeclared,
        ":exhausted": scope.exhausted,
        ":told": told,
        ":source": scope.source,
        ":boot": Col(stamp.boot),
        ":at": Col(stamp.at),
        ":wall": Col(stamp.wall),
    })?;
    Ok(())
}

/// Places a scope on this boot's clock and writes it back.
pub(crate) fn rebase(
    db: &Connection,
    account: &Account,
    stored: Stamped<ScopeRow>,
    rebase: &Rebase,
) -> Result<ScopeRow, Error> {
    let Stamped { mut row, stamp } = stored;
    if rebase.is_exact(stamp) {
        return Ok(row);
    }
    row.next_allowed_at = row.next_allowed_at.map(|at| rebase.moment(stamp, at));
    row.reset_at = row.reset_at.map(|at| rebase.moment(stamp, at));
    for told in &mut row.told {
        told.reset_at = told.reset_at.map(|at| rebase.moment(stamp, at));
    }
    save(db, account, &row, rebase.stamp())?;
    Ok(row)
}
