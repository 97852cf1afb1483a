//! What reads cost the journal's writer, and what a start costs.
//!
//! ```text
//! cargo run --release -p rategov-store --example writes -- [CALLS [CALLS_OF_A_BATCH]]
//! cargo run --release -p rategov-store --example writes -- start [ACCOUNTS]
//! ```
//!
//! A batch of `n` calls is one transaction: the ends of the `n` calls before it, and
//! the beginnings of its own, as the gateway writes them. Shown is the processor time
//! of the writer's thread for each call, and the pages that a transaction adds to the
//! log (from the header of SQLite's index of it, where the log's last page stands).

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use rategov_core::action::outcome::Certainty;
use rategov_core::cost::Cost;
use rategov_core::event::{Durability, Event, Record, Requested};
use rategov_core::id::{
    Account, ActionId, Agent, Credential, Endpoint, Fingerprint, Provider, RecordSeq, Scope, Task,
};
use rategov_core::time::{Moment, Span, WallTime};
use rategov_core::word::{Cause, Class, Outcome, Priority, State};
use rategov_store::{Ack, Entry, Journal, Now, Options, Source, Store};

/// When the clocks begin: moment zero, and 2026-12-01.
const WALL_MS: u64 = 1_796_083_200_000;
/// Between two calls.
const EVERY_MICROS: u64 = 500;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("start") => start(number(words.get(1), 14_000)),
        calls => {
            let calls = number(calls.map(str::to_owned).as_ref(), 50_000);
            match words.get(1) {
                Some(batch) => write(calls, number(Some(batch), 1)),
                None => [1, 4, 32].into_iter().for_each(|batch| write(calls, batch)),
            }
        }
    }
}

fn number(word: Option<&String>, default: u64) -> u64 {
    word.map_or(default, |word| word.parse().unwrap())
}

/// Writes calls of one account by nine agents with three tasks each.
fn write(calls: u64, batch: u64) {
    let folder = tempfile::tempdir().unwrap();
    let mut driver = Driver::open(folder.path());
    let account = Account::new("openai/main").unwrap();
    let mut ends: Vec<Event> = Vec::new();
    // Whoever has written has begun.
    let first = Event::PolicyChanged {
        policy_digest: [0; 32],
    };
    driver.write(&account, 0, vec![first]);
    let (mut pages, mut log) = (0, pages_of_log(folder.path()));
    let before = cpu_ns();
    for first in (0..calls).step_by(usize::try_from(batch).unwrap()) {
        let mut events = std::mem::take(&mut ends);
        for n in first..first + batch {
            events.extend(begins(&account, n));
            ends.extend(ended(n));
        }
        driver.write(&account, first, events);
        let now = pages_of_log(folder.path());
        // A log that was folded in begins anew.
        pages += if log <= now { now - log } else { now };
        log = now;
    }
    let micros = (cpu_ns() - before) as f64 / 1_000.0;
    println!(
        "batch {batch:>2}: {:>5.1} µs of the writer a call, {:>4.1} pages a transaction, {:>4} MB",
        micros / calls as f64,
        pages as f64 / (calls / batch) as f64,
        std::fs::metadata(folder.path().join("journal.db"))
            .unwrap()
            .len()
            / 1_000_000,
    );
}

/// Opens a folder in which each account made five calls a day ago and three lately.
fn start(accounts: u64) {
    let folder = tempfile::tempdir().unwrap();
    let mut driver = Driver::open(folder.path());
    let day = 24 * 3_600 * 1_000_000 / EVERY_MICROS;
    for call in 0..8 {
        let lately = if 5 <= call { 2 * day } else { 0 };
        for n in 0..accounts {
            let account = Account::new(&format!("openai/{n:05}")).unwrap();
            let number = lately + call * accounts + n;
            let mut events = begins(&account, number);
            events.extend(ended(number));
            driver.write(&account, number, events);
        }
    }
    drop(driver);
    for (what, boot) in [("the same boot", "boot"), ("another boot", "later")] {
        let began = Instant::now();
        let (store, recovered) = Store::open(
            folder.path(),
            &Options::default(),
            &now(boot, 2 * day + 8 * accounts),
        )
        .unwrap();
        let ms = began.elapsed().as_millis();
        drop(store);
        let sends = recovered.accounts.values().map(|it| it.attempts.len());
        println!(
            "start, {what}: {ms} ms for {} accounts with {} sends",
            recovered.accounts.len(),
            sends.sum::<usize>(),
        );
    }
}

struct Driver {
    store: Store,
    journal: Journal,
    acks: Receiver<Vec<Ack>>,
    seqs: std::collections::BTreeMap<Account, u64>,
}

impl Driver {
    fn open(folder: &Path) -> Driver {
        let (store, _) = Store::open(folder, &Options::default(), &now("boot", 0)).unwrap();
        let (sender, acks) = channel();
        store.on_acks(Box::new(move |told| {
            // Whoever measured is done.
            let _ = sender.send(told);
        }));
        let journal = store.journal();
        let seqs = std::collections::BTreeMap::new();
        Driver {
            store,
            journal,
            acks,
            seqs,
        }
    }

    /// One transaction.
    fn write(&mut self, account: &Account, n: u64, events: Vec<Event>) {
        let mut awaited = events.len();
        let seq = self.seqs.entry(account.clone()).or_default();
        let mut run = self.journal.begin();
        for event in events {
            *seq += 1;
            let is_end = matches!(event, Event::ActionResult { .. } | Event::Terminal { .. });
            let entry = Entry {
                source: Source::Account(account.clone()),
                generation: 1,
                record: Record {
                    seq: RecordSeq(*seq),
                    at: moment(n),
                    durability: match is_end {
                        true => Durability::Soon,
                        false => Durability::Process,
                    },
                    event,
                },
                wall: wall(n),
                attachments: Vec::new(),
            };
            run.enqueue(entry).unwrap();
        }
        drop(run);
        while awaited > 0 {
            let told = self.acks.recv().unwrap();
            assert!(told.iter().all(|ack| ack.result.is_ok()), "{told:?}");
            awaited -= told.len();
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.store.close().unwrap();
    }
}

fn moment(n: u64) -> Moment {
    Moment::from_micros(1_000_000 + n * EVERY_MICROS)
}

fn wall(n: u64) -> WallTime {
    WallTime::from_micros(i64::try_from(WALL_MS * 1_000 + n * EVERY_MICROS).unwrap())
}

fn now(boot: &str, n: u64) -> Now {
    Now {
        boot_id: boot.to_owned(),
        at: moment(n),
        wall: wall(n),
    }
}

/// A UUID of version 7, as the gateway makes them: a time, then chance.
fn id(n: u64) -> ActionId {
    let ms = u128::from(WALL_MS + n * EVERY_MICROS / 1_000);
    let chance = u128::from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    ActionId(ms << 80 | 7 << 76 | u128::from(n & 0xfff) << 64 | chance)
}

fn begins(account: &Account, n: u64) -> Vec<Event> {
    let requested = Requested {
        action: id(n),
        provider: Provider::new("openai").unwrap(),
        account: account.clone(),
        credential: Credential::new("main").unwrap(),
        agent: Agent::new(&format!("agent-{}", n % 9)).unwrap(),
        task: Some(Task::new(&format!("nightly-{}", n % 3)).unwrap()),
        task_stops: 0,
        goal: None,
        priority: Priority::Normal,
        class: Class::Read,
        method: "GET".to_owned(),
        endpoint: Endpoint::new("GET /v1/models/{model}").unwrap(),
        model: None,
        path: "/v1/models/gpt-small".to_owned(),
        fingerprint: Fingerprint([7; 16]),
        payload_digest: [9; 32],
        payload_bytes: 0,
        replayable: true,
        key: None,
        earlier: None,
        deadline: moment(n) + Span::from_secs(600),
        detached: false,
        authorised_by: "policy default".to_owned(),
        parent: None,
    };
    let sent = Event::ActionSent {
        action: id(n),
        attempt: 1,
        cause: Cause::First,
        scopes: vec![
            Scope::new("account:main").unwrap(),
            Scope::new("endpoint:GET /v1/models/{model}").unwrap(),
        ],
        cost: Cost::ONE,
        waited: Span::ZERO,
        key_safe_until: None,
    };
    vec![Event::ActionRequested(Arc::new(requested)), sent]
}

fn ended(n: u64) -> [Event; 2] {
    let result = Event::ActionResult {
        action: id(n),
        attempt: 1,
        certainty: Certainty::Definite,
        outcome: Outcome::Done,
        status: Some(200),
        retry_after: None,
        scope: None,
        operation_id: None,
        error_code: None,
        bytes_written: 180,
        sent_at: Some(moment(n)),
    };
    let terminal = Event::Terminal {
        action: id(n),
        state: State::Succeeded,
        code: "done".to_owned(),
        attempts: 1,
        waited: Span::ZERO,
    };
    [result, terminal]
}

/// Processor time of the writer's thread.
fn cpu_ns() -> u64 {
    std::fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|task| task.unwrap().path())
        .find(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(|it| it == "journal\n"))
        .and_then(|task| std::fs::read_to_string(task.join("schedstat")).ok())
        .and_then(|stat| stat.split_whitespace().next()?.parse().ok())
        .unwrap()
}

/// The number of the last page in the log.
fn pages_of_log(folder: &Path) -> u64 {
    let index = std::fs::read(folder.join("journal.db-shm")).unwrap_or_default();
    let place = index.get(16..20).and_then(|bytes| bytes.try_into().ok());
    place.map_or(0, |bytes| u64::from(u32::from_ne_bytes(bytes)))
}
