//! Deadlines, holds, budgets of waiting, and what they may never cut short.

use rategov_core::action::outcome::NotSent;
use rategov_core::engine::{Output, TaskAllowance};
use rategov_core::event::Found;
use rategov_core::policy::{AccountPolicy, ClassLimits, ClassTable, RetryBudget};
use rategov_core::time::Span;
use rategov_core::word::State;

use super::support::call::{keyed, ms, read, secs};
use super::support::provider::{Arrival, Say, Script, What, always, in_turn};
use super::support::world::{Reply, World};

#[test]
fn a_deadline_ends_what_waits_and_nothing_is_sent_after_it() {
    let policy = super::bounds::seats(1);
    let mut world = World::under(policy).saying(always(Say::ok().after(secs(30))));
    world.submit(&read("first"));
    world.pass(ms(100));
    let id = world.submit(&read("ana").with(|call| call.deadline = Some(secs(20))));
    world.settle();
    assert!(world.sends(id).is_empty());
    assert_eq!(world.refusal(id).code.word(), "deadline_passed");
}

#[test]
fn a_call_that_cannot_start_before_its_deadline_is_turned_away_at_once() {
    let mut world = World::new().saying(in_turn(vec![Say::wait(50)]));
    world.submit(&read("first"));
    world.pass(secs(1));
    let id = world.submit(&read("ana").with(|call| call.deadline = Some(secs(20))));
    assert_eq!(world.refusal(id).code.word(), "deadline_passed");
    let past = world.submit(&read("bob").with(|call| call.deadline = Some(Span::ZERO)));
    assert_eq!(world.refusal(past).code.word(), "deadline_passed");
}

#[test]
fn a_deadline_during_a_wait_for_a_repeat_gives_the_last_answer() {
    let script: Script = Box::new(|arrival: &Arrival| match arrival.agent.as_str() {
        "ana" => Say::status(503),
        _ => Say::wait(40),
    });
    let mut world = World::new().saying(script);
    let id = world.submit(&read("ana").with(|call| call.deadline = Some(secs(30))));
    world.pass(ms(50));
    // Another call closes the account, so that the repeat waits at the gate.
    world.submit(&read("bob").held(secs(90)));
    world.pass(secs(1));
    let sends = world.sends(id).len();
    world.settle();
    assert_eq!(world.sends(id).len(), sends);
    assert_eq!(
        world.reply(id),
        Some(&Reply::Answer(1, State::FailedDefinite))
    );
}

#[test]
fn without_any_answer_the_last_word_is_the_governors() {
    let script: Script = Box::new(|arrival: &Arrival| match arrival.agent.as_str() {
        "ana" => Say::not_sent(NotSent::Connect),
        _ => Say::wait(40),
    });
    let mut world = World::new().saying(script);
    let id = world.submit(&read("ana").held(secs(20)));
    world.pass(ms(5));
    world.submit(&read("bob").held(secs(90)));
    world.settle();
    assert_eq!(world.code(id), "upstream_unreachable");
}

#[test]
fn a_deadline_does_not_stop_look_ups_but_every_attempt() {
    let script: Script = Box::new(|arrival: &Arrival| match arrival.what {
        What::Attempt(_) => Say::lost(),
        What::Lookup(_) => Say::found(Found::Nothing),
    });
    let mut world = World::new().saying(script);
    let call = keyed("ana", "k1").with_lookup();
    let id = world.submit(&call.with(|call| call.deadline = Some(secs(2))));
    world.settle();
    assert_eq!(world.sends(id).len(), 1);
    assert_eq!(world.lookups(id).len(), 3);
    assert_eq!(world.state(id), State::FailedDefinite);
    assert_eq!(world.code(id), "not_applied");
}

#[test]
fn a_repeat_of_an_unknown_attempt_that_runs_out_of_time_goes_to_a_person() {
    let script: Script = Box::new(|arrival: &Arrival| match arrival.agent.as_str() {
        "ana" => Say::lost(),
        _ => Say::wait(50),
    });
    let mut world = World::new().saying(script);
    let call = keyed("ana", "k1").held(secs(300));
    let id = world.submit(&call.with(|call| call.deadline = Some(secs(30))));
    world.pass(ms(50));
    world.submit(&read("bob").held(secs(90)));
    world.pass(secs(300));
    assert_eq!(world.sends(id).len(), 1);
    assert_eq!(world.state(id), State::Escalated, "not failed: unknown");
}

fn limits(attempts: u16, wait: Span) -> ClassLimits {
    ClassLimits {
        max_attempts: attempts,
        max_wait: wait,
        ..ClassTable::default().read
    }
}

#[test]
fn waiting_for_a_turn_counts_against_the_budget_of_waiting() {
    // One seat that somebody else takes for a minute, just as the repeat is due.
    let policy = super::bounds::seats(1);
    let script: Script = Box::new(|arrival: &Arrival| match arrival.agent.as_str() {
        "ana" => Say::status(503),
        _ => Say::ok().after(secs(60)),
    });
    let mut world = World::under(policy).saying(script);
    let call = read("ana").held(secs(300));
    let id = world.submit(&call.with(|call| call.limits = Some(limits(9, secs(20)))));
    world.submit(&read("bob").held(secs(300)));
    world.settle();
    assert_eq!(world.sends(id).len(), 1);
    assert_eq!(
        world.reply(id),
        Some(&Reply::Answer(1, State::FailedDefinite))
    );
    assert!(world.row(id).waited <= secs(20));
}

#[test]
fn attempts_and_waited_time_never_exceed_the_limits() {
    for seed in 0..40 {
        let mut world = World::new().seeded(seed).saying(always(Say::status(503)));
        let call = read("ana").held(secs(600));
        let id = world.submit(&call.with(|call| call.limits = Some(limits(6, secs(10)))));
        world.settle();
        let row = world.row(id);
        assert!(row.attempts <= 6 && row.waited <= secs(10), "{row:?}");
    }
}

#[test]
fn a_task_bounds_the_repeats_and_the_waiting_of_its_actions() {
    let spent = TaskAllowance {
        retries: 0,
        wait: Span::MAX,
        ..TaskAllowance::UNLIMITED
    };
    let no_time = TaskAllowance {
        retries: 9,
        wait: Span::ZERO,
        ..TaskAllowance::UNLIMITED
    };
    for allowance in [spent, no_time] {
        let mut world = World::new().saying(always(Say::status(503)));
        world.task = allowance;
        let id = world.submit(&read("ana"));
        world.settle();
        assert_eq!(world.sends(id).len(), 1, "{allowance:?}");
    }
}

#[test]
fn repeats_and_all_their_waiting_are_charged_to_the_task() {
    let policy = super::bounds::seats(1);
    let script: Script = Box::new(|arrival: &Arrival| match arrival.agent.as_str() {
        "ana" if arrival.what == What::Attempt(1) => Say::status(503),
        "ana" => Say::ok(),
        _ => Say::ok().after(secs(5)),
    });
    let mut world = World::under(policy).saying(script);
    let id = world.submit(&read("ana"));
    world.submit(&read("bob"));
    world.settle();
    let (mut repeats, mut waiting) = (0, Span::ZERO);
    for (_, output) in &world.outputs {
        if let Output::ChargeTask {
            task,
            retries,
            waited,
        } = output
        {
            assert_eq!((task.0.as_str(), task.1.as_str()), ("ana", "default"));
            repeats += retries;
            waiting += *waited;
        }
    }
    assert_eq!(repeats, 1);
    assert_eq!(waiting, world.row(id).waited);
    assert!(secs(4) < waiting, "{waiting}");
}

#[test]
fn the_scopes_budget_binds_where_every_call_would_repeat() {
    let policy = AccountPolicy {
        retry_budget: RetryBudget {
            ratio_permille: 100,
            burst: 3,
        },
        ..AccountPolicy::default()
    };
    let mut world = World::under(policy).saying(always(Say::status(500)));
    for n in 0..10 {
        world.submit(&read(&format!("agent-{n}")));
    }
    world.settle();
    assert_eq!(
        world.arrivals.len(),
        10 + 3,
        "ten calls, and three repeats in all"
    );
}

#[test]
fn a_spent_budget_stays_spent_over_a_restart() {
    let policy = AccountPolicy {
        retry_budget: RetryBudget {
            ratio_permille: 0,
            burst: 2,
        },
        ..AccountPolicy::default()
    };
    let mut world = World::under(policy).saying(always(Say::status(500)));
    world.submit(&read("ana"));
    world.settle();
    assert_eq!(world.arrivals.len(), 3);
    world.now = world.arrivals[2].at + secs(60);
    world.crash();
    world.submit(&read("bob"));
    world.settle();
    assert_eq!(world.arrivals.len(), 4, "nothing is left to repeat with");
}

#[test]
fn a_task_binds_what_a_restart_takes_up() {
    let mut world = World::new().saying(always(Say::lost()));
    let call = keyed("ana", "k1");
    let id = world.submit(&call);
    world.pass(ms(50));
    world.task = TaskAllowance {
        retries: 0,
        wait: Span::MAX,
        ..TaskAllowance::UNLIMITED
    };
    world.crash();
    world.pass(secs(100));
    assert_eq!(world.sends(id).len(), 1);
    assert_eq!(
        world.state(id),
        State::Escalated,
        "not repeated: asked about"
    );
}
