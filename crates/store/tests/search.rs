//! Finding records and actions by what they are about.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{
    OPS, World, account, action, agent, asked, ended, engine, life, moment, requested, task, wall,
};
use rategov_audit::leaf::Seq;
use rategov_core::event::Event;
use rategov_core::word::State;
use rategov_store::{ActionQuery, JournalQuery, Page, Source};
use tempfile::tempdir;

#[test]
fn records_are_found_by_what_they_are_about() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    world.write_all(&engine(OPS), life(OPS, 1, 100));
    world.write_all(&engine("openai/main"), life("openai/main", 2, 200));
    let opened = Event::TaskOpened {
        task: task("other"),
        agent: agent("b"),
        goal: None,
        deadline: moment(900),
        stops: 0,
    };
    world.write_all(&Source::Tasks, [(300, opened)]);

    let reader = world.store.reader();
    let count = |query: JournalQuery| reader.journal(&query).unwrap().len();
    let all = JournalQuery {
        limit: 1_000,
        ..Default::default()
    };
    assert_eq!(count(all.clone()), 15);
    assert_eq!(
        count(JournalQuery {
            action: Some(action(2)),
            ..all.clone()
        }),
        7
    );
    assert_eq!(
        count(JournalQuery {
            account: Some(account(OPS)),
            ..all.clone()
        }),
        7
    );
    assert_eq!(
        count(JournalQuery {
            agent: Some(agent("b")),
            ..all.clone()
        }),
        1
    );
    assert_eq!(
        count(JournalQuery {
            agent: Some(agent("sync-bot")),
            ..all.clone()
        }),
        14
    );
    assert_eq!(
        count(JournalQuery {
            task: Some(task("sync-482")),
            ..all.clone()
        }),
        14
    );
    assert_eq!(
        count(JournalQuery {
            status: Some(429),
            ..all.clone()
        }),
        2
    );
    assert_eq!(
        count(JournalQuery {
            event: Some("terminal".to_owned()),
            ..all.clone()
        }),
        2
    );
    let from = Some(wall(131));
    assert_eq!(
        count(JournalQuery {
            from,
            until: Some(wall(232)),
            ..all.clone()
        }),
        8
    );
    assert_eq!(
        count(JournalQuery {
            limit: 3,
            ..all.clone()
        }),
        3
    );

    let page = |page| {
        let rows = reader
            .journal(&JournalQuery {
                page,
                limit: 2,
                ..all.clone()
            })
            .unwrap();
        rows.into_iter().map(|row| row.seq.0).collect::<Vec<_>>()
    };
    assert_eq!(page(Page::Forward(None)), [1, 2]);
    assert_eq!(page(Page::Forward(Some(Seq(2)))), [3, 4]);
    assert_eq!(page(Page::Backward(None)), [15, 14]);
    assert_eq!(page(Page::Backward(Some(Seq(14)))), [13, 12]);

    let row = &reader.journal(&all).unwrap()[1];
    let fact = row.fact.as_ref().unwrap();
    assert_eq!((&fact.source, fact.seq.0), (&engine("openai/main"), 7));
    assert_eq!((fact.at, row.wall), (moment(232), wall(232)));
    assert_eq!(fact.event, ended(2, 2));
}

#[test]
fn actions_are_found_by_key_state_and_owner() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    world.write_all(&engine(OPS), life(OPS, 1, 100));
    world.write_all(&engine(OPS), [(150, asked(OPS, 2))]);
    world.write_all(&engine("openai/main"), [(150, asked("openai/main", 3))]);

    let reader = world.store.reader();
    let ids = |query: ActionQuery| {
        let rows = reader.actions(&query).unwrap();
        rows.into_iter()
            .map(|stored| stored.row.requested.action.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(ActionQuery::default()), [3, 2, 1]);
    let states = vec![State::Admitted, State::Waiting];
    assert_eq!(
        ids(ActionQuery {
            states,
            ..Default::default()
        }),
        [3, 2]
    );
    assert_eq!(
        ids(ActionQuery {
            account: Some(account(OPS)),
            ..Default::default()
        }),
        [2, 1]
    );
    assert_eq!(
        ids(ActionQuery {
            before: Some(action(3)),
            limit: 1,
            ..Default::default()
        }),
        [2]
    );
    assert_eq!(
        ids(ActionQuery {
            agent: Some(agent("nobody")),
            ..Default::default()
        }),
        []
    );

    let by_key = |name: &str, key: &str| reader.actions_by_key(&account(name), key).unwrap().len();
    assert_eq!(
        (
            by_key(OPS, "rec-2"),
            by_key("openai/main", "rec-2"),
            by_key(OPS, "x")
        ),
        (1, 0, 0)
    );
}

#[test]
fn a_name_that_looks_like_an_id_may_be_a_key() {
    let folder = tempdir().unwrap();
    let mut world = World::open(folder.path());
    let (first, second) = (action(0xa1).to_string(), action(0xa2).to_string());
    for (n, key) in [(0xa1, "x"), (0xa2, "x"), (0xa3, first.as_str())] {
        let mut requested = requested(OPS, n);
        requested.key = Some(key.to_owned());
        world.write_all(
            &engine(OPS),
            [(100, Event::ActionRequested(Arc::new(requested)))],
        );
    }
    let reader = world.store.reader();
    let named = |name: &str, of: Option<&str>| {
        let of = of.map(account);
        let found = reader.actions_named(name, of.as_ref()).unwrap();
        let ids = found.into_iter().map(|it| it.row.requested.action.0);
        ids.collect::<Vec<u128>>()
    };
    // An id is nobody's choice and comes first; the key of the same form is there too.
    assert_eq!(named(&first, None), [0xa1, 0xa3]);
    assert_eq!(named(&second, None), [0xa2]);
    assert_eq!(named("x", Some(OPS)), [0xa2, 0xa1]);
    assert_eq!(named(&first, Some("stripe/other")), []);
    let key = "5d2ac5b2-6c1e-4c7e-9a50-0d8c3c1f7a11";
    assert_eq!(named(key, None), []);
    let mut requested = requested(OPS, 0xa4);
    requested.key = Some(key.to_owned());
    world.write_all(
        &engine(OPS),
        [(101, Event::ActionRequested(Arc::new(requested)))],
    );
    assert_eq!(named(key, None), [0xa4]);
}
