//! What a person may decide, and what each decision does (R-ESC-3).
//!
//! A choice is offered only while it is safe, and it is tested again when it is
//! made: a key that was safe when the question was asked may not be any more.
//!
//! | asked because | offered |
//! |---|---|
//! | a write may have happened | `query_existing_operation`, `retry_same_key`, `it_happened`, |
//! | | `it_did_not`, `cancel`, `send_new_operation` |
//! | a wait is too long, a quota is gone, a limit looks wrong | `wait`, `raise_quota`, |
//! | | `change_plan`, `cancel` |
//! | the breaker tripped on a write | `change_plan`, `wait` (opens the path once more), `cancel` |
//!
//! Of these, a look-up must exist for the query; the same key is offered only if
//! the provider deduplicates it and it is still safe, or absence is proved, and
//! the bytes are kept; a new operation only if the policy allows it. Of a
//! cancelled action nothing is ever sent again, so what sends is not offered.
//!
//! What may have happened decides before why it was asked: a write of unknown
//! outcome whose wait is also too long is first of all a write of unknown outcome.

use super::decide::{Interest, Replay};
use super::key;
use crate::policy::Profile;
use crate::time::Moment;
use crate::word::{Choice, Trigger};

/// What must be typed to choose [`Choice::SendNew`].
pub const CONFIRM_SECOND_EFFECT: &str = "this may happen twice";

/// What a question is about, as it stands when it is asked or answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Situation {
    /// Why a person is asked.
    pub trigger: Trigger,
    /// Whether the action may have had its effect.
    pub applied: Applied,
    /// Whether the provider can be asked.
    pub lookup: CanLookUp,
    /// Whether the provider deduplicates the action's key.
    pub key: KeyPromise,
    /// Whether the policy lets a person send a second operation.
    pub new_operation: NewOperation,
    /// Whether the request's bytes are kept for another send.
    pub replay: Replay,
    /// Who still wants it.
    pub interest: Interest,
}

/// Whether an action may have had its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// An attempt may have been carried out.
    Maybe,
    /// Certainly not: nothing was sent, everything was refused, or absence is proved.
    No,
}

/// Whether the endpoint has a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CanLookUp {
    /// It has.
    Yes,
    /// It has none.
    No,
}

/// What the provider promises about the action's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPromise {
    /// Nothing, or it refused the key for these bytes.
    Nothing,
    /// A repeat under it has no second effect before this moment.
    SafeUntil(Moment),
}

impl KeyPromise {
    /// The promise of an endpoint's profile for a key that is safe until then.
    pub fn of(profile: &Profile, key_safe_until: Option<Moment>) -> KeyPromise {
        match (&profile.idempotency, key_safe_until) {
            (Some(_), Some(until)) => KeyPromise::SafeUntil(until),
            _ => KeyPromise::Nothing,
        }
    }
}

/// Whether the policy lets a person risk a second effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewOperation {
    /// It does, after a typed confirmation.
    Allowed,
    /// It does not.
    Forbidden,
}

/// A choice as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Which.
    pub choice: Choice,
    /// What must be typed to confirm it; `None` where a click is enough.
    pub confirm: Option<&'static str>,
}

/// The choices of a situation, safest first. At most six.
pub fn offers(situation: &Situation, now: Moment) -> Vec<Offer> {
    candidates(situation)
        .iter()
        .filter(|choice| is_open(**choice, situation, now))
        .map(|choice| offer(*choice))
        .collect()
}

/// Whether a choice may be made now.
pub fn is_offered(choice: Choice, situation: &Situation, now: Moment) -> bool {
    candidates(situation).contains(&choice) && is_open(choice, situation, now)
}

const fn candidates(situation: &Situation) -> &'static [Choice] {
    match (situation.applied, situation.trigger) {
        (Applied::Maybe, _) | (_, Trigger::UncertainEffect) => &[
            Choice::Query,
            Choice::RetrySameKey,
            Choice::ItHappened,
            Choice::ItDidNot,
            Choice::Cancel,
            Choice::SendNew,
        ],
        (
            Applied::No,
            Trigger::WaitBeyondDeadline | Trigger::QuotaExhausted | Trigger::LimitMisconfigured,
        ) => &[
            Choice::Wait,
            Choice::RaiseQuota,
            Choice::ChangePlan,
            Choice::Cancel,
        ],
        (Applied::No, Trigger::BreakerTripped) => {
            &[Choice::ChangePlan, Choice::Wait, Choice::Cancel]
        }
    }
}

fn is_open(choice: Choice, situation: &Situation, now: Moment) -> bool {
    let cancelled = situation.interest == Interest::Cancelled;
    match choice {
        Choice::RetrySameKey | Choice::SendNew | Choice::Wait | Choice::RaiseQuota if cancelled => {
            false
        }
        Choice::Query => situation.lookup == CanLookUp::Yes,
        Choice::RetrySameKey if situation.replay == Replay::NotKept => false,
        Choice::RetrySameKey => match (situation.applied, situation.key) {
            (Applied::No, _) => true,
            (Applied::Maybe, KeyPromise::SafeUntil(until)) => key::is_safe(Some(until), now),
            (Applied::Maybe, KeyPromise::Nothing) => false,
        },
        Choice::SendNew => situation.new_operation == NewOperation::Allowed,
        Choice::Cancel
        | Choice::ItHappened
        | Choice::ItDidNot
        | Choice::Wait
        | Choice::RaiseQuota
        | Choice::ChangePlan => true,
    }
}

const fn offer(choice: Choice) -> Offer {
    let confirm = match choice {
        Choice::SendNew => Some(CONFIRM_SECOND_EFFECT),
        _ => None,
    };
    Offer { choice, confirm }
}

/// What a decision does to its action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Look-ups run again, with a fresh budget of their own.
    LookUp,
    /// It waits for one more send under the same key. The person's decision is the
    /// budget for exactly one.
    SendOnce,
    /// It waits on; deadline and waiting budget no longer bind it.
    WaitOn,
    /// It ends without being sent, and the agent gets the person's instruction.
    EndWithInstruction,
    /// It ends; see the event for what is said about its effect.
    End,
    /// It ends, and a child with a new key begins in the same commit.
    Supersede,
}

/// What a choice does.
pub const fn effect(choice: Choice) -> Effect {
    match choice {
        Choice::Query => Effect::LookUp,
        Choice::RetrySameKey => Effect::SendOnce,
        Choice::Wait | Choice::RaiseQuota => Effect::WaitOn,
        Choice::SendNew => Effect::Supersede,
        Choice::ItHappened | Choice::ItDidNot | Choice::Cancel => Effect::End,
        Choice::ChangePlan => Effect::EndWithInstruction,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    const NOW: Moment = Moment::from_micros(1_000_000);

    fn uncertain() -> Situation {
        Situation {
            trigger: Trigger::UncertainEffect,
            applied: Applied::Maybe,
            lookup: CanLookUp::No,
            key: KeyPromise::Nothing,
            new_operation: NewOperation::Forbidden,
            replay: Replay::Kept,
            interest: Interest::Wanted,
        }
    }

    fn check(situation: Situation, expected: &str) {
        let offered = offers(&situation, NOW);
        let words: Vec<_> = offered.iter().map(|o| o.choice.word()).collect();
        assert_eq!(words.join(" "), expected, "{situation:?}");
        for choice in Choice::ALL {
            let shown = offered.iter().any(|o| o.choice == *choice);
            assert_eq!(is_offered(*choice, &situation, NOW), shown, "{choice}");
        }
    }

    #[test]
    fn an_uncertain_write_offers_only_what_is_safe() {
        check(uncertain(), "it_happened it_did_not cancel");
        check(
            Situation {
                lookup: CanLookUp::Yes,
                ..uncertain()
            },
            "query_existing_operation it_happened it_did_not cancel",
        );
        let later = KeyPromise::SafeUntil(NOW + Span::from_micros(1));
        check(
            Situation {
                key: later,
                ..uncertain()
            },
            "retry_same_key it_happened it_did_not cancel",
        );
        check(
            Situation {
                new_operation: NewOperation::Allowed,
                ..uncertain()
            },
            "it_happened it_did_not cancel send_new_operation",
        );
    }

    #[test]
    fn the_same_key_is_offered_until_it_is_no_longer_safe_or_absence_is_proved() {
        let old = Situation {
            key: KeyPromise::SafeUntil(NOW),
            ..uncertain()
        };
        check(old, "it_happened it_did_not cancel");
        check(
            Situation {
                applied: Applied::No,
                ..uncertain()
            },
            "retry_same_key it_happened it_did_not cancel",
        );
    }

    #[test]
    fn what_is_not_kept_or_cancelled_is_not_offered_to_be_sent() {
        let open = Situation {
            key: KeyPromise::SafeUntil(Moment::NEVER),
            new_operation: NewOperation::Allowed,
            ..uncertain()
        };
        check(
            Situation {
                replay: Replay::NotKept,
                ..open
            },
            "it_happened it_did_not cancel send_new_operation",
        );
        let cancelled = Situation {
            interest: Interest::Cancelled,
            ..open
        };
        check(cancelled, "it_happened it_did_not cancel");
        let trigger = Trigger::WaitBeyondDeadline;
        let waits = Situation {
            trigger,
            applied: Applied::No,
            ..cancelled
        };
        check(waits, "change_plan cancel");
        let gone = Situation {
            interest: Interest::Gone,
            ..open
        };
        check(
            gone,
            "retry_same_key it_happened it_did_not cancel send_new_operation",
        );
    }

    #[test]
    fn a_wait_offers_waiting_raising_replanning_and_cancelling() {
        for trigger in [
            Trigger::WaitBeyondDeadline,
            Trigger::QuotaExhausted,
            Trigger::LimitMisconfigured,
        ] {
            let wait = Situation {
                trigger,
                applied: Applied::No,
                ..uncertain()
            };
            check(wait, "wait raise_quota change_plan cancel");
        }
        let tripped = Situation {
            trigger: Trigger::BreakerTripped,
            applied: Applied::No,
            ..uncertain()
        };
        check(tripped, "change_plan wait cancel");
    }

    #[test]
    fn what_may_have_happened_decides_before_why_it_was_asked() {
        for trigger in Trigger::ALL {
            check(
                Situation {
                    trigger: *trigger,
                    ..uncertain()
                },
                "it_happened it_did_not cancel",
            );
        }
    }

    #[test]
    fn only_a_second_effect_needs_to_be_typed() {
        let open = Situation {
            lookup: CanLookUp::Yes,
            new_operation: NewOperation::Allowed,
            key: KeyPromise::SafeUntil(Moment::NEVER),
            ..uncertain()
        };
        for offer in offers(&open, NOW) {
            let second = offer.choice == Choice::SendNew;
            assert_eq!(offer.confirm.is_some(), second);
        }
    }
}
