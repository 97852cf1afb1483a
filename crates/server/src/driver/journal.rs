//! The driver and its journal: records handed over, and what became of them.
//!
//! Records enter the journal's queue under the lock of the engine that made them,
//! so the journal's order is the order of decisions. Its word on them comes back in
//! that order, and only to the life of the engine that made them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use rategov_core::engine::Engine;
use rategov_core::event::{Durability, Event, Record};
use rategov_core::id::RecordSeq;
use rategov_store::{Ack, Entry, Source};

use super::{Cell, Driver, Inner, Receipt, lock};
use crate::fail;

impl Driver {
    /// Connects the journal's answers. They come from its writer's thread, a
    /// batch at a time, and a task of the runtime carries them out: what they let
    /// go is then started by the thread that does the work, which needs no waking.
    pub fn listen_to_journal(&self) {
        let weak: Weak<Inner> = Arc::downgrade(&self.0);
        // As many are on their way as records fit into the journal's queue.
        let (sender, mut batches) = tokio::sync::mpsc::unbounded_channel::<Vec<Ack>>();
        self.0.store.on_acks(Box::new(move |acks| {
            // Without a receiver the driver is gone, and nobody waits for anything.
            let _ = sender.send(acks);
        }));
        self.0.runtime.spawn(async move {
            while let Some(acks) = batches.recv().await {
                let Some(inner) = weak.upgrade() else { return };
                Driver(inner).acknowledge(&acks);
            }
        });
    }

    /// Records an event of the governor itself.
    pub fn note(&self, event: Event, generation: u32) -> Receipt {
        let entry = Entry {
            source: Source::Governor,
            generation,
            record: Record {
                seq: RecordSeq(1),
                at: self.0.clock.now(),
                durability: Durability::Power,
                event,
            },
            wall: self.0.clock.wall(),
            attachments: Vec::new(),
        };
        let mut receipt = Receipt::default();
        let mut run = self.0.journal.begin();
        if let Err(cause) = self.hand_over(&mut run, entry, Some(&mut receipt)) {
            tracing::error!(%cause, "a record of the governor itself was not taken");
        }
        receipt
    }

    /// How the journal is.
    pub fn journal_state(&self) -> rategov_store::JournalState {
        self.0.journal.state()
    }

    /// Places left in the journal's queue.
    pub fn journal_free(&self) -> usize {
        self.0.journal.free()
    }

    /// Records that were handed to the journal and not yet answered by it,
    /// and how many were handed over in all.
    pub fn journal_behind(&self) -> (u64, u64) {
        // In this order, so that the difference is never negative.
        let answered = self.0.answered.load(Ordering::Acquire);
        let handed_over = self.0.handed_over.load(Ordering::Acquire);
        (handed_over.saturating_sub(answered), handed_over)
    }

    pub(super) fn append(
        &self,
        cell: &Cell,
        engine: &mut Engine,
        run: &mut rategov_store::Run<'_>,
        record: Record,
        receipt: Option<&mut Receipt>,
    ) {
        fail::point(fail::RECORD_BEFORE_QUEUE);
        let seq = record.seq;
        let attachments = self.0.attachments.for_record(&record.event);
        let entry = Entry {
            source: Source::Account(cell.account.clone()),
            generation: cell.generation,
            wall: self.0.clock.wall_of(record.at),
            record,
            attachments,
        };
        if self.hand_over(run, entry, receipt).is_err() {
            engine.handle_commit_failed(seq);
        }
    }

    /// Gives a record to the journal, and counts those that it took.
    pub(super) fn hand_over(
        &self,
        run: &mut rategov_store::Run<'_>,
        entry: Entry,
        receipt: Option<&mut Receipt>,
    ) -> Result<(), rategov_store::Full> {
        let (source, generation, seq) = (entry.source.clone(), entry.generation, entry.record.seq);
        if let Some(receipt) = receipt
            && receipt.is_outdone_by(&entry)
        {
            *receipt = self.0.receipts.promise(&entry);
        }
        // Counted first: the answer may be there before this returns.
        self.0.handed_over.fetch_add(1, Ordering::AcqRel);
        let taken = run.enqueue(entry);
        if taken.is_err() {
            self.0.handed_over.fetch_sub(1, Ordering::AcqRel);
            self.0.receipts.void(&source, generation, seq);
        }
        taken
    }

    /// The journal's word on some records, in their order.
    fn acknowledge(&self, acks: &[Ack]) {
        let same =
            |one: &Ack, next: &Ack| one.source == next.source && one.generation == next.generation;
        for acks in acks.chunk_by(same) {
            let Some(Ack {
                source, generation, ..
            }) = acks.first()
            else {
                continue;
            };
            self.follow(source, *generation, acks);
            acks.iter().for_each(|ack| self.0.receipts.settle(ack));
            self.0
                .answered
                .fetch_add(acks.len() as u64, Ordering::AcqRel);
        }
    }

    /// Tells an engine what became of some of its records.
    fn follow(&self, source: &Source, generation: u32, acks: &[Ack]) {
        match source {
            Source::Account(account) => {
                let Some(cell) = self.cell_of(account) else {
                    return;
                };
                if cell.generation != generation {
                    return;
                }
                self.with(&cell, |engine| {
                    for ack in acks {
                        match &ack.result {
                            Ok(()) => engine.handle_committed(ack.seq),
                            Err(cause) => {
                                tracing::error!(%account, %cause, "a commit was lost");
                                engine.handle_commit_failed(ack.seq);
                            }
                        }
                    }
                });
            }
            Source::Governor => {
                for cause in acks.iter().filter_map(|ack| ack.result.as_ref().err()) {
                    tracing::error!(%cause, "a start or change of policy is not in the journal");
                }
            }
            Source::Tasks => {
                if self.0.tasks_generation.load(Ordering::Acquire) != generation {
                    return;
                }
                let mut tasks = lock(&self.0.tasks);
                for ack in acks {
                    match &ack.result {
                        Ok(()) => tasks.handle_committed(ack.seq),
                        Err(_) => tasks.handle_commit_failed(),
                    }
                }
                self.pump_tasks(&mut tasks, None);
            }
        }
    }
}
