//! What an answer is, in the finest words that presets have for it.
//!
//! A [`Meaning`] is as fine as ledger and actions need it: a limit that was
//! never granted closes a scope like an empty purse, and a missing right ends a
//! call like any other mistake. People, presets and metrics need to tell these
//! apart (R-CLASS-2), so a [`Kind`] stands beside it. This is the table:
//!
//! | kind | meaning | what helps |
//! |---|---|---|
//! | ok, near_limit, replayed | ok | – |
//! | partly_limited | ok: what was done stays done | wait, then send the refused members |
//! | rate_limited | rate limited | wait |
//! | too_many_concurrent | too many concurrent | one of ours finishes |
//! | quota_exhausted | quota exhausted | the next window |
//! | billing | billing | a person |
//! | no_allowance | billing: no wait helps, a person does | a person |
//! | overloaded | overloaded | back off |
//! | lock_conflict | overloaded under 429 and 503, else caller error | back off |
//! | credential, too_large, key_mismatch | the same | nothing |
//! | permission, caller_error | caller error | nothing |
//! | key_in_progress | key in progress | the same key, later |
//! | provider_error | provider error | back off |
//! | outcome_unknown | provider error | look first |
//!
//! A lock under a 429 must not close the account, and an overload holds only its
//! endpoint; a lock under a 409 is a definite answer that the caller understands.

use super::Meaning;
use crate::time::Span;

words! {
    /// What an answer is.
    Kind {
        /// Nothing about limits or failure.
        Ok = "ok",
        /// Fine, and a limit is nearly used up.
        NearLimit = "near_limit",
        /// The stored answer to an earlier call with the same key.
        Replayed = "replayed",
        /// A batch of which some members were refused for a limit.
        PartlyLimited = "partly_limited",
        /// A rate limit.
        RateLimited = "rate_limited",
        /// Too many calls open at once.
        TooManyConcurrent = "too_many_concurrent",
        /// A long window is used up.
        QuotaExhausted = "quota_exhausted",
        /// Out of money, or at a cap that somebody set.
        Billing = "billing",
        /// The account has no allowance of this at all.
        NoAllowance = "no_allowance",
        /// The provider has no capacity.
        Overloaded = "overloaded",
        /// Somebody else holds the same object.
        LockConflict = "lock_conflict",
        /// The credential is wrong, expired or blocked.
        Credential = "credential",
        /// The credential is good and may not do this.
        Permission = "permission",
        /// The call can never fit the limit.
        TooLarge = "too_large",
        /// The same idempotency key is being processed.
        KeyInProgress = "key_in_progress",
        /// The same idempotency key came with another payload.
        KeyMismatch = "key_mismatch",
        /// Any other error of the caller.
        CallerError = "caller_error",
        /// Any other error of the provider.
        ProviderError = "provider_error",
        /// The provider failed and may have done the work.
        OutcomeUnknown = "outcome_unknown",
    }
}

impl Kind {
    /// What the ledger and the action make of it.
    pub const fn meaning(self, status: u16) -> Meaning {
        match self {
            Kind::Ok | Kind::NearLimit | Kind::Replayed | Kind::PartlyLimited => Meaning::Ok,
            Kind::RateLimited => Meaning::RateLimited,
            Kind::TooManyConcurrent => Meaning::TooManyConcurrent,
            Kind::QuotaExhausted => Meaning::QuotaExhausted,
            Kind::Billing | Kind::NoAllowance => Meaning::Billing,
            Kind::Overloaded => Meaning::Overloaded,
            Kind::LockConflict => match status {
                429 | 503 => Meaning::Overloaded,
                _ => Meaning::CallerError,
            },
            Kind::Credential => Meaning::Credential,
            Kind::TooLarge => Meaning::TooLarge,
            Kind::KeyInProgress => Meaning::KeyInProgress,
            Kind::KeyMismatch => Meaning::KeyMismatch,
            Kind::Permission | Kind::CallerError => Meaning::CallerError,
            Kind::ProviderError | Kind::OutcomeUnknown => Meaning::ProviderError,
        }
    }

    /// The kind of which nothing more is known than its meaning.
    pub const fn of(meaning: Meaning) -> Kind {
        match meaning {
            Meaning::Ok => Kind::Ok,
            Meaning::RateLimited => Kind::RateLimited,
            Meaning::TooManyConcurrent => Kind::TooManyConcurrent,
            Meaning::QuotaExhausted => Kind::QuotaExhausted,
            Meaning::Billing => Kind::Billing,
            Meaning::Overloaded => Kind::Overloaded,
            Meaning::Credential => Kind::Credential,
            Meaning::TooLarge => Kind::TooLarge,
            Meaning::KeyInProgress => Kind::KeyInProgress,
            Meaning::KeyMismatch => Kind::KeyMismatch,
            Meaning::CallerError => Kind::CallerError,
            Meaning::ProviderError => Kind::ProviderError,
        }
    }

    /// What a status alone means, given that the answer is an error.
    pub(crate) const fn of_status(status: u16) -> Kind {
        match status {
            401 => Kind::Credential,
            402 => Kind::Billing,
            403 => Kind::Permission,
            // A time-out: what was asked for may have been done.
            408 | 504 => Kind::OutcomeUnknown,
            // Misdirected, or too early: to be sent once more.
            421 | 425 => Kind::ProviderError,
            413 => Kind::TooLarge,
            423 => Kind::LockConflict,
            429 => Kind::RateLimited,
            503 | 529 => Kind::Overloaded,
            // Below 400 only with an error body that no rule knows.
            0..=499 => Kind::CallerError,
            500.. => Kind::ProviderError,
        }
    }
}

words! {
    /// What helps after an answer, for whoever has nothing but the answer.
    Advice {
        /// Wait as long as the answer says.
        Wait = "wait",
        /// Wait, longer each time.
        Backoff = "backoff",
        /// Wait for the next window.
        NextWindow = "next_window",
        /// Wait until one of the own calls has finished.
        WhenOneFinishes = "when_one_finishes",
        /// Wait, and send the same key again.
        BackoffSameKey = "backoff_same_key",
        /// Find out what happened before anything is sent again.
        ReconcileFirst = "reconcile_first",
        /// Sending it again does not help.
        No = "no",
    }
}

/// What an answer says about when to come back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Return {
    /// The wait that it names.
    pub(crate) named: Option<Span>,
    /// The reset of the limit that is used up.
    pub(crate) reset: Option<Span>,
}

/// What helps after an answer of this kind, where the provider says nothing
/// else; `None` where nothing has to be helped.
pub(crate) fn advice(kind: Kind, back: Return) -> Option<Advice> {
    let is_wait = |span: Option<Span>| span.is_some_and(|span| !span.is_zero());
    let or_backoff = |waits| if waits { Advice::Wait } else { Advice::Backoff };
    Some(match kind {
        Kind::Ok | Kind::NearLimit | Kind::Replayed => return None,
        Kind::PartlyLimited => Advice::Wait,
        Kind::RateLimited => or_backoff(is_wait(back.named) || is_wait(back.reset)),
        Kind::Overloaded => or_backoff(is_wait(back.named)),
        Kind::TooManyConcurrent => Advice::WhenOneFinishes,
        Kind::QuotaExhausted => Advice::NextWindow,
        Kind::LockConflict | Kind::ProviderError => Advice::Backoff,
        Kind::KeyInProgress => Advice::BackoffSameKey,
        Kind::OutcomeUnknown => Advice::ReconcileFirst,
        Kind::Billing
        | Kind::NoAllowance
        | Kind::Credential
        | Kind::Permission
        | Kind::TooLarge
        | Kind::KeyMismatch
        | Kind::CallerError => Advice::No,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meaning_is_its_own_kind_whatever_the_status() {
        for meaning in Meaning::ALL {
            let kind = Kind::of(*meaning);
            assert_eq!(kind.word(), meaning.word());
            assert_eq!(kind.meaning(429), *meaning);
        }
    }

    #[test]
    fn a_lock_holds_its_endpoint_and_never_the_account() {
        assert_eq!(Kind::LockConflict.meaning(429), Meaning::Overloaded);
        assert_eq!(Kind::LockConflict.meaning(409), Meaning::CallerError);
        assert_eq!(Kind::LockConflict.meaning(423), Meaning::CallerError);
    }

    #[test]
    fn a_wait_of_nothing_is_no_reason_to_wait() {
        let named = |seconds| Return {
            named: Some(Span::from_secs(seconds)),
            reset: None,
        };
        assert_eq!(advice(Kind::RateLimited, named(0)), Some(Advice::Backoff));
        assert_eq!(advice(Kind::RateLimited, named(2)), Some(Advice::Wait));
        let reset = Return {
            named: None,
            reset: Some(Span::from_secs(12)),
        };
        assert_eq!(advice(Kind::RateLimited, reset), Some(Advice::Wait));
        assert_eq!(advice(Kind::Overloaded, reset), Some(Advice::Backoff));
        assert_eq!(advice(Kind::Ok, reset), None);
    }
}
