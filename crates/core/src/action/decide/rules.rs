//! The single rules of a decision that a table can't show.

use super::case::{Case, NOW, answered, limited, secs};
use super::*;
use crate::action::next::Beyond;
use crate::action::outcome::Upload;
use crate::policy::Stores;
use crate::time::Span;

fn lost_write() -> Case {
    Case::new(Class::IdempotentWrite, Evidence::Lost(Lost::Closed)).keyed(Stores::Successes)
}

fn earliest(next: Next) -> Moment {
    match next {
        Next::Retry { earliest, .. } | Next::RepeatAsReconciliation { earliest, .. } => earliest,
        other => panic!("no repeat: {other:?}"),
    }
}

const ASK: Trigger = Trigger::UncertainEffect;

#[test]
fn a_lost_write_is_looked_up_before_anything_is_sent_again() {
    let next = lost_write().with_lookup().decide();
    let why = Unresolved::NoAnswer(Lost::Closed);
    assert_eq!(
        next,
        Next::Reconcile {
            not_before: NOW + secs(1),
            why
        }
    );
}

#[test]
fn without_a_look_up_a_safe_key_is_the_reconciliation_and_an_old_one_is_not() {
    let why = Unresolved::NoAnswer(Lost::Closed);
    let next = lost_write().decide();
    let repeat = Next::RepeatAsReconciliation {
        earliest: NOW + Span::from_millis(250),
        why,
        charge: Charge::Ratio,
    };
    assert_eq!(next, repeat);
    for until in [None, Some(NOW), Some(NOW + Span::from_millis(250))] {
        let old = lost_write().with(|c| c.rest.key_safe_until = until);
        assert_eq!(
            old.decide(),
            Next::Escalate { trigger: ASK, why },
            "{until:?}"
        );
    }
}

#[test]
fn used_up_look_ups_do_not_start_again() {
    let spent = lost_write().with_lookup().with(|c| c.rest.lookups_made = 3);
    assert!(matches!(
        spent.decide(),
        Next::RepeatAsReconciliation { .. }
    ));
}

#[test]
fn a_stored_failure_is_looked_up_or_asked_about_but_never_replayed() {
    let failure = limited(500, Meaning::ProviderError, None);
    let case = |stores| {
        Case::new(Class::IdempotentWrite, failure.clone())
            .keyed(stores)
            .decide()
    };
    let why = Unresolved::StoredFailure(500);
    assert_eq!(case(Stores::All), Next::Escalate { trigger: ASK, why });
    assert!(matches!(
        case(Stores::Successes),
        Next::RepeatAsReconciliation { .. }
    ));
    assert!(matches!(
        case(Stores::Definite),
        Next::RepeatAsReconciliation { .. }
    ));
}

#[test]
fn a_lost_result_is_looked_up_and_never_sent_again() {
    let cut = Evidence::Answered {
        facts: Facts::bare(201, Meaning::Ok),
        body: Body::Cut,
        upload: Upload::Complete,
    };
    for class in [Class::IdempotentWrite, Class::UncertainWrite] {
        let case = Case::new(class, cut.clone()).keyed(Stores::All);
        let blind = Next::GiveUp {
            code: Code::ResultLost,
            hand_back: None,
        };
        assert_eq!(case.decide(), blind);
        let why = Unresolved::BodyLost;
        let looked = case.with_lookup().decide();
        assert_eq!(
            looked,
            Next::Reconcile {
                not_before: NOW + secs(1),
                why
            }
        );
    }
}

#[test]
fn a_clean_refusal_of_the_second_copy_proves_nothing_about_the_first() {
    for (status, meaning) in [
        (400, Meaning::CallerError),
        (401, Meaning::Credential),
        (402, Meaning::Billing),
        (404, Meaning::CallerError),
        (429, Meaning::RateLimited),
    ] {
        let second = Case::new(Class::IdempotentWrite, limited(status, meaning, None))
            .keyed(Stores::All)
            .with(|c| {
                c.rest.after_unknown = AfterUnknown::Yes;
                c.rest.used.attempts = 2;
            });
        let next = second.decide();
        let repeats = matches!(next, Next::RepeatAsReconciliation { .. });
        assert_eq!(repeats, status == 429, "{status}");
        assert!(
            repeats || matches!(next, Next::Escalate { .. }),
            "{status} gave {next:?}"
        );
        assert!(matches!(
            second.with_lookup().decide(),
            Next::Reconcile { .. }
        ));
    }
}

#[test]
fn a_key_in_progress_is_asked_for_again_under_the_same_key_at_growing_intervals() {
    let busy = answered(Facts::bare(409, Meaning::KeyInProgress));
    let case = Case::new(Class::IdempotentWrite, busy).keyed(Stores::All);
    let gap = |attempts| {
        let next = case
            .clone()
            .with(|c| c.rest.used.attempts = attempts)
            .decide();
        assert!(matches!(
            next,
            Next::RepeatAsReconciliation {
                why: Unresolved::KeyInProgress,
                ..
            }
        ));
        earliest(next).since(NOW)
    };
    assert_eq!([gap(1), gap(2), gap(3)], [secs(1), secs(2), secs(4)]);
    let spent = case.with(|c| c.rest.used.attempts = 4);
    assert_eq!(
        spent.decide(),
        Next::Escalate {
            trigger: ASK,
            why: Unresolved::KeyInProgress
        }
    );
    assert!(matches!(
        spent.with_lookup().decide(),
        Next::Reconcile { .. }
    ));
}

#[test]
fn a_bare_conflict_is_taken_for_our_key_only_where_we_have_sent_it_before() {
    let conflict = Case::new(
        Class::IdempotentWrite,
        limited(409, Meaning::CallerError, None),
    )
    .keyed(Stores::All);
    assert_eq!(conflict.decide(), Next::Deliver { hand_back: None });
    let after = conflict.with(|c| c.rest.after_unknown = AfterUnknown::Yes);
    assert!(matches!(
        after.decide(),
        Next::RepeatAsReconciliation {
            why: Unresolved::KeyInProgress,
            ..
        }
    ));
}

#[test]
fn a_key_refused_for_other_bytes_is_our_mistake_unless_we_never_used_it() {
    let mismatch = answered(Facts::bare(422, Meaning::KeyMismatch));
    let case = Case::new(Class::IdempotentWrite, mismatch)
        .keyed(Stores::All)
        .with_lookup();
    assert_eq!(case.decide(), Next::Deliver { hand_back: None });
    let again = case.with(|c| c.rest.used.attempts = 2);
    let why = Unresolved::KeyMismatch;
    assert_eq!(again.decide(), Next::Escalate { trigger: ASK, why });
}

#[test]
fn a_deletion_of_what_is_already_absent_is_done_also_after_an_unknown_attempt() {
    for after in [AfterUnknown::No, AfterUnknown::Yes] {
        for status in [404, 410] {
            let gone = Case::new(
                Class::UncertainWrite,
                limited(status, Meaning::CallerError, None),
            )
            .with(|c| {
                c.profile.absent_is_success = true;
                c.rest.after_unknown = after;
            });
            assert_eq!(gone.judged().outcome(), Outcome::Done);
            assert_eq!(gone.decide(), Next::Deliver { hand_back: None });
        }
    }
}

#[test]
fn a_generation_repeats_after_an_ambiguous_failure_only_with_leave() {
    for evidence in [
        Evidence::Lost(Lost::TimedOut),
        limited(500, Meaning::ProviderError, None),
        limited(504, Meaning::ProviderError, None),
    ] {
        let case = Case::new(Class::Generation, evidence);
        assert!(!matches!(case.decide(), Next::Retry { .. }));
        let allowed = case.with(|c| c.limits.ambiguous_retry = true);
        assert!(matches!(
            allowed.decide(),
            Next::Retry {
                why: RetryWhy::PossiblyBilled,
                ..
            }
        ));
    }
    let early_error = limited(200, Meaning::ProviderError, None);
    let refused = Case::new(Class::Generation, early_error).decide();
    assert!(
        matches!(
            refused,
            Next::Retry {
                why: RetryWhy::Refused,
                ..
            }
        ),
        "{refused:?}"
    );
}

#[test]
fn money_is_not_waited_for_whatever_the_header_says() {
    let billing = limited(429, Meaning::Billing, Some(secs(1)));
    for class in Class::ALL {
        let next = Case::new(*class, billing.clone()).decide();
        assert_eq!(next, Next::Deliver { hand_back: None }, "{class}");
    }
}

/// A 429 of a read, its hint, and the bounds in seconds from now.
fn check_wait(hint: u64, hold: u64, wait_left: u64, deadline: u64, expected: Result<u64, Beyond>) {
    let case = Case::new(
        Class::Read,
        limited(429, Meaning::RateLimited, Some(secs(hint))),
    )
    .with(|c| {
        c.limits.max_wait = secs(wait_left);
        c.rest.held_until = NOW + secs(hold);
        c.rest.deadline = NOW + secs(deadline);
        c.rest.draw = Draw::from_u32(u32::MAX);
    });
    let got = match case.decide() {
        Next::Retry { earliest, .. } => Ok(earliest.since(NOW).as_secs_ceil()),
        Next::Deliver {
            hand_back: Some(back),
        } => {
            assert!(
                back.at >= NOW + secs(hint),
                "the time handed back is not too early"
            );
            Err(back.beyond)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(got, expected, "{hint} {hold} {wait_left} {deadline}");
}

#[test]
fn a_wait_fits_every_bound_or_is_handed_back_whole() {
    check_wait(50, 60, 70, 3_600, Ok(55));
    check_wait(58, 60, 70, 3_600, Ok(60));
    check_wait(65, 60, 70, 3_600, Err(Beyond::Hold));
    check_wait(75, 60, 70, 3_600, Err(Beyond::WaitBudget));
    check_wait(75, 60, 70, 74, Err(Beyond::Deadline));
    check_wait(1_800, 60, 90, 3_600, Err(Beyond::WaitBudget));
    check_wait(60, 60, 60, 60, Ok(60));
}

#[test]
fn only_what_a_person_can_change_is_brought_to_a_person() {
    let back = |beyond| HandBack { at: NOW, beyond }.trigger();
    assert_eq!(back(Beyond::Hold), None);
    assert_eq!(back(Beyond::WaitBudget), Some(Trigger::WaitBeyondDeadline));
    assert_eq!(back(Beyond::Deadline), Some(Trigger::WaitBeyondDeadline));
    assert_eq!(back(Beyond::Reopening), Some(Trigger::QuotaExhausted));
}

#[test]
fn nobody_waits_for_a_scope_that_only_a_person_can_open() {
    let unpaid = |class, evidence| {
        Case::new(class, evidence).with(|c| {
            c.limits.max_wait = Span::MAX;
            c.rest.task.wait = Span::MAX;
            c.rest.gate = Moment::NEVER;
        })
    };
    let back = HandBack {
        at: Moment::NEVER,
        beyond: Beyond::Reopening,
    };
    assert_eq!(back.retry_at(), None, "nobody can say when");
    let hand_back = Some(back);

    let answered = unpaid(Class::Read, limited(503, Meaning::Overloaded, None));
    assert_eq!(answered.decide(), Next::Deliver { hand_back });

    let never_left = unpaid(Class::UncertainWrite, Evidence::NotSent(NotSent::Dns));
    let code = Code::QuotaExhausted;
    assert_eq!(never_left.decide(), Next::GiveUp { code, hand_back });

    // "Nothing was sent" is said of the action, not of its last attempt.
    let sent_before = never_left.with(|c| c.rest.used.attempts = 2);
    let code = Code::UpstreamUnreachable;
    assert_eq!(sent_before.decide(), Next::GiveUp { code, hand_back });

    let lost = unpaid(Class::IdempotentWrite, Evidence::Lost(Lost::Closed));
    assert!(
        matches!(lost.decide(), Next::Escalate { .. }),
        "it may have happened"
    );
}

#[test]
fn a_closed_gate_is_waited_for_even_if_the_backoff_is_shorter() {
    let case = Case::new(Class::Read, limited(503, Meaning::Overloaded, None))
        .with(|c| c.rest.gate = NOW + secs(30));
    assert_eq!(earliest(case.decide()), NOW + secs(30));
}

#[test]
fn a_connection_found_dead_is_replaced_at_once_but_only_once() {
    let closed = Case::new(
        Class::UncertainWrite,
        Evidence::NotSent(NotSent::ConnectionClosed),
    );
    assert_eq!(earliest(closed.decide()), NOW);
    let again = closed.with(|c| c.rest.used.attempts = 2);
    assert_eq!(earliest(again.decide()), NOW + Span::from_millis(250));
}

#[test]
fn each_empty_budget_ends_the_repeats() {
    let case = || Case::new(Class::Read, limited(503, Meaning::Overloaded, None));
    assert!(matches!(case().decide(), Next::Retry { .. }));
    let exhausted: [fn(&mut Case); 4] = [
        |c| c.rest.used.attempts = 4,
        |c| c.rest.task.retries = 0,
        |c| c.rest.ratio = Ratio::Spent,
        |c| c.rest.replay = Replay::NotKept,
    ];
    for exhaust in exhausted {
        assert_eq!(
            case().with(exhaust).decide(),
            Next::Deliver { hand_back: None }
        );
    }
    // A refusal of the limit is not charged to the ratio budget.
    let limit = Case::new(Class::Read, limited(429, Meaning::RateLimited, None))
        .with(|c| c.rest.ratio = Ratio::Spent);
    assert!(matches!(
        limit.decide(),
        Next::Retry {
            charge: Charge::Free,
            ..
        }
    ));
}

#[test]
fn what_nobody_wants_any_more_is_settled_but_not_sent_again() {
    let end = |code| Next::GiveUp {
        code,
        hand_back: None,
    };
    for interest in [Interest::Gone, Interest::Cancelled] {
        let read = Case::new(Class::Read, Evidence::Lost(Lost::CallerGone))
            .with(|c| c.rest.interest = interest);
        assert_eq!(read.decide(), end(Code::Cancelled));
        let looked = lost_write()
            .with_lookup()
            .with(|c| c.rest.interest = interest);
        assert!(matches!(looked.decide(), Next::Reconcile { .. }));
    }
    let blind = lost_write().with(|c| c.profile.idempotency = None);
    let gone = blind.clone().with(|c| c.rest.interest = Interest::Gone);
    assert!(matches!(gone.decide(), Next::Escalate { .. }));
    let cancelled = blind.with(|c| c.rest.interest = Interest::Cancelled);
    assert_eq!(cancelled.decide(), end(Code::OutcomeUnknown));
    // Not even a key that the provider deduplicates is sent for a cancelled action.
    let keyed = lost_write().with(|c| c.rest.interest = Interest::Cancelled);
    assert_eq!(keyed.decide(), end(Code::OutcomeUnknown));
}

#[test]
fn an_uncertain_write_repeats_after_definite_refusals_and_after_nothing_else() {
    let check = |evidence: Evidence, repeats: bool| {
        let case = Case::new(Class::UncertainWrite, evidence)
            .with(|c| c.limits.retry_statuses.extend([404, 409]));
        let next = case.decide();
        assert_eq!(
            matches!(next, Next::Retry { .. }),
            repeats,
            "{:?} gave {next:?}",
            case.evidence
        );
    };
    check(Evidence::NotSent(NotSent::Connect), true);
    check(Evidence::NotProcessed, true);
    check(limited(429, Meaning::RateLimited, None), true);
    check(limited(404, Meaning::CallerError, None), false);
    check(limited(409, Meaning::CallerError, None), false);
    check(limited(503, Meaning::Overloaded, None), false);
    check(Evidence::Lost(Lost::Closed), false);
}

#[test]
fn a_stream_that_broke_in_front_of_the_agent_is_reported_and_not_restarted() {
    let cut = Evidence::Answered {
        facts: Facts::bare(200, Meaning::Ok),
        body: Body::Cut,
        upload: Upload::Complete,
    };
    for class in [Class::Read, Class::Generation] {
        let case = Case::new(class, cut.clone()).with(|c| {
            c.limits.ambiguous_retry = true;
            c.rest.to_agent = ToAgent::Something;
        });
        let broken = Next::GiveUp {
            code: Code::StreamBroken,
            hand_back: None,
        };
        assert_eq!(case.decide(), broken);
        let hidden = case.with(|c| c.rest.to_agent = ToAgent::Nothing);
        assert!(matches!(hidden.decide(), Next::Retry { .. }));
    }
}

#[test]
fn proof_of_absence_allows_the_same_key_again_within_budget_and_nothing_more() {
    let case = lost_write();
    let next = after_absence(&case.judged());
    assert!(matches!(
        next,
        Next::Retry {
            why: RetryWhy::ProvenAbsent,
            ..
        }
    ));
    let end = |hand_back| Next::GiveUp {
        code: Code::NotApplied,
        hand_back,
    };
    let spent = lost_write().with(|c| c.rest.used.attempts = 4);
    assert_eq!(after_absence(&spent.judged()), end(None));
    let uncertain = lost_write().with(|c| c.class = Class::UncertainWrite);
    assert_eq!(after_absence(&uncertain.judged()), end(None));
    let cancelled = lost_write().with(|c| c.rest.interest = Interest::Cancelled);
    let stop = Next::GiveUp {
        code: Code::Cancelled,
        hand_back: None,
    };
    assert_eq!(after_absence(&cancelled.judged()), stop);
    let late = lost_write().with(|c| c.rest.deadline = NOW);
    let Next::GiveUp {
        hand_back: Some(back),
        ..
    } = after_absence(&late.judged())
    else {
        panic!("a wait beyond the deadline is handed back");
    };
    assert_eq!(back.beyond, Beyond::Deadline);
}
