//! What the tests of the store share: clocks that stand still, a store in a
//! folder of its own, and events to fill it with.

#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rusqlite::Connection;

use rategov_core::action::outcome::Certainty;
use rategov_core::cost::Cost;
use rategov_core::event::{Durability, Event, Record, Requested};
use rategov_core::id::{
    Account, ActionId, Agent, Credential, Endpoint, Fingerprint, Provider, RecordSeq, Scope, Task,
};
use rategov_core::record::Tables;
use rategov_core::time::{Moment, Span, WallTime};
use rategov_core::word::{Cause, Class, Outcome, Priority, State};
use rategov_store::{
    Ack, Attachment, CommitFailed, Entry, Full, Journal, Now, Options, Payload, Recovered, Source,
    Store,
};

/// The account that most tests write to.
pub(crate) const OPS: &str = "stripe/ops";

/// When the first boot's wall clock stands at moment zero.
pub(crate) const WALL: i64 = 1_796_000_000;

pub(crate) fn moment(s: u64) -> Moment {
    Moment::from_micros(s * 1_000_000)
}

/// The wall time that goes with a moment of the first boot.
pub(crate) fn wall(s: u64) -> WallTime {
    WallTime::from_secs(WALL + s as i64)
}

pub(crate) fn now(boot: &str, at_s: u64, wall_s: u64) -> Now {
    Now {
        boot_id: boot.to_owned(),
        at: moment(at_s),
        wall: wall(wall_s),
    }
}

pub(crate) fn account(name: &str) -> Account {
    Account::new(name).unwrap()
}

/// The engine of an account.
pub(crate) fn engine(name: &str) -> Source {
    Source::Account(account(name))
}

pub(crate) fn action(n: u128) -> ActionId {
    ActionId(n)
}

pub(crate) fn task(name: &str) -> Task {
    Task::new(name).unwrap()
}

pub(crate) fn agent(name: &str) -> Agent {
    Agent::new(name).unwrap()
}

pub(crate) fn scope(name: &str) -> Scope {
    Scope::new(name).unwrap()
}

/// A store that listens to itself.
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) journal: Journal,
    acks: Receiver<Ack>,
    next: BTreeMap<(Source, u32), u64>,
}

impl World {
    pub(crate) fn open(folder: &Path) -> World {
        World::open_at(folder, &now("boot-1", 100, 100)).0
    }

    pub(crate) fn open_at(folder: &Path, now: &Now) -> (World, Recovered) {
        World::open_with(folder, &Options::default(), now)
    }

    pub(crate) fn open_with(folder: &Path, options: &Options, now: &Now) -> (World, Recovered) {
        let (store, recovered) = Store::open(folder, options, now).unwrap();
        let (sender, acks) = channel();
        store.on_ack(Box::new(move |ack| {
            // A test that ends early hears no more.
            let _ = sender.send(ack);
        }));
        let journal = store.journal();
        (
            World {
                store,
                journal,
                acks,
                next: BTreeMap::new(),
            },
            recovered,
        )
    }

    /// An entry with the next number of its engine's first generation.
    pub(crate) fn entry(&mut self, source: &Source, at_s: u64, event: Event) -> Entry {
        self.entry_of(source, 1, at_s, event)
    }

    pub(crate) fn entry_of(
        &mut self,
        source: &Source,
        generation: u32,
        at_s: u64,
        event: Event,
    ) -> Entry {
        let next = self.next.entry((source.clone(), generation)).or_insert(0);
        *next += 1;
        entry(source, generation, *next, at_s, event)
    }

    pub(crate) fn enqueue(&mut self, source: &Source, at_s: u64, event: Event) -> Result<(), Full> {
        let entry = self.entry(source, at_s, event);
        self.journal.enqueue(entry)
    }

    /// The next acknowledgement. The time is a bound against hanging, not a measure.
    pub(crate) fn ack(&self) -> Ack {
        self.acks.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    /// Writes one event and waits for what becomes of it.
    pub(crate) fn write(
        &mut self,
        source: &Source,
        at_s: u64,
        event: Event,
    ) -> Result<(), CommitFailed> {
        let entry = self.entry(source, at_s, event);
        self.write_entry(entry)
    }

    pub(crate) fn write_entry(&self, entry: Entry) -> Result<(), CommitFailed> {
        self.journal.enqueue(entry).unwrap();
        self.ack().result
    }

    /// Writes events of one engine that must all be taken.
    pub(crate) fn write_all(
        &mut self,
        source: &Source,
        events: impl IntoIterator<Item = (u64, Event)>,
    ) {
        for (at_s, event) in events {
            let word = event.word();
            self.write(source, at_s, event)
                .unwrap_or_else(|error| panic!("{word}: {error}"));
        }
    }
}

/// The statements that lead from one form of the database to the next.
const STEPS: [&str; 6] = [
    include_str!("../../src/migrations/0001_journal.sql"),
    include_str!("../../src/migrations/0002_stops.sql"),
    include_str!("../../src/migrations/0003_exhausted.sql"),
    include_str!("../../src/migrations/0004_uncounted.sql"),
    include_str!("../../src/migrations/0005_blocks.sql"),
    include_str!("../../src/migrations/0006_units.sql"),
];

/// The earlier forms of the database.
pub(crate) const EARLIER_FORMS: std::ops::RangeInclusive<usize> = 1..=STEPS.len();

/// Makes the database of a closed folder one that an earlier program has written.
pub(crate) fn bring_down(folder: &Path, form: usize) {
    let (database, newer) = (folder.join("journal.db"), folder.join("newer.db"));
    std::fs::rename(&database, &newer).unwrap();
    let db = Connection::open(&database).unwrap();
    STEPS[..form]
        .iter()
        .for_each(|step| db.execute_batch(step).unwrap());
    db.pragma_update(None, "user_version", form as i64).unwrap();
    db.execute("ATTACH ?1 AS newer", [newer.to_str().unwrap()])
        .unwrap();
    let names = |sql: &str| -> Vec<String> {
        let mut statement = db.prepare(sql).unwrap();
        let names = statement.query_map((), |row| row.get(0)).unwrap();
        names.map(Result::unwrap).collect()
    };
    for table in names("SELECT name FROM main.sqlite_schema WHERE type = 'table'") {
        let columns = names(&format!(
            "SELECT '\"' || name || '\"' FROM pragma_table_info('{table}', 'main')"
        ));
        let columns = columns.join(", ");
        db.execute_batch(&format!(
            "INSERT INTO main.{table} ({columns}) SELECT {columns} FROM newer.{table}"
        ))
        .unwrap();
    }
    drop(db);
    std::fs::remove_file(newer).unwrap();
}

/// What an engine of the account would begin with now.
pub(crate) fn tables(world: &World, name: &str) -> Tables {
    world
        .store
        .recover(&engine(name), &now("boot-1", 200, 200))
        .unwrap()
}

pub(crate) fn entry(source: &Source, generation: u32, seq: u64, at_s: u64, event: Event) -> Entry {
    let is_write = match &event {
        Event::ActionRequested(requested) => requested.class.is_write(),
        _ => false,
    };
    Entry {
        source: source.clone(),
        generation,
        record: Record {
            seq: RecordSeq(seq),
            at: moment(at_s),
            durability: if is_write {
                Durability::Power
            } else {
                Durability::Process
            },
            event,
        },
        wall: wall(at_s),
        attachments: Vec::new(),
    }
}

/// What was asked for by action `n` of an account.
pub(crate) fn requested(account_name: &str, n: u128) -> Requested {
    Requested {
        action: action(n),
        provider: Provider::new("stripe").unwrap(),
        account: account(account_name),
        credential: Credential::new("live").unwrap(),
        agent: agent("sync-bot"),
        task: Some(task("sync-482")),
        task_stops: 0,
        goal: Some("copy the records".to_owned()),
        priority: Priority::Normal,
        class: Class::IdempotentWrite,
        method: "POST".to_owned(),
        endpoint: Endpoint::new("POST /records").unwrap(),
        model: None,
        path: "/records".to_owned(),
        fingerprint: Fingerprint([7; 16]),
        payload_digest: [9; 32],
        payload_bytes: 12,
        replayable: true,
        key: Some(format!("rec-{n}")),
        earlier: None,
        deadline: moment(3_600),
        detached: false,
        authorised_by: "policy default".to_owned(),
        parent: None,
    }
}

pub(crate) fn asked(account_name: &str, n: u128) -> Event {
    Event::ActionRequested(Arc::new(requested(account_name, n)))
}

pub(crate) fn sent(n: u128, attempt: u16) -> Event {
    Event::ActionSent {
        action: action(n),
        attempt,
        cause: if attempt == 1 {
            Cause::First
        } else {
            Cause::Policy
        },
        scopes: vec![scope("account:ops"), scope("endpoint:POST /records")],
        cost: Cost::ONE,
        waited: if attempt == 1 {
            Span::ZERO
        } else {
            Span::from_secs(30)
        },
        key_safe_until: Some(moment(86_400)),
    }
}

pub(crate) fn answered(n: u128, attempt: u16, status: u16) -> Event {
    let is_done = status < 300;
    Event::ActionResult {
        action: action(n),
        attempt,
        certainty: Certainty::Definite,
        outcome: if is_done {
            Outcome::Done
        } else {
            Outcome::Refused
        },
        status: Some(status),
        retry_after: (status == 429).then(|| Span::from_secs(30)),
        scope: (status == 429).then(|| scope("account:ops")),
        operation_id: is_done.then(|| "r_893".to_owned()),
        error_code: None,
        bytes_written: 120,
        sent_at: Some(moment(1)),
    }
}

pub(crate) fn retry(n: u128, attempt: u16, due_s: u64) -> Event {
    Event::RetryScheduled {
        action: action(n),
        attempt,
        due: moment(due_s),
        waited: Span::from_secs(30),
        why: "429, Retry-After 30".to_owned(),
    }
}

pub(crate) fn ended(n: u128, attempts: u16) -> Event {
    Event::Terminal {
        action: action(n),
        state: State::Succeeded,
        code: "done".to_owned(),
        attempts,
        waited: Span::from_secs(30),
    }
}

/// The life of an action that is refused once and then succeeds.
pub(crate) fn life(account_name: &str, n: u128, from_s: u64) -> Vec<(u64, Event)> {
    vec![
        (from_s, asked(account_name, n)),
        (from_s, sent(n, 1)),
        (from_s + 1, answered(n, 1, 429)),
        (from_s + 1, retry(n, 2, from_s + 31)),
        (from_s + 31, sent(n, 2)),
        (from_s + 32, answered(n, 2, 201)),
        (from_s + 32, ended(n, 2)),
    ]
}

pub(crate) fn payload(n: u128, body: &[u8]) -> Attachment {
    Attachment::Payload(Payload {
        action: action(n),
        head: b"POST /records".to_vec(),
        body: body.to_vec(),
    })
}
