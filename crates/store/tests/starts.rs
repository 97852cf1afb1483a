//! What a start finds, and a search of actions, is what a look at every action finds.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::{World, account, action, agent, engine, life, moment, now, scope, sent, task, wall};
use proptest::prelude::*;
use rategov_core::action::outcome::Certainty;
use rategov_core::cost::Cost;
use rategov_core::event::Event;
use rategov_core::id::Account;
use rategov_core::record::{ActionRow, AttemptRow, Tables};
use rategov_core::time::Span;
use rategov_core::word::{Outcome, State};
use rategov_store::{ActionQuery, Reader, Source, Stamped};
use tempfile::tempdir;

/// When the start is, and how long ago a send may be that it needs.
const NOW_S: u64 = 300_000;
const HORIZON_S: u64 = 24 * 3_600;

/// So much of the life of an action, from a moment on.
#[derive(Clone, Copy, Debug)]
struct Part {
    from_s: u64,
    steps: usize,
    lost: bool,
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = (100..NOW_S - 100, 1usize..8, any::<bool>());
    let part = part.prop_map(|(from_s, steps, lost)| Part {
        from_s,
        steps,
        lost,
    });
    prop::collection::vec(part, 1..40)
}

fn name(n: usize) -> String {
    format!("stripe/{}", n % 5)
}

/// An action whose outcome is unknown, and that is given up while it is looked up.
fn lost_life(name: &str, n: u128, from_s: u64) -> Vec<(u64, Event)> {
    let id = action(n);
    let lost = Event::ActionResult {
        action: id,
        attempt: 1,
        certainty: Certainty::Unknown,
        outcome: Outcome::Unknown,
        status: None,
        retry_after: None,
        scope: None,
        operation_id: None,
        error_code: None,
        bytes_written: 9,
        sent_at: Some(moment(from_s)),
    };
    let find_out = Event::ReconciliationRequired {
        action: id,
        why: "reset".to_owned(),
        not_before: moment(from_s + 2),
    };
    let look_up = Event::LookupSent {
        action: id,
        lookup: 1,
        scopes: vec![scope("account:ops")],
        cost: Cost::ONE,
    };
    let given_up = Event::Terminal {
        action: id,
        state: State::AbandonedUnknown,
        code: "outcome_unknown".to_owned(),
        attempts: 1,
        waited: Span::ZERO,
    };
    let asked = common::asked(name, n);
    let events = [asked, sent(n, 1), lost, find_out, look_up, given_up];
    (from_s..).zip(events).collect()
}

fn write(world: &mut World, parts: &[Part]) {
    for (n, part) in parts.iter().enumerate() {
        let (name, id) = (name(n), n as u128 + 1);
        let life = match part.lost {
            true => lost_life(&name, id, part.from_s),
            false => life(&name, id, part.from_s),
        };
        world.write_all(&engine(&name), life.into_iter().take(part.steps));
    }
}

fn every_action(reader: &Reader) -> Vec<Stamped<ActionRow>> {
    let all = ActionQuery {
        limit: 10_000,
        ..Default::default()
    };
    reader.actions(&all).unwrap()
}

/// The tables that each account is owed, by a look at all rows.
fn looked_through(reader: &Reader) -> BTreeMap<Account, Tables> {
    let since = wall(NOW_S - HORIZON_S);
    let mut accounts: BTreeMap<Account, Tables> = BTreeMap::new();
    let mut actions = every_action(reader);
    actions.reverse();
    for Stamped { row, .. } in actions {
        let is_open = !row.state.is_final();
        let sends = reader.attempts(row.requested.action).unwrap();
        let needed = sends.into_iter().filter(|send| {
            let lately = send.stamp.wall_of(send.row.opened_at) >= since;
            lately || is_open && send.row.certainty.is_none()
        });
        let needed: Vec<AttemptRow> = needed.map(|send| send.row).collect();
        if is_open || !needed.is_empty() {
            let tables = accounts.entry(row.requested.account.clone()).or_default();
            tables.attempts.extend(needed);
            tables.actions.extend(is_open.then_some(row));
        }
    }
    accounts.values_mut().for_each(in_order);
    accounts
}

fn in_order(tables: &mut Tables) {
    tables
        .attempts
        .sort_by_key(|row| (row.opened_at, row.action, row.kind, row.attempt));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_start_finds_the_open_actions_and_the_sends_that_still_count(parts in parts()) {
        let folder = tempdir().unwrap();
        let mut world = World::open(folder.path());
        write(&mut world, &parts);
        let expected = looked_through(&world.store.reader());
        drop(world);

        let start = now("boot-1", NOW_S, NOW_S);
        let (world, mut recovered) = World::open_at(folder.path(), &start);
        for n in 0..5 {
            let account = account(&name(n));
            let alone = world.store.recover(&Source::Account(account.clone()), &start).unwrap();
            let found = recovered.accounts.get(&account).cloned().unwrap_or_default();
            prop_assert_eq!(&alone, &found, "what it finds of all is what it finds of one");
            prop_assert!(alone.attempts.is_sorted_by_key(|row| row.opened_at));
        }
        recovered.accounts.values_mut().for_each(in_order);
        prop_assert_eq!(recovered.accounts, expected);
    }

    #[test]
    fn actions_are_found_by_state_as_by_a_look_at_all(
        parts in parts(),
        states in prop::collection::vec(prop::sample::select(State::ALL.to_vec()), 1..6),
        limit in 0u32..12,
        before in prop::option::of(0u128..45),
        of in prop::option::of(0usize..5),
    ) {
        let folder = tempdir().unwrap();
        let mut world = World::open(folder.path());
        write(&mut world, &parts);
        let reader = world.store.reader();
        let query = ActionQuery {
            states: states.clone(),
            account: of.map(|n| account(&name(n))),
            agent: Some(agent("sync-bot")),
            task: Some(task("sync-482")),
            before: before.map(action),
            limit,
        };
        let wanted = |row: &ActionRow| {
            let requested = &row.requested;
            states.contains(&row.state)
                && query.before.is_none_or(|before| requested.action < before)
                && query.account.as_ref().is_none_or(|it| requested.account == *it)
        };
        let all = every_action(&reader);
        let expected: Vec<_> =
            all.into_iter().filter(|it| wanted(&it.row)).take(limit as usize).collect();
        prop_assert_eq!(reader.actions(&query).unwrap(), expected);
    }
}
