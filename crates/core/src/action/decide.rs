//! What follows an attempt: the table "failure → next step" of the
//! specification, driven by what the attempt proved.
//!
//! The tests come in this order, and the order is the promise:
//!
//! 1. **It happened.** A success is delivered. A success whose body was lost is
//!    looked up and never sent again.
//! 2. **A write that may have happened** is never called failed and never simply
//!    repeated: look it up; without a look-up, send a safe key again where the
//!    provider promises to deduplicate it; otherwise ask a person. This holds as
//!    long as *any* attempt of the action is unresolved, whatever the last one
//!    says: a clean 429 for the second copy proves nothing about the first.
//! 3. **Nobody wants it any more**: nothing is sent again.
//! 4. **Bytes of the answer have reached the agent**: nothing is sent again.
//! 5. **What the answer means**: billing, credentials and the caller's own
//!    mistakes end here; the class then says what kind of failure it may repeat.
//! 6. **Ceilings**: attempts, task, scope, and last the time. A wait that does
//!    not fit is handed back with its time; it is never shortened.
//!
//! Worked example: `POST /records` with a key and a look-up. Attempt 1 is reset
//! after 212 bytes → [`Next::Reconcile`] after the settle time. The same without
//! a look-up → [`Next::RepeatAsReconciliation`]. The same without either →
//! [`Next::Escalate`]. A `GET` → [`Next::Retry`].

use super::budget::{TaskAllowance, Used};
use super::key;
use super::lookup;
use super::next::{Beyond, Charge, HandBack, Next, RetryWhy, Unresolved};
use super::outcome::{
    AfterUnknown, Body, Certainty, Evidence, Lost, NotSent, certainty, counted_as, meaning, outcome,
};
use super::problem::Code;
use super::repeat::{self, Blocked, Pace};
use crate::observe::{Facts, Meaning};
use crate::policy::{Backoff, ClassLimits, Profile, Stores};
use crate::time::{Draw, Moment};
use crate::word::{Class, Outcome, Trigger};

/// Everything a decision depends on. The caller has counted the attempt that is
/// judged in `used`.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'a> {
    /// What was seen of the attempt.
    pub evidence: &'a Evidence,
    /// What a repeat could do.
    pub class: Class,
    /// What the endpoint promises.
    pub profile: &'a Profile,
    /// Limits of the class, tightened by the agent where it asked for it.
    pub limits: &'a ClassLimits,
    /// How repeats are spread.
    pub backoff: &'a Backoff,
    /// Whether an *earlier* attempt is unresolved.
    pub after_unknown: AfterUnknown,
    /// Attempts and waiting of this action.
    pub used: Used,
    /// Look-ups made for it.
    pub lookups_made: u16,
    /// What its task still allows.
    pub task: TaskAllowance,
    /// Whether the scope's ratio budget has a repeat left.
    pub ratio: Ratio,
    /// Whether the body is kept for a repeat.
    pub replay: Replay,
    /// Who still wants it.
    pub interest: Interest,
    /// What of the answer the agent has already got.
    pub to_agent: ToAgent,
    /// Now.
    pub now: Moment,
    /// Until when a refusal holds one of its scopes; [`Moment::NEVER`] until a
    /// person reopens it.
    pub gate: Moment,
    /// Until when the caller is held; [`Moment::NEVER`] for `respond-async`.
    pub held_until: Moment,
    /// The action's own deadline; [`Moment::NEVER`] if it has none.
    pub deadline: Moment,
    /// See [`key::safe_until`]; `None` where there is no key.
    pub key_safe_until: Option<Moment>,
    /// The jitter of this decision.
    pub draw: Draw,
}

/// Whether the scope's ratio budget allows one more repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ratio {
    /// It does.
    Allows,
    /// It is empty.
    Spent,
}

/// Whether the request can be sent a second time at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// Its bytes are kept.
    Kept,
    /// It was larger than `max_replay_body` and streamed through.
    NotKept,
}

/// Who still wants the action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Its caller, or whoever will fetch it.
    Wanted,
    /// The caller's connection dropped: nothing new is sent, what was sent is settled.
    Gone,
    /// It was cancelled: nothing of it is ever sent again.
    Cancelled,
}

/// What of an answer has reached the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToAgent {
    /// Not a byte; a repeat would be invisible.
    Nothing,
    /// At least the head.
    Something,
}

impl Judged<'_> {
    /// What the evidence proves.
    pub fn certainty(&self) -> Certainty {
        certainty(self.evidence, self.class, self.profile, self.after_unknown)
    }

    /// The word for the attempt.
    pub fn outcome(&self) -> Outcome {
        outcome(self.evidence, self.class, self.profile, self.after_unknown)
    }

    /// Whether the scope's budget allows a repeat that it pays for.
    pub fn ratio_allows(&self) -> bool {
        self.ratio == Ratio::Allows
    }

    fn facts(&self) -> Option<&Facts> {
        match self.evidence {
            Evidence::Answered { facts, .. } => Some(facts),
            _ => None,
        }
    }

    fn meaning(&self) -> Option<Meaning> {
        self.facts()
            .map(|facts| meaning(facts, self.profile, self.after_unknown))
    }

    fn is_first(&self) -> bool {
        self.used.attempts <= 1
    }

    fn may_look_up(&self) -> Option<Moment> {
        let rules = self.profile.lookup.as_ref()?;
        if self.lookups_made >= rules.max_lookups {
            return None;
        }
        lookup::first(rules, self.now, self.now)
    }
}

/// Decides what follows an attempt, by the order of tests given above. O(1).
pub fn decide(input: &Judged<'_>) -> Next {
    let certainty = input.certainty();
    let outcome = input.outcome();

    if certainty == Certainty::CommittedBodyLost && input.class.is_write() {
        return lost_result(input);
    }
    if certainty == Certainty::Definite && outcome == Outcome::Done {
        return Next::Deliver { hand_back: None };
    }
    if input.class.is_write() {
        // A key that is refused on its first use by us was used by somebody
        // else: the caller's mistake, and the provider's answer tells it so.
        // Later it means that bytes under the key have changed: ours.
        if input.meaning() == Some(Meaning::KeyMismatch) && !input.is_first() {
            let why = Unresolved::KeyMismatch;
            return Next::Escalate {
                trigger: Trigger::UncertainEffect,
                why,
            };
        }
        if certainty == Certainty::Unknown || input.after_unknown == AfterUnknown::Yes {
            return unresolved(input, certainty);
        }
    }
    if input.interest != Interest::Wanted {
        return match outcome {
            Outcome::Failed if input.interest == Interest::Gone => {
                Next::Deliver { hand_back: None }
            }
            _ => Next::GiveUp {
                code: Code::Cancelled,
                hand_back: None,
            },
        };
    }
    if input.to_agent == ToAgent::Something {
        return match input.evidence {
            Evidence::Answered {
                body: Body::Complete | Body::Open,
                ..
            } => Next::Deliver { hand_back: None },
            _ => Next::GiveUp {
                code: Code::StreamBroken,
                hand_back: None,
            },
        };
    }
    let Some(why) = worth_repeating(input).filter(|_| class_allows(input, certainty, outcome))
    else {
        return last_word(input, None);
    };
    match repeat::slot(input, Pace::Backoff) {
        Ok(earliest) => Next::Retry {
            earliest,
            why: named(why, input.class, certainty),
            charge: repeat::charge(input.evidence),
        },
        Err(Blocked::Wait(hand_back)) => last_word(input, Some(hand_back)),
        Err(_) => last_word(input, None),
    }
}

/// Decides what follows a look-up that proved absence: no attempt had an effect
/// and none can any more. `input` describes the last attempt; the caller sets
/// `after_unknown` to [`AfterUnknown::No`].
///
/// An uncertain write is not repeated by itself even now: more attempts than one
/// are for definite refusals only. Its caller is told that it may send again.
pub fn after_absence(input: &Judged<'_>) -> Next {
    if input.interest != Interest::Wanted {
        return Next::GiveUp {
            code: Code::Cancelled,
            hand_back: None,
        };
    }
    let stop = |hand_back| Next::GiveUp {
        code: Code::NotApplied,
        hand_back,
    };
    if input.class != Class::IdempotentWrite || input.to_agent == ToAgent::Something {
        return stop(None);
    }
    match repeat::slot(input, Pace::Backoff) {
        Ok(earliest) => Next::Retry {
            earliest,
            why: RetryWhy::ProvenAbsent,
            charge: repeat::charge(input.evidence),
        },
        Err(Blocked::Wait(hand_back)) => stop(Some(hand_back)),
        Err(_) => stop(None),
    }
}

/// Test 1: it happened, and only its result is missing.
fn lost_result(input: &Judged<'_>) -> Next {
    match input.may_look_up() {
        Some(not_before) => Next::Reconcile {
            not_before,
            why: Unresolved::BodyLost,
        },
        // Nobody needs to be asked: what happened is known. The agent is told
        // that it is done and must not be sent again.
        None => Next::GiveUp {
            code: Code::ResultLost,
            hand_back: None,
        },
    }
}

/// Test 2: a write that may have happened.
fn unresolved(input: &Judged<'_>, certainty: Certainty) -> Next {
    let why = reason(input, certainty);
    if why == Unresolved::KeyInProgress
        && may_send_key_again(input)
        && let Some(earliest) = safe_slot(input, Pace::Poll)
    {
        return Next::RepeatAsReconciliation {
            earliest,
            why,
            charge: Charge::Free,
        };
    }
    if let Some(not_before) = input.may_look_up() {
        return Next::Reconcile { not_before, why };
    }
    let replays_only = matches!(why, Unresolved::StoredFailure(_));
    if may_send_key_again(input)
        && !replays_only
        && worth_repeating(input).is_some()
        && let Some(earliest) = safe_slot(input, Pace::Backoff)
    {
        let charge = repeat::charge(input.evidence);
        return Next::RepeatAsReconciliation {
            earliest,
            why,
            charge,
        };
    }
    match input.interest {
        // Nothing of a cancelled action is asked about again; it ends, loudly,
        // as unknown.
        Interest::Cancelled => Next::GiveUp {
            code: Code::OutcomeUnknown,
            hand_back: None,
        },
        Interest::Wanted | Interest::Gone => Next::Escalate {
            trigger: Trigger::UncertainEffect,
            why,
        },
    }
}

/// Whether a repeat under the same key has no second effect, and may be made.
fn may_send_key_again(input: &Judged<'_>) -> bool {
    input.class == Class::IdempotentWrite
        && input.profile.idempotency.is_some()
        && input.interest != Interest::Cancelled
        && input.to_agent == ToAgent::Nothing
}

/// A slot that starts while the key is still safe.
fn safe_slot(input: &Judged<'_>, pace: Pace) -> Option<Moment> {
    repeat::slot(input, pace)
        .ok()
        .filter(|at| key::is_safe(input.key_safe_until, *at))
}

fn reason(input: &Judged<'_>, certainty: Certainty) -> Unresolved {
    match (input.evidence, certainty) {
        (Evidence::Lost(lost), _) => Unresolved::NoAnswer(*lost),
        (Evidence::Answered { facts, .. }, Certainty::Unknown) => {
            let stores_all =
                input.profile.idempotency.as_ref().map(|i| i.stores) == Some(Stores::All);
            match (input.meaning(), facts.status) {
                (Some(Meaning::KeyInProgress), _) => Unresolved::KeyInProgress,
                (_, status @ (404 | 409 | 410 | 412)) => Unresolved::MaybeOurs(status),
                // 502, 503 and 504 come from something in front of what stores.
                (Some(Meaning::ProviderError), status)
                    if stores_all && !matches!(status, 502..=504) =>
                {
                    Unresolved::StoredFailure(status)
                }
                (_, status) => Unresolved::Ambiguous(status),
            }
        }
        _ => Unresolved::Earlier,
    }
}

/// Test 5, first half: whether a repeat could bring anything at all.
fn worth_repeating(input: &Judged<'_>) -> Option<RetryWhy> {
    let once = |why| input.is_first().then_some(why);
    let facts = match input.evidence {
        // The certificate is configuration, and nothing will be withdrawn twice.
        Evidence::NotSent(NotSent::Certificate | NotSent::Withdrawn) => return None,
        Evidence::NotSent(kind @ NotSent::Tls) => return once(RetryWhy::NotSent(*kind)),
        Evidence::NotSent(kind) => return Some(RetryWhy::NotSent(*kind)),
        Evidence::NotProcessed => return Some(RetryWhy::Refused),
        // What does not speak HTTP will hardly learn it; one more try for a
        // connection that was mangled on the way.
        Evidence::Lost(Lost::Malformed) => return once(RetryWhy::NoAnswer),
        Evidence::Lost(_) => return Some(RetryWhy::NoAnswer),
        Evidence::Answered { facts, .. } => facts,
    };
    let listed = || input.limits.retry_statuses.contains(&counted_as(facts));
    match (
        meaning(facts, input.profile, input.after_unknown),
        facts.status,
    ) {
        // Only reads and generations come here: the body was lost.
        (Meaning::Ok, 200..=299) => Some(RetryWhy::NoAnswer),
        // No wait and no repeat helps, whatever else the answer says.
        (Meaning::Billing | Meaning::Credential | Meaning::TooLarge, _) => None,
        (Meaning::KeyMismatch | Meaning::KeyInProgress, _) => None,
        // Only if the provider named the reset; it is waited for in full.
        (Meaning::QuotaExhausted, _) => facts
            .retry_after
            .filter(|_| listed())
            .map(|_| RetryWhy::Refused),
        (_, 421) => once(RetryWhy::Refused),
        (_, 425) => Some(RetryWhy::Refused),
        (Meaning::RateLimited | Meaning::TooManyConcurrent | Meaning::Overloaded, _) => {
            listed().then_some(RetryWhy::Refused)
        }
        _ => listed().then_some(RetryWhy::ProviderFailed),
    }
}

/// Test 5, second half: what each class may repeat once no attempt is unresolved.
fn class_allows(input: &Judged<'_>, certainty: Certainty, outcome: Outcome) -> bool {
    match input.class {
        Class::Read | Class::IdempotentWrite => true,
        // Definite refusals and connections that were never made, nothing else.
        Class::UncertainWrite => matches!(outcome, Outcome::NotSent | Outcome::Refused),
        // Once something may have been billed, only with the operator's leave.
        Class::Generation => match certainty {
            Certainty::NotSent | Certainty::NotProcessed | Certainty::Definite => true,
            Certainty::Unknown | Certainty::CommittedBodyLost => input.limits.ambiguous_retry,
        },
    }
}

/// The reason as it is recorded: what the evidence proved goes before what was seen.
fn named(why: RetryWhy, class: Class, certainty: Certainty) -> RetryWhy {
    match (class, certainty) {
        (_, Certainty::NotProcessed) => RetryWhy::Refused,
        (Class::Generation, Certainty::Unknown | Certainty::CommittedBodyLost) => {
            RetryWhy::PossiblyBilled
        }
        _ => why,
    }
}

/// The end of an action that no write left open: the provider's answer if there
/// is one, else the governor's own word.
fn last_word(input: &Judged<'_>, hand_back: Option<HandBack>) -> Next {
    let no_answer = match input.class {
        Class::Generation => Code::PossiblyBilled,
        _ => Code::UpstreamLost,
    };
    let code = match input.evidence {
        // A success without its body is no answer; an error says enough by its head.
        Evidence::Answered {
            facts,
            body: Body::Cut,
            ..
        } if facts.meaning == Meaning::Ok => no_answer,
        Evidence::Answered { .. } => return Next::Deliver { hand_back },
        Evidence::NotSent(NotSent::Certificate) => Code::UpstreamCertificate,
        Evidence::NotSent(NotSent::Withdrawn) => Code::Cancelled,
        // It would be tried again, but for a scope that only a person can open.
        Evidence::NotSent(_)
            if input.is_first() && hand_back.is_some_and(|b| b.beyond == Beyond::Reopening) =>
        {
            Code::QuotaExhausted
        }
        Evidence::NotSent(_) => Code::UpstreamUnreachable,
        Evidence::NotProcessed => Code::UpstreamRefused,
        Evidence::Lost(Lost::TimedOut) if input.class != Class::Generation => Code::UpstreamTimeout,
        Evidence::Lost(_) => no_answer,
    };
    Next::GiveUp { code, hand_back }
}

#[cfg(test)]
mod case;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod table;
