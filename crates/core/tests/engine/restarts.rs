//! Crashes and restarts: what the tables say is all that is known.

use rategov_core::action::outcome::Lost;
use rategov_core::event::Found;
use rategov_core::id::ActionId;
use rategov_core::policy::{ClassLimits, ClassTable};
use rategov_core::word::{Choice, State};

use super::support::call::{Call, generation, keyed, ms, read, secs, write};
use super::support::provider::{Arrival, Say, Script, What, always, in_turn};
use super::support::world::{Reply, World};

/// Crashes while the first attempt of this call is out.
fn crashed_in_flight(call: &Call, script: Script) -> (World, ActionId) {
    let mut world = World::new().saying(script);
    let id = world.submit(call);
    world.pass(ms(50));
    assert_eq!(world.state(id), State::Dispatching);
    world.crash();
    (world, id)
}

fn found(found: Found) -> Script {
    Box::new(move |arrival: &Arrival| match arrival.what {
        What::Attempt(_) => Say::ok(),
        What::Lookup(_) => Say::found(found),
    })
}

#[test]
fn a_write_that_was_open_is_reconciled_with_its_original_key() {
    let call = keyed("ana", "k1").with_lookup();
    let (mut world, id) = crashed_in_flight(&call, found(Found::Done));
    world.settle();
    assert_eq!(world.sends(id).len(), 1);
    assert_eq!(world.state(id), State::Succeeded);

    let (mut world, id) = crashed_in_flight(&call, found(Found::Nothing));
    let restarted = world.now;
    world.settle();
    let sends = world.sends(id);
    assert_eq!(sends.len(), 2);
    assert!(restarted + secs(6) <= sends[1], "counted from the restart");
    assert!(
        world
            .arrivals
            .iter()
            .all(|a| a.key.as_deref() == Some("k1"))
    );
}

#[test]
fn a_write_that_was_open_goes_again_under_its_key_where_that_is_the_reconciliation() {
    let (mut world, id) = crashed_in_flight(&keyed("ana", "k1"), always(Say::ok()));
    world.settle();
    assert_eq!(world.sends(id).len(), 2);
    assert_eq!(world.state(id), State::Succeeded);
}

#[test]
fn a_write_that_was_open_and_cannot_be_found_out_is_brought_to_a_person() {
    let (mut world, id) = crashed_in_flight(&write("ana"), always(Say::ok()));
    world.pass(secs(100));
    assert_eq!(world.sends(id).len(), 1);
    assert_eq!(world.state(id), State::Escalated);
}

#[test]
fn a_read_that_was_open_is_interrupted_and_not_sent_again() {
    for call in [read("ana"), generation("ana")] {
        let (mut world, id) = crashed_in_flight(&call, always(Say::ok()));
        world.settle();
        assert_eq!(world.sends(id).len(), 1);
        assert_eq!(world.state(id), State::Interrupted);
        assert_eq!(world.code(id), "interrupted");
    }
}

#[test]
fn a_read_that_somebody_will_fetch_is_sent_again() {
    let call = read("ana").with(|call| call.detached = true);
    let (mut world, id) = crashed_in_flight(&call, always(Say::ok()));
    world.settle();
    assert_eq!(world.sends(id).len(), 2);
    assert_eq!(world.state(id), State::Succeeded);
}

#[test]
fn a_generation_that_may_have_been_billed_is_sent_again_only_with_leave() {
    for (leave, sends) in [(false, 1), (true, 2)] {
        let call = generation("ana").with(|call| {
            call.detached = true;
            call.limits = Some(ClassLimits {
                ambiguous_retry: leave,
                ..ClassTable::default().generation
            });
        });
        let (mut world, id) = crashed_in_flight(&call, always(Say::ok()));
        world.settle();
        assert_eq!(world.sends(id).len(), sends);
    }
}

#[test]
fn what_was_never_durable_never_happened() {
    let mut world = World::new();
    let id = world.submit(&keyed("ana", "k1"));
    world.pass(ms(1));
    world.crash();
    world.settle();
    assert!(world.arrivals.is_empty());
    assert!(world.durable.action(id).is_none());
    let again = world.submit(&keyed("ana", "k1"));
    world.settle();
    assert_eq!(world.state(again), State::Succeeded);
}

/// A world in which this call waits behind a closed account.
fn waiting(call: &Call) -> (World, ActionId) {
    let mut world = World::new().saying(in_turn(vec![Say::wait(20)]));
    world.submit(&read("first"));
    world.pass(ms(200));
    let id = world.submit(call);
    world.pass(ms(10));
    (world, id)
}

#[test]
fn what_waits_for_a_caller_that_is_gone_is_withdrawn() {
    for call in [read("ana"), write("ana"), keyed("ana", "k1")] {
        let (mut world, id) = waiting(&call);
        world.crash();
        world.settle();
        assert!(world.sends(id).is_empty());
        assert_eq!(world.state(id), State::CancelledNotSent);
    }
}

#[test]
fn what_runs_without_its_caller_waits_on_behind_the_same_hold() {
    let (mut world, id) = waiting(&read("ana").with(|call| call.detached = true));
    let refused = world.arrivals[0].at + ms(100);
    world.crash();
    world.settle();
    let sends = world.sends(id);
    assert_eq!(sends.len(), 1);
    assert!(
        refused + secs(20) <= sends[0],
        "the hold outlives the process"
    );
}

#[test]
fn a_hold_that_was_lengthened_stands_after_a_restart_for_all_of_it() {
    for longer in [Say::wait(30), Say::wait(30).after(ms(400))] {
        let mut world = World::new().saying(in_turn(vec![Say::wait(5), longer]));
        world.submit(&read("ana"));
        world.submit(&read("bob"));
        world.pass(secs(1));
        let refused = world.arrivals[1].at + ms(100);
        world.crash();
        let id = world.submit(&read("cyd"));
        world.settle();
        assert!(refused + secs(30) <= world.sends(id)[0]);
    }
}

#[test]
fn a_question_stays_open_with_its_time() {
    let mut world = World::new().saying(always(Say::lost()));
    let id = world.submit(&write("ana"));
    world.pass(secs(1));
    let question = world.question();
    world.crash();
    assert_eq!(world.question(), question);
    world.drive_to(question.expires);
    world.pass(secs(1));
    assert_eq!(world.state(id), State::AbandonedUnknown);
}

#[test]
fn look_ups_go_on_within_their_budget_and_the_one_that_was_out_counts() {
    let script: Script = Box::new(|arrival: &Arrival| match arrival.what {
        What::Attempt(_) => Say::lost(),
        What::Lookup(1) => Say::Silence,
        What::Lookup(_) => Say::found(Found::NoAnswer),
    });
    let mut world = World::new().saying(script);
    let id = world.submit(&write("ana").with_lookup());
    world.pass(secs(2));
    assert_eq!(world.lookups(id).len(), 1);
    world.crash();
    world.pass(secs(600));
    assert_eq!(world.lookups(id).len(), 5);
    assert_eq!(world.state(id), State::Escalated);
}

#[test]
fn a_cancelled_action_stays_cancelled() {
    let (mut world, id) = waiting(&read("ana").with(|call| call.detached = true));
    let before = world.records.len() as u64;
    // The cancel is durable, the end is not.
    world.lose_from = Some(rategov_core::id::RecordSeq(before + 2));
    world.cancel(id);
    world.pass(ms(3));
    world.crash();
    world.settle();
    assert!(world.sends(id).is_empty());
    assert_eq!(world.state(id), State::CancelledNotSent);
}

#[test]
fn a_success_that_was_recorded_is_never_sent_again() {
    // The result is durable, the end is not.
    for call in [
        write("ana"),
        keyed("ana", "k1"),
        keyed("ana", "k1").with_lookup(),
    ] {
        let mut world = World::new();
        let id = world.submit(&call);
        world.lose_from = Some(rategov_core::id::RecordSeq(4));
        world.pass(ms(110));
        world.crash();
        world.settle();
        assert_eq!(world.sends(id).len(), 1);
        assert_eq!(world.state(id), State::Succeeded);
    }
}

#[test]
fn a_definite_failure_that_was_recorded_ends_as_one() {
    let mut world = World::new().saying(always(Say::status(400)));
    let id = world.submit(&keyed("ana", "k1"));
    world.lose_from = Some(rategov_core::id::RecordSeq(4));
    world.pass(ms(110));
    world.crash();
    world.settle();
    assert_eq!(world.sends(id).len(), 1);
    assert_eq!(world.state(id), State::FailedDefinite);
}

#[test]
fn an_action_without_a_route_is_never_dropped_silently() {
    // Open: it may have arrived.
    let mut world = World::new().saying(always(Say::Silence));
    let open = world.submit(&keyed("ana", "k1").with_lookup());
    let read = world.submit(&read("ana"));
    world.pass(ms(50));
    world.crash_with(|_| false);
    world.pass(secs(10));
    assert_eq!(world.state(open), State::Escalated);
    assert_eq!(
        world.question().choices,
        [Choice::ItHappened, Choice::ItDidNot, Choice::Cancel]
    );
    assert_eq!(world.state(read), State::Interrupted);
    assert_eq!(world.sends(open).len(), 1);

    // Waiting to be repeated: it may have arrived.
    let mut world = World::new().saying(always(Say::lost()));
    let repeat = world.submit(&keyed("ana", "k1"));
    world.pass(ms(120));
    assert_eq!(world.state(repeat), State::Waiting);
    world.crash_with(|_| false);
    world.pass(secs(300));
    assert_eq!(world.state(repeat), State::Escalated);
    assert_eq!(world.sends(repeat).len(), 1);

    // Never sent.
    let (mut world, waits) =
        waiting(&super::support::call::read("bob").with(|c| c.detached = true));
    world.crash_with(|_| false);
    world.settle();
    assert_eq!(world.state(waits), State::CancelledNotSent);
    assert!(world.sends(waits).is_empty());
}

#[test]
fn budgets_of_a_waiting_action_are_those_that_it_had() {
    let call = read("ana").with(|call| {
        call.detached = true;
        call.limits = Some(ClassLimits {
            max_attempts: 3,
            max_wait: secs(600),
            ..ClassTable::default().read
        });
    });
    let mut world = World::new().saying(always(Say::status(503)));
    let id = world.submit(&call);
    for _ in 0..6 {
        world.pass(ms(150));
        world.crash();
    }
    world.settle();
    assert!(world.sends(id).len() <= 3, "{:?}", world.sends(id));
}

/// A key that its provider always refuses, with three attempts in all.
fn refused_key(detached: bool) -> (World, Call) {
    let call = keyed("ana", "k1").held(secs(8)).with(|call| {
        call.limits = Some(ClassTable::default().idempotent_write);
        call.detached = detached;
    });
    (World::new().saying(always(Say::wait(5))), call)
}

#[test]
fn a_key_that_comes_back_after_restarts_has_only_what_is_left_of_its_budgets() {
    let (mut world, call) = refused_key(false);
    let mut waited = Vec::new();
    for _ in 0..6 {
        let id = world.submit(&call);
        world.pass(secs(100));
        waited.extend(world.durable.action(id).map(|row| row.used().waited));
        world.crash();
    }
    assert_eq!(world.arrivals.len(), 3, "{:?}", world.arrivals);
    assert!(waited.is_sorted(), "waits are summed: {waited:?}");
}

#[test]
fn a_send_that_was_called_back_costs_its_key_nothing_before_and_after_a_restart() {
    let one = ClassLimits {
        max_attempts: 1,
        ..ClassTable::default().idempotent_write
    };
    let call = keyed("ana", "k1").with(|call| call.limits = Some(one));
    for crashes in [false, true] {
        let mut world = World::new().saying(in_turn(vec![Say::wait(5)]));
        world.commit_after = ms(200);
        world.submit(&read("bob"));
        world.pass(ms(250));
        let first = world.submit(&call);
        world.pass(secs(1));
        assert_eq!(
            world.withdrawn.get(&first),
            Some(&1),
            "its scope was closed"
        );
        world.hang_up(first);
        world.pass(secs(1));
        if crashes {
            world.crash();
        }
        let again = world.submit(&call);
        world.settle();
        assert_eq!(world.sends(first).len() + world.sends(again).len(), 1);
    }
}

#[test]
fn a_key_without_attempts_left_takes_its_result_before_and_after_a_restart() {
    let (mut world, call) = refused_key(false);
    let mut ended = Vec::new();
    while world.arrivals.len() < 3 {
        ended.push(world.submit(&call));
        world.pass(secs(100));
    }
    for _life in 0..2 {
        let again = world.submit(&call);
        assert_eq!(
            world.reply(again),
            Some(&Reply::Joined(*ended.last().unwrap()))
        );
        world.crash();
    }
    assert_eq!(world.arrivals.len(), 3);
}

#[test]
fn a_call_that_waits_through_a_restart_keeps_what_its_key_used_up_before() {
    let (mut world, call) = refused_key(false);
    world.submit(&call);
    world.pass(secs(100));
    let before = world.arrivals.len();
    assert!((1..3).contains(&before), "{before}");
    let call = call.with(|call| call.detached = true);
    world.submit(&call);
    for _ in 0..4 {
        world.pass(ms(250));
        world.crash();
    }
    world.settle();
    assert_eq!(world.arrivals.len(), 3, "{:?}", world.arrivals);
}

#[test]
fn a_deadline_holds_after_a_restart() {
    let call = read("ana").with(|call| {
        call.detached = true;
        call.deadline = Some(secs(40));
    });
    let (mut world, id) = waiting(&call);
    world.now = world.now + secs(60);
    world.crash();
    world.settle();
    assert!(world.sends(id).is_empty());
    assert_eq!(world.refusal(id).code.word(), "deadline_passed");
}

#[test]
fn a_waiting_budget_holds_after_a_restart() {
    let mut world = World::new().saying(always(Say::lost()));
    let id = world.submit(&keyed("ana", "k1"));
    world.pass(ms(120));
    assert_eq!(world.state(id), State::Waiting);
    world.now = world.now + secs(1_000);
    world.crash();
    world.pass(secs(10));
    assert_eq!(world.sends(id).len(), 1, "its two minutes are over");
    assert_eq!(world.state(id), State::Escalated);
}

#[test]
fn reports_of_an_earlier_life_are_ignored() {
    use rategov_core::action::outcome::Evidence;
    use rategov_core::engine::Report;
    let (mut world, id) = crashed_in_flight(&keyed("ana", "k1").with_lookup(), found(Found::Done));
    let before = world.records.len();
    let report = Report {
        action: id,
        attempt: 1,
        evidence: Evidence::Lost(Lost::Closed),
        bytes_written: 9,
        task: world.task,
    };
    let (now, chance) = (world.now, world.chance());
    world.engine.handle_report(now, chance, report);
    assert_eq!(world.records.len(), before);
    world.settle();
    assert_eq!(world.state(id), State::Succeeded);
}

#[test]
fn two_crashes_are_as_good_as_one() {
    let call = keyed("ana", "k1").with_lookup();
    let (mut world, id) = crashed_in_flight(&call, found(Found::Done));
    for _ in 0..5 {
        world.pass(ms(1));
        world.crash();
    }
    world.settle();
    assert_eq!(world.sends(id).len(), 1);
    assert_eq!(world.state(id), State::Succeeded);
    assert_eq!(
        world.reply(id),
        Some(&Reply::Own(State::Succeeded, "result_lost".to_owned()))
    );
}
