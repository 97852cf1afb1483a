//! Rows change by the table of states, whatever the event and wherever the row is.

use rategov_core::action::choices::Applied;
use rategov_core::action::machine::{Step, step};
use rategov_core::action::outcome::Certainty;
use rategov_core::cost::Cost;
use rategov_core::event::{CancelledBy, Decider, Event, Found};
use rategov_core::id::{ActionId, EscalationId};
use rategov_core::record::ActionRow;
use rategov_core::word::{Cause, Choice, Outcome, State, Trigger};

use super::support::call::{own_scope, secs, write};
use super::support::world::BEGIN;

const ID: ActionId = ActionId(1);

/// A row with one attempt and one look-up behind it.
fn row(state: State, applied: Applied) -> ActionRow {
    let requested = write("ana").submit(BEGIN, ID).requested;
    ActionRow {
        state,
        attempts: 1,
        lookups: 1,
        uncertain: applied == Applied::Maybe,
        ..ActionRow::open(&requested, BEGIN)
    }
}

fn result(certainty: Certainty) -> Event {
    Event::ActionResult {
        action: ID,
        attempt: 1,
        certainty,
        outcome: Outcome::Unknown,
        status: None,
        retry_after: None,
        scope: None,
        operation_id: None,
        error_code: None,
        bytes_written: 1,
        sent_at: None,
    }
}

fn decided(choice: Choice) -> Event {
    Event::Decided {
        escalation: EscalationId(1),
        action: Some(ID),
        choice,
        by: Decider::Expiry,
        note: None,
    }
}

fn terminal(state: State) -> Event {
    Event::Terminal {
        action: ID,
        state,
        code: "done".to_owned(),
        attempts: 1,
        waited: secs(0),
    }
}

/// Every event about an action that exists, and what it is in the table.
fn events() -> Vec<(Event, Step)> {
    let (scopes, cost, why) = (vec![own_scope()], Cost::ONE, String::new());
    let mut events = vec![
        (
            Event::ActionSent {
                action: ID,
                attempt: 2,
                cause: Cause::Policy,
                scopes: scopes.clone(),
                cost,
                waited: secs(1),
                key_safe_until: None,
            },
            Step::Sent,
        ),
        (
            Event::RetryScheduled {
                action: ID,
                attempt: 2,
                due: BEGIN,
                waited: secs(1),
                why: why.clone(),
            },
            Step::Repeat,
        ),
        (
            Event::ReconciliationRequired {
                action: ID,
                why: why.clone(),
                not_before: BEGIN,
            },
            Step::FindOut,
        ),
        (
            Event::LookupSent {
                action: ID,
                lookup: 2,
                scopes,
                cost,
            },
            Step::LookUp,
        ),
        (
            Event::LookedUp {
                action: ID,
                lookup: 1,
                found: Found::Running,
                status: None,
                operation_id: None,
                next: None,
            },
            Step::LookUp,
        ),
        (
            Event::Escalated {
                escalation: EscalationId(1),
                action: Some(ID),
                scope: own_scope(),
                trigger: Trigger::UncertainEffect,
                choices: vec![Choice::Cancel],
                why,
                version: 2,
                expires: BEGIN,
            },
            Step::Asked,
        ),
        (
            Event::Cancelled {
                action: ID,
                by: CancelledBy::Task,
            },
            Step::Stopped,
        ),
    ];
    for certainty in [
        Certainty::NotSent,
        Certainty::NotProcessed,
        Certainty::Definite,
    ] {
        events.push((result(certainty), Step::Answered));
    }
    for certainty in [Certainty::CommittedBodyLost, Certainty::Unknown] {
        events.push((result(certainty), Step::Lost));
    }
    for applied in [true, false] {
        let event = Event::Reconciled {
            action: ID,
            applied,
            by: "lookup".to_owned(),
            operation_id: None,
        };
        events.push((event, Step::FoundOut));
    }
    for choice in Choice::ALL {
        let step = match choice {
            Choice::Query => Step::LookUpChosen,
            _ => Step::Chosen,
        };
        events.push((decided(*choice), step));
    }
    for state in State::ALL {
        events.push((terminal(*state), Step::Ends(*state)));
    }
    events
}

#[test]
fn a_row_takes_its_next_state_from_the_table_and_from_nowhere_else() {
    for state in State::ALL {
        for applied in [Applied::No, Applied::Maybe] {
            for (event, taken) in events() {
                let before = row(*state, applied);
                let mut after = before.clone();
                let changed = after.apply(&event, BEGIN).is_ok();
                let expected = step(*state, taken, applied);
                let told = changed.then_some(after.state);
                assert_eq!(told, expected, "{state} {applied:?} {event:?}");
                if changed {
                    assert_eq!(after.version, before.version + 1);
                } else {
                    assert_eq!(after, before, "a refused event leaves no trace");
                }
            }
        }
    }
}

#[test]
fn a_number_that_does_not_follow_is_refused() {
    let sent = |attempt| Event::ActionSent {
        action: ID,
        attempt,
        cause: Cause::Policy,
        scopes: Vec::new(),
        cost: Cost::ONE,
        waited: secs(1),
        key_safe_until: None,
    };
    for (attempt, follows) in [(1, false), (2, true), (3, false)] {
        let mut row = row(State::Waiting, Applied::No);
        assert_eq!(row.apply(&sent(attempt), BEGIN).is_ok(), follows);
    }
}
