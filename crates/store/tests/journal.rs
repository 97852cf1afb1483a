//! What every store must do, whatever it is made of: take records in order,
//! keep their state with them, tell what became of them, and give it all back
//! after a restart.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::{
    World, account, action, agent, answered, asked, ended, engine, entry, life, moment, now,
    payload, requested, retry, scope, sent, task, wall,
};
use rategov_audit::report::Verdict;
use rategov_audit::verify::Expect;
use rategov_core::event::{CancelledBy, Decider, Durability, Event, ScopeChange};
use rategov_core::id::{EscalationId, Operator};
use rategov_core::record::{ScopeRow, Tables};
use rategov_core::time::{Moment, Span};
use rategov_core::word::{Choice, Mode, State, Trigger};
use rategov_store::{
    ActionQuery, Asked, Attachment, Boot, CommitFailed, JournalQuery, Page, Source, Store,
    StoredResult,
};
use tempfile::tempdir;

const OPS: &str = "stripe/ops";

fn question(n: u128, id: u128) -> Event {
    Event::Escalated {
        escalation: EscalationId(id),
        action: Some(action(n)),
        scope: scope("account:ops"),
        trigger: Trigger::UncertainEffect,
        choices: vec![Choice::Query, Choice::Cancel],
        why: "no look-up".to_owned(),
        version: 3,
        expires: moment(90_000),
    }
}

fn closed_scope(until_s: u64) -> Event {
    let saved = ScopeRow {
        scope: scope("account:ops"),
        mode: Mode::Closed,
        next_allowed_at: Some(moment(until_s)),
        remaining: Some(0),
        limit: Some(60),
        window: Some(Span::from_secs(10)),
        reset_at: None,
        spacing: Some(Span::from_millis(170)),
        max_concurrent: Some(2),
        epoch: 1,
        hold_level: 0,
        misdeclared: true,
        source: "HTTP 429 Retry-After".to_owned(),
    };
    Event::Scope(Box::new(ScopeChange {
        scope: saved.scope.clone(),
        from: Mode::Normal,
        to: Mode::Closed,
        why: "429".to_owned(),
        status: Some(429),
        saved,
    }))
}

fn tables(world: &World, name: &str) -> Tables {
    world
        .store
        .recover(&engine(name), &now("boot-1", 200, 200))
        .unwrap()
}

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
fn a_decision_works_once() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    let ops = engine(OPS);
    let decide = |choice| Event::Decided {
        escalation: EscalationId(5),
        action: Some(action(1)),
        choice,
        by: Decider::Operator(Operator::new("maria").unwrap()),
        note: Some("asked the bank".to_owned()),
    };
    world.write_all(&ops, [(100, asked(OPS, 1)), (101, question(1, 5))]);
    let reader = world.store.reader();
    assert_eq!(reader.escalations(Asked::Open, 10).unwrap().len(), 1);
    assert_eq!(tables(&world, OPS).escalations.len(), 1);

    world.write_all(&ops, [(102, decide(Choice::Query))]);
    assert!(matches!(
        world.write(&ops, 103, decide(Choice::Cancel)),
        Err(CommitFailed::Refused(_))
    ));
    assert_eq!(reader.escalations(Asked::Open, 10).unwrap().len(), 0);
    let (from, decided) = reader.escalation(EscalationId(5)).unwrap().unwrap();
    assert_eq!(from, Some(account(OPS)));
    assert_eq!(decided.row.chosen, Some(Choice::Query));
    assert_eq!(decided.row.decided_by.as_deref(), Some("maria"));
    assert_eq!(decided.row.choices, [Choice::Query, Choice::Cancel]);
}

#[test]
fn a_restart_finds_what_is_open_and_nothing_else() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    let ops = engine(OPS);
    world.write_all(&ops, life(OPS, 1, 100));
    world.write_all(&ops, life(OPS, 2, 100).into_iter().take(4));
    world.write_all(
        &ops,
        [
            (140, asked(OPS, 3)),
            (141, question(3, 5)),
            (142, closed_scope(172)),
        ],
    );
    let task_opened = |name: &str, deadline_s| Event::TaskOpened {
        task: task(name),
        agent: agent("a"),
        goal: Some("copy".to_owned()),
        deadline: moment(deadline_s),
    };
    let end = |name: &str| Event::TaskCancelled {
        task: task(name),
        agent: agent("a"),
        by: CancelledBy::Caller,
    };
    world.write_all(
        &Source::Tasks,
        [
            (100, task_opened("open", 5_000)),
            (101, task_opened("over", 150)),
            (102, task_opened("ended", 150)),
            (103, end("ended")),
        ],
    );
    let before = tables(&world, OPS);
    drop(world);

    let (world, recovered) = World::open_at(folder.path(), &now("boot-1", 200, 200));
    assert_eq!(recovered.boot, Boot::Same);
    let found = &recovered.accounts[&account(OPS)];
    assert_eq!(found, &before);
    assert_eq!(found, &tables(&world, OPS));
    let open: Vec<_> = found
        .actions
        .iter()
        .map(|row| row.requested.action.0)
        .collect();
    assert_eq!(open, [2, 3]);
    assert_eq!(found.actions[0].requested.as_ref(), &requested(OPS, 2));
    assert_eq!(found.actions[0].not_before, moment(131));
    assert_eq!(found.attempts.len(), 3);
    assert_eq!(found.scopes[0].1.next_allowed_at, Some(moment(172)));
    assert_eq!(found.scopes[0].1.spacing, Some(Span::from_millis(170)));
    let tasks: Vec<_> = recovered
        .tasks
        .iter()
        .map(|row| (row.task.to_string(), row.cancelled))
        .collect();
    assert_eq!(
        tasks,
        [("ended".to_owned(), true), ("open".to_owned(), false)]
    );
    // Eighteen records, the genesis, and two that say that the clock went back.
    assert_eq!(recovered.log.head.size, 21);
}

#[test]
fn after_a_boot_waits_go_on_by_the_wall_clock() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    let ops = engine(OPS);
    // At 101 s it is told to wait until 131 s.
    world.write_all(&ops, life(OPS, 1, 100).into_iter().take(4));
    world.write_all(&ops, [(101, closed_scope(131))]);
    drop(world);

    // The machine is up for 7 s; 10 s have passed on the wall.
    let (world, recovered) = World::open_at(folder.path(), &now("boot-2", 7, 111));
    assert_eq!(recovered.boot, Boot::Another);
    let found = recovered.accounts[&account(OPS)].clone();
    assert_eq!(found.actions[0].not_before, moment(7 + 20));
    assert_eq!(found.scopes[0].1.next_allowed_at, Some(moment(7 + 20)));
    assert_eq!(
        found.actions[0].requested.deadline,
        moment(7 + 3_600 - 101 - 10)
    );
    // Longer ago than this boot: as early as the clock can say.
    assert_eq!(found.actions[0].requested_at, Moment::START);
    drop(world);

    // Once placed, it is exact for as long as this boot lasts.
    let (_, again) = World::open_at(folder.path(), &now("boot-2", 9, 999));
    assert_eq!(again.boot, Boot::Same);
    assert_eq!(again.accounts[&account(OPS)].actions, found.actions);
}

#[test]
fn a_payload_is_kept_sealed_and_erased_with_the_end() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    let ops = engine(OPS);
    let canary = b"card=4242-4242-4242-4242";
    let mut first = world.entry(&ops, 100, asked(OPS, 1));
    first.attachments.push(payload(1, canary));
    assert!(!format!("{first:?}").contains("4242"));
    world.write_entry(first).unwrap();
    let reader = world.store.reader();
    assert_eq!(reader.payload(action(1)).unwrap().unwrap().body, canary);
    assert_eq!(reader.payload(action(2)).unwrap(), None);

    world.write_all(&ops, life(OPS, 1, 100).into_iter().skip(1).take(5));
    assert!(reader.payload(action(1)).unwrap().is_some());
    let mut last = world.entry(&ops, 132, ended(1, 2));
    let result = StoredResult {
        action: action(1),
        status: 201,
        headers: vec![("content-type".to_owned(), b"application/json".to_vec())],
        body: [b"{\"paid_with\":\"".as_slice(), canary].concat(),
    };
    last.attachments.push(Attachment::Result(result.clone()));
    world.write_entry(last).unwrap();
    assert_eq!(reader.payload(action(1)).unwrap(), None);
    assert_eq!(reader.result(action(1)).unwrap(), Some(result));

    let show = |world: &World| {
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            assert!(!bytes.windows(canary.len()).any(|window| window == canary));
        }
        world.store.reader()
    };
    show(&world);
    world.store.close().unwrap();
    show(&world);
}

#[test]
fn an_attachment_belongs_to_its_record() {
    for (event, attachment) in [
        (asked(OPS, 2), payload(1, b"x")),
        (sent(1, 1), payload(1, b"x")),
        (sent(1, 1), Attachment::Erase(action(7))),
    ] {
        let folder = tempdir().unwrap();
        let mut world = World::open(folder.path());
        world.write_all(&engine(OPS), [(100, asked(OPS, 1))]);
        let mut entry = world.entry(&engine(OPS), 100, event);
        entry.attachments.push(attachment);
        assert!(matches!(
            world.write_entry(entry),
            Err(CommitFailed::Refused(_))
        ));
        assert_eq!(world.store.reader().payload(action(1)).unwrap(), None);
    }
}

#[test]
fn records_are_found_by_what_they_are_about() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    world.write_all(&engine(OPS), life(OPS, 1, 100));
    world.write_all(&engine("openai/main"), life("openai/main", 2, 200));
    let opened = Event::TaskOpened {
        task: task("other"),
        agent: agent("b"),
        goal: None,
        deadline: moment(900),
    };
    world.write_all(&Source::Tasks, [(300, opened)]);

    let reader = world.store.reader();
    let count = |query: JournalQuery| reader.journal(&query).unwrap().len();
    let all = JournalQuery {
        limit: 1_000,
        ..Default::default()
    };
    assert_eq!(count(all.clone()), 15);
    assert_eq!(
        count(JournalQuery {
            action: Some(action(2)),
            ..all.clone()
        }),
        7
    );
    assert_eq!(
        count(JournalQuery {
            account: Some(account(OPS)),
            ..all.clone()
        }),
        7
    );
    assert_eq!(
        count(JournalQuery {
            agent: Some(agent("b")),
            ..all.clone()
        }),
        1
    );
    assert_eq!(
        count(JournalQuery {
            agent: Some(agent("sync-bot")),
            ..all.clone()
        }),
        14
    );
    assert_eq!(
        count(JournalQuery {
            task: Some(task("sync-482")),
            ..all.clone()
        }),
        14
    );
    assert_eq!(
        count(JournalQuery {
            status: Some(429),
            ..all.clone()
        }),
        2
    );
    assert_eq!(
        count(JournalQuery {
            event: Some("terminal".to_owned()),
            ..all.clone()
        }),
        2
    );
    let from = Some(wall(131));
    assert_eq!(
        count(JournalQuery {
            from,
            until: Some(wall(232)),
            ..all.clone()
        }),
        8
    );
    assert_eq!(
        count(JournalQuery {
            limit: 3,
            ..all.clone()
        }),
        3
    );

    let page = |page| {
        let rows = reader
            .journal(&JournalQuery {
                page,
                limit: 2,
                ..all.clone()
            })
            .unwrap();
        rows.into_iter().map(|row| row.seq.0).collect::<Vec<_>>()
    };
    assert_eq!(page(Page::Forward(None)), [1, 2]);
    assert_eq!(
        page(Page::Forward(Some(rategov_audit::leaf::Seq(2)))),
        [3, 4]
    );
    assert_eq!(page(Page::Backward(None)), [15, 14]);
    assert_eq!(
        page(Page::Backward(Some(rategov_audit::leaf::Seq(14)))),
        [13, 12]
    );

    let row = &reader.journal(&all).unwrap()[1];
    let fact = row.fact.as_ref().unwrap();
    assert_eq!((&fact.source, fact.seq.0), (&engine("openai/main"), 7));
    assert_eq!((fact.at, row.wall), (moment(232), wall(232)));
    assert_eq!(fact.event, ended(2, 2));
}

#[test]
fn actions_are_found_by_key_state_and_owner() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    world.write_all(&engine(OPS), life(OPS, 1, 100));
    world.write_all(&engine(OPS), [(150, asked(OPS, 2))]);
    world.write_all(&engine("openai/main"), [(150, asked("openai/main", 3))]);

    let reader = world.store.reader();
    let ids = |query: ActionQuery| {
        let rows = reader.actions(&query).unwrap();
        rows.into_iter()
            .map(|stored| stored.row.requested.action.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(ActionQuery::default()), [3, 2, 1]);
    let states = vec![State::Admitted, State::Waiting];
    assert_eq!(
        ids(ActionQuery {
            states,
            ..Default::default()
        }),
        [3, 2]
    );
    assert_eq!(
        ids(ActionQuery {
            account: Some(account(OPS)),
            ..Default::default()
        }),
        [2, 1]
    );
    assert_eq!(
        ids(ActionQuery {
            before: Some(action(3)),
            limit: 1,
            ..Default::default()
        }),
        [2]
    );
    assert_eq!(
        ids(ActionQuery {
            agent: Some(agent("nobody")),
            ..Default::default()
        }),
        []
    );

    let by_key = |name: &str, key: &str| reader.actions_by_key(&account(name), key).unwrap().len();
    assert_eq!(
        (
            by_key(OPS, "rec-2"),
            by_key("openai/main", "rec-2"),
            by_key(OPS, "x")
        ),
        (1, 0, 0)
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
fn a_retry_is_found_again_with_what_it_waited() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    let steps = [
        asked(OPS, 1),
        sent(1, 1),
        answered(1, 1, 429),
        retry(1, 2, 131),
    ];
    world.write_all(&engine(OPS), steps.into_iter().map(|event| (100, event)));
    let found = tables(&world, OPS).actions.remove(0);
    assert_eq!(found.state, State::Waiting);
    assert_eq!(
        (found.waited, found.not_before),
        (Span::from_secs(30), moment(131))
    );
    assert_eq!(found.key_safe_until, Some(moment(86_400)));
    assert_eq!(found.last_status, Some(429));
}
