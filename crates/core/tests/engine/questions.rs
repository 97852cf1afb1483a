//! Questions to a person, and what each answer does.

use rategov_core::engine::{Decision, DecisionError, Output};
use rategov_core::event::{Decider, Durability, Event, Found};
use rategov_core::id::ActionId;
use rategov_core::word::{Cause, Choice, State};

use super::support::call::{Call, keyed, ms, secs, write};
use super::support::provider::{Arrival, Say, Script, What, always, in_turn};
use super::support::world::{Reply, World, operator};

/// A world in which this write is with a person.
fn asked(call: Call, script: Script) -> (World, ActionId) {
    let mut world = World::new().saying(script);
    let id = world.submit(&call);
    world.pass(secs(120));
    assert_eq!(world.state(id), State::Escalated);
    (world, id)
}

/// The first attempt is lost, the rest succeeds; look-ups have no answer.
fn lost_once() -> Script {
    Box::new(|arrival: &Arrival| match arrival.what {
        What::Attempt(1) => Say::lost(),
        What::Attempt(_) => Say::ok(),
        What::Lookup(_) => Say::found(Found::NoAnswer),
    })
}

fn forgetful(call: Call) -> Call {
    // Without time for a repeat of its own, it goes to a person.
    call.with(|call| {
        call.limits = Some(rategov_core::policy::ClassTable::default().uncertain_write);
    })
}

#[test]
fn a_decision_is_durable_and_says_who_and_what() {
    let (mut world, id) = asked(write("ana"), lost_once());
    world.decide(Choice::ItHappened).unwrap();
    let record = world
        .find(|event| matches!(event, Event::Decided { .. }))
        .unwrap();
    assert_eq!(record.durability, Durability::Power);
    let Event::Decided {
        choice, by, note, ..
    } = &record.event
    else {
        unreachable!("it was just matched")
    };
    assert_eq!(*choice, Choice::ItHappened);
    assert_eq!(*by, Decider::Operator(operator()));
    assert_eq!(note.as_deref(), Some("because"));
    world.settle();
    assert_eq!(world.state(id), State::Succeeded);
}

#[test]
fn what_a_person_found_out_ends_the_action_as_that() {
    for (choice, state, code) in [
        (Choice::ItHappened, State::Succeeded, "result_lost"),
        (Choice::ItDidNot, State::FailedDefinite, "not_applied"),
        (Choice::Cancel, State::AbandonedUnknown, "outcome_unknown"),
    ] {
        let (mut world, id) = asked(write("ana"), lost_once());
        world.decide(choice).unwrap();
        world.settle();
        assert_eq!(world.state(id), state, "{choice}");
        assert_eq!(world.code(id), code, "{choice}");
        assert_eq!(world.sends(id).len(), 1, "{choice}");
    }
}

#[test]
fn the_same_key_goes_once_more_beyond_the_budget() {
    let (mut world, id) = asked(forgetful(keyed("ana", "k1")), lost_once());
    assert_eq!(world.question().choices[0], Choice::RetrySameKey);
    world.decide(Choice::RetrySameKey).unwrap();
    world.settle();
    assert_eq!(world.sends(id).len(), 2);
    assert_eq!(world.arrivals[0].key, world.arrivals[1].key);
    let by_person = world.find(|event| {
        matches!(
            event,
            Event::ActionSent {
                attempt: 2,
                cause: Cause::Person,
                ..
            }
        )
    });
    assert!(by_person.is_some());
    assert_eq!(world.state(id), State::Succeeded);
}

#[test]
fn a_send_that_a_person_allowed_is_not_ended_by_deadline_or_budget() {
    let script: Script = Box::new(|arrival: &Arrival| match arrival.agent.as_str() {
        "ana" if arrival.what == What::Attempt(1) => Say::lost(),
        "bob" => Say::wait(50),
        _ => Say::ok(),
    });
    let call = forgetful(keyed("ana", "k1")).with(|call| call.deadline = Some(secs(30)));
    let mut world = World::new().saying(script);
    let id = world.submit(&call);
    world.pass(secs(5));
    world.submit(&super::support::call::read("bob"));
    world.pass(secs(1));
    world.decide(Choice::RetrySameKey).unwrap();
    world.pass(secs(40));
    assert_eq!(world.state(id), State::Waiting, "the account is closed");
    world.settle();
    assert_eq!(world.state(id), State::Succeeded);
}

#[test]
fn a_query_has_look_ups_of_its_own() {
    let mut seen = 0;
    let script: Script = Box::new(move |arrival: &Arrival| match arrival.what {
        What::Attempt(_) => Say::lost(),
        What::Lookup(_) => {
            seen += 1;
            // The policy's five fail; the person's third finds it.
            Say::found(if seen < 8 {
                Found::NoAnswer
            } else {
                Found::Done
            })
        }
    });
    let (mut world, id) = asked(write("ana").with_lookup(), script);
    assert_eq!(world.lookups(id).len(), 5);
    world.decide(Choice::Query).unwrap();
    world.settle();
    assert_eq!(world.lookups(id).len(), 8);
    assert_eq!(world.state(id), State::Succeeded);
}

#[test]
fn a_query_that_finds_nothing_out_asks_again() {
    let (mut world, id) = asked(write("ana").with_lookup(), lost_once());
    let first = world.question();
    world.decide(Choice::Query).unwrap();
    world.pass(secs(600));
    assert_eq!(world.lookups(id).len(), 10);
    assert_ne!(world.question().escalation, first.escalation);
}

#[test]
fn exactly_one_decision_wins_and_late_ones_are_refused() {
    let (mut world, _) = asked(write("ana"), lost_once());
    let question = world.question().escalation;
    world.decide(Choice::ItHappened).unwrap();
    assert_eq!(
        world.decide_on(question, Choice::Cancel, None),
        Err(DecisionError::NotOpen)
    );
    let decided = world
        .records
        .iter()
        .filter(|record| record.event.word() == "decided");
    assert_eq!(decided.count(), 1);
}

#[test]
fn a_decision_about_another_version_is_refused() {
    let (mut world, id) = asked(write("ana"), lost_once());
    let question = world.question();
    let version = question.version;
    assert_eq!(version, world.row(id).version);
    let changed = |version| Err(DecisionError::Changed { version });
    let id_of = question.escalation;
    assert_eq!(
        world.decide_on(id_of, Choice::Cancel, Some(version - 1)),
        changed(version)
    );
    world.cancel(id);
    assert_eq!(
        world.decide_on(id_of, Choice::Cancel, Some(version)),
        changed(version + 1)
    );
    assert_eq!(
        world.decide_on(id_of, Choice::Cancel, Some(version + 1)),
        Ok(())
    );
}

#[test]
fn what_was_not_offered_is_refused_with_what_is() {
    let (mut world, _) = asked(write("ana"), lost_once());
    let offered = vec![Choice::ItHappened, Choice::ItDidNot, Choice::Cancel];
    for choice in [Choice::SendNew, Choice::Query, Choice::Wait] {
        assert_eq!(
            world.decide(choice),
            Err(DecisionError::NotOffered {
                offered: offered.clone()
            })
        );
    }
}

#[test]
fn the_same_key_is_not_offered_any_more_when_it_has_grown_too_old() {
    let call = forgetful(keyed("ana", "k1")).with(|call| {
        if let Some(idempotency) = &mut call.profile.idempotency {
            idempotency.lifetime = secs(1_000);
        }
    });
    let (mut world, _) = asked(call, lost_once());
    assert!(world.question().choices.contains(&Choice::RetrySameKey));
    world.pass(secs(600));
    assert!(matches!(
        world.decide(Choice::RetrySameKey),
        Err(DecisionError::NotOffered { .. })
    ));
}

#[test]
fn a_question_that_nobody_answers_ends_as_unknown() {
    let (mut world, id) = asked(write("ana"), lost_once());
    let question = world.question();
    world.drive_to(question.expires);
    world.pass(secs(1));
    assert_eq!(world.state(id), State::AbandonedUnknown);
    assert_eq!(
        world.decide_on(question.escalation, Choice::ItHappened, None),
        Err(DecisionError::NotOpen)
    );
    let by_nobody = world.find(|event| {
        matches!(
            event,
            Event::Decided {
                by: Decider::Expiry,
                ..
            }
        )
    });
    assert!(by_nobody.is_some());
    assert_eq!(world.sends(id).len(), 1);
}

fn replaceable(call: Call) -> Call {
    call.with(|call| call.may_send_new = true)
}

#[test]
fn a_new_operation_is_a_child_with_a_key_of_its_own() {
    let (mut world, parent) = asked(replaceable(forgetful(keyed("ana", "k1"))), lost_once());
    world.decide(Choice::SendNew).unwrap();
    world.settle();
    assert_eq!(world.state(parent), State::Superseded);
    let child = world.arrivals.last().unwrap().clone();
    assert_ne!(child.action, parent);
    assert_ne!(child.key.as_deref(), Some("k1"));
    assert!(world.told(parent).contains(&child.action.to_string()));
    let row = world.row(child.action);
    assert_eq!(row.requested.parent, Some(parent));
    assert_eq!(
        row.requested.payload_digest,
        world.row(parent).requested.payload_digest
    );
    assert_eq!(row.state, State::AbandonedUnknown.min(row.state));
    let place = |word: &str, id| {
        let about = |record: &rategov_core::event::Record| {
            record.event.word() == word && record.event.action() == Some(id)
        };
        world.records.iter().position(about).unwrap()
    };
    assert!(place("action_requested", child.action) < place("terminal", parent));
    let told = world
        .outputs
        .iter()
        .position(|(_, output)| matches!(output, Output::Child { .. }))
        .unwrap();
    let granted = world
        .outputs
        .iter()
        .position(|(_, output)| matches!(output, Output::Grant(g) if g.action == child.action))
        .unwrap();
    assert!(told < granted);
}

#[test]
fn a_second_effect_needs_the_typed_words() {
    let (mut world, _) = asked(replaceable(write("ana")), lost_once());
    let question = world.question().escalation;
    let decision = |typed: Option<&str>| Decision {
        choice: Choice::SendNew,
        by: operator(),
        note: None,
        version: None,
        typed: typed.map(str::to_owned),
    };
    for typed in [None, Some("yes")] {
        let (now, chance) = (world.now, world.chance());
        let decided = world
            .engine
            .handle_decision(now, chance, question, decision(typed));
        assert!(matches!(decided, Err(DecisionError::Unconfirmed { .. })));
    }
    world.decide(Choice::SendNew).unwrap();
}

#[test]
fn whatever_a_crash_leaves_of_a_replacement_there_is_one_child() {
    // Decided, requested (child), terminal (parent), sent (child), each alone.
    for kept in 0..=4 {
        let (mut world, parent) = asked(replaceable(write("ana")), lost_once());
        let before = world.records.len() as u64;
        world.lose_from = Some(rategov_core::id::RecordSeq(before + kept + 1));
        world.decide(Choice::SendNew).unwrap();
        world.pass(ms(3));
        world.crash();
        world.pass(secs(30));
        if kept == 0 {
            assert_eq!(world.state(parent), State::Escalated, "nobody decided");
            assert_eq!(world.arrivals.len(), 1);
            continue;
        }
        assert_eq!(world.state(parent), State::Superseded, "{kept} kept");
        let children = world
            .durable
            .actions()
            .filter(|row| row.requested.parent == Some(parent));
        let children: Vec<_> = children.map(|row| row.requested.action).collect();
        assert_eq!(children.len(), 1, "{kept} kept");
        assert!(world.told(parent).contains(&children[0].to_string()));
    }
}

#[test]
fn a_decision_that_a_crash_cut_off_is_carried_out_afterwards() {
    for (choice, state) in [
        (Choice::ItHappened, State::Succeeded),
        (Choice::ItDidNot, State::FailedDefinite),
        (Choice::Cancel, State::AbandonedUnknown),
        (Choice::RetrySameKey, State::Succeeded),
    ] {
        for kept in 1..=3 {
            let (mut world, id) = asked(forgetful(keyed("ana", "k1")), lost_once());
            let before = world.records.len() as u64;
            world.lose_from = Some(rategov_core::id::RecordSeq(before + kept + 1));
            world.decide(choice).unwrap();
            world.pass(ms(3));
            world.crash();
            world.pass(secs(90));
            let got = world.state(id);
            // What came of a repeat that was cut off while it was out is unknown again.
            let open = choice == Choice::RetrySameKey && got == State::Escalated;
            assert!(got == state || open, "{choice}, {kept} kept: {got}");
        }
    }
}

#[test]
fn nothing_of_an_answer_reaches_anybody_before_it_is_durable() {
    let (mut world, id) = asked(write("ana"), lost_once());
    world.decide(Choice::ItDidNot).unwrap();
    assert_eq!(
        world.reply(id),
        Some(&Reply::Own(State::Escalated, "escalated".to_owned()))
    );
    world.pass(ms(2));
    assert_eq!(world.code(id), "not_applied");
}

#[test]
fn a_key_that_was_refused_for_other_bytes_is_brought_to_a_person() {
    use rategov_core::observe::{Facts, Meaning};
    let mismatch = Say::facts(Facts::bare(422, Meaning::KeyMismatch));
    let script = in_turn(vec![Say::status(429), mismatch]);
    let (mut world, id) = asked(keyed("ana", "k1"), script);
    assert_eq!(world.sends(id).len(), 2);
    world.decide(Choice::Cancel).unwrap();
    world.settle();
    assert_eq!(
        world.state(id),
        State::CancelledNotSent,
        "nothing was applied"
    );
}

#[test]
fn always_lost_writes_ask_once_each() {
    let mut world = World::new().saying(always(Say::lost()));
    for n in 0..5_u8 {
        let call = write("ana").with(|call| call.body = n);
        world.submit(&call);
    }
    world.pass(secs(10));
    assert_eq!(world.engine.escalations().count(), 5);
}

#[test]
fn a_path_that_the_breaker_stopped_is_opened_by_a_person() {
    use rategov_core::id::{Agent, Endpoint};
    let mut world = World::new();
    let task = rategov_core::tasks::task_key(&Agent::new("ana").unwrap(), None);
    let endpoint = Endpoint::new("POST /jobs").unwrap();
    for _ in 0..2 {
        let (now, chance) = (world.now, world.chance());
        let why = "POST /jobs failed 3 times in a row with `invalid`";
        world
            .engine
            .handle_path_stopped(now, chance, task.clone(), endpoint.clone(), why);
        world.pass(ms(5));
    }
    let question = world.question();
    assert_eq!(
        question.choices,
        [Choice::ChangePlan, Choice::Wait, Choice::Cancel]
    );
    world.decide(Choice::Wait).unwrap();
    let opened = |world: &World| {
        world.outputs.iter().any(|(_, output)| {
            matches!(output, Output::OpenPath { path, .. } if path.endpoint == endpoint)
        })
    };
    assert!(!opened(&world), "not before the decision is durable");
    world.pass(ms(5));
    assert!(opened(&world));
}
