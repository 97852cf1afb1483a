//! What may follow an attempt, as values: the answers of
//! [`decide`](super::decide::decide).
//!
//! A repeat always uses the action's one key, if it has one; so no variant says
//! which key. Every reason has a sentence for records and for people.

use super::outcome::{Lost, NotSent};
use super::problem::Code;
use crate::time::Moment;
use crate::word::Trigger;

/// What follows an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The provider's answer is the last word: pass it on unchanged.
    Deliver {
        /// The wait that was too long to be kept here, if that is why it ends.
        hand_back: Option<HandBack>,
    },
    /// Send again, under the same key if there is one.
    Retry {
        /// Not before this; the scope's permit comes on top.
        earliest: Moment,
        /// Why a repeat is allowed.
        why: RetryWhy,
        /// Which shared budget pays for it.
        charge: Charge,
    },
    /// Ask the provider what happened; send nothing meanwhile.
    Reconcile {
        /// The first look-up, not before this.
        not_before: Moment,
        /// What is not known.
        why: Unresolved,
    },
    /// Send the same key again, because the provider promises to deduplicate it
    /// and there is no look-up. Recorded as a reconciliation first, counted as
    /// an attempt.
    RepeatAsReconciliation {
        /// Not before this.
        earliest: Moment,
        /// What is not known.
        why: Unresolved,
        /// Which shared budget pays for it.
        charge: Charge,
    },
    /// Ask a person; send nothing meanwhile.
    Escalate {
        /// Why a person is asked.
        trigger: Trigger,
        /// What is not known.
        why: Unresolved,
    },
    /// The action ends, and there is no answer of the provider to pass on: the
    /// governor speaks.
    GiveUp {
        /// What it says.
        code: Code,
        /// The wait that was too long to be kept here, if that is why it ends.
        hand_back: Option<HandBack>,
    },
}

/// A wait that is given back to whoever can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandBack {
    /// When a send could have been tried; the time to tell the caller.
    /// [`Moment::NEVER`] if that is up to a person.
    pub at: Moment,
    /// Which bound it went beyond.
    pub beyond: Beyond,
}

impl HandBack {
    /// Whether a person is told as well. A caller that merely isn't held that
    /// long comes back by itself; a deadline or a budget that can't be kept is
    /// something only a person can change.
    pub const fn trigger(&self) -> Option<Trigger> {
        match self.beyond {
            Beyond::Hold => None,
            Beyond::WaitBudget | Beyond::Deadline => Some(Trigger::WaitBeyondDeadline),
            Beyond::Reopening => Some(Trigger::QuotaExhausted),
        }
    }

    /// The time to tell the caller, if anybody can say one.
    pub fn retry_at(&self) -> Option<Moment> {
        Some(self.at).filter(|at| *at < Moment::NEVER)
    }
}

/// The bound that a wait would break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// How long the caller may be held.
    Hold,
    /// The waiting time of the action or of its task.
    WaitBudget,
    /// The deadline of the action or of its task.
    Deadline,
    /// None that time could reach: a scope is closed until a person reopens it.
    Reopening,
}

/// Which budget of the scope pays for a repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// None: a definite refusal or a connection that cost the provider nothing.
    /// (A refusal is charged to the refusal budget when it is observed.)
    Free,
    /// The ratio budget: ambiguous failures, 5xx, time-outs.
    Ratio,
}

/// Why a repeat is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryWhy {
    /// No byte left.
    NotSent(NotSent),
    /// The provider refused and did nothing.
    Refused,
    /// The provider failed, and a repeat can do no harm.
    ProviderFailed,
    /// No usable answer, and a repeat can do no harm.
    NoAnswer,
    /// A generation that may have been billed; the operator allows a repeat.
    PossiblyBilled,
    /// A look-up proved that nothing was applied.
    ProvenAbsent,
}

impl RetryWhy {
    /// The word used in records.
    pub const fn word(self) -> &'static str {
        match self {
            RetryWhy::NotSent(_) => "not_sent",
            RetryWhy::Refused => "refused",
            RetryWhy::ProviderFailed => "provider_failed",
            RetryWhy::NoAnswer => "no_answer",
            RetryWhy::PossiblyBilled => "possibly_billed",
            RetryWhy::ProvenAbsent => "proven_absent",
        }
    }
}

/// Why it is not known what a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// Bytes left, no answer came.
    NoAnswer(Lost),
    /// The answer leaves it open: 500, 502, 504, an unpromised 429 or 503, …
    Ambiguous(u16),
    /// A failure that the provider stores under the key: a repeat would only
    /// replay it.
    StoredFailure(u16),
    /// Absent, exists or version conflict after an unknown attempt: maybe our
    /// own success.
    MaybeOurs(u16),
    /// It happened, but its result was lost on the way.
    BodyLost,
    /// The same key is still being processed.
    KeyInProgress,
    /// The provider refused the key for these bytes.
    KeyMismatch,
    /// This attempt did nothing, but an earlier one may have.
    Earlier,
}

impl Unresolved {
    /// The word used in records.
    pub const fn word(self) -> &'static str {
        match self {
            Unresolved::NoAnswer(_) => "no_answer",
            Unresolved::Ambiguous(_) => "ambiguous_answer",
            Unresolved::StoredFailure(_) => "stored_failure",
            Unresolved::MaybeOurs(_) => "maybe_our_own_success",
            Unresolved::BodyLost => "result_lost",
            Unresolved::KeyInProgress => "key_in_progress",
            Unresolved::KeyMismatch => "key_mismatch",
            Unresolved::Earlier => "earlier_attempt_unknown",
        }
    }

    /// The reason as an operator reads it.
    pub const fn says(self) -> &'static str {
        match self {
            Unresolved::NoAnswer(Lost::OwnCrash) => {
                "the governor stopped while the write was open, so it may have happened"
            }
            Unresolved::NoAnswer(Lost::TimedOut) => {
                "the write was sent and no answer came in time, so it may have happened"
            }
            Unresolved::NoAnswer(Lost::UploadCut) => {
                "the write was cut while it was sent, and a server may act on a part"
            }
            Unresolved::NoAnswer(Lost::Unreported) => {
                "the permit's holder never reported, so the write may have happened"
            }
            Unresolved::NoAnswer(_) => {
                "bytes of the write left and no usable answer came back, so it may have happened"
            }
            Unresolved::Ambiguous(_) => "the answer doesn't tell whether the write was carried out",
            Unresolved::StoredFailure(_) => {
                "the provider keeps this failure under the key, so a repeat would only replay it"
            }
            Unresolved::MaybeOurs(_) => {
                "after an attempt of unknown outcome this answer may mean that it had succeeded"
            }
            Unresolved::BodyLost => "the write was carried out, but its result was lost on the way",
            Unresolved::KeyInProgress => "the provider is still processing the same key",
            Unresolved::KeyMismatch => {
                "the provider says that the key came with another payload, so bytes under it \
                 have changed"
            }
            Unresolved::Earlier => {
                "this attempt did nothing, but an earlier one may have been carried out"
            }
        }
    }
}
