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

use std::collections::BTreeMap;

use rategov_core::id::RecordSeq;

use crate::entry::{CommitFailed, Entry, Source};

/// Engines whose place in their order is known. The number of accounts is
/// bounded far below by whoever makes them.
const SOURCES_MAX: usize = 100_000;

/// What was heard of every engine.
#[derive(Debug, Default)]
pub(crate) struct Order {
    heard: BTreeMap<Source, Heard>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heard {
    generation: u32,
    upto: UpTo,
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
        if heard.is_none() && self.heard.len() >= SOURCES_MAX {
            return refused("there are too many engines".to_owned());
        }
        match heard {
            Some(heard) if entry.generation < heard.generation => Err(CommitFailed::EarlierFailed),
            Some(Heard { generation, upto }) if entry.generation == *generation => match upto {
                UpTo::Lost => Err(CommitFailed::EarlierFailed),
                UpTo::Record(last) if seq == last.0 + 1 => Ok(()),
                UpTo::Record(last) => refused(format!("record {seq} follows {}", last.0)),
            },
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
        let now = Heard {
            generation: entry.generation,
            upto,
        };
        let is_older = self
            .heard
            .get(&entry.source)
            .is_some_and(|heard| entry.generation < heard.generation);
        if !is_older {
            self.heard.insert(entry.source.clone(), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use rategov_core::event::{Durability, Event, Record};
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
