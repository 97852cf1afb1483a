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

/// The code of an action that ended because its wait would have been too long.
pub const WAIT_EXHAUSTED: &str = "wait_exhausted";

/// The code of an action that ended with a provider's answer that is no success: what
/// the answer means, so that whoever looks at the action later is told the same step.
pub const fn code_of_answer(meaning: Meaning) -> &'static str {
    match meaning {
        Meaning::Ok => "provider_ok",
        Meaning::RateLimited => "provider_rate_limited",
        Meaning::TooManyConcurrent => "provider_too_many_concurrent",
        Meaning::QuotaExhausted => "provider_quota_exhausted",
        Meaning::Overloaded => "provider_overloaded",
        Meaning::ProviderError => "provider_error",
        Meaning::KeyInProgress => "provider_key_in_progress",
        Meaning::Billing => "provider_billing",
        Meaning::Credential => "provider_credential",
        Meaning::TooLarge => "provider_too_large",
        Meaning::CallerError => "provider_caller_error",
        Meaning::KeyMismatch => "provider_key_mismatch",
    }
}

/// The next step after an action that ended with this code and the provider's answer;
/// `None` if the code is of another end.
pub fn after_code_of_answer(code: &str, class: Class) -> Option<NextStep> {
    if code == WAIT_EXHAUSTED {
        return Some(NextStep::SendLater);
    }
    let is_it = |meaning: &&Meaning| code_of_answer(**meaning) == code;
    let meaning = Meaning::ALL.iter().find(is_it)?;
    Some(after_answer(*meaning, Outcome::Failed, class))
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
    fn the_code_of_an_answer_leads_to_the_same_step() {
        for class in [Class::Read, Class::UncertainWrite] {
            for meaning in Meaning::ALL {
                let step = after_answer(*meaning, Outcome::Failed, class);
                let code = code_of_answer(*meaning);
                assert_eq!(after_code_of_answer(code, class), Some(step), "{code}");
                assert_eq!(Code::parse(code), None, "{code} is no code of our own");
            }
        }
        assert_eq!(after_code_of_answer("done", Class::Read), None);
    }

    #[test]
    fn a_deletion_of_what_is_absent_is_a_result() {
        let step = after_answer(Meaning::CallerError, Outcome::Done, Class::IdempotentWrite);
        assert_eq!(step, NextStep::UseResult);
    }
}
