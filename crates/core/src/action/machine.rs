//! The life of an action as a table: which record can follow in which state, and
//! where it leads. Rows change by it and by nothing else
//! ([`ActionRow::apply`](crate::record::ActionRow::apply)); what it does not have
//! is refused by the engine and by the store alike.
//!
//! The table knows states, and whether an attempt may have had its effect. Whether
//! a key is safe and whether a budget is left is decided before (in
//! [`decide`](super::decide), [`lookup`](super::lookup) and
//! [`choices`](super::choices)), and shows here only as *which* record follows. What
//! may have happened never ends as "not applied".
//!
//! ```text
//! ADMITTED ─→ DISPATCHING ⇄ WAITING ─→ every end
//!                  │           ↑  ↓
//!                  └─→ UNKNOWN ─→ RECONCILING ─→ done, or given up as unknown
//!                           └──→ ESCALATED ─→ a person decides: waits, or is looked up
//! ```
//!
//! What was found out or decided waits for a moment until what follows from it is
//! recorded; a restart finds it there and carries it out.

use super::choices::Applied;
use crate::word::State;

/// What a record says of an action, as far as its state depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// An attempt is open, durably, before its first byte.
    Sent,
    /// The attempt has ended, and what it did is known.
    Answered,
    /// The attempt has ended, and nobody knows what it did, or its result was lost.
    Lost,
    /// Another attempt will follow.
    Repeat,
    /// What happened is to be found out before anything else.
    FindOut,
    /// A look-up went out, or came back.
    LookUp,
    /// What happened is established.
    FoundOut,
    /// A person is asked.
    Asked,
    /// A person chose to ask the provider.
    LookUpChosen,
    /// A person chose anything else, or nobody did in time.
    Chosen,
    /// It was told to stop.
    Stopped,
    /// It is over.
    Ends(State),
}

impl Step {
    /// Every step, in the order of the table.
    pub const ALL: &'static [Step] = &[
        Step::Sent,
        Step::Answered,
        Step::Lost,
        Step::Repeat,
        Step::FindOut,
        Step::LookUp,
        Step::FoundOut,
        Step::Asked,
        Step::LookUpChosen,
        Step::Chosen,
        Step::Stopped,
        Step::Ends(State::Succeeded),
        Step::Ends(State::FailedDefinite),
        Step::Ends(State::CancelledNotSent),
        Step::Ends(State::AbandonedUnknown),
        Step::Ends(State::Superseded),
        Step::Ends(State::Interrupted),
    ];
}

/// The state after a step; `None` if it is not possible there, which is a defect of
/// whoever recorded it and never a way to go on. O(1).
pub fn step(state: State, step: Step, applied: Applied) -> Option<State> {
    use Applied::{Maybe, No};
    use State as S;
    use Step as E;
    let next = match (state, step, applied) {
        // An attempt.
        (S::Admitted | S::Waiting, E::Sent, _) => S::Dispatching,
        (S::Dispatching, E::Answered, _) => S::Waiting,
        (S::Dispatching, E::Lost, _) => S::Unknown,
        (S::Waiting | S::Reconciling, E::Repeat, _) => S::Waiting,
        // What changes nothing may be repeated whatever became of it.
        (S::Unknown, E::Repeat, No) => S::Waiting,

        // Finding out.
        (S::Waiting | S::Unknown | S::Reconciling, E::FindOut, _) => S::Reconciling,
        (S::Reconciling, E::LookUp, _) => S::Reconciling,
        // A look-up has established it, or a person.
        (S::Reconciling | S::Waiting, E::FoundOut, _) => S::Waiting,

        // A person. A restart asks again if the question was lost.
        (S::Admitted | S::Waiting | S::Unknown | S::Reconciling | S::Escalated, E::Asked, _) => {
            S::Escalated
        }
        (S::Escalated, E::LookUpChosen, _) => S::Reconciling,
        (S::Escalated, E::Chosen, _) => S::Waiting,

        // A cancel is noted; what follows from it is a step of its own.
        (state, E::Stopped, _) if !state.is_final() => state,

        // The end.
        (S::Waiting | S::Unknown | S::Reconciling, E::Ends(S::Succeeded), _) => S::Succeeded,
        (
            S::Admitted | S::Waiting | S::Unknown,
            E::Ends(end @ (S::FailedDefinite | S::CancelledNotSent | S::Interrupted)),
            No,
        ) => end,
        (S::Waiting | S::Unknown | S::Reconciling, E::Ends(S::AbandonedUnknown), Maybe) => {
            S::AbandonedUnknown
        }
        (S::Waiting, E::Ends(S::Superseded), _) => S::Superseded,

        _ => return None,
    };
    Some(next)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const BOTH: [Applied; 2] = [Applied::No, Applied::Maybe];

    fn table() -> String {
        let mut out = String::new();
        for event in Step::ALL {
            out += &format!("{event:?}\n");
            for &from in State::ALL {
                let [no, maybe] = BOTH.map(|applied| step(from, *event, applied));
                match (no, maybe) {
                    (None, None) => {}
                    (Some(to), Some(_)) => out += &format!("    {from:12} -> {to}\n"),
                    (Some(to), None) => out += &format!("    {from:12} -> {to}, not applied\n"),
                    (None, Some(to)) => out += &format!("    {from:12} -> {to}, in doubt\n"),
                }
            }
        }
        out
    }

    #[test]
    fn the_whole_table_is_as_reviewed() {
        insta::assert_snapshot!(table(), @r"
        Sent
            admitted -> dispatching
            waiting -> dispatching
        Answered
            dispatching -> waiting
        Lost
            dispatching -> unknown
        Repeat
            waiting -> waiting
            unknown -> waiting, not applied
            reconciling -> waiting
        FindOut
            waiting -> reconciling
            unknown -> reconciling
            reconciling -> reconciling
        LookUp
            reconciling -> reconciling
        FoundOut
            waiting -> waiting
            reconciling -> waiting
        Asked
            admitted -> escalated
            waiting -> escalated
            unknown -> escalated
            reconciling -> escalated
            escalated -> escalated
        LookUpChosen
            escalated -> reconciling
        Chosen
            escalated -> waiting
        Stopped
            admitted -> admitted
            waiting -> waiting
            dispatching -> dispatching
            unknown -> unknown
            reconciling -> reconciling
            escalated -> escalated
        Ends(Succeeded)
            waiting -> succeeded
            unknown -> succeeded
            reconciling -> succeeded
        Ends(FailedDefinite)
            admitted -> failed_definite, not applied
            waiting -> failed_definite, not applied
            unknown -> failed_definite, not applied
        Ends(CancelledNotSent)
            admitted -> cancelled_not_sent, not applied
            waiting -> cancelled_not_sent, not applied
            unknown -> cancelled_not_sent, not applied
        Ends(AbandonedUnknown)
            waiting -> abandoned_unknown, in doubt
            unknown -> abandoned_unknown, in doubt
            reconciling -> abandoned_unknown, in doubt
        Ends(Superseded)
            waiting -> superseded
        Ends(Interrupted)
            admitted -> interrupted, not applied
            waiting -> interrupted, not applied
            unknown -> interrupted, not applied
        ");
    }

    #[test]
    fn doubt_decides_whether_a_step_is_possible_and_never_where_it_leads() {
        for &from in State::ALL {
            for event in Step::ALL {
                let [no, maybe] = BOTH.map(|applied| step(from, *event, applied));
                assert!(no == maybe || no.is_none() || maybe.is_none());
            }
        }
    }

    #[test]
    fn nothing_follows_a_final_state() {
        for state in State::ALL.iter().filter(|state| state.is_final()) {
            for event in Step::ALL {
                for applied in BOTH {
                    assert_eq!(step(*state, *event, applied), None);
                }
            }
        }
    }

    #[test]
    fn bytes_leave_only_from_admitted_or_waiting() {
        for &state in State::ALL {
            let may = matches!(state, State::Admitted | State::Waiting);
            for applied in BOTH {
                assert_eq!(step(state, Step::Sent, applied).is_some(), may, "{state}");
            }
        }
    }

    #[test]
    fn an_unknown_write_reaches_no_second_send_without_finding_out_or_a_person() {
        for event in Step::ALL {
            let after = step(State::Unknown, *event, Applied::Maybe);
            let sends = matches!(after, Some(State::Waiting | State::Dispatching));
            assert!(!sends, "{event:?}");
        }
    }

    #[test]
    fn nothing_that_may_have_happened_ends_as_not_applied() {
        for &from in State::ALL {
            for event in Step::ALL {
                let after = step(from, *event, Applied::Maybe);
                let says_not_applied = matches!(
                    after,
                    Some(State::FailedDefinite | State::CancelledNotSent | State::Interrupted)
                );
                assert!(!says_not_applied, "{from} {event:?}");
            }
        }
    }

    #[test]
    fn every_live_state_may_be_told_to_stop_and_stays_where_it_is() {
        for &state in State::ALL.iter().filter(|state| !state.is_final()) {
            for applied in BOTH {
                assert_eq!(step(state, Step::Stopped, applied), Some(state));
            }
        }
    }

    #[test]
    fn every_state_can_be_reached_and_every_step_leads_somewhere() {
        let mut seen = BTreeSet::from([State::Admitted]);
        let mut used = BTreeSet::new();
        loop {
            let before = seen.len();
            for state in seen.clone() {
                for event in Step::ALL {
                    for next in BOTH.iter().filter_map(|it| step(state, *event, *it)) {
                        seen.insert(next);
                        used.insert(*event);
                    }
                }
            }
            if seen.len() == before {
                break;
            }
        }
        assert_eq!(seen.len(), State::ALL.len());
        assert_eq!(used.len(), Step::ALL.len());
    }
}
