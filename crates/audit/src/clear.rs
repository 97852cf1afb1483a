//! The clear bodies: what a verifier must be able to read without any key.
//!
//! Each kind has a closed schema that begins with its version, so that a body
//! can grow later without a new leaf format. A verifier that meets a version
//! it doesn't know still checks the chain through that leaf; it only doesn't
//! act on what the body says. The kinds of sealing, retention and signing get
//! their bodies with those features.
//!
//! ```text
//! genesis        01 | origin (the rest, ASCII)
//! recovery       01 | cut_len u64 | cut_hash 32
//! clock_anomaly  01 | read_ms u64
//! ```

use std::fmt;

use crate::hash::{ContentHash, LogId};
use crate::kind::Kind;
use crate::leaf::{ClearBytes, UnixMs};

const VERSION: u8 = 1;

/// Longest origin, in bytes.
pub const ORIGIN_BYTES_MAX: usize = 255;

/// A log's name: `rate-governor.local/INSTALLATION/NODE`.
///
/// 1 to [`ORIGIN_BYTES_MAX`] bytes of visible ASCII without `+`, so that it can
/// be the name of a signing key in the C2SP signed-note format as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

impl Origin {
    /// Checks and takes an origin; `None` if it breaks the rule above.
    pub fn new(text: &str) -> Option<Origin> {
        let fits = (1..=ORIGIN_BYTES_MAX).contains(&text.len());
        let plain = text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'+');
        (fits && plain).then(|| Origin(text.to_owned()))
    }

    /// The origin as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id that each leaf of the log carries.
    pub fn log_id(&self) -> LogId {
        LogId::of(&self.0)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a structural leaf says in clear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clear {
    /// The log begins, and this is its name.
    Genesis(Origin),
    /// The writer found a torn end, cut it off and went on.
    Recovery {
        /// Bytes that were cut off.
        cut_len: u64,
        /// SHA-256 of them.
        cut_hash: ContentHash,
    },
    /// The wall clock showed an earlier time than the leaf before.
    ClockAnomaly {
        /// What the clock showed.
        read: UnixMs,
    },
}

impl Clear {
    /// The kind of leaf that carries it.
    pub fn kind(&self) -> Kind {
        match self {
            Clear::Genesis(_) => Kind::Genesis,
            Clear::Recovery { .. } => Kind::Recovery,
            Clear::ClockAnomaly { .. } => Kind::ClockAnomaly,
        }
    }

    /// The body's bytes.
    pub fn encode(&self) -> ClearBytes {
        let mut out = vec![VERSION];
        match self {
            Clear::Genesis(origin) => out.extend_from_slice(origin.0.as_bytes()),
            Clear::Recovery { cut_len, cut_hash } => {
                out.extend_from_slice(&cut_len.to_be_bytes());
                out.extend_from_slice(&cut_hash.0);
            }
            Clear::ClockAnomaly { read } => out.extend_from_slice(&read.0.to_be_bytes()),
        }
        ClearBytes::new(out).expect("the longest body is an origin of 255 bytes")
    }

    /// Reads the body of a leaf; `None` if the kind has no schema here, the
    /// version is another one, or the bytes don't match it exactly.
    pub fn decode(kind: Kind, body: &ClearBytes) -> Option<Clear> {
        let rest = body.as_bytes().strip_prefix(&[VERSION])?;
        match kind {
            Kind::Genesis => Origin::new(std::str::from_utf8(rest).ok()?).map(Clear::Genesis),
            Kind::Recovery => {
                let (cut_len, cut_hash) = rest.split_first_chunk::<8>()?;
                Some(Clear::Recovery {
                    cut_len: u64::from_be_bytes(*cut_len),
                    cut_hash: ContentHash(cut_hash.try_into().ok()?),
                })
            }
            Kind::ClockAnomaly => {
                let read = UnixMs(u64::from_be_bytes(rest.try_into().ok()?));
                Some(Clear::ClockAnomaly { read })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(clear: Clear) {
        let body = clear.encode();
        assert_eq!(Clear::decode(clear.kind(), &body).as_ref(), Some(&clear));
        for cut in 0..body.as_bytes().len() {
            let short = ClearBytes::new(body.as_bytes()[..cut].to_vec()).unwrap();
            assert_ne!(Clear::decode(clear.kind(), &short).as_ref(), Some(&clear));
        }
        let longer = ClearBytes::new([body.as_bytes(), b"x"].concat()).unwrap();
        assert_ne!(Clear::decode(clear.kind(), &longer).as_ref(), Some(&clear));
        assert_eq!(Clear::decode(Kind::Sealed, &body), None);
    }

    #[test]
    fn each_body_reads_back_and_no_other_length_does() {
        check(Clear::Genesis(
            Origin::new("rate-governor.local/7f/node-1").unwrap(),
        ));
        check(Clear::Recovery {
            cut_len: 9,
            cut_hash: ContentHash::of(b"torn"),
        });
        check(Clear::ClockAnomaly { read: UnixMs(1) });
    }

    #[test]
    fn a_body_of_a_later_version_is_not_guessed_at() {
        let body = ClearBytes::new(vec![2, b'a']).unwrap();
        assert_eq!(Clear::decode(Kind::Genesis, &body), None);
    }

    #[test]
    fn an_origin_can_be_the_name_of_a_signing_key() {
        assert_eq!(Origin::new(""), None);
        assert_eq!(Origin::new("a b"), None);
        assert_eq!(Origin::new("a+b"), None);
        assert_eq!(Origin::new("a\nb"), None);
        assert_eq!(Origin::new(&"x".repeat(256)), None);
        assert!(Origin::new(&"x".repeat(255)).is_some());
    }
}
