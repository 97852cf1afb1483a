//! Whether one more send fits every ceiling, and when.
//!
//! The order of the tests is the order in which a person would want to hear the
//! reason: the body is not kept, the action's attempts, the task's repeats, the
//! scope's shared budget, and last the time.
//!
//! Worked example: read, `max_wait` 90 s, 20 s already waited, held until
//! now + 60 s. `Retry-After: 50` → the send is due at 50–55 s, inside all
//! bounds. `Retry-After: 65` → beyond the hold, handed back with "65 s".
//! `Retry-After: 75` → beyond the 70 s that are left to wait. `Retry-After: 58`
//! → due at 58–60 s: jitter gives way to the bound, the hint never does. A scope
//! that is closed until somebody reopens it → handed back at once, without a time.

use super::backoff::{self, RetryNo};
use super::decide::{Judged, Replay};
use super::next::{Beyond, Charge, HandBack};
use super::outcome::{Evidence, NotSent, counted_as};
use crate::time::{Moment, Span};

/// Why no further send is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// The body was too large to be kept for a repeat.
    NotKept,
    /// The action's attempts are used up.
    Attempts,
    /// The task's repeats are used up.
    Task,
    /// The scope's shared budget for repeats is empty.
    Scope,
    /// It would have to wait too long.
    Wait(HandBack),
}

/// How the wait before a repeat is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Backoff, with the provider's hint if it gave one.
    Backoff,
    /// Something is under way at the provider: ask at growing intervals.
    Poll,
}

/// The earliest moment of one more send, or what stands against it. O(1).
///
/// # Errors
/// [`Blocked`], the first reason in the order above.
pub fn slot(input: &Judged<'_>, pace: Pace) -> Result<Moment, Blocked> {
    if input.replay == Replay::NotKept {
        return Err(Blocked::NotKept);
    }
    if input.used.attempts_left(input.limits) == 0 {
        return Err(Blocked::Attempts);
    }
    if input.task.retries == 0 {
        return Err(Blocked::Task);
    }
    if charge(input.evidence) == Charge::Ratio && !input.ratio_allows() {
        return Err(Blocked::Scope);
    }
    due(input, pace).map_err(Blocked::Wait)
}

/// Which shared budget a repeat after this evidence is charged to.
pub fn charge(evidence: &Evidence) -> Charge {
    match evidence {
        // A connection that can't be made is a time-out or a dead host: many
        // callers repeating it are a storm like any other.
        Evidence::NotSent(NotSent::Connect) | Evidence::Lost(_) => Charge::Ratio,
        Evidence::NotSent(_) | Evidence::NotProcessed => Charge::Free,
        Evidence::Answered { facts, .. } => match counted_as(facts) {
            408 => Charge::Ratio,
            // Definite refusals and "the same key is in progress".
            400..=499 => Charge::Free,
            // 5xx, and successes whose body was lost.
            _ => Charge::Ratio,
        },
    }
}

/// The provider's own hint, if its answer gave one.
pub(super) fn hint(evidence: &Evidence) -> Option<Span> {
    match evidence {
        Evidence::Answered { facts, .. } => facts.retry_after,
        _ => None,
    }
}

fn due(input: &Judged<'_>, pace: Pace) -> Result<Moment, HandBack> {
    if input.gate == Moment::NEVER {
        // No bound is beyond this, not even "none": nobody waits for a person's
        // next visit to the provider.
        return Err(HandBack {
            at: Moment::NEVER,
            beyond: Beyond::Reopening,
        });
    }
    let n = RetryNo::after(input.used.attempts);
    let hint = hint(input.evidence);
    let (least, wait) = match (pace, input.evidence) {
        // A pooled connection that had died unnoticed says nothing about the
        // provider: a fresh one may be tried at once. Only the first time.
        (_, Evidence::NotSent(NotSent::ConnectionClosed)) if n.get() == 1 => {
            (Span::ZERO, Span::ZERO)
        }
        (Pace::Backoff, _) => (
            input.backoff.minimum,
            backoff::delay(input.backoff, n, hint, input.draw),
        ),
        (Pace::Poll, _) => (
            input.backoff.minimum,
            backoff::poll(input.backoff, n, hint, input.draw),
        ),
    };
    // What may never be cut: the hint, the minimum and the scope's gate.
    let floor = (input.now + hint.unwrap_or(Span::ZERO).max(least)).max(input.gate);
    let wanted = (input.now + wait).max(input.gate);

    let deadline = input.deadline;
    let budget = input.now + input.used.wait_left(input.limits).min(input.task.wait);
    for (bound, beyond) in [
        (deadline, Beyond::Deadline),
        (budget, Beyond::WaitBudget),
        (input.held_until, Beyond::Hold),
    ] {
        if floor > bound {
            return Err(HandBack { at: wanted, beyond });
        }
    }
    Ok(wanted.min(deadline).min(budget).min(input.held_until))
}
