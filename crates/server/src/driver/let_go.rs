//! Letting accounts go that rest, so that there is room for others.
//!
//! Everybody can make up credentials, and each that no configuration names is an
//! account of its own: an engine and a task. So their number is bounded, and the
//! bound is met by those that nobody uses:
//!
//! ```text
//! accounts_max in hand, a new credential comes
//!   → up to LOOKED_AT others are looked at, after those of the last time
//!   → those that rest are let go: their rows stay in the tables
//!   → none does: the new one is refused
//! an account that was let go is called → its engine is made from the tables
//! ```

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use rategov_core::id::Account;
use rategov_core::record::Tables;
use rategov_store::{Error, Source};

use super::{Cell, Driver, lock};

/// Accounts that are looked at before one is refused: an attacker's calls must stay
/// cheap, and where most rest a few are enough.
const LOOKED_AT: usize = 256;
/// Who keeps a cell that nobody uses: the map of all, and the task that wakes it.
const KEEPERS: usize = 2;

/// What is remembered of letting go.
#[derive(Debug, Default)]
pub(super) struct LetGo {
    /// The last account that was looked at.
    last: Mutex<Option<Account>>,
    /// Whether any account was ever let go.
    some: AtomicBool,
}

impl Driver {
    /// Whether an account that only a caller's credential names is in hand, or has
    /// room. Calls that arrive at once may exceed the bound by their number.
    ///
    /// # Errors
    /// The number of accounts in hand.
    pub fn has_place_for(&self, account: &Account) -> Result<(), usize> {
        let in_hand = {
            let cells = self.0.cells.read().unwrap_or_else(PoisonError::into_inner);
            if cells.contains_key(account) || cells.len() < self.0.accounts_max {
                return Ok(());
            }
            cells.len()
        };
        match self.let_some_go() {
            0 => Err(in_hand),
            _ => Ok(()),
        }
    }

    /// Lets accounts go that rest. Says how many.
    fn let_some_go(&self) -> usize {
        let now = self.0.clock.now();
        let mut last = lock(&self.0.let_go.last);
        // Who uses a cell has it from the map, and nobody gets it while this holds it.
        let mut cells = self.0.cells.write().unwrap_or_else(PoisonError::into_inner);
        let after = last.take().map_or(Bound::Unbounded, Bound::Excluded);
        let looked_at = cells
            .range((after, Bound::Unbounded))
            .chain(cells.iter())
            .take(LOOKED_AT.min(cells.len()));
        let mut rests = Vec::new();
        for (account, cell) in looked_at {
            *last = Some(account.clone());
            if Arc::strong_count(cell) <= KEEPERS && cell.rests(now) {
                rests.push(account.clone());
            }
        }
        if !rests.is_empty() {
            self.0.let_go.some.store(true, Ordering::Release);
        }
        for account in &rests {
            if let Some(cell) = cells.remove(account) {
                cell.close();
            }
        }
        rests.len()
    }

    /// What the tables have of an account that is not in hand; `None` before any was
    /// let go: what they had was taken up at the start.
    pub(super) async fn tables_of(&self, account: &Account) -> Result<Option<Tables>, Error> {
        if !self.0.let_go.some.load(Ordering::Acquire) {
            return Ok(None);
        }
        let (store, source) = (self.0.store.clone(), Source::Account(account.clone()));
        let now = self.0.clock.paired();
        let read = tokio::task::spawn_blocking(move || store.recover(&source, &now));
        match read.await {
            Ok(tables) => tables.map(Some),
            // The process stops.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Cell {
    /// Whether the account may be let go.
    fn rests(&self, now: rategov_core::time::Moment) -> bool {
        let engine = match self.engine.try_lock() {
            Ok(engine) => engine,
            Err(TryLockError::Poisoned(engine)) => engine.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        engine.may_be_let_go(now)
    }
}
