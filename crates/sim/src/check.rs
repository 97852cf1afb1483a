//! What must hold in every world, whatever happens in it: the invariants of the
//! design that one process can break, each under its number there.
//!
//! | | invariant | looked at |
//! | --- | --- | --- |
//! | 1 | one key and one body per action | when a request arrives |
//! | 2 | one open attempt per action | at a grant, and by the journal's fold |
//! | 3 | no second attempt of an uncertain write that may have happened | at its record |
//! | 4 | no keyed send past the key's safe life | at the first byte |
//! | 5 | attempts and waiting within their budgets | at its record |
//! | 6 | a cancelled action is never sent | in the journal's order |
//! | 7 | not before the scope's hold and its own backoff | at its record |
//! | 8 | nothing is sent again after bytes reached the agent | at a grant |
//! | 9 | an action is sent with its own account only | when a request arrives |
//! | 10 | "failed" and "not sent" are said only of what did not happen | at the end |
//! | 11 | a decision works once | when it is made twice |
//! | 12 | one effect per action and per operation, unless a person or the agent allowed more | when a request arrives |
//! | 13 | quota is conserved, books agree | after every step |
//! | 14 | a record is durable before its send | at a grant |
//! | 17 | nothing waits for ever | at the end |

use std::collections::{BTreeMap, BTreeSet};

use rategov_core::action::key;
use rategov_core::engine::Engine;
use rategov_core::event::{CancelledBy, Event, Record};
use rategov_core::id::{ActionId, AttemptNo};
use rategov_core::record::{ActionRow, SendKind};
use rategov_core::time::{Moment, Span};
use rategov_core::word::{Cause, Class, State};

use crate::provider::ledger::ArrivalNo;
use crate::provider::message::Request;
use crate::world::journal::{Death, Journal};
use crate::world::order::Order;

/// How much later than its grant a first byte leaves at most, here.
const DIAL_MAX: Span = Span::from_millis(60);

/// What is broken, in words.
pub type Broken = String;

/// What has been seen of a world so far.
#[derive(Debug, Default)]
pub struct Check {
    open: BTreeSet<ActionId>,
    streamed: BTreeSet<ActionId>,
    /// Actions whose cancel is in the journal.
    cancelled: BTreeSet<ActionId>,
    due: BTreeMap<ActionId, Moment>,
    /// Until when each site's account is held.
    held: BTreeMap<usize, Moment>,
    /// Sends beyond the class's: allowed by people, or withdrawn unsent.
    extra: BTreeMap<ActionId, u16>,
    /// Effects of single actions beyond the first, allowed by people.
    effects: BTreeMap<ActionId, u64>,
    /// When a byte of an attempt first left since absence was last proved.
    first_byte: BTreeMap<ActionId, Moment>,
    bytes: BTreeMap<ActionId, (Option<String>, String)>,
    /// Which action caused an arrival.
    pub causes: BTreeMap<(usize, ArrivalNo), ActionId>,
}

/// What a provider counts after an arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Of the action that arrived.
    pub of_action: u64,
    /// Of its agent's operation, under all its actions.
    pub of_operation: u64,
    /// How many the operation may have.
    pub allowed: u64,
}

fn broken<T>(number: u32, what: String) -> Result<T, Broken> {
    Err(format!("invariant {number}: {what}"))
}

impl Check {
    /// An engine has made a record.
    ///
    /// # Errors
    /// What is broken.
    pub fn recorded(
        &mut self,
        site: usize,
        engine: &Engine,
        record: &Record,
        order: Option<&Order>,
    ) -> Result<(), Broken> {
        let now = record.at;
        match &record.event {
            Event::RetryScheduled { action, due, .. } => {
                self.due.insert(*action, *due);
            }
            Event::Reconciled {
                action,
                applied: false,
                ..
            } => {
                self.first_byte.remove(action);
            }
            Event::Resumed { .. } => {
                self.held.remove(&site);
            }
            Event::ActionSent {
                action,
                attempt,
                cause,
                waited,
                ..
            } => {
                let view = engine.action(now, *action);
                let (Some(view), Some(order)) = (view, order) else {
                    return broken(2, format!("{action} is sent and not in hand"));
                };
                self.sent(now, site, &view.row, order, (*attempt, *cause, *waited))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn sent(
        &mut self,
        now: Moment,
        site: usize,
        row: &ActionRow,
        order: &Order,
        (attempt, cause, waited): (AttemptNo, Cause, Span),
    ) -> Result<(), Broken> {
        let id = row.requested.action;
        let by_person = cause == Cause::Person;
        if row.requested.class == Class::UncertainWrite && row.uncertain && !by_person {
            return broken(
                3,
                format!("{id} is sent while an attempt may have happened"),
            );
        }
        let limits = &order.setup.limits;
        let extra = self.extra.get(&id).copied().unwrap_or(0);
        if limits.max_attempts + extra < attempt {
            return broken(5, format!("{id} is sent {attempt} times"));
        }
        if limits.max_wait < waited && extra == 0 {
            return broken(5, format!("{id} waited {waited}"));
        }
        if row.cancelled {
            return broken(6, format!("{id} is sent and cancelled"));
        }
        if let Some(due) = self.due.get(&id)
            && now < *due
        {
            return broken(7, format!("{id} is sent before it is due"));
        }
        if let Some(until) = self.held.get(&site)
            && now < *until
        {
            return broken(7, format!("{id} is sent while its account is held"));
        }
        Ok(())
    }

    /// A person allowed one more send of an action.
    pub fn allow_send(&mut self, id: ActionId) {
        *self.extra.entry(id).or_default() += 1;
    }

    /// A person allowed a send of an action that may have happened already.
    pub fn allow_effect(&mut self, id: ActionId) {
        *self.effects.entry(id).or_default() += 1;
    }

    /// A refusal was published.
    pub fn refused(&mut self, site: usize, until: Moment) {
        let held = self.held.entry(site).or_insert(until);
        *held = (*held).max(until);
    }

    /// The journal has a record.
    ///
    /// # Errors
    /// What is broken.
    pub fn committed(&mut self, record: &Record) -> Result<(), Broken> {
        match &record.event {
            Event::Cancelled { action, by } if *by != CancelledBy::Caller => {
                self.cancelled.insert(*action);
            }
            Event::ActionSent { action, .. } if self.cancelled.contains(action) => {
                return broken(6, format!("{action} is sent after its cancel"));
            }
            _ => {}
        }
        Ok(())
    }

    /// A send may leave.
    ///
    /// # Errors
    /// What is broken.
    pub fn granted(
        &mut self,
        journal: &Journal,
        id: ActionId,
        send: (SendKind, AttemptNo),
        class: Class,
    ) -> Result<(), Broken> {
        let fold = match class.is_write() && send.0 == SendKind::Attempt {
            true => journal.synced(),
            false => journal.committed(),
        };
        if fold.send(id, send.0, send.1).is_none() {
            return broken(14, format!("{id} is sent before its record is durable"));
        }
        if send.0 == SendKind::Lookup {
            return Ok(());
        }
        if !self.open.insert(id) {
            return broken(2, format!("{id} has two open attempts"));
        }
        if self.streamed.contains(&id) {
            return broken(8, format!("{id} is sent after its agent got bytes"));
        }
        Ok(())
    }

    /// An attempt is over, as far as the governor was told.
    pub fn closed(&mut self, id: ActionId) {
        self.open.remove(&id);
    }

    /// Bytes of an answer go to the agent while the rest streams on.
    pub fn streams(&mut self, id: ActionId) {
        self.streamed.insert(id);
    }

    /// The first byte of an attempt leaves.
    ///
    /// # Errors
    /// What is broken.
    pub fn first_byte(&mut self, now: Moment, order: &Order) -> Result<(), Broken> {
        let id = order.requested.action;
        let first = *self.first_byte.entry(id).or_insert(now);
        if order.requested.key.is_none() || first == now {
            return Ok(());
        }
        let timeout = order.setup.attempt_timeout;
        match key::safe_until_by(&order.setup.profile, first, timeout) {
            Some(until) if until + DIAL_MAX <= now => {
                broken(4, format!("{id} is sent past the safe life of its key"))
            }
            _ => Ok(()),
        }
    }

    /// A request reached the provider.
    ///
    /// # Errors
    /// What is broken.
    pub fn arrived(
        &mut self,
        place: (usize, ArrivalNo),
        order: &Order,
        request: &Request,
        effects: Effects,
    ) -> Result<(), Broken> {
        let id = order.requested.action;
        if place.0 != order.site {
            return broken(9, format!("{id} is sent to another account"));
        }
        let key = request
            .head
            .fields
            .get("idempotency-key")
            .map(str::to_owned);
        let bytes = (key, request.sha256().to_owned());
        let known = self.bytes.entry(id).or_insert_with(|| bytes.clone());
        if *known != bytes {
            return broken(1, format!("{id} is sent with other bytes"));
        }
        if 1 + self.effects.get(&id).copied().unwrap_or(0) < effects.of_action {
            return broken(12, format!("{id} happened {} times", effects.of_action));
        }
        let (happened, allowed) = (effects.of_operation, effects.allowed);
        if allowed < happened {
            let name = order.reference();
            return broken(
                12,
                format!("{name} happened {happened} times, allowed are {allowed}"),
            );
        }
        Ok(())
    }

    /// After every step.
    ///
    /// # Errors
    /// What is broken.
    pub fn step(&self, now: Moment, engine: &Engine) -> Result<(), Broken> {
        engine.check_books().or_else(|what| broken(13, what))?;
        for state in engine.scopes(now) {
            for quota in &state.quotas {
                let have = quota.available + quota.reserved + quota.spent + quota.foreign;
                if quota.cap + quota.debt != have {
                    return broken(13, format!("{} of {}", describe(quota), state.scope));
                }
            }
        }
        Ok(())
    }

    /// The process died: what it had in memory is gone, and of the journal what
    /// this death takes.
    pub fn died(&mut self, journal: &Journal, death: Death) {
        self.open.clear();
        self.held.clear();
        // The agents saw their streams break: what is sent now is no secret repeat.
        self.streamed.clear();
        self.forget_lost_waits(journal);
        if death == Death::PowerLost {
            let cancelled = journal.committed().actions();
            let cancelled = cancelled.filter(|row| row.cancelled && !row.state.is_final());
            self.cancelled = cancelled.map(|row| row.requested.action).collect();
        }
    }

    /// A site's engine lost a commit and is built anew: what was not recorded is
    /// not known any more.
    pub fn rebuilt(&mut self, site: usize, journal: &Journal) {
        self.held.remove(&site);
        self.forget_lost_waits(journal);
    }

    /// Only the waits that are in the journal bind a new life.
    fn forget_lost_waits(&mut self, journal: &Journal) {
        let waits = |row: &&ActionRow| row.state == State::Waiting && row.code.is_empty();
        let rows = journal.committed().actions().filter(waits);
        self.due = rows
            .map(|row| (row.requested.action, row.not_before))
            .collect();
    }

    /// What an action is called at its end must be true.
    ///
    /// # Errors
    /// What is broken.
    pub fn ended(&self, row: &ActionRow, by_itself: u64, by_operation: u64) -> Result<(), Broken> {
        let id = row.requested.action;
        if !row.state.is_final() {
            return broken(17, format!("{id} is still {}", row.state));
        }
        if !row.requested.class.is_write() {
            return Ok(());
        }
        match row.state {
            State::FailedDefinite | State::CancelledNotSent if 0 < by_itself => {
                broken(10, format!("{id} is called {} and happened", row.state))
            }
            State::Succeeded if by_operation == 0 => {
                broken(10, format!("{id} is called succeeded and did not happen"))
            }
            _ => Ok(()),
        }
    }
}

fn describe(quota: &rategov_core::ledger::QuotaState) -> String {
    format!("{quota:?} is not conserved")
}
