//! What a look-up at the provider means (R-IDEM-3).
//!
//! A look-up that finds the operation settles the action. One that finds nothing
//! proves absence only if the endpoint's look-up is authoritative **and** it was
//! asked when no copy could still be on its way:
//!
//! `asked_at ≥ last byte that may have left + max_in_flight + settle`
//!
//! Worked example: settle 1 s, max_in_flight 5 s, five look-ups. The connection
//! broke at 12:00:00. First look-up at 12:00:01 (settle), then after 2, 4 and
//! 8 s: 12:00:03 and 12:00:07. "Not found" at :01 and :03 proves nothing; at :07,
//! past the horizon of :06, it is proof. The last look-up of the budget is never
//! spent before the horizon, where it could prove nothing.
//!
//! An exhaustive search of the machine shows why: re-sending on "not found"
//! while a late copy can still arrive reaches states with two effects.

use crate::policy::Lookup;
use crate::time::{Moment, Span};

/// Longest pause between two look-ups.
pub const PAUSE_MAX: Span = Span::from_secs(60);

/// Shortest pause, also where the provider's settle time is zero or not stated.
pub const PAUSE_MIN: Span = Span::from_millis(250);

/// Longest wait that a provider may ask for between two look-ups. What became of a
/// write is not left open for longer without anybody's knowledge.
pub const HINT_MAX: Span = Span::from_secs(3_600);

/// What a look-up brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The operation, carried out.
    Done,
    /// The operation, failed for good and without effect.
    Failed,
    /// The operation, not finished.
    Running,
    /// A definite "there is none".
    Nothing,
    /// No usable answer: the look-up itself failed, was refused or not understood.
    NoAnswer {
        /// The provider's own hint when to ask again.
        retry_after: Option<Span>,
    },
}

/// The look-ups of one action so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookups {
    /// The last moment at which a byte of any attempt may have left: when the
    /// last attempt was closed; after a crash, the restart.
    pub last_send: Moment,
    /// Look-ups made, the one that is judged included.
    pub made: u16,
}

/// What is known after a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// It happened; the result was found.
    Happened,
    /// It ended without effect.
    Failed,
    /// No attempt had an effect and none can any more: the same key may be sent
    /// again, within budget.
    Absent,
    /// Nothing yet; ask again, not before this.
    AskAgain {
        /// When.
        not_before: Moment,
    },
    /// The look-ups are used up, and what happened is not known.
    CannotKnow(Blind),
}

/// Why looking up does not settle it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blind {
    /// Found nothing, and the look-up is not authoritative.
    NotAuthoritative,
    /// The budget of look-ups ended before the last copy could have arrived.
    TooEarly,
    /// The operation is still running at the provider.
    StillRunning,
    /// The look-ups themselves failed.
    NoAnswer,
    /// The provider asks to stay away for longer than anybody leaves it open.
    TurnedAway,
}

impl Blind {
    /// The reason as people read it.
    pub const fn says(self) -> &'static str {
        match self {
            Blind::NotAuthoritative => {
                "the look-up found nothing, and this endpoint's look-up doesn't prove absence"
            }
            Blind::TooEarly => "the look-ups were used up before the last copy could have arrived",
            Blind::StillRunning => "the provider still works on it",
            Blind::NoAnswer => "the look-ups themselves failed",
            Blind::TurnedAway => "the provider lets nobody look it up for more than an hour",
        }
    }
}

/// From when "not found" can be proof.
pub fn horizon(lookup: &Lookup, last_send: Moment) -> Moment {
    last_send + lookup.max_in_flight + lookup.settle
}

/// When to look for the first time; `None` if the budget has no look-up at all.
pub fn first(lookup: &Lookup, last_send: Moment, now: Moment) -> Option<Moment> {
    (lookup.max_lookups > 0).then(|| next(lookup, Lookups { last_send, made: 0 }, now))
}

/// Judges one look-up that was asked at `asked_at` and answered at `now`.
///
/// The moment of asking decides, not that of the answer: an answer that was
/// under way while a late copy arrived proves nothing about it. O(1).
pub fn learn(
    found: Found,
    lookup: &Lookup,
    so_far: Lookups,
    asked_at: Moment,
    now: Moment,
) -> Learned {
    let past_horizon = asked_at >= horizon(lookup, so_far.last_send);
    let blind = match found {
        Found::Done => return Learned::Happened,
        Found::Failed => return Learned::Failed,
        Found::Nothing if lookup.authoritative && past_horizon => return Learned::Absent,
        Found::Nothing if lookup.authoritative => Blind::TooEarly,
        // Once no copy is on its way, asking again can bring nothing new.
        Found::Nothing if past_horizon => {
            return Learned::CannotKnow(Blind::NotAuthoritative);
        }
        Found::Nothing => Blind::NotAuthoritative,
        Found::Running => Blind::StillRunning,
        Found::NoAnswer { .. } => Blind::NoAnswer,
    };
    if so_far.made >= lookup.max_lookups {
        return Learned::CannotKnow(blind);
    }
    let not_before = match found {
        Found::NoAnswer {
            retry_after: Some(hint),
        } if HINT_MAX < hint => return Learned::CannotKnow(Blind::TurnedAway),
        Found::NoAnswer {
            retry_after: Some(hint),
        } => next(lookup, so_far, now).max(now + hint),
        _ => next(lookup, so_far, now),
    };
    Learned::AskAgain { not_before }
}

/// The pause before the next look-up: the settle time, doubled each time, at
/// most [`PAUSE_MAX`]; the last one waits for the horizon.
fn next(lookup: &Lookup, so_far: Lookups, now: Moment) -> Moment {
    let factor = 1_u64
        .checked_shl(u32::from(so_far.made))
        .unwrap_or(u64::MAX);
    let doubled = lookup.settle.max(PAUSE_MIN).saturating_mul(factor);
    // A settle time above the cap is the provider's own word and is kept.
    let at = now + doubled.min(PAUSE_MAX.max(lookup.settle));
    let is_last = so_far.made.saturating_add(1) >= lookup.max_lookups;
    if is_last {
        at.max(horizon(lookup, so_far.last_send))
    } else {
        at
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::START + Span::from_secs(seconds)
    }

    fn lookup(max_lookups: u16) -> Lookup {
        Lookup {
            authoritative: true,
            settle: Span::from_secs(1),
            max_in_flight: Span::from_secs(5),
            max_lookups,
        }
    }

    fn check(found: Found, asked: u64, made: u16, expected: Learned) {
        let so_far = Lookups {
            last_send: at(0),
            made,
        };
        assert_eq!(
            learn(found, &lookup(5), so_far, at(asked), at(asked)),
            expected
        );
    }

    #[test]
    fn the_worked_example_holds() {
        assert_eq!(first(&lookup(5), at(0), at(0)), Some(at(1)));
        check(
            Found::Nothing,
            1,
            1,
            Learned::AskAgain { not_before: at(3) },
        );
        check(
            Found::Nothing,
            3,
            2,
            Learned::AskAgain { not_before: at(7) },
        );
        check(Found::Nothing, 7, 3, Learned::Absent);
    }

    #[test]
    fn what_is_found_settles_it_at_any_time() {
        check(Found::Done, 1, 1, Learned::Happened);
        check(Found::Failed, 1, 1, Learned::Failed);
        check(
            Found::Running,
            30,
            5,
            Learned::CannotKnow(Blind::StillRunning),
        );
        check(
            Found::Running,
            30,
            1,
            Learned::AskAgain { not_before: at(32) },
        );
    }

    #[test]
    fn an_answer_to_a_question_from_before_the_horizon_proves_nothing() {
        let so_far = Lookups {
            last_send: at(0),
            made: 2,
        };
        let slow = learn(Found::Nothing, &lookup(5), so_far, at(5), at(20));
        assert_eq!(slow, Learned::AskAgain { not_before: at(24) });
    }

    #[test]
    fn finding_nothing_without_authority_never_proves_absence() {
        let unsure = Lookup {
            authoritative: false,
            ..lookup(5)
        };
        let so_far = Lookups {
            last_send: at(0),
            made: 1,
        };
        assert_eq!(
            learn(Found::Nothing, &unsure, so_far, at(1_000), at(1_000)),
            Learned::CannotKnow(Blind::NotAuthoritative)
        );
        assert_eq!(
            learn(Found::Nothing, &unsure, so_far, at(2), at(2)),
            Learned::AskAgain { not_before: at(4) }
        );
    }

    #[test]
    fn a_failed_look_up_waits_as_long_as_it_was_told() {
        let told = Found::NoAnswer {
            retry_after: Some(Span::from_secs(90)),
        };
        check(
            told,
            10,
            1,
            Learned::AskAgain {
                not_before: at(100),
            },
        );
        check(told, 10, 5, Learned::CannotKnow(Blind::NoAnswer));
    }

    #[test]
    fn nobody_is_left_in_doubt_for_as_long_as_a_provider_likes() {
        let told = |span| Found::NoAnswer {
            retry_after: Some(span),
        };
        let not_before = at(10) + HINT_MAX;
        check(told(HINT_MAX), 10, 1, Learned::AskAgain { not_before });
        let blind = Learned::CannotKnow(Blind::TurnedAway);
        check(told(HINT_MAX + Span::from_micros(1)), 10, 1, blind);
        check(told(Span::MAX), 10, 1, blind);
    }

    #[test]
    fn the_only_look_up_of_a_budget_waits_for_the_horizon() {
        assert_eq!(first(&lookup(1), at(0), at(0)), Some(at(6)));
        assert_eq!(first(&lookup(0), at(0), at(0)), None);
    }

    #[test]
    fn pauses_double_up_to_a_minute_and_keep_a_longer_settle_time() {
        let pause = |settle: u64, made: u16| {
            let l = Lookup {
                settle: Span::from_secs(settle),
                ..lookup(u16::MAX)
            };
            next(
                &l,
                Lookups {
                    last_send: at(0),
                    made,
                },
                at(0),
            )
            .since(at(0))
            .as_millis()
        };
        assert_eq!(
            [0, 1, 2, 5].map(|m| pause(1, m)),
            [1_000, 2_000, 4_000, 32_000]
        );
        assert_eq!([6, 63, 64, 60_000].map(|m| pause(1, m)), [60_000; 4]);
        assert_eq!([0, 1].map(|m| pause(0, m)), [250, 500]);
        assert_eq!([0, 9].map(|m| pause(300, m)), [300_000, 300_000]);
    }

    proptest! {
        #[test]
        fn absence_is_never_concluded_while_a_copy_can_be_on_its_way(
            authoritative in any::<bool>(),
            settle in 0_u64..20,
            in_flight in 0_u64..40,
            max_lookups in 0_u16..8,
            made in 0_u16..8,
            last in 0_u64..50,
            asked in 0_u64..200,
            slow in 0_u64..100,
        ) {
            let l = Lookup {
                authoritative,
                settle: Span::from_secs(settle),
                max_in_flight: Span::from_secs(in_flight),
                max_lookups,
            };
            let so_far = Lookups { last_send: at(last), made };
            let now = at(asked + slow);
            match learn(Found::Nothing, &l, so_far, at(asked), now) {
                Learned::Absent => {
                    prop_assert!(authoritative);
                    prop_assert!(asked >= last + in_flight + settle);
                }
                Learned::AskAgain { not_before } => {
                    prop_assert!(made < max_lookups);
                    prop_assert!(not_before >= now + PAUSE_MIN);
                }
                Learned::CannotKnow(_) => prop_assert!(made >= max_lookups || !authoritative),
                Learned::Happened | Learned::Failed => prop_assert!(false, "nothing was found"),
            }
        }
    }
}
