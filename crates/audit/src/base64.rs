//! Base64 with the standard alphabet and padding (RFC 4648, section 4).
//!
//! Decoding is strict: no white space, padding required, and the unused bits
//! of the last digit must be zero, so that a byte string has one spelling only
//! and two different exports can't hold the same record.

use std::fmt;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text is not the base64 form of anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base64Error;

impl fmt::Display for Base64Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not base64 in its canonical form")
    }
}

impl std::error::Error for Base64Error {}

/// Length of the text for `bytes` bytes.
pub const fn encoded_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

/// Appends the text of `bytes` to `out`.
pub fn encode_into(bytes: &[u8], out: &mut String) {
    out.reserve(encoded_len(bytes.len()));
    for group in bytes.chunks(3) {
        let word = group
            .iter()
            .fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - group.len()));
        for place in 0..4 {
            if place <= group.len() {
                let digit = word >> (18 - 6 * place) & 63;
                out.push(char::from(ALPHABET[digit as usize]));
            } else {
                out.push('=');
            }
        }
    }
}

/// The bytes of a text.
///
/// # Errors
/// If the text is not exactly what [`encode_into`] writes for some bytes.
pub fn decode(text: &[u8]) -> Result<Vec<u8>, Base64Error> {
    if !text.len().is_multiple_of(4) {
        return Err(Base64Error);
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let groups = text.len() / 4;
    for (n, group) in text.chunks_exact(4).enumerate() {
        let padding = match group {
            _ if n + 1 < groups => 0,
            [_, _, b'=', b'='] => 2,
            [_, _, _, b'='] => 1,
            _ => 0,
        };
        let digits = &group[..4 - padding];
        let mut word = 0u32;
        for digit in digits {
            word = word << 6 | value(*digit).ok_or(Base64Error)?;
        }
        word <<= 6 * padding;
        let unused = (1u32 << (8 * padding)) - 1;
        if word & unused != 0 {
            return Err(Base64Error);
        }
        out.extend_from_slice(&word.to_be_bytes()[1..4 - padding]);
    }
    Ok(out)
}

fn value(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(bytes: &[u8]) -> String {
        let mut out = String::new();
        encode_into(bytes, &mut out);
        out
    }

    #[test]
    fn the_vectors_of_rfc_4648_hold() {
        let vectors: [(&str, &str); 7] = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, text) in vectors {
            assert_eq!(encode(plain.as_bytes()), text);
            assert_eq!(decode(text.as_bytes()), Ok(plain.as_bytes().to_vec()));
        }
    }

    #[test]
    fn a_second_spelling_is_refused() {
        for text in [
            "Zg", "Zg=", "Zh==", "Zm9=", "Zg==Zg==", "Zm 9", "Zm9v\n", "====", "Z===", "-_-_",
        ] {
            assert_eq!(
                decode(text.as_bytes()),
                Err(Base64Error),
                "{text:?} was accepted"
            );
        }
    }

    proptest! {
        #[test]
        fn bytes_read_back(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let text = encode(&bytes);
            prop_assert_eq!(text.len(), encoded_len(bytes.len()));
            prop_assert_eq!(decode(text.as_bytes()), Ok(bytes));
        }

        #[test]
        fn whatever_is_accepted_is_canonical(text in "[A-Za-z0-9+/=]{0,12}") {
            if let Ok(bytes) = decode(text.as_bytes()) {
                prop_assert_eq!(encode(&bytes), text);
            }
        }
    }
}
