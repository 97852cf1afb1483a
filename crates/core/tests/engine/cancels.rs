//! Cancellation in every state: nothing of it ever sends again.

use rategov_core::engine::Output;
use rategov_core::event::{CancelledBy, Event, Found};
use rategov_core::id::{ActionId, Agent, Task};
use rategov_core::word::{Choice, State};

use super::support::call::{Call, generation, keyed, ms, read, secs, write};
use super::support::provider::{Arrival, Say, Script, What, always, in_turn};
use super::support::world::{Reply, World};

fn aborts(world: &World, id: ActionId) -> usize {
    let is_abort = |output: &Output| *output == Output::Abort { action: id };
    world.outputs.iter().filter(|(_, o)| is_abort(o)).count()
}

/// A world in which this call waits behind a closed account.
fn waiting(call: &Call) -> (World, ActionId) {
    let mut world = World::new().saying(in_turn(vec![Say::wait(20)]));
    world.submit(&read("first"));
    world.pass(ms(200));
    let id = world.submit(call);
    assert_eq!(world.state(id), State::Admitted);
    (world, id)
}

/// Cancels, lets a day pass, and crashes in between: no further attempt.
fn check(world: &mut World, id: ActionId, state: State) {
    let sends = world.sends(id).len();
    world.cancel(id);
    world.pass(ms(10));
    world.crash();
    world.settle();
    assert_eq!(world.sends(id).len(), sends, "it was sent again");
    assert_eq!(world.state(id), state);
}

#[test]
fn what_waits_ends_at_once() {
    for call in [read("ana"), write("ana"), keyed("ana", "k1")] {
        let (mut world, id) = waiting(&call);
        world.cancel(id);
        world.pass(ms(5));
        assert_eq!(world.code(id), "cancelled");
        assert_eq!(world.state(id), State::CancelledNotSent);
        assert_eq!(world.engine.waiting(), 1, "the first goes on");
        world.settle();
        assert!(world.sends(id).is_empty());
    }
}

#[test]
fn what_waits_for_its_repeat_ends_at_once() {
    let mut world = World::new().saying(in_turn(vec![Say::status(500)]));
    let id = world.submit(&read("ana"));
    world.pass(ms(150));
    assert_eq!(world.state(id), State::Waiting);
    check(&mut world, id, State::CancelledNotSent);
    assert_eq!(world.code(id), "cancelled");
}

#[test]
fn a_grant_that_is_not_yet_durable_is_not_taken_back_but_aborted() {
    let mut world = World::new();
    let id = world.submit(&read("ana"));
    world.cancel(id);
    assert_eq!(aborts(&world, id), 1);
}

/// A call whose connection takes five seconds, one of which has passed; or whose
/// grant is not durable yet.
fn dialling(call: &Call, passed: u64) -> (World, ActionId) {
    let mut world = World::new();
    world.dial = secs(5);
    let id = world.submit(call);
    world.pass(secs(passed));
    (world, id)
}

#[test]
fn what_is_cancelled_before_its_first_byte_never_leaves() {
    for call in [write("ana"), keyed("ana", "k1"), read("ana")] {
        for passed in [0, 1] {
            let (mut world, id) = dialling(&call, passed);
            world.cancel(id);
            assert_eq!(aborts(&world, id), 1, "it need not dial to the end");
            world.settle();
            assert!(world.arrivals.is_empty(), "{:?}", world.arrivals);
            assert_eq!(world.state(id), State::CancelledNotSent);
            assert_eq!(world.code(id), "cancelled");
        }
    }
}

#[test]
fn a_write_of_a_cancelled_task_does_not_leave_when_its_connection_is_made() {
    let call = write("ana").with(|call| call.task = Some("sync".to_owned()));
    let (mut world, id) = dialling(&call, 1);
    let (now, chance) = (world.now, world.chance());
    let task = (Agent::new("ana").unwrap(), Task::new("sync").unwrap());
    world
        .engine
        .handle_task_cancelled(now, chance, &task, 1, &CancelledBy::Task);
    world.settle();
    assert!(world.arrivals.is_empty());
    assert_eq!(world.state(id), State::CancelledNotSent);
}

#[test]
fn a_write_whose_caller_leaves_before_its_first_byte_is_withdrawn_and_its_key_free() {
    let (mut world, id) = dialling(&keyed("ana", "k1"), 1);
    world.hang_up(id);
    world.settle();
    assert!(world.arrivals.is_empty());
    assert_eq!(world.state(id), State::CancelledNotSent);
    let again = world.submit(&keyed("ana", "k1"));
    world.settle();
    assert_eq!(world.sends(again).len(), 1);
}

#[test]
fn a_repeat_that_joins_what_was_called_back_is_served_all_the_same() {
    let (mut world, id) = dialling(&keyed("ana", "k1"), 1);
    world.hang_up(id);
    let again = world.submit(&keyed("ana", "k1"));
    assert_eq!(world.reply(again), Some(&Reply::Joined(id)));
    world.settle();
    assert_eq!(world.sends(id).len(), 1);
    assert_eq!(world.state(id), State::Succeeded);
}

#[test]
fn a_read_on_the_wire_is_stopped() {
    for call in [read("ana"), generation("ana")] {
        let mut world = World::new().saying(always(Say::ok().after(secs(9))));
        let id = world.submit(&call);
        world.pass(secs(1));
        world.cancel(id);
        assert_eq!(aborts(&world, id), 1);
        world.cancel(id);
        assert_eq!(aborts(&world, id), 1, "a second cancel says nothing");
        world.settle();
        assert_eq!(world.sends(id).len(), 1);
    }
}

#[test]
fn a_cancelled_read_that_fails_is_not_repeated() {
    let mut world = World::new().saying(always(Say::status(503).after(secs(2))));
    let id = world.submit(&read("ana"));
    world.pass(secs(1));
    world.cancel(id);
    world.settle();
    assert_eq!(world.sends(id).len(), 1);
    assert_eq!(world.state(id), State::CancelledNotSent);
}

#[test]
fn a_write_on_the_wire_finishes_and_its_result_is_stored() {
    let mut world = World::new().saying(always(Say::ok().after(secs(2))));
    let id = world.submit(&write("ana"));
    world.pass(secs(1));
    world.cancel(id);
    assert_eq!(aborts(&world, id), 0);
    world.settle();
    assert_eq!(world.state(id), State::Succeeded);
    assert_eq!(world.reply(id), Some(&Reply::Answer(1, State::Succeeded)));
}

#[test]
fn a_cancelled_write_that_is_lost_is_looked_up_and_not_repeated() {
    for (found, state) in [
        (Found::Done, State::Succeeded),
        (Found::Nothing, State::CancelledNotSent),
        (Found::NoAnswer, State::AbandonedUnknown),
    ] {
        let script: Script = Box::new(move |arrival: &Arrival| match arrival.what {
            What::Attempt(_) => Say::lost().after(secs(2)),
            What::Lookup(_) => Say::found(found),
        });
        let mut world = World::new().saying(script);
        let id = world.submit(&keyed("ana", "k1").with_lookup());
        world.pass(secs(1));
        world.cancel(id);
        world.settle();
        assert_eq!(world.sends(id).len(), 1, "{found:?}");
        assert_eq!(world.state(id), state, "{found:?}");
    }
}

#[test]
fn a_cancelled_write_that_is_lost_without_look_up_ends_as_unknown_loudly() {
    let mut world = World::new().saying(always(Say::lost().after(secs(2))));
    let id = world.submit(&keyed("ana", "k1"));
    world.pass(secs(1));
    world.cancel(id);
    world.settle();
    assert_eq!(world.sends(id).len(), 1);
    assert_eq!(world.state(id), State::AbandonedUnknown);
    assert_eq!(world.code(id), "outcome_unknown");
}

#[test]
fn a_repeat_of_an_unknown_attempt_is_stopped_by_a_cancel() {
    let mut world = World::new().saying(always(Say::lost()));
    let id = world.submit(&keyed("ana", "k1"));
    world.pass(ms(150));
    assert_eq!(world.state(id), State::Waiting);
    assert!(world.row(id).uncertain);
    check(&mut world, id, State::AbandonedUnknown);
}

#[test]
fn what_is_being_looked_up_is_settled_but_not_sent_again() {
    let script: Script = Box::new(|arrival: &Arrival| match arrival.what {
        What::Attempt(_) => Say::lost(),
        What::Lookup(_) => Say::found(Found::Nothing),
    });
    let mut world = World::new().saying(script);
    let id = world.submit(&keyed("ana", "k1").with_lookup());
    world.pass(secs(2));
    assert_eq!(world.state(id), State::Reconciling);
    check(&mut world, id, State::CancelledNotSent);
}

#[test]
fn what_is_with_a_person_stays_there_and_offers_nothing_that_sends() {
    let mut world = World::new().saying(always(Say::lost()));
    let call = write("ana").with(|call| call.may_send_new = true);
    let id = world.submit(&call);
    world.pass(secs(1));
    assert!(world.question().choices.contains(&Choice::SendNew));
    world.cancel(id);
    world.pass(ms(10));
    world.crash();
    assert_eq!(world.state(id), State::Escalated);
    assert!(world.decide(Choice::SendNew).is_err());
    world.decide(Choice::ItHappened).unwrap();
    world.settle();
    assert_eq!(world.state(id), State::Succeeded);
    assert_eq!(world.sends(id).len(), 1);
}

#[test]
fn cancelling_a_task_stops_all_of_it_and_nothing_else() {
    let mut world = World::new().saying(always(Say::ok().after(secs(5))));
    let of = |agent: &str, task: Option<&str>| {
        read(agent).with(|call| {
            call.task = task.map(str::to_owned);
            call.path = format!("/{agent}/{task:?}");
        })
    };
    let mine = world.submit(&of("ana", Some("sync")));
    let other_task = world.submit(&of("ana", Some("report")));
    let other_agent = world.submit(&of("bob", Some("sync")));
    let no_task = world.submit(&of("ana", None));
    world.pass(secs(1));
    let (now, chance) = (world.now, world.chance());
    let task = (Agent::new("ana").unwrap(), Task::new("sync").unwrap());
    world
        .engine
        .handle_task_cancelled(now, chance, &task, 1, &CancelledBy::Task);
    world.settle();
    assert_eq!(aborts(&world, mine), 1);
    for id in [other_task, other_agent, no_task] {
        assert_eq!(aborts(&world, id), 0);
        assert_eq!(world.state(id), State::Succeeded);
    }
}

/// Crashes after the end of its task is durable and before its engine has heard
/// of it; with a route for the action, or without.
fn stopped_by_a_restart(world: &mut World, id: ActionId, has_route: bool, state: State) {
    let sends = world.sends(id).len();
    world.task_stopped = true;
    world.crash_with(|_| has_route);
    let by = CancelledBy::Task;
    let cancelled = Event::Cancelled { action: id, by };
    let before_all_else = world
        .records
        .iter()
        .take_while(|record| matches!(record.event, Event::Cancelled { .. }))
        .any(|record| record.event == cancelled);
    assert!(before_all_else, "{:?}", world.words());
    world.settle();
    assert_eq!(world.sends(id).len(), sends, "it was sent again");
    assert_eq!(world.state(id), state);
}

#[test]
fn what_waits_of_a_stopped_task_ends_at_the_start() {
    for call in [read("ana"), write("ana"), keyed("ana", "k1")] {
        for has_route in [true, false] {
            let (mut world, id) = waiting(&call.clone().with(|call| call.detached = true));
            world.pass(ms(10));
            stopped_by_a_restart(&mut world, id, has_route, State::CancelledNotSent);
            assert!(world.row(id).cancelled, "its key does not come back");
        }
    }
}

#[test]
fn what_was_sent_of_a_stopped_task_is_found_out_and_not_sent_again() {
    for (call, found, state) in [
        (read("ana"), Found::NoAnswer, State::CancelledNotSent),
        (keyed("ana", "k1"), Found::NoAnswer, State::AbandonedUnknown),
        (
            keyed("ana", "k1").with_lookup(),
            Found::Done,
            State::Succeeded,
        ),
        (
            keyed("ana", "k1").with_lookup(),
            Found::Nothing,
            State::CancelledNotSent,
        ),
    ] {
        // On the wire, and waiting for its repeat or its look-up.
        for passed in [ms(50), ms(150)] {
            let script: Script = Box::new(move |arrival: &Arrival| match arrival.what {
                What::Attempt(_) => Say::lost(),
                What::Lookup(_) => Say::found(found),
            });
            let mut world = World::new().saying(script);
            let id = world.submit(&call.clone().with(|call| call.detached = true));
            world.pass(passed);
            stopped_by_a_restart(&mut world, id, true, state);
        }
    }
}

#[test]
fn what_is_with_a_person_stays_there_when_its_task_was_stopped() {
    let mut world = World::new().saying(always(Say::lost()));
    let id = world.submit(&write("ana"));
    world.pass(secs(1));
    let question = world.question().escalation;
    world.task_stopped = true;
    world.crash();
    assert_eq!(world.state(id), State::Escalated);
    assert_eq!(world.question().escalation, question);
    assert!(world.decide(Choice::RetrySameKey).is_err());
    assert!(world.row(id).cancelled);
}

#[test]
fn a_cancelled_key_stays_cancelled() {
    let (mut world, id) = waiting(&keyed("ana", "k1"));
    world.cancel(id);
    world.pass(secs(1));
    let again = world.submit(&keyed("ana", "k1"));
    assert_eq!(world.reply(again), Some(&Reply::Joined(id)));
}
