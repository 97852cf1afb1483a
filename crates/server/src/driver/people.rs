//! What a person, or an agent about its own, tells the engines to do with what
//! is in hand: decide, stop, reopen. Each gives a [`Receipt`]: nobody is told
//! that it is so before the journal has it.

use std::sync::Arc;

use rategov_core::engine::{Decision, DecisionError, Engine};
use rategov_core::event::CancelledBy;
use rategov_core::id::{Account, ActionId, EscalationId, Operator, Scope};
use rategov_core::tasks::{TaskKey, TaskRefusal};

use super::{Cell, Driver, Receipt, chance, lock};
use crate::fail;

/// Why a person's decision is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotDecided {
    /// It does not say which version of the action was shown.
    Unseen,
    /// The engine does not take it.
    Refused(DecisionError),
}

impl From<DecisionError> for NotDecided {
    fn from(refused: DecisionError) -> NotDecided {
        NotDecided::Refused(refused)
    }
}

/// Why a scope is not reopened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotResumed {
    /// There is no such scope.
    Unknown,
    /// These accounts have a scope of this name.
    Ambiguous(Vec<Account>),
    /// The journal can't be written.
    AuditUnavailable,
}

/// What telling an action to stop did. Nothing of it is sent after any of these
/// but the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It had no effect, and will have none.
    Now,
    /// A write is out. It goes on to its end and its result is stored.
    AfterThisAttempt,
    /// An attempt of it may have had its effect; that is still to be found out.
    OutcomeUnknown,
    /// The engine does not have it, or takes no orders: nothing was done.
    NotInHand,
}

impl Driver {
    /// A person answers a question; says whose account it was about. A decision
    /// about an action must name the version of it that the person saw.
    ///
    /// # Errors
    /// [`NotDecided`].
    pub fn decide(
        &self,
        escalation: EscalationId,
        decision: Decision,
    ) -> Result<(Account, Receipt), NotDecided> {
        let now = self.0.clock.now();
        for cell in self.cells() {
            let about_action = lock(&cell.engine)
                .escalations()
                .find(|row| row.escalation == escalation)
                .map(|row| row.action.is_some());
            if let Some(about_action) = about_action {
                if about_action && decision.version.is_none() {
                    return Err(NotDecided::Unseen);
                }
                fail::point(fail::DECISION_BEFORE_ENGINE);
                let mut decided = Err(DecisionError::NotOpen);
                let receipt = self.for_the_record(&cell, |engine| {
                    decided = engine.handle_decision(now, chance(), escalation, decision);
                });
                fail::point(fail::DECIDED_BEFORE_COMMIT);
                decided?;
                return Ok((cell.account.clone(), receipt));
            }
        }
        Err(NotDecided::Refused(DecisionError::NotOpen))
    }

    /// An action is told to stop. Says what that did, and gives the receipt that
    /// must be waited for before anybody is told.
    pub fn cancel(
        &self,
        cell: &Arc<Cell>,
        action: ActionId,
        by: CancelledBy,
    ) -> (Cancelled, Receipt) {
        let now = self.0.clock.now();
        let mut cancelled = Cancelled::NotInHand;
        let receipt = self.for_the_record(cell, |engine| {
            let Some(before) = engine.action(now, action) else {
                return;
            };
            engine.handle_cancel(now, chance(), action, by);
            let is_write = before.row.requested.class.is_write();
            cancelled = match engine.action(now, action) {
                // After a lost commit an engine takes no orders.
                Some(after) if !after.row.cancelled => Cancelled::NotInHand,
                Some(after) if after.on_the_wire && is_write => Cancelled::AfterThisAttempt,
                _ if before.row.uncertain => Cancelled::OutcomeUnknown,
                _ => Cancelled::Now,
            };
        });
        (cancelled, receipt)
    }

    /// A task ends; nothing of it ever sends again.
    ///
    /// # Errors
    /// [`TaskRefusal::TooMany`].
    pub fn cancel_task(&self, key: &TaskKey, by: CancelledBy) -> Result<Receipt, TaskRefusal> {
        let now = self.0.clock.now();
        let mut tasks = lock(&self.0.tasks);
        let cancelled = tasks.cancel(now, key, by);
        let mut receipt = Receipt::default();
        self.pump_tasks(&mut tasks, Some(&mut receipt));
        cancelled.map(|()| receipt)
    }

    /// An operator reopens a scope of one account, and gives the paths of that
    /// account a new chance. Scopes are named without their provider, so without
    /// `account` the name must mean one scope.
    ///
    /// # Errors
    /// [`NotResumed`]; nothing is reopened then.
    pub fn resume_scope(
        &self,
        account: Option<&Account>,
        scope: &Scope,
        by: &Operator,
    ) -> Result<(Account, Receipt), NotResumed> {
        let now = self.0.clock.now();
        let mut meant: Vec<Arc<Cell>> = self.cells();
        meant.retain(|cell| {
            account.is_none_or(|account| cell.account == *account)
                && lock(&cell.engine).scope_state(now, scope).is_some()
        });
        let cell = match meant.as_slice() {
            [] => return Err(NotResumed::Unknown),
            [cell] => cell,
            several => {
                let accounts = several.iter().map(|cell| cell.account.clone());
                return Err(NotResumed::Ambiguous(accounts.collect()));
            }
        };
        let receipt = self.for_the_record(cell, |engine| {
            engine.handle_resume(now, chance(), scope, by.clone());
        });
        if receipt.is_for_nothing() {
            // After a lost commit an engine takes no orders.
            return Err(NotResumed::AuditUnavailable);
        }
        lock(&self.0.tasks).reset_breakers_of(&cell.account);
        Ok((cell.account.clone(), receipt))
    }

    /// Tells an engine something, and gives a receipt for what it records of it.
    fn for_the_record(&self, cell: &Arc<Cell>, tell: impl FnOnce(&mut Engine)) -> Receipt {
        let mut receipt = Receipt::default();
        let bookings = {
            let mut engine = lock(&cell.engine);
            tell(&mut engine);
            self.pump(cell, &mut engine, Some(&mut receipt))
        };
        self.book_later(bookings);
        receipt
    }
}
