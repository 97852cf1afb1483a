//! What the ledger makes of limits that nobody declared, or declared wrongly.
//! Each run is a whole world; the judge is the provider's own count.

use super::world::{Hints, Rule, World};
use super::{account, declared, policy, quota, undeclared};
use crate::ledger::{Change, Ledger, Origin};
use crate::policy::WindowKind;
use crate::time::Span;

const SECOND: u64 = 1_000_000;

/// 60 per sliding 10 s.
const SLIDING: Rule = Rule::Sliding {
    limit: 60,
    window: 10 * SECOND,
};
/// 60 per fixed 10 s.
const FIXED: Rule = Rule::Fixed {
    limit: 60,
    window: 10 * SECOND,
    phase: 3 * SECOND,
};
/// 6 a second, and ten saved up.
const BUCKET: Rule = Rule::Bucket {
    burst: 10,
    limit: 60,
    window: 10 * SECOND,
};
/// The same quota as a weighted sum of two windows.
const COUNTER: Rule = Rule::Counter {
    limit: 60,
    window: 10 * SECOND,
    phase: SECOND,
};

const ALL: [Rule; 4] = [SLIDING, FIXED, BUCKET, COUNTER];

/// Saturates a provider of 60 per 10 s for a minute, and then measures ten.
/// Gives the use after the first minute in thousandths, and the refusals that
/// were news in the first minute and after.
fn after_a_minute(mut world: World) -> (u64, usize, usize) {
    world.run(Span::from_secs(60));
    let learning = world.refusal_events();
    let (accepted, _) = world.measure(Span::from_secs(600));
    let later = world.refusal_events() - learning;
    (accepted * 1_000 / 3_600, learning, later)
}

fn check_undeclared(rule: Rule, hints: Hints, used_permille: u64, events: usize) {
    for seed in 1..6 {
        let mut world = World::new(undeclared(), rule, seed);
        world.hints = hints;
        let (used, learning, later) = after_a_minute(world);
        assert!(
            used_permille <= used && learning + later <= events,
            "{rule:?} {hints:?} seed {seed}: used {used}, {learning} + {later} refusals"
        );
    }
}

#[test]
fn with_retry_after_alone_nine_tenths_are_used_within_a_minute() {
    for rule in ALL {
        check_undeclared(rule, Hints::Seconds, 900, 8);
    }
}

#[test]
fn without_any_hint_the_rate_is_still_found() {
    for rule in ALL {
        check_undeclared(rule, Hints::None, 850, 8);
    }
}

#[test]
fn with_headers_there_is_hardly_a_refusal() {
    for rule in ALL {
        check_undeclared(rule, Hints::Headers, 900, 5);
    }
}

fn check_wrong_shape(rule: Rule, kind: WindowKind) {
    for seed in 1..6 {
        let world = World::new(declared(60, 10, kind), rule, seed);
        let (used, learning, later) = after_a_minute(world);
        assert!(
            950 <= used && learning + later <= 3,
            "{rule:?} as {kind:?} seed {seed}: used {used}, {learning} + {later} refusals"
        );
    }
}

#[test]
fn a_limit_declared_in_the_wrong_shape_is_found_out() {
    for kind in [
        WindowKind::Sliding,
        WindowKind::Fixed,
        WindowKind::TokenBucket { burst: 60 },
    ] {
        for rule in ALL {
            check_wrong_shape(rule, kind);
        }
    }
}

#[test]
fn refusals_that_count_lock_nobody_out() {
    for rule in [SLIDING, FIXED, COUNTER] {
        for seed in 1..6 {
            let mut world = World::new(undeclared(), rule, seed);
            world.provider.counts_refused = true;
            let (used, learning, later) = after_a_minute(world);
            assert!(
                850 <= used && learning + later <= 10,
                "{rule:?} seed {seed}: used {used}, {learning} + {later} refusals"
            );
        }
    }
}

#[test]
fn a_declared_limit_is_never_refused_in_ten_minutes() {
    for seed in 1..6 {
        let world = World::new(declared(60, 10, WindowKind::Sliding), SLIDING, seed);
        let (used, learning, later) = after_a_minute(world);
        assert_eq!((learning, later), (0, 0));
        assert!(970 <= used, "{used}");
    }
}

#[test]
fn a_limit_declared_too_high_is_learnt_from_refusals() {
    for seed in 1..6 {
        let world = World::new(declared(120, 10, WindowKind::Sliding), SLIDING, seed);
        let (used, learning, later) = after_a_minute(world);
        assert!(
            900 <= used && learning + later <= 8,
            "{used}: {learning} + {later}"
        );
    }
}

#[test]
fn two_hundred_agents_behind_one_hold_return_without_a_herd() {
    for seed in 1..20 {
        let mut world = World::new(undeclared(), SLIDING, seed);
        world.in_flight_max = 200;
        world.run(Span::from_secs(9));
        let (accepted, refused) = (world.provider.accepted.len(), world.provider.refused.len());
        assert_eq!((accepted, refused), (60, 140), "all at once, and echoes");
        world.run(Span::from_secs(51));
        let after = world.provider.refused.len() - refused;
        assert!(after <= 2, "seed {seed}: {after} refusals after the hold");
    }
}

#[test]
fn what_was_learnt_is_said_and_shown_as_learnt() {
    let mut world = World::new(undeclared(), SLIDING, 1);
    world.run(Span::from_secs(15));
    let learned = world.changes.iter().find_map(|(_, change)| match change {
        Change::Learned {
            limit,
            window,
            source,
            ..
        } => Some((*limit, *window, source.clone())),
        _ => None,
    });
    let (limit, window, source) = learned.expect("it was refused and opened again");
    assert!((55..=65).contains(&limit), "{limit}");
    assert!((9..=11).contains(&window.as_secs_ceil()), "{window}");
    assert_eq!(source, "learned");
    let state = world.ledger.state(world.now, &account()).expect("a place");
    assert_eq!(
        (state.origin, state.limit),
        (Some(Origin::Learned), Some(limit))
    );
}

#[test]
fn a_limit_that_was_raised_is_found_again() {
    let mut world = World::new(
        undeclared(),
        Rule::Sliding {
            limit: 30,
            window: 10 * SECOND,
        },
        1,
    );
    world.run(Span::from_secs(120));
    world.provider.rule = SLIDING;
    world.run(Span::from_secs(3 * 3600));
    let (accepted, _) = world.measure(Span::from_secs(600));
    assert!(900 <= accepted * 1_000 / 3_600, "{accepted}");
}

#[test]
fn a_limit_that_was_lowered_is_found_with_few_refusals() {
    let mut world = World::new(undeclared(), SLIDING, 1);
    world.run(Span::from_secs(120));
    let before = world.refusal_events();
    world.provider.rule = Rule::Sliding {
        limit: 20,
        window: 10 * SECOND,
    };
    world.run(Span::from_secs(120));
    let events = world.refusal_events() - before;
    assert!(events <= 8, "{events}");
    let (accepted, _) = world.measure(Span::from_secs(600));
    assert!(850 <= accepted * 1_000 / 1_200, "{accepted}");
}

#[test]
fn an_operators_new_word_outlives_what_refusals_taught_of_the_old_one() {
    let mut world = World::new(declared(120, 10, WindowKind::Sliding), SLIDING, 1);
    world.run(Span::from_secs(60));
    let learnt = |ledger: &Ledger| {
        let state = ledger
            .state(crate::time::Moment::START, &account())
            .expect("declared");
        state
            .quotas
            .iter()
            .any(|quota| quota.origin == Origin::Learned)
    };
    assert!(learnt(&world.ledger));
    let now = world.now;
    world
        .ledger
        .set_policy(now, &policy(&[quota(60, 10, WindowKind::Sliding)]));
    assert!(!learnt(&world.ledger));
    let (_, refused) = world.measure(Span::from_secs(60));
    assert_eq!(refused, 0);
}
