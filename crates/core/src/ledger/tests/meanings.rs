//! What each kind of answer does, and to which scope.

use super::refusals::{closed, closed_until, probe};
use super::{
    account, answer, declared, in_the_way, mode, ok, policy, quota, reading, refused, scope, secs,
    send, send_on, stage, undeclared,
};
use crate::ledger::{Change, Ledger, PermitId, Rate, Reason};
use crate::observe::{Facts, Kind, Meaning, Reach};
use crate::policy::{AccountPolicy, ScopeLimits, WindowKind};
use crate::time::{Draw, Moment, Span};
use crate::word::Mode;

#[test]
fn only_the_reset_of_what_is_used_up_counts() {
    let mut facts = refused(None);
    facts.readings = vec![reading(60, 40, Span::from_secs(1), None)];
    let mut tokens = reading(40_000, 0, Span::from_secs(8), None);
    tokens.dimension = "tokens".to_owned();
    facts.readings.push(tokens);
    let mut ledger = undeclared();
    let permit = send(&mut ledger, secs(10));
    answer(&mut ledger, secs(10), permit, &facts);
    assert_eq!(closed_until(&ledger, secs(10)), secs(18));
}

#[test]
fn the_later_of_retry_after_and_reset_counts() {
    let mut facts = refused(Span::from_secs(2));
    facts.readings = vec![reading(60, 0, Span::from_secs(7), None)];
    let mut ledger = undeclared();
    let permit = send(&mut ledger, secs(10));
    answer(&mut ledger, secs(10), permit, &facts);
    assert_eq!(closed_until(&ledger, secs(10)), secs(17));
}

#[test]
fn an_absurd_wait_is_held_and_told_to_a_person_once() {
    let mut ledger = undeclared();
    let first = send(&mut ledger, secs(10));
    let second = send(&mut ledger, secs(10));
    let absurd = refused(Span::from_secs(100_000));
    let hopeless = |changes: &[Change]| {
        changes
            .iter()
            .filter(|c| matches!(c, Change::Hopeless { .. }))
            .count()
    };
    let changes = answer(&mut ledger, secs(10), first, &absurd);
    assert_eq!(hopeless(&changes), 1);
    let changes = answer(&mut ledger, secs(10), second, &absurd);
    assert_eq!(hopeless(&changes), 0);
    assert_eq!(closed_until(&ledger, secs(11)), secs(100_010));
}

#[test]
fn an_hour_is_borne_in_silence() {
    let mut ledger = undeclared();
    let permit = send(&mut ledger, secs(10));
    let changes = answer(
        &mut ledger,
        secs(10),
        permit,
        &refused(Span::from_secs(3_600)),
    );
    assert!(
        !changes.iter().any(|c| matches!(c, Change::Hopeless { .. })),
        "{changes:?}"
    );
}

fn said(meaning: Meaning, status: u16, wait: Option<Span>) -> Vec<Change> {
    let mut ledger = undeclared();
    let permit = send(&mut ledger, secs(10));
    let facts = Facts {
        retry_after: wait,
        ..Facts::bare(status, meaning)
    };
    let mut changes = answer(&mut ledger, secs(10), permit, &facts);
    if let Some(block) = in_the_way(&ledger, secs(10)) {
        changes.push(Change::Hopeless {
            scope: account(),
            why: format!(
                "{} {:?}",
                block.0,
                (block.1 < Moment::NEVER).then(|| block.1.since(secs(10)).to_string())
            ),
        });
    }
    changes
}

#[test]
fn what_was_never_granted_is_no_question_of_payment() {
    let (mut ledger, now) = (undeclared(), secs(10));
    let permit = send(&mut ledger, now);
    let facts = Facts {
        kind: Kind::NoAllowance,
        ..Facts::bare(429, Meaning::Billing)
    };
    let changes = answer(&mut ledger, now, permit, &facts);
    let told = |change: &Change| match change {
        Change::Hopeless { why, .. } => why.contains("grants nothing of this"),
        _ => false,
    };
    assert!(changes.iter().any(told), "{changes:?}");
    assert_eq!(mode(&ledger, now), Mode::Closed);
}

fn last_words(changes: &[Change]) -> String {
    match changes.last() {
        Some(Change::Hopeless { why, .. }) => why.clone(),
        other => format!("{other:?}"),
    }
}

#[test]
fn an_exhausted_quota_waits_for_its_reset_or_is_probed_rarely() {
    let wait = Some(Span::from_secs(86_400));
    let named = said(Meaning::QuotaExhausted, 429, wait);
    assert_eq!(last_words(&named), "quota_exhausted Some(\"86400s\")");
    let nameless = said(Meaning::QuotaExhausted, 429, None);
    assert_eq!(last_words(&nameless), "quota_exhausted Some(\"600s\")");
    let told = |changes: &[Change]| {
        changes
            .iter()
            .filter(|c| matches!(c, Change::Hopeless { .. }))
            .count()
    };
    assert_eq!((told(&named), told(&nameless)), (2, 2));
}

#[test]
fn a_bill_that_is_not_paid_closes_until_somebody_resumes() {
    let changes = said(Meaning::Billing, 402, None);
    assert_eq!(last_words(&changes), "quota_exhausted None");

    let mut ledger = undeclared();
    let permit = send(&mut ledger, secs(10));
    answer(
        &mut ledger,
        secs(10),
        permit,
        &Facts::bare(402, Meaning::Billing),
    );
    let state = ledger.state(secs(11), &account()).expect("a place");
    assert_eq!((state.mode, state.next_allowed_at), (Mode::Closed, None));
    assert_eq!(ledger.held_until(secs(11), &account()), Moment::NEVER);
    let changes = ledger.resume(secs(20), &account());
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
    let permit = send(&mut ledger, secs(20));
    answer(&mut ledger, secs(20), permit, &ok());
    assert_eq!(mode(&ledger, secs(20)), Mode::Ramping);
    assert_eq!(ledger.resume(secs(20), &account()), []);
}

#[test]
fn what_is_no_refusal_closes_nothing() {
    for meaning in [
        Meaning::Ok,
        Meaning::Credential,
        Meaning::TooLarge,
        Meaning::KeyInProgress,
        Meaning::KeyMismatch,
        Meaning::CallerError,
        Meaning::ProviderError,
    ] {
        assert_eq!(said(meaning, 400, None), [], "{meaning:?}");
    }
}

#[test]
fn an_error_behind_the_limiter_opens_a_probed_scope_and_a_bad_credential_does_not() {
    for (meaning, opened) in [
        (Meaning::Ok, Mode::Ramping),
        (Meaning::CallerError, Mode::Ramping),
        (Meaning::ProviderError, Mode::Ramping),
        (Meaning::Credential, Mode::Closed),
        (Meaning::Overloaded, Mode::Closed),
    ] {
        let mut ledger = closed(Span::from_secs(5));
        let at = probe(&mut ledger, &Facts::bare(500, meaning));
        assert_eq!(mode(&ledger, at), opened, "{meaning:?}");
    }
}

fn overloaded(wait: impl Into<Option<Span>>) -> Facts {
    Facts {
        retry_after: wait.into(),
        retry_source: Some("HTTP 503 Retry-After"),
        ..Facts::bare(503, Meaning::Overloaded)
    }
}

#[test]
fn an_overload_holds_only_its_endpoint() {
    let mut ledger = undeclared();
    let jobs = [account(), scope("endpoint:POST /jobs")];
    let permit = send_on(&mut ledger, secs(10), &jobs);
    let changes = answer(
        &mut ledger,
        secs(10),
        permit,
        &overloaded(Span::from_secs(5)),
    );
    assert!(
        !changes.iter().any(|c| matches!(c, Change::Refused { .. })),
        "{changes:?}"
    );
    let blocked = stage(&ledger, secs(11), &jobs).expect_err("the endpoint is held");
    assert_eq!((blocked.scope, blocked.until), (jobs[1].clone(), secs(15)));
    assert_eq!(in_the_way(&ledger, secs(11)), None);
}

#[test]
fn an_overload_without_endpoint_holds_the_account_for_its_time_and_teaches_nothing() {
    let mut ledger = declared(60, 10, WindowKind::Sliding);
    for _ in 0..10 {
        let permit = send(&mut ledger, secs(10));
        answer(&mut ledger, secs(10), permit, &overloaded(None));
    }
    assert_eq!(in_the_way(&ledger, secs(10)), None);
    let permit = send(&mut ledger, secs(10));
    answer(
        &mut ledger,
        secs(10),
        permit,
        &overloaded(Span::from_secs(5)),
    );
    assert_eq!(closed_until(&ledger, secs(11)), secs(15));
    let state = ledger.state(secs(11), &account()).expect("declared");
    assert_eq!(
        (state.epoch, state.refusals, state.misdeclared),
        (0, 0, false)
    );
}

#[test]
fn another_calls_success_does_not_end_an_overload_hold() {
    let mut ledger = undeclared();
    let (slow, refused) = (send(&mut ledger, secs(10)), send(&mut ledger, secs(10)));
    answer(
        &mut ledger,
        secs(10),
        refused,
        &overloaded(Span::from_secs(5)),
    );
    answer(&mut ledger, secs(11), slow, &ok());
    assert_eq!(closed_until(&ledger, secs(11)), secs(15));
}

fn too_many(wait: impl Into<Option<Span>>) -> Facts {
    Facts {
        retry_after: wait.into(),
        ..Facts::bare(429, Meaning::TooManyConcurrent)
    }
}

#[test]
fn too_many_open_calls_teach_how_many_seats_there_are_and_no_rate() {
    let mut ledger = undeclared();
    let permits: Vec<PermitId> = (0..6).map(|_| send(&mut ledger, secs(10))).collect();
    let mut changes = Vec::new();
    for permit in &permits[2..] {
        changes.extend(answer(&mut ledger, secs(10), *permit, &too_many(None)));
    }
    let seats: Vec<u32> = changes
        .iter()
        .filter_map(|change| match change {
            Change::LearnedSeats { max_concurrent, .. } => Some(*max_concurrent),
            _ => None,
        })
        .collect();
    assert_eq!(seats, [5, 4, 3, 2]);
    assert_eq!(
        in_the_way(&ledger, secs(10)),
        Some((Reason::Concurrency, Moment::NEVER))
    );
    let state = ledger.state(secs(10), &account()).expect("a place");
    assert_eq!(
        (state.max_concurrent, state.limit, state.refusals),
        (Some(2), None, 1)
    );
    answer(&mut ledger, secs(11), permits[0], &ok());
    assert_eq!(in_the_way(&ledger, secs(11)), None);
}

#[test]
fn too_many_open_calls_with_a_time_hold_the_scope_for_it() {
    let mut ledger = undeclared();
    let _open = send(&mut ledger, secs(10));
    let permit = send(&mut ledger, secs(10));
    answer(&mut ledger, secs(10), permit, &too_many(Span::from_secs(4)));
    assert_eq!(
        ledger.state(secs(10), &account()).map(|s| s.mode),
        Some(Mode::Closed)
    );
    assert_eq!(ledger.next_change(secs(10)), secs(14));
}

#[test]
fn a_refusal_closes_the_scope_that_the_provider_means() {
    let scopes = [account(), scope("model:gpt-4o"), scope("credential:one")];
    for (reach, closed) in [
        (Reach::Account, 0),
        (Reach::Model, 1),
        (Reach::Credential, 2),
        // The call has no endpoint scope: the account answers for it.
        (Reach::Endpoint, 0),
    ] {
        let mut ledger = undeclared();
        let permit = send_on(&mut ledger, secs(10), &scopes);
        let facts = Facts {
            reach,
            ..refused(Span::from_secs(9))
        };
        answer(&mut ledger, secs(10), permit, &facts);
        let blocked = stage(&ledger, secs(10), &scopes).expect_err("one is closed");
        assert_eq!(blocked.scope, scopes[closed], "{reach:?}");
    }
}

#[test]
fn of_several_scopes_the_one_that_holds_longest_is_named() {
    let mut ledger = undeclared();
    let scopes = [account(), scope("model:gpt-4o")];
    let first = send_on(&mut ledger, secs(10), &scopes);
    let second = send_on(&mut ledger, secs(10), &scopes);
    answer(&mut ledger, secs(10), first, &refused(Span::from_secs(9)));
    let of_model = Facts {
        reach: Reach::Model,
        ..refused(Span::from_secs(20))
    };
    answer(&mut ledger, secs(10), second, &of_model);
    let blocked = stage(&ledger, secs(10), &scopes).expect_err("both are closed");
    assert_eq!(
        (blocked.scope, blocked.until),
        (scopes[1].clone(), secs(30))
    );
}

#[test]
fn a_probe_of_two_scopes_that_one_refuses_leaves_the_other_for_later() {
    let mut ledger = undeclared();
    let scopes = [account(), scope("model:gpt-4o")];
    let (first, second) = (
        send_on(&mut ledger, secs(10), &scopes),
        send_on(&mut ledger, secs(10), &scopes),
    );
    answer(&mut ledger, secs(10), first, &refused(Span::from_secs(5)));
    let of_model = Facts {
        reach: Reach::Model,
        ..refused(Span::from_secs(5))
    };
    answer(&mut ledger, secs(10), second, &of_model);
    let probe = send_on(&mut ledger, secs(15), &scopes);
    answer(&mut ledger, secs(15), probe, &refused(Span::from_secs(9)));
    let modes: Vec<Mode> = ledger.states(secs(15)).map(|state| state.mode).collect();
    assert_eq!(modes, [Mode::Closed, Mode::Closed]);
    assert_eq!(ledger.state(secs(15), &scopes[1]).map(|s| s.epoch), Some(1));
}

#[test]
fn seats_are_kept_for_interactive_calls_and_freed_when_the_stream_ends() {
    let limits = ScopeLimits {
        quotas: Vec::new(),
        max_concurrent: Some(2),
    };
    let policy = AccountPolicy {
        scopes: vec![(account(), limits)],
        reserve_interactive: 1,
        ..AccountPolicy::default()
    };
    let mut ledger = Ledger::new(account(), &policy);
    let permit = send(&mut ledger, secs(10));
    assert_eq!(
        in_the_way(&ledger, secs(10)),
        Some((Reason::Reserved, Moment::NEVER))
    );
    ledger.answered(secs(11), Draw::ZERO, permit, &ok());
    // The head is here, the stream goes on: the seat is taken.
    assert_eq!(
        in_the_way(&ledger, secs(11)),
        Some((Reason::Reserved, Moment::NEVER))
    );
    ledger.finished(secs(200), permit);
    assert_eq!(in_the_way(&ledger, secs(200)), None);
}

#[test]
fn a_full_map_never_refuses_a_call() {
    let mut ledger = undeclared();
    let mut permits = Vec::new();
    for n in 0..1_500 {
        let scopes = [account(), scope(&format!("model:m{n}"))];
        permits.push(send_on(&mut ledger, secs(10), &scopes));
    }
    // The account's, a thousand at most, and what the rest of their kind shares.
    let known = ledger.states(secs(10)).count();
    assert!(known <= 1_002, "{known}");
    assert!(ledger.state(secs(10), &scope("model:other")).is_some());
    for permit in permits {
        answer(&mut ledger, secs(20), permit, &ok());
    }
    // Idle places are given to newcomers.
    send_on(&mut ledger, secs(3_000), &[account(), scope("model:new")]);
    assert!(ledger.state(secs(3_000), &scope("model:new")).is_some());
}

#[test]
fn a_late_arrival_is_weather_and_doubles_the_margin_of_its_window() {
    let mut ledger = declared(60, 10, WindowKind::Sliding);
    let mut now = secs(100);
    // Full windows, one after the other: each call leaves as soon as one before has left.
    for _ in 0..200 {
        if let Some((_, until)) = in_the_way(&ledger, now) {
            now = until;
        }
        let permit = send(&mut ledger, now);
        answer(&mut ledger, now, permit, &ok());
        now = now + Span::from_millis(20);
    }
    now = in_the_way(&ledger, now).map_or(now, |(_, until)| until);
    let permit = send(&mut ledger, now);
    answer(&mut ledger, now, permit, &refused(Span::from_secs(1)));
    let state = ledger.state(now, &account()).expect("declared");
    assert!(!state.misdeclared);
    let tick = Span::from_micros(1);
    let per = Span::from_secs(10) + Span::from_millis(400) + tick;
    assert_eq!(ledger.rate(&account()), Some(Rate { units: 60, per }));
}

#[test]
fn a_refusal_far_below_the_declared_limit_proves_the_shape_wrong() {
    let mut ledger = declared(60, 10, WindowKind::Sliding);
    let permits: Vec<PermitId> = (0..12).map(|_| send(&mut ledger, secs(10))).collect();
    answer(
        &mut ledger,
        secs(10),
        permits[10],
        &refused(Span::from_secs(1)),
    );
    let state = ledger.state(secs(12), &account()).expect("declared");
    assert!(state.misdeclared && state.quotas[0].paced);
    assert_eq!(state.origin.map(|o| o.word()), Some("declared"));
    let rate = ledger.rate(&account()).expect("declared");
    assert_eq!((rate.units, rate.per.as_millis()), (59, 10_200));
    // Other rules for the quota are a new word of the operator.
    ledger.set_policy(secs(13), &policy(&[quota(50, 10, WindowKind::Sliding)]));
    assert!(
        !ledger
            .state(secs(13), &account())
            .expect("declared")
            .misdeclared
    );
}

#[test]
fn malformed_fields_are_told_once() {
    let mut ledger = undeclared();
    let mut facts = ok();
    facts.malformed = vec!["retry-after".to_owned()];
    let permit = send(&mut ledger, secs(10));
    let changes = answer(&mut ledger, secs(10), permit, &facts);
    assert!(
        matches!(changes[..], [Change::Malformed { .. }]),
        "{changes:?}"
    );
    let permit = send(&mut ledger, secs(10));
    assert_eq!(answer(&mut ledger, secs(10), permit, &facts), []);
}

#[test]
fn closed_scopes_that_nobody_uses_any_more_make_room() {
    let mut ledger = undeclared();
    for n in 0..1_000 {
        let scopes = [account(), scope(&format!("model:m{n}"))];
        let permit = send_on(&mut ledger, secs(10), &scopes);
        let facts = Facts {
            reach: Reach::Model,
            ..refused(Span::from_secs(1))
        };
        answer(&mut ledger, secs(10), permit, &facts);
    }
    let newcomer = scope("model:new");
    send_on(&mut ledger, secs(3_000), &[account(), newcomer.clone()]);
    assert!(ledger.state(secs(3_000), &newcomer).is_some());
}
