//! Limits that only headers tell, and use by others.

use super::{
    account, answer, declared, in_the_way, mode, ms, ok, reading, refused, secs, send, undeclared,
};
use crate::ledger::{Change, Ledger, Origin, PermitId, Reason};
use crate::observe::{Facts, Reading};
use crate::policy::WindowKind;
use crate::time::{Moment, Span};
use crate::word::Mode;

const TEN: Span = Span::from_secs(10);

fn told(readings: &[Reading]) -> Facts {
    Facts {
        readings: readings.to_vec(),
        ..ok()
    }
}

/// One call leaves at 10 s; its answer at 10.1 s tells this.
fn after(mut ledger: Ledger, facts: &Facts) -> (Ledger, Vec<Change>) {
    let permit = send(&mut ledger, secs(10));
    let changes = answer(&mut ledger, ms(10_100), permit, facts);
    (ledger, changes)
}

/// Sends as many as fit at `now`.
fn burst(ledger: &mut Ledger, now: Moment) -> usize {
    let mut sent = 0;
    while sent < 10_000 && in_the_way(ledger, now).is_none() {
        send(ledger, now);
        sent += 1;
    }
    sent
}

#[test]
fn nothing_is_limited_before_the_first_header() {
    assert_eq!(burst(&mut undeclared(), secs(10)), 10_000);
}

#[test]
fn as_much_may_go_at_once_as_is_left() {
    let facts = told(&[reading(60, 42, TEN, Some(TEN))]);
    let (mut ledger, changes) = after(undeclared(), &facts);
    assert_eq!(
        changes[0],
        Change::Learned {
            scope: account(),
            limit: 60,
            window: TEN,
            source: "RateLimit header".to_owned()
        }
    );
    assert_eq!(burst(&mut ledger, ms(10_100)), 42);
    let state = ledger.state(ms(10_100), &account()).expect("a place");
    assert_eq!(
        (state.origin, state.remaining),
        (Some(Origin::Header), Some(0))
    );
    assert_eq!((state.limit, state.window), (Some(60), Some(TEN)));
}

#[test]
fn calls_that_went_after_the_one_that_is_answered_are_taken_off() {
    let mut ledger = undeclared();
    let first = send(&mut ledger, secs(10));
    (0..20).for_each(|n| {
        send(&mut ledger, ms(10_200 + n));
    });
    let facts = told(&[reading(60, 42, TEN, Some(TEN))]);
    answer(&mut ledger, ms(10_300), first, &facts);
    assert_eq!(burst(&mut ledger, ms(10_300)), 22);
}

#[test]
fn calls_that_may_have_been_overtaken_are_not_taken_as_counted() {
    let mut ledger = undeclared();
    let permits: Vec<PermitId> = (0..10).map(|n| send(&mut ledger, ms(10_000 + n))).collect();
    // The tenth arrived first: the provider had counted nothing else.
    let facts = told(&[reading(60, 59, TEN, Some(TEN))]);
    answer(&mut ledger, ms(10_100), permits[9], &facts);
    assert_eq!(burst(&mut ledger, ms(10_100)), 50);
}

#[test]
fn nothing_left_waits_for_the_reset() {
    let facts = told(&[reading(60, 0, Span::from_millis(1_200), None)]);
    let (ledger, _) = after(undeclared(), &facts);
    assert_eq!(
        in_the_way(&ledger, ms(10_100)),
        Some((Reason::Quota, ms(11_300)))
    );
}

#[test]
fn a_window_that_is_long_is_not_spread_over_its_length() {
    // 5,000 an hour: fifty calls at once are no crime.
    let hour = Span::from_secs(3_600);
    let (mut ledger, _) = after(undeclared(), &told(&[reading(5_000, 4_999, hour, None)]));
    assert_eq!(burst(&mut ledger, secs(11)), 4_999);
}

#[test]
fn several_windows_in_one_answer_are_each_kept() {
    let day = Span::from_secs(86_400);
    let facts = told(&[
        reading(60, 59, TEN, Some(TEN)),
        reading(1_000, 20, day, Some(day)),
    ]);
    let (mut ledger, _) = after(undeclared(), &facts);
    assert_eq!(burst(&mut ledger, ms(10_100)), 20);
    assert_eq!(
        ledger.state(ms(10_100), &account()).map(|s| s.quotas.len()),
        Some(2)
    );
}

#[test]
fn a_limit_of_zero_is_a_sentinel_and_no_limit() {
    let (mut ledger, changes) = after(undeclared(), &told(&[reading(0, 0, TEN, Some(TEN))]));
    assert_eq!(changes, []);
    assert_eq!(burst(&mut ledger, ms(10_100)), 10_000);
}

#[test]
fn a_declared_quota_is_not_widened_by_a_header() {
    let facts = told(&[reading(60, 60, TEN, Some(TEN))]);
    let (mut ledger, _) = after(declared(5, 10, WindowKind::Sliding), &facts);
    assert_eq!(burst(&mut ledger, ms(10_100)), 4);
}

#[test]
fn a_declared_quota_is_narrowed_by_a_header_for_the_same_window() {
    let facts = told(&[reading(20, 19, TEN, Some(TEN))]);
    let (mut ledger, changes) = after(declared(60, 10, WindowKind::Sliding), &facts);
    assert!(
        matches!(changes[..], [Change::Learned { limit: 20, .. }]),
        "{changes:?}"
    );
    assert_eq!(burst(&mut ledger, ms(10_100)), 19);
}

#[test]
fn use_by_others_is_shown_and_taken_off_until_it_has_left_the_window() {
    let facts = told(&[reading(60, 25, TEN, Some(TEN))]);
    let (mut ledger, changes) = after(declared(60, 10, WindowKind::Sliding), &facts);
    assert_eq!(
        changes,
        [Change::Foreign {
            scope: account(),
            units: 34,
            limit: 60
        }]
    );
    assert_eq!(
        ledger.state(ms(10_100), &account()).map(|s| s.foreign),
        Some(34)
    );
    assert_eq!(burst(&mut ledger, ms(10_100)), 25);
    // 10 s and the spread after the call that showed it.
    let left = secs(20) + Span::from_micros(200_001);
    assert_eq!(in_the_way(&ledger, ms(10_100)), Some((Reason::Quota, left)));
}

#[test]
fn a_reading_that_our_own_calls_explain_is_no_foreign_use() {
    let mut ledger = declared(60, 10, WindowKind::Sliding);
    let permits: Vec<PermitId> = (0..30).map(|n| send(&mut ledger, ms(10_000 + n))).collect();
    // The answers come in any order; the provider looked when each call arrived.
    for (n, permit) in permits.iter().enumerate().rev() {
        let facts = told(&[reading(60, 59 - n as u64, TEN, Some(TEN))]);
        let changes = answer(&mut ledger, ms(10_500), *permit, &facts);
        assert_eq!(changes, []);
    }
    assert_eq!(burst(&mut ledger, ms(10_500)), 30);
}

#[test]
fn a_refusal_that_foreign_use_explains_leaves_the_declared_shape_alone() {
    let mut ledger = declared(60, 10, WindowKind::Sliding);
    let permit = send(&mut ledger, secs(10));
    let mut facts = refused(Span::from_secs(3));
    facts.readings = vec![reading(60, 0, Span::from_secs(3), Some(TEN))];
    answer(&mut ledger, secs(10), permit, &facts);
    let state = ledger.state(secs(10), &account()).expect("declared");
    assert!(!state.misdeclared);
    assert_eq!((state.mode, state.foreign), (Mode::Closed, 59));
}

#[test]
fn foreign_use_that_only_refusals_show_is_not_believed_for_ever() {
    let mut ledger = declared(60, 10, WindowKind::Sliding);
    let mut facts = refused(Span::from_secs(1));
    facts.readings = vec![reading(60, 0, Span::from_secs(1), Some(TEN))];
    let mut now = secs(100);
    for round in 0..3 {
        let permit = send(&mut ledger, now);
        answer(&mut ledger, now, permit, &facts);
        let state = ledger.state(now, &account()).expect("declared");
        assert_eq!(state.misdeclared, round == 2, "round {round}");
        now = now + Span::from_secs(20);
        let probe = send(&mut ledger, now);
        answer(&mut ledger, now, probe, &ok());
        now = now + Span::from_secs(40);
    }
}

#[test]
fn a_healthy_header_does_not_open_a_closed_scope() {
    let mut ledger = undeclared();
    let (good, bad) = (send(&mut ledger, secs(10)), send(&mut ledger, secs(10)));
    answer(&mut ledger, secs(11), bad, &refused(Span::from_secs(30)));
    let facts = told(&[reading(60, 60, TEN, Some(TEN))]);
    answer(&mut ledger, secs(12), good, &facts);
    assert_eq!(mode(&ledger, secs(12)), Mode::Closed);
}

#[test]
fn a_limit_on_open_calls_may_come_in_a_header_too() {
    let seats = Reading {
        dimension: "concurrent".to_owned(),
        ..reading(3, 2, TEN, None)
    };
    let (mut ledger, changes) = after(undeclared(), &told(&[seats]));
    assert!(matches!(
        changes[..],
        [Change::LearnedSeats {
            max_concurrent: 3,
            ..
        }]
    ));
    assert_eq!(burst(&mut ledger, ms(10_100)), 3);
    assert_eq!(
        in_the_way(&ledger, ms(10_100)).map(|(reason, _)| reason),
        Some(Reason::Concurrency)
    );
}

#[test]
fn a_call_that_uses_no_tokens_is_not_held_by_their_limit() {
    let tokens = Reading {
        dimension: "tokens".to_owned(),
        ..reading(40_000, 0, TEN, None)
    };
    let (ledger, changes) = after(undeclared(), &told(&[tokens]));
    assert!(matches!(
        changes[..],
        [Change::Learned { limit: 40_000, .. }, Change::Left { .. }]
    ));
    assert_eq!(in_the_way(&ledger, ms(10_100)), None);
}
