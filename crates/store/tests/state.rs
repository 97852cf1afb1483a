//! What every store must keep beside its records, and give back: rows across
//! restarts and boots, questions, payloads and results, and for how long.

#![allow(clippy::unwrap_used)]

mod common;

use common::{
    EARLIER_FORMS, OPS, WALL, World, account, action, agent, answered, asked, bring_down, ended,
    engine, life, moment, now, payload, requested, retry, scope, sent, tables, task,
};
use rategov_audit::report::Verdict;
use rategov_audit::verify::Expect;
use rategov_core::event::{CancelledBy, Decider, Event, ScopeChange};
use rategov_core::id::{EscalationId, Operator};
use rategov_core::record::ScopeRow;
use rategov_core::time::{Moment, Span};
use rategov_core::word::{Choice, Mode, State, Trigger};
use rategov_store::{
    Asked, Attachment, Boot, CommitFailed, JournalQuery, Reader, Source, StoredResult,
};
use tempfile::tempdir;

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
        exhausted: false,
        source: "HTTP 429 Retry-After".to_owned(),
        told: Vec::new(),
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
        stops: 0,
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
fn what_ended_long_ago_is_swept_and_the_log_keeps_it() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    let mut last = world.entry(&engine(OPS), 100, asked(OPS, 1));
    last.attachments.push(payload(1, b"body"));
    world.write_entry(last).unwrap();
    world.write_all(&engine(OPS), life(OPS, 1, 100).into_iter().skip(1));
    world.write_all(&engine(OPS), life(OPS, 2, 200).into_iter().take(4));
    // Its id is of a clock that was two months ahead.
    let ahead = ((WALL as u128 + 62 * 24 * 3_600) * 1_000) << 80;
    world.write_all(&engine(OPS), life(OPS, ahead, 300));
    let opened = Event::TaskOpened {
        task: task("old"),
        agent: agent("a"),
        goal: None,
        deadline: moment(3_600),
        stops: 0,
    };
    world.write_all(&Source::Tasks, [(200, opened)]);

    // The writer sweeps between batches, soon after the start.
    let later = 31 * 24 * 3_600;
    for n in 0..100 {
        let event = Event::PolicyChanged {
            policy_digest: [0; 32],
        };
        world.write_all(&Source::Governor, [(later + n, event)]);
    }
    let reader = world.store.reader();
    assert!(
        reader.action(action(1)).unwrap().is_none(),
        "it ended a month ago"
    );
    assert!(reader.attempts(action(1)).unwrap().is_empty());
    assert!(reader.tasks(10).unwrap().is_empty());
    assert_eq!(
        reader.action(action(2)).unwrap().unwrap().row.state,
        State::Waiting
    );
    assert_eq!(reader.attempts(action(2)).unwrap().len(), 1);
    assert!(reader.action(action(ahead)).unwrap().is_some());
    let query = JournalQuery {
        action: Some(action(1)),
        ..Default::default()
    };
    assert_eq!(reader.journal(&query).unwrap().len(), 7);
    assert_eq!(
        reader.verify(&Expect::default()).unwrap().verdict(),
        Verdict::Intact
    );
}

#[test]
fn a_database_of_an_earlier_program_is_read_and_brought_up() {
    EARLIER_FORMS.for_each(check_brought_up);
}

fn check_brought_up(form: usize) {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    let opened = Event::TaskOpened {
        task: task("sync"),
        agent: agent("a"),
        goal: None,
        deadline: moment(9_000),
        stops: 0,
    };
    world.write_all(&Source::Tasks, [(300, opened)]);
    world.write_all(
        &engine(OPS),
        [(310, asked(OPS, 1)), (310, closed_scope(400))],
    );
    world.store.close().unwrap();
    bring_down(folder.path(), form);

    let rows = |reader: &Reader| {
        let action = reader.action(action(1)).unwrap();
        (action, reader.tasks(9).unwrap(), reader.scopes().unwrap())
    };
    let before = rows(&Reader::open(folder.path()).unwrap());
    assert_eq!((before.1.len(), before.2.len()), (1, 1));
    assert!(before.0.is_some());
    let world = World::open(folder.path());
    assert_eq!(rows(&world.store.reader()), before);
}
