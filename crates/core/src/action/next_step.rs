//! What is safe to do when an action has ended (R-RETRY-5): one closed word for
//! the agent, after the provider's last answer or after the governor's own.

use super::problem::Code;
use crate::observe::Meaning;
use crate::word::{Class, Outcome};

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
        (
            Meaning::RateLimited
            | Meaning::TooManyConcurrent
            | Meaning::QuotaExhausted
            | Meaning::Overloaded
            | Meaning::ProviderError
            | Meaning::KeyInProgress,
            _,
        ) => NextStep::SendLater,
        (Meaning::Billing | Meaning::Credential, _) => NextStep::AskOperator,
        (Meaning::TooLarge | Meaning::CallerError, _) => NextStep::ChangeCall,
        (Meaning::KeyMismatch, _) => NextStep::UseNewKey,
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::action::problem::ShouldRetry;

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
}
