//! Reads: the plain way through the engine.

use rategov_core::engine::Output;
use rategov_core::event::{Durability, Event};
use rategov_core::word::State;

use super::support::call::{Call, ms, read};
use super::support::provider::{Say, in_turn};
use super::support::world::{BEGIN, Reply, World};

#[test]
fn a_read_is_recorded_granted_sent_and_answered_in_that_order() {
    let mut world = World::new();
    let id = world.submit(&read("ana"));
    assert_eq!(world.story(id), ["action_requested", "action_sent"]);
    assert!(
        world.arrivals.is_empty(),
        "nothing leaves before the commit"
    );
    world.settle();
    assert_eq!(world.sends(id), [BEGIN + ms(2)]);
    assert_eq!(
        world.story(id),
        [
            "action_requested",
            "action_sent",
            "action_result",
            "terminal"
        ]
    );
    assert_eq!(world.reply(id), Some(&Reply::Answer(1, State::Succeeded)));
    assert!(world.engine.is_idle());
}

#[test]
fn a_read_must_survive_the_process_only_and_its_success_is_not_urgent() {
    let mut world = World::new();
    world.submit(&read("ana"));
    world.settle();
    let durabilities: Vec<Durability> = world.records.iter().map(|it| it.durability).collect();
    let (before, after) = (Durability::Process, Durability::Soon);
    assert_eq!(durabilities, [before, before, after, after]);
}

/// Each record of this call must survive the process.
fn check_urgent(mut world: World, call: &Call) {
    world.submit(call);
    world.settle();
    let mut records = world.records.iter();
    assert!(records.all(|record| record.durability == Durability::Process));
}

#[test]
fn the_failure_of_a_read_is_urgent() {
    check_urgent(
        World::new().saying(in_turn(vec![Say::status(404)])),
        &read("ana"),
    );
}

#[test]
fn a_result_that_is_fetched_later_is_urgent() {
    check_urgent(World::new(), &read("ana").with(|call| call.detached = true));
}

#[test]
fn a_definite_error_is_passed_on_and_not_repeated() {
    let mut world = World::new().saying(in_turn(vec![Say::status(404)]));
    let id = world.submit(&read("ana"));
    world.settle();
    assert_eq!(
        world.reply(id),
        Some(&Reply::Answer(1, State::FailedDefinite))
    );
    assert_eq!(world.sends(id).len(), 1);
}

#[test]
fn a_failing_read_is_repeated_until_its_attempts_are_used_up() {
    let mut world = World::new().saying(in_turn(vec![Say::status(500); 9]));
    let id = world.submit(&read("ana"));
    world.settle();
    assert_eq!(world.sends(id).len(), 4);
    assert_eq!(
        world.reply(id),
        Some(&Reply::Answer(4, State::FailedDefinite))
    );
    let Some(Event::Terminal {
        attempts, waited, ..
    }) = world.records.last().map(|record| &record.event)
    else {
        panic!("it did not end");
    };
    assert_eq!(*attempts, 4);
    let between: u64 = world
        .sends(id)
        .windows(2)
        .map(|pair| pair[1].since(pair[0]).as_micros() - 102_000)
        .sum();
    let off = waited.as_micros().abs_diff(between);
    assert!(off < 3_000, "waited {waited}, seen {between} us");
}

#[test]
fn nothing_of_a_call_is_left_when_it_has_ended() {
    let mut world = World::new().saying(in_turn(vec![Say::status(503), Say::ok()]));
    world.submit(&read("ana"));
    world.settle();
    assert!(world.engine.is_idle());
    assert_eq!(world.engine.waiting(), 0);
    assert_eq!(world.engine.on_the_wire(), 0);
    let waits = world
        .outputs
        .iter()
        .filter(|(_, output)| matches!(output, Output::Continue { .. }));
    assert_eq!(waits.count(), 1);
}
