//! The ceiling of a quota and what is used of it, as they are shown.

use super::{account, declared, policy, quota, secs, send, undeclared};
use crate::ledger::Ledger;
use crate::policy::{AccountPolicy, WindowKind};
use crate::time::Moment;

/// Ceiling and used share, in thousandths, of the only quota.
fn shares(ledger: &Ledger, now: Moment) -> (u32, Option<u32>) {
    let state = ledger.state(now, &account()).expect("declared");
    let [quota] = state.quotas.as_slice() else {
        panic!("one quota: {state:?}");
    };
    assert_eq!(
        (state.ceiling_permille, state.used_permille),
        (Some(quota.ceiling_permille), quota.used_permille),
        "what binds is shown of the scope"
    );
    (quota.ceiling_permille, quota.used_permille)
}

#[test]
fn the_ceiling_follows_the_rule_of_the_windows_kind() {
    let check = |kind: WindowKind, expected: u32| {
        let ledger = declared(60, 10, kind);
        assert_eq!(shares(&ledger, secs(100)), (expected, Some(0)), "{kind:?}");
    };
    // W/(W + J): 10/10.2.
    check(WindowKind::Sliding, 980);
    check(WindowKind::Fixed, 980);
    check(WindowKind::TokenBucket { burst: 60 }, 1_000);
    // A start each 366.7 ms, where 166.7 ms would be the rate.
    check(WindowKind::TokenBucket { burst: 1 }, 454);
    // (1 - 1/60) of W/(W + J).
    check(WindowKind::SlidingCounter, 964);
    check(WindowKind::Unknown, 964);
}

#[test]
fn what_is_kept_free_lowers_the_ceiling() {
    let policy = AccountPolicy {
        headroom_permille: 100,
        ..policy(&[quota(60, 10, WindowKind::Sliding)])
    };
    let ledger = Ledger::new(account(), &policy);
    assert_eq!(shares(&ledger, secs(100)).0, 882);
}

#[test]
fn what_left_within_one_window_is_used_and_what_only_the_spread_keeps_is_not() {
    for kind in [WindowKind::Sliding, WindowKind::TokenBucket { burst: 60 }] {
        let mut ledger = declared(60, 10, kind);
        for _ in 0..15 {
            send(&mut ledger, secs(100));
        }
        let used = |ledger: &Ledger, at| shares(ledger, at).1;
        assert_eq!(used(&ledger, secs(100)), Some(250), "{kind:?}");
        assert_eq!(used(&ledger, secs(109)), Some(250), "{kind:?}");
        assert_eq!(used(&ledger, secs(110)), Some(0), "{kind:?}");
    }
}

#[test]
fn a_scope_without_a_limit_has_neither() {
    let mut ledger = undeclared();
    send(&mut ledger, secs(100));
    let state = ledger.state(secs(100), &account()).expect("used");
    assert_eq!((state.ceiling_permille, state.used_permille), (None, None));
}
