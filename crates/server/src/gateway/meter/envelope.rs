//! What is inside of `{"bytes":"eyJ0eXBlIjoi…"}`, as it passes.
//!
//! Bedrock hands on the events of a model's own stream in base64, each as the first
//! member of a JSON text (`InvokeModelWithResponseStream`). A payload that begins
//! otherwise is none of these, and nothing is inside of it.

/// How such a text begins.
const OPENING: &[u8] = b"{\"bytes\":\"";
/// Decoded bytes that are handed on at once.
const PIECE_BYTES: usize = 256;

/// Where in a text a reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Envelope {
    /// So much of the opening has come.
    Opening(usize),
    /// In the base64: bits that make no byte yet, and how many.
    Inside(u32, u8),
    /// Behind it, or in something else.
    Over,
}

impl Default for Envelope {
    fn default() -> Envelope {
        Envelope::Opening(0)
    }
}

impl Envelope {
    /// A piece of the text; `tell` gets what is inside.
    pub(super) fn feed(&mut self, piece: &[u8], mut tell: impl FnMut(&[u8])) {
        let mut plain = [0; PIECE_BYTES];
        let mut filled = 0;
        for byte in piece {
            *self = match *self {
                Envelope::Opening(agreed) if OPENING[agreed] == *byte => {
                    match agreed + 1 == OPENING.len() {
                        true => Envelope::Inside(0, 0),
                        false => Envelope::Opening(agreed + 1),
                    }
                }
                Envelope::Inside(bits, count) => match value_of(*byte) {
                    Some(value) if count + 6 < 8 => Envelope::Inside(bits << 6 | value, count + 6),
                    Some(value) => {
                        let left = count + 6 - 8;
                        let bits = bits << 6 | value;
                        plain[filled] = (bits >> left) as u8;
                        filled += 1;
                        if filled == PIECE_BYTES {
                            tell(&plain);
                            filled = 0;
                        }
                        Envelope::Inside(bits & ((1 << left) - 1), left)
                    }
                    None => Envelope::Over,
                },
                Envelope::Opening(_) | Envelope::Over => Envelope::Over,
            };
        }
        if 0 < filled {
            tell(&plain[..filled]);
        }
    }
}

/// The six bits of a letter of base64; padding ends it.
fn value_of(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::*;

    fn inside(pieces: &[&[u8]]) -> Vec<u8> {
        let (mut envelope, mut all) = (Envelope::default(), Vec::new());
        for piece in pieces {
            envelope.feed(piece, |plain| all.extend_from_slice(plain));
        }
        all
    }

    #[test]
    fn what_is_no_envelope_has_nothing_inside() {
        for text in [
            &b"{\"delta\":{\"text\":\"e30=\"}}"[..],
            b"{\"bytes\": \"e30=\"}",
            b"\xff{\"bytes\":\"e30=\"}",
            b"",
        ] {
            assert_eq!(inside(&[text]), b"");
        }
        assert_eq!(inside(&[b"{\"bytes\":\"e30=\",\"p\":\"abcd\"}"]), b"{}");
    }

    proptest! {
        #[test]
        fn what_was_put_in_comes_out_however_it_is_cut(
            plain in prop::collection::vec(any::<u8>(), 0..600),
            cut in 0usize..900,
        ) {
            let text = format!("{{\"bytes\":\"{}\",\"p\":\"x\"}}", STANDARD.encode(&plain));
            let (first, second) = text.as_bytes().split_at(cut.min(text.len()));
            prop_assert_eq!(inside(&[first, second]), plain);
        }
    }
}
