//! The rows that the writer has in hand: open actions and their sends.
//!
//! The writer is the only one who changes rows, so a row it wrote is a row it
//! knows. Rows are changed here and go to the database once, right before the
//! batch commits, however many of its entries changed them:
//!
//! ```text
//! batch     action_requested, action_sent, action_result, terminal of one action
//! in hand   one action row and one attempt row, changed four and two times
//! flush     one insert each
//! ```
//!
//! If the batch fails, everything in hand is let go: the database is right.
//! What is over is let go after each batch, and all of it beyond
//! [`IN_HAND_MAX`] rows, which bounds the memory to a few megabytes.

use std::collections::BTreeMap;

use rategov_core::id::{Account, ActionId, AttemptNo};
use rategov_core::record::{ActionRow, AttemptRow, SendKind};
use rusqlite::Connection;

use crate::clock::Stamp;
use crate::error::Error;
use crate::tables::{action, attempt};

/// Rows kept from one batch to the next.
const IN_HAND_MAX: usize = 8_192;

type SendKey = (ActionId, SendKind, AttemptNo);

/// Rows in hand.
#[derive(Debug, Default)]
pub(crate) struct Hand {
    actions: BTreeMap<ActionId, Held<ActionRow>>,
    sends: BTreeMap<SendKey, Held<AttemptRow>>,
    /// The newest action there is; `None` if that must be read.
    newest: Option<ActionId>,
    /// What this batch changed, each once.
    changed_actions: Vec<ActionId>,
    changed_sends: Vec<(SendKey, Account)>,
}

#[derive(Debug)]
struct Held<T> {
    row: T,
    change: Change,
    /// Whether a payload may be stored beside it.
    payload: bool,
}

impl<T> Held<T> {
    /// A row as the database has it.
    fn stored(row: T) -> Held<T> {
        Held {
            row,
            change: Change::None,
            payload: true,
        }
    }
}

/// What the database does not know yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    None,
    Made(Stamp),
    Changed(Stamp),
}

impl Change {
    /// What the database does not know once the row is put there again; `None` is a
    /// row that nothing was known of.
    fn then(before: Option<Change>, stamp: Stamp) -> Change {
        match before {
            None | Some(Change::Made(_)) => Change::Made(stamp),
            Some(Change::None | Change::Changed(_)) => Change::Changed(stamp),
        }
    }
}

impl Hand {
    /// Whether there is an action of this id. Ids come roughly in their order, so most
    /// are newer than all there are, and need not be looked for.
    pub(crate) fn knows(&mut self, db: &Connection, id: ActionId) -> Result<bool, Error> {
        let newest = match self.newest {
            Some(newest) => newest,
            None => action::newest(db)?.unwrap_or(ActionId(0)),
        };
        self.newest = Some(newest);
        Ok(id <= newest && self.action(db, id)?.is_some())
    }

    /// An action as it is after everything that was written so far.
    pub(crate) fn action(
        &mut self,
        db: &Connection,
        id: ActionId,
    ) -> Result<Option<&ActionRow>, Error> {
        if !self.actions.contains_key(&id)
            && let Some(row) = action::load(db, id)?
        {
            self.actions.insert(id, Held::stored(row));
        }
        Ok(self.actions.get(&id).map(|held| &held.row))
    }

    /// A send as it is after everything that was written so far.
    pub(crate) fn send(
        &mut self,
        db: &Connection,
        key: SendKey,
    ) -> Result<Option<&AttemptRow>, Error> {
        if !self.sends.contains_key(&key)
            && let Some(row) = attempt::load(db, key.0, key.1, key.2)?
        {
            self.sends.insert(key, Held::stored(row));
        }
        Ok(self.sends.get(&key).map(|held| &held.row))
    }

    /// Whether a payload may be stored for an action in hand.
    pub(crate) fn may_have_payload(&self, id: ActionId) -> bool {
        self.actions.get(&id).is_none_or(|held| held.payload)
    }

    /// Takes a new action, which has a payload or has none.
    pub(crate) fn make_action(&mut self, row: ActionRow, stamp: Stamp, payload: bool) {
        let id = row.requested.action;
        self.newest = self.newest.max(Some(id));
        self.put_action(row, stamp);
        if let Some(held) = self.actions.get_mut(&id) {
            held.payload = payload;
        }
    }

    /// Takes an action as it is now; a new one if none was found under its id.
    pub(crate) fn put_action(&mut self, row: ActionRow, stamp: Stamp) {
        let id = row.requested.action;
        let before = self.actions.get(&id);
        let payload = before.is_none_or(|held| held.payload);
        let before = before.map(|held| held.change);
        if matches!(before, None | Some(Change::None)) {
            self.changed_actions.push(id);
        }
        let change = Change::then(before, stamp);
        self.actions.insert(
            id,
            Held {
                row,
                change,
                payload,
            },
        );
    }

    /// Takes a send of an account as it is now; a new one if none was found under its
    /// key.
    pub(crate) fn put_send(&mut self, account: Account, row: AttemptRow, stamp: Stamp) {
        let key = (row.action, row.kind, row.attempt);
        let before = self.sends.get(&key).map(|held| held.change);
        if matches!(before, None | Some(Change::None)) {
            self.changed_sends.push((key, account));
        }
        let change = Change::then(before, stamp);
        let held = Held {
            change,
            ..Held::stored(row)
        };
        self.sends.insert(key, held);
    }

    /// Brings the database up to date, inside the transaction.
    pub(crate) fn flush(&mut self, db: &Connection) -> Result<(), Error> {
        if !self.changed_actions.is_empty() {
            let mut actions = action::Writing::to(db)?;
            for id in &self.changed_actions {
                let Some(held) = self.actions.get_mut(id) else {
                    continue;
                };
                match held.change {
                    Change::None => {}
                    Change::Made(stamp) => actions.insert(&held.row, stamp)?,
                    Change::Changed(stamp) => actions.update(&held.row, stamp)?,
                }
                held.change = Change::None;
            }
        }
        if !self.changed_sends.is_empty() {
            let mut sends = attempt::Writing::to(db)?;
            for (key, account) in &self.changed_sends {
                let Some(held) = self.sends.get_mut(key) else {
                    continue;
                };
                match held.change {
                    Change::None => {}
                    Change::Made(stamp) => sends.insert(account, &held.row, stamp)?,
                    Change::Changed(stamp) => sends.update(&held.row, stamp)?,
                }
                held.change = Change::None;
            }
        }
        Ok(())
    }

    /// After a commit: lets go of what is over.
    pub(crate) fn tidy(&mut self) {
        for id in self.changed_actions.drain(..) {
            if self
                .actions
                .get(&id)
                .is_some_and(|held| held.row.state.is_final())
            {
                self.actions.remove(&id);
            }
        }
        for (key, _) in self.changed_sends.drain(..) {
            if self
                .sends
                .get(&key)
                .is_some_and(|held| held.row.certainty.is_some())
            {
                self.sends.remove(&key);
            }
        }
        if self.actions.len() + self.sends.len() > IN_HAND_MAX {
            self.let_go();
        }
    }

    /// Lets go of everything; the database is right.
    pub(crate) fn let_go(&mut self) {
        *self = Hand::default();
    }
}
