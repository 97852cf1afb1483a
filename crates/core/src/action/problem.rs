//! Every sentence in which the governor itself speaks about an action: one
//! table, code → document → status → repeat → title → what to do.
//!
//! A status is a message to software that does not read further. So whatever
//! must not be repeated blindly (unknown, escalated, cancelled, still open,
//! stopped by the breaker, past its deadline) never carries a status that HTTP
//! libraries repeat by themselves: 408, 409, 425, 429 or 5xx. Where such a
//! status is used with [`ShouldRetry::No`], a blind repeat is useless but harmless.
//!
//! Codes are stable: a word and a number once published keep their meaning. Each
//! number is a page under `docs/errors/`. RG1xxx was never sent, RG2xxx may have
//! been.

use crate::word::Outcome;

/// A stable problem code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// The account's queue is full.
    QueueFull,
    /// The agent has too many calls waiting.
    AgentQueueFull,
    /// The wait is longer than the caller may be held.
    HoldExceeded,
    /// The scope's quota is gone for longer than anybody may wait.
    QuotaExhausted,
    /// The deadline passed before it could be sent.
    DeadlinePassed,
    /// The same call failed the same way too often in this task.
    BreakerTripped,
    /// The key came back with another payload.
    KeyReused,
    /// It looks like a write whose outcome is unknown.
    LookalikeHeld,
    /// Its record could not be made durable.
    AuditUnavailable,
    /// The governor is stopping.
    ShuttingDown,
    /// It was cancelled, and certainly nothing was applied.
    Cancelled,
    /// No connection to the provider.
    UpstreamUnreachable,
    /// The provider's certificate is not accepted.
    UpstreamCertificate,
    /// The provider's transport refused it unprocessed.
    UpstreamRefused,
    /// A read got no usable answer.
    UpstreamLost,
    /// A read got no answer in time.
    UpstreamTimeout,
    /// A generation got no answer, and may have been billed.
    PossiblyBilled,
    /// A stream broke after its first bytes had been passed on.
    StreamBroken,
    /// A write may have happened, and nobody could find out.
    OutcomeUnknown,
    /// A person is asked.
    Escalated,
    /// It was sent and is not settled yet.
    StillOpen,
    /// Accepted; its result will be there to fetch.
    Pending,
    /// It happened; only its result is lost.
    ResultLost,
    /// It was sent, and certainly had no effect.
    NotApplied,
    /// A person replaced it by a new operation.
    Superseded,
    /// The governor stopped while it was open.
    Interrupted,
}

/// What software that reads `x-should-retry` is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShouldRetry {
    /// The same call may succeed later: at `Retry-After`.
    Later,
    /// A repeat by itself can't help.
    No,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The document that explains it: `RGnnnn`.
    pub id: &'static str,
    /// The word in `code`.
    pub word: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// Whether software may repeat the call.
    pub should_retry: ShouldRetry,
    /// A short name for people.
    pub title: &'static str,
    /// What it means and what to do, as an agent can follow it. No secret, no
    /// name, no number: those are fields beside it.
    pub detail: &'static str,
}

impl Code {
    /// Every code, in the order of the numbers.
    pub const ALL: &'static [Code] = &[
        Code::QueueFull,
        Code::AgentQueueFull,
        Code::HoldExceeded,
        Code::QuotaExhausted,
        Code::DeadlinePassed,
        Code::BreakerTripped,
        Code::KeyReused,
        Code::LookalikeHeld,
        Code::AuditUnavailable,
        Code::ShuttingDown,
        Code::Cancelled,
        Code::UpstreamUnreachable,
        Code::UpstreamCertificate,
        Code::UpstreamRefused,
        Code::UpstreamLost,
        Code::UpstreamTimeout,
        Code::PossiblyBilled,
        Code::StreamBroken,
        Code::OutcomeUnknown,
        Code::Escalated,
        Code::StillOpen,
        Code::Pending,
        Code::ResultLost,
        Code::NotApplied,
        Code::Superseded,
        Code::Interrupted,
    ];

    /// Its row.
    #[rustfmt::skip] // A row reads as: number, word, status, repeat, title; then what to do.
    pub const fn problem(self) -> Problem {
        use ShouldRetry::{Later, No};
        match self {
            Code::QueueFull => row(
                "RG1001", "queue_full", 429, Later, "the queue is full",
                "too many calls wait for this account; nothing was sent. Come back at the stated \
                 time with the same call: it keeps its place"
            ),
            Code::AgentQueueFull => row(
                "RG1002", "agent_queue_full", 429, Later, "too many calls of this agent wait",
                "this agent has too many calls waiting; nothing was sent. Wait for some of them \
                 to finish before making more"
            ),
            Code::HoldExceeded => row(
                "RG1003", "hold_exceeded", 429, Later, "the wait is longer than it may be held",
                "it was not sent, because its turn comes later than it may be held. Come back at \
                 the stated time with the same call: it keeps its place"
            ),
            Code::QuotaExhausted => row(
                "RG1004", "quota_exhausted", 429, No, "the quota is used up",
                "the provider's quota is gone for longer than any call may wait, or needs \
                 payment; nothing was sent. Do other work; a person has been asked"
            ),
            Code::DeadlinePassed => row(
                "RG1005", "deadline_passed", 424, No, "the deadline passed first",
                "its deadline or its task's deadline passed before it could be sent; nothing was \
                 sent. Ask for more time or drop it"
            ),
            Code::BreakerTripped => row(
                "RG1006", "breaker_tripped", 424, No, "the same call keeps failing",
                "the same call failed the same way several times in this task, so it was not sent \
                 again. Change the call as the error says, or take another way"
            ),
            Code::KeyReused => row(
                "RG1007", "key_reused", 422, No, "the key belongs to another operation",
                "this key already stands for another operation of this account, so nothing was \
                 sent. Use a key only for the very same operation, and a new key for a new one"
            ),
            Code::LookalikeHeld => row(
                "RG1008", "lookalike_held", 424, No, "it looks like a write of unknown outcome",
                "an earlier write that looks like this one may have happened, so this one was not \
                 sent. Wait until the earlier one is settled"
            ),
            Code::AuditUnavailable => row(
                "RG1009", "audit_unavailable", 503, Later, "the record could not be kept",
                "its record could not be made durable, so nothing was sent. Try again later"
            ),
            Code::ShuttingDown => row(
                "RG1010", "shutting_down", 503, Later, "the governor is stopping",
                "the governor is stopping; nothing was sent. Try again later"
            ),
            Code::Cancelled => row(
                "RG1011", "cancelled", 410, No, "it was cancelled",
                "it or its task was cancelled, and certainly nothing was applied. It will never \
                 be sent; don't repeat it"
            ),
            Code::UpstreamUnreachable => row(
                "RG2001", "upstream_unreachable", 502, No, "the provider can't be reached",
                "no connection to the provider could be made within the budget; nothing was \
                 applied. It is safe to try again later"
            ),
            Code::UpstreamCertificate => row(
                "RG2002", "upstream_certificate", 502, No, "the certificate is not accepted",
                "the provider's certificate was not accepted; nothing was sent. An operator must \
                 look at the address or the trusted certificates"
            ),
            Code::UpstreamRefused => row(
                "RG2003", "upstream_refused", 502, No, "the provider turned it away unprocessed",
                "the provider's transport refused it unprocessed each time; nothing was applied. \
                 It is safe to try again later"
            ),
            Code::UpstreamLost => row(
                "RG2004", "upstream_lost", 502, No, "no usable answer came",
                "the call was sent and no usable answer came within the budget; it changes \
                 nothing outside. It is safe to try again later"
            ),
            Code::UpstreamTimeout => row(
                "RG2005", "upstream_timeout", 504, No, "no answer came in time",
                "the call was sent and no answer came in time; it changes nothing outside. It is \
                 safe to try again later"
            ),
            Code::PossiblyBilled => row(
                "RG2006", "possibly_billed", 424, No, "no answer came, and it may have been billed",
                "the generation was sent and no usable answer came; it may have been billed. \
                 Repeat it only if it is worth paying twice"
            ),
            Code::StreamBroken => row(
                "RG2007", "stream_broken", 502, No, "the stream broke",
                "the answer broke off after its first bytes had been passed on; what was received \
                 is incomplete. Treat its last item as partial"
            ),
            Code::OutcomeUnknown => row(
                "RG2008", "outcome_unknown", 424, No, "nobody knows whether it happened",
                "the write may have happened, and it could not be found out. Don't repeat it; \
                 check at the provider first"
            ),
            Code::Escalated => row(
                "RG2009", "escalated", 424, No, "a person is asked",
                "the write may have happened or can't go on by itself, and a person has been \
                 asked. Don't repeat it; go on with other work and fetch the action later"
            ),
            Code::StillOpen => row(
                "RG2010", "still_open", 424, No, "it is not settled yet",
                "it goes on, and only the time to hold the call is over; `sent` says whether it \
                 may have left. Don't repeat it; fetch the action by its id"
            ),
            Code::Pending => row(
                "RG2011", "pending", 202, No, "accepted",
                "it was accepted and goes on without the caller. Fetch the action by its id"
            ),
            Code::ResultLost => row(
                "RG2012", "result_lost", 424, No, "it happened, but its result is lost",
                "the provider carried it out, but the result was lost on the way and can't be \
                 fetched. Don't repeat it; look it up at the provider"
            ),
            Code::NotApplied => row(
                "RG2013", "not_applied", 424, No, "it did not happen",
                "it was sent, and it has been established that it had no effect. It is safe to \
                 send it again as a new call"
            ),
            Code::Superseded => row(
                "RG2014", "superseded", 410, No, "a person replaced it",
                "a person chose to send a new operation in its place. Fetch the new action; don't \
                 repeat this one"
            ),
            Code::Interrupted => row(
                "RG2015", "interrupted", 424, No, "the governor stopped while it was open",
                "the governor stopped while it was open; it changes nothing outside, but a \
                 generation may have been billed. Send it again if it is still needed"
            ),
        }
    }

    /// The word in `code`.
    pub const fn word(self) -> &'static str {
        self.problem().word
    }

    /// The code of a word.
    pub fn parse(word: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.word() == word)
    }

    /// What it says about the effect, where it says it by itself. `None` where
    /// the action's own outcome must be read beside it.
    pub const fn outcome(self) -> Option<Outcome> {
        match self {
            Code::QueueFull
            | Code::AgentQueueFull
            | Code::HoldExceeded
            | Code::QuotaExhausted
            | Code::DeadlinePassed
            | Code::BreakerTripped
            | Code::KeyReused
            | Code::LookalikeHeld
            | Code::AuditUnavailable
            | Code::ShuttingDown
            | Code::UpstreamUnreachable
            | Code::UpstreamCertificate => Some(Outcome::NotSent),
            Code::UpstreamRefused => Some(Outcome::Refused),
            Code::ResultLost => Some(Outcome::Done),
            Code::NotApplied => Some(Outcome::Failed),
            Code::OutcomeUnknown | Code::PossiblyBilled => Some(Outcome::Unknown),
            Code::Cancelled
            | Code::UpstreamLost
            | Code::UpstreamTimeout
            | Code::StreamBroken
            | Code::Escalated
            | Code::StillOpen
            | Code::Pending
            | Code::Superseded
            | Code::Interrupted => None,
        }
    }
}

const fn row(
    id: &'static str,
    word: &'static str,
    status: u16,
    should_retry: ShouldRetry,
    title: &'static str,
    detail: &'static str,
) -> Problem {
    Problem {
        id,
        word,
        status,
        should_retry,
        title,
        detail,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Whether HTTP libraries and SDKs repeat a call on this status by themselves.
    const fn is_repeated_by_sdks(status: u16) -> bool {
        matches!(status, 408 | 409 | 425 | 429 | 500..=599)
    }

    #[test]
    fn what_must_not_be_repeated_never_looks_repeatable() {
        for code in [
            Code::OutcomeUnknown,
            Code::Escalated,
            Code::StillOpen,
            Code::Pending,
            Code::ResultLost,
            Code::Cancelled,
            Code::Superseded,
            Code::PossiblyBilled,
            Code::Interrupted,
            Code::BreakerTripped,
            Code::DeadlinePassed,
            Code::KeyReused,
            Code::LookalikeHeld,
            Code::NotApplied,
        ] {
            let row = code.problem();
            assert_eq!(row.should_retry, ShouldRetry::No, "{code:?}");
            assert!(
                !is_repeated_by_sdks(row.status),
                "{code:?} uses {}",
                row.status
            );
        }
    }

    #[test]
    fn a_call_that_may_be_repeated_later_says_so_with_a_status_too() {
        for code in Code::ALL {
            let row = code.problem();
            if row.should_retry == ShouldRetry::Later {
                assert!(is_repeated_by_sdks(row.status), "{code:?}");
                assert_eq!(code.outcome(), Some(Outcome::NotSent), "{code:?}");
            }
        }
    }

    #[test]
    fn ids_and_words_are_unique_and_in_order() {
        let ids: Vec<_> = Code::ALL.iter().map(|c| c.problem().id).collect();
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(ids, sorted);
        let words: BTreeSet<_> = Code::ALL.iter().map(|c| c.word()).collect();
        assert_eq!(words.len(), Code::ALL.len());
        assert!(Code::ALL.iter().all(|c| Code::parse(c.word()) == Some(*c)));
        assert_eq!(Code::parse("teapot"), None);
    }

    #[test]
    fn numbers_tell_whether_it_may_have_been_sent() {
        for code in Code::ALL {
            let never_sent = code.problem().id.starts_with("RG1");
            if code.outcome().is_some_and(|o| o != Outcome::NotSent) {
                assert!(!never_sent, "{code:?}");
            }
        }
    }

    #[test]
    fn the_whole_table_is_as_reviewed() {
        let table: String = Code::ALL
            .iter()
            .map(|code| {
                let p = code.problem();
                format!(
                    "{} {} {:?} {}: {}\n",
                    p.id, p.status, p.should_retry, p.word, p.title
                )
            })
            .collect();
        insta::assert_snapshot!(table, @r"
        RG1001 429 Later queue_full: the queue is full
        RG1002 429 Later agent_queue_full: too many calls of this agent wait
        RG1003 429 Later hold_exceeded: the wait is longer than it may be held
        RG1004 429 No quota_exhausted: the quota is used up
        RG1005 424 No deadline_passed: the deadline passed first
        RG1006 424 No breaker_tripped: the same call keeps failing
        RG1007 422 No key_reused: the key belongs to another operation
        RG1008 424 No lookalike_held: it looks like a write of unknown outcome
        RG1009 503 Later audit_unavailable: the record could not be kept
        RG1010 503 Later shutting_down: the governor is stopping
        RG1011 410 No cancelled: it was cancelled
        RG2001 502 No upstream_unreachable: the provider can't be reached
        RG2002 502 No upstream_certificate: the certificate is not accepted
        RG2003 502 No upstream_refused: the provider turned it away unprocessed
        RG2004 502 No upstream_lost: no usable answer came
        RG2005 504 No upstream_timeout: no answer came in time
        RG2006 424 No possibly_billed: no answer came, and it may have been billed
        RG2007 502 No stream_broken: the stream broke
        RG2008 424 No outcome_unknown: nobody knows whether it happened
        RG2009 424 No escalated: a person is asked
        RG2010 424 No still_open: it is not settled yet
        RG2011 202 No pending: accepted
        RG2012 424 No result_lost: it happened, but its result is lost
        RG2013 424 No not_applied: it did not happen
        RG2014 410 No superseded: a person replaced it
        RG2015 424 No interrupted: the governor stopped while it was open
        ");
    }
}
