//! What an answer says about itself, beside its limits: codes, signs, counts.
//!
//! The first value of a kind is believed where only one can be true; header
//! fields come before values of the body, and those in the order of the preset.
//! Counts and waits take the largest. Everything is bounded.

use super::dialect::{FieldRule, Place, What};
use super::errors::clip;
use super::{AnsweredAt, quantity, sign};
use crate::time::Span;

/// Most reasons that are kept.
const REASONS_MAX: usize = 16;
/// Longest code, type or reason that is kept, in bytes.
const WORD_BYTES_MAX: usize = 200;
/// Longest sentence that is kept, in bytes.
const SENTENCE_BYTES_MAX: usize = 4096;
/// Most members of a batch whose status is kept.
const PARTS_MAX: usize = 64;

/// Figures of an answer that describe no limit. Unknown is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// What the call used up, in the provider's units.
    pub cost: Option<u64>,
    /// Calls that were open when the provider answered.
    pub in_flight: Option<u64>,
    /// The share of a limit that is used, in thousandths.
    pub used_permille: Option<u64>,
}

impl Figures {
    pub(crate) const NONE: Figures = Figures {
        cost: None,
        in_flight: None,
        used_permille: None,
    };
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) code: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) status: Option<u16>,
    pub(crate) reasons: Vec<String>,
    /// Statuses of the members of a batch, each once.
    pub(crate) parts: Vec<u16>,
    pub(crate) replayed: Option<bool>,
    pub(crate) near_limit: Option<bool>,
    /// The longest wait in a vendor's header field.
    pub(crate) header_wait: Option<Span>,
    /// The longest wait in a place of the body.
    pub(crate) body_wait: Option<Span>,
    pub(crate) figures: Figures,
}

impl Told {
    /// Takes one value. `None` if it does not match its grammar.
    pub(crate) fn take(&mut self, rule: &FieldRule, value: &str, at: AnsweredAt) -> Option<()> {
        let first = |known: &mut Option<String>, text: &str, max| {
            known.get_or_insert_with(|| clip(text, max).to_owned());
        };
        match rule.what {
            What::Code => first(&mut self.code, sign::code(value)?, WORD_BYTES_MAX),
            What::Type => first(&mut self.kind, sign::code(value)?, WORD_BYTES_MAX),
            What::Message => first(&mut self.message, value, SENTENCE_BYTES_MAX),
            What::Reason if !value.is_empty() && self.reasons.len() < REASONS_MAX => {
                self.reasons.push(clip(value, WORD_BYTES_MAX).to_owned());
            }
            What::Status => self.status = self.status.or(Some(status(value)?)),
            What::PartStatus => {
                let part = status(value)?;
                if !self.parts.contains(&part) && self.parts.len() < PARTS_MAX {
                    self.parts.push(part);
                }
            }
            What::Replayed => self.replayed = self.replayed.or(Some(sign::is_yes(value)?)),
            What::NearLimit => self.near_limit = self.near_limit.or(Some(sign::is_yes(value)?)),
            What::Retry if quantity::is_negative(value) => {}
            What::Retry => {
                let wait = Some(rule.unit.span(value, at)?);
                match rule.place {
                    Place::Body(_) => self.body_wait = self.body_wait.max(wait),
                    _ => self.header_wait = self.header_wait.max(wait),
                }
            }
            What::Share => {
                let share = Some(sign::permille(value)?);
                self.figures.used_permille = self.figures.used_permille.max(share);
            }
            What::Cost => self.figures.cost = self.figures.cost.max(Some(units(value)?)),
            What::InFlight => {
                self.figures.in_flight = self.figures.in_flight.max(Some(units(value)?));
            }
            // These describe limits.
            _ => {}
        }
        Some(())
    }
}

fn units(text: &str) -> Option<u64> {
    quantity::whole_above(text)
}

fn status(text: &str) -> Option<u16> {
    let number = quantity::whole(text)?;
    u16::try_from(number)
        .ok()
        .filter(|n| (100..=599).contains(n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::WallTime;

    const NOON: AnsweredAt = AnsweredAt(WallTime::from_secs(1_796_126_400));

    fn told(values: &[(What, &str)]) -> (Told, usize) {
        let mut told = Told::default();
        let taken = values.iter().filter(|(what, value)| {
            let rule = FieldRule::new(Place::header("x-some"), *what);
            told.take(&rule, value, NOON).is_none()
        });
        let malformed = taken.count();
        (told, malformed)
    }

    #[test]
    fn the_first_code_is_believed_and_every_reason_is_kept() {
        let (told, malformed) = told(&[
            (What::Code, "ThrottlingException:http://internal/"),
            (What::Code, "Other"),
            (What::Reason, "endpoint-rate"),
            (What::Reason, "global"),
            (What::Code, ""),
        ]);
        assert_eq!(told.code.as_deref(), Some("ThrottlingException"));
        assert_eq!(told.reasons, ["endpoint-rate", "global"]);
        assert_eq!(malformed, 1);
    }

    #[test]
    fn counts_shares_and_signs_are_read_in_their_own_forms() {
        let (told, malformed) = told(&[
            (What::Share, "0.85"),
            (What::Cost, "3"),
            (What::InFlight, "7"),
            (What::Replayed, "miss"),
            (What::NearLimit, "true"),
            (What::PartStatus, "429"),
            (What::PartStatus, "429"),
            (What::Status, "many"),
            (What::InFlight, "seven"),
        ]);
        let figures = Figures {
            cost: Some(3),
            in_flight: Some(7),
            used_permille: Some(850),
        };
        assert_eq!(told.figures, figures);
        assert_eq!((told.replayed, told.near_limit), (Some(false), Some(true)));
        assert_eq!((told.parts, malformed), (vec![429], 2));
    }

    #[test]
    fn of_several_waits_the_longest_counts_and_minus_one_is_none() {
        let (told, malformed) = told(&[
            (What::Retry, "-1"),
            (What::Retry, "26s"),
            (What::Retry, "38.2s"),
        ]);
        assert_eq!(told.header_wait, Some(Span::from_millis(38_200)));
        assert_eq!((told.body_wait, malformed), (None, 0));
    }
}
