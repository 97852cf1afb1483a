//! What the engines and the task book say, and the journal's answers to it.

use rategov_core::engine::{Engine, Output};
use rategov_core::event::{Durability, Event, Record};
use rategov_core::id::{Account, ActionId, RecordSeq};
use rategov_core::ledger::Change;
use rategov_core::record::SendKind;
use rategov_core::tasks::TaskOutput;
use rategov_core::time::Span;

use super::journal::{Ack, Entry, Source};
use super::node::account_of;
use super::order::Order;
use super::{Due, World};
use crate::check::Broken;

/// How long after a lost commit an engine is built anew.
const REBUILT_AFTER: Span = Span::from_secs(1);

impl World {
    /// Carries out what an engine says, in order.
    pub(super) fn pump(&mut self, site: usize) -> Result<(), Broken> {
        while let Some(output) = self.cell(site).and_then(|cell| cell.engine.poll_output()) {
            self.obey(site, output)?;
        }
        Ok(())
    }

    fn obey(&mut self, site: usize, output: Output) -> Result<(), Broken> {
        match output {
            Output::Record(record) => return self.record(site, record),
            Output::Grant(grant) => {
                let id = grant.action;
                let class = match self.orders.get(&id) {
                    Some(order) => order.requested.class,
                    None => return Err(format!("{id} is granted and nobody asked for it")),
                };
                let send = (SendKind::Attempt, grant.attempt);
                self.check.granted(&self.journal, id, send, class)?;
                self.send(site, id, send);
            }
            Output::Lookup(grant) => {
                let send = (SendKind::Lookup, grant.lookup);
                let class = rategov_core::word::Class::Read;
                self.check
                    .granted(&self.journal, grant.action, send, class)?;
                self.send(site, grant.action, send);
            }
            Output::Refuse { action, refusal } => {
                self.trace.note(
                    self.now,
                    format_args!("{action} is refused: {}", refusal.code.word()),
                );
                for op in self.waiting.remove(&action).unwrap_or_default() {
                    let reaction = self.operations[op].refused(refusal.retry_at);
                    self.operations[op].doubtful.remove(&action);
                    self.react(op, reaction);
                }
            }
            Output::Join { action, existing } => self.join(site, action, existing),
            Output::Deliver { action, state, .. } => match state.is_final() {
                true => self.told(action, state, "answer"),
                false => {
                    self.check.streams(action);
                    self.waiting.remove(&action);
                }
            },
            Output::Finish {
                action,
                state,
                code,
                ..
            } => match state.is_final() {
                true => self.told(action, state, code.word()),
                // Its caller is let go; the agent goes on with other work.
                false => {
                    self.waiting.remove(&action);
                }
            },
            Output::Child { parent, child } => {
                self.trace.note(
                    self.now,
                    format_args!("{parent} is replaced by {}", child.action),
                );
            }
            Output::Abort { action } => self.abort(site, action)?,
            Output::ChargeTask {
                task,
                retries,
                waited,
            } => {
                let now = self.now;
                if let Some(node) = &mut self.node {
                    node.book.charge(now, &task, retries, waited);
                }
                self.pump_book()?;
            }
            Output::Asked { escalation } => self.ask_person(site, escalation),
            Output::Changed(Change::Refused {
                scope,
                until,
                echo: false,
                ..
            }) if scope == super::node::scope_of(site) => self.check.refused(site, until),
            Output::Faulted => {
                self.trace
                    .note(self.now, format_args!("site {site} lost a commit"));
                if let Some(cell) = self.cell(site) {
                    cell.faulted = true;
                }
                self.later(REBUILT_AFTER, Due::Rebuild(site));
            }
            Output::OpenPath { .. }
            | Output::Parked(_)
            | Output::Continue { .. }
            | Output::Changed(_) => {}
        }
        Ok(())
    }

    /// A repeat waits for the action that exists, or its result is there already.
    fn join(&mut self, site: usize, action: ActionId, existing: ActionId) {
        let joined = self.waiting.remove(&action).unwrap_or_default();
        let now = self.now;
        let in_hand = self
            .cell(site)
            .is_some_and(|cell| cell.engine.action(now, existing).is_some());
        self.trace
            .note(now, format_args!("{action} repeats {existing}"));
        if in_hand {
            self.waiting.entry(existing).or_default().extend(joined);
        }
    }

    fn record(&mut self, site: usize, record: Record) -> Result<(), Broken> {
        self.trace.note(
            self.now,
            format_args!("site {site} #{} {:?}", record.seq.0, record.event),
        );
        self.adopt(&record.event);
        let order = record.event.action().and_then(|id| self.orders.get(&id));
        let node = self.node.as_ref();
        let cell = node.and_then(|node| node.cells.get(site));
        if let Some(cell) = cell {
            self.check.recorded(site, &cell.engine, &record, order)?;
        }
        let life = cell.map_or(0, |cell| cell.life);
        self.enqueue(Some(account_of(site)), life, record);
        Ok(())
    }

    /// The child of a replaced action is an order like its parent.
    fn adopt(&mut self, event: &Event) {
        if let Event::ActionRequested(requested) = event
            && let Some(parent) = requested.parent
            && let Some(order) = self.orders.get(&parent).cloned()
        {
            let order = Order {
                requested: std::sync::Arc::clone(requested),
                ..order
            };
            self.orders.insert(requested.action, order);
        }
    }

    fn enqueue(&mut self, account: Option<Account>, life: u32, record: Record) {
        let source = Source { account, life };
        self.journal.enqueue(Entry { source, record });
        if !self.commit_is_due {
            self.commit_is_due = true;
            let after = self.disk_chance.millis(1, 20);
            self.later(after, Due::Commit);
        }
    }

    /// A planted bug writes past everybody.
    pub(super) fn force(&mut self, account: Account, event: Event) -> Result<(), Broken> {
        let record = Record {
            seq: RecordSeq(0),
            at: self.now,
            durability: Durability::Power,
            event,
        };
        let source = Source {
            account: Some(account),
            life: 0,
        };
        self.journal.force(Entry { source, record })
    }

    /// The journal commits a batch.
    pub(super) fn commit(&mut self) -> Result<(), Broken> {
        self.commit_is_due = false;
        if self.node.is_none() {
            return Ok(());
        }
        let lost = self.disk_chance.happens(self.trouble().commit_lost);
        self.count.commits_lost += u64::from(lost);
        let acks = self.journal.commit(lost)?;
        if !self.journal.is_idle() {
            self.commit_is_due = true;
            let after = self.disk_chance.millis(1, 20);
            self.later(after, Due::Commit);
        }
        for ack in acks {
            self.acknowledge(&ack)?;
        }
        Ok(())
    }

    fn acknowledge(&mut self, ack: &Ack) -> Result<(), Broken> {
        let (source, record) = (&ack.entry.source, &ack.entry.record);
        if ack.committed {
            self.check.committed(record)?;
        }
        let Some(account) = &source.account else {
            if let Some(node) = &mut self.node
                && node.book_life == source.life
            {
                match ack.committed {
                    true => node.book.handle_committed(record.seq),
                    false => node.book.handle_commit_failed(),
                }
            }
            return self.pump_book();
        };
        let sites = 0..self.scenario.places.len();
        let Some(site) = sites.into_iter().find(|site| account_of(*site) == *account) else {
            return Ok(());
        };
        let tell = |engine: &mut Engine| match ack.committed {
            true => engine.handle_committed(record.seq),
            false => engine.handle_commit_failed(record.seq),
        };
        if let Some(cell) = self.cell(site).filter(|cell| cell.life == source.life) {
            tell(&mut cell.engine);
        }
        self.pump(site)
    }

    /// Carries out what the task book says.
    pub(super) fn pump_book(&mut self) -> Result<(), Broken> {
        while let Some(output) = self.node.as_mut().and_then(|node| node.book.poll_output()) {
            match output {
                TaskOutput::Record(record) => {
                    let life = self.node.as_ref().map_or(0, |node| node.book_life);
                    self.trace.note(
                        self.now,
                        format_args!("book #{} {:?}", record.seq.0, record.event),
                    );
                    self.enqueue(None, life, record);
                }
                TaskOutput::Cancelled { key, stops, by } => {
                    self.later(Span::from_millis(1), Due::TaskEnded(key, stops, by));
                }
                TaskOutput::Faulted => self.later(REBUILT_AFTER, Due::RebuildBook),
            }
        }
        Ok(())
    }
}
