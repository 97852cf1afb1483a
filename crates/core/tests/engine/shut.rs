//! A scope that is closed until a person reopens it: nobody waits for it.

use rategov_core::action::outcome::NotSent;
use rategov_core::engine::Output;
use rategov_core::id::ActionId;
use rategov_core::word::{Choice, State, Trigger};

use crate::support::call::{Call, keyed, ms, own_scope, read, secs};
use crate::support::provider::{Arrival, Say, Script};
use crate::support::world::{Reply, World};

/// A call of ana is under way when the account of both is shut: bob's call is
/// asked to pay. Ana's ends 300 ms after it began, as `say` has it.
fn shut_while_under_way(call: &Call, say: Say) -> (World, ActionId) {
    let script: Script = Box::new(move |arrival: &Arrival| match arrival.agent.as_str() {
        "ana" => say.clone().after(ms(300)),
        _ => Say::status(402),
    });
    let mut world = World::new().saying(script);
    let id = world.submit(&call.clone().held(secs(3_600)));
    world.pass(ms(50));
    world.submit(&read("bob"));
    world.pass(secs(1));
    (world, id)
}

/// The governor's own last word, and the time that it names.
fn own_word(world: &World, id: ActionId) -> (&'static str, String, bool) {
    let said = world.outputs.iter().find_map(|(_, output)| match output {
        Output::Finish {
            action,
            code,
            why,
            retry_at,
            ..
        } if *action == id => Some((code.word(), why.clone(), retry_at.is_some())),
        _ => None,
    });
    said.unwrap_or_else(|| panic!("{id} got no word: {:?}", world.reply(id)))
}

#[test]
fn the_answer_of_a_call_that_would_be_repeated_is_handed_back_at_once() {
    let (world, id) = shut_while_under_way(&read("ana"), Say::status(503));
    let answer = Reply::Answer(1, State::FailedDefinite);
    assert_eq!(world.reply(id), Some(&answer), "no repeat can be made");
    // One question, asked once: the one that can open it again.
    assert_eq!(world.engine.escalations().count(), 1);
    assert_eq!(world.question().trigger, Trigger::QuotaExhausted);
}

#[test]
fn a_call_that_never_left_is_told_that_the_quota_is_gone() {
    let dead = Say::not_sent(NotSent::Dns);
    let (world, id) = shut_while_under_way(&read("ana"), dead);
    let why = format!("{} is closed until somebody reopens it", own_scope());
    let no_time = false;
    assert_eq!(own_word(&world, id), ("quota_exhausted", why, no_time));
    assert_eq!(world.state(id), State::FailedDefinite);
    assert_eq!(world.engine.escalations().count(), 1);
}

#[test]
fn a_write_that_may_have_happened_is_brought_to_a_person_and_not_kept_waiting() {
    let (world, id) = shut_while_under_way(&keyed("ana", "k-1"), Say::lost());
    assert_eq!(world.state(id), State::Escalated);
}

#[test]
fn a_send_that_the_closing_has_overtaken_is_refused_like_a_call_that_arrives_then() {
    let mut world = World::new().saying(Box::new(|_| Say::status(402)));
    world.commit_after = ms(200);
    world.submit(&read("bob"));
    world.pass(ms(250));
    let id = world.submit(&read("ana").held(secs(3_600)));
    assert_eq!(
        world.state(id),
        State::Dispatching,
        "granted, not committed"
    );
    world.pass(secs(1));
    assert!(world.sends(id).is_empty());
    assert_eq!(own_word(&world, id).0, "quota_exhausted");
}

#[test]
fn after_somebody_reopened_it_repeats_are_made_as_ever() {
    let (mut world, _) = shut_while_under_way(&read("ana"), Say::status(503));
    world.decide(Choice::RaiseQuota).unwrap();
    world.script = crate::support::provider::in_turn(vec![Say::ok(), Say::status(503)]);
    world.submit(&read("cyd"));
    world.pass(secs(30));
    let id = world.submit(&read("dan"));
    world.settle();
    assert_eq!(world.sends(id).len(), 2);
    assert_eq!(world.state(id), State::Succeeded);
}
