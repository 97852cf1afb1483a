//! A scope that is closed until a person reopens it: nobody waits for it.

use rategov_core::action::outcome::NotSent;
use rategov_core::engine::{Output, WaitReason};
use rategov_core::id::ActionId;
use rategov_core::ledger::Reason;
use rategov_core::observe::{Facts, Meaning, Reach, Reading};
use rategov_core::time::Span;
use rategov_core::word::{Choice, State, Trigger};

use crate::support::call::{Call, keyed, ms, own_scope, read, secs};
use crate::support::provider::{Arrival, Say, Script, always, in_turn};
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
    world.script = in_turn(vec![Say::ok(), Say::status(503)]);
    world.submit(&read("cyd"));
    world.pass(secs(30));
    let id = world.submit(&read("dan"));
    world.settle();
    assert_eq!(world.sends(id).len(), 2);
    assert_eq!(world.state(id), State::Succeeded);
}

#[test]
fn an_overload_that_is_to_last_for_ever_is_brought_to_a_person() {
    let beyond = Some(Trigger::WaitBeyondDeadline);
    for (asked, trigger) in [
        (secs(60), None),
        (secs(7_200), beyond),
        (Span::MAX, Some(Trigger::QuotaExhausted)),
    ] {
        let overloaded = Facts {
            retry_after: Some(asked),
            retry_source: Some("HTTP 503 Retry-After"),
            ..Facts::bare(503, Meaning::Overloaded)
        };
        let mut world = World::new().saying(always(Say::facts(overloaded)));
        world.submit(&read("ana"));
        world.pass(secs(1));
        let questions = world.engine.escalations().map(|row| row.trigger);
        assert_eq!(
            questions.collect::<Vec<_>>(),
            Vec::from_iter(trigger),
            "{asked}"
        );
    }
}

/// A success with a limit of which nothing is left for so long.
fn used_up_for(reset: Span) -> Say {
    let reading = Reading {
        dimension: "requests".to_owned(),
        name: None,
        reach: Reach::Account,
        limit: Some(1),
        remaining: Some(0),
        reset_after: Some(reset),
        refills: false,
        fits_after: None,
        window: None,
        source: "RateLimit header",
    };
    Say::facts(Facts {
        readings: vec![reading],
        ..Facts::bare(200, Meaning::Ok)
    })
}

#[test]
fn a_wait_for_quota_of_more_than_a_month_is_brought_to_a_person() {
    const DAY: u64 = 24 * 3_600;
    for (reset, is_asked_about) in [
        (secs(DAY), false),
        (secs(40 * DAY), true),
        (Span::MAX, true),
    ] {
        let mut world = World::new().saying(in_turn(vec![used_up_for(reset)]));
        world.submit(&read("ana"));
        world.pass(secs(1));
        // One that waits, and one that is refused because nobody waits so long.
        world.submit(&read("bob").with(|call| call.detached = true));
        world.submit(&read("ana"));
        let questions = world.engine.escalations().count();
        assert_eq!(questions, usize::from(is_asked_about), "{reset}");
    }
}

#[test]
fn who_waits_for_a_person_reads_so_and_not_of_a_pause() {
    let script: Script = Box::new(|arrival: &Arrival| match arrival.agent.as_str() {
        "ana" => Say::lost(),
        _ => Say::status(402),
    });
    let mut world = World::new().saying(script);
    let id = world.submit(&keyed("ana", "rec-1").with_lookup());
    world.pass(ms(50));
    world.submit(&read("bob"));
    world.pass(ms(200));
    let parked = world.engine.explain_wait(world.now, id).unwrap();
    // Its look-up is due in a second; the scope is shut until somebody pays.
    assert_eq!(parked.reason, WaitReason::Scope(Reason::Exhausted));
    assert_eq!(parked.expected_start, None);
}

#[test]
fn a_scope_that_somebody_reopens_early_learns_nothing_from_the_time_that_was_named() {
    const TEN_YEARS: u64 = 10 * 366 * 24 * 3_600;
    // Seven calls are enough to measure a rate by.
    let mut says = vec![Say::ok(); 7];
    says.push(Say::wait(TEN_YEARS));
    let mut world = World::new().saying(in_turn(says));
    for _ in 0..8 {
        world.submit(&read("ana"));
        world.pass(secs(1));
    }
    world.decide(Choice::RaiseQuota).unwrap();
    let later: Vec<ActionId> = (0..5)
        .map(|_| world.submit(&read("ana").held(secs(3_600))))
        .collect();
    world.pass(secs(1_800));
    for id in later {
        assert_eq!(world.state(id), State::Succeeded, "{:?}", world.reply(id));
    }
}
