//! `Retry-After`: how long the provider asks us to stay away.
//!
//! ```text
//! Retry-After = member *( OWS "," OWS member )     ; RFC 9110 §10.2.3 has one member
//! member      = delay / HTTP-date
//! delay       = 1*DIGIT [ "." 1*DIGIT ]            ; the fraction is a vendor's habit
//! ```
//!
//! Promises:
//!
//! - a value outside the grammar gives no hint, never a guess: `-5`, `+3`,
//!   `120junk` and `NaN` are malformed, and the caller backs off on its own;
//! - more digits than fit mean "very long", not "absent";
//! - a date is read against the moment of the answer itself, so a wrong clock
//!   on either side cancels out; a date in the past is a hint of zero;
//! - of several values, repeated or joined by a proxy, the longest counts.
//!
//! Worked, with an answer dated 12:00:00: `30, Thu, 13 Aug 2026 12:02:00 GMT`
//! has two members, 30 s and 120 s, and means 120 s.

use super::{AnsweredAt, dates, quantity};
use crate::time::Span;

/// What the values of one field amount to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// The longest wait among the well-formed values; zero is a hint, too.
    pub wait: Option<Span>,
    /// Whether a value did not match the grammar.
    pub malformed: bool,
}

impl Hint {
    /// Takes in one more value: `None` is a malformed one.
    pub(crate) fn add(&mut self, wait: Option<Span>) {
        self.malformed |= wait.is_none();
        self.wait = self.wait.max(wait);
    }
}

/// Reads all values of `Retry-After`, one a field line. Cost: one pass.
pub fn read<'a>(values: impl IntoIterator<Item = &'a str>, at: AnsweredAt) -> Hint {
    let mut hint = Hint::default();
    for value in values {
        let mut rest = Some(value);
        while let Some(members) = rest {
            let (member, after) = next_member(members, at);
            hint.add(member);
            rest = after;
        }
    }
    hint
}

/// The wait of the first member, and the members after it.
fn next_member(members: &str, at: AnsweredAt) -> (Option<Span>, Option<&str>) {
    let Some((first, after)) = members.split_once(',') else {
        return (delay_or_date(members, at), None);
    };
    // Two of the three date forms hold a comma themselves, behind the weekday.
    let (second, beyond) = match after.split_once(',') {
        Some((second, beyond)) => (second, Some(beyond)),
        None => (after, None),
    };
    let both = &members[..first.len() + 1 + second.len()];
    match date(both, at) {
        Some(wait) => (Some(wait), beyond),
        None => (delay_or_date(first, at), Some(after)),
    }
}

fn delay_or_date(member: &str, at: AnsweredAt) -> Option<Span> {
    let member = member.trim_matches([' ', '\t']);
    quantity::span(member, quantity::Scale::Seconds).or_else(|| date(member, at))
}

fn date(member: &str, at: AnsweredAt) -> Option<Span> {
    dates::http_date(member.trim_matches([' ', '\t'])).map(|date| date.since(at.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::WallTime;
    use proptest::prelude::*;

    /// 2026-08-13T12:00:00Z.
    const NOON: AnsweredAt = AnsweredAt(WallTime::from_secs(1_786_622_400));

    #[track_caller]
    fn check(values: &[&str], wait_s: Option<u64>, malformed: bool) {
        let expected = Hint {
            wait: wait_s.map(Span::from_secs),
            malformed,
        };
        assert_eq!(read(values.iter().copied(), NOON), expected, "{values:?}");
    }

    #[test]
    fn the_longest_of_several_values_counts() {
        check(&["30", "60"], Some(60), false);
        check(&["60, 30"], Some(60), false);
        check(&["30, Thu, 13 Aug 2026 12:02:00 GMT"], Some(120), false);
        check(&["Thu, 13 Aug 2026 12:02:00 GMT, 30"], Some(120), false);
        check(
            &["Thursday, 13-Aug-26 12:02:00 GMT,Thu Aug 13 12:03:00 2026"],
            Some(180),
            false,
        );
    }

    #[test]
    fn a_malformed_value_beside_a_good_one_takes_nothing_away() {
        check(&["soon", "60"], Some(60), true);
        check(&["60,"], Some(60), true);
        check(&["60, soon, 5"], Some(60), true);
    }

    #[test]
    fn nothing_is_neither_a_hint_nor_malformed() {
        check(&[], None, false);
    }

    proptest! {
        #[test]
        fn a_longer_delay_never_reads_as_a_shorter_one(a in 0u64..1 << 40, b in 0u64..1 << 40) {
            let wait = |n: u64| read([n.to_string().as_str()], NOON).wait;
            prop_assert_eq!(a.cmp(&b), wait(a).cmp(&wait(b)));
            let joined = format!("{a} , {b}");
            prop_assert_eq!(read([joined.as_str()], NOON).wait, wait(a).max(wait(b)));
        }

        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in "[ -~\t,]{0,80}") {
            let hint = read([text.as_str()], NOON);
            prop_assert!(hint.wait.is_some() || hint.malformed);
        }
    }
}
