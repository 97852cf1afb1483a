//! 429s: the scope closes before anything is scheduled, and nobody comes back as a wave.

use rategov_core::engine::Output;
use rategov_core::event::Event;
use rategov_core::ledger::Change;
use rategov_core::policy::{AccountPolicy, Quota, RefusalBudget, ScopeLimits, WindowKind};
use rategov_core::time::{Moment, Span};
use rategov_core::word::{Choice, Mode, State, Trigger};

use super::support::call::{ms, own_scope, read, scope, secs, write};
use super::support::provider::{Arrival, Say, Script, always, in_turn, limited_model};
use super::support::world::{BEGIN, Reply, World};

/// Whether the account's own scope was closed by this output.
fn closes(output: &Output) -> bool {
    matches!(
        output,
        Output::Changed(Change::Mode {
            to: Mode::Closed,
            ..
        })
    )
}

#[test]
fn a_refusal_is_recorded_and_published_before_its_retry_is_scheduled() {
    let mut world = World::new().saying(in_turn(vec![Say::wait(10)]));
    let id = world.submit(&read("ana"));
    world.pass(secs(1));
    let words = world.words();
    let place = |word| words.iter().position(|w| *w == word).unwrap();
    assert!(place("scope_changed") < place("action_result"), "{words:?}");
    assert!(
        place("action_result") < place("retry_scheduled"),
        "{words:?}"
    );
    let published = world.outputs.iter().position(|(_, o)| closes(o)).unwrap();
    let continued = world
        .outputs
        .iter()
        .position(|(_, o)| matches!(o, Output::Continue { .. }))
        .unwrap();
    assert!(published < continued);
    assert_eq!(world.state(id), State::Waiting);
}

#[test]
fn the_whole_retry_after_is_waited() {
    let mut world = World::new().saying(in_turn(vec![Say::wait(10)]));
    let id = world.submit(&read("ana"));
    world.settle();
    let sends = world.sends(id);
    assert_eq!(sends.len(), 2);
    let refused = sends[0] + ms(100);
    assert!(refused + secs(10) <= sends[1]);
    assert!(sends[1] <= refused + secs(12));
    assert_eq!(world.reply(id), Some(&Reply::Answer(2, State::Succeeded)));
}

/// R-TEST-2: three tasks on one account, the same safe read, the first answer a
/// 429 with ten seconds.
fn three_tasks(seed: u64) -> Vec<Moment> {
    let mut world = World::new()
        .seeded(seed)
        .saying(in_turn(vec![Say::wait(10)]));
    let ids: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|agent| {
            let call = read(agent).with(|call| "/records/1".clone_into(&mut call.path));
            let id = world.submit(&call);
            world.pass(ms(150));
            id
        })
        .collect();
    world.settle();
    for id in &ids {
        assert_eq!(world.state(*id), State::Succeeded);
    }
    world.arrivals.iter().map(|arrival| arrival.at).collect()
}

#[test]
fn three_tasks_behind_one_refusal_come_back_one_by_one_and_apart() {
    let arrivals = three_tasks(1);
    assert_eq!(arrivals.len(), 4);
    let refused = arrivals[0] + ms(100);
    assert!(refused + secs(10) <= arrivals[1], "nothing within the hold");
    for pair in arrivals[1..].windows(2) {
        assert!(ms(50) <= pair[1].since(pair[0]), "{arrivals:?}");
    }
    let others: Vec<_> = (2..10).map(three_tasks).collect();
    assert!(
        others.iter().any(|other| *other != arrivals),
        "another seed, another time"
    );
    assert_eq!(three_tasks(1), arrivals, "the same seed, the same time");
}

#[test]
fn two_hundred_calls_behind_a_refused_scope_cause_no_second_refusal() {
    // The provider takes ten calls in any second.
    let mut taken: Vec<Moment> = Vec::new();
    let mut refusals = std::rc::Rc::new(std::cell::Cell::new(0));
    let counted = std::rc::Rc::clone(&refusals);
    let script: Script = Box::new(move |arrival: &Arrival| {
        taken.retain(|at| arrival.at.since(*at) < secs(1));
        if arrival.at < BEGIN + secs(5) || 10 <= taken.len() {
            counted.set(counted.get() + 1);
            return Say::wait(5);
        }
        taken.push(arrival.at);
        Say::ok()
    });
    let mut world = World::new().saying(script);
    let ids: Vec<_> = (0..200)
        .map(|n| {
            let id = world.submit(&read(&format!("agent-{n}")).held(secs(3_600)));
            if n == 0 {
                world.pass(ms(200));
            }
            id
        })
        .collect();
    world.settle();
    for id in ids {
        assert_eq!(world.state(id), State::Succeeded);
    }
    let refused = std::rc::Rc::get_mut(&mut refusals).map_or(0, |r| r.get());
    let refused = refused.max(refusals.get());
    assert!(
        refused <= 2,
        "{refused} refusals, one of them before the hold"
    );
}

#[test]
fn an_uncertain_write_does_not_probe_while_something_safer_can() {
    let script: Script = {
        let mut first = true;
        Box::new(move |_: &Arrival| {
            if std::mem::take(&mut first) {
                return Say::wait(10);
            }
            Say::ok()
        })
    };
    let mut world = World::new().saying(script);
    world.submit(&read("ana"));
    world.pass(ms(200));
    let write = world.submit(&write("bob"));
    world.settle();
    let by: Vec<_> = world.arrivals.iter().map(|a| a.agent.as_str()).collect();
    assert_eq!(by, ["ana", "ana", "bob"]);
    assert_eq!(world.state(write), State::Succeeded);
}

#[test]
fn a_refusal_of_a_model_holds_that_model_only() {
    let script: Script = {
        let mut refused = false;
        Box::new(move |arrival: &Arrival| {
            if arrival.agent == "large" && !std::mem::replace(&mut refused, true) {
                return Say::facts(limited_model(30));
            }
            Say::ok()
        })
    };
    let mut world = World::new().saying(script);
    let of = |agent: &str| {
        read(agent).with(|call| {
            call.scopes.push(format!("model:{agent}"));
        })
    };
    let large = world.submit(&of("large"));
    world.pass(ms(200));
    let small = world.submit(&of("small"));
    world.pass(secs(1));
    assert_eq!(world.state(small), State::Succeeded);
    assert_eq!(world.state(large), State::Waiting);
    let state = |name: &str| world.engine.scope_state(world.now, &scope(name)).unwrap();
    assert_eq!(state("model:large").mode, Mode::Closed);
    assert_eq!(state("account:ops").mode, Mode::Normal);
    world.settle();
    assert_eq!(world.state(large), State::Succeeded);
}

#[test]
fn a_wait_beyond_the_hold_is_handed_back_with_its_time() {
    let mut world = World::new().saying(in_turn(vec![Say::wait(300)]));
    let id = world.submit(&read("ana").held(secs(60)));
    world.settle();
    assert_eq!(world.sends(id).len(), 1);
    assert_eq!(
        world.reply(id),
        Some(&Reply::Answer(1, State::FailedDefinite))
    );
    assert_eq!(world.row(id).code, "wait_exhausted");
}

#[test]
fn a_call_that_would_wait_longer_than_it_is_held_is_turned_away_at_once() {
    let mut world = World::new().saying(in_turn(vec![Say::wait(300)]));
    world.submit(&read("ana"));
    world.pass(ms(200));
    let id = world.submit(&read("bob").held(secs(60)));
    let refusal = world.refusal(id);
    assert_eq!(refusal.code.word(), "hold_exceeded");
    assert_eq!(refusal.scope, own_scope());
    let back = refusal.retry_at.unwrap();
    assert!(BEGIN + secs(300) <= back, "{back:?}");
    assert!(world.sends(id).is_empty());
}

fn declared(limit: u64, window: Span) -> AccountPolicy {
    let quota = Quota {
        dimension: rategov_core::cost::Dimension::Requests,
        limit,
        window,
        kind: WindowKind::Sliding,
    };
    let limits = ScopeLimits {
        quotas: vec![quota],
        max_concurrent: None,
    };
    AccountPolicy {
        scopes: vec![(own_scope(), limits)],
        ..AccountPolicy::default()
    }
}

#[test]
fn refusals_that_keep_coming_below_a_declared_limit_are_brought_to_a_person() {
    let policy = AccountPolicy {
        refusal_budget: RefusalBudget {
            events: 3,
            per: secs(600),
        },
        ..declared(1_000, secs(1))
    };
    let mut world = World::under(policy).saying(always(Say::wait(2)));
    for n in 0..3 {
        world.submit(&read(&format!("agent-{n}")));
        world.pass(secs(4));
    }
    let asked: Vec<_> = world
        .engine
        .escalations()
        .map(|question| question.trigger)
        .collect();
    assert_eq!(asked, [Trigger::LimitMisconfigured]);
    world.decide(Choice::RaiseQuota).unwrap();
    assert!(world.engine.escalations().next().is_none());
    assert!(
        world
            .find(|event| matches!(event, Event::Resumed { .. }))
            .is_some()
    );
}

#[test]
fn a_limit_that_is_declared_for_each_model_is_asked_about_as_one_of_its_own() {
    let asked = |declared_of: &str| {
        let limits = declared(1_000, secs(1)).scopes.remove(0).1;
        let policy = AccountPolicy {
            refusal_budget: RefusalBudget {
                events: 3,
                per: secs(600),
            },
            scopes: vec![(scope(declared_of), limits)],
            ..AccountPolicy::default()
        };
        let refused = always(Say::facts(limited_model(2)));
        let mut world = World::under(policy).saying(refused);
        for n in 0..3 {
            world.submit(&read(&format!("agent-{n}")).with(|call| {
                call.scopes.push("model:large".to_owned());
            }));
            world.pass(secs(4));
        }
        let questions = world.engine.escalations();
        questions
            .map(|question| (question.trigger, question.scope.clone()))
            .collect::<Vec<_>>()
    };
    let question = (Trigger::LimitMisconfigured, scope("model:large"));
    assert_eq!(asked("model:large"), std::slice::from_ref(&question));
    assert_eq!(asked("model:*"), [question]);
    assert_eq!(asked("model:small"), []);
    assert_eq!(asked("endpoint:*"), []);
}

#[test]
fn where_nothing_is_declared_refusals_teach_and_nobody_is_asked() {
    let mut world = World::new().saying(always(Say::wait(2)));
    for n in 0..8 {
        world.submit(&read(&format!("agent-{n}")));
        world.pass(secs(4));
    }
    world.settle();
    assert!(world.engine.escalations().next().is_none());
}

#[test]
fn choosing_to_wait_does_not_open_a_scope_before_its_time() {
    let mut world = World::new().saying(in_turn(vec![Say::wait(7_200)]));
    world.submit(&read("ana"));
    world.pass(secs(1));
    assert_eq!(world.question().trigger, Trigger::QuotaExhausted);
    let waiting = world.submit(&read("bob").with(|call| call.detached = true));
    world.decide(Choice::Wait).unwrap();
    world.pass(secs(7_000));
    assert_eq!(world.arrivals.len(), 1);
    world.pass(secs(400));
    assert_eq!(world.state(waiting), State::Succeeded);
}

#[test]
fn what_waits_for_a_scope_that_a_person_gave_up_ends_with_the_reason() {
    let mut world = World::new().saying(in_turn(vec![Say::wait(7_200)]));
    world.submit(&read("ana"));
    world.pass(secs(1));
    let waiting = world.submit(&read("bob").with(|call| call.detached = true));
    world.decide(Choice::ChangePlan).unwrap();
    world.pass(secs(1));
    let refusal = world.refusal(waiting);
    assert_eq!(refusal.code.word(), "cancelled");
    assert_eq!(refusal.why, "operator ana says: because");
    assert_eq!(world.state(waiting), State::CancelledNotSent);
}

#[test]
fn an_account_that_cannot_pay_turns_calls_away_until_somebody_reopens_it() {
    let mut world = World::new().saying(in_turn(vec![Say::status(402)]));
    let first = world.submit(&read("ana"));
    world.pass(secs(1));
    assert_eq!(
        world.reply(first),
        Some(&Reply::Answer(1, State::FailedDefinite))
    );
    assert_eq!(world.question().trigger, Trigger::QuotaExhausted);
    let second = world.submit(&read("bob"));
    assert_eq!(world.refusal(second).code.word(), "quota_exhausted");
    world.decide(Choice::RaiseQuota).unwrap();
    let third = world.submit(&read("cyd"));
    world.settle();
    assert_eq!(world.state(third), State::Succeeded);
}

#[test]
fn a_send_that_a_refusal_has_overtaken_is_withdrawn_and_costs_nothing() {
    let mut world = World::new().saying(in_turn(vec![Say::wait(5)]));
    world.commit_after = ms(200);
    world.submit(&read("ana"));
    world.pass(ms(250));
    let id = world.submit(&read("bob"));
    assert_eq!(
        world.state(id),
        State::Dispatching,
        "granted, not committed"
    );
    world.settle();
    assert_eq!(world.arrivals.len(), 3);
    let refused = world.arrivals[0].at + ms(100);
    assert!(refused + secs(5) <= world.sends(id)[0]);
    assert_eq!(world.state(id), State::Succeeded);
    let repeats: u32 = world
        .outputs
        .iter()
        .filter_map(|(_, output)| match output {
            Output::ChargeTask { task, retries, .. } if task.0.as_str() == "bob" => Some(*retries),
            _ => None,
        })
        .sum();
    assert_eq!(repeats, 0);
}

#[test]
fn an_overtaken_send_without_a_caller_is_withdrawn_for_good() {
    let mut world = World::new().saying(in_turn(vec![Say::wait(5)]));
    world.commit_after = ms(200);
    world.submit(&read("ana"));
    world.pass(ms(250));
    let id = world.submit(&read("bob"));
    world.hang_up(id);
    world.settle();
    assert!(world.sends(id).is_empty());
    assert_eq!(world.state(id), State::CancelledNotSent);
}

#[test]
fn a_repeat_that_a_closed_account_holds_longer_than_its_caller_is_handed_back_at_once() {
    let script: Script = Box::new(|arrival: &Arrival| match arrival.agent.as_str() {
        "ana" => Say::status(503).after(ms(300)),
        _ => Say::wait(200),
    });
    let mut world = World::new().saying(script);
    let id = world.submit(&read("ana").held(secs(60)));
    world.pass(ms(50));
    world.submit(&read("bob").held(secs(300)));
    world.pass(secs(1));
    assert_eq!(
        world.reply(id),
        Some(&Reply::Answer(1, State::FailedDefinite)),
        "it is not kept waiting for what can't be"
    );
}
