//! A question to a person: it is about one version of one payload, it is
//! answered once, and it expires (R-ESC-5).
//!
//! The question is state, not a paused call: the agent goes on, and a restart
//! changes nothing. The decision is bound to what was shown. If the action has
//! moved on or its bytes are others, the answer is refused and the person looks
//! again, because consent to one thing is not consent to another.

use std::fmt;

use super::choices::{Effect, Situation, effect, expiry, is_offered, offers};
use super::machine::MachineEvent;
use crate::id::{EscalationId, Fingerprint, Operator};
use crate::time::Moment;
use crate::word::Choice;

/// Counts the changes of an action; a question names the one it was asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32);

/// What a person was shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The action's version.
    pub version: Version,
    /// The fingerprint of its request.
    pub fingerprint: Fingerprint,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Which.
    pub id: EscalationId,
    /// What it is about.
    pub shown: Shown,
    /// From when no answer counts any more.
    pub expires: Moment,
    /// How it stands.
    pub standing: Standing,
}

/// How a question stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It waits for an answer.
    Open,
    /// It was answered.
    Decided {
        /// How.
        choice: Choice,
        /// By whom.
        by: Operator,
        /// When.
        at: Moment,
    },
    /// Nobody answered in time.
    Expired,
}

/// A person's answer. The decider is the authenticated operator of the call, and
/// never a field of its body.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// What is chosen.
    pub choice: Choice,
    /// What the person was shown.
    pub shown: Shown,
    /// Who.
    pub by: &'a Operator,
    /// What was typed to confirm, if anything.
    pub typed: Option<&'a str>,
}

/// Why an answer does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerRefused {
    /// Somebody was first.
    AlreadyDecided {
        /// Who.
        by: Operator,
        /// How.
        choice: Choice,
    },
    /// It came too late.
    Expired,
    /// The action is not what was shown any more.
    Changed,
    /// The choice is not possible, or not any more.
    NotOffered {
        /// What is possible now.
        offered: Vec<Choice>,
    },
    /// It must be confirmed by typing this.
    Unconfirmed {
        /// The text.
        text: &'static str,
    },
}

impl AnswerRefused {
    /// The word in `code`.
    pub const fn word(&self) -> &'static str {
        match self {
            AnswerRefused::AlreadyDecided { .. } => "already_decided",
            AnswerRefused::Expired => "expired",
            AnswerRefused::Changed => "changed",
            AnswerRefused::NotOffered { .. } => "not_offered",
            AnswerRefused::Unconfirmed { .. } => "unconfirmed",
        }
    }
}

impl fmt::Display for AnswerRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnswerRefused::AlreadyDecided { by, choice } => {
                write!(
                    f,
                    "{by} has already decided `{choice}`; a decision works once"
                )
            }
            AnswerRefused::Expired => f.write_str("the question expired before this answer"),
            AnswerRefused::Changed => {
                f.write_str("the action has changed since it was shown\nhint: look at it again")
            }
            AnswerRefused::NotOffered { offered } => {
                let words: Vec<_> = offered.iter().map(|choice| choice.word()).collect();
                write!(
                    f,
                    "this is not possible here\nhint: possible are {}",
                    words.join(", ")
                )
            }
            AnswerRefused::Unconfirmed { text } => {
                write!(f, "this must be confirmed\nhint: type `{text}`")
            }
        }
    }
}

impl std::error::Error for AnswerRefused {}

impl Question {
    /// An open question.
    pub const fn new(id: EscalationId, shown: Shown, expires: Moment) -> Question {
        Question {
            id,
            shown,
            expires,
            standing: Standing::Open,
        }
    }

    /// Takes an answer, if it is the first, in time, about what was shown, possible
    /// in the situation as it is *now*, and confirmed where that is needed.
    /// Nothing changes if it is refused.
    ///
    /// # Errors
    /// [`AnswerRefused`], the first reason in that order.
    pub fn answer(
        &mut self,
        answer: &Answer<'_>,
        current: Shown,
        situation: &Situation,
        now: Moment,
    ) -> Result<(Effect, MachineEvent), AnswerRefused> {
        match &self.standing {
            Standing::Decided { choice, by, .. } => {
                let (by, choice) = (by.clone(), *choice);
                return Err(AnswerRefused::AlreadyDecided { by, choice });
            }
            Standing::Expired => return Err(AnswerRefused::Expired),
            Standing::Open if now >= self.expires => return Err(AnswerRefused::Expired),
            Standing::Open => {}
        }
        if answer.shown != self.shown || current != self.shown {
            return Err(AnswerRefused::Changed);
        }
        if !is_offered(answer.choice, situation, now) {
            let offered = offers(situation, now)
                .iter()
                .map(|offer| offer.choice)
                .collect();
            return Err(AnswerRefused::NotOffered { offered });
        }
        let confirm = offers(situation, now)
            .iter()
            .find(|offer| offer.choice == answer.choice)
            .and_then(|offer| offer.confirm);
        if let Some(text) = confirm.filter(|text| answer.typed.map(str::trim) != Some(*text)) {
            return Err(AnswerRefused::Unconfirmed { text });
        }
        let (choice, by) = (answer.choice, answer.by.clone());
        self.standing = Standing::Decided {
            choice,
            by,
            at: now,
        };
        Ok(effect(answer.choice, situation.applied))
    }

    /// Ends the question if its time is over; what that means for the action.
    /// `None` if it is not over, or the question has ended before.
    pub fn expire(&mut self, situation: &Situation, now: Moment) -> Option<MachineEvent> {
        if self.standing != Standing::Open || now < self.expires {
            return None;
        }
        self.standing = Standing::Expired;
        Some(expiry(situation.applied))
    }

    /// When to look at it again; `None` once it has ended.
    pub fn timeout(&self) -> Option<Moment> {
        (self.standing == Standing::Open).then_some(self.expires)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::choices::{
        Applied, CONFIRM_SECOND_EFFECT, CanLookUp, KeyPromise, NewOperation,
    };
    use crate::action::decide::{Interest, Replay};
    use crate::time::Span;
    use crate::word::Trigger;

    const EXPIRES: Moment = Moment::from_micros(1_000);
    const SHOWN: Shown = Shown {
        version: Version(7),
        fingerprint: Fingerprint([1; 16]),
    };

    fn at(us: u64) -> Moment {
        Moment::from_micros(us)
    }

    fn question() -> Question {
        Question::new(EscalationId(1), SHOWN, EXPIRES)
    }

    fn operator(name: &str) -> Operator {
        Operator::new(name).unwrap()
    }

    fn situation() -> Situation {
        Situation {
            trigger: Trigger::UncertainEffect,
            applied: Applied::Maybe,
            lookup: CanLookUp::Yes,
            key: KeyPromise::SafeUntil(at(500)),
            new_operation: NewOperation::Allowed,
            replay: Replay::Kept,
            interest: Interest::Wanted,
        }
    }

    /// Answers an open question and says what comes of it.
    fn check(
        choice: Choice,
        typed: Option<&str>,
        shown: Shown,
        current: Shown,
        now: u64,
        expected: Result<Effect, &str>,
    ) {
        let (mut question, by) = (question(), operator("ana"));
        let answer = Answer {
            choice,
            shown,
            by: &by,
            typed,
        };
        let got = question.answer(&answer, current, &situation(), at(now));
        assert_eq!(
            got.as_ref()
                .map(|(effect, _)| *effect)
                .map_err(|e| e.word()),
            expected
        );
        assert_eq!(
            question.standing == Standing::Open,
            got.is_err(),
            "a refusal changes nothing"
        );
    }

    #[test]
    fn an_answer_counts_for_exactly_what_was_shown() {
        let moved = Shown {
            version: Version(8),
            ..SHOWN
        };
        let other = Shown {
            fingerprint: Fingerprint([2; 16]),
            ..SHOWN
        };
        check(Choice::Query, None, SHOWN, SHOWN, 1, Ok(Effect::LookUp));
        for wrong in [moved, other] {
            check(Choice::Query, None, wrong, SHOWN, 1, Err("changed"));
            check(Choice::Query, None, SHOWN, wrong, 1, Err("changed"));
            check(Choice::Query, None, wrong, wrong, 1, Err("changed"));
        }
    }

    #[test]
    fn a_choice_is_tested_again_when_it_is_made() {
        check(
            Choice::RetrySameKey,
            None,
            SHOWN,
            SHOWN,
            499,
            Ok(Effect::SendOnce),
        );
        check(
            Choice::RetrySameKey,
            None,
            SHOWN,
            SHOWN,
            500,
            Err("not_offered"),
        );
        check(Choice::Wait, None, SHOWN, SHOWN, 1, Err("not_offered"));
    }

    #[test]
    fn a_second_effect_needs_the_typed_words() {
        let typed = |text| move |expected| check(Choice::SendNew, text, SHOWN, SHOWN, 1, expected);
        typed(None)(Err("unconfirmed"));
        typed(Some("yes"))(Err("unconfirmed"));
        typed(Some(CONFIRM_SECOND_EFFECT))(Ok(Effect::Supersede));
    }

    #[test]
    fn exactly_one_decision_wins() {
        let (mut question, ana, bo) = (question(), operator("ana"), operator("bo"));
        let answer = |choice, by| Answer {
            choice,
            shown: SHOWN,
            by,
            typed: None,
        };
        question
            .answer(&answer(Choice::Cancel, &ana), SHOWN, &situation(), at(1))
            .unwrap();
        let late = question.answer(&answer(Choice::Query, &bo), SHOWN, &situation(), at(2));
        let first = AnswerRefused::AlreadyDecided {
            by: ana,
            choice: Choice::Cancel,
        };
        assert_eq!(late, Err(first));
        assert_eq!(question.expire(&situation(), EXPIRES), None);
        assert_eq!(question.timeout(), None);
    }

    #[test]
    fn an_undecided_question_ends_as_unknown_and_takes_no_late_answer() {
        check(Choice::Query, None, SHOWN, SHOWN, 1_000, Err("expired"));
        let mut question = question();
        assert_eq!(question.timeout(), Some(EXPIRES));
        assert_eq!(
            question.expire(&situation(), EXPIRES.back(Span::from_micros(1))),
            None
        );
        let event = question.expire(&situation(), EXPIRES);
        assert_eq!(event, Some(MachineEvent::ExpiredUnknown));
        assert_eq!(
            question.expire(&situation(), EXPIRES),
            None,
            "it expires once"
        );
        let by = operator("ana");
        let answer = Answer {
            choice: Choice::Query,
            shown: SHOWN,
            by: &by,
            typed: None,
        };
        let late = question.answer(&answer, SHOWN, &situation(), EXPIRES);
        assert_eq!(late, Err(AnswerRefused::Expired));
    }

    #[test]
    fn a_refusal_says_what_helps() {
        let refusals = [
            AnswerRefused::AlreadyDecided {
                by: operator("ana"),
                choice: Choice::Cancel,
            },
            AnswerRefused::Expired,
            AnswerRefused::Changed,
            AnswerRefused::NotOffered {
                offered: vec![Choice::Query, Choice::Cancel],
            },
            AnswerRefused::Unconfirmed {
                text: CONFIRM_SECOND_EFFECT,
            },
        ];
        let text: Vec<_> = refusals
            .iter()
            .map(|r| format!("{}: {r}", r.word()))
            .collect();
        insta::assert_snapshot!(text.join("\n"), @r"
        already_decided: ana has already decided `cancel`; a decision works once
        expired: the question expired before this answer
        changed: the action has changed since it was shown
        hint: look at it again
        not_offered: this is not possible here
        hint: possible are query_existing_operation, cancel
        unconfirmed: this must be confirmed
        hint: type `this may happen twice`
        ");
    }
}
