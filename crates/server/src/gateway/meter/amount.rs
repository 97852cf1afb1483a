//! A number of a JSON text as an exact amount.
//!
//! Tokens are whole, but some providers write `12.0`; money comes as `0.00014` or
//! `1.4e-4`. All of it is kept in millionths, as whole numbers. What is negative,
//! or larger than any cost, is no amount.
//!
//! | written | whole | millionths |
//! |---|---|---|
//! | `1950` | 1,950 | 1,950,000,000 |
//! | `12.0` | 12 | 12,000,000 |
//! | `1.4e-4` | 1 | 140 |
//! | `-1`, `1e99` | none | none |

/// Longest number that is read.
pub(super) const DIGITS_MAX: usize = 40;
/// No call costs more.
const WHOLE_MAX: u128 = 1 << 48;
/// Millionths in a whole.
const MILLION: u128 = 1_000_000;

/// An amount, not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Amount(u128);

impl Amount {
    /// Reads a JSON number.
    pub(super) fn read(text: &[u8]) -> Option<Amount> {
        let mut mantissa: u128 = 0;
        let mut scale: i32 = 6;
        let mut is_fraction = false;
        let mut rest = text.iter();
        for byte in rest.by_ref() {
            match byte {
                b'0'..=b'9' => {
                    let digit = u128::from(byte - b'0');
                    mantissa = mantissa.checked_mul(10)?.checked_add(digit)?;
                    scale -= i32::from(is_fraction);
                }
                b'.' if !is_fraction => is_fraction = true,
                b'e' | b'E' => {
                    let exponent = std::str::from_utf8(rest.as_slice()).ok()?;
                    scale += exponent.parse::<i32>().ok().filter(|it| it.abs() < 100)?;
                    break;
                }
                _ => return None,
            }
        }
        let power = 10u128.checked_pow(scale.unsigned_abs());
        let millionths = match (0 <= scale, power) {
            (true, Some(power)) => mantissa.checked_mul(power)?,
            (true, None) if mantissa == 0 => 0,
            (true, None) => return None,
            (false, Some(power)) => mantissa.div_ceil(power),
            (false, None) => u128::from(0 < mantissa),
        };
        (millionths <= WHOLE_MAX * MILLION).then_some(Amount(millionths))
    }

    /// In whole units, rounded up: a part of a token is charged as one.
    pub(super) fn whole(self) -> u64 {
        self.0.div_ceil(MILLION) as u64
    }

    /// In millionths.
    pub(super) fn millionths(self) -> u64 {
        u64::try_from(self.0).unwrap_or(u64::MAX)
    }

    /// Two amounts together.
    pub(super) fn and(self, other: Amount) -> Amount {
        Amount((self.0 + other.0).min(WHOLE_MAX * MILLION))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_table_holds() {
        for (text, expected) in [
            ("1950", Some((1_950, 1_950_000_000))),
            ("12.0", Some((12, 12_000_000))),
            ("1.4e-4", Some((1, 140))),
            ("0.95", Some((1, 950_000))),
            ("2E3", Some((2_000, 2_000_000_000))),
            ("0", Some((0, 0))),
            ("0e90", Some((0, 0))),
            ("1e-99", Some((1, 1))),
            ("-1", None),
            ("1e99", None),
            ("1e99999999999", None),
            ("1.2.3", None),
            ("99999999999999999999999999999999999999999999", None),
        ] {
            let read = Amount::read(text.as_bytes());
            let parts = read.map(|amount| (amount.whole(), amount.millionths()));
            assert_eq!(parts, expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn whole_numbers_are_exact_and_nothing_panics(number in 0u64..1 << 48, text in "[0-9.eE+-]{0,40}") {
            prop_assert_eq!(Amount::read(number.to_string().as_bytes()).map(Amount::whole), Some(number));
            let _ = Amount::read(text.as_bytes());
        }
    }
}
