//! The life of an action as a table: which event is possible in which state, and
//! where it leads. Everything else is [`Illegal`], which is a defect of the
//! caller and never a way to go on.
//!
//! The table knows states, not reasons. Whether an attempt may have had its
//! effect, whether a key is safe and whether a budget is left is decided before
//! (in [`decide`](super::decide), [`lookup`](super::lookup) and
//! [`choices`](super::choices)) and is visible here only as *which* event is
//! reported: there are two ways to cancel and two ways to expire, so that nobody
//! can end a possibly applied write as "not applied" by leaving out a flag.
//!
//! ```text
//! ADMITTED ─→ WAITING ⇄ DISPATCHING ─→ SUCCEEDED | FAILED_DEFINITE
//!                 ↑          │
//!                 │       UNKNOWN ─→ RECONCILING ─→ SUCCEEDED | FAILED_DEFINITE
//!                 └──────────────────────┘   └────→ ESCALATED ─→ a person decides
//! ```

use std::fmt;

use crate::word::State;

/// What happened to an action, as far as its state depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MachineEvent {
    /// It must wait for its turn.
    Parked,
    /// A permit was granted; the attempt is opened durably before the first byte.
    Dispatched,
    /// The attempt proved without effect, or may be repeated as a read may; a
    /// repeat is scheduled. Also: the same key is in progress, ask again later.
    RetryScheduled,
    /// The provider did it, and its result is stored.
    Settled,
    /// Certainly not applied, and nothing more is tried.
    EndedNotApplied,
    /// The attempt closed, and nobody knows what it did.
    OutcomeUnknown,
    /// A success status arrived and its body was lost: fetch the result, never send again.
    BodyLost,
    /// The first look-up, or the repeat that stands for one, is recorded.
    ReconciliationStarted,
    /// The look-up has not settled it; another will follow.
    LookedUp,
    /// Absence is proved, or the provider deduplicates a safe key: send the same key again.
    SameKeyAgain,
    /// The key is older than its safe lifetime and an attempt may have arrived.
    KeyTooOld,
    /// A person is asked.
    Escalated,
    /// A person chose to ask the provider.
    DecidedQuery,
    /// A person chose to send again under the same key, to wait on, or to open a
    /// stopped path.
    DecidedSend,
    /// A person chose a new operation; this one has a successor with a new key.
    DecidedNewOperation,
    /// A person found out that it happened.
    DecidedItHappened,
    /// A person found out that it did not happen.
    DecidedItDidNot,
    /// Cancelled while certainly nothing was applied.
    CancelledNotApplied,
    /// Cancelled while an attempt may have had its effect.
    CancelledUnknown,
    /// The question expired while certainly nothing was applied.
    ExpiredNotApplied,
    /// The question expired while an attempt may have had its effect.
    ExpiredUnknown,
    /// The governor restarted. An open attempt of a write is unknown, whatever
    /// memory knew.
    Restarted,
    /// The governor restarted while a read or a generation was open.
    Interrupted,
}

impl MachineEvent {
    /// Every event, in the order of the table.
    pub const ALL: &'static [MachineEvent] = &[
        MachineEvent::Parked,
        MachineEvent::Dispatched,
        MachineEvent::RetryScheduled,
        MachineEvent::Settled,
        MachineEvent::EndedNotApplied,
        MachineEvent::OutcomeUnknown,
        MachineEvent::BodyLost,
        MachineEvent::ReconciliationStarted,
        MachineEvent::LookedUp,
        MachineEvent::SameKeyAgain,
        MachineEvent::KeyTooOld,
        MachineEvent::Escalated,
        MachineEvent::DecidedQuery,
        MachineEvent::DecidedSend,
        MachineEvent::DecidedNewOperation,
        MachineEvent::DecidedItHappened,
        MachineEvent::DecidedItDidNot,
        MachineEvent::CancelledNotApplied,
        MachineEvent::CancelledUnknown,
        MachineEvent::ExpiredNotApplied,
        MachineEvent::ExpiredUnknown,
        MachineEvent::Restarted,
        MachineEvent::Interrupted,
    ];
}

/// An event that cannot happen in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Illegal {
    /// Where the action was.
    pub state: State,
    /// What was reported.
    pub event: MachineEvent,
}

impl fmt::Display for Illegal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "an action that is {} can't meet {:?}",
            self.state, self.event
        )
    }
}

impl std::error::Error for Illegal {}

/// The state after an event. O(1).
///
/// # Errors
/// [`Illegal`] if the table has no such transition. Final states have none.
pub fn step(state: State, event: &MachineEvent) -> Result<State, Illegal> {
    use MachineEvent as E;
    use State as S;
    let next = match (state, *event) {
        // Before a send.
        (S::Admitted, E::Parked) => S::Waiting,
        (S::Admitted | S::Waiting, E::Dispatched) => S::Dispatching,
        (S::Waiting, E::KeyTooOld) => S::Reconciling,
        (S::Admitted | S::Waiting, E::EndedNotApplied) => S::FailedDefinite,
        (S::Admitted | S::Waiting, E::Escalated) => S::Escalated,
        (S::Admitted | S::Waiting, E::CancelledNotApplied) => S::CancelledNotSent,
        (S::Waiting, E::CancelledUnknown) => S::AbandonedUnknown,
        // The budget or deadline of a repeat ran out while an earlier attempt
        // may have had its effect: find out, instead of calling it failed.
        (S::Waiting, E::OutcomeUnknown) => S::Unknown,

        // An attempt ends.
        (S::Dispatching, E::RetryScheduled) => S::Waiting,
        (S::Dispatching, E::Settled) => S::Succeeded,
        (S::Dispatching, E::EndedNotApplied) => S::FailedDefinite,
        (S::Dispatching, E::OutcomeUnknown) => S::Unknown,
        (S::Dispatching, E::BodyLost) => S::Reconciling,
        // The key was refused for these bytes: our own mistake, for a person.
        (S::Dispatching, E::Escalated) => S::Escalated,
        (S::Dispatching, E::CancelledNotApplied) => S::CancelledNotSent,
        (S::Dispatching, E::CancelledUnknown) => S::AbandonedUnknown,

        // Finding out.
        (S::Unknown, E::ReconciliationStarted) => S::Reconciling,
        (S::Reconciling, E::LookedUp) => S::Reconciling,
        (S::Reconciling, E::SameKeyAgain) => S::Waiting,
        (S::Reconciling, E::Settled) => S::Succeeded,
        (S::Reconciling, E::EndedNotApplied) => S::FailedDefinite,
        (S::Reconciling, E::CancelledNotApplied) => S::CancelledNotSent,
        (S::Unknown | S::Reconciling, E::Escalated) => S::Escalated,
        (S::Unknown | S::Reconciling, E::CancelledUnknown) => S::AbandonedUnknown,

        // A person decides, or nobody does. A late answer of the provider may
        // still settle what is being asked.
        (S::Escalated, E::DecidedQuery) => S::Reconciling,
        (S::Escalated, E::DecidedSend) => S::Waiting,
        (S::Escalated, E::DecidedNewOperation) => S::Superseded,
        (S::Escalated, E::DecidedItHappened | E::Settled) => S::Succeeded,
        (S::Escalated, E::DecidedItDidNot) => S::FailedDefinite,
        (S::Escalated, E::CancelledNotApplied) => S::CancelledNotSent,
        (S::Escalated, E::CancelledUnknown | E::ExpiredUnknown) => S::AbandonedUnknown,
        (S::Escalated, E::ExpiredNotApplied) => S::FailedDefinite,

        // A restart.
        (S::Dispatching, E::Restarted) => S::Unknown,
        (S::Admitted | S::Waiting | S::Unknown | S::Reconciling | S::Escalated, E::Restarted) => {
            state
        }
        (S::Admitted | S::Waiting | S::Dispatching, E::Interrupted) => S::Interrupted,

        (state, event) => return Err(Illegal { state, event }),
    };
    Ok(next)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const LIVE: [State; 6] = [
        State::Admitted,
        State::Waiting,
        State::Dispatching,
        State::Unknown,
        State::Reconciling,
        State::Escalated,
    ];

    fn table() -> String {
        let mut out = String::new();
        for event in MachineEvent::ALL {
            out += &format!("{event:?}\n");
            for &from in State::ALL {
                if let Ok(to) = step(from, event) {
                    out += &format!("    {from:12} -> {to}\n");
                }
            }
        }
        out
    }

    #[test]
    fn the_whole_table_is_as_reviewed() {
        insta::assert_snapshot!(table(), @r"
        Parked
            admitted -> waiting
        Dispatched
            admitted -> dispatching
            waiting -> dispatching
        RetryScheduled
            dispatching -> waiting
        Settled
            dispatching -> succeeded
            reconciling -> succeeded
            escalated -> succeeded
        EndedNotApplied
            admitted -> failed_definite
            waiting -> failed_definite
            dispatching -> failed_definite
            reconciling -> failed_definite
        OutcomeUnknown
            waiting -> unknown
            dispatching -> unknown
        BodyLost
            dispatching -> reconciling
        ReconciliationStarted
            unknown -> reconciling
        LookedUp
            reconciling -> reconciling
        SameKeyAgain
            reconciling -> waiting
        KeyTooOld
            waiting -> reconciling
        Escalated
            admitted -> escalated
            waiting -> escalated
            dispatching -> escalated
            unknown -> escalated
            reconciling -> escalated
        DecidedQuery
            escalated -> reconciling
        DecidedSend
            escalated -> waiting
        DecidedNewOperation
            escalated -> superseded
        DecidedItHappened
            escalated -> succeeded
        DecidedItDidNot
            escalated -> failed_definite
        CancelledNotApplied
            admitted -> cancelled_not_sent
            waiting -> cancelled_not_sent
            dispatching -> cancelled_not_sent
            reconciling -> cancelled_not_sent
            escalated -> cancelled_not_sent
        CancelledUnknown
            waiting -> abandoned_unknown
            dispatching -> abandoned_unknown
            unknown -> abandoned_unknown
            reconciling -> abandoned_unknown
            escalated -> abandoned_unknown
        ExpiredNotApplied
            escalated -> failed_definite
        ExpiredUnknown
            escalated -> abandoned_unknown
        Restarted
            admitted -> admitted
            waiting -> waiting
            dispatching -> unknown
            unknown -> unknown
            reconciling -> reconciling
            escalated -> escalated
        Interrupted
            admitted -> interrupted
            waiting -> interrupted
            dispatching -> interrupted
        ");
    }

    #[test]
    fn nothing_follows_a_final_state() {
        for state in State::ALL.iter().filter(|s| s.is_final()) {
            for event in MachineEvent::ALL {
                assert_eq!(
                    step(*state, event),
                    Err(Illegal {
                        state: *state,
                        event: *event
                    })
                );
            }
        }
    }

    #[test]
    fn every_live_state_survives_or_answers_a_restart() {
        for state in LIVE {
            let after = step(state, &MachineEvent::Restarted);
            let expected = if state == State::Dispatching {
                State::Unknown
            } else {
                state
            };
            assert_eq!(after, Ok(expected));
        }
    }

    #[test]
    fn bytes_leave_only_from_admitted_or_waiting() {
        for &state in State::ALL {
            let may = matches!(state, State::Admitted | State::Waiting);
            assert_eq!(
                step(state, &MachineEvent::Dispatched).is_ok(),
                may,
                "{state}"
            );
        }
    }

    #[test]
    fn an_unknown_write_reaches_no_second_send_without_reconciliation_or_a_person() {
        // From UNKNOWN every way back to WAITING passes RECONCILING or ESCALATED.
        for event in MachineEvent::ALL {
            let after = step(State::Unknown, event);
            assert!(
                !matches!(
                    after,
                    Ok(State::Waiting | State::Dispatching | State::FailedDefinite)
                ),
                "{event:?}"
            );
        }
    }

    #[test]
    fn every_state_can_be_reached_and_every_event_leads_somewhere() {
        let mut seen = BTreeSet::from([State::Admitted]);
        let mut used = BTreeSet::new();
        loop {
            let before = seen.len();
            for state in seen.clone() {
                for event in MachineEvent::ALL {
                    if let Ok(next) = step(state, event) {
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
        assert_eq!(used.len(), MachineEvent::ALL.len());
    }

    #[test]
    fn an_illegal_event_names_state_and_event() {
        let error = step(State::Succeeded, &MachineEvent::Dispatched).unwrap_err();
        assert_eq!(
            error.to_string(),
            "an action that is succeeded can't meet Dispatched"
        );
    }
}
