//! Bounds of the queue, seats, floors and spacing.

use rategov_core::engine::{Output, WaitReason};
use rategov_core::id::ActionId;
use rategov_core::ledger::Reason;
use rategov_core::policy::{AccountPolicy, Quota, ScopeLimits, WindowKind};
use rategov_core::time::Span;
use rategov_core::word::{Priority, State};

use super::support::call::{Call, keyed, ms, own_scope, read, scope, secs};
use super::support::provider::{Arrival, Say, Script, always, in_turn};
use super::support::world::{BEGIN, World};

pub(crate) fn seats(max: u32) -> AccountPolicy {
    let limits = ScopeLimits {
        quotas: Vec::new(),
        max_concurrent: Some(max),
    };
    AccountPolicy {
        scopes: vec![(own_scope(), limits)],
        ..AccountPolicy::default()
    }
}

pub(crate) fn quota(name: &str, limit: u64, window: Span) -> AccountPolicy {
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
        scopes: vec![(scope(name), limits)],
        ..AccountPolicy::default()
    }
}

/// A world of one seat that is taken for a minute.
fn busy(policy: AccountPolicy) -> World {
    let slow = Say::ok().after(secs(60));
    let mut world = World::under(policy).saying(in_turn(vec![slow]));
    world.submit(&patient("busy"));
    world.pass(secs(1));
    world
}

fn patient(agent: &str) -> Call {
    read(agent).held(secs(36_000))
}

fn many(world: &mut World, agent: &str, n: usize, priority: Priority) -> Vec<ActionId> {
    (0..n)
        .map(|n| {
            let call = patient(agent).at(priority);
            world.submit(&call.with(|call| call.path = format!("/{agent}/{n}")))
        })
        .collect()
}

fn order(world: &World) -> Vec<ActionId> {
    world
        .arrivals
        .iter()
        .map(|arrival| arrival.action)
        .collect()
}

#[test]
fn a_full_queue_hands_back_its_newest_call_of_the_lowest_rank() {
    let policy = AccountPolicy {
        max_waiting: 3,
        ..seats(1)
    };
    let mut world = busy(policy);
    let low = many(&mut world, "low", 2, Priority::Background);
    let mid = many(&mut world, "mid", 1, Priority::Normal);
    let high = many(&mut world, "high", 1, Priority::Interactive);
    assert_eq!(world.refusal(low[1]).code.word(), "queue_full");
    assert!(world.refusal(low[1]).retry_at.is_some());
    assert_eq!(world.state(low[1]), State::CancelledNotSent);
    let worse = many(&mut world, "low", 1, Priority::Background);
    assert_eq!(world.refusal(worse[0]).code.word(), "queue_full");
    world.settle();
    for id in [low[0], mid[0], high[0]] {
        assert_eq!(world.state(id), State::Succeeded);
    }
}

#[test]
fn an_agent_has_a_bound_of_its_own_and_gives_up_its_own_worst_call() {
    let policy = AccountPolicy {
        max_waiting_per_agent: 2,
        ..seats(1)
    };
    let mut world = busy(policy);
    let low = many(&mut world, "ana", 2, Priority::Background);
    let other = many(&mut world, "bob", 2, Priority::Background);
    let high = many(&mut world, "ana", 1, Priority::Interactive);
    assert_eq!(world.refusal(low[1]).code.word(), "agent_queue_full");
    let more = many(&mut world, "ana", 1, Priority::Background);
    assert_eq!(world.refusal(more[0]).code.word(), "agent_queue_full");
    world.settle();
    for id in [low[0], high[0], other[0], other[1]] {
        assert_eq!(world.state(id), State::Succeeded);
    }
}

#[test]
fn a_call_that_was_sent_before_is_never_handed_back() {
    let policy = AccountPolicy {
        max_waiting: 1,
        ..AccountPolicy::default()
    };
    let mut world = World::under(policy).saying(in_turn(vec![Say::wait(20)]));
    let sent = world.submit(&patient("ana").at(Priority::Background));
    world.pass(secs(1));
    let better = world.submit(&patient("bob").at(Priority::Interactive));
    assert_eq!(world.refusal(better).code.word(), "queue_full");
    world.settle();
    assert_eq!(world.state(sent), State::Succeeded);
}

#[test]
fn an_agents_own_limit_keeps_its_calls_back_and_nobody_elses() {
    let mut world = World::new().saying(always(Say::ok().after(secs(10))));
    let limited = |n: u32| {
        patient("ana").with(|call| {
            call.concurrent = Some(2);
            call.path = format!("/{n}");
        })
    };
    let ids: Vec<_> = (0..5).map(|n| world.submit(&limited(n))).collect();
    let other = world.submit(&patient("bob"));
    world.pass(secs(1));
    assert_eq!(order(&world), [ids[0], ids[1], other]);
    let waits = world.engine.explain_wait(world.now, ids[2]).unwrap();
    assert_eq!(waits.reason, WaitReason::AgentLimit);
    world.settle();
    assert_eq!(
        order(&world),
        [ids[0], ids[1], other, ids[2], ids[3], ids[4]]
    );
}

#[test]
fn an_agents_better_call_goes_before_its_others_that_its_limit_keeps_back() {
    let mut world = World::new().saying(always(Say::ok().after(secs(10))));
    let of = |n: u32, priority| {
        patient("ana").at(priority).with(|call| {
            call.concurrent = Some(1);
            call.path = format!("/{n}");
        })
    };
    let first = world.submit(&of(0, Priority::Background));
    world.pass(secs(1));
    let low = world.submit(&of(1, Priority::Background));
    let high = world.submit(&of(2, Priority::Interactive));
    world.settle();
    assert_eq!(order(&world), [first, high, low]);
}

#[test]
fn an_agents_call_in_backoff_takes_no_seat_of_its_limit() {
    let script: Script = Box::new(|arrival: &Arrival| match arrival.agent.as_str() {
        "ana" if arrival.at < BEGIN + ms(50) => Say::status(500).after(ms(10)),
        _ => Say::ok(),
    });
    let mut world = World::new().saying(script);
    let of = |n: u32| {
        patient("ana").with(|call| {
            call.concurrent = Some(1);
            call.path = format!("/{n}");
        })
    };
    let fails = world.submit(&of(0));
    let next = world.submit(&of(1));
    world.settle();
    let (again, next) = (world.sends(fails)[1], world.sends(next)[0]);
    assert!(next < again, "the next one does not wait for the repeat");
}

#[test]
fn a_rank_below_gets_its_floor_and_no_more() {
    // One call a second; background is owed one in twenty.
    let policy = AccountPolicy {
        max_waiting_per_agent: 1_000,
        ..quota("account:ops", 1, secs(1))
    };
    let mut world = World::under(policy);
    world.check_every = 97;
    let low = many(&mut world, "low", 40, Priority::Background);
    let high = many(&mut world, "high", 400, Priority::Interactive);
    world.pass(secs(300));
    let went = order(&world);
    let of_low = went.iter().filter(|id| low.contains(id)).count();
    let of_high = went.iter().filter(|id| high.contains(id)).count();
    let all = of_low + of_high;
    assert!(250 < all, "the quota is used: {all}");
    let share = of_low * 1_000 / all;
    assert!((45..=60).contains(&share), "{of_low} of {all}");
}

#[test]
fn a_floor_earns_nothing_from_a_lane_that_it_cannot_use() {
    // Background waits for the small model only, whose quota interactive work
    // shares; what the large model hands out must not count for it.
    let mut policy = quota("model:small", 1, secs(10));
    policy.max_waiting_per_agent = 5_000;
    let mut world = World::under(policy).saying(always(Say::ok().after(ms(1))));
    world.check_every = 97;
    let on = |agent: &str, model: &str, priority, n: usize| {
        patient(agent).at(priority).with(|call| {
            call.scopes.push(format!("model:{model}"));
            call.path = format!("/{agent}/{n}");
        })
    };
    let mut low = Vec::new();
    let mut high = Vec::new();
    for n in 0..40 {
        low.push(world.submit(&on("low", "small", Priority::Background, n)));
        high.push(world.submit(&on("high", "small", Priority::Interactive, n)));
    }
    for n in 0..500 {
        world.submit(&on("busy", "large", Priority::Interactive, n));
        world.pass(ms(400));
    }
    let went = order(&world);
    let of_low = went.iter().filter(|id| low.contains(id)).count();
    let of_high = went.iter().filter(|id| high.contains(id)).count();
    assert!(18 <= of_low + of_high, "{of_low} {of_high}");
    assert!(of_low <= 2, "background took {of_low} of the small model");
}

#[test]
fn lower_ranks_are_spaced_while_a_better_one_was_seen() {
    let policy = quota("account:ops", 60, secs(10));
    let mut world = World::under(policy);
    let person = world.submit(&read("person").at(Priority::Interactive));
    many(&mut world, "work", 60, Priority::Background);
    world.pass(secs(5));
    let first_second = world.arrived_ms().iter().filter(|at| **at < 1_000).count();
    assert!(first_second <= 10, "{first_second} in the first second");
    let late = world.submit(&read("person").at(Priority::Interactive));
    world.pass(ms(300));
    assert_eq!(world.state(late), State::Succeeded, "a person hardly waits");
    assert_eq!(world.state(person), State::Succeeded);
    world.settle();
    assert_eq!(world.arrivals.len(), 62);
}

#[test]
fn without_anybody_better_the_window_may_be_used_at_once() {
    let policy = quota("account:ops", 60, secs(10));
    let mut world = World::under(policy);
    many(&mut world, "work", 70, Priority::Background);
    world.pass(secs(1));
    assert_eq!(world.arrivals.len(), 60);
    let waiting = world.engine.queue(world.now, 100);
    assert_eq!(waiting.len(), 10);
    assert!(
        waiting
            .iter()
            .all(|view| view.parked.reason == WaitReason::Scope(Reason::Quota))
    );
}

#[test]
fn every_bound_of_a_quota_holds_for_look_ups_too() {
    let policy = quota("account:ops", 1, secs(10));
    let script: Script = Box::new(|arrival: &Arrival| match arrival.what {
        super::support::provider::What::Attempt(_) => Say::lost(),
        super::support::provider::What::Lookup(_) => Say::found(rategov_core::event::Found::Done),
    });
    let mut world = World::under(policy).saying(script);
    let id = world.submit(&keyed("ana", "k1").with_lookup());
    world.settle();
    let (sent, asked) = (world.sends(id)[0], world.lookups(id)[0]);
    assert!(secs(10) <= asked.since(sent));
}

/// How many of the calls that were told a time started by it, and by how much
/// the stated waits were longer than the real ones, in percent.
fn promises(world: &World) -> (usize, usize, u64) {
    let (mut stated, mut kept) = (0, 0);
    let (mut said, mut real) = (0, 0);
    for (at, output) in &world.outputs {
        let Output::Parked(parked) = output else {
            continue;
        };
        let (Some(start), Some(sent)) = (
            parked.expected_start,
            world.sends(parked.action).first().copied(),
        ) else {
            continue;
        };
        stated += 1;
        kept += usize::from(sent <= start + ms(5));
        said += start.since(*at).as_millis();
        real += sent.since(*at).as_millis();
    }
    (stated, kept, said * 100 / real.max(1))
}

/// Calls of all ranks by eight agents, one in so many milliseconds on average.
fn mixed_load(mut world: World, seed: u64, gap: u64, calls: u64) -> World {
    world.check_every = 97;
    let mut turn = seed;
    for n in 0..calls {
        turn = turn
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(n + seed);
        let priority = match turn >> 60 {
            0..=2 => Priority::Interactive,
            3..=5 => Priority::Normal,
            _ => Priority::Background,
        };
        let agent = format!("agent-{}", turn >> 40 & 7);
        let call = patient(&agent).at(priority);
        world.submit(&call.with(|call| call.path = format!("/{n}")));
        world.pass(ms(gap / 2 + (turn >> 33) % gap));
    }
    world.settle();
    world
}

/// Nine of ten, and not by stating four times what is true.
fn check_promises(name: &str, make: impl Fn() -> World, gap: u64) {
    let (mut stated, mut kept) = (0, 0);
    for seed in 0..4 {
        let world = mixed_load(make().seeded(seed), seed, gap, 400);
        let (s, k, said) = promises(&world);
        assert!(
            said <= 350,
            "{name}: {said} % of the real waits were stated"
        );
        stated += s;
        kept += k;
    }
    assert!(100 < stated, "{name}: {stated} were told a time");
    let share = kept * 100 / stated;
    assert!(90 <= share, "{name}: {kept} of {stated} started in time");
}

#[test]
fn nine_of_ten_calls_start_by_the_time_that_was_stated_for_a_quota() {
    let six_a_second = || World::under(quota("account:ops", 60, secs(10)));
    check_promises("more than fits", six_a_second, 150);
    check_promises("nearly all that fits", six_a_second, 180);
}

#[test]
fn nine_of_ten_calls_start_by_the_time_that_was_stated_for_seats() {
    let script = || -> Script {
        let mut n = 0_u64;
        Box::new(move |_: &Arrival| {
            n += 1;
            Say::ok().after(ms(200 + n * 7_919 % 400))
        })
    };
    check_promises("two seats", || World::under(seats(2)).saying(script()), 210);
}

#[test]
fn nine_of_ten_calls_start_by_the_time_that_was_stated_after_a_refusal() {
    let refused = || World::new().saying(in_turn(vec![Say::wait(20)]));
    check_promises("nothing is declared", refused, 400);
}

/// An agent with one call out may have no other. Its second and third wait for
/// that; when the first has ended, for the account's seat, which somebody better
/// has taken. Then the second leaves.
fn the_second_leaves(leave: impl Fn(&mut World, ActionId)) {
    let slow = Say::ok().after(secs(60));
    let script = in_turn(vec![Say::ok().after(secs(5)), slow]);
    let mut world = World::under(seats(1)).saying(script);
    let call = patient("ana").with(|call| call.concurrent = Some(1));
    world.submit(&call);
    world.pass(secs(1));
    let second = world.submit(&call);
    let third = world.submit(&call);
    world.submit(&patient("bob").at(Priority::Interactive));
    world.pass(secs(10));
    assert_eq!(world.arrivals.len(), 2, "the account's seat is taken");
    leave(&mut world, second);
    world.pass(secs(120));
    assert_eq!(world.state(second), State::CancelledNotSent);
    assert_eq!(world.state(third), State::Succeeded);
}

#[test]
fn a_call_that_its_agents_limit_kept_back_goes_on_when_the_one_before_it_hangs_up() {
    the_second_leaves(World::hang_up);
}

#[test]
fn a_call_that_its_agents_limit_kept_back_goes_on_when_the_one_before_it_is_cancelled() {
    the_second_leaves(World::cancel);
}
