//! What a call's rows cost in pages: its end finds room where its beginning stands.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{OPS, World, answered, ended, engine, now, requested, sent};
use rategov_core::event::Event;
use rusqlite::Connection;
use tempfile::tempdir;

/// Calls that are open at once: their rows fill many pages.
const CALLS: u128 = 300;

/// Pages of the table of actions in a closed folder.
fn pages(folder: &Path) -> u64 {
    let db = Connection::open(folder.join("journal.db")).unwrap();
    let sql = "SELECT count(*) FROM dbstat WHERE name = 'action'";
    let pages: i64 = db.query_row(sql, (), |row| row.get(0)).unwrap();
    pages.try_into().unwrap()
}

/// A call of its own length, so that some pages are filled to the last bytes.
fn asks(n: u128) -> Event {
    let mut requested = requested(OPS, n);
    requested.goal = Some("x".repeat(usize::try_from(n % 97).unwrap()));
    Event::ActionRequested(Arc::new(requested))
}

/// The answer to a read: it names no operation.
fn plain_answer(n: u128) -> Event {
    let mut event = answered(n, 1, 200);
    if let Event::ActionResult { operation_id, .. } = &mut event {
        *operation_id = None;
    }
    event
}

#[test]
fn the_end_of_a_call_needs_no_page_more_than_its_beginning() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    for n in 1..=CALLS {
        world.write_all(&engine(OPS), [(300, asks(n)), (300, sent(n, 1))]);
    }
    world.store.close().unwrap();
    let open = pages(folder.path());
    assert!(30 < open, "{open} pages say nothing");

    let (mut world, _) = World::open_at(folder.path(), &now("boot-1", 400, 400));
    for n in 1..=CALLS {
        world.write_all(&engine(OPS), [(400, plain_answer(n)), (400, ended(n, 1))]);
    }
    world.store.close().unwrap();
    assert_eq!(pages(folder.path()), open);
}
