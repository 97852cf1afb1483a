//! The terminal result of an action (R-RETRY-5): what the agent gets when the
//! governor is finished with it, whatever happened.
//!
//! It always answers the same six questions: was it sent, did a response arrive,
//! how many attempts, how long did it wait, who decided, and what is safe to do
//! next. A bare error is never the end.

use super::problem::Code;
use crate::id::{EscalationId, Operator};
use crate::observe::Meaning;
use crate::time::{Moment, Span};
use crate::word::{Class, Outcome};

/// The end of an action, as a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Whose word ends it.
    pub end: End,
    /// What is known of the action as a whole, all its attempts together.
    pub outcome: Outcome,
    /// Whether a byte of it ever left.
    pub sent: Sent,
    /// The status of the last answer that arrived, if one did.
    pub response: Option<u16>,
    /// Sends.
    pub attempts: u16,
    /// Waiting, also before the first attempt.
    pub waited: Span,
    /// Who decided that it ends.
    pub decided_by: DecidedBy,
    /// What is safe now.
    pub next: NextStep,
    /// The moment that belongs to `next`, where it has one.
    pub not_before: Option<Moment>,
}

/// Whose word ends an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The provider's answer, passed on unchanged.
    Provider {
        /// What it means.
        meaning: Meaning,
    },
    /// The governor's own.
    Governor(Code),
}

/// Whether bytes left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Certainly none.
    No,
    /// At least one may have.
    Yes,
}

impl Sent {
    /// The word used in records and in API answers.
    pub const fn word(self) -> &'static str {
        match self {
            Sent::No => "not_sent",
            Sent::Yes => "sent",
        }
    }
}

/// Who decided the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    /// The provider, by a definite answer.
    Provider,
    /// The operator's policy: a limit, a budget, a deadline.
    Policy,
    /// A look-up at the provider.
    Reconciliation,
    /// A person.
    Person(Operator),
    /// The caller, by cancelling.
    Caller,
    /// Nobody: the question to a person expired.
    Expiry(EscalationId),
}

impl DecidedBy {
    /// The word used in records and in API answers; the name or id stands beside it.
    pub const fn word(&self) -> &'static str {
        match self {
            DecidedBy::Provider => "provider",
            DecidedBy::Policy => "policy",
            DecidedBy::Reconciliation => "reconciliation",
            DecidedBy::Person(_) => "person",
            DecidedBy::Caller => "caller",
            DecidedBy::Expiry(_) => "expiry",
        }
    }
}

/// What an agent can safely do next. Closed, so that an agent can be programmed
/// against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NextStep {
    /// Use the result.
    UseResult,
    /// Send it again at the stated time.
    SendLater,
    /// Send it again, if it is still needed.
    SendAgain,
    /// Change the call first.
    ChangeCall,
    /// Use a new key for a new operation.
    UseNewKey,
    /// Fetch this action later.
    FetchAction,
    /// Look at the provider before anything else.
    CheckProvider,
    /// An operator must change something first.
    AskOperator,
    /// Nothing is left to do.
    Stop,
}

impl NextStep {
    /// Every step.
    pub const ALL: &'static [NextStep] = &[
        NextStep::UseResult,
        NextStep::SendLater,
        NextStep::SendAgain,
        NextStep::ChangeCall,
        NextStep::UseNewKey,
        NextStep::FetchAction,
        NextStep::CheckProvider,
        NextStep::AskOperator,
        NextStep::Stop,
    ];

    /// The word in `Rategov-Next`.
    pub const fn word(self) -> &'static str {
        match self {
            NextStep::UseResult => "use_result",
            NextStep::SendLater => "send_later",
            NextStep::SendAgain => "send_again",
            NextStep::ChangeCall => "change_call",
            NextStep::UseNewKey => "use_new_key",
            NextStep::FetchAction => "fetch_action",
            NextStep::CheckProvider => "check_provider",
            NextStep::AskOperator => "ask_operator",
            NextStep::Stop => "stop",
        }
    }

    /// A sentence that an agent can follow.
    pub const fn sentence(self) -> &'static str {
        match self {
            NextStep::UseResult => "use the result; nothing else is needed",
            NextStep::SendLater => "send the same call again at the stated time, not before",
            NextStep::SendAgain => "it is safe to send it again, if it is still needed",
            NextStep::ChangeCall => {
                "change the call as the error says; the same call will fail again"
            }
            NextStep::UseNewKey => {
                "use this key only for the same operation, and a new key for a new one"
            }
            NextStep::FetchAction => {
                "don't send it again; go on with other work and fetch this action later"
            }
            NextStep::CheckProvider => {
                "don't send it again; look at the provider whether it happened"
            }
            NextStep::AskOperator => {
                "don't send it again until an operator has changed something; do other work"
            }
            NextStep::Stop => "nothing of it will be sent; don't repeat it",
        }
    }
}

/// The next step after the provider's own last word.
///
/// A repeat is suggested only where it has no second effect by itself: the class
/// says whether an answer that leaves the effect open may simply be followed by
/// another call.
pub const fn after_answer(meaning: Meaning, outcome: Outcome, class: Class) -> NextStep {
    match (meaning, outcome) {
        (_, Outcome::Done) => NextStep::UseResult,
        (_, Outcome::Unknown) if class.is_write() => NextStep::CheckProvider,
        (Meaning::Ok, _) => NextStep::UseResult,
        (Meaning::RateLimited | Meaning::TooManyConcurrent | Meaning::Overloaded, _) => {
            NextStep::SendLater
        }
        (Meaning::QuotaExhausted | Meaning::Billing | Meaning::Credential, _) => {
            NextStep::AskOperator
        }
        (Meaning::TooLarge | Meaning::CallerError, _) => NextStep::ChangeCall,
        (Meaning::KeyMismatch, _) => NextStep::UseNewKey,
        (Meaning::KeyInProgress, _) => NextStep::FetchAction,
        (Meaning::ProviderError, _) => NextStep::SendLater,
    }
}

/// The next step after the governor's own last word.
pub const fn after_problem(code: Code) -> NextStep {
    match code {
        Code::QueueFull
        | Code::AgentQueueFull
        | Code::HoldExceeded
        | Code::AuditUnavailable
        | Code::ShuttingDown
        | Code::UpstreamUnreachable
        | Code::UpstreamRefused
        | Code::UpstreamLost
        | Code::UpstreamTimeout => NextStep::SendLater,
        Code::StreamBroken | Code::PossiblyBilled | Code::NotApplied | Code::Interrupted => {
            NextStep::SendAgain
        }
        Code::QuotaExhausted | Code::DeadlinePassed | Code::UpstreamCertificate => {
            NextStep::AskOperator
        }
        Code::BreakerTripped => NextStep::ChangeCall,
        Code::KeyReused => NextStep::UseNewKey,
        Code::LookalikeHeld
        | Code::Escalated
        | Code::StillOpen
        | Code::Pending
        | Code::Superseded => NextStep::FetchAction,
        Code::OutcomeUnknown | Code::ResultLost => NextStep::CheckProvider,
        Code::Cancelled => NextStep::Stop,
    }
}

impl Terminal {
    /// The word of `Rategov-Terminal`: the problem's code, or `answered`.
    pub const fn word(&self) -> &'static str {
        match self.end {
            End::Provider { .. } => "answered",
            End::Governor(code) => code.word(),
        }
    }

    /// Whether the record contradicts itself: it must never call a write failed
    /// that may have been applied, nor call unsent what has attempts with an
    /// answer. The engine asserts this before it stores a terminal result.
    pub const fn contradicts_itself(&self) -> bool {
        let unsent_yet_known =
            matches!(self.sent, Sent::No) && !matches!(self.outcome, Outcome::NotSent);
        let answered_unsent = matches!(self.sent, Sent::No) && self.response.is_some();
        let wrong_word = match self.end {
            End::Governor(code) => match code.outcome() {
                Some(Outcome::NotSent) => matches!(self.outcome, Outcome::Unknown | Outcome::Done),
                Some(Outcome::Unknown) => !matches!(self.outcome, Outcome::Unknown),
                Some(Outcome::Done) => !matches!(self.outcome, Outcome::Done),
                _ => false,
            },
            End::Provider { .. } => self.response.is_none(),
        };
        unsent_yet_known || answered_unsent || wrong_word
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::action::problem::ShouldRetry;

    fn terminal(end: End, outcome: Outcome, sent: Sent, response: Option<u16>) -> Terminal {
        Terminal {
            end,
            outcome,
            sent,
            response,
            attempts: 1,
            waited: Span::ZERO,
            decided_by: DecidedBy::Policy,
            next: NextStep::Stop,
            not_before: None,
        }
    }

    #[test]
    fn every_step_has_its_own_word_and_sentence() {
        let words: BTreeSet<_> = NextStep::ALL.iter().map(|s| s.word()).collect();
        let sentences: BTreeSet<_> = NextStep::ALL.iter().map(|s| s.sentence()).collect();
        assert_eq!(
            (words.len(), sentences.len()),
            (NextStep::ALL.len(), NextStep::ALL.len())
        );
    }

    #[test]
    fn a_problem_that_software_may_repeat_tells_the_agent_the_same() {
        for code in Code::ALL {
            if code.problem().should_retry == ShouldRetry::Later {
                assert_eq!(after_problem(*code), NextStep::SendLater, "{code:?}");
            }
        }
    }

    #[test]
    fn an_unknown_write_is_never_suggested_to_be_sent_again() {
        for code in [
            Code::OutcomeUnknown,
            Code::Escalated,
            Code::StillOpen,
            Code::ResultLost,
        ] {
            let step = after_problem(code);
            assert!(
                matches!(step, NextStep::CheckProvider | NextStep::FetchAction),
                "{code:?} suggests {step:?}"
            );
        }
        for class in [Class::IdempotentWrite, Class::UncertainWrite] {
            assert_eq!(
                after_answer(Meaning::ProviderError, Outcome::Unknown, class),
                NextStep::CheckProvider
            );
        }
        assert_eq!(
            after_answer(Meaning::ProviderError, Outcome::Unknown, Class::Read),
            NextStep::SendLater
        );
    }

    #[test]
    fn a_deletion_of_what_is_absent_is_a_result() {
        let step = after_answer(Meaning::CallerError, Outcome::Done, Class::IdempotentWrite);
        assert_eq!(step, NextStep::UseResult);
    }

    #[test]
    fn a_result_that_contradicts_itself_is_noticed() {
        let unknown = End::Governor(Code::OutcomeUnknown);
        let ok = terminal(unknown, Outcome::Unknown, Sent::Yes, None);
        assert!(!ok.contradicts_itself());
        for bad in [
            terminal(unknown, Outcome::Failed, Sent::Yes, None),
            terminal(unknown, Outcome::Unknown, Sent::No, None),
            terminal(
                End::Governor(Code::UpstreamUnreachable),
                Outcome::Unknown,
                Sent::Yes,
                None,
            ),
            terminal(
                End::Governor(Code::QueueFull),
                Outcome::NotSent,
                Sent::No,
                Some(200),
            ),
            terminal(
                End::Provider {
                    meaning: Meaning::Ok,
                },
                Outcome::Done,
                Sent::Yes,
                None,
            ),
        ] {
            assert!(bad.contradicts_itself(), "{bad:?}");
        }
    }

    #[test]
    fn the_providers_last_word_is_called_answered() {
        let meaning = Meaning::RateLimited;
        let end = terminal(
            End::Provider { meaning },
            Outcome::Refused,
            Sent::Yes,
            Some(429),
        );
        assert_eq!(end.word(), "answered");
        assert!(!end.contradicts_itself());
    }
}
