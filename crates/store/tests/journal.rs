//! What every store must do with records: take them in order, refuse what can't
//! follow, and tell what became of each, once.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::{
    OPS, World, account, action, agent, answered, asked, ended, engine, entry, life, now, sent,
    tables, task, wall,
};
use rategov_audit::report::Verdict;
use rategov_audit::verify::Expect;
use rategov_core::event::{Decider, Durability, Event};
use rategov_core::id::EscalationId;
use rategov_core::time::Span;
use rategov_core::word::{Choice, State};
use rategov_store::{CommitFailed, JournalQuery, Page, Source, Store};
use tempfile::tempdir;

#[test]
fn a_life_leaves_its_records_and_its_state() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    world.write_all(&engine(OPS), life(OPS, 1, 100));

    let reader = world.store.reader();
    let rows = reader.journal(&JournalQuery {
        page: Page::Forward(None),
        ..Default::default()
    });
    let words: Vec<String> = rows.unwrap().into_iter().map(|row| row.event).collect();
    assert_eq!(
        words,
        [
            "action_requested",
            "action_sent",
            "action_result",
            "retry_scheduled",
            "action_sent",
            "action_result",
            "terminal"
        ]
    );
    let stored = reader.action(action(1)).unwrap().unwrap();
    assert_eq!(stored.row.state, State::Succeeded);
    assert_eq!(
        (stored.row.attempts, stored.row.waited),
        (2, Span::from_secs(30))
    );
    assert_eq!(stored.row.operation_id.as_deref(), Some("r_893"));
    assert_eq!(stored.stamp.wall_of(stored.row.requested_at), wall(100));
    let attempts = reader.attempts(action(1)).unwrap();
    let statuses: Vec<_> = attempts.iter().map(|attempt| attempt.row.status).collect();
    assert_eq!(statuses, [Some(429), Some(201)]);
    let report = reader.verify(&Expect::default()).unwrap();
    assert_eq!((report.verdict(), report.records), (Verdict::Intact, 8));
}

#[test]
fn every_entry_is_acknowledged_once_and_by_its_number() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    for n in 1..=300u128 {
        world.enqueue(&engine(OPS), 100, asked(OPS, n)).unwrap();
        world
            .enqueue(
                &Source::Governor,
                100,
                Event::PolicyChanged {
                    policy_digest: [0; 32],
                },
            )
            .unwrap();
    }
    let mut heard: BTreeMap<Source, Vec<u64>> = BTreeMap::new();
    for _ in 0..600 {
        let ack = world.ack();
        assert_eq!((ack.generation, &ack.result), (1, &Ok(())));
        heard.entry(ack.source).or_default().push(ack.seq.0);
    }
    for (source, seqs) in heard {
        assert_eq!(seqs, (1..=300).collect::<Vec<_>>(), "{source}");
    }
}

#[test]
fn a_refused_record_leaves_no_trace_and_only_the_next_generation_is_heard() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    let ops = engine(OPS);
    world.write_all(&ops, [(100, asked(OPS, 1)), (100, sent(1, 1))]);
    // A second attempt while the first is open.
    let refused = world.write(&ops, 101, sent(1, 2));
    assert!(
        matches!(refused, Err(CommitFailed::Refused(_))),
        "{refused:?}"
    );
    assert_eq!(
        world.write(&ops, 101, answered(1, 1, 201)),
        Err(CommitFailed::EarlierFailed)
    );
    // Another engine is not concerned.
    world.write_all(&engine("stripe/other"), [(101, asked("stripe/other", 9))]);

    let found = tables(&world, OPS);
    assert_eq!(found.actions[0].state, State::Dispatching);
    assert_eq!((found.actions[0].attempts, found.attempts.len()), (1, 1));
    let entry = world.entry_of(&ops, 2, 102, answered(1, 1, 201));
    assert_eq!(world.write_entry(entry), Ok(()));
    let late = world.entry(&ops, 103, ended(1, 1));
    assert_eq!(world.write_entry(late), Err(CommitFailed::EarlierFailed));
    assert_eq!(tables(&world, OPS).actions[0].state, State::Waiting);
    let report = world.store.reader().verify(&Expect::default()).unwrap();
    assert_eq!((report.verdict(), report.records), (Verdict::Intact, 5));
}

#[test]
fn events_that_cannot_follow_are_refused() {
    let cases: Vec<(&str, Vec<Event>)> = vec![
        ("an action twice", vec![asked(OPS, 1), asked(OPS, 1)]),
        (
            "an action of another account",
            vec![asked("stripe/other", 1)],
        ),
        ("a send of nothing", vec![sent(1, 1)]),
        (
            "a result without a send",
            vec![asked(OPS, 1), answered(1, 1, 200)],
        ),
        ("a second attempt first", vec![asked(OPS, 1), sent(1, 2)]),
        ("a step after the end", {
            let mut events: Vec<Event> = life(OPS, 1, 100).into_iter().map(|(_, e)| e).collect();
            events.push(sent(1, 3));
            events
        }),
        (
            "a decision without a question",
            vec![
                asked(OPS, 1),
                Event::Decided {
                    escalation: EscalationId(5),
                    action: Some(action(1)),
                    choice: Choice::Cancel,
                    by: Decider::Expiry,
                    note: None,
                },
            ],
        ),
        (
            "a charge on no task",
            vec![Event::TaskCharged {
                task: task("t"),
                agent: agent("a"),
                retries: 1,
                waited: Span::ZERO,
            }],
        ),
    ];
    for (name, events) in cases {
        let folder = tempdir().unwrap();
        let mut world = World::open(folder.path());
        let last = events.len() - 1;
        for (n, event) in events.into_iter().enumerate() {
            let result = world.write(&engine(OPS), 100, event);
            match result {
                Ok(()) => assert!(n < last, "{name} was taken"),
                Err(CommitFailed::Refused(_)) => assert_eq!(n, last, "{name}: {result:?}"),
                Err(_) => panic!("{name}: {result:?}"),
            }
        }
    }
}

#[test]
fn an_engine_that_is_rebuilt_sees_all_that_was_handed_in_before() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    for round in 1..=5u128 {
        for n in 0..400 {
            world
                .enqueue(&engine(OPS), 100, asked(OPS, round * 1_000 + n))
                .unwrap();
        }
        assert_eq!(tables(&world, OPS).actions.len() as u128, round * 400);
    }
    world.store.close().unwrap();
    assert_eq!(
        tables(&world, OPS).actions.len(),
        2_000,
        "a closed store still tells"
    );
}

#[test]
fn closing_writes_and_acknowledges_what_waits() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    for n in 1..=2_000u128 {
        world.enqueue(&engine(OPS), 100, asked(OPS, n)).unwrap();
    }
    world.store.close().unwrap();
    for _ in 0..2_000 {
        assert_eq!(world.ack().result, Ok(()));
    }
    assert!(world.enqueue(&engine(OPS), 100, asked(OPS, 1)).is_err());
    let (_, recovered) = World::open_at(folder.path(), &now("boot-1", 200, 200));
    assert_eq!(recovered.accounts[&account(OPS)].actions.len(), 2_000);
}

#[test]
fn many_threads_make_one_chain() {
    let folder = tempdir().unwrap();
    let world = World::open(folder.path());
    std::thread::scope(|threads| {
        for thread in 0..8u128 {
            let journal = world.journal.clone();
            threads.spawn(move || {
                let name = format!("stripe/{thread}");
                for n in 1..=200u64 {
                    let event = asked(&name, thread * 1_000 + u128::from(n));
                    journal
                        .enqueue(entry(&engine(&name), 1, n, 100, event))
                        .unwrap();
                }
            });
        }
    });
    for _ in 0..1_600 {
        assert_eq!(world.ack().result, Ok(()));
    }
    let report = world.store.reader().verify(&Expect::default()).unwrap();
    assert_eq!((report.verdict(), report.records), (Verdict::Intact, 1_601));
}

#[test]
fn whoever_hears_the_last_word_may_let_go_of_the_store() {
    let folder = tempdir().unwrap();
    let (store, _) = Store::open(folder.path(), &Default::default(), &now("b", 1, 1)).unwrap();
    let journal = store.journal();
    let (sender, done) = std::sync::mpsc::channel();
    let held = std::sync::Mutex::new(Some(store.clone()));
    store.on_ack(Box::new(move |_| {
        drop(held.lock().unwrap().take());
        sender.send(()).unwrap();
    }));
    drop(store);
    let event = Event::PolicyChanged {
        policy_digest: [0; 32],
    };
    journal
        .enqueue(entry(&Source::Governor, 1, 1, 1, event))
        .unwrap();
    done.recv_timeout(std::time::Duration::from_secs(60))
        .unwrap();
}

#[test]
fn a_power_entry_hears_nothing_before_a_process_entry_of_its_batch() {
    let folder = tempdir().unwrap();
    let (store, _) = Store::open(folder.path(), &Default::default(), &now("b", 1, 1)).unwrap();
    let journal = store.journal();
    // Both wait before the writer begins, so they share a batch.
    let event = || Event::PolicyChanged {
        policy_digest: [0; 32],
    };
    let mut first = entry(&Source::Governor, 1, 1, 1, event());
    first.record.durability = Durability::Power;
    journal.enqueue(first).unwrap();
    journal
        .enqueue(entry(&Source::Governor, 1, 2, 1, event()))
        .unwrap();
    let (sender, acks) = std::sync::mpsc::channel();
    store.on_ack(Box::new(move |ack| sender.send(ack.seq.0).unwrap()));
    store.close().unwrap();
    assert_eq!(acks.try_iter().collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn only_those_who_ask_for_power_pay_for_a_sync() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    let markers = || -> i64 {
        let db = rusqlite::Connection::open(folder.path().join("journal.db")).unwrap();
        db.query_row("SELECT sync_marker FROM meta", (), |row| row.get(0))
            .unwrap()
    };
    // A write's action asks for power, what `sent` makes does not.
    world.write_all(&engine(OPS), [(100, asked(OPS, 1))]);
    assert_eq!(markers(), 1);
    world.write_all(
        &engine(OPS),
        [(100, sent(1, 1)), (101, answered(1, 1, 429))],
    );
    assert_eq!(markers(), 1);
    world.write_all(&engine(OPS), [(101, asked(OPS, 2))]);
    assert_eq!(markers(), 2);
}
