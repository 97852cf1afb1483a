//! What a provider's answer says about its limits, in one form.
//!
//! Every dialect ends as [`Facts`]. Parsers are strict about grammar and
//! forgiving about presence: a value that does not match its grammar is
//! ignored and named in [`Facts::malformed`], never guessed at, and never a
//! panic. One grammar, one file:
//!
//! | file | grammar |
//! |---|---|
//! | `quantity` | numbers, and durations as Go writes them |
//! | `dates` | HTTP-dates and RFC 3339 times |
//! | `retry_after` | `Retry-After` |
//! | `structured`, `ratelimit_fields` | the `RateLimit` fields of the IETF drafts |
//! | `pairs`, `sign` | `key=value; key=value`, and yes, no, shares and codes |
//! | `field`, `unit`, `name`, `dialect` | vendors' fields, described by data |
//! | `gather`, `readings`, `limit`, `told` | from fields to limits, codes and signs |
//! | `rule`, `errors`, `kind` | what an error is, described by data, and what helps |
//! | `prose` | a wait that is only written in an error message |
//! | `wait` | which of several waits counts |
//!
//! [`read()`] is the one entry. [`tables`] holds what is built in.

/// Declares an enum whose variants each have the one word that presets,
/// records and metrics use.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every variant, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The word that people and presets use.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            /// The variant of a word; `None` for any other text.
            pub fn parse(word: &str) -> Option<$name> {
                match word { $($word => Some($name::$variant),)* _ => None }
            }
        }
    };
}

mod answer;
mod dates;
pub mod dialect;
pub mod errors;
mod field;
mod gather;
mod kind;
mod limit;
mod name;
mod pairs;
mod prose;
mod quantity;
mod ratelimit_fields;
mod readings;
pub mod retry_after;
mod rule;
mod sign;
mod structured;
pub mod tables;
mod told;
mod unit;
mod wait;

pub use wait::DOCUMENTED;

pub use answer::{Answer, BodyValue, CODE_BYTES_MAX, MESSAGE_BYTES_MAX, read, read_answer};
pub use dialect::Dialect;
pub use errors::{ErrorBody, ErrorRule};
pub use kind::{Advice, Kind};
pub use readings::READINGS_MAX;
pub use told::Figures;

use crate::time::{Span, WallTime};

words! {
    /// What an answer means, before policy is applied.
    Meaning {
        /// Nothing about limits or failure.
        Ok = "ok",
        /// A rate limit; waiting helps. Also statuses that a preset maps to 429.
        RateLimited = "rate_limited",
        /// Too many calls open at once; a free slot helps.
        TooManyConcurrent = "too_many_concurrent",
        /// A long-window or paid-for quota is gone: wait for the named reset or ask a person.
        QuotaExhausted = "quota_exhausted",
        /// Out of money: no wait helps, a person does.
        Billing = "billing",
        /// The provider has no capacity; not a quota event.
        Overloaded = "overloaded",
        /// The credential is wrong, expired or blocked.
        Credential = "credential",
        /// The call can never fit the limit, however long it waits.
        TooLarge = "too_large",
        /// The same idempotency key is being processed.
        KeyInProgress = "key_in_progress",
        /// The same idempotency key came with another payload.
        KeyMismatch = "key_mismatch",
        /// Any other error of the caller (4xx).
        CallerError = "caller_error",
        /// Any other error of the provider (5xx, and 408).
        ProviderError = "provider_error",
    }
}

impl Meaning {
    /// Whether the provider refused for the sake of a limit that time restores.
    pub const fn is_limit(self) -> bool {
        matches!(
            self,
            Meaning::RateLimited | Meaning::TooManyConcurrent | Meaning::QuotaExhausted
        )
    }
}

words! {
    /// Which limit a reading or refusal concerns, as far as the provider says.
    Reach {
        /// The whole account. Also what silence means.
        Account = "account",
        /// The model named by the request.
        Model = "model",
        /// The endpoint that was called.
        Endpoint = "endpoint",
        /// The credential.
        Credential = "credential",
    }
}

/// One limit as a response describes it. Unknown is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// What it counts: `requests`, `tokens`, `input_tokens`, …
    pub dimension: String,
    /// How the provider or its preset calls it, where several count the same.
    pub name: Option<String>,
    /// Whose limit it is.
    pub reach: Reach,
    /// Units per window.
    pub limit: Option<u64>,
    /// Units left when the provider answered.
    pub remaining: Option<u64>,
    /// Until more (or all) of the quota is back, from when the provider answered.
    pub reset_after: Option<Span>,
    /// Whether `reset_after` says when a bucket will be full again, and not when a
    /// window ends.
    pub refills: bool,
    /// Until the call that was refused would fit, where the answer says what it asked for.
    pub fits_after: Option<Span>,
    /// Length of the window, where the provider states or documents it.
    pub window: Option<Span>,
    /// In words: `RateLimit header`, `x-ratelimit-remaining-requests`, …
    pub source: &'static str,
}

impl Reading {
    /// How it is called.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.dimension)
    }

    /// When it stops to stand in the way, as far as the provider says.
    fn back_after(&self) -> Option<Span> {
        self.fits_after.or(self.reset_after)
    }

    /// Whether it stood in the way of the call.
    fn is_used_up(&self) -> bool {
        self.remaining == Some(0) || self.fits_after.is_some()
    }
}

/// What an answer said that people want to know and nothing is decided by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asides {
    /// Limits that nobody is paced by: announced and not enforced, or of size zero,
    /// which is how providers say that nothing is granted.
    pub limits: Vec<Reading>,
    /// Figures that describe no limit.
    pub figures: Figures,
    /// In the preset's words, whose limit refused.
    pub whose: Option<String>,
}

impl Asides {
    const NONE: &'static Asides = &Asides {
        limits: Vec::new(),
        figures: Figures::NONE,
        whose: None,
    };

    /// Boxed, if there is anything in them: few answers have any.
    fn boxed(self) -> Option<Box<Asides>> {
        (self != *Asides::NONE).then(|| Box::new(self))
    }
}

/// Everything that one answer said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The status of the answer.
    pub status: u16,
    /// What it means.
    pub meaning: Meaning,
    /// The same in the finest words, for people, presets and metrics.
    pub kind: Kind,
    /// What helps; `None` where nothing has to be helped.
    pub advice: Option<Advice>,
    /// How long to wait before the next call, if the provider said so. Zero and
    /// past hints are `Some(Span::ZERO)`; absent or malformed ones are `None`.
    pub retry_after: Option<Span>,
    /// In words where `retry_after` came from: `HTTP 429 Retry-After`.
    pub retry_source: Option<&'static str>,
    /// Whose limit refused, if the answer refuses.
    pub reach: Reach,
    /// The limits it described, most exact form first.
    pub readings: Vec<Reading>,
    /// What it said beside that; see [`Facts::asides`].
    pub beside: Option<Box<Asides>>,
    /// The provider's own error code, lower case, at most 100 bytes.
    pub error_code: Option<String>,
    /// The provider's own sentence about the error, at most 300 bytes, control characters replaced.
    pub error_message: Option<String>,
    /// The provider's identifier of the request or the created thing, if the caller extracted one.
    pub operation_id: Option<String>,
    /// Names of header fields whose value did not match their grammar.
    pub malformed: Vec<String>,
}

impl Facts {
    /// An answer that says nothing but its status.
    pub fn bare(status: u16, meaning: Meaning) -> Facts {
        Facts {
            status,
            meaning,
            kind: Kind::of(meaning),
            advice: None,
            retry_after: None,
            retry_source: None,
            reach: Reach::Account,
            readings: Vec::new(),
            beside: None,
            error_code: None,
            error_message: None,
            operation_id: None,
            malformed: Vec::new(),
        }
    }

    /// What the answer said that nothing is decided by.
    pub fn asides(&self) -> &Asides {
        self.beside.as_deref().unwrap_or(Asides::NONE)
    }

    /// The limit that is used up and takes longest to come back: of several
    /// limits in one answer, this one decides (a token refusal also carries the
    /// reset of the requests, which is not the one to wait for). A bucket with too
    /// little left for the call counts like an empty one.
    pub fn exhausted(&self) -> Option<&Reading> {
        let used_up = self.readings.iter().filter(|reading| reading.is_used_up());
        used_up.max_by_key(|reading| reading.back_after())
    }

    /// The status that `retry_statuses` of the policy speak of: a preset may
    /// find a limit behind a 403 or a 200 and an overload behind a 529, and an
    /// operator should not have to list them all.
    pub const fn policy_status(&self) -> u16 {
        match self.meaning {
            Meaning::RateLimited | Meaning::TooManyConcurrent | Meaning::QuotaExhausted => 429,
            Meaning::Overloaded => 503,
            Meaning::ProviderError if self.status < 400 => 500,
            _ => self.status,
        }
    }
}

/// The moment against which dates in an answer are read: the answer's own
/// `Date` where it has one, else the wall clock at its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnsweredAt(pub WallTime);

impl AnsweredAt {
    /// The `Date` of the answer if it has a readable one, else when it arrived.
    pub fn of(headers: &[(&str, &[u8])], arrived: WallTime) -> AnsweredAt {
        let date = values(headers, "date").find_map(|value| dates::http_date(text(value)?));
        AnsweredAt(date.unwrap_or(arrived))
    }
}

/// Longest field value that is looked at, in bytes; a longer one is malformed.
pub const VALUE_BYTES_MAX: usize = 4096;

/// Most field names that [`Facts::malformed`] holds.
pub const MALFORMED_MAX: usize = 16;

/// A field value as text without the blanks around it.
fn text(value: &[u8]) -> Option<&str> {
    if value.len() > VALUE_BYTES_MAX {
        return None;
    }
    Some(str::from_utf8(value).ok()?.trim_matches([' ', '\t']))
}

/// The values of a field, in order.
fn values<'h>(headers: &'h [(&'h str, &'h [u8])], name: &'h str) -> impl Iterator<Item = &'h [u8]> {
    headers
        .iter()
        .filter(move |(n, _)| n.eq_ignore_ascii_case(name))
        .map(|(_, value)| *value)
}

/// Names of fields that did not match their grammar, each once.
#[derive(Debug, Default)]
struct Malformed(Vec<String>);

impl Malformed {
    fn note(&mut self, name: &str) {
        if self.0.len() < MALFORMED_MAX && !self.0.iter().any(|known| known == name) {
            self.0.push(name.to_owned());
        }
    }
}
