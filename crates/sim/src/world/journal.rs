//! The journal of the simulated process: it commits late, in batches, sometimes
//! not at all, and what of it survives depends on how the process dies.
//!
//! | death | what survives |
//! | --- | --- |
//! | kill -9 | every batch that was committed |
//! | loss of power | every batch up to the last one that a record wanted synced |
//!
//! A lost record takes every later one of the same engine's life with it: they
//! could only tell a story that the journal does not know.

use std::collections::{BTreeSet, VecDeque};

use rategov_core::event::{Durability, Record};
use rategov_core::fold::Fold;
use rategov_core::id::Account;

/// Most records in one batch.
const BATCH_MAX: usize = 256;

/// Whose record it is, and of which of its lives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The account; `None` for the task book.
    pub account: Option<Account>,
    /// Counts the lives of its engine.
    pub life: u32,
}

/// A record on its way.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Whose.
    pub source: Source,
    /// What.
    pub record: Record,
}

/// How the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The process only.
    Killed,
    /// The machine, with what was not synced.
    PowerLost,
}

/// What became of a record.
#[derive(Clone, Debug)]
pub struct Ack {
    /// Which.
    pub entry: Entry,
    /// Whether it is committed as durably as it asked.
    pub committed: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Journal {
    queue: VecDeque<Entry>,
    /// Lives that lost a record.
    failed: BTreeSet<Source>,
    committed: Fold,
    synced: Fold,
    not_synced: Vec<Entry>,
}

impl Journal {
    /// Takes a record.
    pub fn enqueue(&mut self, entry: Entry) {
        self.queue.push_back(entry);
    }

    /// Whether nothing waits to be committed.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// What survives a kill -9.
    pub fn committed(&self) -> &Fold {
        &self.committed
    }

    /// What survives a loss of power.
    pub fn synced(&self) -> &Fold {
        &self.synced
    }

    /// Commits the next batch, or loses it.
    ///
    /// # Errors
    /// If a record can't follow what is there, in words.
    pub fn commit(&mut self, lost: bool) -> Result<Vec<Ack>, String> {
        let batch: Vec<Entry> = self
            .queue
            .drain(..self.queue.len().min(BATCH_MAX))
            .collect();
        let mut acks = Vec::with_capacity(batch.len());
        let mut wants_sync = false;
        for entry in batch {
            if lost || self.failed.contains(&entry.source) {
                self.failed.insert(entry.source.clone());
                acks.push(Ack {
                    entry,
                    committed: false,
                });
                continue;
            }
            self.committed
                .apply(entry.source.account.as_ref(), &entry.record)
                .map_err(|illegal| illegal.to_string())?;
            wants_sync |= entry.record.durability == Durability::Power;
            self.not_synced.push(entry.clone());
            acks.push(Ack {
                entry,
                committed: true,
            });
        }
        if wants_sync {
            for entry in self.not_synced.drain(..) {
                self.synced
                    .apply(entry.source.account.as_ref(), &entry.record)
                    .map_err(|illegal| illegal.to_string())?;
            }
        }
        Ok(acks)
    }

    /// Writes a record past everybody, as a planted bug does.
    ///
    /// # Errors
    /// If it can't follow what is there, in words.
    pub fn force(&mut self, entry: Entry) -> Result<(), String> {
        self.committed
            .apply(entry.source.account.as_ref(), &entry.record)
            .map_err(|illegal| illegal.to_string())?;
        self.not_synced.push(entry);
        Ok(())
    }

    /// The process dies.
    pub fn die(&mut self, death: Death) {
        self.queue.clear();
        self.failed.clear();
        match death {
            Death::Killed => {}
            Death::PowerLost => {
                self.committed = self.synced.clone();
                self.not_synced.clear();
            }
        }
    }
}
