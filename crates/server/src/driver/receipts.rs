//! Answers that must wait until what they say is durable.
//!
//! Whoever is told "decided" or "cancelled" will not say it again, so nobody is
//! told so by a governor that a crash could make forget it. A call that has
//! something of that kind to record gets a [`Receipt`] and waits for it outside
//! all locks:
//!
//! ```text
//! decide    engine locked: record 12 `decided` is queued, receipt for 12
//!           engine unlocked; the caller waits
//! journal   12 is synced ─▶ the receipt is good ─▶ 200
//!           12 is lost   ─▶ it is void          ─▶ 503 audit_unavailable
//! ```
//!
//! Bounded by the calls that wait, one receipt each.

use std::collections::BTreeMap;
use std::sync::Mutex;

use rategov_core::event::Durability;
use rategov_core::id::RecordSeq;
use rategov_store::{Ack, Entry, Source};
use tokio::sync::oneshot;

use super::lock;

/// What a caller waits for. Dropping it changes nothing.
#[must_use = "the caller is to be answered when it is durable"]
#[derive(Debug, Default)]
pub struct Receipt(Option<Promise>);

#[derive(Debug)]
struct Promise {
    durability: Durability,
    kept: oneshot::Receiver<()>,
}

/// What was to be recorded is not in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the journal can't be written; nothing was changed that a restart would remember")]
pub struct NotDurable;

impl Receipt {
    /// Waits until it is durable. If nothing had to be recorded it is at once.
    ///
    /// # Errors
    /// The journal has lost it.
    pub async fn durable(self) -> Result<(), NotDurable> {
        match self.0 {
            None => Ok(()),
            Some(promise) => promise.kept.await.map_err(|_| NotDurable),
        }
    }

    /// Whether nothing had to be recorded.
    pub(super) fn is_for_nothing(&self) -> bool {
        self.0.is_none()
    }

    /// Whether this entry is the better one to wait for: the last of the most
    /// durable of a decision, which has the others behind it.
    pub(super) fn is_outdone_by(&self, entry: &Entry) -> bool {
        self.0
            .as_ref()
            .is_none_or(|promise| promise.durability <= entry.record.durability)
    }
}

type Place = (Source, u32, RecordSeq);

/// Receipts that are out. Each is void when its sender is dropped.
#[derive(Debug, Default)]
pub(super) struct Receipts(Mutex<BTreeMap<Place, oneshot::Sender<()>>>);

impl Receipts {
    /// A receipt for an entry that is about to enter the journal's queue.
    pub(super) fn promise(&self, entry: &Entry) -> Receipt {
        let (keep, kept) = oneshot::channel();
        let place = (entry.source.clone(), entry.generation, entry.record.seq);
        lock(&self.0).insert(place, keep);
        Receipt(Some(Promise {
            durability: entry.record.durability,
            kept,
        }))
    }

    /// The queue did not take the entry.
    pub(super) fn void(&self, source: &Source, generation: u32, seq: RecordSeq) {
        lock(&self.0).remove(&(source.clone(), generation, seq));
    }

    /// The journal's word on an entry.
    pub(super) fn settle(&self, ack: &Ack) {
        let mut open = lock(&self.0);
        if open.is_empty() {
            return;
        }
        let keep = open.remove(&(ack.source.clone(), ack.generation, ack.seq));
        if let (Some(keep), Ok(())) = (keep, &ack.result) {
            // Whoever waited may have left.
            let _ = keep.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use rategov_core::event::{Event, Record};
    use rategov_core::time::{Moment, WallTime};
    use rategov_store::CommitFailed;

    use super::*;

    fn entry(seq: u64, durability: Durability) -> Entry {
        let event = Event::PolicyChanged {
            policy_digest: [0; 32],
        };
        Entry {
            source: Source::Tasks,
            generation: 1,
            record: Record {
                seq: RecordSeq(seq),
                at: Moment::START,
                durability,
                event,
            },
            wall: WallTime::from_secs(0),
            attachments: Vec::new(),
        }
    }

    fn ack(seq: u64, result: Result<(), CommitFailed>) -> Ack {
        Ack {
            source: Source::Tasks,
            generation: 1,
            seq: RecordSeq(seq),
            result,
        }
    }

    #[tokio::test]
    async fn a_receipt_is_good_when_its_own_record_is_durable() {
        let receipts = Receipts::default();
        let receipt = receipts.promise(&entry(2, Durability::Power));
        receipts.settle(&ack(1, Ok(())));
        receipts.settle(&ack(2, Ok(())));
        assert_eq!(receipt.durable().await, Ok(()));
    }

    #[tokio::test]
    async fn a_receipt_is_void_when_its_record_is_lost_or_never_taken() {
        let receipts = Receipts::default();
        let lost = receipts.promise(&entry(1, Durability::Power));
        receipts.settle(&ack(1, Err(CommitFailed::DiskFull)));
        assert_eq!(lost.durable().await, Err(NotDurable));
        let refused = receipts.promise(&entry(2, Durability::Power));
        receipts.void(&Source::Tasks, 1, RecordSeq(2));
        assert_eq!(refused.durable().await, Err(NotDurable));
    }

    #[tokio::test]
    async fn where_nothing_is_recorded_nothing_is_waited_for() {
        assert_eq!(Receipt::default().durable().await, Ok(()));
    }

    #[test]
    fn the_last_of_the_most_durable_records_is_waited_for() {
        let receipts = Receipts::default();
        let power = receipts.promise(&entry(1, Durability::Power));
        assert!(!power.is_outdone_by(&entry(2, Durability::Process)));
        assert!(power.is_outdone_by(&entry(3, Durability::Power)));
        assert!(Receipt::default().is_outdone_by(&entry(1, Durability::Process)));
    }
}
