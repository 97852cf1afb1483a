//! Commits that fail: nothing leaves, and the engine gives itself up.

use rategov_core::action::outcome::NotSent;
use rategov_core::engine::{Decision, DecisionError, Output};
use rategov_core::id::{EscalationId, RecordSeq};
use rategov_core::word::{Choice, State};

use super::support::call::{keyed, ms, read, secs, write};
use super::support::provider::{Say, always};
use super::support::world::{Reply, World, operator};

fn is_refused(world: &World, id: rategov_core::id::ActionId) -> bool {
    matches!(world.reply(id), Some(Reply::Refused(refusal)) if refusal.code.word() == "audit_unavailable")
}

#[test]
fn a_lost_commit_lets_nothing_leave_and_faults_the_engine() {
    for lost in 1..=2 {
        let mut world = World::new();
        world.lose_from = Some(RecordSeq(lost));
        let id = world.submit(&keyed("ana", "k1"));
        world.pass(secs(10));
        assert!(world.arrivals.is_empty(), "record {lost} was lost");
        assert!(world.faulted);
        assert!(is_refused(&world, id));
        let faults = world
            .outputs
            .iter()
            .filter(|(_, output)| *output == Output::Faulted);
        assert_eq!(faults.count(), 1, "it is said once");
    }
}

#[test]
fn after_a_lost_commit_no_call_and_no_decision_is_taken() {
    let mut world = World::new();
    world.lose_from = Some(RecordSeq(1));
    world.submit(&read("ana"));
    world.pass(ms(10));
    let late = world.submit(&read("bob"));
    assert!(is_refused(&world, late));
    let decision = Decision {
        choice: Choice::Cancel,
        by: operator(),
        note: None,
        version: None,
        typed: None,
    };
    let (now, chance) = (world.now, world.chance());
    let decided = world
        .engine
        .handle_decision(now, chance, EscalationId(1), decision);
    assert_eq!(decided, Err(DecisionError::AuditUnavailable));
    let records = world.records.len();
    world.pass(secs(60));
    assert_eq!(world.records.len(), records, "no record follows a lost one");
}

#[test]
fn a_write_on_the_wire_is_told_to_be_unknown_and_is_reconciled_afterwards() {
    let mut world = World::new();
    let id = world.submit(&keyed("ana", "k1"));
    world.pass(ms(50));
    assert_eq!(world.arrivals.len(), 1);
    world.lose_from = Some(RecordSeq(3));
    world.submit(&read("bob"));
    world.pass(ms(10));
    assert_eq!(
        world.reply(id),
        Some(&Reply::Own(State::Unknown, "outcome_unknown".to_owned()))
    );
    world.crash();
    world.settle();
    assert_eq!(world.arrivals[0].key, world.arrivals[1].key);
    assert_eq!(world.state(id), State::Succeeded);
}

#[test]
fn the_answer_to_a_read_passes_although_its_record_is_lost() {
    let mut world = World::new();
    let id = world.submit(&read("ana"));
    world.pass(ms(50));
    world.lose_from = Some(RecordSeq(3));
    world.submit(&read("bob"));
    world.pass(secs(1));
    assert!(world.faulted);
    assert_eq!(world.reply(id), Some(&Reply::Answer(1, State::Succeeded)));
}

#[test]
fn a_read_that_dials_when_a_commit_is_lost_is_answered_once_by_what_comes_of_it() {
    let dials = Say::not_sent(NotSent::Connect).after(secs(5));
    let mut world = World::new().saying(always(dials));
    let id = world.submit(&read("ana"));
    world.pass(ms(50));
    world.lose_from = Some(RecordSeq(3));
    world.submit(&read("bob"));
    world.pass(ms(50));
    assert!(world.faulted);
    assert_eq!(world.replies.get(&id), None, "its runner has it in hand");
    world.pass(secs(6));
    let said = Reply::Own(State::Interrupted, "interrupted".to_owned());
    assert_eq!(world.replies.get(&id), Some(&vec![said]));
}

#[test]
fn a_read_whose_grant_was_lost_with_its_commit_is_refused() {
    let mut world = World::new();
    // Its request is durable, its attempt is not: the grant never left.
    world.lose_from = Some(RecordSeq(2));
    let id = world.submit(&read("ana"));
    world.pass(secs(1));
    assert!(world.faulted && world.arrivals.is_empty());
    assert!(is_refused(&world, id));
}

#[test]
fn a_write_that_dials_when_a_commit_is_lost_does_not_leave_any_more() {
    let mut world = World::new();
    world.dial = secs(5);
    let id = world.submit(&keyed("ana", "k1"));
    world.pass(ms(50));
    world.lose_from = Some(RecordSeq(3));
    world.submit(&read("bob"));
    world.pass(secs(10));
    assert!(is_refused(&world, id) && world.arrivals.is_empty());
}

#[test]
fn a_question_is_not_shown_before_it_is_durable() {
    let mut world = World::new().saying(always(Say::lost()));
    let id = world.submit(&write("ana"));
    world.pass(ms(102));
    assert_eq!(world.state(id), State::Escalated);
    let asked = |world: &World| {
        world
            .outputs
            .iter()
            .any(|(_, output)| matches!(output, Output::Asked { .. }))
    };
    assert!(!asked(&world));
    assert_eq!(world.reply(id), None);
    world.pass(ms(3));
    assert!(asked(&world));
    assert_eq!(world.code(id), "escalated");
}
