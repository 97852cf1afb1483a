//! Short values that are a yes, a no, a share, or a code with an address on it.
//!
//! ```text
//! sign  = no / 1*VCHAR                       ; any other value is a yes
//! no    = "false" / "no" / "0" / "miss" / "off" / "none"
//! share = number / number "%"                ; 0.85 is the same as 85%
//! code  = [ address "#" ] word [ ":" address ]
//! ```
//!
//! A header that is there only when something is so (`Idempotent-Replayed: true`,
//! an echoed key) and one that says either (`x-idempotency-lookup: miss`) are
//! read alike. A code may carry the place where it is defined; worked:
//! `com.amazon.coral#ThrottlingException:http://internal/` is `ThrottlingException`.

use super::quantity::{self, Scale};

/// Whether a value says yes. `None` if it says nothing.
pub(crate) fn is_yes(text: &str) -> Option<bool> {
    const NO: [&str; 6] = ["false", "no", "0", "miss", "off", "none"];
    (!text.is_empty()).then(|| !NO.iter().any(|no| no.eq_ignore_ascii_case(text)))
}

/// A share in thousandths, rounded up.
pub(crate) fn permille(text: &str) -> Option<u64> {
    let (number, whole) = match text.strip_suffix('%') {
        Some(percent) => (percent.trim_end(), 100),
        None => (text, 1),
    };
    // A number with six decimals, as a span counts them.
    let millionths = quantity::span(number, Scale::Seconds)?.as_micros();
    Some(millionths.div_ceil(1_000 * whole))
}

/// The bare code; `None` if nothing is left.
pub(crate) fn code(text: &str) -> Option<&str> {
    let word = text.split_once(':').map_or(text, |(word, _)| word);
    let word = word.rsplit_once('#').map_or(word, |(_, word)| word).trim();
    (!word.is_empty()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_no_is_a_no() {
        for (text, expected) in [
            ("true", Some(true)),
            ("hit", Some(true)),
            ("00000000-0000-4000-8000-0000000000f1", Some(true)),
            ("False", Some(false)),
            ("miss", Some(false)),
            ("0", Some(false)),
            ("", None),
        ] {
            assert_eq!(is_yes(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_share_is_a_part_of_one_or_of_a_hundred() {
        for (text, expected) in [
            ("0.85", Some(850)),
            ("1.8", Some(1_800)),
            ("85%", Some(850)),
            ("85.5 %", Some(855)),
            ("0", Some(0)),
            ("-1", None),
            ("much", None),
            ("", None),
        ] {
            assert_eq!(permille(text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_address_of_a_code_is_cut_off() {
        let bare = Some("ThrottlingException");
        assert_eq!(code("ThrottlingException"), bare);
        assert_eq!(code("ThrottlingException:http://internal/coral/"), bare);
        assert_eq!(code("com.amazon.coral#ThrottlingException"), bare);
        assert_eq!(code(":"), None);
        assert_eq!(code(""), None);
    }
}
