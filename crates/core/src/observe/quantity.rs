//! Numbers as providers write them, and nothing that merely looks like one.
//!
//! A number is decimal digits, optionally followed by a point and more digits:
//! no sign, no exponent, no grouping, no unit. Integers only inside: a decimal
//! number of seconds becomes whole microseconds, rounded **up**, because a wait
//! that is a little long costs nothing and one that is a little short costs a
//! refusal.
//!
//! ```text
//! number   = 1*DIGIT [ "." 1*DIGIT ]
//! duration = 1*( number unit )            ; as Go writes them
//! unit     = "ns" / "us" / "µs" / "ms" / "s" / "m" / "h" / "d"
//! ```
//!
//! Worked: `6m0.0000001s` is 360 s and a tenth of a microsecond, so
//! 360,000,001 µs. Twenty-six nines are far more than fits and mean
//! [`Span::MAX`]: "very long", not "absent".
//!
//! Source of the duration grammar: the documentation of Go's
//! `time.ParseDuration`; `d` is ours, for vendors who print days.

use crate::time::Span;

/// Microseconds in one unit of a number without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// The number counts seconds.
    Seconds,
    /// The number counts milliseconds.
    Millis,
}

impl Scale {
    const fn nanos(self) -> u64 {
        match self {
            Scale::Seconds => 1_000_000_000,
            Scale::Millis => 1_000_000,
        }
    }
}

/// A decimal number taken apart: whole units, and the digits behind the point.
struct Number<'a> {
    whole: u128,
    fraction: &'a str,
}

/// A whole number; anything beyond the range becomes `u64::MAX`. Cost: one pass.
pub(crate) fn whole(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(saturating_digits(text).min(u128::from(u64::MAX)) as u64)
}

/// A whole or decimal number of units still to be had, rounded **down**: half
/// a call is no call.
pub(crate) fn whole_below(text: &str) -> Option<u64> {
    Some(split(text)?.whole.min(u128::from(u64::MAX)) as u64)
}

/// A whole or decimal number of units used or asked for, rounded **up**.
pub(crate) fn whole_above(text: &str) -> Option<u64> {
    let number = split(text)?;
    let more = number.fraction.bytes().any(|b| b != b'0');
    let above = number.whole.saturating_add(u128::from(more));
    Some(above.min(u128::from(u64::MAX)) as u64)
}

/// Whether the text is a negative number: providers write `-1` for "no value".
pub(crate) fn is_negative(text: &str) -> bool {
    text.strip_prefix('-')
        .is_some_and(|rest| split(rest).is_some())
}

/// A decimal number of seconds or milliseconds, rounded up to the microsecond.
pub(crate) fn span(text: &str, scale: Scale) -> Option<Span> {
    Some(micros(nanos(&split(text)?, scale.nanos())))
}

/// The whole part of a number in full width, for telling an epoch from a delta.
pub(crate) fn magnitude(text: &str) -> Option<u128> {
    Some(split(text)?.whole)
}

/// A duration as Go prints it: `1s`, `6m0s`, `23h18m29.144s`, `12ms`, and `0`.
pub(crate) fn go_duration(text: &str) -> Option<Span> {
    if text == "0" {
        return Some(Span::ZERO);
    }
    let mut rest = text;
    let mut sum: u128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number = split(&rest[..end])?;
        let (unit, after) = unit(&rest[end..])?;
        sum = sum.saturating_add(nanos(&number, unit));
        rest = after;
    }
    if text.is_empty() {
        None
    } else {
        Some(micros(sum))
    }
}

/// The unit at the start of a text, in nanoseconds, and what follows it.
fn unit(text: &str) -> Option<(u64, &str)> {
    // `ms` before `m`: the longer name wins.
    const UNITS: [(&str, u64); 9] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60 * 1_000_000_000),
        ("h", 3_600 * 1_000_000_000),
        ("d", 86_400 * 1_000_000_000),
    ];
    UNITS
        .iter()
        .find_map(|(name, nanos)| Some((*nanos, text.strip_prefix(name)?)))
}

fn split(text: &str) -> Option<Number<'_>> {
    let (whole, fraction) = match text.split_once('.') {
        Some((_, "")) => return None,
        Some((whole, fraction)) => (whole, fraction),
        None => (text, ""),
    };
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    Some(Number {
        whole: saturating_digits(whole),
        fraction,
    })
}

fn saturating_digits(digits: &str) -> u128 {
    digits.bytes().fold(0u128, |n, b| {
        n.saturating_mul(10).saturating_add(u128::from(b - b'0'))
    })
}

/// A number of units of `unit` nanoseconds each, in nanoseconds, rounded up.
fn nanos(number: &Number<'_>, unit: u64) -> u128 {
    // Eighteen digits resolve less than a nanosecond of a day; what is behind
    // them only decides whether to round up.
    let (kept, dropped) = number.fraction.split_at(number.fraction.len().min(18));
    let scale = 10u128.pow(kept.len() as u32);
    let exact = saturating_digits(kept).saturating_mul(u128::from(unit));
    let rest = dropped.bytes().any(|b| b != b'0');
    let part = exact.div_ceil(scale) + u128::from(rest && exact % scale == 0);
    number
        .whole
        .saturating_mul(u128::from(unit))
        .saturating_add(part)
}

fn micros(nanos: u128) -> Span {
    Span::from_micros(nanos.div_ceil(1_000).min(u128::from(u64::MAX)) as u64)
}

/// Whether digits stand in groups of three behind commas: `1,000` can be a thousand, or
/// two numbers that a proxy has joined, so nobody can tell what it means.
pub(crate) fn may_be_grouped(text: &str) -> bool {
    let is_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let Some((first, rest)) = text.split_once(',') else {
        return false;
    };
    (1..=3).contains(&first.len())
        && is_digits(first)
        && rest
            .split(',')
            .all(|part| part.len() == 3 && is_digits(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_in_groups_of_three_may_be_one_number() {
        for grouped in ["1,000", "12,500,000", "999,999"] {
            assert!(may_be_grouped(grouped), "{grouped}");
        }
        for plain in ["1000", "5000,100", "1, 000", "7,6", "1,000k", ",000", ""] {
            assert!(!may_be_grouped(plain), "{plain}");
        }
    }
    use proptest::prelude::*;

    fn us(us: u64) -> Option<Span> {
        Some(Span::from_micros(us))
    }

    #[test]
    fn a_decimal_number_rounds_up_to_the_microsecond() {
        assert_eq!(span("1.5", Scale::Seconds), us(1_500_000));
        assert_eq!(span("2.0", Scale::Seconds), us(2_000_000));
        assert_eq!(span("0.0000001", Scale::Seconds), us(1));
        assert_eq!(
            span("1.00000000000000000000001", Scale::Seconds),
            us(1_000_001)
        );
        assert_eq!(
            span("1.00000000000000000000000", Scale::Seconds),
            us(1_000_000)
        );
        assert_eq!(span("1500", Scale::Millis), us(1_500_000));
        assert_eq!(span("0.0001", Scale::Millis), us(1));
    }

    #[test]
    fn what_merely_looks_like_a_number_is_refused() {
        let not_numbers = [
            "", ".", "1.", ".5", "-1", "+1", "1e3", "0x10", "1 000", "1,5", "NaN", "inf", "１",
        ];
        for text in not_numbers {
            assert_eq!(span(text, Scale::Seconds), None, "{text:?}");
            assert_eq!(whole(text), None, "{text:?}");
            assert_eq!(go_duration(text), None, "{text:?}");
        }
    }

    #[test]
    fn more_than_fits_is_very_long_and_not_absent() {
        let nines = "9".repeat(200);
        assert_eq!(span(&nines, Scale::Seconds), Some(Span::MAX));
        assert_eq!(go_duration(&format!("{nines}h")), Some(Span::MAX));
        assert_eq!(whole(&nines), Some(u64::MAX));
    }

    #[test]
    fn durations_are_read_as_go_prints_them() {
        for (text, expected) in [
            ("1s", 1_000_000),
            ("6m0s", 360_000_000),
            ("12ms", 12_000),
            ("500ms", 500_000),
            ("1m30s", 90_000_000),
            ("2h3m", 7_380_000_000),
            ("4m12.172s", 252_172_000),
            ("23h18m29.144s", 83_909_144_000),
            ("10h17m5.723541104s", 37_025_723_542),
            ("1d", 86_400_000_000),
            ("3µs", 3),
            ("1ns", 1),
            ("0s", 0),
            ("0", 0),
        ] {
            assert_eq!(go_duration(text), us(expected), "{text}");
        }
        for text in [
            "s", "1", "1 s", "1x", "1s ", "1s1", "-1s", "1.s", "1..2s", "m1s",
        ] {
            assert_eq!(go_duration(text), None, "{text:?}");
        }
    }

    #[test]
    fn minus_one_is_a_negative_number_and_a_dash_is_not() {
        assert!(is_negative("-1"));
        assert!(is_negative("-1.5"));
        assert!(!is_negative("-"));
        assert!(!is_negative("1"));
        assert!(!is_negative("--1"));
    }

    proptest! {
        #[test]
        fn microseconds_survive_being_written_as_decimal_seconds(n in 0u64..10_000_000_000_000) {
            let text = format!("{}.{:06}", n / 1_000_000, n % 1_000_000);
            prop_assert_eq!(span(&text, Scale::Seconds), us(n));
            prop_assert_eq!(go_duration(&format!("{text}s")), us(n));
        }

        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in "\\PC{0,60}") {
            let _ = (span(&text, Scale::Millis), go_duration(&text), whole(&text), whole_below(&text));
        }
    }
}
