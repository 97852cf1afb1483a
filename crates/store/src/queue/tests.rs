//! What the queue takes and gives, in which order, and when it wakes its writer.

use rategov_core::event::{Durability, Event, Record};
use rategov_core::id::{ActionId, RecordSeq};
use rategov_core::time::{Moment, WallTime};

use super::*;
use crate::entry::{PAYLOAD_BYTES_MAX, Payload, Source};

fn entry(seq: u64, body: usize) -> Entry {
    let payload = Payload {
        action: ActionId(1),
        head: Vec::new(),
        body: vec![0; body],
    };
    Entry {
        source: Source::Governor,
        generation: 1,
        record: Record {
            seq: RecordSeq(seq),
            at: Moment::START,
            durability: Durability::Process,
            event: Event::PolicyChanged {
                policy_digest: [0; 32],
            },
        },
        wall: WallTime::from_secs(0),
        attachments: vec![Attachment::Payload(payload)],
    }
}

fn seqs(taken: &Taken) -> Vec<u64> {
    taken
        .entries
        .iter()
        .map(|entry| entry.record.seq.0)
        .collect()
}

#[test]
fn entries_leave_in_the_order_in_which_they_came() {
    let queue = Queue::default();
    for seq in 1..=5 {
        queue.push(entry(seq, 0)).unwrap();
    }
    assert_eq!(seqs(&queue.take(3, usize::MAX, None)), [1, 2, 3]);
    assert_eq!(seqs(&queue.take(3, usize::MAX, None)), [4, 5]);
}

fn soon(seq: u64) -> Entry {
    let mut entry = entry(seq, 0);
    entry.record.durability = Durability::Soon;
    entry
}

#[test]
fn what_nothing_relies_on_goes_along_with_what_is_urgent() {
    let queue = Queue::default();
    queue.push(soon(1)).unwrap();
    queue.push(entry(2, 0)).unwrap();
    queue.push(soon(3)).unwrap();
    assert_eq!(seqs(&queue.take(2, usize::MAX, None)), [1, 2]);
    assert_eq!(seqs(&queue.take(2, usize::MAX, None)), [3]);
}

#[test]
fn what_nothing_relies_on_lingers_and_is_taken_all_the_same() {
    let queue = Queue::default();
    queue.push(soon(1)).unwrap();
    queue.push(soon(2)).unwrap();
    assert_eq!(seqs(&queue.take(9, usize::MAX, None)), [1, 2]);
}

#[test]
fn only_what_is_urgent_disturbs_a_nap_and_anything_a_deep_sleep() {
    let queue = Queue::default();
    let wakes = |how: Sleep, made: fn() -> Entry| {
        queue.lock().sleep = how;
        let first = queue.push(made()).unwrap();
        let again = queue.push(made()).unwrap();
        assert!(!again, "it is woken once");
        queue.take(9, usize::MAX, Some(Duration::ZERO));
        first
    };
    assert!(!wakes(Sleep::Awake, || entry(1, 0)));
    assert!(wakes(Sleep::Nap, || entry(1, 0)));
    assert!(wakes(Sleep::Deep, || entry(1, 0)));
    assert!(!wakes(Sleep::Nap, || soon(1)));
    assert!(wakes(Sleep::Deep, || soon(1)));
}

#[test]
fn many_that_linger_are_due() {
    let queue = Queue::default();
    queue.lock().sleep = Sleep::Nap;
    let woken = (1..=LINGERING_MAX as u64).map(|seq| queue.push(soon(seq)).unwrap());
    let woken: Vec<bool> = woken.collect();
    assert_eq!(
        woken.iter().position(|wakes| *wakes),
        Some(LINGERING_MAX - 1)
    );
}

#[test]
fn whoever_waits_for_the_writer_hurries_it() {
    let queue = Arc::new(Queue::default());
    queue.push(soon(1)).unwrap();
    let waits = std::thread::spawn({
        let queue = Arc::clone(&queue);
        move || queue.wait_for_writer(None)
    });
    let taken = queue.take(9, usize::MAX, None);
    queue.wrote(taken.entries.len());
    waits.join().unwrap();
}

#[test]
fn a_full_queue_says_so_and_takes_again_when_there_is_room() {
    let queue = Queue::default();
    for seq in 0..QUEUE_ENTRIES_MAX as u64 {
        queue.push(entry(seq, 0)).unwrap();
    }
    assert_eq!(queue.push(entry(0, 0)), Err(Full::Entries));
    queue.take(1, usize::MAX, None);
    assert_eq!(queue.push(entry(0, 0)), Ok(false), "nobody sleeps");
}

#[test]
fn bytes_are_bounded_too() {
    let queue = Queue::default();
    assert_eq!(
        queue.push(entry(1, PAYLOAD_BYTES_MAX + 1)),
        Err(Full::TooLarge)
    );
    queue.push(entry(1, PAYLOAD_BYTES_MAX)).unwrap();
    queue
        .push(entry(2, QUEUE_BYTES_MAX - PAYLOAD_BYTES_MAX))
        .unwrap();
    assert_eq!(queue.push(entry(3, 1)), Err(Full::Bytes));
    assert_eq!(
        seqs(&queue.take(9, 1, None)),
        [1],
        "the first is taken whatever it weighs"
    );
    queue.push(entry(3, 1)).unwrap();
    assert_eq!(seqs(&queue.take(9, usize::MAX, None)), [2, 3]);
}

#[test]
fn a_closed_queue_gives_what_it_holds_and_takes_nothing() {
    let queue = Queue::default();
    queue.push(entry(1, 0)).unwrap();
    queue.close();
    assert_eq!(queue.push(entry(2, 0)), Err(Full::Closed));
    let queue = Arc::new(queue);
    assert_eq!(Journal::new(Arc::clone(&queue)).free(), 0);
    let taken = queue.take(9, usize::MAX, None);
    assert!(taken.ended && seqs(&taken) == [1]);
}

#[test]
fn room_in_the_queue_is_not_taken_for_a_disk_that_writes() {
    let journal = Journal::new(Arc::default());
    let state = || journal.state();
    let free = QUEUE_ENTRIES_MAX;
    assert_eq!(state(), JournalState::Takes { free });
    journal.queue.note(Some(CommitFailed::DiskFull));
    assert_eq!(state(), JournalState::Failing(CommitFailed::DiskFull));
    journal.queue.note(None);
    assert_eq!(state(), JournalState::Takes { free });
    journal.queue.close();
    assert_eq!(state(), JournalState::Stopped);
}
