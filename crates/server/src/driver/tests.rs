//! Engines in service without a gateway: what becomes of what they say when
//! nobody takes it, and who runs an action after a lost commit.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rategov_core::action::breaker::Path;
use rategov_core::cost::Cost;
use rategov_core::engine::{Marker, Setup, Submit, TaskAllowance};
use rategov_core::event::{Durability, Event, Record, Requested};
use rategov_core::id::{
    Account, ActionId, Agent, Credential, Endpoint, Fingerprint, Provider, RecordSeq, Task,
};
use rategov_core::policy::{AccountPolicy, ClassTable, Profile, TaskLimits};
use rategov_core::record::{ActionRow, Tables};
use rategov_core::tasks::{TaskBook, task_key};
use rategov_core::time::{Moment, Span};
use rategov_core::word::{Class, Priority, State};
use rategov_store::{Attachment, Entry, JournalQuery, Options, Page, Payload, Source, Store};
use tempfile::TempDir;

use super::*;

/// Who resumes: keeps the mailboxes, runs nothing.
#[derive(Default)]
struct Keeper(Mutex<Vec<Mailbox>>);

impl Keeper {
    /// The generations of the mailboxes that were handed over.
    fn generations(&self) -> Vec<u32> {
        lock(&self.0).iter().map(Mailbox::generation).collect()
    }
}

impl Resume for Keeper {
    fn setup(&self, row: &ActionRow) -> Option<Setup> {
        Some(setup(row.requested.class))
    }

    fn start(&self, _: &Arc<Cell>, _: &ActionRow, mailbox: Mailbox) {
        lock(&self.0).push(mailbox);
    }

    fn child_payload(&self, _: Payload, _: &Requested) -> Option<Attachment> {
        None
    }

    fn policy(&self, _: &Account) -> AccountPolicy {
        AccountPolicy::default()
    }

    fn task_limits(&self) -> TaskLimits {
        TaskLimits::default()
    }
}

fn account() -> Account {
    Account::new("billing/ops").unwrap()
}

fn setup(class: Class) -> Setup {
    Setup {
        profile: Arc::new(Profile::nothing()),
        scopes: vec![account_scope(&account())].into(),
        cost: Cost::ONE,
        sizing: None,
        limits: Arc::new(ClassTable::default().of(class).clone()),
        weight: 1,
        agent_concurrent_max: None,
        attempt_timeout: Span::from_secs(60),
        may_send_new: false,
    }
}

struct World {
    driver: Driver,
    keeper: Arc<Keeper>,
    cell: Arc<Cell>,
    folder: TempDir,
}

impl World {
    fn new() -> World {
        World::on(TempDir::new().unwrap())
    }

    /// A start on a folder, whatever it holds.
    fn on(folder: TempDir) -> World {
        let clock = Clock::new();
        let opened = Store::open(folder.path(), &Options::default(), &clock.paired());
        let (store, recovered) = opened.unwrap();
        let tasks = TaskBook::restore(TaskLimits::default(), recovered.tasks);
        let driver = Driver::new(clock, store, tasks, 8);
        driver.listen_to_journal();
        let keeper = Arc::new(Keeper::default());
        driver.connect(Arc::clone(&keeper) as Arc<dyn Resume>);
        driver.take_up(recovered.accounts);
        let cell = driver
            .cell_of(&account())
            .unwrap_or_else(|| driver.install(&account(), 1, Tables::default()));
        World {
            driver,
            keeper,
            cell,
            folder,
        }
    }

    /// The same folder after this process is no more.
    fn restarted(self) -> World {
        self.driver.store().close().unwrap();
        World::on(self.folder)
    }

    fn state(&self, id: ActionId) -> Option<State> {
        let found = self.driver.store().reader().action(id).unwrap();
        found.map(|found| found.row.state)
    }

    /// Hands in a call that goes on without its caller.
    fn submit(&self, class: Class) -> (ActionId, Mailbox) {
        self.submit_for(class, None)
    }

    /// The same on behalf of a task.
    fn submit_for(&self, class: Class, task: Option<&Task>) -> (ActionId, Mailbox) {
        let id = new_action_id();
        let mailbox = self.driver.register(&self.cell, id).unwrap();
        let requested = Requested {
            action: id,
            provider: Provider::new("billing").unwrap(),
            account: account(),
            credential: Credential::new("billing/ops#1").unwrap(),
            agent: Agent::new("ana").unwrap(),
            task: task.cloned(),
            task_stops: 0,
            goal: None,
            priority: Priority::Normal,
            class,
            method: "GET".to_owned(),
            endpoint: Endpoint::new("GET /records").unwrap(),
            model: None,
            path: "/records".to_owned(),
            fingerprint: Fingerprint([1; 16]),
            payload_digest: [0; 32],
            payload_bytes: 0,
            replayable: true,
            key: None,
            earlier: None,
            deadline: Moment::NEVER,
            detached: true,
            authorised_by: "agent token".to_owned(),
            parent: None,
        };
        let submit = Submit {
            requested: Arc::new(requested),
            setup: setup(class),
            hold_until: Moment::NEVER,
            task: TaskAllowance::UNLIMITED,
            marker: Marker::None,
            earlier: None,
        };
        self.driver.submit(&self.cell, submit, None);
        (id, mailbox)
    }

    /// Looks again and again until it holds.
    async fn until(&self, what: &str, holds: impl Fn(&World) -> bool) {
        for _ in 0..2_000 {
            if holds(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("never: {what}");
    }

    fn out(&self) -> usize {
        self.driver
            .look(&self.cell, |engine, _| engine.on_the_wire())
    }
}

#[tokio::test]
async fn a_grant_that_nobody_takes_gives_its_seat_back_and_ends_its_action() {
    for class in [Class::Read, Class::UncertainWrite] {
        let world = World::new();
        let (id, mailbox) = world.submit(class);
        assert_eq!(
            world.out(),
            1,
            "its seat is taken before its grant is durable"
        );
        drop(mailbox);
        world
            .until("the seat is free", |world| world.out() == 0)
            .await;
        world
            .until("the end is recorded", |world| {
                let row = world.driver.store().reader().action(id).unwrap();
                row.is_some_and(|found| found.row.state == State::CancelledNotSent)
            })
            .await;
    }
}

#[tokio::test]
async fn what_was_granted_to_an_action_that_nobody_can_run_is_handed_back() {
    let world = World::new();
    let (_, mut mailbox) = world.submit(Class::UncertainWrite);
    let first = mailbox.next().await.unwrap();
    assert!(matches!(first, Mail::Output(Output::Grant(_))), "{first:?}");
    world.driver.leave_unrun(&world.cell, mailbox, first);
    assert_eq!(world.out(), 0);
}

#[tokio::test]
async fn a_read_without_a_caller_gets_a_runner_of_the_new_life_when_its_old_one_has_ended() {
    let world = World::new();
    let (_, mut mailbox) = world.submit(Class::Read);
    assert!(mailbox.next().await.is_some(), "it is durable");
    // As if the journal had lost a record that was still to come.
    world.driver.with(&world.cell, |engine| {
        engine.handle_commit_failed(RecordSeq(3))
    });
    tokio::time::timeout(Duration::from_secs(10), world.cell.closed())
        .await
        .unwrap();
    // Long enough for the rebuilding to look: nothing else goes on, so no time passes.
    tokio::time::pause();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    tokio::time::resume();
    let current = world.driver.cell_of(&account()).unwrap();
    assert_eq!(current.generation, 1, "its old runner is still there");
    drop(mailbox);
    world
        .until("it has a runner", |world| world.keeper.generations() == [2])
        .await;
}

/// The end of a task is in the journal, and the process dies before any engine has
/// heard of it.
async fn a_stop_that_only_the_journal_knows_is_carried_out_at_the_start(task: Option<&str>) {
    let world = World::new();
    let task = task.map(|name| Task::new(name).unwrap());
    let key = task_key(&Agent::new("ana").unwrap(), task.as_ref());
    let path = Path {
        account: account(),
        endpoint: Endpoint::new("GET /records").unwrap(),
    };
    world.driver.admit_task(&key, None, &path).unwrap();
    let (id, mut mailbox) = world.submit_for(Class::Read, task.as_ref());
    assert!(mailbox.next().await.is_some(), "it is durable");
    let stop = Record {
        seq: RecordSeq(2),
        at: world.driver.clock().now(),
        durability: Durability::Power,
        event: Event::TaskCancelled {
            task: key.1.clone(),
            agent: key.0.clone(),
            by: CancelledBy::Agent(key.0.clone()),
        },
    };
    let entry = Entry {
        source: Source::Tasks,
        generation: 1,
        wall: world.driver.clock().wall(),
        record: stop,
        attachments: Vec::new(),
    };
    world.driver.0.journal.enqueue(entry).unwrap();
    let is_stopped = |world: &World| {
        let rows = world.driver.store().reader().tasks(9).unwrap();
        rows.iter().any(|it| it.row.stops == 1)
    };
    world.until("the stop is recorded", is_stopped).await;
    assert_eq!(world.state(id), Some(State::Dispatching));

    let world = world.restarted();
    world
        .until("it ended", |world| {
            world.state(id) == Some(State::CancelledNotSent)
        })
        .await;
    let query = JournalQuery {
        action: Some(id),
        page: Page::Forward(None),
        ..JournalQuery::default()
    };
    let records = world.driver.store().reader().journal(&query).unwrap();
    let words: Vec<&str> = records.iter().map(|it| it.event.as_str()).collect();
    assert_eq!(
        words,
        [
            "action_requested",
            "action_sent",
            "cancelled",
            "action_result",
            "terminal"
        ]
    );
    // What is called afterwards is nobody's business but its own.
    if task.is_none() {
        let later = world.driver.admit_task(&key, None, &path).unwrap();
        assert_eq!(later.stops, 1);
    }
}

#[tokio::test]
async fn a_named_task_that_was_stopped_is_stopped_at_the_start() {
    a_stop_that_only_the_journal_knows_is_carried_out_at_the_start(Some("sync")).await;
}

#[tokio::test]
async fn a_default_task_that_was_stopped_is_stopped_at_the_start() {
    a_stop_that_only_the_journal_knows_is_carried_out_at_the_start(None).await;
}

#[tokio::test]
async fn nothing_leaves_of_a_default_task_from_when_it_was_told_to_stop() {
    let world = World::new();
    let key = task_key(&Agent::new("ana").unwrap(), None);
    let (id, mut mailbox) = world.submit(Class::Read);
    let granted = mailbox.next().await.unwrap();
    assert!(
        matches!(granted, Mail::Output(Output::Grant(_))),
        "{granted:?}"
    );
    // Before the engines hear of it: that is told to them from tasks of their own.
    let receipt = world.driver.cancel_task(&key, CancelledBy::Task).unwrap();
    let leave = world.driver.may_leave(&world.cell, &key, id);
    assert_eq!(leave, Leave::CalledBack);
    receipt.durable().await.unwrap();
}
