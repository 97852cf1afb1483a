//! The order of each engine's records, and what follows a lost one.
//!
//! An engine numbers its records from 1 without gaps. When one is lost, those
//! that were already on their way tell of a state that never came to be, so
//! none of them is taken; the engine is rebuilt from the tables and begins its
//! next generation with record 1.
//!
//! ```text
//! generation 1:  1 stored, 2 stored, 3 lost, 4 refused, 5 refused
//! generation 2:  1 stored, …
//! generation 1:  6 refused, whatever the second generation does
//! ```
//!
//! Engines come and go, so only those heard of lately are remembered. One that was
//! forgotten had all its records stored, and goes on from wherever it is.

use std::collections::BTreeMap;

use rategov_core::id::RecordSeq;

use crate::entry::{CommitFailed, Entry, Source};

/// Engines whose place in their order is known: several times as many as there may be
/// at a time.
const SOURCES_MAX: usize = 100_000;

/// What was heard of every engine.
#[derive(Debug, Default)]
pub(crate) struct Order {
    heard: BTreeMap<Source, Heard>,
    /// Counts what was heard.
    notes: u64,
    /// Whether any engine was forgotten.
    forgot: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heard {
    generation: u32,
    upto: UpTo,
    /// The number of the note.
    note: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UpTo {
    Record(RecordSeq),
    /// A record was lost; nothing more of this generation is taken.
    Lost,
}

impl Order {
    /// Whether the entry is the one that its engine's order puts next.
    pub(crate) fn check(&self, entry: &Entry) -> Result<(), CommitFailed> {
        let refused = |why: String| Err(CommitFailed::Refused(why));
        let seq = entry.record.seq.0;
        let heard = self.heard.get(&entry.source);
        match heard {
            Some(heard) if entry.generation < heard.generation => Err(CommitFailed::EarlierFailed),
            Some(Heard {
                generation, upto, ..
            }) if entry.generation == *generation => match upto {
                UpTo::Lost => Err(CommitFailed::EarlierFailed),
                UpTo::Record(last) if seq == last.0 + 1 => Ok(()),
                UpTo::Record(last) => refused(format!("record {seq} follows {}", last.0)),
            },
            None if self.forgot => Ok(()),
            _ if seq == 1 => Ok(()),
            _ => refused(format!("record {seq} is the first of its engine")),
        }
    }

    /// Notes what became of an entry.
    pub(crate) fn note(&mut self, entry: &Entry, is_stored: bool) {
        let upto = if is_stored {
            UpTo::Record(entry.record.seq)
        } else {
            UpTo::Lost
        };
        self.notes += 1;
        let now = Heard {
            generation: entry.generation,
            upto,
            note: self.notes,
        };
        let is_older = self
            .heard
            .get(&entry.source)
            .is_some_and(|heard| entry.generation < heard.generation);
        if !is_older {
            self.heard.insert(entry.source.clone(), now);
        }
        if SOURCES_MAX < self.heard.len() {
            self.forget();
        }
    }

    /// Forgets the half that was heard longest ago, but none that lost a record.
    fn forget(&mut self) {
        let mut notes: Vec<u64> = self.heard.values().map(|heard| heard.note).collect();
        let middle = notes.len() / 2;
        let (_, middle, _) = notes.select_nth_unstable(middle);
        let middle = *middle;
        self.heard
            .retain(|_, heard| middle <= heard.note || heard.upto == UpTo::Lost);
        self.forgot = true;
    }
}

#[cfg(test)]
mod tests {
    use rategov_core::event::{Durability, Event, Record};
    use rategov_core::id::Account;
    use rategov_core::time::{Moment, WallTime};

    use super::*;

    fn entry(generation: u32, seq: u64) -> Entry {
        Entry {
            source: Source::Tasks,
            generation,
            record: Record {
                seq: RecordSeq(seq),
                at: Moment::START,
                durability: Durability::Process,
                event: Event::PolicyChanged {
                    policy_digest: [0; 32],
                },
            },
            wall: WallTime::from_secs(0),
            attachments: Vec::new(),
        }
    }

    /// Shows entries to an order one by one; `x` is an entry whose commit is lost.
    fn check(entries: &[(u32, u64, &str)]) {
        let mut order = Order::default();
        for (generation, seq, expected) in entries {
            let entry = entry(*generation, *seq);
            let result = order.check(&entry);
            let found = match &result {
                Ok(()) => "ok",
                Err(CommitFailed::EarlierFailed) => "earlier",
                Err(_) => "refused",
            };
            let is_lost = *expected == "x";
            assert_eq!(
                found,
                if is_lost { "ok" } else { expected },
                "{generation}/{seq}"
            );
            order.note(&entry, result.is_ok() && !is_lost);
        }
    }

    #[test]
    fn records_come_from_one_and_without_gaps() {
        check(&[(1, 1, "ok"), (1, 2, "ok"), (1, 3, "ok")]);
        check(&[(1, 2, "refused"), (1, 3, "earlier")]);
        check(&[(1, 1, "ok"), (1, 3, "refused"), (1, 2, "earlier")]);
        check(&[(1, 1, "ok"), (1, 1, "refused")]);
    }

    #[test]
    fn after_a_lost_record_only_the_next_generation_is_heard() {
        check(&[
            (1, 1, "ok"),
            (1, 2, "x"),
            (1, 3, "earlier"),
            (1, 1, "earlier"),
            (2, 1, "ok"),
        ]);
        check(&[(1, 1, "x"), (2, 1, "ok"), (1, 2, "earlier"), (2, 2, "ok")]);
    }

    #[test]
    fn an_engine_that_was_forgotten_goes_on_and_a_lost_record_is_not_forgotten() {
        let of = |n: usize, seq| Entry {
            source: Source::Account(Account::new(&format!("p/{n}")).unwrap()),
            ..entry(1, seq)
        };
        let mut order = Order::default();
        for n in 0..=SOURCES_MAX {
            order.note(&of(n, 1), n != 7);
        }
        assert!(order.heard.len() <= SOURCES_MAX / 2 + 2);
        assert!(order.check(&of(0, 2)).is_ok());
        assert!(order.check(&of(7, 2)).is_err());
        assert!(order.check(&of(SOURCES_MAX, 3)).is_err());
    }

    #[test]
    fn a_generation_may_be_skipped_but_begins_with_one() {
        check(&[(1, 1, "ok"), (3, 1, "ok"), (2, 1, "earlier"), (3, 2, "ok")]);
        check(&[
            (1, 1, "ok"),
            (2, 2, "refused"),
            (2, 3, "earlier"),
            (3, 1, "ok"),
        ]);
    }
}
