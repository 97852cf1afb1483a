//! The records' bytes: every event reads back, in one spelling, and nothing
//! else does.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use ciborium::Value;
use common::{
    account, action, agent, answered, asked, moment, requested, retry, scope, sent, task,
};
use proptest::prelude::*;
use rategov_core::action::budget::Used;
use rategov_core::action::outcome::Certainty;
use rategov_core::cost::Cost;
use rategov_core::event::{CancelledBy, Decider, Event, Found, ScopeChange};
use rategov_core::id::{EscalationId, Operator, RecordSeq};
use rategov_core::record::ScopeRow;
use rategov_core::time::{Moment, Span, WallTime};
use rategov_core::word::{Choice, Mode, Outcome, State, Trigger};
use rategov_store::Source;
use rategov_store::codec::{CodecError, Fact, RECORD_BYTES_MAX};

fn operator() -> Operator {
    Operator::new("maria").unwrap()
}

/// Every event, some of them twice: with and without what may be absent.
fn events() -> Vec<Event> {
    let bare = rategov_core::event::Requested {
        task: None,
        goal: None,
        key: None,
        parent: Some(action(1)),
        deadline: Moment::NEVER,
        ..requested("ops", 2)
    };
    let again = rategov_core::event::Requested {
        model: Some("gpt-4o".to_owned()),
        earlier: Some(Used {
            attempts: 2,
            waited: Span::from_secs(31),
        }),
        ..requested("ops", 3)
    };
    let row = ScopeRow {
        scope: scope("model:gpt-4o"),
        mode: Mode::Closed,
        next_allowed_at: Some(moment(130)),
        remaining: Some(0),
        limit: Some(60),
        window: Some(Span::from_secs(10)),
        reset_at: Some(moment(131)),
        spacing: None,
        max_concurrent: Some(2),
        epoch: 3,
        hold_level: 1,
        misdeclared: false,
        exhausted: true,
        source: "HTTP 429 Retry-After".to_owned(),
        told: Vec::new(),
    };
    let escalation = EscalationId(u128::MAX);
    vec![
        asked("stripe/ops", 1),
        Event::ActionRequested(Arc::new(bare)),
        Event::ActionRequested(Arc::new(again)),
        sent(1, 1),
        Event::LookupSent {
            action: action(1),
            lookup: 1,
            scopes: vec![scope("account:ops")],
            cost: Cost::requests(2),
        },
        answered(1, 1, 429),
        Event::ActionResult {
            action: action(1),
            attempt: 2,
            certainty: Certainty::Unknown,
            outcome: Outcome::Unknown,
            status: None,
            retry_after: None,
            scope: None,
            operation_id: None,
            error_code: Some("connection_reset".to_owned()),
            bytes_written: u64::MAX,
            sent_at: None,
        },
        retry(1, 2, 31),
        Event::ReconciliationRequired {
            action: action(1),
            why: "reset after 120 bytes — ünknown".to_owned(),
            not_before: moment(40),
        },
        Event::LookedUp {
            action: action(1),
            lookup: 1,
            found: Found::NoAnswer,
            status: Some(503),
            operation_id: None,
            next: Some(moment(50)),
        },
        Event::Reconciled {
            action: action(1),
            applied: true,
            by: "lookup".to_owned(),
            operation_id: Some("r_893".to_owned()),
        },
        Event::Escalated {
            escalation,
            action: None,
            scope: scope("account:ops"),
            trigger: Trigger::LimitMisconfigured,
            choices: Choice::ALL.to_vec(),
            why: "five refusals below the limit".to_owned(),
            version: 1,
            expires: moment(86_400),
        },
        Event::Decided {
            escalation,
            action: Some(action(1)),
            choice: Choice::Query,
            by: Decider::Operator(operator()),
            note: Some("asked the bank".to_owned()),
        },
        Event::Decided {
            escalation,
            action: None,
            choice: Choice::Cancel,
            by: Decider::Expiry,
            note: None,
        },
        Event::Joined {
            action: action(1),
            by: "key".to_owned(),
        },
        Event::Cancelled {
            action: action(1),
            by: CancelledBy::Task,
        },
        Event::Cancelled {
            action: action(1),
            by: CancelledBy::Agent(agent("a")),
        },
        Event::Cancelled {
            action: action(1),
            by: CancelledBy::Caller,
        },
        Event::Cancelled {
            action: action(1),
            by: CancelledBy::Operator(operator()),
        },
        Event::Terminal {
            action: action(1),
            state: State::AbandonedUnknown,
            code: "unknown_outcome".to_owned(),
            attempts: 3,
            waited: Span::MAX,
        },
        Event::TurnedAway {
            agent: agent("a"),
            code: "queue_full".to_owned(),
            scope: scope("account:ops"),
            retry_at: Some(moment(9)),
        },
        Event::Scope(Box::new(ScopeChange {
            scope: scope("model:gpt-4o"),
            from: Mode::Normal,
            to: Mode::Closed,
            why: "429".to_owned(),
            status: Some(429),
            saved: row,
        })),
        Event::Resumed {
            scope: scope("account:ops"),
            by: operator(),
        },
        Event::TaskOpened {
            task: task("t"),
            agent: agent("a"),
            goal: None,
            deadline: moment(7),
            stops: 2,
        },
        Event::TaskCharged {
            task: task("t"),
            agent: agent("a"),
            retries: 3,
            waited: Span::from_secs(9),
        },
        Event::TaskCancelled {
            task: task("t"),
            agent: agent("a"),
            by: CancelledBy::Caller,
        },
        Event::Started {
            version: "0.1.0".to_owned(),
            policy_digest: [1; 32],
        },
        Event::PolicyChanged {
            policy_digest: [2; 32],
        },
    ]
}

fn fact(event: Event) -> Fact {
    Fact {
        source: Source::Account(account("stripe/ops")),
        seq: RecordSeq(7),
        at: moment(5),
        wall: WallTime::from_micros(-1),
        event,
    }
}

fn facts() -> Vec<Fact> {
    let mut facts: Vec<Fact> = events().into_iter().map(fact).collect();
    for source in [Source::Tasks, Source::Governor] {
        let event = Event::PolicyChanged {
            policy_digest: [0; 32],
        };
        facts.push(Fact {
            source,
            ..fact(event)
        });
    }
    facts
}

/// The same record with something changed in its CBOR.
fn changed(fact: &Fact, change: impl FnOnce(&mut Vec<(Value, Value)>)) -> Vec<u8> {
    let value: Value = ciborium::from_reader(&fact.encode().unwrap()[..]).unwrap();
    let mut map = value.into_map().unwrap();
    change(&mut map);
    let mut bytes = Vec::new();
    ciborium::into_writer(&Value::Map(map), &mut bytes).unwrap();
    bytes
}

#[test]
fn every_event_reads_back_as_it_was() {
    let facts = facts();
    for fact in &facts {
        let bytes = fact.encode().unwrap();
        assert_eq!(Fact::decode(&bytes).as_ref(), Ok(fact));
        assert_eq!(fact.encode().unwrap(), bytes);
    }
    let mut words: Vec<&str> = facts.iter().map(|fact| fact.event.word()).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), 21, "an event has no sample here: {words:?}");
}

#[test]
fn a_record_names_its_event_by_the_word_that_people_see() {
    for fact in facts() {
        changed(&fact, |map| {
            let (_, event) = map
                .iter()
                .find(|(key, _)| key.as_text() == Some("event"))
                .unwrap();
            let tag = &event.as_map().unwrap()[0].0;
            assert_eq!(tag.as_text(), Some(fact.event.word()));
        });
    }
}

#[test]
fn keys_stand_in_the_order_of_deterministic_cbor() {
    fn check(value: &Value) {
        match value {
            Value::Map(map) => {
                let keys: Vec<&str> = map.iter().map(|(key, _)| key.as_text().unwrap()).collect();
                let mut sorted = keys.clone();
                sorted.sort_by_key(|key| (key.len(), *key));
                assert_eq!(keys, sorted);
                map.iter().for_each(|(_, value)| check(value));
            }
            Value::Array(values) => values.iter().for_each(check),
            _ => {}
        }
    }
    for fact in facts() {
        check(&ciborium::from_reader(&fact.encode().unwrap()[..]).unwrap());
    }
}

#[test]
fn another_version_is_named_before_anything_else_is_judged() {
    let fact = fact(asked("ops", 1));
    let bytes = changed(&fact, |map| map[0].1 = Value::from(2));
    assert_eq!(Fact::decode(&bytes), Err(CodecError::Version(2)));
    let bytes = changed(&fact, |map| {
        map[0].1 = Value::from(2);
        map[4].1 = Value::from("an event of the future");
    });
    assert_eq!(Fact::decode(&bytes), Err(CodecError::Version(2)));
}

#[test]
fn a_field_that_came_later_reads_as_none_in_an_older_record() {
    let fact = fact(asked("ops", 1));
    for later in ["model", "earlier", "task_stops"] {
        let bytes = changed(&fact, |map| {
            let event = map[4].1.as_map_mut().unwrap();
            let fields = event[0].1.as_map_mut().unwrap();
            let before = fields.len();
            fields.retain(|(key, _)| key.as_text() != Some(later));
            assert_eq!(fields.len(), before - 1, "{later}");
        });
        assert_eq!(Fact::decode(&bytes).as_ref(), Ok(&fact), "{later}");
    }
}

#[test]
fn an_unknown_field_is_refused_wherever_it_stands() {
    let fact = fact(Event::Joined {
        action: action(1),
        by: "key".to_owned(),
    });
    let bytes = changed(&fact, |map| map.push(("note".into(), "x".into())));
    assert_eq!(Fact::decode(&bytes), Err(CodecError::Schema));
    let bytes = changed(&fact, |map| {
        let event = map[4].1.as_map_mut().unwrap();
        event[0]
            .1
            .as_map_mut()
            .unwrap()
            .push(("note".into(), "x".into()));
    });
    assert_eq!(Fact::decode(&bytes), Err(CodecError::Schema));
}

#[test]
fn a_value_that_the_core_would_refuse_is_refused() {
    let fact = fact(Event::Joined {
        action: action(1),
        by: "key".to_owned(),
    });
    let bytes = changed(&fact, |map| {
        map[5].1 = Value::Map(vec![("account".into(), "two\nlines".into())]);
    });
    assert_eq!(Fact::decode(&bytes), Err(CodecError::Value("Account")));
    let state = self::fact(common::ended(1, 1));
    let bytes = changed(&state, |map| {
        let event = map[4].1.as_map_mut().unwrap()[0].1.as_map_mut().unwrap();
        event[1].1 = "half_done".into();
    });
    assert_eq!(Fact::decode(&bytes), Err(CodecError::Value("State")));
}

#[test]
fn nothing_may_follow_or_be_missing() {
    let bytes = fact(asked("ops", 1)).encode().unwrap();
    for cut in 0..bytes.len() {
        assert_eq!(
            Fact::decode(&bytes[..cut]),
            Err(CodecError::Schema),
            "cut at {cut}"
        );
    }
    let longer = [&bytes[..], &[0xf6]].concat();
    assert_eq!(Fact::decode(&longer), Err(CodecError::Trailing));
}

#[test]
fn a_record_has_a_largest_size() {
    let long = rategov_core::event::Requested {
        path: "x".repeat(RECORD_BYTES_MAX),
        ..requested("ops", 1)
    };
    let result = fact(Event::ActionRequested(Arc::new(long))).encode();
    assert!(matches!(result, Err(CodecError::TooLong { bytes }) if bytes > RECORD_BYTES_MAX));
    let huge = vec![0xff; RECORD_BYTES_MAX + 1];
    assert_eq!(
        Fact::decode(&huge),
        Err(CodecError::TooLong {
            bytes: RECORD_BYTES_MAX + 1
        })
    );
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(
        which in 0usize..31,
        flips in prop::collection::vec((any::<u16>(), any::<u8>()), 1..4),
    ) {
        let facts = facts();
        let mut bytes = facts[which % facts.len()].encode().unwrap();
        for (at, with) in flips {
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= with;
        }
        if let Ok(fact) = Fact::decode(&bytes) {
            prop_assert_eq!(Fact::decode(&fact.encode().unwrap()), Ok(fact));
        }
    }
}
