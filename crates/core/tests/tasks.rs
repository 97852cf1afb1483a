//! The task book: budgets over accounts, ends that stay, breakers, bounds.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use rategov_core::action::breaker::Path;
use rategov_core::action::failure::{ErrorCode, Failure};
use rategov_core::event::{CancelledBy, Durability, Record};
use rategov_core::fold::Fold;
use rategov_core::id::{Account, Agent, Endpoint, Task};
use rategov_core::policy::TaskLimits;
use rategov_core::record::TaskRow;
use rategov_core::tasks::{
    Spent, TASKS_MAX, TASKS_PER_AGENT_MAX, TaskBook, TaskKey, TaskOutput, TaskRefusal, task_key,
};
use rategov_core::time::{Moment, Span};

const NOW: Moment = Moment::from_micros(5_000_000_000);

fn limits() -> TaskLimits {
    TaskLimits {
        max_retries: 5,
        max_wait: Span::from_secs(100),
        deadline: Span::from_secs(3_600),
        breaker_failures: 3,
    }
}

fn key(agent: &str, task: &str) -> TaskKey {
    (Agent::new(agent).unwrap(), Task::new(task).unwrap())
}

fn default_of(agent: &str) -> TaskKey {
    task_key(&Agent::new(agent).unwrap(), None)
}

fn path(account: &str) -> Path {
    Path {
        account: Account::new(account).unwrap(),
        endpoint: Endpoint::new("POST /jobs").unwrap(),
    }
}

fn drain(book: &mut TaskBook) -> Vec<TaskOutput> {
    std::iter::from_fn(|| book.poll_output()).collect()
}

/// Takes the records, commits them, and gives what follows.
fn commit(book: &mut TaskBook, fold: &mut Fold) -> Vec<TaskOutput> {
    let mut after = Vec::new();
    let mut records: Vec<Record> = Vec::new();
    for output in drain(book) {
        match output {
            TaskOutput::Record(record) => records.push(record),
            other => after.push(other),
        }
    }
    for record in records {
        fold.apply(None, &record).unwrap();
        book.handle_committed(record.seq);
    }
    after.extend(drain(book));
    after
}

fn rows(book: &TaskBook) -> Vec<TaskRow> {
    let mut rows: Vec<TaskRow> = book.rows().cloned().collect();
    rows.sort_by(|a, b| (&a.agent, &a.task).cmp(&(&b.agent, &b.task)));
    rows
}

#[test]
fn a_budget_is_one_over_all_accounts_and_binds_when_it_is_spent() {
    let (mut book, sync) = (TaskBook::new(limits()), key("ana", "sync"));
    let allowed =
        |book: &mut TaskBook, account: &str| book.admit(NOW, &sync, None, &path(account)).unwrap();
    assert_eq!(allowed(&mut book, "stripe/live").retries, 5);
    book.charge(NOW, &sync, 3, Span::from_secs(40));
    let left = allowed(&mut book, "openai/team");
    assert_eq!((left.retries, left.wait), (2, Span::from_secs(60)));
    book.charge(NOW, &sync, 9, Span::from_secs(400));
    let left = book.allowance(&sync);
    assert_eq!((left.retries, left.wait), (0, Span::ZERO));
}

#[test]
fn tasks_of_the_same_name_of_two_agents_never_meet() {
    let mut book = TaskBook::new(limits());
    let (ana, bob) = (key("ana", "sync"), key("bob", "sync"));
    for key in [&ana, &bob] {
        book.admit(NOW, key, None, &path("a/b")).unwrap();
    }
    book.charge(NOW, &ana, 5, Span::ZERO);
    book.cancel(NOW, &ana, CancelledBy::Task).unwrap();
    assert_eq!(book.allowance(&bob).retries, 5);
    assert!(book.may_send(&bob, 0) && !book.may_send(&ana, 0));
}

#[test]
fn a_cancel_is_told_to_the_engines_only_once_it_is_durable() {
    let (mut book, sync) = (TaskBook::new(limits()), key("ana", "sync"));
    book.admit(NOW, &sync, None, &path("a/b")).unwrap();
    drain(&mut book);
    book.cancel(NOW, &sync, CancelledBy::Task).unwrap();
    let outputs = drain(&mut book);
    let [TaskOutput::Record(record)] = &outputs[..] else {
        panic!("{outputs:?}");
    };
    assert_eq!(record.durability, Durability::Power);
    book.handle_committed(record.seq);
    let told = TaskOutput::Cancelled {
        key: sync.clone(),
        stops: 1,
        by: CancelledBy::Task,
    };
    assert_eq!(drain(&mut book), [told]);
    assert_eq!(
        book.admit(NOW, &sync, None, &path("a/b")),
        Err(TaskRefusal::Cancelled)
    );
    assert_eq!(book.allowance(&sync).retries, 0);
    book.cancel(NOW, &sync, CancelledBy::Task).unwrap();
    assert_eq!(drain(&mut book), [], "it ends once");
}

#[test]
fn a_task_that_was_ended_before_its_first_call_stays_ended() {
    let (mut book, sync) = (TaskBook::new(limits()), key("ana", "sync"));
    book.cancel(NOW, &sync, CancelledBy::Task).unwrap();
    assert_eq!(
        book.admit(NOW, &sync, None, &path("a/b")),
        Err(TaskRefusal::Cancelled)
    );
}

#[test]
fn a_deadline_counts_from_the_first_call() {
    let (mut book, sync) = (TaskBook::new(limits()), key("ana", "sync"));
    book.admit(NOW, &sync, None, &path("a/b")).unwrap();
    let later = NOW + Span::from_secs(3_599);
    assert!(book.admit(later, &sync, None, &path("a/b")).is_ok());
    assert_eq!(book.deadline(&sync), Some(NOW + Span::from_secs(3_600)));
    let over = NOW + Span::from_secs(3_600);
    assert_eq!(
        book.admit(over, &sync, None, &path("a/b")),
        Err(TaskRefusal::DeadlineExceeded)
    );
}

#[test]
fn a_default_task_has_no_deadline_and_its_budget_begins_anew() {
    let (mut book, own) = (TaskBook::new(limits()), default_of("ana"));
    book.admit(NOW, &own, None, &path("a/b")).unwrap();
    assert_eq!(book.deadline(&own), Some(Moment::NEVER));
    book.charge(NOW, &own, 5, Span::from_secs(100));
    let soon = NOW + Span::from_secs(3_599);
    let left = book.admit(soon, &own, None, &path("a/b")).unwrap();
    assert_eq!(left.retries, 0, "the period is not over");
    assert_eq!(book.spent(soon, &own), Some(Spent::Retries(5)));
    let later = NOW + Span::from_secs(3_600);
    assert_eq!(book.renews_at(&own), Some(later));
    assert_eq!(book.spent(later, &own), None, "the next call has it anew");
    let left = book.admit(later, &own, None, &path("a/b")).unwrap();
    assert_eq!((left.retries, left.wait), (5, Span::from_secs(100)));
}

#[test]
fn a_budget_that_is_spent_says_which_and_how_much_it_was() {
    let (mut book, sync) = (TaskBook::new(limits()), key("ana", "sync"));
    assert_eq!(book.spent(NOW, &sync), None, "nobody knows it");
    book.admit(NOW, &sync, None, &path("a/b")).unwrap();
    book.charge(NOW, &sync, 4, Span::from_secs(99));
    assert_eq!(book.spent(NOW, &sync), None);
    book.charge(NOW, &sync, 0, Span::from_secs(1));
    let spent = book.spent(NOW, &sync).unwrap();
    assert_eq!(spent, Spent::Wait(Span::from_secs(100)));
    book.charge(NOW, &sync, 1, Span::ZERO);
    let spent = book.spent(NOW, &sync).unwrap();
    assert_eq!(spent.to_string(), "all 5 repeats of the task are spent");
    assert_eq!(book.renews_at(&sync), None, "a task has its budget once");
    book.cancel(NOW, &sync, CancelledBy::Task).unwrap();
    assert_eq!(book.spent(NOW, &sync), None, "it has ended");
}

#[test]
fn cancelling_a_default_task_stops_what_it_has_in_hand_and_nothing_more() {
    let (mut book, own) = (TaskBook::new(limits()), default_of("ana"));
    let mut fold = Fold::new();
    book.admit(NOW, &own, None, &path("a/b")).unwrap();
    book.charge(NOW, &own, 4, Span::from_secs(90));
    book.cancel(NOW, &own, CancelledBy::Task).unwrap();
    let told = commit(&mut book, &mut fold);
    assert!(matches!(&told[..], [TaskOutput::Cancelled { .. }]));
    let left = book.admit(NOW, &own, None, &path("a/b")).unwrap();
    assert_eq!(
        left.retries, 1,
        "its budget is no easier to get than before"
    );
    commit(&mut book, &mut fold);
    let restored = TaskBook::restore(limits(), fold.tables(NOW, Span::ZERO).tasks);
    assert_eq!(rows(&restored), rows(&book));
}

#[test]
fn what_a_default_task_had_in_hand_when_it_was_stopped_never_sends_again() {
    let (mut book, own) = (TaskBook::new(limits()), default_of("ana"));
    let mut fold = Fold::new();
    let mut admitted = Vec::new();
    for _stop in 0..3 {
        admitted.push(book.admit(NOW, &own, None, &path("a/b")).unwrap().stops);
        book.cancel(NOW, &own, CancelledBy::Task).unwrap();
        commit(&mut book, &mut fold);
    }
    // Its next period changes nothing of that.
    let later = NOW + Span::from_secs(3_600);
    let last = book.admit(later, &own, None, &path("a/b")).unwrap().stops;
    commit(&mut book, &mut fold);
    let restored = TaskBook::restore(limits(), fold.tables(later, Span::ZERO).tasks);
    for book in [&book, &restored] {
        for stops in &admitted {
            assert!(!book.may_send(&own, *stops), "{stops}");
        }
        assert!(book.may_send(&own, last));
    }
}

fn failure(code: &str) -> Failure {
    Failure {
        code: ErrorCode::normalised(code).unwrap(),
        sentence: None,
    }
}

#[test]
fn a_path_that_fails_identically_stops_for_its_task_and_for_no_other() {
    let mut book = TaskBook::new(limits());
    let (sync, other) = (key("ana", "sync"), key("ana", "report"));
    for key in [&sync, &other] {
        book.admit(NOW, key, None, &path("a/b")).unwrap();
    }
    let tripped: Vec<bool> = (0..3)
        .map(|_| {
            book.failed(NOW, &sync, &path("a/b"), &failure("invalid"))
                .is_some()
        })
        .collect();
    assert_eq!(tripped, [false, false, true]);
    assert!(matches!(
        book.admit(NOW, &sync, None, &path("a/b")),
        Err(TaskRefusal::BreakerTripped(_))
    ));
    assert!(book.admit(NOW, &sync, None, &path("a/c")).is_ok());
    assert!(book.admit(NOW, &other, None, &path("a/b")).is_ok());
    book.open_path(&other, &path("a/b"));
    assert!(book.admit(NOW, &sync, None, &path("a/b")).is_err());
    book.open_path(&sync, &path("a/b"));
    assert!(book.admit(NOW, &sync, None, &path("a/b")).is_ok());
}

#[test]
fn a_reopened_account_opens_its_own_paths_in_every_task() {
    let mut book = TaskBook::new(limits());
    let (sync, other) = (key("ana", "sync"), key("ben", "other"));
    let stopped = |book: &mut TaskBook, key: &TaskKey, account: &str| {
        book.admit(NOW, key, None, &path(account)).is_err()
    };
    for (key, account) in [(&sync, "a/b"), (&sync, "c/b"), (&other, "a/b")] {
        assert!(!stopped(&mut book, key, account));
        for _ in 0..3 {
            book.failed(NOW, key, &path(account), &failure("invalid"));
        }
        assert!(stopped(&mut book, key, account));
    }
    book.reset_breakers_of(&Account::new("a/b").unwrap());
    assert!(!stopped(&mut book, &sync, "a/b"));
    assert!(!stopped(&mut book, &other, "a/b"));
    assert!(
        stopped(&mut book, &sync, "c/b"),
        "another account's stays stopped"
    );
}

#[test]
fn a_success_between_failures_keeps_the_path_open() {
    let (mut book, sync) = (TaskBook::new(limits()), key("ana", "sync"));
    book.admit(NOW, &sync, None, &path("a/b")).unwrap();
    for _ in 0..5 {
        book.failed(NOW, &sync, &path("a/b"), &failure("invalid"));
        book.failed(NOW, &sync, &path("a/b"), &failure("invalid"));
        book.succeeded(&sync, &path("a/b"));
    }
    assert!(book.admit(NOW, &sync, None, &path("a/b")).is_ok());
}

#[test]
fn budgets_and_ends_outlive_a_restart() {
    let mut book = TaskBook::new(limits());
    let mut fold = Fold::new();
    let (sync, ended) = (key("ana", "sync"), key("ana", "ended"));
    for key in [&sync, &ended] {
        book.admit(NOW, key, Some("the goal".to_owned()), &path("a/b"))
            .unwrap();
    }
    book.charge(NOW, &sync, 2, Span::from_secs(7));
    book.cancel(NOW, &ended, CancelledBy::Task).unwrap();
    commit(&mut book, &mut fold);
    let mut restored = TaskBook::restore(limits(), fold.tables(NOW, Span::ZERO).tasks);
    assert_eq!(rows(&restored), rows(&book));
    assert_eq!(restored.allowance(&sync).retries, 3);
    assert_eq!(
        restored.admit(NOW, &ended, None, &path("a/b")),
        Err(TaskRefusal::Cancelled)
    );
}

#[test]
fn after_a_lost_commit_the_book_takes_nothing_and_tells_it_once() {
    let (mut book, sync) = (TaskBook::new(limits()), key("ana", "sync"));
    book.admit(NOW, &sync, None, &path("a/b")).unwrap();
    book.cancel(NOW, &sync, CancelledBy::Task).unwrap();
    book.handle_commit_failed();
    book.handle_commit_failed();
    assert_eq!(drain(&mut book), [TaskOutput::Faulted]);
    let other = key("ana", "other");
    assert_eq!(
        book.cancel(NOW, &other, CancelledBy::Task),
        Err(TaskRefusal::AuditUnavailable)
    );
    assert_eq!(
        book.admit(NOW, &other, None, &path("a/b")),
        Err(TaskRefusal::AuditUnavailable)
    );
}

#[test]
fn one_agent_cannot_fill_the_book() {
    let mut book = TaskBook::new(limits());
    let open = |book: &mut TaskBook, now, agent: &str, n: usize| {
        let opened = book.admit(now, &key(agent, &format!("t{n}")), None, &path("a/b"));
        drain(book);
        opened.map(|_| ())
    };
    for n in 0..TASKS_PER_AGENT_MAX {
        open(&mut book, NOW, "ana", n).unwrap();
    }
    assert_eq!(
        open(&mut book, NOW, "ana", 99_999),
        Err(TaskRefusal::TooMany)
    );
    assert_eq!(open(&mut book, NOW, "bob", 0), Ok(()));
    book.cancel(NOW, &key("ana", "t7"), CancelledBy::Task)
        .unwrap();
    assert_eq!(
        open(&mut book, NOW, "ana", 99_999),
        Ok(()),
        "an ended one made room"
    );
    assert_eq!(book.rows().count(), TASKS_PER_AGENT_MAX + 1);
    let over = NOW + Span::from_secs(3_600);
    assert_eq!(
        open(&mut book, over, "ana", 99_998),
        Ok(()),
        "one past its deadline"
    );
}

#[test]
fn a_full_book_forgets_what_is_over_longest_and_else_turns_away() {
    let mut book = TaskBook::new(limits());
    for n in 0..TASKS_MAX {
        let agent = format!("agent-{}", n % 20);
        let at = NOW + Span::from_micros(n as u64);
        book.admit(at, &key(&agent, &format!("t{n}")), None, &path("a/b"))
            .unwrap();
        drain(&mut book);
    }
    let late = key("zoe", "late");
    assert_eq!(
        book.admit(NOW + Span::from_secs(60), &late, None, &path("a/b")),
        Err(TaskRefusal::TooMany)
    );
    let over = NOW + Span::from_secs(3_600);
    assert!(book.admit(over, &late, None, &path("a/b")).is_ok());
    assert_eq!(book.rows().count(), TASKS_MAX);
    assert!(book.deadline(&key("agent-0", "t0")).is_none());
    assert!(book.deadline(&key("agent-1", "t1")).is_some());
}

#[test]
fn of_too_many_rows_those_that_go_on_are_taken_up() {
    let row = |n: usize, cancelled| TaskRow {
        task: Task::new(&format!("t{n}")).unwrap(),
        agent: Agent::new("ana").unwrap(),
        goal: None,
        opened_at: NOW + Span::from_micros(n as u64),
        deadline: NOW + Span::from_secs(3_600),
        retries: 0,
        waited: Span::ZERO,
        stops: u32::from(cancelled),
        cancelled,
    };
    let rows: Vec<TaskRow> = (0..=TASKS_MAX).map(|n| row(n, n != 0)).collect();
    let book = TaskBook::restore(limits(), rows);
    assert_eq!(book.rows().count(), TASKS_MAX);
    assert!(book.deadline(&key("ana", "t0")).is_some());
    assert!(book.deadline(&key("ana", "t1")).is_none());
}

#[test]
fn a_task_has_ended_once_it_admits_nothing_more() {
    let mut book = TaskBook::new(limits());
    let (stopped, late, own) = (key("ana", "a"), key("ana", "b"), default_of("ana"));
    assert!(!book.has_ended(NOW, &stopped), "it has not begun");
    for task in [&stopped, &late, &own] {
        book.admit(NOW, task, None, &path("x")).unwrap();
        assert!(!book.has_ended(NOW, task));
    }
    for task in [&stopped, &own] {
        book.cancel(NOW, task, CancelledBy::Task).unwrap();
    }
    let after = NOW + limits().deadline;
    for task in [&stopped, &late, &own] {
        assert_eq!(
            book.has_ended(after, task),
            book.admit(after, task, None, &path("x")).is_err()
        );
    }
    assert!(book.has_ended(NOW, &stopped) && !book.has_ended(after, &own));
}
