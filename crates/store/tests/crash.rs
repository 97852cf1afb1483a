//! kill -9 at every named point, and a log whose end is torn by a loss of
//! power: whatever was acknowledged is there, whatever was not is wholly there
//! or not at all, and the chain verifies.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use common::{OPS, World, action, answered, asked, engine, entry, now, payload, sent};
use rategov_audit::report::Verdict;
use rategov_audit::verify::Expect;
use rategov_core::event::{Durability, Event};
use rategov_store::{JournalQuery, Options, Page, Store, fail};
use tempfile::tempdir;

const FOLDER: &str = "RATEGOV_TEST_FOLDER";
const ACTIONS: u128 = 40;

/// The events of the workload, in order: three of every action.
fn workload() -> Vec<Event> {
    (1..=ACTIONS)
        .flat_map(|n| [asked(OPS, n), sent(n, 1), answered(n, 1, 201)])
        .collect()
}

/// Writes the workload into a folder, and the number of each acknowledgement
/// beside it the moment it is heard.
fn run(folder: &Path) {
    let (store, _) = Store::open(folder, &Options::default(), &now("boot-1", 100, 100)).unwrap();
    let mut acks = OpenOptions::new()
        .create(true)
        .append(true)
        .open(folder.join("acks"))
        .unwrap();
    let (sender, heard) = std::sync::mpsc::channel();
    let shared = std::sync::Mutex::new(move |seq: u64| {
        writeln!(acks, "{seq}").unwrap();
        sender.send(()).unwrap();
    });
    store.on_ack(Box::new(move |ack| {
        ack.result.unwrap();
        (shared.lock().unwrap())(ack.seq.0);
    }));
    let journal = store.journal();
    for (n, event) in (1..).zip(workload()) {
        let mut entry = entry(&engine(OPS), 1, n, 100, event);
        if let Event::ActionRequested(requested) = &entry.record.event {
            entry.attachments.push(payload(requested.action.0, b"body"));
        } else {
            entry.record.durability = Durability::Process;
        }
        journal.enqueue(entry).unwrap();
        // Some batches hold one entry, others several.
        if n % 4 == 0 {
            (0..4).for_each(|_| heard.recv().unwrap());
        }
    }
    store.close().unwrap();
}

/// What must hold of a folder, whatever happened to its owner. Returns how
/// many records of the workload it holds.
fn check(folder: &Path) -> usize {
    let (world, recovered) = World::open_at(folder, &now("boot-1", 200, 200));
    let reader = world.store.reader();
    let report = reader.verify(&Expect::default()).unwrap();
    assert_eq!(report.verdict(), Verdict::Intact, "{report}");

    let page = Page::Forward(None);
    let rows = reader
        .journal(&JournalQuery {
            page,
            limit: 10_000,
            ..Default::default()
        })
        .unwrap();
    let events: Vec<Event> = rows
        .into_iter()
        .map(|row| row.fact.unwrap().event)
        .collect();
    assert_eq!(
        events,
        workload()[..events.len()],
        "the journal is not a beginning of the workload"
    );

    let requested: BTreeSet<_> = events
        .iter()
        .filter(|event| matches!(event, Event::ActionRequested(_)))
        .filter_map(Event::action)
        .collect();
    assert_eq!(recovered.payloads, requested);
    for n in 1..=ACTIONS {
        let records = events
            .iter()
            .filter(|event| event.action() == Some(action(n)))
            .count();
        let row = reader.action(action(n)).unwrap().map(|stored| stored.row);
        assert_eq!(row.is_some(), records >= 1, "action {n}");
        assert_eq!(
            row.as_ref().map_or(0, |row| row.attempts),
            u16::from(records >= 2)
        );
        // A row changes once with each record after the first.
        assert_eq!(
            row.map_or(0, |row| row.version),
            records as u32,
            "action {n}"
        );
        assert_eq!(
            reader.attempts(action(n)).unwrap().len(),
            usize::from(records >= 2)
        );
        assert_eq!(reader.payload(action(n)).unwrap().is_some(), records >= 1);
    }
    assert_eq!(report.records, events.len() as u64 + 1);
    events.len()
}

fn acknowledged(folder: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(folder.join("acks")).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// Without the variable the workload runs to its end here; with it, this is
/// the process that another test kills.
#[test]
fn the_workload_runs_to_its_end_when_nobody_kills_it() {
    match std::env::var_os(FOLDER) {
        Some(folder) => run(Path::new(&folder)),
        None => {
            let folder = tempdir().unwrap();
            run(folder.path());
            assert_eq!(check(folder.path()), workload().len());
            assert_eq!(acknowledged(folder.path()).len(), workload().len());
        }
    }
}

#[test]
fn killed_at_any_point_it_keeps_what_it_acknowledged() {
    for point in fail::WRITER_POINTS {
        for pass in [1, 2, 9] {
            let folder = tempdir().unwrap();
            let killed = Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "the_workload_runs_to_its_end_when_nobody_kills_it",
                ])
                .env(FOLDER, folder.path())
                .env(fail::VARIABLE, format!("{point}:{pass}"))
                .output()
                .unwrap();
            assert!(
                killed.status.signal().is_some(),
                "{point}:{pass} was never passed"
            );

            let acked = acknowledged(folder.path());
            let kept = check(folder.path());
            let last = acked.iter().max().copied().unwrap_or(0);
            assert!(
                last <= kept as u64,
                "{point}:{pass}: {last} was acknowledged, {kept} kept"
            );
            if *point == fail::BEFORE_COMMIT && pass == 1 {
                assert_eq!((kept, last), (0, 0), "what is not committed is not there");
            }
            if *point == fail::AFTER_COMMIT_BEFORE_SYNC && pass == 1 {
                assert!(kept > 0 && last == 0, "committed, and nobody was told");
            }
            // Whoever comes next goes on with the same chain.
            let (mut world, _) = World::open_at(folder.path(), &now("boot-1", 300, 300));
            world.write_all(&engine(OPS), [(300, asked(OPS, 1_000))]);
            let report = world.store.reader().verify(&Expect::default()).unwrap();
            assert_eq!(
                (report.verdict(), report.records),
                (Verdict::Intact, kept as u64 + 2)
            );
        }
    }
}

/// A loss of power may leave any beginning of the write-ahead log, and garbage
/// after it. Every one of them must open to a beginning of the workload.
#[test]
fn torn_by_a_loss_of_power_it_opens_to_a_beginning() {
    let folder = tempdir().unwrap();
    let world = World::open(folder.path());
    for (n, event) in (1..).zip(workload()) {
        let mut entry = entry(&engine(OPS), 1, n, 100, event);
        if let Event::ActionRequested(requested) = &entry.record.event {
            entry.attachments.push(payload(requested.action.0, b"body"));
        }
        world.write_entry(entry).unwrap();
    }
    // A copy of a running store, its log not folded into the database yet.
    let wal = std::fs::read(folder.path().join("journal.db-wal")).unwrap();
    let mut lengths = BTreeSet::new();
    let step = wal.len() / 40 + 1;
    for cut in (0..wal.len()).step_by(step) {
        let torn = tempdir().unwrap();
        for file in ["journal.db", "work.key"] {
            std::fs::copy(folder.path().join(file), torn.path().join(file)).unwrap();
        }
        let mut bytes = wal[..cut].to_vec();
        bytes.extend(std::iter::repeat_n(0xa5, 6_000));
        std::fs::write(torn.path().join("journal.db-wal"), bytes).unwrap();
        lengths.insert(check(torn.path()));
    }
    assert!(
        lengths.len() > 10,
        "the cuts all gave the same: {lengths:?}"
    );
}
