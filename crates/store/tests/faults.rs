//! Folders that are taken, open to others, full, changed behind our back, or
//! written by somebody else; clocks that go back.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{OPS, World, account, action, asked, engine, life, now, payload};
use rategov_audit::clear::Clear;
use rategov_audit::export::Records;
use rategov_audit::finding::Code;
use rategov_audit::leaf::{Leaf, UnixMs};
use rategov_audit::report::{Head, Verdict};
use rategov_audit::verify::{Expect, verify};
use rategov_core::event::Durability;
use rategov_core::time::WallTime;
use rategov_store::{
    CommitFailed, Error, Full, JournalQuery, JournalState, Options, Reader, Store,
};
use rusqlite::Connection;
use tempfile::tempdir;

fn open(folder: &Path) -> Result<Store, Error> {
    Store::open(folder, &Options::default(), &now("boot-1", 200, 200)).map(|(store, _)| store)
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A closed folder with the life of one action in it.
fn filled(folder: &Path) {
    let mut world = World::open(folder);
    world.write_all(&engine(OPS), life(OPS, 1, 100));
    world.store.close().unwrap();
}

/// Changes a closed folder's database as somebody with the file could.
fn behind_our_back(folder: &Path, sql: &str) {
    let db = Connection::open(folder.join("journal.db")).unwrap();
    db.pragma_update(None, "foreign_keys", "OFF").unwrap();
    db.execute_batch("DROP TRIGGER audit_leaf_stays; DROP TRIGGER audit_leaf_keeps_its_bytes;")
        .unwrap();
    db.execute_batch(sql).unwrap();
}

#[test]
fn a_folder_has_one_owner_and_names_it() {
    let folder = tempdir().unwrap();
    let world = World::open(folder.path());
    let refused = open(folder.path()).unwrap_err();
    assert_eq!(refused.code(), "store_in_use");
    let text = refused.to_string();
    assert!(
        text.contains(&format!("process {}", std::process::id())),
        "{text}"
    );
    world.store.close().unwrap();
    assert!(open(folder.path()).is_ok());
}

#[test]
fn nobody_else_can_look_into_the_folder() {
    let parent = tempdir().unwrap();
    let folder = parent.path().join("deep/data");
    filled(&folder);
    let _world = World::open_at(&folder, &now("boot-1", 200, 200));
    assert_eq!(mode(&folder), 0o700);
    for file in std::fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn an_open_folder_is_closed_and_an_open_key_refused() {
    let folder = tempdir().unwrap();
    filled(folder.path());
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    open(folder.path()).unwrap().close().unwrap();
    assert_eq!(mode(folder.path()), 0o700);

    let key = folder.path().join("work.key");
    std::fs::set_permissions(&key, Permissions::from_mode(0o640)).unwrap();
    let refused = open(folder.path()).unwrap_err();
    assert_eq!(refused.code(), "store_exposed");
    assert!(refused.hint().contains("chmod 600"));
}

#[test]
fn a_key_that_is_none_is_refused_and_a_lost_one_told() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    let mut entry = world.entry(&engine(OPS), 100, asked(OPS, 1));
    entry.attachments.push(payload(1, b"body"));
    world.write_entry(entry).unwrap();
    world.store.close().unwrap();

    let key = folder.path().join("work.key");
    let bytes = std::fs::read(&key).unwrap();
    std::fs::write(&key, b"short").unwrap();
    assert_eq!(open(folder.path()).unwrap_err().code(), "store_work_key");
    std::fs::remove_file(&key).unwrap();
    let (world, recovered) = World::open_at(folder.path(), &now("boot-1", 200, 200));
    assert_eq!((recovered.payloads.len(), recovered.lost_payloads), (0, 1));
    assert_eq!(
        world.store.reader().payload(action(1)).unwrap_err().code(),
        "store_sealed"
    );
    world.store.close().unwrap();

    std::fs::write(&key, bytes).unwrap();
    let (world, recovered) = World::open_at(folder.path(), &now("boot-1", 200, 200));
    assert_eq!((recovered.payloads.len(), recovered.lost_payloads), (1, 0));
    assert_eq!(
        world
            .store
            .reader()
            .payload(action(1))
            .unwrap()
            .unwrap()
            .body,
        b"body"
    );
}

#[test]
fn a_full_disk_takes_the_whole_batch_and_nothing_else() {
    let folder = tempdir().unwrap();
    let options = Options {
        database_bytes_max: Some(400 * 1_024),
        ..Options::default()
    };
    let (mut world, _) = World::open_with(folder.path(), &options, &now("boot-1", 100, 100));
    world.write_all(&engine(OPS), life(OPS, 1, 100));
    let size = world
        .store
        .reader()
        .verify(&Expect::default())
        .unwrap()
        .records;

    let mut huge = world.entry(&engine(OPS), 140, asked(OPS, 2));
    huge.attachments.push(payload(2, &vec![7; 1 << 20]));
    assert_eq!(world.write_entry(huge), Err(CommitFailed::DiskFull));
    let reader = world.store.reader();
    assert!(reader.action(action(2)).unwrap().is_none());
    assert_eq!(reader.verify(&Expect::default()).unwrap().records, size);

    // The writer goes on: others at once, the same engine once it is rebuilt.
    world.write_all(&engine("stripe/other"), [(141, asked("stripe/other", 3))]);
    assert_eq!(
        world.write(&engine(OPS), 141, asked(OPS, 4)),
        Err(CommitFailed::EarlierFailed)
    );
    let again = world.entry_of(&engine(OPS), 2, 142, asked(OPS, 2));
    assert_eq!(world.write_entry(again), Ok(()));
    world.store.close().unwrap();

    let (world, recovered) = World::open_at(folder.path(), &now("boot-1", 200, 200));
    assert_eq!(recovered.accounts[&account(OPS)].actions.len(), 1);
    let report = world.store.reader().verify(&Expect::default()).unwrap();
    assert_eq!(
        (report.verdict(), report.records),
        (Verdict::Intact, size + 2)
    );
}

#[test]
fn a_disk_that_fills_up_slowly_loses_nothing_that_was_acknowledged() {
    let folder = tempdir().unwrap();
    let options = Options {
        database_bytes_max: Some(300 * 1_024),
        ..Options::default()
    };
    let (mut world, _) = World::open_with(folder.path(), &options, &now("boot-1", 100, 100));
    let mut taken = Vec::new();
    for n in 1..=2_000u128 {
        let name = format!("stripe/{n}");
        match world.write(&engine(&name), 100, asked(&name, n)) {
            Ok(()) => taken.push(n),
            Err(error) => assert_eq!(error, CommitFailed::DiskFull),
        }
    }
    assert!(
        taken.len() > 10 && taken.len() < 2_000,
        "{} were taken",
        taken.len()
    );
    world.store.close().unwrap();
    let (world, _) = World::open_at(folder.path(), &now("boot-1", 200, 200));
    let reader = world.store.reader();
    assert_eq!(
        reader.verify(&Expect::default()).unwrap().records,
        taken.len() as u64 + 1
    );
    for n in taken {
        assert!(
            reader.action(action(n)).unwrap().is_some(),
            "action {n} is lost"
        );
    }
}

/// Makes a running writer's database refuse a table's rows, as a disk would.
fn refuse(folder: &Path, of: &str) {
    let db = Connection::open(folder.join("journal.db")).unwrap();
    db.execute_batch(&format!(
        "CREATE TRIGGER refused BEFORE {of} BEGIN SELECT RAISE(ABORT, 'no'); END"
    ))
    .unwrap();
}

#[test]
fn a_journal_that_fails_says_so_until_it_writes_again() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    world.write_all(&engine(OPS), life(OPS, 1, 100));
    let takes = |world: &World| matches!(world.journal.state(), JournalState::Takes { .. });
    assert!(takes(&world));
    refuse(folder.path(), "INSERT ON audit_leaf");
    let db = Connection::open(folder.path().join("journal.db")).unwrap();
    db.execute_batch(
        "CREATE TRIGGER neither BEFORE UPDATE ON meta BEGIN SELECT RAISE(ABORT, 'no'); END",
    )
    .unwrap();
    let mut entry = world.entry(&engine("stripe/a"), 140, asked("stripe/a", 2));
    entry.record.durability = Durability::Process;
    let failed = world.write_entry(entry).unwrap_err();
    assert_eq!(world.journal.state(), JournalState::Failing(failed));

    // Nobody hands in anything: the writer itself finds out that it can go on.
    db.execute_batch("DROP TRIGGER refused; DROP TRIGGER neither")
        .unwrap();
    let since = Instant::now();
    while !takes(&world) {
        assert!(
            since.elapsed() < Duration::from_secs(60),
            "it never says so"
        );
        std::thread::yield_now();
    }
    world.write_all(&engine("stripe/b"), [(141, asked("stripe/b", 3))]);
}

#[test]
fn a_journal_that_broke_says_so_until_the_restart() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    refuse(folder.path(), "UPDATE ON meta");
    let mut entry = world.entry(&engine(OPS), 100, asked(OPS, 1));
    entry.record.durability = Durability::Power;
    assert_eq!(world.write_entry(entry), Err(CommitFailed::Broken));
    assert_eq!(world.journal.state(), JournalState::Stopped);
    assert_eq!(
        world.enqueue(&engine(OPS), 101, asked(OPS, 2)),
        Err(Full::Closed)
    );
}

#[test]
fn a_log_that_was_changed_is_not_gone_on_with() {
    let cases = [
        (
            "UPDATE audit_leaf SET content = zeroblob(length(content)) WHERE seq = 3",
            Code::ContentHash,
        ),
        (
            "UPDATE audit_leaf SET content = CAST(content || x'00' AS BLOB) WHERE seq = 3",
            Code::ContentLength,
        ),
        (
            "UPDATE audit_leaf SET leaf = (SELECT leaf FROM audit_leaf WHERE seq = 2) WHERE seq = 3",
            Code::SeqReuse,
        ),
        ("DELETE FROM audit_leaf WHERE seq = 3", Code::SeqOrder),
        (
            "DELETE FROM audit_leaf WHERE seq = 0",
            Code::GenesisMismatch,
        ),
        ("DELETE FROM audit_leaf", Code::Empty),
        (
            "UPDATE meta SET origin = 'rate-governor.local/other/main'",
            Code::GenesisMismatch,
        ),
    ];
    for (sql, code) in cases {
        let folder = tempdir().unwrap();
        filled(folder.path());
        behind_our_back(folder.path(), sql);
        match open(folder.path()) {
            Err(Error::Tampered(finding)) => assert_eq!(finding.code, code, "{sql}: {finding}"),
            other => panic!("{sql}: {other:?}"),
        }
        // A reader, which trusts nothing that is stored beside the log, still reads and tells.
        if !sql.starts_with("UPDATE meta") {
            let report = Reader::open(folder.path())
                .unwrap()
                .verify(&Expect::default())
                .unwrap();
            assert_eq!(report.finding.unwrap().code, code, "{sql}");
        }
    }
}

#[test]
fn only_the_end_of_a_long_log_is_verified_at_the_start() {
    let folder = tempdir().unwrap();
    filled(folder.path());
    behind_our_back(
        folder.path(),
        "UPDATE audit_leaf SET content = x'00' WHERE seq = 2",
    );
    let options = Options {
        verify_last: 3,
        ..Options::default()
    };
    let (store, _) = Store::open(folder.path(), &options, &now("boot-1", 200, 200)).unwrap();
    let report = store.reader().verify(&Expect::default()).unwrap();
    assert_eq!(report.finding.map(|finding| finding.position), Some(2));
}

#[test]
fn a_leaf_is_not_changed_by_mistake() {
    let folder = tempdir().unwrap();
    filled(folder.path());
    let db = Connection::open(folder.path().join("journal.db")).unwrap();
    for sql in [
        "UPDATE audit_leaf SET leaf = x'00'",
        "DELETE FROM audit_leaf WHERE seq = 7",
    ] {
        assert!(db.execute(sql, ()).is_err(), "{sql}");
    }
}

#[test]
fn a_truncated_log_is_seen_only_against_a_remembered_head() {
    let folder = tempdir().unwrap();
    filled(folder.path());
    let head = Reader::open(folder.path())
        .unwrap()
        .verify(&Expect::default())
        .unwrap()
        .head;
    behind_our_back(folder.path(), "DELETE FROM audit_leaf WHERE seq > 5");
    let reader = Reader::open(folder.path()).unwrap();
    let blind = reader.verify(&Expect::default()).unwrap();
    assert_eq!(
        (blind.verdict(), blind.anchored_to),
        (Verdict::Intact, None)
    );
    let anchors: Vec<Head> = head.into_iter().collect();
    let report = reader
        .verify(&Expect {
            anchors,
            ..Expect::default()
        })
        .unwrap();
    assert_eq!(
        report.finding.map(|finding| finding.code),
        Some(Code::Rollback)
    );
}

#[test]
fn an_export_verifies_without_the_folder() {
    let folder = tempdir().unwrap();
    let world = World::open(folder.path());
    let mut world = world;
    world.write_all(&engine(OPS), life(OPS, 1, 100));
    let mut file = Vec::new();
    let count = world.store.reader().export(&mut file).unwrap();
    let report = verify(Records::new(&file[..]), &Expect::default());
    assert_eq!((report.verdict(), report.records), (Verdict::Intact, count));
    assert_eq!(count, 8);
}

#[test]
fn a_wall_clock_that_goes_back_is_recorded_once() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    let ops = engine(OPS);
    world.write_all(&ops, [(100, asked(OPS, 1)), (150, asked(OPS, 2))]);
    for n in 3..6 {
        let mut entry = world.entry(&ops, 151, asked(OPS, n));
        entry.wall = common::wall(120);
        world.write_entry(entry).unwrap();
    }
    world.write_all(&ops, [(200, asked(OPS, 6))]);
    let mut before_1970 = world.entry(&ops, 201, asked(OPS, 7));
    before_1970.wall = WallTime::from_secs(-5);
    world.write_entry(before_1970).unwrap();

    let mut file = Vec::new();
    world.store.reader().export(&mut file).unwrap();
    let leaves: Vec<Leaf> = Records::new(&file[..])
        .map(|record| Leaf::decode(&record.unwrap().leaf).unwrap())
        .collect();
    let told: Vec<_> = leaves
        .iter()
        .filter_map(|leaf| match Clear::decode(leaf.kind, &leaf.clear) {
            Some(Clear::ClockAnomaly { read }) => Some(read),
            _ => None,
        })
        .collect();
    assert_eq!(
        told,
        [UnixMs((common::WALL as u64 + 120) * 1_000), UnixMs(0)]
    );
    assert_eq!(
        verify(Records::new(&file[..]), &Expect::default()).verdict(),
        Verdict::Intact
    );
}

#[test]
fn a_database_of_a_later_program_is_refused() {
    let folder = tempdir().unwrap();
    filled(folder.path());
    let db = Connection::open(folder.path().join("journal.db")).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    drop(db);
    assert_eq!(open(folder.path()).unwrap_err().code(), "store_too_new");
    assert_eq!(
        Reader::open(folder.path()).unwrap_err().code(),
        "store_too_new"
    );
}

#[test]
fn a_folder_without_a_database_is_no_empty_log() {
    let folder = tempdir().unwrap();
    assert_eq!(
        Reader::open(folder.path()).unwrap_err().code(),
        "store_file"
    );
    assert_eq!(
        Reader::open(&folder.path().join("typo"))
            .unwrap_err()
            .code(),
        "store_file"
    );
}

#[test]
fn a_reader_cannot_write() {
    let folder = tempdir().unwrap();
    filled(folder.path());
    // A running reader beside nobody: the folder is not changed by reading it.
    let before = std::fs::read(folder.path().join("journal.db")).unwrap();
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.journal(&JournalQuery::default()).unwrap().len(), 7);
    drop(reader);
    assert_eq!(
        std::fs::read(folder.path().join("journal.db")).unwrap(),
        before
    );
}

#[test]
fn options_out_of_bounds_are_refused() {
    let folder = tempdir().unwrap();
    let options = Options {
        node: "two words".to_owned(),
        ..Options::default()
    };
    let refused = Store::open(folder.path(), &options, &now("b", 1, 1)).unwrap_err();
    assert!(matches!(refused, Error::Option("node")));
    let refused = Store::open(folder.path(), &Options::default(), &now("", 1, 1)).unwrap_err();
    assert!(matches!(refused, Error::Option("boot_id")));
}
