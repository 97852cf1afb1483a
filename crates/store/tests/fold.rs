//! Folding the records gives the tables: what the store keeps after any legal
//! history is what the core's own functions make of the same events in memory,
//! and a restart in between changes nothing.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::{OPS, World, action, answered, asked, ended, engine, moment, now, retry, scope, sent};
use proptest::prelude::*;
use rategov_core::cost::Cost;
use rategov_core::event::{CancelledBy, Decider, Event, Found};
use rategov_core::id::{ActionId, EscalationId};
use rategov_core::record::{ActionRow, AttemptRow, EscalationRow, SendKind};
use rategov_core::time::Moment;
use rategov_core::word::{Choice, Trigger};
use tempfile::tempdir;

/// The tables in memory.
#[derive(Default)]
struct Model {
    actions: BTreeMap<ActionId, ActionRow>,
    attempts: BTreeMap<(ActionId, SendKind, u16), AttemptRow>,
    escalations: BTreeMap<EscalationId, EscalationRow>,
}

impl Model {
    /// Takes the event if the core says that it may follow.
    fn take(&mut self, event: &Event, at: Moment) -> bool {
        if let Event::ActionRequested(requested) = event {
            let row = ActionRow::open(requested, at);
            return self.actions.insert(requested.action, row).is_none();
        }
        let Some(id) = event.action() else {
            return false;
        };
        let Some(mut row) = self.actions.get(&id).cloned() else {
            return false;
        };
        if row.apply(event, at).is_err() {
            return false;
        }
        if let Event::LookedUp { lookup, .. } = event
            && !self.attempts.contains_key(&(id, SendKind::Lookup, *lookup))
        {
            return false;
        }
        if let Some(opened) = AttemptRow::open(event, at) {
            self.attempts
                .insert((id, opened.kind, opened.attempt), opened);
        }
        for attempt in self.attempts.values_mut() {
            attempt.apply(event, at);
        }
        if let Some(opened) = EscalationRow::open(event, at) {
            self.escalations.insert(opened.escalation, opened);
        }
        if let Event::Decided { escalation, .. } = event {
            self.escalations
                .get_mut(escalation)
                .unwrap()
                .apply(event, at)
                .unwrap();
        }
        self.actions.insert(id, row);
        true
    }
}

/// One step that may or may not be legal for action `n`.
fn step(model: &Model, n: u128, kind: u8, at: u64) -> Event {
    let row = model.actions.get(&action(n));
    let attempts = row.map_or(0, |row| row.attempts);
    let question = EscalationId(n * 1_000 + u128::from(at));
    match kind {
        0..=2 => sent(n, attempts + 1),
        3 => answered(n, attempts, 429),
        4 => answered(n, attempts, 201),
        5 => retry(n, attempts + 1, at + 30),
        6 => Event::ReconciliationRequired {
            action: action(n),
            why: "reset".to_owned(),
            not_before: moment(at + 5),
        },
        7 => Event::Escalated {
            escalation: question,
            action: Some(action(n)),
            scope: scope("account:ops"),
            trigger: Trigger::UncertainEffect,
            choices: vec![Choice::Query],
            why: "no look-up".to_owned(),
            version: row.map_or(0, |row| row.version),
            expires: moment(at + 100),
        },
        8 => match row.and_then(|row| row.escalation) {
            Some(escalation) => Event::Decided {
                escalation,
                action: Some(action(n)),
                choice: Choice::Cancel,
                by: Decider::Expiry,
                note: None,
            },
            None => Event::Joined {
                action: action(n),
                by: "key".to_owned(),
            },
        },
        9 => Event::LookupSent {
            action: action(n),
            lookup: row.map_or(0, |row| row.lookups) + 1,
            scopes: vec![scope("account:ops")],
            cost: Cost::ONE,
        },
        10 => Event::LookedUp {
            action: action(n),
            lookup: row.map_or(0, |row| row.lookups) + 1,
            found: Found::Nothing,
            status: Some(404),
            operation_id: None,
            next: Some(moment(at + 2)),
        },
        11 => Event::Cancelled {
            action: action(n),
            by: CancelledBy::Caller,
        },
        _ => ended(n, attempts),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_tables_are_the_fold_of_the_records(
        steps in prop::collection::vec((1u128..5, 0u8..13), 1..80),
        restart_after in 0usize..80,
    ) {
        let folder = tempdir().unwrap();
        let mut world = World::open(folder.path());
        let mut model = Model::default();
        for (n, (id, kind)) in steps.iter().enumerate() {
            let at = 100 + n as u64;
            let known = model.actions.contains_key(&action(*id));
            let event = if known { step(&model, *id, *kind, at) } else { asked(OPS, *id) };
            if model.take(&event, moment(at)) {
                world.write_all(&engine(OPS), [(at, event)]);
            }
            if n == restart_after {
                drop(world);
                world = World::open_at(folder.path(), &now("boot-1", at, at)).0;
            }
        }
        let reader = world.store.reader();
        for (id, row) in &model.actions {
            prop_assert_eq!(&reader.action(*id).unwrap().unwrap().row, row);
            let attempts: Vec<AttemptRow> =
                reader.attempts(*id).unwrap().into_iter().map(|stored| stored.row).collect();
            let expected: Vec<AttemptRow> =
                model.attempts.values().filter(|row| row.action == *id).cloned().collect();
            prop_assert_eq!(attempts, expected);
        }
        for (id, row) in &model.escalations {
            prop_assert_eq!(&reader.escalation(*id).unwrap().unwrap().1.row, row);
        }
        let open = model.actions.values().filter(|row| !row.state.is_final()).count();
        let tables = world.store.recover(&engine(OPS), &now("boot-1", 300, 300)).unwrap();
        prop_assert_eq!(tables.actions.len(), open);
        prop_assert_eq!(tables.attempts.len(), model.attempts.len());
    }
}
