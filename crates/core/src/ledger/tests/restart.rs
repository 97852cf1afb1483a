//! A restart forgets no hold, no spent unit and nothing that was learnt.

use super::{
    account, answer, declared, in_the_way, mode, ms, ok, policy, quota, reading, refused, scope,
    secs, send, undeclared,
};
use crate::action::outcome::Certainty;
use crate::cost::Cost;
use crate::id::{ActionId, Scope};
use crate::ledger::{Ledger, Origin, Reason};
use crate::observe::{Facts, Meaning};
use crate::policy::{AccountPolicy, WindowKind};
use crate::record::{AttemptRow, ScopeRow, SendKind};
use crate::time::{Moment, Span};
use crate::word::Mode;

fn attempt(sent_at: Option<Moment>, certainty: Option<Certainty>, scopes: &[Scope]) -> AttemptRow {
    AttemptRow {
        action: ActionId(1),
        kind: SendKind::Attempt,
        attempt: 1,
        opened_at: secs(1),
        scopes: scopes.to_vec(),
        cost: Cost::requests(1),
        sent_at,
        certainty,
        outcome: None,
        status: None,
    }
}

fn rows(ledger: &Ledger, now: Moment) -> Vec<ScopeRow> {
    let names: Vec<Scope> = ledger.states(now).map(|state| state.scope).collect();
    names
        .iter()
        .filter_map(|name| ledger.save(now, name))
        .collect()
}

/// What a new ledger knows after the old one's rows.
fn restarted(old: &Ledger, policy: &AccountPolicy, saved_at: Moment, now: Moment) -> Ledger {
    let mut new = Ledger::new(account(), policy);
    new.restore(now, &rows(old, saved_at), &[]);
    new
}

fn limit_of_ten() -> AccountPolicy {
    policy(&[quota(10, 10, WindowKind::Sliding)])
}

#[test]
fn windows_are_rebuilt_from_the_attempts() {
    let mut ledger = Ledger::new(account(), &limit_of_ten());
    let definite = Some(Certainty::Definite);
    let own = [account()];
    let attempts = [
        attempt(Some(secs(95)), definite, &own),
        attempt(Some(secs(92)), definite, &own),
        // Long gone.
        attempt(Some(secs(80)), definite, &own),
        // Never left.
        attempt(None, Some(Certainty::NotSent), &own),
        attempt(None, definite, &own),
        // Open when the process ended: it may have left at the last moment.
        attempt(None, None, &own),
        // Of somebody else, under a name that we have, too.
        attempt(
            Some(secs(95)),
            definite,
            &[scope("account:other"), account()],
        ),
    ];
    ledger.restore(secs(100), &[], &attempts);
    let spent = |now| {
        ledger
            .state(now, &account())
            .map(|state| state.quotas[0].spent)
    };
    assert_eq!(spent(secs(100)), Some(3));
    assert_eq!(spent(secs(103)), Some(2));
    assert_eq!(spent(secs(106)), Some(1));
    assert_eq!(spent(secs(111)), Some(0));
}

#[test]
fn a_hold_stands_for_what_is_left_of_it() {
    let mut old = undeclared();
    let permit = send(&mut old, secs(10));
    answer(&mut old, secs(10), permit, &refused(Span::from_secs(30)));
    let new = restarted(&old, &AccountPolicy::default(), secs(10), secs(25));
    assert_eq!(in_the_way(&new, secs(25)), Some((Reason::Closed, secs(40))));
    assert_eq!(new.next_change(secs(25)), secs(40));
    let state = new.state(secs(25), &account()).expect("restored");
    assert_eq!(
        (state.epoch, state.source.as_str()),
        (1, "HTTP 429 Retry-After")
    );
    // Its end is long over: one call finds out.
    let new = restarted(&old, &AccountPolicy::default(), secs(10), secs(500));
    assert_eq!(mode(&new, secs(500)), Mode::Probing);
}

/// What stands in the way after a restart in the middle of the hold that these
/// facts caused, and before it.
fn reasons_around_a_restart(facts: &Facts) -> [Option<(Reason, Moment)>; 2] {
    let mut old = undeclared();
    let permit = send(&mut old, secs(10));
    answer(&mut old, secs(10), permit, facts);
    let new = restarted(&old, &AccountPolicy::default(), secs(10), secs(25));
    [in_the_way(&old, secs(25)), in_the_way(&new, secs(25))]
}

#[test]
fn a_hold_stands_for_the_reason_that_it_had() {
    for (facts, reason) in [
        (refused(Span::from_secs(30)), Reason::Closed),
        (Facts::bare(429, Meaning::QuotaExhausted), Reason::Exhausted),
        (Facts::bare(402, Meaning::Billing), Reason::Exhausted),
    ] {
        let [before, after] = reasons_around_a_restart(&facts);
        assert_eq!(before, after);
        assert_eq!(after.map(|(reason, _)| reason), Some(reason));
    }
}

#[test]
fn a_scope_that_waits_for_a_person_still_does() {
    let [_, after] = reasons_around_a_restart(&Facts::bare(402, Meaning::Billing));
    assert_eq!(after.map(|(_, until)| until), Some(Moment::NEVER));
}

#[test]
fn the_ladder_goes_on_where_it_was() {
    let mut old = undeclared();
    let permit = send(&mut old, secs(10));
    answer(&mut old, secs(10), permit, &refused(None));
    let probe = send(&mut old, secs(11));
    answer(&mut old, secs(11), probe, &refused(None));
    let mut new = restarted(&old, &AccountPolicy::default(), secs(11), secs(12));
    let probe = send(&mut new, secs(13));
    answer(&mut new, secs(13), probe, &refused(None));
    assert_eq!(in_the_way(&new, secs(13)), Some((Reason::Closed, secs(17))));
}

#[test]
fn a_ramp_or_a_probe_that_was_cut_short_begins_with_a_probe() {
    let mut old = undeclared();
    let permit = send(&mut old, secs(10));
    answer(&mut old, secs(10), permit, &refused(Span::from_secs(5)));
    let probe = send(&mut old, secs(15));
    answer(&mut old, secs(15), probe, &ok());
    assert_eq!(mode(&old, secs(15)), Mode::Ramping);
    let mut new = restarted(&old, &AccountPolicy::default(), secs(15), secs(16));
    assert_eq!(mode(&new, secs(16)), Mode::Probing);
    send(&mut new, secs(16));
    assert_eq!(
        in_the_way(&new, secs(16)),
        Some((Reason::Probing, Moment::NEVER))
    );
}

#[test]
fn what_the_headers_told_is_known_again() {
    let ten = Span::from_secs(10);
    let mut old = undeclared();
    let permit = send(&mut old, secs(10));
    let facts = Facts {
        readings: vec![reading(60, 0, Span::from_secs(8), Some(ten))],
        ..ok()
    };
    answer(&mut old, secs(10), permit, &facts);
    let new = restarted(&old, &AccountPolicy::default(), secs(10), secs(12));
    let state = new.state(secs(12), &account()).expect("restored");
    assert_eq!(
        (state.limit, state.window, state.origin),
        (Some(60), Some(ten), Some(Origin::Header))
    );
    assert_eq!(in_the_way(&new, secs(12)), Some((Reason::Quota, secs(18))));
}

#[test]
fn what_refusals_taught_is_known_again() {
    let mut old = undeclared();
    let permits: Vec<_> = (0..11).map(|n| send(&mut old, ms(10_000 + n))).collect();
    answer(
        &mut old,
        ms(10_100),
        permits[10],
        &refused(Span::from_millis(900)),
    );
    let probe = send(&mut old, secs(11));
    answer(&mut old, secs(11), probe, &ok());
    let learnt = old.rate(&account()).expect("eleven within a second");
    let new = restarted(&old, &AccountPolicy::default(), secs(11), secs(12));
    assert_eq!(new.rate(&account()), Some(learnt));
    assert_eq!(
        new.state(secs(12), &account()).and_then(|s| s.origin),
        Some(Origin::Learned)
    );
}

#[test]
fn learnt_seats_are_known_again() {
    let mut old = undeclared();
    let _open = [send(&mut old, secs(10)), send(&mut old, secs(10))];
    let permit = send(&mut old, secs(10));
    answer(
        &mut old,
        secs(10),
        permit,
        &Facts::bare(429, Meaning::TooManyConcurrent),
    );
    let new = restarted(&old, &AccountPolicy::default(), secs(10), secs(12));
    assert_eq!(
        new.state(secs(12), &account())
            .and_then(|s| s.max_concurrent),
        Some(2)
    );
}

#[test]
fn a_declared_shape_that_was_found_wrong_stays_so() {
    let mut old = declared(10, 10, WindowKind::Sliding);
    let permit = send(&mut old, secs(10));
    answer(&mut old, secs(10), permit, &refused(Span::from_secs(1)));
    let new = restarted(&old, &limit_of_ten(), secs(10), secs(12));
    assert!(
        new.state(secs(12), &account())
            .expect("declared")
            .misdeclared
    );
}

#[test]
fn a_declared_limit_is_read_from_the_policy_and_not_from_the_row() {
    let old = declared(10, 10, WindowKind::Sliding);
    assert_eq!(rows(&old, secs(10))[0].limit, None);
    let new = restarted(&old, &AccountPolicy::default(), secs(10), secs(12));
    assert_eq!(new.rate(&account()), None);
}

#[test]
fn a_scope_that_was_fine_begins_its_ladder_at_the_bottom() {
    let mut old = undeclared();
    send(&mut old, secs(10));
    let mut new = restarted(&old, &AccountPolicy::default(), secs(11), secs(12));
    let permit = send(&mut new, secs(12));
    answer(&mut new, secs(12), permit, &refused(None));
    assert_eq!(in_the_way(&new, secs(12)), Some((Reason::Closed, secs(13))));
}
