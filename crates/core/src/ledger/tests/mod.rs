//! Tests of the whole ledger: rules one by one, and a world with a provider in it.

mod conservation;
mod each;
mod headers;
mod learning;
mod limits;
mod meanings;
mod reasons;
mod refusals;
mod restart;
mod shares;
mod world;

use super::{Blocked, Call, Change, Ledger, PermitId, Reason};
use crate::cost::{Cost, Dimension};
use crate::id::Scope;
use crate::observe::{Facts, Meaning, Reach, Reading};
use crate::policy::{AccountPolicy, Quota, ScopeLimits, WindowKind};
use crate::time::{Draw, Moment, Span};
use crate::word::{Mode, Priority};

fn scope(name: &str) -> Scope {
    Scope::new(name).expect("a test names its scopes well")
}

fn account() -> Scope {
    scope("account:ops")
}

fn ms(ms: u64) -> Moment {
    Moment::START + Span::from_millis(ms)
}

fn secs(secs: u64) -> Moment {
    ms(secs * 1_000)
}

fn quota(limit: u64, secs: u64, kind: WindowKind) -> Quota {
    Quota {
        dimension: Dimension::Requests,
        limit,
        window: Span::from_secs(secs),
        kind,
    }
}

/// A policy that declares these quotas of the account.
fn policy(quotas: &[Quota]) -> AccountPolicy {
    let limits = ScopeLimits {
        quotas: quotas.to_vec(),
        max_concurrent: None,
    };
    AccountPolicy {
        scopes: vec![(account(), limits)],
        ..AccountPolicy::default()
    }
}

/// A ledger of which nothing is declared.
fn undeclared() -> Ledger {
    Ledger::new(account(), &AccountPolicy::default())
}

fn declared(limit: u64, secs: u64, kind: WindowKind) -> Ledger {
    Ledger::new(account(), &policy(&[quota(limit, secs, kind)]))
}

/// Stages a normal read of one unit.
fn stage(ledger: &Ledger, now: Moment, scopes: &[Scope]) -> Result<super::Staged, Blocked> {
    ledger.stage(now, &read(scopes))
}

fn read(scopes: &[Scope]) -> Call<'_> {
    Call {
        scopes,
        cost: Cost::ONE,
        estimate: None,
        priority: Priority::Normal,
        probe_safe: true,
    }
}

/// What stands in the way of a normal read on the account.
fn in_the_way(ledger: &Ledger, now: Moment) -> Option<(Reason, Moment)> {
    let blocked = stage(ledger, now, &[account()]).err()?;
    Some((blocked.reason, blocked.until))
}

/// A normal read on these scopes leaves now.
fn send_on(ledger: &mut Ledger, now: Moment, scopes: &[Scope]) -> PermitId {
    let staged = stage(ledger, now, scopes).expect("nothing is in the way");
    let permit = ledger.secure(now, staged);
    ledger.sent(now, permit);
    permit
}

fn send(ledger: &mut Ledger, now: Moment) -> PermitId {
    send_on(ledger, now, &[account()])
}

/// The answer to a permit's call arrives and its stream ends.
fn answer(ledger: &mut Ledger, now: Moment, permit: PermitId, facts: &Facts) -> Vec<Change> {
    let mut changes = ledger.answered(now, Draw::ZERO, permit, facts);
    changes.extend(ledger.finished(now, permit));
    changes
}

fn ok() -> Facts {
    Facts::bare(200, Meaning::Ok)
}

fn refused(wait: impl Into<Option<Span>>) -> Facts {
    let wait = wait.into();
    Facts {
        retry_after: wait,
        retry_source: wait.map(|_| "HTTP 429 Retry-After"),
        ..Facts::bare(429, Meaning::RateLimited)
    }
}

fn reading(limit: u64, remaining: u64, reset: Span, window: Option<Span>) -> Reading {
    Reading {
        dimension: "requests".to_owned(),
        name: None,
        reach: Reach::Account,
        limit: Some(limit),
        remaining: Some(remaining),
        reset_after: Some(reset),
        refills: false,
        fits_after: None,
        window,
        source: "RateLimit header",
    }
}

fn mode(ledger: &Ledger, now: Moment) -> Mode {
    let state = ledger.state(now, &account());
    state.expect("the account has a place").mode
}
