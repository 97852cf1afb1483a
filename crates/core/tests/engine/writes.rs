//! Writes: durable before they leave, and never done twice on a guess.

use rategov_core::action::outcome::{Body, Evidence, Lost, NotSent, Upload};
use rategov_core::event::{Durability, Event, Found};
use rategov_core::observe::{Facts, Meaning};
use rategov_core::policy::Stores;
use rategov_core::word::{Cause, Choice, State};

use super::support::call::{Call, keyed, ms, secs, write};
use super::support::provider::{Arrival, Say, Script, What, always, in_turn};
use super::support::world::{BEGIN, Reply, World};

/// Attempts are lost; look-ups find this, one after the other.
fn lost_then(found: Vec<Found>) -> Script {
    let mut found = found.into_iter();
    Box::new(move |arrival: &Arrival| match arrival.what {
        What::Attempt(1) => Say::lost(),
        What::Attempt(_) => Say::ok(),
        What::Lookup(_) => Say::found(found.next().unwrap_or(Found::Nothing)),
    })
}

#[test]
fn a_write_and_its_key_survive_a_power_loss_before_its_first_byte() {
    let mut world = World::new();
    let id = world.submit(&keyed("ana", "k1"));
    world.pass(ms(1));
    assert!(world.arrivals.is_empty());
    assert!(
        world
            .records
            .iter()
            .all(|record| record.durability == Durability::Power)
    );
    assert_eq!(world.words(), ["action_requested", "action_sent"]);
    world.settle();
    assert_eq!(world.arrivals[0].key.as_deref(), Some("k1"));
    assert_eq!(world.reply(id), Some(&Reply::Answer(1, State::Succeeded)));
}

#[test]
fn the_result_of_a_write_is_durable_before_its_caller_sees_it() {
    let mut world = World::new();
    let id = world.submit(&keyed("ana", "k1"));
    world.pass(ms(103));
    assert_eq!(world.story(id).last(), Some(&"terminal"));
    assert_eq!(world.reply(id), None);
    world.pass(ms(1));
    assert_eq!(world.reply(id), Some(&Reply::Answer(1, State::Succeeded)));
}

#[test]
fn a_lost_write_that_is_found_has_succeeded_and_is_sent_once() {
    let mut world = World::new().saying(lost_then(vec![Found::Nothing, Found::Done]));
    let id = world.submit(&keyed("ana", "k1").with_lookup());
    world.settle();
    assert_eq!(world.sends(id).len(), 1);
    assert_eq!(world.lookups(id).len(), 2);
    assert_eq!(world.state(id), State::Succeeded);
    assert_eq!(world.code(id), "result_lost");
    assert_eq!(
        world.story(id),
        [
            "action_requested",
            "action_sent",
            "action_result",
            "reconciliation_required",
            "lookup_sent",
            "looked_up",
            "lookup_sent",
            "looked_up",
            "reconciled",
            "terminal"
        ]
    );
}

#[test]
fn absence_is_believed_only_when_no_copy_can_be_on_its_way() {
    let mut world = World::new().saying(lost_then(vec![Found::Nothing; 9]));
    let id = world.submit(&keyed("ana", "k1").with_lookup());
    world.settle();
    let closed = BEGIN + ms(102);
    let asked: Vec<u64> = world
        .lookups(id)
        .iter()
        .map(|at| at.since(closed).as_millis())
        .collect();
    // Settle 1 s, then doubling; in flight 5 s and settle 1 s make the horizon.
    assert!(asked[0] < 6_000 && asked[1] < 6_000, "{asked:?}");
    assert!(asked[2] >= 6_000 && asked.len() == 3, "{asked:?}");
    let sends = world.sends(id);
    assert_eq!(sends.len(), 2);
    assert!(closed + secs(6) <= sends[1]);
    let keys: Vec<_> = world.arrivals.iter().map(|a| a.key.as_deref()).collect();
    assert!(keys.iter().all(|key| *key == Some("k1")), "{keys:?}");
    assert_eq!(world.reply(id), Some(&Reply::Answer(2, State::Succeeded)));
}

#[test]
fn a_look_up_that_was_asked_too_early_proves_nothing_however_late_it_answers() {
    let script: Script = Box::new(|arrival: &Arrival| match arrival.what {
        What::Attempt(1) => Say::lost(),
        What::Attempt(_) => Say::ok(),
        What::Lookup(1) => Say::found(Found::Nothing).after(secs(20)),
        What::Lookup(_) => Say::found(Found::Done),
    });
    let mut world = World::new().saying(script);
    let id = world.submit(&keyed("ana", "k1").with_lookup());
    world.settle();
    assert_eq!(world.sends(id).len(), 1);
    assert_eq!(world.state(id), State::Succeeded);
}

#[test]
fn a_look_up_that_never_left_proves_nothing() {
    let script: Script = Box::new(|arrival: &Arrival| match arrival.what {
        What::Attempt(_) => Say::lost(),
        What::Lookup(1..4) => Say::LookupNotSent,
        What::Lookup(_) => Say::found(Found::Done),
    });
    let mut world = World::new().saying(script);
    let id = world.submit(&write("ana").with_lookup());
    world.settle();
    assert_eq!(world.state(id), State::Succeeded);
    assert_eq!(world.row(id).lookups, 4);
    assert_eq!(world.lookups(id).len(), 1);
}

#[test]
fn without_a_look_up_the_same_key_is_the_reconciliation_and_says_so_first() {
    let mut world = World::new().saying(in_turn(vec![Say::lost(), Say::ok()]));
    let id = world.submit(&keyed("ana", "k1"));
    world.settle();
    assert_eq!(
        world.story(id),
        [
            "action_requested",
            "action_sent",
            "action_result",
            "reconciliation_required",
            "retry_scheduled",
            "action_sent",
            "action_result",
            "terminal"
        ]
    );
    let second = world.find(|event| {
        matches!(
            event,
            Event::ActionSent {
                attempt: 2,
                cause: Cause::Reconciliation,
                ..
            }
        )
    });
    assert!(second.is_some());
    assert_eq!(world.reply(id), Some(&Reply::Answer(2, State::Succeeded)));
}

#[test]
fn without_key_and_look_up_a_person_is_asked_and_nothing_is_repeated() {
    let mut world = World::new().saying(always(Say::lost()));
    let id = world.submit(&write("ana"));
    world.pass(secs(3_600));
    assert_eq!(world.sends(id).len(), 1);
    assert_eq!(world.state(id), State::Escalated);
    assert_eq!(world.code(id), "escalated");
    let question = world.question();
    assert_eq!(question.action, Some(id));
    assert_eq!(
        question.choices,
        [Choice::ItHappened, Choice::ItDidNot, Choice::Cancel]
    );
    assert_eq!(question.version, world.row(id).version);
}

#[test]
fn a_write_that_certainly_never_left_is_sent_again() {
    let script = in_turn(vec![Say::not_sent(NotSent::ConnectionClosed), Say::ok()]);
    let mut world = World::new().saying(script);
    let call = write("ana").with(|call| {
        call.limits = Some(rategov_core::policy::ClassTable::default().idempotent_write);
    });
    let id = world.submit(&call);
    world.settle();
    assert_eq!(world.sends(id).len(), 1, "one reached the provider");
    assert_eq!(world.row(id).attempts, 2);
    assert_eq!(world.reply(id), Some(&Reply::Answer(2, State::Succeeded)));
}

#[test]
fn a_write_that_never_left_and_may_not_be_repeated_says_that_nothing_was_sent() {
    let mut world = World::new().saying(always(Say::not_sent(NotSent::Dns)));
    let id = world.submit(&write("ana"));
    world.settle();
    assert!(world.arrivals.is_empty());
    assert_eq!(world.code(id), "upstream_unreachable");
    assert_eq!(world.state(id), State::FailedDefinite);
}

fn cut(status: u16) -> Say {
    Say::Evidence(
        ms(100),
        Evidence::Answered {
            facts: Facts::bare(status, Meaning::Ok),
            body: Body::Cut,
            upload: Upload::Complete,
        },
    )
}

/// A created record whose answer was cut, and whose look-ups find this.
fn check_lost_result(call: Call, found: Found, lookups: usize) {
    let script: Script = Box::new(move |arrival: &Arrival| match arrival.what {
        What::Attempt(_) => cut(201),
        What::Lookup(_) => Say::found(found),
    });
    let mut world = World::new().saying(script);
    let id = world.submit(&call);
    world.settle();
    assert_eq!(world.sends(id).len(), 1, "{found:?}");
    assert_eq!(world.state(id), State::Succeeded, "{found:?}");
    assert_eq!(world.code(id), "result_lost", "{found:?}");
    assert_eq!(world.lookups(id).len(), lookups, "{found:?}");
    assert!(world.engine.escalations().next().is_none());
}

#[test]
fn a_success_whose_body_was_lost_stays_a_success_whatever_the_look_up_says() {
    check_lost_result(keyed("ana", "k1"), Found::Nothing, 0);
    check_lost_result(keyed("ana", "k1").with_lookup(), Found::Done, 1);
    check_lost_result(keyed("ana", "k1").with_lookup(), Found::Nothing, 3);
    check_lost_result(keyed("ana", "k1").with_lookup(), Found::NoAnswer, 5);
    check_lost_result(write("ana").with_lookup(), Found::Failed, 1);
}

#[test]
fn asking_again_for_a_key_in_progress_is_recorded_as_the_reconciliation_that_it_is() {
    let busy = Say::facts(Facts::bare(409, Meaning::KeyInProgress));
    let mut world = World::new().saying(in_turn(vec![busy]));
    let id = world.submit(&keyed("ana", "k1"));
    world.settle();
    assert_eq!(world.state(id), State::Succeeded);
    assert_eq!(
        world.story(id),
        [
            "action_requested",
            "action_sent",
            "action_result",
            "reconciliation_required",
            "retry_scheduled",
            "action_sent",
            "action_result",
            "terminal"
        ]
    );
}

#[test]
fn a_key_is_not_repeated_when_the_provider_may_have_forgotten_it() {
    // Lifetime 10 min, less a request of 60 s and 300 s on the way: 240 s.
    let call = keyed("ana", "k1").with(|call| {
        if let Some(idempotency) = &mut call.profile.idempotency {
            idempotency.lifetime = secs(600);
        }
        call.limits = Some(rategov_core::policy::ClassLimits {
            max_wait: secs(3_600),
            max_attempts: 5,
            ..rategov_core::policy::ClassTable::default().idempotent_write
        });
        call.hold = secs(3_600);
    });
    // The first is lost; another call is refused and closes the account for 5 min.
    let script: Script = Box::new(|arrival: &Arrival| match arrival.agent.as_str() {
        "ana" => Say::lost(),
        _ => Say::wait(300),
    });
    let mut world = World::new().saying(script);
    let id = world.submit(&call);
    world.pass(ms(50));
    world.submit(&super::support::call::read("bob"));
    world.pass(secs(239));
    assert_eq!(world.state(id), State::Waiting, "it waits for the account");
    world.pass(secs(2));
    assert_eq!(world.state(id), State::Escalated);
    world.pass(secs(600));
    assert_eq!(world.sends(id).len(), 1);
    let offered = world.engine.escalations().find(|q| q.action == Some(id));
    assert!(!offered.unwrap().choices.contains(&Choice::RetrySameKey));
}

#[test]
fn a_stored_failure_is_asked_about_and_not_replayed() {
    let mut world = World::new().saying(always(Say::status(500)));
    let call = keyed("ana", "k1").with(|call| {
        if let Some(idempotency) = &mut call.profile.idempotency {
            idempotency.stores = Stores::All;
        }
    });
    let id = world.submit(&call);
    world.pass(secs(600));
    assert_eq!(world.sends(id).len(), 1);
    assert_eq!(world.state(id), State::Escalated);
}

#[test]
fn a_definite_refusal_of_the_second_copy_does_not_settle_the_first() {
    let mut world = World::new().saying(in_turn(vec![Say::lost(), Say::status(404)]));
    let id = world.submit(&keyed("ana", "k1"));
    world.pass(secs(600));
    assert_eq!(world.sends(id).len(), 2);
    assert_eq!(world.state(id), State::Escalated);
    assert!(world.row(id).uncertain);
}

#[test]
fn a_large_answer_to_a_write_passes_through_and_the_write_has_succeeded() {
    use rategov_core::engine::BodyEnd;
    for (end, code) in [
        (BodyEnd::Complete, "done"),
        (BodyEnd::Cut, "result_lost"),
        (BodyEnd::CallerGone, "result_lost"),
    ] {
        let facts = Facts::bare(201, Meaning::Ok);
        let script = always(Say::Stream(ms(100), facts, secs(5), end));
        let mut world = World::new().saying(script);
        let id = world.submit(&keyed("ana", "k1").with_lookup());
        world.pass(secs(1));
        assert_eq!(world.reply(id), Some(&Reply::Answer(1, State::Dispatching)));
        assert_eq!(world.engine.on_the_wire(), 1);
        world.settle();
        assert_eq!(world.state(id), State::Succeeded);
        assert_eq!(world.row(id).code, code);
        assert_eq!(world.engine.on_the_wire(), 0);
        assert_eq!(world.arrivals.len(), 1);
    }
}

#[test]
fn a_write_lost_by_its_time_out_is_unknown_like_any_other() {
    let timed_out = Say::Evidence(secs(60), Evidence::Lost(Lost::TimedOut));
    let mut world = World::new().saying(in_turn(vec![timed_out]));
    let id = world.submit(&write("ana").held(secs(55)));
    world.pass(secs(61));
    assert_eq!(world.state(id), State::Escalated);
    assert_eq!(world.code(id), "escalated");
}
