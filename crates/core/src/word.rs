//! The closed vocabularies of the product, each with the word that people see.
//!
//! They are the table of the specification: one meaning each, the same in
//! code, configuration, API, records and documentation.

/// Declares an enum whose variants each have one word.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every variant, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The word that people see.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            /// The variant of a word; `None` for any other text.
            pub fn parse(word: &str) -> Option<$name> {
                match word { $($word => Some($name::$variant),)* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

words! {
    /// Rank for scheduling; smaller goes first.
    Priority {
        /// A person waits for it.
        Interactive = "interactive",
        /// Everything that says nothing.
        Normal = "normal",
        /// Nobody waits for it.
        Background = "background",
    }
}

words! {
    /// What a repeat of the call could do.
    Class {
        /// No outside effect.
        Read = "read",
        /// A repeat under the same key has no second effect.
        IdempotentWrite = "idempotent_write",
        /// A repeat may have a second effect.
        UncertainWrite = "uncertain_write",
        /// Model inference: no outside effect, but it costs money.
        Generation = "generation",
    }
}

impl Class {
    /// Whether a repeat could change something outside.
    pub const fn is_write(self) -> bool {
        matches!(self, Class::IdempotentWrite | Class::UncertainWrite)
    }
}

words! {
    /// A scope's state.
    Mode {
        /// Calls pass as the quota allows.
        Normal = "normal",
        /// Lower priorities are slowed down.
        Throttled = "throttled",
        /// Refused by the provider; nothing is sent until the hold ends.
        Closed = "closed",
        /// One call is out to see whether the provider accepts again.
        Probing = "probing",
        /// Accepted again; the rate climbs back.
        Ramping = "ramping",
    }
}

words! {
    /// What is known after an attempt.
    Outcome {
        /// No byte of the request left.
        NotSent = "not_sent",
        /// The provider refused and did nothing.
        Refused = "refused",
        /// The provider did it.
        Done = "done",
        /// The provider's own definite failure.
        Failed = "failed",
        /// Anything may have happened.
        Unknown = "unknown",
    }
}

words! {
    /// Why an attempt was made.
    Cause {
        /// The first send.
        First = "first",
        /// The retry policy.
        Policy = "policy",
        /// A re-send that is itself the reconciliation, or follows proof of absence.
        Reconciliation = "reconciliation",
        /// A person decided.
        Person = "person",
        /// The agent's own SDK repeated the call.
        ClientSdk = "client_sdk",
    }
}

words! {
    /// Where an action is in its life.
    State {
        /// Accepted; nothing sent, nothing waited for yet.
        Admitted = "admitted",
        /// Not sent, or every earlier attempt certainly had no effect; waits for its turn.
        Waiting = "waiting",
        /// An attempt is open; bytes may be on the wire.
        Dispatching = "dispatching",
        /// The last attempt ended without anybody knowing what happened.
        Unknown = "unknown",
        /// Looking up at the provider what happened.
        Reconciling = "reconciling",
        /// A person is asked.
        Escalated = "escalated",
        /// The provider did it; the result is known.
        Succeeded = "succeeded",
        /// Certainly not applied, and finished.
        FailedDefinite = "failed_definite",
        /// Cancelled, and certainly nothing was applied.
        CancelledNotSent = "cancelled_not_sent",
        /// Given up while the outcome is unknown.
        AbandonedUnknown = "abandoned_unknown",
        /// A person chose to send a new operation instead.
        Superseded = "superseded",
        /// A read or generation that was open when the governor stopped.
        Interrupted = "interrupted",
    }
}

impl State {
    /// Whether nothing can follow.
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            State::Succeeded
                | State::FailedDefinite
                | State::CancelledNotSent
                | State::AbandonedUnknown
                | State::Superseded
                | State::Interrupted
        )
    }
}

words! {
    /// A person's answer to an escalation.
    Choice {
        /// Ask the provider what happened.
        Query = "query_existing_operation",
        /// Send again under the same key.
        RetrySameKey = "retry_same_key",
        /// Give up.
        Cancel = "cancel",
        /// Send a new operation; it can have a second effect.
        SendNew = "send_new_operation",
        /// The person found out that it happened.
        ItHappened = "it_happened",
        /// The person found out that it did not happen.
        ItDidNot = "it_did_not",
        /// Go on waiting.
        Wait = "wait",
        /// Record that the limit is higher now, and go on.
        RaiseQuota = "raise_quota",
        /// End it, and hand the person's instruction to the agent.
        ChangePlan = "change_plan",
    }
}

words! {
    /// Why a person is asked.
    Trigger {
        /// It can't be established whether a write had its effect.
        UncertainEffect = "uncertain_effect",
        /// The remaining wait goes beyond the deadline.
        WaitBeyondDeadline = "wait_beyond_deadline",
        /// The quota is gone for longer than anybody may wait, or needs payment.
        QuotaExhausted = "quota_exhausted",
        /// Refusals keep coming below the declared limit.
        LimitMisconfigured = "limit_misconfigured",
        /// The breaker tripped on a write.
        BreakerTripped = "breaker_tripped",
    }
}
