//! Callers that leave, and callers that are let go.

use rategov_core::engine::{BodyEnd, Output};
use rategov_core::event::Found;
use rategov_core::observe::{Facts, Meaning};
use rategov_core::word::State;

use super::support::call::{generation, keyed, ms, read, secs, write};
use super::support::provider::{Arrival, Say, Script, What, always, in_turn};
use super::support::world::{Reply, World};

#[test]
fn a_caller_that_leaves_withdraws_what_still_waits() {
    let mut world = World::new().saying(in_turn(vec![Say::wait(20)]));
    world.submit(&read("first"));
    world.pass(ms(200));
    let id = world.submit(&keyed("ana", "k1"));
    world.hang_up(id);
    assert_eq!(world.state(id), State::CancelledNotSent);
    let again = world.submit(&keyed("ana", "k1"));
    world.settle();
    assert_eq!(
        world.state(again),
        State::Succeeded,
        "the same key may come back"
    );
    assert_eq!(
        world.arrivals.iter().filter(|a| a.agent == "ana").count(),
        1
    );
}

#[test]
fn a_repeat_that_waits_is_withdrawn_too() {
    let mut world = World::new().saying(in_turn(vec![Say::wait(20)]));
    let id = world.submit(&write("ana").with(|call| {
        call.limits = Some(rategov_core::policy::ClassTable::default().idempotent_write);
    }));
    world.pass(secs(1));
    assert_eq!(world.state(id), State::Waiting);
    world.hang_up(id);
    world.settle();
    assert_eq!(world.state(id), State::CancelledNotSent);
    assert_eq!(world.sends(id).len(), 1);
}

#[test]
fn what_runs_without_its_caller_goes_on() {
    let mut world = World::new().saying(in_turn(vec![Say::wait(20)]));
    let id = world.submit(&read("ana").with(|call| call.detached = true));
    world.pass(secs(1));
    world.hang_up(id);
    world.settle();
    assert_eq!(world.state(id), State::Succeeded);
}

#[test]
fn a_write_that_was_sent_finishes_without_its_caller() {
    let mut world = World::new().saying(always(Say::ok().after(secs(5))));
    let id = world.submit(&write("ana"));
    world.pass(secs(1));
    world.hang_up(id);
    world.settle();
    assert_eq!(world.state(id), State::Succeeded);
}

#[test]
fn an_uncertain_write_is_settled_without_its_caller() {
    let script: Script = Box::new(|arrival: &Arrival| match arrival.what {
        What::Attempt(_) => Say::lost().after(secs(2)),
        What::Lookup(_) => Say::found(Found::Done),
    });
    let mut world = World::new().saying(script);
    let id = world.submit(&keyed("ana", "k1").with_lookup());
    world.pass(secs(1));
    world.hang_up(id);
    world.settle();
    assert_eq!(world.state(id), State::Succeeded);
}

#[test]
fn a_read_or_generation_on_the_wire_is_stopped() {
    for call in [read("ana"), generation("ana")] {
        let mut world = World::new().saying(always(Say::ok().after(secs(5))));
        let id = world.submit(&call);
        world.pass(secs(1));
        world.hang_up(id);
        let stopped = Output::Abort { action: id };
        assert!(world.outputs.iter().any(|(_, output)| *output == stopped));
    }
}

#[test]
fn a_failed_read_without_a_caller_is_not_repeated() {
    let mut world = World::new().saying(always(Say::status(500).after(secs(2))));
    let id = world.submit(&read("ana"));
    world.pass(secs(1));
    world.hang_up(id);
    world.settle();
    assert_eq!(world.sends(id).len(), 1);
}

#[test]
fn a_body_that_streams_keeps_its_seat_until_it_ends() {
    let policy = super::bounds::seats(1);
    let facts = Facts::bare(200, Meaning::Ok);
    let stream = Say::Stream(ms(100), facts, secs(30), BodyEnd::Complete);
    let mut world = World::under(policy).saying(in_turn(vec![stream]));
    let streams = world.submit(&generation("ana"));
    let waits = world.submit(&read("bob"));
    world.pass(secs(29));
    assert_eq!(
        world.reply(streams),
        Some(&Reply::Answer(1, State::Dispatching))
    );
    assert!(world.sends(waits).is_empty());
    assert_eq!(world.engine.on_the_wire(), 1);
    world.pass(secs(2));
    assert_eq!(world.sends(waits).len(), 1);
    world.settle();
    assert_eq!(world.state(streams), State::Succeeded);
}

#[test]
fn a_broken_stream_is_reported_and_not_restarted() {
    let facts = Facts::bare(200, Meaning::Ok);
    let stream = Say::Stream(ms(100), facts, secs(3), BodyEnd::Cut);
    let mut world = World::new().saying(always(stream));
    let id = world.submit(&generation("ana"));
    world.settle();
    assert_eq!(world.sends(id).len(), 1);
    assert_eq!(world.row(id).code, "stream_broken");
}

#[test]
fn a_refusal_late_in_a_stream_closes_its_scope_and_leaves_the_call_to_its_end() {
    let facts = Facts::bare(200, Meaning::Ok);
    let stream = Say::Stream(ms(100), facts, secs(30), BodyEnd::ErrorEvent);
    let mut world = World::new().saying(in_turn(vec![stream]));
    let streams = world.submit(&generation("ana"));
    world.pass(secs(1));
    let late = Facts {
        retry_after: Some(secs(20)),
        retry_source: Some("the provider's error body"),
        ..Facts::bare(200, Meaning::RateLimited)
    };
    let (now, chance) = (world.now, world.chance());
    world
        .engine
        .handle_late_refusal(now, chance, streams, 1, &late);
    // Of an attempt that is not the open one nothing is believed.
    let longer = Facts {
        retry_after: Some(secs(900)),
        ..late.clone()
    };
    let chance = world.chance();
    world
        .engine
        .handle_late_refusal(now, chance, streams, 2, &longer);
    let next = world.submit(&read("ben"));
    world.settle();
    let sent = world.sends(next)[0].since(now);
    assert!(secs(20) <= sent && sent < secs(25), "{sent}");
    assert_eq!(world.sends(streams).len(), 1, "its bytes have passed");
    assert_eq!(world.row(streams).code, "stream_broken");
}

#[test]
fn a_refusal_that_streams_frees_its_seat_at_once_and_is_repeated() {
    let policy = super::bounds::seats(1);
    let facts = Facts::bare(503, Meaning::Overloaded);
    let stream = Say::Stream(ms(100), facts, secs(3_600), BodyEnd::Complete);
    let mut world = World::under(policy).saying(in_turn(vec![stream]));
    let id = world.submit(&read("ana"));
    world.pass(secs(60));
    assert_eq!(world.sends(id).len(), 2);
    assert_eq!(world.state(id), State::Succeeded);
}

#[test]
fn a_caller_whose_time_is_over_is_refused_with_a_time_and_keeps_its_place() {
    let policy = super::bounds::seats(1);
    let mut world = World::under(policy).saying(always(Say::ok().after(secs(100))));
    world.submit(&read("first").held(secs(300)));
    world.pass(secs(1));
    // One seat, and nobody knows yet how long a call takes.
    let early = world.submit(&read("ana").held(secs(10)));
    let late = world.submit(&read("bob").held(secs(300)));
    world.pass(secs(11));
    assert_eq!(world.refusal(early).code.word(), "hold_exceeded");
    assert!(world.refusal(early).retry_at.is_some());
    let back = world.submit(&read("ana").held(secs(300)));
    world.settle();
    let (back, late) = (world.sends(back)[0], world.sends(late)[0]);
    assert!(back < late, "it stands where it stood");
}

#[test]
fn who_is_not_held_at_all_goes_at_once_or_is_refused_at_once() {
    let policy = super::bounds::seats(1);
    let mut world = World::under(policy).saying(always(Say::ok().after(secs(100))));
    let first = world.submit(&read("ana").held(secs(0)));
    let second = world.submit(&read("bob").held(secs(0)));
    world.pass(secs(1));
    assert_eq!(world.sends(first).len(), 1, "nothing stands in its way");
    assert_eq!(world.refusal(second).code.word(), "hold_exceeded");
    assert!(world.refusal(second).retry_at.is_some());
    world.settle();
    assert_eq!(world.state(first), State::Succeeded);
}

#[test]
fn a_used_up_quota_is_told_from_a_rate_and_with_the_time_that_was_named() {
    let exhausted = Facts {
        retry_after: Some(secs(18_000)),
        ..Facts::bare(429, Meaning::QuotaExhausted)
    };
    let mut world = World::new().saying(always(Say::facts(exhausted)));
    world.submit(&read("ana"));
    world.pass(secs(1));
    for _life in 0..2 {
        let later = world.submit(&read("bob"));
        world.pass(secs(1));
        let refusal = world.refusal(later);
        assert_eq!(refusal.code.word(), "quota_exhausted");
        let back = refusal.retry_at.unwrap().since(world.now);
        assert!(secs(17_990) <= back && back <= secs(18_100), "{back}");
        world.crash();
    }
}

#[test]
fn a_place_lapses_for_those_who_do_not_come_back() {
    let policy = super::bounds::seats(1);
    let mut world = World::under(policy).saying(always(Say::ok().after(secs(400))));
    world.submit(&read("first").held(secs(900)));
    world.pass(secs(1));
    let early = world.submit(&read("ana").held(secs(10)));
    let late = world.submit(&read("bob").held(secs(3_000)));
    world.pass(secs(11));
    let lapses = world.refusal(early).retry_at.unwrap() + secs(60);
    world.drive_to(lapses);
    let back = world.submit(&read("ana").held(secs(3_000)));
    world.settle();
    let (back, late) = (world.sends(back)[0], world.sends(late)[0]);
    assert!(late < back);
}

#[test]
fn a_caller_is_let_go_while_its_write_is_being_established() {
    let script: Script = Box::new(|arrival: &Arrival| match arrival.what {
        What::Attempt(_) => Say::lost(),
        What::Lookup(1..3) => Say::found(Found::Running).after(secs(10)),
        What::Lookup(_) => Say::found(Found::Done),
    });
    let mut world = World::new().saying(script);
    let id = world.submit(&keyed("ana", "k1").with_lookup().held(secs(5)));
    world.pass(secs(15));
    assert_eq!(
        world.reply(id),
        Some(&Reply::Own(State::Reconciling, "still_open".to_owned()))
    );
    world.settle();
    assert_eq!(world.state(id), State::Succeeded);
}

#[test]
fn a_send_that_outlasts_the_hold_is_awaited_and_what_follows_is_not() {
    let script = in_turn(vec![Say::wait(5).after(secs(8))]);
    let mut world = World::new().saying(script);
    let id = world.submit(&read("ana").held(secs(6)));
    world.settle();
    assert_eq!(world.sends(id).len(), 1);
    assert_eq!(
        world.reply(id),
        Some(&Reply::Answer(1, State::FailedDefinite))
    );
}

#[test]
fn a_hold_that_ends_during_a_lost_send_lets_its_caller_go() {
    let script: Script = Box::new(|arrival: &Arrival| match arrival.what {
        What::Attempt(_) => Say::lost().after(secs(8)),
        What::Lookup(_) => Say::found(Found::Done).after(secs(10)),
    });
    let mut world = World::new().saying(script);
    let id = world.submit(&keyed("ana", "k1").with_lookup().held(secs(6)));
    world.pass(secs(9));
    assert_eq!(world.code(id), "still_open");
    world.settle();
    assert_eq!(world.state(id), State::Succeeded);
}
