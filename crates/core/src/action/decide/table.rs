//! The failure table as this code gives it, to be laid beside the specification's.
//!
//! Every row is one failure; the columns are what it proves and what follows for
//! a read, an idempotent write with a key only, one with a look-up, an uncertain
//! write with and without a look-up (with more attempts than the default, so
//! that what it may repeat shows), and a generation. Letters: `N` not sent, `P` not
//! processed, `D` definite, `B` body lost, `?` unknown. `too long`: the answer is
//! delivered with the time; `end`: the governor itself speaks.

use super::*;
use crate::action::outcome::{Body, Upload};
use crate::policy::{Backoff, ClassLimits, Idempotency, Lookup, Profile, Stores};
use crate::time::Span;

/// One failure.
struct Row(&'static str, Evidence);

fn answer(status: u16, meaning: Meaning) -> Evidence {
    answer_with(status, meaning, Body::Complete, Upload::Complete)
}

fn answer_with(status: u16, meaning: Meaning, body: Body, upload: Upload) -> Evidence {
    Evidence::Answered {
        facts: Facts::bare(status, meaning),
        body,
        upload,
    }
}

fn hinted(status: u16, meaning: Meaning, seconds: u64) -> Evidence {
    let mut facts = Facts::bare(status, meaning);
    facts.retry_after = Some(Span::from_secs(seconds));
    Evidence::Answered {
        facts,
        body: Body::Complete,
        upload: Upload::Complete,
    }
}

fn coded(status: u16, code: &str) -> Evidence {
    let mut facts = Facts::bare(status, Meaning::CallerError);
    facts.error_code = Some(code.to_owned());
    Evidence::Answered {
        facts,
        body: Body::Complete,
        upload: Upload::Complete,
    }
}

fn rows() -> Vec<Row> {
    use Meaning as M;
    vec![
        Row("1 dns", Evidence::NotSent(NotSent::Dns)),
        Row("2,4 connect", Evidence::NotSent(NotSent::Connect)),
        Row("3 tls handshake", Evidence::NotSent(NotSent::Tls)),
        Row("3 certificate", Evidence::NotSent(NotSent::Certificate)),
        Row(
            "5-7 nothing written",
            Evidence::NotSent(NotSent::ConnectionClosed),
        ),
        Row("8,9,12 closed, byte out", Evidence::Lost(Lost::Closed)),
        Row("10 no answer in time", Evidence::Lost(Lost::TimedOut)),
        Row("11 upload cut", Evidence::Lost(Lost::UploadCut)),
        Row(
            "13,14 200, body cut",
            answer_with(200, M::Ok, Body::Cut, Upload::Complete),
        ),
        Row("15 malformed", Evidence::Lost(Lost::Malformed)),
        Row("16,17 h2 refused", Evidence::NotProcessed),
        Row("21 400", answer(400, M::CallerError)),
        Row("22 401", answer(401, M::Credential)),
        Row("23 402 billing", answer(402, M::Billing)),
        Row("23 quota gone", answer(429, M::QuotaExhausted)),
        Row("23 quota, named reset", hinted(429, M::QuotaExhausted, 20)),
        Row("24,25 404", answer(404, M::CallerError)),
        Row("24,25 409 exists", coded(409, "already_exists")),
        Row("24,25 412", answer(412, M::CallerError)),
        Row("26 408", answer(408, M::CallerError)),
        Row(
            "26 408, upload cut",
            answer_with(408, M::CallerError, Body::Complete, Upload::Partial),
        ),
        Row("27 409 in progress", answer(409, M::KeyInProgress)),
        Row("27 409, bare", answer(409, M::CallerError)),
        Row("29 421", answer(421, M::CallerError)),
        Row("30 422 key mismatch", answer(422, M::KeyMismatch)),
        Row("31 422 other", coded(422, "invalid_amount")),
        Row("32 425", answer(425, M::CallerError)),
        Row("33 429", answer(429, M::RateLimited)),
        Row("33 429, wait 20 s", hinted(429, M::RateLimited, 20)),
        Row("33 429, wait 1 h", hinted(429, M::RateLimited, 3_600)),
        Row("33 403 secondary", answer(403, M::RateLimited)),
        Row("34 500", answer(500, M::ProviderError)),
        Row("35 501", answer(501, M::ProviderError)),
        Row("36 502", answer(502, M::ProviderError)),
        Row("36 504", answer(504, M::ProviderError)),
        Row("37 503", answer(503, M::Overloaded)),
        Row("37 529", answer(529, M::Overloaded)),
        Row("38 303", answer(303, M::Ok)),
        Row("38 307", answer(307, M::Ok)),
        Row("41 our own crash", Evidence::Lost(Lost::OwnCrash)),
        Row("- 200, error object", answer(200, M::ProviderError)),
        Row("- 200, limit object", answer(200, M::RateLimited)),
        Row("- 200", answer(200, M::Ok)),
    ]
}

fn limits(max_attempts: u16, statuses: &[u16]) -> ClassLimits {
    ClassLimits {
        max_attempts,
        max_wait: Span::from_secs(120),
        retry_statuses: statuses.to_vec(),
        ambiguous_retry: false,
    }
}

fn keyed(stores: Stores) -> Profile {
    let lifetime = Span::from_secs(24 * 3_600);
    let idempotency = Idempotency {
        lifetime,
        stores,
        in_progress: Some(409),
        mismatch: Some(422),
    };
    Profile {
        idempotency: Some(idempotency),
        ..Profile::nothing()
    }
}

fn with_lookup(profile: Profile) -> Profile {
    let lookup = Lookup {
        authoritative: true,
        settle: Span::from_secs(1),
        max_in_flight: Span::from_secs(5),
        max_lookups: 5,
    };
    Profile {
        lookup: Some(lookup),
        ..profile
    }
}

/// The columns, with the limits of the specification and, for the uncertain
/// write, attempts and statuses that an operator has widened.
fn columns() -> Vec<(&'static str, Class, Profile, ClassLimits)> {
    let all = [408, 429, 500, 502, 503, 504];
    let write = [408, 429, 502, 503, 504];
    let nothing = Profile::nothing;
    vec![
        ("read", Class::Read, nothing(), limits(4, &all)),
        (
            "key",
            Class::IdempotentWrite,
            keyed(Stores::All),
            limits(3, &write),
        ),
        (
            "key, look",
            Class::IdempotentWrite,
            with_lookup(keyed(Stores::All)),
            limits(3, &write),
        ),
        ("unc.", Class::UncertainWrite, nothing(), limits(3, &write)),
        (
            "unc., look",
            Class::UncertainWrite,
            with_lookup(nothing()),
            limits(3, &write),
        ),
        ("gen.", Class::Generation, nothing(), limits(4, &all)),
    ]
}

/// One letter for what is proved, then what follows.
fn cell(certainty: Certainty, next: &Next) -> String {
    let letter = match certainty {
        Certainty::NotSent => 'N',
        Certainty::NotProcessed => 'P',
        Certainty::Definite => 'D',
        Certainty::CommittedBodyLost => 'B',
        Certainty::Unknown => '?',
    };
    let follows = match next {
        Next::Deliver { hand_back: None } => "deliver",
        Next::Deliver { hand_back: Some(_) } => "too long",
        Next::Retry { .. } => "retry",
        Next::Reconcile { .. } => "look up",
        Next::RepeatAsReconciliation { .. } => "same key",
        Next::Escalate { .. } => "ask",
        Next::GiveUp { .. } => "end",
    };
    format!("{letter} {follows}")
}

fn table(attempts: u16, after_unknown: AfterUnknown) -> String {
    let columns = columns();
    let mut out = format!("{:24}", "failure");
    for (name, ..) in &columns {
        out += &format!("  {name:10}");
    }
    for Row(name, evidence) in rows() {
        out = out.trim_end().to_owned();
        out += &format!("\n{name:24}");
        for (_, class, profile, limits) in &columns {
            // No earlier attempt of what changes nothing is ever unresolved.
            let after_unknown = if class.is_write() {
                after_unknown
            } else {
                AfterUnknown::No
            };
            let backoff = Backoff::default();
            let now = Moment::START + Span::from_secs(1_000);
            let input = Judged {
                evidence: &evidence,
                class: *class,
                profile,
                limits,
                backoff: &backoff,
                after_unknown,
                used: Used {
                    attempts,
                    waited: Span::ZERO,
                },
                lookups_made: 0,
                task: TaskAllowance::UNLIMITED,
                ratio: Ratio::Allows,
                replay: Replay::Kept,
                interest: Interest::Wanted,
                to_agent: ToAgent::Nothing,
                now,
                gate: Moment::START,
                held_until: Moment::NEVER,
                deadline: Moment::NEVER,
                key_safe_until: Some(now + Span::from_secs(3_600)),
                draw: Draw::ZERO,
            };
            let cell = cell(input.certainty(), &decide(&input));
            out += &format!("  {cell:10}");
        }
    }
    out.trim_end().to_owned()
}

#[test]
fn the_table_for_a_first_attempt_is_as_reviewed() {
    insta::assert_snapshot!(table(1, AfterUnknown::No), @r"
    failure                   read        key         key, look   unc.        unc., look  gen.
    1 dns                     N retry     N retry     N retry     N retry     N retry     N retry
    2,4 connect               N retry     N retry     N retry     N retry     N retry     N retry
    3 tls handshake           N retry     N retry     N retry     N retry     N retry     N retry
    3 certificate             N end       N end       N end       N end       N end       N end
    5-7 nothing written       N retry     N retry     N retry     N retry     N retry     N retry
    8,9,12 closed, byte out   ? retry     ? same key  ? look up   ? ask       ? look up   ? end
    10 no answer in time      ? retry     ? same key  ? look up   ? ask       ? look up   ? end
    11 upload cut             ? retry     ? same key  ? look up   ? ask       ? look up   ? end
    13,14 200, body cut       B retry     B end       B look up   B end       B look up   B end
    15 malformed              ? retry     ? same key  ? look up   ? ask       ? look up   ? end
    16,17 h2 refused          P retry     P retry     P retry     P retry     P retry     P retry
    21 400                    D deliver   D deliver   D deliver   D deliver   D deliver   D deliver
    22 401                    D deliver   D deliver   D deliver   D deliver   D deliver   D deliver
    23 402 billing            D deliver   D deliver   D deliver   D deliver   D deliver   D deliver
    23 quota gone             D deliver   D deliver   D deliver   D deliver   D deliver   D deliver
    23 quota, named reset     D retry     D retry     D retry     D retry     D retry     D retry
    24,25 404                 D deliver   D deliver   D deliver   D deliver   D deliver   D deliver
    24,25 409 exists          D deliver   D deliver   D deliver   D deliver   D deliver   D deliver
    24,25 412                 D deliver   D deliver   D deliver   D deliver   D deliver   D deliver
    26 408                    ? retry     ? same key  ? look up   ? ask       ? look up   ? deliver
    26 408, upload cut        P retry     P retry     P retry     P retry     P retry     P retry
    27 409 in progress        D deliver   ? same key  ? same key  ? ask       ? look up   D deliver
    27 409, bare              D deliver   D deliver   D deliver   D deliver   D deliver   D deliver
    29 421                    P retry     P retry     P retry     P retry     P retry     P retry
    30 422 key mismatch       D deliver   D deliver   D deliver   D deliver   D deliver   D deliver
    31 422 other              D deliver   D deliver   D deliver   D deliver   D deliver   D deliver
    32 425                    P retry     P retry     P retry     P retry     P retry     P retry
    33 429                    P retry     P retry     P retry     P retry     P retry     P retry
    33 429, wait 20 s         P retry     P retry     P retry     P retry     P retry     P retry
    33 429, wait 1 h          P too long  P too long  P too long  P too long  P too long  P too long
    33 403 secondary          P retry     P retry     P retry     P retry     P retry     P retry
    34 500                    D retry     ? ask       ? look up   ? ask       ? look up   ? deliver
    35 501                    D deliver   D deliver   D deliver   D deliver   D deliver   D deliver
    36 502                    ? retry     ? same key  ? look up   ? ask       ? look up   ? deliver
    36 504                    ? retry     ? same key  ? look up   ? ask       ? look up   ? deliver
    37 503                    P retry     ? same key  ? look up   ? ask       ? look up   P retry
    37 529                    P retry     ? same key  ? look up   ? ask       ? look up   P retry
    38 303                    D deliver   D deliver   D deliver   D deliver   D deliver   D deliver
    38 307                    D deliver   D deliver   D deliver   D deliver   D deliver   D deliver
    41 our own crash          ? retry     ? same key  ? look up   ? ask       ? look up   ? end
    - 200, error object       P retry     ? ask       ? look up   ? ask       ? look up   P retry
    - 200, limit object       P retry     P retry     P retry     P retry     P retry     P retry
    - 200                     D deliver   D deliver   D deliver   D deliver   D deliver   D deliver
    ");
}

#[test]
fn the_table_after_an_unknown_attempt_is_as_reviewed() {
    insta::assert_snapshot!(table(2, AfterUnknown::Yes), @r"
    failure                   read        key         key, look   unc.        unc., look  gen.
    1 dns                     N retry     N same key  N look up   N ask       N look up   N retry
    2,4 connect               N retry     N same key  N look up   N ask       N look up   N retry
    3 tls handshake           N end       N ask       N look up   N ask       N look up   N end
    3 certificate             N end       N ask       N look up   N ask       N look up   N end
    5-7 nothing written       N retry     N same key  N look up   N ask       N look up   N retry
    8,9,12 closed, byte out   ? retry     ? same key  ? look up   ? ask       ? look up   ? end
    10 no answer in time      ? retry     ? same key  ? look up   ? ask       ? look up   ? end
    11 upload cut             ? retry     ? same key  ? look up   ? ask       ? look up   ? end
    13,14 200, body cut       B retry     B end       B look up   B end       B look up   B end
    15 malformed              ? end       ? ask       ? look up   ? ask       ? look up   ? end
    16,17 h2 refused          P retry     P same key  P look up   P ask       P look up   P retry
    21 400                    D deliver   D ask       D look up   D ask       D look up   D deliver
    22 401                    D deliver   D ask       D look up   D ask       D look up   D deliver
    23 402 billing            D deliver   D ask       D look up   D ask       D look up   D deliver
    23 quota gone             D deliver   D ask       D look up   D ask       D look up   D deliver
    23 quota, named reset     D retry     D same key  D look up   D ask       D look up   D retry
    24,25 404                 D deliver   ? ask       ? look up   ? ask       ? look up   D deliver
    24,25 409 exists          D deliver   ? ask       ? look up   ? ask       ? look up   D deliver
    24,25 412                 D deliver   ? ask       ? look up   ? ask       ? look up   D deliver
    26 408                    ? retry     ? same key  ? look up   ? ask       ? look up   ? deliver
    26 408, upload cut        P retry     P same key  P look up   P ask       P look up   P retry
    27 409 in progress        D deliver   ? same key  ? same key  ? ask       ? look up   D deliver
    27 409, bare              D deliver   ? same key  ? same key  ? ask       ? look up   D deliver
    29 421                    P deliver   P ask       P look up   P ask       P look up   P deliver
    30 422 key mismatch       D deliver   D ask       D ask       D ask       D ask       D deliver
    31 422 other              D deliver   D ask       D look up   D ask       D look up   D deliver
    32 425                    P retry     P same key  P look up   P ask       P look up   P retry
    33 429                    P retry     P same key  P look up   P ask       P look up   P retry
    33 429, wait 20 s         P retry     P same key  P look up   P ask       P look up   P retry
    33 429, wait 1 h          P too long  P ask       P look up   P ask       P look up   P too long
    33 403 secondary          P retry     P same key  P look up   P ask       P look up   P retry
    34 500                    D retry     ? ask       ? look up   ? ask       ? look up   ? deliver
    35 501                    D deliver   D ask       D look up   D ask       D look up   D deliver
    36 502                    ? retry     ? same key  ? look up   ? ask       ? look up   ? deliver
    36 504                    ? retry     ? same key  ? look up   ? ask       ? look up   ? deliver
    37 503                    P retry     ? same key  ? look up   ? ask       ? look up   P retry
    37 529                    P retry     ? same key  ? look up   ? ask       ? look up   P retry
    38 303                    D deliver   D deliver   D deliver   D deliver   D deliver   D deliver
    38 307                    D deliver   D ask       D look up   D ask       D look up   D deliver
    41 our own crash          ? retry     ? same key  ? look up   ? ask       ? look up   ? end
    - 200, error object       P retry     ? ask       ? look up   ? ask       ? look up   P retry
    - 200, limit object       P retry     P same key  P look up   P ask       P look up   P retry
    - 200                     D deliver   D deliver   D deliver   D deliver   D deliver   D deliver
    ");
}
