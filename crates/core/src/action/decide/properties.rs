//! What must hold for every decision, whatever the evidence.

use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::case::any_case;
use super::*;
use crate::action::choices::Applied;
use crate::action::machine::{Step, step};
use crate::time::Span;
use crate::word::State;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn every_decision_keeps_the_invariants(case in any_case()) {
        let judged = case.judged();
        let next = decide(&judged);
        let certainty = judged.certainty();
        let unresolved = case.class.is_write()
            && (certainty == Certainty::Unknown || judged.after_unknown == AfterUnknown::Yes)
            && !(certainty == Certainty::Definite && judged.outcome() == Outcome::Done);

        // A second send: who may make one, and when.
        if let Next::Retry { earliest, .. } | Next::RepeatAsReconciliation { earliest, .. } = next {
            // Never of an uncertain write that may have happened.
            prop_assert!(!(case.class == Class::UncertainWrite && unresolved));
            if case.class == Class::UncertainWrite {
                let refused = [Outcome::NotSent, Outcome::Refused];
                prop_assert!(refused.contains(&judged.outcome()));
            }
            // Never past the key's safe lifetime once an attempt may have arrived.
            if unresolved {
                prop_assert!(case.profile.idempotency.is_some());
                prop_assert!(judged.key_safe_until.is_some_and(|until| earliest < until));
            }
            // Never after a success, after a byte reached the agent, or when cancelled.
            prop_assert!(!(case.class.is_write() && certainty == Certainty::CommittedBodyLost));
            prop_assert_eq!(judged.to_agent, ToAgent::Nothing);
            prop_assert!(judged.interest != Interest::Cancelled);
            prop_assert_eq!(judged.replay, Replay::Kept);
            // Never before the hint and the gate.
            prop_assert!(earliest >= judged.now);
            prop_assert!(earliest >= judged.gate);
            if let Evidence::Answered { facts, .. } = &case.evidence {
                prop_assert!(earliest >= judged.now + facts.retry_after.unwrap_or(Span::ZERO));
                prop_assert!(facts.meaning != Meaning::Billing);
            }
            // Never beyond a budget.
            let wait = earliest.since(judged.now);
            prop_assert!(judged.used.attempts < case.limits.max_attempts);
            prop_assert!(judged.used.waited + wait <= case.limits.max_wait || wait.is_zero());
            prop_assert!(judged.task.retries > 0);
            prop_assert!(wait <= judged.task.wait);
            prop_assert!(earliest <= judged.deadline);
            prop_assert!(earliest <= judged.held_until);
        }
        match next {
            Next::Retry { charge, .. } | Next::RepeatAsReconciliation { charge, .. } => {
                prop_assert!(charge == Charge::Free || judged.ratio_allows());
            }
            // A write that may have happened is never ended as not applied.
            Next::Deliver { .. } => prop_assert!(!unresolved),
            Next::GiveUp { code, .. } => {
                let honest = matches!(code, Code::OutcomeUnknown | Code::ResultLost);
                prop_assert!(!unresolved || honest);
            }
            // Only a write that may have happened is looked up or asked about.
            Next::Reconcile { why, not_before } => {
                prop_assert!(unresolved || why == Unresolved::BodyLost);
                prop_assert!(not_before > judged.now);
            }
            Next::Escalate { why, .. } => {
                prop_assert!(unresolved || why == Unresolved::KeyMismatch);
            }
        }
        // The state machine knows the way, and it ends where the words say.
        let doubt = if unresolved { Applied::Maybe } else { Applied::No };
        let mut state = State::Dispatching;
        for taken in steps(certainty, judged.outcome(), next, doubt) {
            let after = step(state, taken, doubt);
            prop_assert!(after.is_some(), "{} {:?}", state, taken);
            state = after.unwrap_or(state);
        }
        let repeats = matches!(next, Next::Retry { .. } | Next::RepeatAsReconciliation { .. });
        prop_assert_eq!(step(state, Step::Sent, doubt).is_some(), repeats);
    }

    #[test]
    fn a_send_after_proven_absence_keeps_every_ceiling(case in any_case()) {
        let judged = Judged { after_unknown: AfterUnknown::No, ..case.judged() };
        if let Next::Retry { earliest, .. } = after_absence(&judged) {
            prop_assert_eq!(case.class, Class::IdempotentWrite);
            prop_assert!(judged.used.attempts < case.limits.max_attempts);
            prop_assert!(earliest >= judged.gate.max(judged.now));
            prop_assert!(earliest <= judged.deadline.min(judged.held_until));
            prop_assert_eq!(judged.interest, Interest::Wanted);
        }
    }
}

/// What is recorded when this follows an open attempt that ended so.
fn steps(certainty: Certainty, outcome: Outcome, next: Next, doubt: Applied) -> Vec<Step> {
    let first = match certainty {
        Certainty::Unknown | Certainty::CommittedBodyLost => Step::Lost,
        Certainty::NotSent | Certainty::NotProcessed | Certainty::Definite => Step::Answered,
    };
    let then: &[Step] = match next {
        Next::Deliver { .. } if outcome == Outcome::Done => &[Step::Ends(State::Succeeded)],
        Next::Deliver { .. } => &[Step::Ends(State::FailedDefinite)],
        Next::Retry { .. } => &[Step::Repeat],
        Next::Reconcile { .. } => &[Step::FindOut],
        Next::RepeatAsReconciliation { .. } => &[Step::FindOut, Step::Repeat],
        Next::Escalate { .. } => &[Step::Asked],
        Next::GiveUp { code, .. } => match (code, doubt) {
            (Code::ResultLost, _) => &[Step::Ends(State::Succeeded)],
            (_, Applied::Maybe) => &[Step::Ends(State::AbandonedUnknown)],
            (Code::Cancelled, Applied::No) => &[Step::Ends(State::CancelledNotSent)],
            (_, Applied::No) => &[Step::Ends(State::FailedDefinite)],
        },
    };
    [&[first], then].concat()
}

#[test]
fn the_random_cases_reach_every_kind_of_decision_often() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = [0_u32; 6];
    for _ in 0..2_000 {
        let case = any_case().new_tree(&mut runner).unwrap().current();
        seen[match case.decide() {
            Next::Deliver { .. } => 0,
            Next::Retry { .. } => 1,
            Next::Reconcile { .. } => 2,
            Next::RepeatAsReconciliation { .. } => 3,
            Next::Escalate { .. } => 4,
            Next::GiveUp { .. } => 5,
        }] += 1;
    }
    assert!(seen.iter().all(|count| *count >= 20), "{seen:?}");
}
