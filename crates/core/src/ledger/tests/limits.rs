//! Each limiter against a brute-force log of the provider's own rule, with
//! every delay that the margin allows: no refusal, and the use that was derived.

use super::world::{Rule, World};
use super::{account, declared, in_the_way, ms, policy, quota, secs, send};
use crate::ledger::{Ledger, Reason};
use crate::policy::{AccountPolicy, WindowKind};
use crate::time::Span;
use proptest::prelude::*;

/// One provider and how it is declared.
#[derive(Clone, Copy, Debug)]
struct Case {
    kind: WindowKind,
    rule: Rule,
    limit: u64,
    window_ms: u64,
    /// Share of the quota that must be used when there is always demand, in thousandths.
    used_permille: u64,
    seed: u64,
}

impl Case {
    fn world(self, in_flight_max: usize) -> World {
        let quota = crate::policy::Quota {
            dimension: crate::cost::Dimension::Requests,
            limit: self.limit,
            window: Span::from_millis(self.window_ms),
            kind: self.kind,
        };
        let ledger = Ledger::new(account(), &policy(&[quota]));
        let mut world = World::new(ledger, self.rule, self.seed);
        // The spread of 2 % is used up entirely. Where starts are paced, the
        // delay from grant to first byte is part of it; a log does not mind it.
        let spread = self.window_ms * 1_000 / 50;
        let paced = world
            .ledger
            .state(world.now, &account())
            .is_some_and(|s| s.quotas[0].paced);
        let on_the_way = if paced { spread / 2 } else { spread };
        world.in_flight_max = in_flight_max;
        world.commit = (0, spread / 2);
        world.way = (3_000, 3_000 + on_the_way);
        world.service = (0, 5_000);
        world
    }
}

/// Eight windows of unbroken demand, and eight of demand that comes and goes.
fn check(case: Case) -> Result<(), TestCaseError> {
    let window = Span::from_millis(case.window_ms);
    let mut world = case.world(100_000);
    world.run(window);
    let (accepted, _) = world.measure(window.saturating_mul(8));
    let used_permille = accepted * 1_000 / (case.limit * 8);
    prop_assert_eq!(world.provider.refused.len(), 0, "unbroken demand");
    prop_assert!(
        case.used_permille <= used_permille,
        "used {} of 1000",
        used_permille
    );

    let mut world = case.world(100_000);
    world.pause = Some(case.window_ms * 1_000 * 7 / 10);
    world.run(window.saturating_mul(8));
    prop_assert_eq!(
        world.provider.refused.len(),
        0,
        "demand that comes and goes"
    );
    Ok(())
}

/// Quota, window in milliseconds, phase, seed.
fn any_quota() -> impl Strategy<Value = (u64, u64, u64, u64)> {
    (2u64..60, 500u64..60_000, any::<u32>(), any::<u64>())
        .prop_map(|(limit, window, phase, seed)| (limit, window, u64::from(phase), seed))
}

/// A log of W + J, with J/2 more between grant and first byte.
const LOG_PERMILLE: u64 = 940;

/// The pacer's (Q − 1)/(W + J), less what the edges of eight windows cut off.
fn paced_permille(limit: u64) -> u64 {
    ((limit - 1) * 970 / limit).saturating_sub(1_000 / (limit * 8) + 5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_declared_sliding_log_never_refuses((limit, window_ms, _, seed) in any_quota()) {
        let rule = Rule::Sliding { limit, window: window_ms * 1_000 };
        check(Case { kind: WindowKind::Sliding, rule, limit, window_ms, used_permille: LOG_PERMILLE, seed })?;
    }

    #[test]
    fn declared_fixed_windows_of_any_phase_never_refuse((limit, window_ms, phase, seed) in any_quota()) {
        let rule = Rule::Fixed { limit, window: window_ms * 1_000, phase };
        check(Case { kind: WindowKind::Fixed, rule, limit, window_ms, used_permille: LOG_PERMILLE, seed })?;
    }

    #[test]
    fn a_declared_full_bucket_never_refuses((limit, window_ms, _, seed) in any_quota()) {
        let rule = Rule::Bucket { burst: limit, limit, window: window_ms * 1_000 };
        let kind = WindowKind::TokenBucket { burst: limit };
        check(Case { kind, rule, limit, window_ms, used_permille: LOG_PERMILLE, seed })?;
    }

    #[test]
    fn the_universal_pacer_is_never_refused_by_a_sliding_counter(
        (limit, window_ms, phase, seed) in any_quota(),
        one in prop::bool::weighted(0.1),
    ) {
        let limit = if one { 1 } else { limit };
        let rule = Rule::Counter { limit, window: window_ms * 1_000, phase };
        check(Case { kind: WindowKind::SlidingCounter, rule, limit, window_ms, used_permille: paced_permille(limit), seed })?;
    }

    #[test]
    fn the_universal_pacer_is_never_refused_by_what_is_unknown(
        (limit, window_ms, phase, seed) in any_quota(),
        which in 0..4,
    ) {
        let window = window_ms * 1_000;
        let rule = match which {
            0 => Rule::Sliding { limit, window },
            1 => Rule::Fixed { limit, window, phase },
            2 => Rule::Counter { limit, window, phase },
            _ => Rule::Bucket { burst: limit, limit, window },
        };
        check(Case { kind: WindowKind::Unknown, rule, limit, window_ms, used_permille: paced_permille(limit), seed })?;
    }

    #[test]
    fn a_declared_small_bucket_never_refuses(
        (limit, window_ms, _, seed) in any_quota(),
        share in 1u64..100,
    ) {
        let burst = (limit * share / 100).max(1);
        let rule = Rule::Bucket { burst, limit, window: window_ms * 1_000 };
        let kind = WindowKind::TokenBucket { burst };
        // A bucket of one pays for the whole spread: 1/(1 + R·J), with R·J = limit/50.
        let floor = paced_permille(limit).min(1_000 * 45 / (50 + limit));
        check(Case { kind, rule, limit, window_ms, used_permille: floor, seed })?;
    }
}

#[test]
fn a_full_second_of_spread_costs_two_percent_and_no_refusal() {
    let rule = Rule::Sliding {
        limit: 600,
        window: 60_000_000,
    };
    let case = Case {
        kind: WindowKind::Sliding,
        rule,
        limit: 600,
        window_ms: 60_000,
        used_permille: 960,
        seed: 7,
    };
    check(case).expect("a minute of 600");
}

#[test]
fn a_log_without_the_margin_is_refused_so_the_world_can_tell() {
    // The same world, declared with a window that is shorter.
    let rule = Rule::Sliding {
        limit: 30,
        window: 10_200_000,
    };
    let case = Case {
        kind: WindowKind::Sliding,
        rule,
        limit: 30,
        window_ms: 10_000,
        used_permille: 0,
        seed: 3,
    };
    let mut world = case.world(100_000);
    world.run(Span::from_secs(60));
    assert!(!world.provider.refused.is_empty());
}

#[test]
fn bursts_are_fine_where_the_log_alone_decides() {
    let mut ledger = declared(60, 10, WindowKind::Sliding);
    (0..60).for_each(|_| {
        send(&mut ledger, secs(5));
    });
    let free_at = secs(15) + Span::from_micros(200_001);
    assert_eq!(in_the_way(&ledger, secs(5)), Some((Reason::Quota, free_at)));
    send(&mut ledger, free_at);
}

#[test]
fn starts_are_spaced_where_the_shape_is_unknown() {
    let mut ledger = declared(60, 10, WindowKind::Unknown);
    send(&mut ledger, secs(5));
    let next = secs(5) + Span::from_micros(172_882);
    assert_eq!(in_the_way(&ledger, secs(5)), Some((Reason::Pacing, next)));
    send(&mut ledger, next);
}

#[test]
fn a_slot_that_is_granted_and_not_sent_does_not_expire() {
    let mut ledger = declared(1, 10, WindowKind::Sliding);
    let staged = super::stage(&ledger, secs(5), &[account()]).expect("it fits");
    let permit = ledger.secure(secs(5), staged);
    // Nobody can say when it will leave.
    let never = crate::time::Moment::NEVER;
    assert_eq!(
        in_the_way(&ledger, secs(3_600)),
        Some((Reason::Quota, never))
    );
    ledger.sent(secs(3_600), permit);
    let free_at = secs(3_610) + Span::from_micros(200_001);
    assert_eq!(
        in_the_way(&ledger, secs(3_601)),
        Some((Reason::Quota, free_at))
    );
}

#[test]
fn several_quotas_must_all_agree() {
    let quotas = [
        quota(2, 1, WindowKind::Sliding),
        quota(3, 60, WindowKind::Sliding),
    ];
    let mut ledger = Ledger::new(account(), &policy(&quotas));
    send(&mut ledger, secs(5));
    send(&mut ledger, secs(5));
    let second = ms(6_020) + Span::from_micros(1);
    assert_eq!(in_the_way(&ledger, secs(5)), Some((Reason::Quota, second)));
    send(&mut ledger, second);
    let minute = ms(66_200) + Span::from_micros(1);
    assert_eq!(in_the_way(&ledger, secs(10)), Some((Reason::Quota, minute)));
}

#[test]
fn headroom_is_kept_free_below_a_declared_limit() {
    let policy = AccountPolicy {
        headroom_permille: 100,
        ..policy(&[quota(60, 10, WindowKind::Sliding)])
    };
    let mut ledger = Ledger::new(account(), &policy);
    (0..54).for_each(|_| {
        send(&mut ledger, secs(5));
    });
    assert!(in_the_way(&ledger, secs(5)).is_some());
}

#[test]
fn a_lower_limit_makes_a_debt_that_is_paid_off_and_not_forgiven() {
    let mut ledger = declared(60, 10, WindowKind::Sliding);
    for n in 0..40 {
        send(&mut ledger, ms(5_000 + n * 100));
    }
    ledger.set_policy(secs(9), &policy(&[quota(20, 10, WindowKind::Sliding)]));
    let state = ledger.state(secs(9), &account()).expect("declared");
    assert_eq!((state.remaining, state.quotas[0].debt), (Some(0), 20));
    // Twenty of forty must leave, and one more for the next call.
    let free_at = ms(5_000 + 20 * 100 + 10_200) + Span::from_micros(1);
    assert_eq!(in_the_way(&ledger, secs(9)), Some((Reason::Quota, free_at)));
}

#[test]
fn a_call_larger_than_the_quota_goes_alone_and_leaves_a_debt() {
    let mut ledger = declared(5, 10, WindowKind::Sliding);
    let scopes = [account()];
    let large = crate::ledger::Call {
        cost: crate::cost::Cost::requests(8),
        ..super::read(&scopes)
    };
    send(&mut ledger, secs(5));
    let blocked = ledger.stage(secs(5), &large).expect_err("one is spent");
    let free_at = secs(15) + Span::from_micros(200_001);
    assert_eq!(blocked.until, free_at);
    let staged = ledger.stage(free_at, &large).expect("nothing is spent");
    let permit = ledger.secure(free_at, staged);
    ledger.sent(free_at, permit);
    let state = ledger.state(free_at, &account()).expect("declared");
    assert_eq!(state.quotas[0].debt, 3);
}

#[test]
fn a_measured_spread_narrows_the_margin_but_not_below_fifty_milliseconds() {
    let mut ledger = declared(60, 10, WindowKind::Sliding);
    ledger.set_spread(secs(1), Span::from_millis(80));
    assert_eq!(
        ledger.rate(&account()).map(|rate| rate.per),
        Some(Span::from_micros(10_080_001))
    );
    ledger.set_spread(secs(1), Span::from_millis(3));
    assert_eq!(
        ledger.rate(&account()).map(|rate| rate.per),
        Some(Span::from_micros(10_050_001))
    );
    ledger.set_spread(secs(1), Span::from_secs(3));
    assert_eq!(
        ledger.rate(&account()).map(|rate| rate.per),
        Some(Span::from_micros(10_200_001))
    );
}
