//! Files that are taken away, exchanged or cut while a store has them open, and
//! starts on what is left: never taken for a new folder, never written to unseen.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::{OPS, World, account, action, asked, engine, life, now};
use rategov_store::{CommitFailed, Error, Full, Options, Store};
use tempfile::{TempDir, tempdir};

/// A data folder in a folder of its own, so that it can be moved.
fn place() -> (TempDir, PathBuf) {
    let parent = tempdir().unwrap();
    let folder = parent.path().join("data");
    (parent, folder)
}

fn open(folder: &Path) -> Result<Store, Error> {
    Store::open(folder, &Options::default(), &now("boot-1", 200, 200)).map(|(store, _)| store)
}

fn cut(file: &Path) {
    let file = OpenOptions::new().write(true).open(file).unwrap();
    file.set_len(0).unwrap();
}

/// Something happens to the files of a running store: what is recorded next is
/// refused, and nothing after it is taken.
fn check_noticed(what: &str, happens: fn(&Path)) {
    let (_parent, folder) = place();
    let mut world = World::open(&folder);
    world.write_all(&engine(OPS), life(OPS, 1, 100));
    assert!(world.journal.free() > 0);
    happens(&folder);
    let next = world.entry(&engine(OPS), 140, asked(OPS, 2));
    match world.journal.enqueue(next) {
        Ok(()) => assert_eq!(world.ack().result, Err(CommitFailed::Gone), "{what}"),
        // It was noticed before anybody asked.
        Err(refused) => assert_eq!(refused, Full::Closed, "{what}"),
    }
    assert_eq!(world.journal.free(), 0, "{what}");
    let next = world.entry(&engine(OPS), 141, asked(OPS, 3));
    assert_eq!(world.journal.enqueue(next), Err(Full::Closed), "{what}");
}

fn elsewhere(folder: &Path) -> PathBuf {
    folder.with_extension("moved")
}

#[test]
fn a_journal_whose_files_lost_their_names_takes_no_more_records() {
    check_noticed("removed", |folder| std::fs::remove_dir_all(folder).unwrap());
    check_noticed("moved", |folder| {
        std::fs::rename(folder, elsewhere(folder)).unwrap();
    });
    check_noticed("database removed", |folder| {
        std::fs::remove_file(folder.join("journal.db")).unwrap();
    });
    check_noticed("database cut", |folder| cut(&folder.join("journal.db")));
    check_noticed("log removed", |folder| {
        std::fs::remove_file(folder.join("journal.db-wal")).unwrap();
    });
    check_noticed("exchanged", |folder| {
        std::fs::rename(folder, elsewhere(folder)).unwrap();
        open(folder).unwrap().close().unwrap();
    });
}

#[test]
fn a_loss_is_noticed_while_nothing_is_written() {
    let (_parent, folder) = place();
    let world = World::open(&folder);
    std::fs::remove_dir_all(&folder).unwrap();
    // A bound against hanging, not a measure.
    let until = Instant::now() + Duration::from_secs(60);
    while world.journal.free() > 0 {
        assert!(Instant::now() < until, "it is never noticed");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_was_in_a_log_that_is_removed_is_still_saved() {
    let (_parent, folder) = place();
    let mut world = World::open(&folder);
    world.write_all(&engine(OPS), life(OPS, 1, 100));
    std::fs::remove_file(folder.join("journal.db-wal")).unwrap();
    let next = world.entry(&engine(OPS), 140, asked(OPS, 2));
    // Whether it is refused now or was before: the writer has ended after it.
    let _ = world.journal.enqueue(next);
    world.store.close().unwrap();
    let (world, recovered) = World::open_at(&folder, &now("boot-1", 200, 200));
    assert!(!recovered.accounts.contains_key(&account("stripe/other")));
    assert!(world.store.reader().action(action(1)).unwrap().is_some());
}

#[test]
fn files_that_took_the_place_of_the_journal_are_left_alone() {
    let (_parent, folder) = place();
    let mut world = World::open(&folder);
    world.write_all(&engine(OPS), life(OPS, 1, 100));
    std::fs::rename(&folder, elsewhere(&folder)).unwrap();
    std::fs::create_dir(&folder).unwrap();
    let log = folder.join("journal.db-wal");
    std::fs::write(&log, b"another journal's").unwrap();
    world.store.close().unwrap();
    drop(world);
    assert_eq!(std::fs::read(&log).unwrap(), b"another journal's");
    let (world, _) = World::open_at(&elsewhere(&folder), &now("boot-1", 200, 200));
    assert!(world.store.reader().action(action(1)).unwrap().is_some());
}

/// A start on a folder that has keys and no journal is refused, also the second time.
fn check_refused(what: &str, happens: fn(&Path)) {
    let (_parent, folder) = place();
    let mut world = World::open(&folder);
    world.write_all(&engine(OPS), life(OPS, 1, 100));
    world.store.close().unwrap();
    drop(world);
    happens(&folder);
    for _ in 0..2 {
        let refused = open(&folder).unwrap_err();
        assert_eq!(refused.code(), "store_journal_gone", "{what}: {refused}");
        assert!(refused.hint().contains("journal.db back"), "{what}");
    }
}

#[test]
fn a_journal_that_is_gone_is_not_begun_anew_beside_its_keys() {
    check_refused("removed", |folder| {
        std::fs::remove_file(folder.join("journal.db")).unwrap();
    });
    check_refused("cut", |folder| cut(&folder.join("journal.db")));
    check_refused("removed, another key", |folder| {
        std::fs::remove_file(folder.join("journal.db")).unwrap();
        std::fs::rename(folder.join("work.key"), folder.join("identity.key")).unwrap();
    });
    check_refused("without a form", |folder| {
        std::fs::remove_file(folder.join("journal.db")).unwrap();
        let db = rusqlite::Connection::open(folder.join("journal.db")).unwrap();
        db.execute_batch("CREATE TABLE other (n)").unwrap();
    });
}

#[test]
fn a_start_that_was_killed_before_it_made_anything_goes_on() {
    let (_parent, folder) = place();
    std::fs::create_dir(&folder).unwrap();
    File::create(folder.join("journal.db")).unwrap();
    assert!(open(&folder).is_ok());
}
