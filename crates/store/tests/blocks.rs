//! A search of the journal finds what a look at every record would find, whatever the
//! clocks did, across restarts and lost commits, and in the folders of earlier programs.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::{
    EARLIER_FORMS, OPS, World, action, agent, answered, bring_down, engine, moment, now, requested,
    sent, task, wall,
};
use proptest::prelude::*;
use rategov_audit::leaf::Seq;
use rategov_core::event::Event;
use rategov_store::{Entry, JournalQuery, JournalRow, Page, Reader, Source};
use rusqlite::Connection;
use tempfile::{TempDir, tempdir};

/// Records of a block.
const BLOCK: u64 = 256;

/// One record to be: about which action or task, and what the wall clock does before it.
#[derive(Clone, Copy, Debug)]
struct Step {
    n: u128,
    clock: u8,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0u128..40, 0u8..200).prop_map(|(n, clock)| Step { n, clock });
    prop::collection::vec(step, 200..900)
}

/// Writes the records of a history, and restarts now and then.
fn write(folder: &TempDir, steps: &[Step], restart_every: usize) {
    let mut known: BTreeSet<u128> = BTreeSet::new();
    let mut sent_already: BTreeSet<u128> = BTreeSet::new();
    let mut at = 1_000;
    for part in steps.chunks(restart_every) {
        let mut world = World::open_at(folder.path(), &now("boot-1", at, at)).0;
        for step in part {
            at = match step.clock {
                0 => at.saturating_sub(700),
                1 => at + 900,
                other => at + u64::from(other % 3),
            };
            let entry = match step.n {
                0 => world.entry(&Source::Tasks, at, opened()),
                1 => world.entry(&Source::Governor, at, changed()),
                n if known.insert(n) => world.entry(&engine(OPS), at, asked(n)),
                n if sent_already.insert(n) => world.entry(&engine(OPS), at, sent(n, 1)),
                n if sent_already.insert(n + 100) => {
                    world.entry(&engine(OPS), at, answered(n, 1, 429))
                }
                n => world.entry(&engine(OPS), at, joined(n)),
            };
            world.journal.enqueue(entry).unwrap();
        }
        for _ in part {
            assert_eq!(world.ack().result, Ok(()));
        }
    }
}

fn opened() -> Event {
    Event::TaskOpened {
        task: task("t1"),
        agent: agent("a1"),
        goal: None,
        deadline: moment(90_000),
        stops: 0,
    }
}

fn changed() -> Event {
    Event::PolicyChanged {
        policy_digest: [0; 32],
    }
}

/// Three agents, three tasks, and some calls of no task. An agent may have the name
/// of a task.
fn asked(n: u128) -> Event {
    let mut requested = requested(OPS, n);
    requested.agent = agent(["a1", "t1", "a2"][n as usize % 3]);
    requested.task = [Some("t1"), Some("t2"), None, Some("a1")][n as usize % 4].map(task);
    Event::ActionRequested(Arc::new(requested))
}

fn joined(n: u128) -> Event {
    Event::Joined {
        action: action(n),
        by: "key".to_owned(),
    }
}

fn queries() -> impl Strategy<Value = Vec<JournalQuery>> {
    let seq = || prop::option::of(0u64..1_100).prop_map(|seq| seq.map(Seq));
    let page = prop_oneof![
        seq().prop_map(Page::Forward),
        seq().prop_map(Page::Backward)
    ];
    let name = |names: &'static [&'static str]| prop::option::of(prop::sample::select(names));
    let time = || prop::option::of(0u64..3_000);
    let limit = prop_oneof![Just(0u32), 1u32..9, Just(5_000)];
    let words = ["joined", "action_sent", "policy_changed"].map(str::to_owned);
    let query = (
        (
            name(&["a1", "a2", "t1", "nobody"]),
            name(&["t1", "t2", "a1"]),
        ),
        prop::option::of(0u128..45),
        (time(), time()),
        prop::option::weighted(0.2, prop::sample::select(words.to_vec())),
        prop::option::weighted(0.1, Just(429u16)),
        (page, limit),
    );
    let query = query.prop_map(
        |(names, n, times, event, status, (page, limit))| JournalQuery {
            agent: names.0.map(agent),
            task: names.1.map(task),
            action: n.map(action),
            account: None,
            from: times.0.map(wall),
            until: times.1.map(wall),
            status,
            event,
            page,
            limit,
        },
    );
    prop::collection::vec(query, 40)
}

/// What a query asks for, found by looking at every record.
fn looked_through(all: &[JournalRow], query: &JournalQuery) -> Vec<u64> {
    let wanted = |row: &&JournalRow| {
        let status = match &row.fact.as_ref().unwrap().event {
            Event::ActionResult { status, .. } => *status,
            _ => None,
        };
        query
            .agent
            .as_ref()
            .is_none_or(|it| row.agent.as_deref() == Some(it.as_str()))
            && query
                .task
                .as_ref()
                .is_none_or(|it| row.task.as_deref() == Some(it.as_str()))
            && query.action.is_none_or(|it| row.action == Some(it))
            && query.from.is_none_or(|it| row.wall >= it)
            && query.until.is_none_or(|it| row.wall < it)
            && query.event.as_ref().is_none_or(|it| row.event == *it)
            && query.status.is_none_or(|it| status == Some(it))
            && match query.page {
                Page::Forward(after) => after.is_none_or(|it| row.seq > it),
                Page::Backward(before) => before.is_none_or(|it| row.seq < it),
            }
    };
    let mut found: Vec<u64> = all.iter().filter(wanted).map(|row| row.seq.0).collect();
    if matches!(query.page, Page::Backward(_)) {
        found.reverse();
    }
    found.truncate(query.limit as usize);
    found
}

/// Every record, found without a search.
fn every_record(reader: &Reader) -> Vec<JournalRow> {
    let all = JournalQuery {
        page: Page::Forward(None),
        limit: 10_000,
        ..Default::default()
    };
    reader.journal(&all).unwrap()
}

fn seqs(reader: &Reader, query: &JournalQuery) -> Vec<u64> {
    let rows = reader.journal(query).unwrap();
    rows.into_iter().map(|row| row.seq.0).collect()
}

fn check(folder: &TempDir, records: usize, queries: &[JournalQuery]) -> Result<(), TestCaseError> {
    let reader = Reader::open(folder.path()).unwrap();
    let all = every_record(&reader);
    prop_assert_eq!(all.len(), records);
    for query in queries {
        prop_assert_eq!(
            seqs(&reader, query),
            looked_through(&all, query),
            "{:?}",
            query
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_search_finds_what_a_look_at_every_record_finds(
        steps in steps(),
        restart_every in 100usize..900,
        queries in queries(),
    ) {
        let folder = tempdir().unwrap();
        write(&folder, &steps, restart_every);
        check(&folder, steps.len(), &queries)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn a_folder_of_an_earlier_program_is_searched_before_and_after_it_is_brought_up(
        steps in steps(),
        more in steps(),
        form in EARLIER_FORMS,
        queries in queries(),
    ) {
        let folder = tempdir().unwrap();
        write(&folder, &steps, 1_000);
        bring_down(folder.path(), form);
        check(&folder, steps.len(), &queries)?;

        drop(World::open(folder.path()));
        check(&folder, steps.len(), &queries)?;
        // Other actions, so that each may begin anew.
        let more: Vec<Step> = more
            .into_iter()
            .map(|step| Step { n: if step.n < 2 { step.n } else { step.n + 1_000 }, ..step })
            .collect();
        write(&folder, &more, 1_000);
        check(&folder, steps.len() + more.len(), &queries)?;
    }
}

/// The rows that sum up: of blocks, and of the names in them.
fn summed_up(folder: &TempDir) -> (u64, u64) {
    let db = Connection::open(folder.path().join("journal.db")).unwrap();
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        db.query_row(&sql, (), |row| row.get::<_, i64>(0)).unwrap() as u64
    };
    (count("journal_block"), count("journal_mention"))
}

fn entries(world: &mut World, of: std::ops::Range<u64>) -> Vec<Entry> {
    of.map(|n| world.entry(&engine(OPS), 100, asked(u128::from(n))))
        .collect()
}

#[test]
fn a_block_is_summed_up_by_the_record_behind_it_and_not_before() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    // Record 0 is the log's own.
    for entry in entries(&mut world, 1..BLOCK) {
        assert_eq!(world.write_entry(entry), Ok(()));
    }
    assert_eq!(summed_up(&folder), (0, 0));
    for entry in entries(&mut world, BLOCK..BLOCK + 1) {
        assert_eq!(world.write_entry(entry), Ok(()));
    }
    // 255 actions, three agents, three tasks.
    assert_eq!(summed_up(&folder), (1, 255 + 3 + 3));
}

#[test]
fn what_was_noted_of_a_lost_commit_is_forgotten() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    let mut lost = entries(&mut world, 1..400);
    lost.truncate(200);
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON audit_leaf WHEN NEW.seq >= 150
        BEGIN SELECT RAISE(ABORT, 'no'); END";
    let db = Connection::open(folder.path().join("journal.db")).unwrap();
    db.execute_batch(refuse).unwrap();
    let mut failed = 0;
    for entry in lost {
        world.journal.enqueue(entry).unwrap();
        failed += u64::from(world.ack().result.is_err());
    }
    assert_eq!(failed, 51);
    db.execute_batch("DROP TRIGGER refuse").unwrap();
    // The engine's next life asks for other things.
    for n in 1_000..1_300 {
        let entry = world.entry_of(&engine(OPS), 2, 101, asked(n));
        assert_eq!(world.write_entry(entry), Ok(()));
    }
    let reader = world.store.reader();
    let all = every_record(&reader);
    for n in [1, 149, 150, 199, 1_000, 1_106, 1_107, 1_299] {
        let query = JournalQuery {
            action: Some(action(n)),
            ..Default::default()
        };
        assert_eq!(seqs(&reader, &query), looked_through(&all, &query), "{n}");
    }
    let (blocks, mentions) = summed_up(&folder);
    assert_eq!((blocks, mentions), (1, 255 + 3 + 3));
}
