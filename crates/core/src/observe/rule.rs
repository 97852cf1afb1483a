//! One row of an error table, and what it asks for.
//!
//! The same status says "wait two seconds" and "wait until next month", and so does
//! sometimes the same code. A row names as much as it takes to tell them apart; all
//! of it must hold. Worked: Gemini's refusal for a day's quota is status 429 with a
//! further code that holds `PerDay`; one for a quota of which nothing was ever
//! granted names a limit of 0 besides, so that row stands before the other.

use super::errors::Case;
use super::{Advice, Kind, Reach};
use crate::time::Span;

/// One row of an error table. What is `None` is not asked for; a rule that asks
/// for nothing matches nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorRule {
    /// The status of the answer, or under a success status that of the body.
    pub status: Option<u16>,
    /// The code, the type or a further code, whatever its case.
    pub code: Option<String>,
    /// A piece of the message, whatever its case.
    pub message: Option<String>,
    /// A piece of a further code, whatever its case.
    pub reason: Option<String>,
    /// A limit of this name or dimension is used up; `any` for whichever.
    pub exhausted: Option<String>,
    /// The answer names a limit of exactly this size.
    pub limit: Option<u64>,
    /// The answer names a wait of at least this.
    pub wait_from: Option<Span>,
    /// A member of a batch that succeeded as a whole has this status.
    pub part: Option<u16>,
    /// What it is.
    pub kind: Kind,
    /// Whose limit it is; `None` leaves it to the readings and the meaning.
    pub reach: Option<Reach>,
    /// The same in words.
    pub whose: Option<String>,
    /// How long to wait where the answer does not say and the documentation does.
    pub wait: Option<Span>,
    /// What helps, where it is not what usually does.
    pub advice: Option<Advice>,
}

impl ErrorRule {
    /// A rule of this kind that asks for nothing yet.
    pub const fn of(kind: Kind) -> ErrorRule {
        ErrorRule {
            status: None,
            code: None,
            message: None,
            reason: None,
            exhausted: None,
            limit: None,
            wait_from: None,
            part: None,
            kind,
            reach: None,
            whose: None,
            wait: None,
            advice: None,
        }
    }

    /// Whether the rule asks for anything.
    pub fn asks(&self) -> bool {
        let ErrorRule {
            status,
            code,
            message,
            reason,
            exhausted,
            limit,
            wait_from,
            part,
            ..
        } = self;
        let words = [code, message, reason, exhausted];
        words.iter().any(|word| word.is_some())
            || [status, part].iter().any(|status| status.is_some())
            || limit.is_some()
            || wait_from.is_some()
    }

    pub(crate) fn matches(&self, case: &Case<'_>) -> bool {
        let is_code = |code: &str| {
            let told = case.told.reasons.iter().map(String::as_str);
            let named = [case.body.code, case.body.kind].into_iter().flatten();
            named.chain(told).any(|it| it.eq_ignore_ascii_case(code))
        };
        let in_reason = |piece: &str| {
            let mut reasons = case.told.reasons.iter();
            reasons.any(|reason| contains(&reason.to_ascii_lowercase(), piece))
        };
        let is_used_up = |name: &str| {
            let used_up = case.readings.iter().filter(|reading| reading.is_used_up());
            let mut names = used_up.map(|reading| (reading.label(), &*reading.dimension));
            names.any(|(label, dimension)| [ANY, label, dimension].contains(&name))
        };
        // Under an error status the batch as a whole was refused.
        let is_part = |status: u16| case.status < 400 && case.told.parts.contains(&status);
        let is_limit = |size: u64| {
            let mut all = case.readings.iter().chain(case.asides);
            all.any(|reading| reading.limit == Some(size))
        };
        self.asks()
            && self.status.is_none_or(|status| status == case.status)
            && self.code.as_deref().is_none_or(is_code)
            && (self.message.as_deref()).is_none_or(|piece| contains(&case.message, piece))
            && self.reason.as_deref().is_none_or(in_reason)
            && self.exhausted.as_deref().is_none_or(is_used_up)
            && self.limit.is_none_or(is_limit)
            && (self.wait_from).is_none_or(|least| case.wait.is_some_and(|wait| least <= wait))
            && self.part.is_none_or(is_part)
    }
}

/// What stands for whichever limit in [`ErrorRule::exhausted`].
const ANY: &str = "any";

/// Whether a text in lower case holds a piece in any case, without a copy.
fn contains(lower: &str, piece: &str) -> bool {
    let piece = piece.as_bytes();
    !piece.is_empty()
        && lower
            .as_bytes()
            .windows(piece.len())
            .any(|part| part.eq_ignore_ascii_case(piece))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::dialect::{FieldRule, MessageClock, Place, What};
    use crate::observe::{Answer, Dialect, Facts, read_answer};
    use crate::time::WallTime;

    fn dialect() -> Dialect {
        let limit = |header: &str, what| FieldRule {
            dimension: "requests".to_owned(),
            name: Some("requests_day".to_owned()),
            ..FieldRule::new(Place::header(header), what)
        };
        let fields = vec![
            limit("x-limit", What::Limit),
            limit("x-left", What::Remaining),
            FieldRule::new(Place::header("x-reason"), What::Reason),
            FieldRule::new(Place::header("x-part"), What::PartStatus),
        ];
        Dialect::new(fields, MessageClock::Unknown).unwrap()
    }

    fn facts(status: u16, fields: &[(&str, &str)], rule: &ErrorRule) -> Facts {
        let headers: Vec<_> = fields.iter().map(|(n, v)| (*n, v.as_bytes())).collect();
        let answer = Answer {
            status,
            headers: &headers,
            error: None,
            values: &[],
            arrived: WallTime::from_secs(1_796_126_400),
        };
        read_answer(&answer, &dialect(), std::slice::from_ref(rule))
    }

    /// Whether a rule that says `billing` decides about an answer with these fields.
    #[track_caller]
    fn check(rule: &ErrorRule, fields: &[(&str, &str)], decides: bool) {
        let facts = facts(429, fields, rule);
        assert_eq!(facts.kind == Kind::Billing, decides, "{rule:?} {fields:?}");
    }

    #[test]
    fn a_further_code_is_matched_whole_or_by_a_piece() {
        let rule = ErrorRule::of(Kind::Billing);
        let whole = ErrorRule {
            code: Some("endpoint-rate".into()),
            ..rule.clone()
        };
        check(&whole, &[("x-reason", "Endpoint-Rate")], true);
        check(&whole, &[("x-reason", "endpoint-rate-2")], false);
        let piece = ErrorRule {
            reason: Some("PerDay".into()),
            ..rule
        };
        check(
            &piece,
            &[("x-reason", "GenerateRequestsPerDayPerModel")],
            true,
        );
        check(&piece, &[("x-reason", "GenerateRequestsPerMinute")], false);
        check(&piece, &[], false);
    }

    #[test]
    fn a_limit_is_used_up_by_its_name_its_dimension_or_any() {
        for (name, decides) in [
            ("any", true),
            ("requests_day", true),
            ("requests", true),
            ("tokens", false),
        ] {
            let rule = ErrorRule {
                exhausted: Some(name.into()),
                ..ErrorRule::of(Kind::Billing)
            };
            check(&rule, &[("x-limit", "5"), ("x-left", "0")], decides);
            check(&rule, &[("x-limit", "5"), ("x-left", "1")], false);
        }
    }

    #[test]
    fn a_limit_of_zero_is_asked_for_by_its_size() {
        let rule = ErrorRule {
            limit: Some(0),
            ..ErrorRule::of(Kind::Billing)
        };
        check(&rule, &[("x-limit", "0"), ("x-left", "0")], true);
        check(&rule, &[("x-limit", "-1")], false);
        check(&rule, &[("x-limit", "5"), ("x-left", "0")], false);
    }

    #[test]
    fn a_long_wait_is_one_that_the_answer_names() {
        let rule = ErrorRule {
            wait_from: Some(Span::from_secs(3_600)),
            ..ErrorRule::of(Kind::Billing)
        };
        check(&rule, &[("retry-after", "3600")], true);
        check(&rule, &[("retry-after", "3599")], false);
        check(&rule, &[], false);
    }

    #[test]
    fn a_refused_member_of_a_batch_is_told_under_a_success() {
        let rule = ErrorRule {
            part: Some(429),
            ..ErrorRule::of(Kind::PartlyLimited)
        };
        let kind = |part| facts(200, &[("x-part", part)], &rule).kind;
        assert_eq!(kind("429"), Kind::PartlyLimited);
        assert_eq!(kind("200"), Kind::Ok);
        let whole = facts(503, &[("x-part", "429")], &rule);
        assert_eq!(whole.kind, Kind::Overloaded);
    }

    #[test]
    fn a_rule_that_names_the_limit_knows_best_whose_it_is() {
        let fields = [("x-limit", "5"), ("x-left", "0")];
        let named = ErrorRule {
            exhausted: Some("requests_day".into()),
            reach: Some(Reach::Credential),
            ..ErrorRule::of(Kind::RateLimited)
        };
        assert_eq!(facts(429, &fields, &named).reach, Reach::Credential);
        let unnamed = ErrorRule {
            exhausted: None,
            status: Some(429),
            ..named
        };
        assert_eq!(facts(429, &fields, &unnamed).reach, Reach::Account);
    }
}
