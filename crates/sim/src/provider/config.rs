//! What kind of provider it is: its limits, its speed, its rules for keys, and
//! whom it knows.

use std::collections::BTreeMap;

use rategov_core::time::{Span, WallTime};

use super::draw::Seed;
use super::idempotency::KeyRules;
use super::ledger;
use super::limit_fields::LimitFields;
use super::quota::Rule;
use super::usage::Length;

/// How long the provider works on a call: uniform in `[min, max)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceTime {
    /// The shortest.
    pub min: Span,
    /// The longest; no more than the shortest for a constant time.
    pub max: Span,
}

impl ServiceTime {
    /// Always the same time.
    pub const fn constant(span: Span) -> ServiceTime {
        ServiceTime {
            min: span,
            max: span,
        }
    }
}

/// What becomes of a caller whose credential is in no account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strangers {
    /// It belongs to the account of this name.
    JoinAccount(String),
    /// It is answered 401.
    Unauthorised,
}

/// When bodies are gzip-coded without the script saying so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gzip {
    /// Never.
    #[default]
    Never,
    /// Whenever the caller accepts it.
    WhenAccepted,
}

/// A provider's nature. `Default` is one without limits that answers at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Seed of everything that varies.
    pub seed: Seed,
    /// The limits.
    pub quotas: Vec<Rule>,
    /// How it tells them.
    pub limit_fields: LimitFields,
    /// How long it works.
    pub service: ServiceTime,
    /// How long a model's answers are.
    pub length: Length,
    /// How much of a model call's input is in the cache, in thousandths.
    pub cached_permille: u64,
    /// The pause between two events of a stream.
    pub stream_pause: Span,
    /// When bodies are coded.
    pub gzip: Gzip,
    /// The account of each credential, by the credential's label
    /// ([`ledger::label_of`]), so that no secret is kept.
    pub accounts: BTreeMap<String, String>,
    /// What becomes of the others.
    pub strangers: Strangers,
    /// The rules for idempotency keys.
    pub keys: KeyRules,
    /// The request field that holds the key.
    pub key_field: String,
    /// How much later than it is made a record can be seen.
    pub lag: Span,
    /// The wall-clock time at the start of the provider's clock.
    pub wall_at_start: WallTime,
    /// Most arrivals that the ledger lists.
    pub ledger_capacity: usize,
}

impl Config {
    /// Puts a credential into an account. Only the credential's label is kept.
    pub fn know(&mut self, credential: &str, account: &str) {
        self.accounts
            .insert(ledger::label_of(credential), account.to_owned());
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            seed: Seed(0),
            quotas: Vec::new(),
            limit_fields: LimitFields::Native,
            service: ServiceTime::default(),
            length: Length::Short,
            cached_permille: 0,
            stream_pause: Span::from_millis(2),
            gzip: Gzip::Never,
            accounts: BTreeMap::new(),
            strangers: Strangers::JoinAccount("main".to_owned()),
            keys: KeyRules::default(),
            key_field: "idempotency-key".to_owned(),
            lag: Span::ZERO,
            wall_at_start: WallTime::from_secs(1_767_225_600), // 2026-01-01T00:00:00Z
            ledger_capacity: ledger::CAPACITY,
        }
    }
}
