//! What a refusal does, rule by rule.

use super::{
    account, answer, in_the_way, mode, ms, ok, reading, refused, secs, send, stage, undeclared,
};
use crate::ledger::{Call, Change, Ledger, PermitId, Reason};
use crate::observe::Facts;
use crate::time::{Draw, Moment, Span};
use crate::word::{Mode, Priority};

/// An undeclared ledger whose only call was refused at 10 s.
pub(super) fn closed(wait: impl Into<Option<Span>>) -> Ledger {
    let mut ledger = undeclared();
    let permit = send(&mut ledger, secs(10));
    answer(&mut ledger, secs(10), permit, &refused(wait));
    ledger
}

pub(super) fn closed_until(ledger: &Ledger, now: Moment) -> Moment {
    match in_the_way(ledger, now) {
        Some((Reason::Closed, until)) => until,
        other => panic!("expected a closed scope, found {other:?}"),
    }
}

/// The probe goes at the end of the hold and is answered at once.
pub(super) fn probe(ledger: &mut Ledger, facts: &Facts) -> Moment {
    let at = closed_until(ledger, ledger_now(ledger));
    let permit = send(ledger, at);
    answer(ledger, at, permit, facts);
    at
}

/// A moment at which the closed scope of a test is surely still closed.
fn ledger_now(ledger: &Ledger) -> Moment {
    let state = ledger.state(Moment::START, &account()).expect("a place");
    state
        .next_allowed_at
        .expect("closed for a time")
        .back(Span::from_millis(1))
}

#[test]
fn a_refusal_closes_the_scope_before_anything_else_is_decided() {
    let mut ledger = undeclared();
    let permit = send(&mut ledger, secs(10));
    let changes = ledger.answered(secs(11), Draw::ZERO, permit, &refused(Span::from_secs(30)));
    assert_eq!(
        changes,
        [
            Change::Refused {
                scope: account(),
                status: 429,
                until: secs(41),
                echo: false
            },
            Change::Mode {
                scope: account(),
                from: Mode::Normal,
                to: Mode::Closed,
                why: "HTTP 429: HTTP 429 Retry-After".to_owned(),
                next_allowed_at: Some(secs(41)),
            },
        ]
    );
    assert_eq!(
        in_the_way(&ledger, secs(40)),
        Some((Reason::Closed, secs(41)))
    );
}

#[test]
fn jitter_is_only_ever_added() {
    for n in [0, 1 << 20, 1 << 31, u32::MAX] {
        let mut ledger = undeclared();
        let permit = send(&mut ledger, secs(10));
        ledger.answered(
            secs(10),
            Draw::from_u32(n),
            permit,
            &refused(Span::from_secs(3)),
        );
        let until = closed_until(&ledger, secs(10));
        assert!(secs(13) <= until && until <= ms(13_300), "{until:?}");
    }
}

#[test]
fn without_a_time_the_hold_doubles_with_every_failed_probe() {
    let mut ledger = closed(None);
    let mut held = vec![closed_until(&ledger, secs(10)).since(secs(10)).as_millis()];
    for _ in 0..7 {
        let at = probe(&mut ledger, &refused(None));
        held.push(closed_until(&ledger, at).since(at).as_millis());
    }
    assert_eq!(
        held,
        [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]
    );
}

#[test]
fn a_zero_hint_waits_the_minimum_and_is_not_believed_twice() {
    let mut ledger = closed(Span::ZERO);
    assert_eq!(closed_until(&ledger, secs(10)), ms(10_250));
    let at = probe(&mut ledger, &refused(Span::ZERO));
    assert_eq!(closed_until(&ledger, at), at + Span::from_secs(1));
    let at = probe(&mut ledger, &refused(Span::ZERO));
    assert_eq!(closed_until(&ledger, at), at + Span::from_secs(2));
}

#[test]
fn a_repeated_hint_is_honoured_as_it_is() {
    let mut ledger = closed(Span::from_secs(3));
    let at = probe(&mut ledger, &refused(Span::from_secs(3)));
    assert_eq!(closed_until(&ledger, at), at + Span::from_secs(3));
}

#[test]
fn backoff_does_not_forget_itself_after_each_cool_down() {
    let mut ledger = closed(None);
    probe(&mut ledger, &refused(None));
    let opened = probe(&mut ledger, &ok());
    // Open again, and refused again 20 s later: the ladder goes on.
    let again = opened + Span::from_secs(20);
    let permit = send(&mut ledger, again);
    answer(&mut ledger, again, permit, &refused(None));
    assert_eq!(closed_until(&ledger, again), again + Span::from_secs(4));
    // After a good while it begins anew.
    let opened = probe(&mut ledger, &ok());
    let much_later = opened + Span::from_secs(90);
    let permit = send(&mut ledger, much_later);
    answer(&mut ledger, much_later, permit, &refused(None));
    assert_eq!(
        closed_until(&ledger, much_later),
        much_later + Span::from_secs(1)
    );
}

#[test]
fn an_account_that_never_recovers_is_asked_ever_less_often() {
    // A call every five seconds for ten minutes, each refused without a word.
    let mut ledger = undeclared();
    let mut calls = 0;
    for second in (0..600).step_by(5) {
        let now = secs(1_000 + second);
        if let Ok(staged) = stage(&ledger, now, &[account()]) {
            let permit = ledger.secure(now, staged);
            ledger.sent(now, permit);
            answer(&mut ledger, now, permit, &refused(None));
            calls += 1;
        }
    }
    assert!(calls <= 16, "{calls}");
}

#[test]
fn refusals_of_calls_already_on_the_wire_are_echoes_of_one_event() {
    let mut ledger = undeclared();
    let permits: Vec<PermitId> = (0..9).map(|_| send(&mut ledger, secs(10))).collect();
    for permit in permits {
        answer(&mut ledger, secs(11), permit, &refused(None));
    }
    let state = ledger.state(secs(11), &account()).expect("a place");
    assert_eq!((state.epoch, state.refusals, state.echoes), (1, 1, 8));
    assert_eq!(closed_until(&ledger, secs(11)), secs(12));
}

#[test]
fn an_echo_that_names_a_later_time_lengthens_the_hold_and_cuts_nothing() {
    let mut ledger = undeclared();
    let first = send(&mut ledger, secs(10));
    let second = send(&mut ledger, secs(10));
    let third = send(&mut ledger, secs(10));
    answer(&mut ledger, secs(11), first, &refused(Span::from_secs(5)));
    answer(&mut ledger, secs(12), second, &refused(Span::from_secs(1)));
    assert_eq!(closed_until(&ledger, secs(12)), secs(16));
    answer(&mut ledger, secs(12), third, &refused(Span::from_secs(20)));
    assert_eq!(closed_until(&ledger, secs(12)), secs(32));
    assert_eq!(ledger.state(secs(12), &account()).map(|s| s.epoch), Some(1));
}

#[test]
fn another_calls_success_never_cancels_a_refusal() {
    let mut ledger = undeclared();
    let good = send(&mut ledger, secs(10));
    let bad = send(&mut ledger, secs(10));
    answer(&mut ledger, secs(11), bad, &refused(Span::from_secs(30)));
    let mut facts = ok();
    facts.readings = vec![reading(
        60,
        59,
        Span::from_secs(1),
        Some(Span::from_secs(10)),
    )];
    answer(&mut ledger, secs(12), good, &facts);
    assert_eq!(closed_until(&ledger, secs(12)), secs(41));
    // Nor while the probe is awaited, after the hold.
    let slow = {
        let mut ledger = undeclared();
        let slow = send(&mut ledger, secs(10));
        let bad = send(&mut ledger, secs(10));
        answer(&mut ledger, secs(11), bad, &refused(Span::from_secs(5)));
        answer(&mut ledger, secs(17), slow, &ok());
        mode(&ledger, secs(17))
    };
    assert_eq!(slow, Mode::Probing);
}

#[test]
fn exactly_one_call_probes() {
    let mut ledger = closed(Span::from_secs(5));
    send(&mut ledger, secs(15));
    assert_eq!(
        in_the_way(&ledger, secs(15)),
        Some((Reason::Probing, Moment::NEVER))
    );
    assert_eq!(
        in_the_way(&ledger, secs(40)),
        Some((Reason::Probing, Moment::NEVER))
    );
}

#[test]
fn a_call_that_must_not_be_repeated_probes_only_if_no_other_came() {
    let mut ledger = closed(Span::from_secs(5));
    let scopes = [account()];
    let write = Call {
        scopes: &scopes,
        cost: crate::cost::Cost::ONE,
        estimate: None,
        priority: Priority::Normal,
        probe_safe: false,
    };
    let blocked = ledger
        .stage(secs(15), &write)
        .expect_err("a read is waited for");
    assert_eq!((blocked.reason, blocked.until), (Reason::Probing, secs(16)));
    let staged = ledger.stage(secs(16), &write).expect("nobody else came");
    ledger.secure(secs(16), staged);
    assert_eq!(
        in_the_way(&ledger, secs(16)),
        Some((Reason::Probing, Moment::NEVER))
    );
}

#[test]
fn a_probe_that_never_left_makes_room_for_another() {
    let mut ledger = closed(Span::from_secs(5));
    let staged = stage(&ledger, secs(15), &[account()]).expect("the probe");
    let permit = ledger.secure(secs(15), staged);
    ledger.withdraw(secs(16), permit);
    assert_eq!(in_the_way(&ledger, secs(16)), None);
}

#[test]
fn a_lost_probe_puts_the_next_one_off() {
    let mut ledger = closed(Span::from_secs(5));
    let permit = send(&mut ledger, secs(15));
    ledger.lost(secs(25), Draw::ZERO, permit);
    ledger.finished(secs(25), permit);
    assert_eq!(closed_until(&ledger, secs(25)), secs(26));
    // A hold that a lost probe began is no refusal.
    assert_eq!(ledger.state(secs(25), &account()).map(|s| s.epoch), Some(1));
}

#[test]
fn a_silent_probe_counts_as_lost_but_its_late_success_opens() {
    let mut ledger = closed(Span::from_secs(5));
    ledger.handle_timeout(secs(15), Draw::ZERO);
    let permit = send(&mut ledger, secs(15));
    let silent = ledger.next_change(secs(15));
    assert_eq!(silent, secs(45));
    ledger.handle_timeout(silent, Draw::ZERO);
    assert_eq!(closed_until(&ledger, silent), secs(46));
    answer(&mut ledger, ms(45_500), permit, &ok());
    assert_eq!(mode(&ledger, ms(45_500)), Mode::Ramping);
}

#[test]
fn every_change_of_mode_is_made_known_once_and_in_time() {
    let mut ledger = undeclared();
    let permit = send(&mut ledger, secs(10));
    let mut changes = answer(&mut ledger, secs(10), permit, &refused(Span::from_secs(5)));
    assert_eq!(ledger.next_change(secs(10)), secs(15));
    changes.extend(ledger.handle_timeout(secs(15), Draw::ZERO));
    let permit = send(&mut ledger, secs(15));
    changes.extend(answer(&mut ledger, secs(16), permit, &ok()));
    let ends = ledger.next_change(secs(16));
    changes.extend(ledger.handle_timeout(ends, Draw::ZERO));
    let modes: Vec<(Mode, Mode)> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Mode { from, to, .. } => Some((*from, *to)),
            _ => None,
        })
        .collect();
    assert_eq!(
        modes,
        [
            (Mode::Normal, Mode::Closed),
            (Mode::Closed, Mode::Probing),
            (Mode::Probing, Mode::Ramping),
            (Mode::Ramping, Mode::Normal),
        ]
    );
    assert_eq!(ledger.next_change(ends), Moment::NEVER);
}

#[test]
fn a_mode_that_changed_with_a_grant_is_made_known_at_the_next_timeout() {
    let mut ledger = closed(Span::from_secs(5));
    // The caller stages at the very end of the hold, before any timeout.
    send(&mut ledger, secs(15));
    assert_eq!(ledger.next_change(secs(15)), secs(15));
    let changes = ledger.handle_timeout(secs(15), Draw::ZERO);
    assert!(
        matches!(
            changes[..],
            [Change::Mode {
                to: Mode::Probing,
                ..
            }]
        ),
        "{changes:?}"
    );
    assert_eq!(ledger.next_change(secs(15)), secs(45));
}

#[test]
fn a_granted_call_that_a_refusal_overtook_is_known_as_such() {
    let mut ledger = undeclared();
    let first = send(&mut ledger, secs(10));
    let staged = stage(&ledger, secs(10), &[account()]).expect("it fits");
    let waiting = ledger.secure(secs(10), staged);
    assert!(!ledger.is_overtaken(waiting));
    answer(&mut ledger, secs(11), first, &refused(Span::from_secs(5)));
    assert!(ledger.is_overtaken(waiting));
}

#[test]
fn after_the_probe_starts_are_spaced_and_no_wave() {
    let mut ledger = closed(Span::from_secs(5));
    let at = probe(&mut ledger, &ok());
    let mut starts = vec![at];
    let mut now = at;
    while starts.len() < 8 {
        match in_the_way(&ledger, now) {
            None => {
                send(&mut ledger, now);
                starts.push(now);
            }
            Some((reason, until)) => {
                assert_eq!(reason, Reason::Ramping);
                now = until;
            }
        }
    }
    for pair in starts.windows(2) {
        assert!(
            Span::from_millis(50) <= pair[1].since(pair[0]),
            "{starts:?}"
        );
    }
}

#[test]
fn a_blind_ramp_ends_in_no_limit() {
    let mut ledger = closed(Span::from_secs(5));
    let at = probe(&mut ledger, &ok());
    let after = at + Span::from_secs(10);
    (0..500).for_each(|_| {
        send(&mut ledger, after);
    });
    assert_eq!(ledger.rate(&account()), None);
}
