//! What an attempt proved about its effect.
//!
//! [`certainty`] is the table "failure → certainty" of the specification as a
//! `match`; [`outcome`] is the word that people see. Both are total: whatever
//! was seen has exactly one answer, and what is not known to be harmless is
//! `unknown`.
//!
//! Example: a `POST` whose connection was reset after 67 bytes had been written
//! is [`Certainty::Unknown`], because the same error reaches a client whether
//! the server never read the request or had just finished it. The same reset
//! with 0 bytes written is [`Certainty::NotSent`].
//!
//! Sources: RFC 9110 §9.2.2 (a client does not repeat a non-idempotent request
//! unless it can tell that the first was never applied), §15.5.9 (408) and
//! §15.5.20 (421), RFC 8470 (425), RFC 9113 §8.7 (refused streams).

use crate::observe::{Facts, Meaning};
use crate::policy::Profile;
use crate::word::{Class, Outcome};

/// Why certainly no byte of the request left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NotSent {
    /// The name did not resolve.
    Dns,
    /// No connection: refused, unreachable, timed out.
    Connect,
    /// The TLS handshake failed for a passing reason.
    Tls,
    /// The certificate was not accepted: configuration, not weather.
    Certificate,
    /// The connection ended before a byte of this request was written, or the
    /// HTTP library gave the request back unserialised.
    ConnectionClosed,
    /// The caller left, or the action was cancelled, before anything was written.
    Withdrawn,
}

/// Why nobody knows whether the request had its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lost {
    /// The connection was reset or closed after a byte was written and before a full head.
    Closed,
    /// No answer in time.
    TimedOut,
    /// The upload of the request was cut.
    UploadCut,
    /// The answer was not HTTP.
    Malformed,
    /// The caller left while the attempt was open.
    CallerGone,
    /// The governor itself stopped while the attempt was open.
    OwnCrash,
    /// The permit's holder never reported.
    Unreported,
}

/// What was seen of one attempt. Built by the transport, judged here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Certainly not sent.
    NotSent(NotSent),
    /// Bytes left and the peer promised that it did nothing with them
    /// (HTTP/2 REFUSED_STREAM, GOAWAY below the stream, 421, 425).
    NotProcessed,
    /// A head arrived, and as much of the body as `body` says.
    Answered {
        /// What the answer says.
        facts: Facts,
        /// What came of its body.
        body: Body,
        /// Whether the whole request had left when the answer came.
        upload: Upload,
    },
    /// Bytes left, no complete head came back.
    Lost(Lost),
}

/// What came of an answer's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Body {
    /// All of it, with a proper end mark.
    Complete,
    /// It streams on (reads and generations are judged at their head).
    Open,
    /// Cut, or delimited only by the close of the connection and without its own end mark.
    Cut,
}

/// How much of the request had left when the answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Upload {
    /// All of it, also where there was no body.
    Complete,
    /// The provider answered before the request was complete.
    Partial,
}

/// Whether an earlier attempt of the same action is still unresolved: it may
/// have had its effect, and neither a look-up nor a person has said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AfterUnknown {
    /// Every earlier attempt certainly had no effect, or there was none.
    No,
    /// At least one may have had its effect.
    Yes,
}

/// How sure the governor is about the effect of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// No byte left.
    NotSent,
    /// The peer promises that it did nothing.
    NotProcessed,
    /// The provider's own complete answer.
    Definite,
    /// A success status, but the body is lost: it happened, the result is missing.
    CommittedBodyLost,
    /// Everything else.
    Unknown,
}

impl Certainty {
    /// The word used in records and in API answers.
    pub const fn word(self) -> &'static str {
        match self {
            Certainty::NotSent => "not_sent",
            Certainty::NotProcessed => "not_processed",
            Certainty::Definite => "definite",
            Certainty::CommittedBodyLost => "committed_body_lost",
            Certainty::Unknown => "unknown",
        }
    }
}

/// What the evidence of one attempt proves. O(1).
///
/// Row names follow the failure table of the specification. HTTP/2 rows arrive
/// as [`Evidence::NotProcessed`] (refused stream, GOAWAY below the stream) or as
/// [`Evidence::Lost`] (every other reset), which the transport tells apart.
pub fn certainty(
    evidence: &Evidence,
    class: Class,
    profile: &Profile,
    after_unknown: AfterUnknown,
) -> Certainty {
    match evidence {
        // DNS, connect, TLS, proxy CONNECT, no free connection, request handed
        // back, reset with nothing written (rows 1–7).
        Evidence::NotSent(_) => Certainty::NotSent,
        // Refused stream, GOAWAY below the stream, 421, 425 (rows 16, 17, 29, 32).
        Evidence::NotProcessed => Certainty::NotProcessed,
        // Reset or close after a byte, time-out, upload cut, only 1xx, malformed,
        // any other h2 or h3 reset, our own crash (rows 8–12, 15, 18–20, 41, 42).
        Evidence::Lost(_) => Certainty::Unknown,
        Evidence::Answered {
            facts,
            body,
            upload,
        } => answered(
            &Answer {
                facts,
                body: *body,
                upload: *upload,
            },
            class,
            profile,
            after_unknown,
        ),
    }
}

/// An answer whose head arrived.
struct Answer<'a> {
    facts: &'a Facts,
    body: Body,
    upload: Upload,
}

fn answered(a: &Answer<'_>, class: Class, profile: &Profile, after: AfterUnknown) -> Certainty {
    let write = class.is_write();
    match (meaning(a.facts, profile, after), a.facts.status) {
        // A success (rows 13 and 14 where its body is lost). A write is judged
        // when its body ends, so one that still streams is not settled yet.
        (Meaning::Ok, 200..=299) => match a.body {
            Body::Complete => Certainty::Definite,
            Body::Open if !write => Certainty::Definite,
            Body::Open | Body::Cut => Certainty::CommittedBodyLost,
        },
        // The same key is being processed: pending, so not known (row 27).
        (Meaning::KeyInProgress, _) if write => Certainty::Unknown,
        // The key came with another payload: our own mistake (row 30).
        (Meaning::KeyMismatch, _) => Certainty::Definite,
        // Already absent, where the endpoint's rule calls that success.
        (Meaning::CallerError, 404 | 410) if profile.absent_is_success => Certainty::Definite,
        // Absent, exists or version conflict after an unknown attempt: maybe our
        // own success (row 25).
        (Meaning::CallerError, 404 | 409 | 410 | 412) if write && after == AfterUnknown::Yes => {
            Certainty::Unknown
        }
        // Rate limit or concurrency limit (row 33).
        (Meaning::RateLimited | Meaning::TooManyConcurrent, _) => {
            promised(!write || says_unprocessed(profile, a.facts))
        }
        // Quota or money is gone, under any status (row 23); wrong credential
        // (row 22); a call that can never fit.
        (Meaning::QuotaExhausted | Meaning::Billing, _) => Certainty::Definite,
        (Meaning::Credential | Meaning::TooLarge, _) => Certainty::Definite,
        // Overloaded, 503, 529 (row 37). Shedders usually refuse before they
        // process, but only the profile can promise it for a write.
        (Meaning::Overloaded, _) | (Meaning::ProviderError, 503 | 529) => {
            promised(!write || says_unprocessed(profile, a.facts))
        }
        // Request time-out (row 26): the server says that it never had it whole.
        (_, 408) => promised(a.upload == Upload::Partial || says_unprocessed(profile, a.facts)),
        // Wrong connection, too early (rows 29, 32): promised by their RFCs.
        (_, 421 | 425) => Certainty::NotProcessed,
        // An error object or an error event before any content, under a success
        // status: without outside effect it is a plain refusal; a write that
        // began and then failed may have done part of its work.
        (Meaning::ProviderError, 200..=299) => promised(!write),
        (Meaning::CallerError, 200..=299) => Certainty::Definite,
        // Redirects: nothing more will be done by this server (row 38).
        (_, 300..=399) => Certainty::Definite,
        // Any other error of the caller (rows 21, 24, 28, 31).
        (_, 400..=499) => Certainty::Definite,
        // Not implemented, version, captive portal (row 35).
        (_, 501 | 505 | 511) => Certainty::Definite,
        // A proxy lost the origin (row 36).
        (_, 502 | 504) => Certainty::Unknown,
        // Any other error of the provider (row 34): unknown for whatever can
        // change something or cost something.
        (_, 500..=599) if class == Class::Read => Certainty::Definite,
        // What is left is no final HTTP status at all (rows 12, 15).
        _ => Certainty::Unknown,
    }
}

/// A refusal is "not processed" only on a promise.
const fn promised(promise: bool) -> Certainty {
    if promise {
        Certainty::NotProcessed
    } else {
        Certainty::Unknown
    }
}

fn says_unprocessed(profile: &Profile, facts: &Facts) -> bool {
    let listed = &profile.refusals_unprocessed;
    listed.contains(&facts.status) || listed.contains(&counted_as(facts))
}

/// The status under which the policy's `retry_statuses` and the profile's
/// promises count an answer: presets map meanings to 429 and 503, and an error
/// under a success status counts as the error that it is.
pub fn counted_as(facts: &Facts) -> u16 {
    match (facts.meaning, facts.status) {
        (Meaning::RateLimited | Meaning::TooManyConcurrent | Meaning::QuotaExhausted, _) => 429,
        (Meaning::Overloaded, _) => 503,
        (Meaning::ProviderError, 200..=299) => 500,
        (Meaning::CallerError, 200..=299) => 400,
        (_, status) => status,
    }
}

/// What an answer means under the endpoint's profile.
///
/// A profile names the *status* of "this key is in progress" and "this key came
/// with another payload", and providers use the same 409 and 422 for ordinary
/// conflicts and validation errors. The bare status is believed only where an
/// earlier attempt may have brought the key there; a code that names the key is
/// believed at once.
pub fn meaning(facts: &Facts, profile: &Profile, after_unknown: AfterUnknown) -> Meaning {
    let (Meaning::CallerError, Some(contract)) = (facts.meaning, &profile.idempotency) else {
        return facts.meaning;
    };
    let names_key = facts
        .error_code
        .as_deref()
        .map(|code| code.contains("idempot"));
    let believed = match names_key {
        Some(names_key) => names_key,
        None => after_unknown == AfterUnknown::Yes,
    };
    match Some(facts.status) {
        status if believed && status == contract.in_progress => Meaning::KeyInProgress,
        status if believed && status == contract.mismatch => Meaning::KeyMismatch,
        _ => Meaning::CallerError,
    }
}

/// The word for what is known after one attempt. O(1).
///
/// It speaks of the attempt. An action with an earlier unresolved attempt stays
/// `unknown` as a whole until a success, a look-up or a person settles it.
pub fn outcome(
    evidence: &Evidence,
    class: Class,
    profile: &Profile,
    after_unknown: AfterUnknown,
) -> Outcome {
    match certainty(evidence, class, profile, after_unknown) {
        Certainty::NotSent => Outcome::NotSent,
        Certainty::NotProcessed => Outcome::Refused,
        Certainty::CommittedBodyLost => Outcome::Done,
        Certainty::Unknown => Outcome::Unknown,
        Certainty::Definite => match evidence {
            Evidence::Answered { facts, .. } => definite(facts, profile),
            // Only an answer can be definite; anything else is not known.
            _ => Outcome::Unknown,
        },
    }
}

fn definite(facts: &Facts, profile: &Profile) -> Outcome {
    match (facts.meaning, facts.status) {
        (Meaning::Ok, 200..=299) => Outcome::Done,
        (Meaning::CallerError, 404 | 410) if profile.absent_is_success => Outcome::Done,
        // "See other" is how a form answers after it did its work, and 302 is
        // used in its place; calling these "failed" would invite a second send.
        (_, 302..=304) => Outcome::Done,
        (Meaning::QuotaExhausted | Meaning::Billing, _) => Outcome::Refused,
        (Meaning::Credential | Meaning::TooLarge, _) => Outcome::Refused,
        _ => Outcome::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Idempotency, Stores};
    use crate::time::Span;

    fn answer(status: u16, meaning: Meaning, body: Body) -> Evidence {
        Evidence::Answered {
            facts: Facts::bare(status, meaning),
            body,
            upload: Upload::Complete,
        }
    }

    fn check(evidence: &Evidence, class: Class, expected: (Certainty, Outcome)) {
        let profile = Profile::nothing();
        let got = (
            certainty(evidence, class, &profile, AfterUnknown::No),
            outcome(evidence, class, &profile, AfterUnknown::No),
        );
        assert_eq!(got, expected, "{class} {evidence:?}");
    }

    #[test]
    fn a_write_is_judged_when_its_body_ends_and_a_read_at_its_head() {
        let streams = answer(200, Meaning::Ok, Body::Open);
        let done = (Certainty::Definite, Outcome::Done);
        check(&streams, Class::Read, done);
        check(&streams, Class::Generation, done);
        let lost = (Certainty::CommittedBodyLost, Outcome::Done);
        check(&streams, Class::IdempotentWrite, lost);
        check(&streams, Class::UncertainWrite, lost);
    }

    #[test]
    fn the_words_follow_from_what_is_proved() {
        let write = Class::UncertainWrite;
        let not_sent = Evidence::NotSent(NotSent::Dns);
        check(&not_sent, write, (Certainty::NotSent, Outcome::NotSent));
        check(
            &Evidence::NotProcessed,
            write,
            (Certainty::NotProcessed, Outcome::Refused),
        );
        let lost = Evidence::Lost(Lost::OwnCrash);
        check(&lost, write, (Certainty::Unknown, Outcome::Unknown));
        let limited = answer(429, Meaning::RateLimited, Body::Cut);
        check(&limited, write, (Certainty::NotProcessed, Outcome::Refused));
        for meaning in [Meaning::Billing, Meaning::Credential, Meaning::TooLarge] {
            let refused = answer(403, meaning, Body::Complete);
            check(&refused, write, (Certainty::Definite, Outcome::Refused));
        }
        let mistake = answer(400, Meaning::CallerError, Body::Complete);
        check(&mistake, write, (Certainty::Definite, Outcome::Failed));
    }

    #[test]
    fn what_is_no_final_status_is_not_known() {
        for status in [0, 100, 101, 600, 999] {
            let odd = answer(status, Meaning::Ok, Body::Complete);
            check(
                &odd,
                Class::UncertainWrite,
                (Certainty::Unknown, Outcome::Unknown),
            );
        }
    }

    #[test]
    fn an_error_under_a_success_status_counts_as_what_it_means() {
        let as_counted = |status, meaning| counted_as(&Facts::bare(status, meaning));
        assert_eq!(as_counted(200, Meaning::RateLimited), 429);
        assert_eq!(as_counted(403, Meaning::RateLimited), 429);
        assert_eq!(as_counted(529, Meaning::Overloaded), 503);
        assert_eq!(as_counted(200, Meaning::ProviderError), 500);
        assert_eq!(as_counted(200, Meaning::CallerError), 400);
        assert_eq!(as_counted(402, Meaning::Billing), 402);
    }

    #[test]
    fn only_the_profile_makes_an_overload_of_a_write_certain() {
        let overloaded = answer(529, Meaning::Overloaded, Body::Complete);
        let of = |statuses: &[u16]| {
            let profile = Profile {
                refusals_unprocessed: statuses.to_vec(),
                ..Profile::nothing()
            };
            certainty(
                &overloaded,
                Class::UncertainWrite,
                &profile,
                AfterUnknown::No,
            )
        };
        assert_eq!(of(&[429]), Certainty::Unknown);
        assert_eq!(of(&[503]), Certainty::NotProcessed);
        assert_eq!(of(&[529]), Certainty::NotProcessed);
    }

    #[test]
    fn a_code_that_names_the_key_is_believed_and_another_code_is_not() {
        let contract = Idempotency {
            lifetime: Span::from_secs(60),
            stores: Stores::All,
            in_progress: Some(409),
            mismatch: Some(422),
        };
        let profile = Profile {
            idempotency: Some(contract),
            ..Profile::nothing()
        };
        let of = |status, code: Option<&str>, after| {
            let error_code = code.map(str::to_owned);
            let facts = Facts {
                error_code,
                ..Facts::bare(status, Meaning::CallerError)
            };
            meaning(&facts, &profile, after)
        };
        let named = Some("idempotency_key_in_use");
        assert_eq!(of(409, named, AfterUnknown::No), Meaning::KeyInProgress);
        assert_eq!(of(422, named, AfterUnknown::No), Meaning::KeyMismatch);
        assert_eq!(
            of(409, Some("sold_out"), AfterUnknown::Yes),
            Meaning::CallerError
        );
        assert_eq!(of(409, None, AfterUnknown::No), Meaning::CallerError);
        assert_eq!(of(409, None, AfterUnknown::Yes), Meaning::KeyInProgress);
        assert_eq!(of(400, named, AfterUnknown::Yes), Meaning::CallerError);
    }
}
