//! The margin of the limits follows what was measured.

use rategov_core::policy::{AccountPolicy, Quota, ScopeLimits, WindowKind};
use rategov_core::time::Span;

use crate::support::call::{ms, own_scope, read, secs};
use crate::support::provider::{Say, always};
use crate::support::world::World;

/// Ten calls in ten seconds.
fn ten_in_ten() -> World {
    let quota = Quota {
        dimension: rategov_core::cost::Dimension::Requests,
        limit: 10,
        window: secs(10),
        kind: WindowKind::Sliding,
    };
    let limits = ScopeLimits {
        quotas: vec![quota],
        max_concurrent: None,
    };
    let mut world = World::under(AccountPolicy {
        scopes: vec![(own_scope(), limits)],
        ..AccountPolicy::default()
    });
    world.check_every = 50;
    world
}

/// Makes calls one by one, each answered after this.
fn calls(world: &mut World, calls: u32, answered_after: Span) {
    world.script = always(Say::ok().after(answered_after));
    for _ in 0..calls {
        world.submit(&read("ana"));
        world.pass(secs(1));
    }
    world.pass(secs(30));
}

/// By how much the eleventh of eleven calls is later than the window asks for.
fn margin(world: &mut World) -> Span {
    world.pass(secs(60));
    let first = world.arrivals.len();
    for _ in 0..11 {
        world.submit(&read("ana"));
    }
    world.pass(secs(60));
    let arrivals = &world.arrivals[first..];
    assert_eq!(arrivals.len(), 11);
    // Its record takes its time before it leaves.
    let gap = arrivals[10].at.since(arrivals[0].at);
    gap.saturating_sub(secs(10))
        .saturating_sub(world.commit_after)
}

/// Measured to the microsecond by which a window is made longer.
fn check(world: &mut World, expected: Span) {
    assert_eq!(margin(world), expected + Span::from_micros(1));
}

#[test]
fn the_margin_narrows_to_what_a_thousand_calls_took_and_widens_with_the_first_slow_one() {
    let mut world = ten_in_ten();
    check(&mut world, ms(200));
    calls(&mut world, 970, ms(70));
    check(&mut world, ms(200));
    calls(&mut world, 20, ms(70));
    // The first eleven took 100 ms, and 2 ms for the journal.
    check(&mut world, ms(110));
    calls(&mut world, 1, secs(2));
    check(&mut world, ms(200));
}

#[test]
fn calls_that_never_left_say_nothing() {
    use rategov_core::action::outcome::NotSent;
    let mut world = ten_in_ten();
    world.script = always(Say::not_sent(NotSent::Certificate));
    for _ in 0..1_100 {
        world.submit(&read("ana"));
        world.pass(secs(1));
    }
    world.script = always(Say::ok());
    check(&mut world, ms(200));
}
