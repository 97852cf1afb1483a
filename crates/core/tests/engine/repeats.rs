//! Calls that come twice.

use rategov_core::engine::Marker;
use rategov_core::event::Event;
use rategov_core::policy::ClassTable;
use rategov_core::word::{Choice, State};

use super::support::call::{keyed, ms, read, secs, write};
use super::support::provider::{Say, always, in_turn};
use super::support::world::{Reply, World};

#[test]
fn a_key_that_comes_back_joins_its_action() {
    let mut world = World::new().saying(always(Say::ok().after(secs(5))));
    let id = world.submit(&keyed("ana", "k1"));
    world.pass(secs(1));
    let twin = world.submit(&keyed("ana", "k1"));
    assert_eq!(world.reply(twin), Some(&Reply::Joined(id)));
    assert!(
        world
            .find(|event| matches!(event, Event::Joined { by, .. } if by == "key"))
            .is_some()
    );
    world.settle();
    let late = world.submit(&keyed("ana", "k1"));
    assert_eq!(world.reply(late), Some(&Reply::Joined(id)));
    assert_eq!(world.arrivals.len(), 1);
}

#[test]
fn a_key_with_another_payload_is_refused_and_never_sent() {
    let mut world = World::new();
    let id = world.submit(&keyed("ana", "k1"));
    let other = keyed("ana", "k1").with(|call| call.body = 7);
    let open = world.submit(&other);
    world.settle();
    let ended = world.submit(&other);
    for refused in [open, ended] {
        assert_eq!(world.refusal(refused).code.word(), "key_reused");
        assert!(world.refusal(refused).why.contains(&id.to_string()));
    }
    assert_eq!(world.arrivals.len(), 1);
}

#[test]
fn a_key_at_another_resource_of_the_same_endpoint_is_refused() {
    let mut world = World::new();
    world.submit(&keyed("ana", "k1"));
    let other = keyed("ana", "k1").with(|call| call.path = "/records/2".to_owned());
    let open = world.submit(&other);
    world.settle();
    let ended = world.submit(&other);
    for refused in [open, ended] {
        assert_eq!(world.refusal(refused).code.word(), "key_reused");
    }
    assert_eq!(world.arrivals.len(), 1);
}

#[test]
fn a_key_of_another_agent_gives_nothing_away() {
    let mut world = World::new();
    world.submit(&keyed("ana", "k1"));
    world.settle();
    let ended = world.submit(&keyed("eve", "k1"));
    assert_eq!(world.refusal(ended).why, "");
    let mut world = World::new();
    world.submit(&keyed("ana", "k1"));
    for call in [
        keyed("eve", "k1"),
        keyed("eve", "k1").with(|call| call.body = 7),
    ] {
        let thief = world.submit(&call);
        assert_eq!(world.refusal(thief).code.word(), "key_reused");
        assert_eq!(world.refusal(thief).why, "");
    }
}

#[test]
fn a_look_alike_of_another_agents_write_does_not_name_it() {
    let mut world = World::new().saying(in_turn(vec![Say::lost()]));
    let of = |agent| write(agent).with(|call| call.path = "/records/1".to_owned());
    let id = world.submit(&of("ana"));
    world.pass(secs(1));
    for (agent, is_named) in [("ana", true), ("eve", false)] {
        let twin = world.submit(&of(agent));
        let refusal = world.refusal(twin);
        assert_eq!(refusal.code.word(), "lookalike_held");
        assert_eq!(refusal.why.contains(&id.to_string()), is_named, "{agent}");
    }
}

#[test]
fn a_repeat_that_joins_makes_its_action_wanted_again() {
    let script = in_turn(vec![Say::status(503).after(secs(5))]);
    let mut world = World::new().saying(script);
    let call = keyed("ana", "k1").with(|call| call.profile.refusals_unprocessed = vec![503]);
    let id = world.submit(&call);
    world.pass(secs(1));
    world.hang_up(id);
    world.submit(&call);
    world.settle();
    assert_eq!(
        world.sends(id).len(),
        2,
        "a refusal is repeated for the one who waits"
    );
    assert_eq!(world.state(id), State::Succeeded);
}

#[test]
fn equal_reads_are_separate_actions() {
    let mut world = World::new().saying(always(Say::ok().after(secs(5))));
    world.submit(&read("ana"));
    world.submit(&read("ana"));
    world.settle();
    assert_eq!(world.arrivals.len(), 2);
}

#[test]
fn a_repeat_that_an_sdk_announces_joins_the_call_in_hand() {
    let mut world = World::new().saying(always(Say::ok().after(secs(5))));
    let id = world.submit(&write("ana"));
    world.pass(secs(1));
    let marked = write("ana").with(|call| call.marker = Marker::SdkRetry);
    let repeat = world.submit(&marked);
    assert_eq!(world.reply(repeat), Some(&Reply::Joined(id)));
    let of_another = world.submit(&marked.clone().with(|call| call.agent = "bob".to_owned()));
    assert_eq!(world.reply(of_another), None);
    world.settle();
    assert_eq!(world.sends(id).len(), 1);
    let after_the_end = world.submit(&marked);
    world.settle();
    assert_eq!(world.sends(after_the_end).len(), 1);
}

#[test]
fn a_write_that_equals_one_of_unknown_outcome_is_held_off() {
    let mut world = World::new().saying(in_turn(vec![Say::lost()]));
    let id = world.submit(&write("ana"));
    world.pass(secs(1));
    let twin = world.submit(&write("ana"));
    assert_eq!(world.refusal(twin).code.word(), "lookalike_held");
    let other = world.submit(&write("ana").with(|call| call.body = 9));
    world.pass(secs(1));
    assert_eq!(world.state(other), State::Succeeded);
    world.decide(Choice::ItDidNot).unwrap();
    world.pass(secs(1));
    assert_eq!(world.state(id), State::FailedDefinite);
    let again = world.submit(&write("ana"));
    world.settle();
    assert_eq!(world.state(again), State::Succeeded, "it is settled now");
}

#[test]
fn another_write_to_an_endpoint_in_doubt_is_held_off_for_a_time() {
    let of = |agent: &str, body: u8| {
        write(agent).with(|call| {
            call.profile.hold_after_uncertain = secs(60);
            call.body = body;
        })
    };
    let mut world = World::new().saying(in_turn(vec![Say::lost()]));
    let id = world.submit(&of("ana", 1));
    world.pass(secs(10));
    let again = world.submit(&of("ana", 2));
    let refusal = world.refusal(again).clone();
    assert_eq!(refusal.code.word(), "lookalike_held");
    assert!(refusal.why.contains(&id.to_string()));
    let until = refusal.retry_at.unwrap();
    let elsewhere = world.submit(&of("eve", 3));
    world.pass(secs(1));
    assert_eq!(world.state(elsewhere), State::Succeeded, "it is another's");
    world.crash();
    let again = world.submit(&of("ana", 2));
    assert_eq!(
        world.refusal(again).retry_at,
        Some(until),
        "also after a crash"
    );

    world.drive_to(until);
    let late = world.submit(&of("ana", 2));
    world.pass(secs(1));
    assert_eq!(world.state(late), State::Succeeded, "its time is over");
    assert_eq!(world.state(id), State::Escalated, "and it is not settled");
}

#[test]
fn another_write_goes_once_the_one_in_doubt_is_settled() {
    let of = |body: u8| {
        write("ana").with(|call| {
            call.profile.hold_after_uncertain = secs(60);
            call.body = body;
        })
    };
    let mut world = World::new().saying(in_turn(vec![Say::lost()]));
    world.submit(&of(1));
    world.pass(secs(10));
    world.decide(Choice::ItDidNot).unwrap();
    let other = world.submit(&of(2));
    world.pass(secs(1));
    assert_eq!(world.state(other), State::Succeeded);
}

#[test]
fn equal_writes_without_doubt_are_separate_actions() {
    let mut world = World::new().saying(always(Say::ok().after(secs(5))));
    world.submit(&write("ana"));
    world.pass(secs(1));
    world.submit(&write("ana"));
    world.settle();
    assert_eq!(world.arrivals.len(), 2);
}

#[test]
fn a_key_that_comes_back_after_refusals_has_only_what_is_left_of_its_budget() {
    let mut world = World::new().saying(always(Say::wait(5)));
    let call = keyed("ana", "k1")
        .held(secs(8))
        .with(|call| call.limits = Some(ClassTable::default().idempotent_write));
    let first = world.submit(&call);
    world.pass(secs(100));
    let after_first = world.sends(first).len();
    assert!((1..=2).contains(&after_first), "{after_first}");
    let mut all = after_first;
    for _ in 0..5 {
        let again = world.submit(&call);
        world.pass(secs(100));
        all += world.sends(again).len();
    }
    assert_eq!(all, 3, "three attempts in all, whatever the agent does");
}

#[test]
fn a_key_that_ended_with_an_answer_gets_that_answer() {
    for status in [200, 400, 404] {
        let mut world = World::new().saying(in_turn(vec![Say::status(status)]));
        let id = world.submit(&keyed("ana", "k1"));
        world.settle();
        let again = world.submit(&keyed("ana", "k1"));
        assert_eq!(world.reply(again), Some(&Reply::Joined(id)), "{status}");
    }
}

#[test]
fn a_key_that_was_turned_away_before_sending_may_come_back() {
    let policy = rategov_core::policy::AccountPolicy {
        max_waiting: 1,
        ..super::bounds::seats(1)
    };
    let mut world = World::under(policy).saying(always(Say::ok().after(secs(2))));
    world.submit(&read("first"));
    world.submit(&read("second"));
    world.pass(ms(10));
    let refused = world.submit(&keyed("ana", "k1"));
    assert_eq!(world.refusal(refused).code.word(), "queue_full");
    world.settle();
    let again = world.submit(&keyed("ana", "k1"));
    world.settle();
    assert_eq!(world.state(again), State::Succeeded);
}
