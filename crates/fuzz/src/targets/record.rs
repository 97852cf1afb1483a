//! Records of the journal: read back as they were written, and shown as one line.

use std::sync::Arc;

use rategov_core::action::budget::Used;
use rategov_core::event::{CancelledBy, Decider, Event, Requested};
use rategov_core::id::{
    Account, ActionId, Agent, Credential, Endpoint, EscalationId, Fingerprint, Operator, Provider,
    RecordSeq, Scope, Task,
};
use rategov_core::time::{Moment, Span};
use rategov_core::word::{Choice, Class, Priority, State};
use rategov_server::audit_text;
use rategov_store::Source;
use rategov_store::codec::Fact;

use crate::Target;
use crate::input::{Input, NOON};

/// The inside of a record.
pub(super) const RECORD: Target = Target {
    name: "record",
    holds: "a record reads back as it was written, and is shown as one line without control characters",
    check: check_record,
    seeds: || {
        let facts = events().into_iter().map(|event| Fact {
            source: Source::Account(Account::new("billing/ops").expect("a name")),
            seq: RecordSeq(7),
            at: Moment::from_micros(1_000_000),
            wall: NOON,
            event,
        });
        facts.filter_map(|fact| fact.encode().ok()).collect()
    },
};

fn check_record(bytes: &[u8]) {
    let bytes = Input::new(bytes).rest();
    let fact = match Fact::decode(bytes) {
        Ok(fact) => fact,
        Err(error) => {
            let shown = error.to_string();
            assert!(
                shown.len() < 200 && !shown.contains(char::is_control),
                "{shown:?}"
            );
            return;
        }
    };
    // An older record may lack a field that is written today, so the bytes may differ.
    let again = fact.encode().expect("what was read can be written");
    assert_eq!(
        Fact::decode(&again).as_ref(),
        Ok(&fact),
        "written again, it differs"
    );
    for key in [None, Some("rec-91f2")] {
        let line = audit_text::line_with_key(&fact, key);
        assert!(!line.contains(char::is_control), "{line:?}");
    }
}

/// Some events, with texts that their makers would bound.
fn events() -> Vec<Event> {
    let action = ActionId(7);
    let requested = Requested {
        action,
        provider: Provider::new("billing").expect("a name"),
        account: Account::new("billing/ops").expect("a name"),
        credential: Credential::new("billing/ops#1").expect("a name"),
        agent: Agent::new("sync-bot").expect("a name"),
        task: Task::new("sync-482").ok(),
        task_stops: 1,
        goal: Some("sync \u{e9}".to_owned()),
        priority: Priority::Normal,
        class: Class::IdempotentWrite,
        method: "POST".to_owned(),
        endpoint: Endpoint::new("POST /records").expect("a name"),
        model: Some("m-1".to_owned()),
        path: "/records".to_owned(),
        fingerprint: Fingerprint([9; 16]),
        payload_digest: [8; 32],
        payload_bytes: 10,
        replayable: true,
        key: Some("rec-91f2".to_owned()),
        earlier: Some(Used {
            attempts: 2,
            waited: Span::from_secs(31),
        }),
        deadline: Moment::NEVER,
        detached: false,
        authorised_by: "agent token".to_owned(),
        parent: Some(ActionId(6)),
    };
    let operator = Operator::new("ana").expect("a name");
    let scope = Scope::new("account:ops").expect("a name");
    vec![
        Event::ActionRequested(Arc::new(requested)),
        Event::RetryScheduled {
            action,
            attempt: 2,
            due: Moment::from_micros(9_000_000),
            waited: Span::from_secs(30),
            why: "the provider asked for it".to_owned(),
        },
        Event::Cancelled {
            action,
            by: CancelledBy::Operator(operator.clone()),
        },
        Event::Decided {
            escalation: EscalationId(5),
            action: Some(action),
            choice: Choice::RetrySameKey,
            by: Decider::Operator(operator.clone()),
            note: Some("because".to_owned()),
        },
        Event::Terminal {
            action,
            state: State::Succeeded,
            code: "ok".to_owned(),
            attempts: 2,
            waited: Span::from_secs(30),
        },
        Event::Resumed {
            scope,
            by: operator,
        },
        Event::Started {
            version: "0.1.0".to_owned(),
            policy_digest: [7; 32],
        },
    ]
}
