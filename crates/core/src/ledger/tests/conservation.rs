//! Whatever happens in whatever order: nothing leaks, nothing is taken twice,
//! and a call is granted by all of its scopes or by none.

use super::{account, policy, quota, scope};
use crate::cost::Cost;
use crate::id::Scope;
use crate::ledger::{Blocked, Call, Ledger, PermitId, ScopeState};
use crate::observe::{Facts, Meaning, Reach};
use crate::policy::{AccountPolicy, ScopeLimits, WindowKind};
use crate::time::{Draw, Moment, Span};
use crate::word::Priority;
use proptest::prelude::*;

/// What a caller can do. Numbers pick among what is open.
#[derive(Clone, Debug)]
enum Step {
    Ask {
        scopes: usize,
        cost: u32,
        interactive: bool,
        safe: bool,
    },
    Sent(usize),
    Withdraw(usize),
    Answer(usize, u8, u64),
    Lost(usize),
    Finish(usize),
    Wait(u64),
    Timeout,
    Policy(u64),
    Resume,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pick = 0usize..64;
    let step = prop_oneof![
        8 => (0usize..4, 1u32..4, any::<bool>(), any::<bool>())
            .prop_map(|(scopes, cost, interactive, safe)| Step::Ask { scopes, cost, interactive, safe }),
        6 => pick.clone().prop_map(Step::Sent),
        2 => pick.clone().prop_map(Step::Withdraw),
        4 => (pick.clone(), 0u8..12, 0u64..20_000).prop_map(|(n, what, wait)| Step::Answer(n, what, wait)),
        1 => pick.clone().prop_map(Step::Lost),
        4 => pick.prop_map(Step::Finish),
        4 => (1u64..3_000).prop_map(Step::Wait),
        3 => Just(Step::Timeout),
        1 => (1u64..30).prop_map(Step::Policy),
        1 => Just(Step::Resume),
    ];
    prop::collection::vec(step, 1..200)
}

fn rules(limit: u64) -> AccountPolicy {
    let limits = ScopeLimits {
        quotas: vec![quota(limit, 2, WindowKind::Unknown)],
        max_concurrent: Some(3),
    };
    let mut policy = policy(&[
        quota(limit * 2, 3, WindowKind::Sliding),
        quota(limit * 9, 30, WindowKind::TokenBucket { burst: limit * 9 }),
    ]);
    policy.scopes.push((scope("model:m"), limits));
    policy.reserve_interactive = 1;
    policy
}

fn scopes_of(which: usize) -> Vec<Scope> {
    match which {
        0 => vec![account()],
        1 => vec![account(), scope("model:m")],
        2 => vec![account(), scope("endpoint:POST /jobs")],
        _ => vec![account(), scope("model:m"), scope("endpoint:POST /jobs")],
    }
}

fn facts(what: u8, wait: u64) -> Facts {
    let (status, meaning) = match what {
        0 | 1 => (429, Meaning::RateLimited),
        2 => (429, Meaning::TooManyConcurrent),
        3 => (503, Meaning::Overloaded),
        4 => (429, Meaning::QuotaExhausted),
        5 => (401, Meaning::Credential),
        6 => (500, Meaning::ProviderError),
        _ => (200, Meaning::Ok),
    };
    Facts {
        retry_after: (status != 200 && !wait.is_multiple_of(3)).then(|| Span::from_millis(wait)),
        reach: match what % 3 {
            0 => Reach::Account,
            1 => Reach::Model,
            _ => Reach::Endpoint,
        },
        ..Facts::bare(status, meaning)
    }
}

/// What the ledger holds for one open permit, by the test's own book.
#[derive(Debug)]
struct Open {
    id: PermitId,
    cost: u64,
    scopes: Vec<Scope>,
    sent: bool,
}

fn check_books(ledger: &Ledger, now: Moment, open: &[Open]) -> Result<(), TestCaseError> {
    for state in ledger.states(now) {
        let mine = open
            .iter()
            .filter(|open| open.scopes.contains(&state.scope));
        let reserved: u64 = mine
            .clone()
            .filter(|open| !open.sent)
            .map(|open| open.cost)
            .sum();
        prop_assert_eq!(state.in_flight as usize, mine.count());
        prop_assert_eq!(state.reserved, reserved);
        for quota in state
            .quotas
            .iter()
            .filter(|quota| quota.origin.word() == "declared")
        {
            let taken = quota.available + quota.reserved + quota.spent + quota.foreign;
            prop_assert_eq!(quota.cap + quota.debt, taken, "{:?}", quota);
            prop_assert!(quota.available == 0 || quota.debt == 0);
        }
    }
    prop_assert_eq!(ledger.open(), open.len());
    Ok(())
}

fn everything(ledger: &Ledger, now: Moment) -> Vec<ScopeState> {
    ledger.states(now).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_books_balance_after_every_step(steps in steps(), seed in any::<u32>()) {
        let mut ledger = Ledger::new(account(), &rules(10));
        let mut draw = Draw::from_u32(seed);
        let mut now = Moment::START + Span::from_secs(50);
        let mut open: Vec<Open> = Vec::new();
        for step in steps {
            draw = draw.again();
            let at = |n: usize, open: &[Open]| (!open.is_empty()).then(|| n % open.len());
            match step {
                Step::Ask { scopes, cost, interactive, safe } => {
                    let scopes = scopes_of(scopes);
                    let priority = if interactive { Priority::Interactive } else { Priority::Normal };
                    let call = Call { scopes: &scopes, cost: Cost::requests(cost), estimate: None, priority, probe_safe: safe };
                    let before = everything(&ledger, now);
                    let staged = ledger.stage(now, &call);
                    prop_assert_eq!(&before, &everything(&ledger, now), "staging changes nothing");
                    match staged {
                        Ok(staged) => {
                            let id = ledger.secure(now, staged);
                            open.push(Open { id, cost: u64::from(cost), scopes, sent: false });
                        }
                        Err(Blocked { until, scope, .. }) => {
                            prop_assert!(now < until, "blocked by the past at {}", scope);
                        }
                    }
                }
                Step::Sent(n) => if let Some(n) = at(n, &open) {
                    ledger.sent(now, open[n].id);
                    open[n].sent = true;
                },
                Step::Withdraw(n) => if let Some(n) = at(n, &open) {
                    ledger.withdraw(now, open.remove(n).id);
                },
                Step::Answer(n, what, wait) => if let Some(n) = at(n, &open) {
                    ledger.answered(now, draw, open[n].id, &facts(what, wait));
                    open[n].sent = true;
                },
                Step::Lost(n) => if let Some(n) = at(n, &open) {
                    ledger.lost(now, draw, open[n].id);
                    open[n].sent = true;
                },
                Step::Finish(n) => if let Some(n) = at(n, &open) {
                    ledger.finished(now, open.remove(n).id);
                },
                Step::Wait(ms) => now = now + Span::from_millis(ms),
                Step::Timeout => {
                    let due = ledger.next_change(now);
                    prop_assert!(now <= due);
                    if due < Moment::NEVER {
                        now = due;
                        ledger.handle_timeout(now, draw);
                        prop_assert!(now < ledger.next_change(now), "a timer that stays due");
                    }
                }
                Step::Policy(limit) => ledger.set_policy(now, &rules(limit)),
                Step::Resume => {
                    ledger.resume(now, &account());
                }
            }
            check_books(&ledger, now, &open)?;
        }
    }

    #[test]
    fn a_withdrawn_call_leaves_no_trace(
        before in prop::collection::vec((0usize..4, 1u64..400), 0..20),
        which in 0usize..4,
        later_ms in 0u64..500,
    ) {
        let mut ledger = Ledger::new(account(), &rules(10));
        let mut now = Moment::START + Span::from_secs(50);
        for (which, gap) in before {
            let scopes = scopes_of(which);
            now = now + Span::from_millis(gap);
            if let Ok(staged) = ledger.stage(now, &super::read(&scopes)) {
                let id = ledger.secure(now, staged);
                ledger.sent(now, id);
                ledger.finished(now, id);
            }
        }
        let scopes = scopes_of(which);
        // So that a place for every scope exists before and after.
        let later = now + Span::from_millis(later_ms);
        let asks = |ledger: &Ledger, at: Moment| {
            scopes_of(3).iter().map(|scope| ledger.stage(at, &super::read(std::slice::from_ref(scope))).err()).collect::<Vec<_>>()
        };
        let (shown, asked) = (everything(&ledger, later), asks(&ledger, later));
        if let Ok(staged) = ledger.stage(now, &super::read(&scopes)) {
            let id = ledger.secure(now, staged);
            ledger.withdraw(later, id);
            let known = shown.len();
            let after: Vec<ScopeState> = everything(&ledger, later)
                .into_iter()
                .filter(|state| known == 3 || shown.iter().any(|before| before.scope == state.scope))
                .collect();
            prop_assert_eq!(shown, after);
            prop_assert_eq!(asked, asks(&ledger, later));
        }
    }

    #[test]
    fn at_most_one_probe_is_out_whatever_comes(
        asks in prop::collection::vec((0u64..2_000, any::<bool>(), 0u8..3), 1..60),
    ) {
        let mut ledger = super::undeclared();
        let mut now = Moment::START + Span::from_secs(50);
        let first = super::send(&mut ledger, now);
        super::answer(&mut ledger, now, first, &super::refused(Span::from_secs(1)));
        let mut probe: Option<PermitId> = None;
        for (gap, safe, what) in asks {
            now = now + Span::from_millis(gap);
            let scopes = [account()];
            let call = Call { probe_safe: safe, ..super::read(&scopes) };
            if let Ok(staged) = ledger.stage(now, &call) {
                prop_assert_eq!(probe, None, "a second probe");
                let id = ledger.secure(now, staged);
                ledger.sent(now, id);
                probe = Some(id);
            } else if let Some(id) = probe {
                match what {
                    0 => { super::answer(&mut ledger, now, id, &super::refused(None)); }
                    1 => { ledger.withdraw(now, id); }
                    _ => continue,
                }
                probe = None;
            }
        }
    }
}

#[test]
fn a_blocked_scope_leaves_the_others_untouched() {
    let mut ledger = Ledger::new(account(), &rules(1));
    let now = Moment::START + Span::from_secs(50);
    let both = scopes_of(1);
    let id = super::send_on(&mut ledger, now, &both);
    let before = everything(&ledger, now);
    let blocked = super::stage(&ledger, now, &both).expect_err("the model's quota is spent");
    assert_eq!(blocked.scope, scope("model:m"));
    assert_eq!(before, everything(&ledger, now));
    ledger.finished(now, id);
}

#[test]
#[should_panic(expected = "not open")]
fn a_permit_ends_once() {
    let mut ledger = super::undeclared();
    let now = Moment::START + Span::from_secs(50);
    let id = super::send(&mut ledger, now);
    ledger.finished(now, id);
    ledger.finished(now, id);
}

#[test]
#[should_panic(expected = "changed since the call was staged")]
fn a_staged_call_is_good_for_what_it_saw_only() {
    let mut ledger = super::undeclared();
    let now = Moment::START + Span::from_secs(50);
    let first = super::stage(&ledger, now, &[account()]).expect("it fits");
    let second = super::stage(&ledger, now, &[account()]).expect("it fits");
    ledger.secure(now, first);
    ledger.secure(now, second);
}
