//! Names and numbers that identify things. Ids are made by the caller; the
//! core only compares them.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Longest name that is accepted anywhere, in bytes.
pub const NAME_BYTES_MAX: usize = 200;

/// Why a text cannot be a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    /// It has no characters.
    Empty,
    /// It has more than [`NAME_BYTES_MAX`] bytes.
    TooLong,
    /// It holds a control character or a character outside printable ASCII.
    Character(char),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Empty => f.write_str("a name can't be empty"),
            NameError::TooLong => write!(f, "a name has at most {NAME_BYTES_MAX} bytes"),
            NameError::Character(c) => write!(f, "a name can't hold {c:?}"),
        }
    }
}

impl std::error::Error for NameError {}

fn check(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong);
    }
    match text.chars().find(|c| !(c.is_ascii_graphic() || *c == ' ')) {
        Some(c) => Err(NameError::Character(c)),
        None => Ok(()),
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// Printable ASCII, 1 to [`NAME_BYTES_MAX`] bytes; cheap to clone.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and takes a name.
            ///
            /// # Errors
            /// See [`NameError`].
            pub fn new(text: &str) -> Result<$name, NameError> {
                check(text)?;
                Ok($name(Arc::from(text)))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

names! {
    /// An outside API: `openai`, `stripe`, `billing-api`.
    Provider;
    /// The quota's owner at a provider; owns one queue. Unique over all
    /// providers: `PROVIDER/NAME`.
    Account;
    /// A secret that authenticates at a provider, by its name, never its value.
    Credential;
    /// Who calls.
    Agent;
    /// The goal on whose behalf an agent calls.
    Task;
    /// The template of an endpoint: `POST /records/{id}`.
    Endpoint;
    /// A limit's reach inside an account, `KIND:NAME`: `account:ops`,
    /// `model:gpt-4o`, `endpoint:POST /jobs`.
    Scope;
    /// An authenticated operator.
    Operator;
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            /// 32 hexadecimal digits in the groups of a UUID.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let n = self.0;
                write!(
                    f,
                    "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
                    (n >> 96) as u32,
                    (n >> 80) as u16,
                    (n >> 64) as u16,
                    (n >> 48) as u16,
                    n as u64 & 0xffff_ffff_ffff
                )
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl $name {
            /// Reads the form that `Display` writes (dashes may be left out).
            pub fn parse(text: &str) -> Option<$name> {
                let digits: String = text.chars().filter(|c| *c != '-').collect();
                if digits.len() != 32 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return None;
                }
                u128::from_str_radix(&digits, 16).ok().map($name)
            }
        }
    )*};
}

numbers! {
    /// One logical operation. A UUID version 7, so ids sort by time.
    ActionId;
    /// One question to a person. A UUID version 7.
    EscalationId;
}

/// Which send of an action this is; the first is 1.
pub type AttemptNo = u16;

/// Number of a record of one engine, in the order of its decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordSeq(pub u64);

/// A keyed hash: the core compares fingerprints and never makes one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 16]);

impl Ord for Fingerprint {
    /// As numbers: the order of the bytes, found by one comparison.
    fn cmp(&self, other: &Fingerprint) -> Ordering {
        u128::from_be_bytes(self.0).cmp(&u128::from_be_bytes(other.0))
    }
}

impl PartialOrd for Fingerprint {
    fn partial_cmp(&self, other: &Fingerprint) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_refuses_what_could_forge_a_log_line() {
        assert_eq!(Agent::new(""), Err(NameError::Empty));
        assert_eq!(Agent::new("a\nb"), Err(NameError::Character('\n')));
        assert_eq!(
            Agent::new("\u{1b}[31m"),
            Err(NameError::Character('\u{1b}'))
        );
        assert_eq!(Agent::new(&"x".repeat(201)), Err(NameError::TooLong));
        assert_eq!(Agent::new("sync-bot").unwrap().as_str(), "sync-bot");
    }

    #[test]
    fn fingerprints_are_ordered_as_their_bytes_are() {
        let of = |first, last| {
            let mut bytes = [9; 16];
            (bytes[0], bytes[15]) = (first, last);
            Fingerprint(bytes)
        };
        let some = [of(0, 255), of(0, 1), of(255, 0), of(1, 0), of(1, 7)];
        for (a, b) in some.iter().flat_map(|a| some.iter().map(move |b| (a, b))) {
            assert_eq!(a.cmp(b), a.0.cmp(&b.0), "{a} and {b}");
        }
    }

    #[test]
    fn an_id_reads_back_what_it_writes() {
        let id = ActionId(0x0192_f3a4_5678_7abc_8def_0123_4567_89ab);
        assert_eq!(id.to_string(), "0192f3a4-5678-7abc-8def-0123456789ab");
        assert_eq!(ActionId::parse(&id.to_string()), Some(id));
        assert_eq!(ActionId::parse("0192f3a4"), None);
        assert_eq!(ActionId::parse("+192f3a456787abc8def0123456789ab0"), None);
    }
}
