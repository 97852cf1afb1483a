//! What a provider's answers say: the options of a field and of an error rule.

use schemars::JsonSchema;
use serde::Deserialize;

use rategov_core::observe::dialect::{Unit, What};
use rategov_core::observe::{Advice, Kind, Reach};

use crate::config::named::Named;
use crate::config::statuses::Statuses;
use crate::config::units::SpanText;
use crate::config::words::Word;

/// One field of a provider's answers: a header field, or a place in a JSON body.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FieldOptions {
    /// The header's name; a last `*` leaves the rest open.
    pub header: Option<String>,
    /// The place in the body, `$.error.details[*].retryDelay`.
    pub body: Option<String>,
    /// What else must be so: other headers or keys beside it hold a piece.
    #[serde(rename = "where")]
    pub beside: Option<Named<String>>,
    /// The value is that of this key in `key=value; key=value`.
    pub key: Option<String>,
    /// What it carries.
    pub what: Option<Word<What>>,
    /// What is counted: `requests`, `tokens`, `input_tokens`, … Only for parts of a limit.
    pub dimension: Option<String>,
    /// How the limit is called, where several count the same; may hold `{…}`.
    pub name: Option<String>,
    /// How a time is written. Left out: told by form and magnitude.
    pub unit: Option<Word<Unit>>,
    /// Whose limit it is. Left out: the account's.
    pub scope: Option<Word<Reach>>,
    /// The length of the window, where it is documented and not sent.
    pub window: Option<SpanText>,
    /// Whether the provider refuses for the sake of it, or only announces it.
    pub enforced: Option<bool>,
    /// The name of its source.
    pub source: Option<String>,
}

/// What an error means. What is left out is not asked for; all that is written must hold.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ErrorOptions {
    /// The status of the answer, or several; under a success status that of the body.
    pub status: Option<Statuses>,
    /// The error's code or type or a further code, whatever its case.
    pub code: Option<String>,
    /// A piece of the error's sentence, whatever its case.
    pub message: Option<String>,
    /// A piece of a further code (`what: reason`), whatever its case.
    pub reason: Option<String>,
    /// A limit of this name or dimension is used up; `any` for whichever.
    pub exhausted: Option<String>,
    /// The answer names a limit of this size; `0` is how providers say "nothing granted".
    pub limit: Option<u64>,
    /// The answer itself names a wait of at least this.
    pub wait_from: Option<SpanText>,
    /// A member of the batch has this status.
    pub part: Option<u16>,
    /// What it means.
    pub meaning: Option<Word<Kind>>,
    /// Whose limit it is, where no exhausted field says so.
    pub scope: Option<Word<Reach>>,
    /// The same in words, for people.
    pub whose: Option<String>,
    /// The documented wait, where the answer names none.
    pub wait: Option<SpanText>,
    /// What helps, where it isn't what usually does.
    pub advice: Option<Word<Advice>>,
    /// The name of its source.
    pub source: Option<String>,
}
