//! Quantities as people write them: `60s`, `256MB`, `10%`.
//!
//! Each type here is one grammar, read from text and described to the JSON
//! schema by the same file, so that what an editor accepts and what the
//! governor accepts are the same. A number without its unit is refused with the
//! spelling that was probably meant, never guessed at.

use std::borrow::Cow;
use std::fmt;

use rategov_core::time::Span;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// Longest time that may be configured: ten years. Longer is a slip of the pen.
const SPAN_SECS_MAX: u64 = 10 * 366 * 24 * 3600;

/// Reads the whole number at the start of a text and gives the rest, trimmed.
/// At most fifteen digits, so that no multiplication by a unit can overflow.
fn leading_number(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 || digits > 15 {
        return None;
    }
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.trim_start()))
}

/// A length of time: a whole number and one of `us`, `ms`, `s`, `m`, `h`, `d`.
///
/// Grammar: `1*15DIGIT [SP] ("us" / "ms" / "s" / "m" / "h" / "d")`, at most ten years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpanText(pub Span);

impl SpanText {
    /// Reads the grammar above.
    ///
    /// # Errors
    /// The cause, and a hint on a line of its own.
    pub fn parse(text: &str) -> Result<SpanText, String> {
        let wrong = || {
            format!(
                "`{}` is not a time\nhint: write a whole number and its unit, such as `250ms`, `60s`, `10m`, `24h` or `90d`",
                shown(text)
            )
        };
        let (number, unit) = leading_number(text).ok_or_else(wrong)?;
        let micros_per_unit: u64 = match unit {
            "us" => 1,
            "ms" => 1_000,
            "s" => 1_000_000,
            "m" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => 86_400_000_000,
            "" => {
                return Err(format!(
                    "`{number}` is a time without its unit\nhint: write `{number}s` for seconds"
                ));
            }
            _ => return Err(wrong()),
        };
        match number.checked_mul(micros_per_unit) {
            Some(micros) if micros <= SPAN_SECS_MAX * 1_000_000 => {
                Ok(SpanText(Span::from_micros(micros)))
            }
            _ => Err(format!(
                "`{}` is too long\nhint: at most ten years, `3660d`",
                shown(text)
            )),
        }
    }
}

/// An amount of bytes: a whole number and one of `B`, `KB`, `MB`, `GB`, `TB`
/// (powers of ten) or `KiB`, `MiB`, `GiB`, `TiB` (powers of two).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SizeText(pub u64);

impl SizeText {
    /// Reads the grammar above.
    ///
    /// # Errors
    /// The cause, and a hint on a line of its own.
    pub fn parse(text: &str) -> Result<SizeText, String> {
        let wrong = || {
            format!(
                "`{}` is not a size\nhint: write a whole number and its unit, such as `64KB`, `256MB` or `4GB`",
                shown(text)
            )
        };
        let (number, unit) = leading_number(text).ok_or_else(wrong)?;
        let bytes_per_unit: u64 = match unit {
            "B" => 1,
            "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "TiB" => 1 << 40,
            "" => {
                return Err(format!(
                    "`{number}` is a size without its unit\nhint: write `{number}B` for bytes, or use `MB`"
                ));
            }
            _ => return Err(wrong()),
        };
        number
            .checked_mul(bytes_per_unit)
            .map(SizeText)
            .ok_or_else(|| format!("`{}` is more than any disk holds\nhint: write what there is room for, such as `4GB`", shown(text)))
    }
}

/// A share in thousandths, written as a percentage with at most one decimal:
/// `5%`, `12.5%`. May exceed 100 %; what uses it says whether that makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PercentText {
    /// Thousandths.
    pub permille: u32,
}

impl PercentText {
    /// Reads `1*4DIGIT ["." DIGIT] "%"`.
    ///
    /// # Errors
    /// The cause, and a hint on a line of its own.
    pub fn parse(text: &str) -> Result<PercentText, String> {
        let wrong = || {
            format!(
                "`{}` is not a share\nhint: write a percentage, such as `5%` or `12.5%`",
                shown(text)
            )
        };
        let number = text.strip_suffix('%').ok_or_else(wrong)?.trim_end();
        let (whole, tenth) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |part: &str, most: usize| {
            (!part.is_empty() && part.len() <= most && part.bytes().all(|b| b.is_ascii_digit()))
                .then(|| part.parse::<u32>().ok())
                .flatten()
        };
        match (digits(whole, 4), digits(tenth, 1)) {
            (Some(whole), Some(tenth)) => Ok(PercentText {
                permille: whole * 10 + tenth,
            }),
            _ => Err(wrong()),
        }
    }
}

/// A text as it may stand in a message: bounded, and without control characters.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    const CHARS_MAX: usize = 80;
    if text.len() <= CHARS_MAX && !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut out: String = text
        .chars()
        .take(CHARS_MAX)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        out.push('…');
    }
    Cow::Owned(out)
}

/// Gives a unit its `Deserialize` (from text, or from a bare number that is
/// answered with the spelling meant) and its place in the schema.
macro_rules! unit {
    ($name:ident, $expecting:literal, $pattern:literal, $example:literal) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                struct Unit;
                impl Visitor<'_> for Unit {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        $name::parse(text.trim()).map_err(E::custom)
                    }
                    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<$name, E> {
                        $name::parse(&number.to_string()).map_err(E::custom)
                    }
                    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<$name, E> {
                        Err(E::invalid_type(Unexpected::Float(number), &self))
                    }
                }
                deserializer.deserialize_any(Unit)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string", "pattern": $pattern, "examples": [$example],
                    "description": concat!("A text: ", $expecting, ".")
                })
            }
        }
    };
}

unit!(
    SpanText,
    "a time such as `60s` or `250ms`",
    r"^[0-9]{1,15} *(us|ms|s|m|h|d)$",
    "60s"
);
unit!(
    SizeText,
    "a size such as `256MB`",
    r"^[0-9]{1,15} *([KMGT]i?)?B$",
    "256MB"
);
unit!(
    PercentText,
    "a share such as `5%`",
    r"^[0-9]{1,4}(\.[0-9])? *%$",
    "5%"
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_time_needs_a_whole_number_and_a_unit() {
        let span = |text: &str| SpanText::parse(text).map(|s| s.0).ok();
        assert_eq!(span("60s"), Some(Span::from_secs(60)));
        assert_eq!(span("250ms"), Some(Span::from_millis(250)));
        assert_eq!(span("24h"), Some(Span::from_secs(86_400)));
        assert_eq!(span("400 d"), Some(Span::from_secs(400 * 86_400)));
        assert_eq!(span("0s"), Some(Span::ZERO));
        for wrong in [
            "",
            "s",
            "-1s",
            "1.5s",
            "60",
            "60 seconds",
            "1s2",
            "99999d",
            "१s",
        ] {
            assert_eq!(span(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_size_tells_powers_of_ten_from_powers_of_two() {
        assert_eq!(SizeText::parse("256MB"), Ok(SizeText(256_000_000)));
        assert_eq!(SizeText::parse("256MiB"), Ok(SizeText(268_435_456)));
        assert!(SizeText::parse("256mb").is_err());
        let beyond = SizeText::parse("999999999999999TiB").unwrap_err();
        assert!(beyond.contains("\nhint: "), "{beyond}");
    }

    #[test]
    fn a_share_is_kept_in_thousandths() {
        assert_eq!(
            PercentText::parse("12.5%"),
            Ok(PercentText { permille: 125 })
        );
        assert_eq!(PercentText::parse("0 %"), Ok(PercentText { permille: 0 }));
        for wrong in ["5", "%", ".5%", "5.%", "5.55%", "-5%", "12345%"] {
            assert!(PercentText::parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_unit_panic(text in ".*") {
            let _ = (SpanText::parse(&text), SizeText::parse(&text), PercentText::parse(&text));
            prop_assert!(shown(&text).chars().count() <= 81);
        }
    }
}
