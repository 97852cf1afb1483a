//! The digests of the format, each a type of its own so that one can't be
//! handed in for another.
//!
//! Leaves are hashed as RFC 6962 (section 2.1) hashes the leaves of a Merkle
//! tree, `SHA-256(0x00 || leaf)`, so that a tree over the same leaves can be
//! added without touching one of them; the 0x00 keeps a leaf from ever being
//! taken for an inner node, which is hashed with 0x01.

use std::fmt;

use sha2::{Digest, Sha256};

macro_rules! digests {
    ($($(#[$doc:meta])* $name:ident[$len:literal];)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $len]);

        impl $name {
            /// All bytes zero: the value that stands for "none".
            pub const ZERO: $name = $name([0; $len]);

            /// Reads the lower-case or upper-case hexadecimal form that
            /// `Display` writes; `None` for any other text.
            pub fn parse(text: &str) -> Option<$name> {
                let mut bytes = [0; $len];
                let digits = text.as_bytes();
                if digits.len() != 2 * $len {
                    return None;
                }
                for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
                    *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
                }
                Some($name(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }
    )*};
}

digests! {
    /// Which log a leaf belongs to: the first half of the SHA-256 of its origin.
    LogId[16];
    /// `SHA-256(0x00 || leaf bytes)`.
    LeafHash[32];
    /// `SHA-256(content)`, of the content as it is stored.
    ContentHash[32];
    /// The commitment to the key that seals a content. All zeros says that the
    /// content is stored in clear.
    KeyCommit[32];
}

impl LogId {
    /// The id of the log with this origin.
    pub fn of(origin: &str) -> LogId {
        let digest: [u8; 32] = Sha256::digest(origin.as_bytes()).into();
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        LogId(id)
    }
}

impl LeafHash {
    /// The hash of a leaf's bytes.
    pub fn of(leaf: &[u8]) -> LeafHash {
        LeafHash(
            Sha256::new()
                .chain_update([0])
                .chain_update(leaf)
                .finalize()
                .into(),
        )
    }
}

impl ContentHash {
    /// The hash of a content as it is stored.
    pub fn of(content: &[u8]) -> ContentHash {
        ContentHash(Sha256::digest(content).into())
    }
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_hashes_as_rfc_6962_says() {
        // The hash of an empty leaf, known from every Merkle tree of that form.
        assert_eq!(
            LeafHash::of(b"").to_string(),
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
        );
    }

    #[test]
    fn a_content_hashes_as_plain_sha_256() {
        assert_eq!(
            ContentHash::of(b"abc").to_string(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn a_digest_reads_back_what_it_writes_and_nothing_else() {
        let id = LogId::of("rate-governor.local/a");
        assert_eq!(LogId::parse(&id.to_string()), Some(id));
        assert_eq!(LogId::parse(&id.to_string().to_uppercase()), Some(id));
        assert_eq!(LogId::parse(&id.to_string()[1..]), None);
        assert_eq!(LogId::parse("zz".repeat(16).as_str()), None);
        assert_eq!(LogId::parse(&"é".repeat(16)), None);
    }
}
