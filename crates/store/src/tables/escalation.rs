//! Questions to people.

use rategov_core::id::{Account, EscalationId, Scope};
use rategov_core::record::EscalationRow;
use rategov_core::word::Choice;
use rusqlite::{Connection, named_params};

use crate::clock::{Rebase, Stamp, Stamped};
use crate::codec::{Word, parse_word};
use crate::db::{Col, Columns, row};
use crate::error::Error;

/// A question with the account whose engine asked it, if one did.
pub(crate) type Asked = (Option<Account>, Stamped<EscalationRow>);

pub(crate) fn load(db: &Connection, id: EscalationId) -> Result<Option<Asked>, Error> {
    row(
        db,
        "SELECT * FROM escalation WHERE id = ?1",
        [Col(id)],
        read,
    )
}

pub(crate) fn read(columns: Columns<'_, '_>) -> Result<Asked, Error> {
    let account: Option<String> = columns.get("account")?;
    let account = account
        .map(|name| Account::new(&name).map_err(|_| Error::Corrupt("account".to_owned())))
        .transpose()?;
    let choices: String = columns.get("choices")?;
    let row = EscalationRow {
        escalation: columns.col("id")?,
        action: columns.maybe("action")?,
        scope: columns.name("scope", Scope::new)?,
        trigger: columns.word("trigger")?,
        choices: split_choices(&choices)?,
        why: columns.get("why")?,
        version: columns.get("version")?,
        opened_at: columns.col("opened_at")?,
        expires: columns.col("expires")?,
        chosen: columns.maybe_word("chosen")?,
        decided_by: columns.get("decided_by")?,
        decided_at: columns.maybe("decided_at")?,
        note: columns.get("note")?,
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
    account: Option<&Account>,
    escalation: &EscalationRow,
    stamp: Stamp,
) -> Result<(), Error> {
    let choices: Vec<&str> = escalation
        .choices
        .iter()
        .map(|choice| choice.text())
        .collect();
    db.prepare_cached(
        "INSERT OR REPLACE INTO escalation VALUES (:id, :account, :action, :scope, :trigger,
            :choices, :why, :version, :opened_at, :expires, :chosen, :decided_by, :decided_at,
            :note, :boot, :at, :wall)",
    )?
    .execute(named_params! {
        ":id": Col(escalation.escalation),
        ":account": account.map(Account::as_str),
        ":action": escalation.action.map(Col),
        ":scope": escalation.scope.as_str(),
        ":trigger": escalation.trigger.text(),
        ":choices": choices.join(" "),
        ":why": escalation.why,
        ":version": escalation.version,
        ":opened_at": Col(escalation.opened_at),
        ":expires": Col(escalation.expires),
        ":chosen": escalation.chosen.map(Word::text),
        ":decided_by": escalation.decided_by,
        ":decided_at": escalation.decided_at.map(Col),
        ":note": escalation.note,
        ":boot": Col(stamp.boot),
        ":at": Col(stamp.at),
        ":wall": Col(stamp.wall),
    })?;
    Ok(())
}

/// Places an open question on this boot's clock and writes it back.
pub(crate) fn rebase(
    db: &Connection,
    account: Option<&Account>,
    stored: Stamped<EscalationRow>,
    rebase: &Rebase,
) -> Result<EscalationRow, Error> {
    let Stamped { mut row, stamp } = stored;
    if rebase.is_exact(stamp) {
        return Ok(row);
    }
    row.opened_at = rebase.moment(stamp, row.opened_at);
    row.expires = rebase.moment(stamp, row.expires);
    row.decided_at = row.decided_at.map(|at| rebase.moment(stamp, at));
    save(db, account, &row, rebase.stamp())?;
    Ok(row)
}

fn split_choices(text: &str) -> Result<Vec<Choice>, Error> {
    text.split_ascii_whitespace()
        .map(|word| parse_word(word).ok_or_else(|| Error::Corrupt("choices".to_owned())))
        .collect()
}
