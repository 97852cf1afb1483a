//! The options of one provider: the same keys in a user's file and in a preset.

use schemars::JsonSchema;
use serde::Deserialize;

use rategov_core::observe::dialect::MessageClock;
use rategov_core::word::Class;

use super::meter::{ChargeOptions, SizingOptions, UsageOptions};
use crate::config::named::Named;
use crate::config::units::SpanText;
use crate::config::words::Word;

use super::{ErrorOptions, FieldOptions};

/// Declares the words of a closed vocabulary as they are written.
macro_rules! written {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$vdoc])* $variant,)* }
    };
}

/// An outside API. A preset of the same name, or the one named by `preset`,
/// gives what is left out.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderOptions {
    /// The built-in preset to start from. Left out: the one of the same name, else `generic`.
    pub preset: Option<String>,
    /// Where it is, `https://HOST[:PORT][/PATH]`. Paths of calls are appended.
    pub base_url: Option<String>,
    /// Whether `http://` may be used to a host other than this machine. Credentials then travel in clear.
    pub allow_plain_http: Option<bool>,
    /// Longest time to connect, TLS included.
    pub connect_timeout: Option<SpanText>,
    /// Longest time to the first byte of the answer.
    pub response_timeout: Option<SpanText>,
    /// Longest silence inside an answer's body.
    pub idle_timeout: Option<SpanText>,
    /// A call whose path doesn't begin with it gets it put in front, such as `/v1`.
    pub path_prefix: Option<String>,
    /// Header that carries the credential.
    pub credential_header: Option<String>,
    /// Word before the credential in that header; empty for none.
    pub credential_scheme: Option<String>,
    /// Answer headers that name the organisation a credential belongs to.
    pub identity_headers: Option<Vec<String>>,
    /// Statuses among 429 and 503 that surely mean "not processed".
    pub refusals_unprocessed: Option<Vec<u16>>,
    /// Variables of the known SDKs that `rategov exec` sets.
    pub sdk: Option<SdkOptions>,
    /// The owners of its quotas.
    pub accounts: Option<Named<AccountOptions>>,
    /// What is known of its endpoints. The most specific rule wins.
    pub endpoints: Option<Vec<EndpointOptions>>,
    /// Whether times without a zone in its error messages are UTC.
    pub message_clock: Option<Word<MessageClock>>,
    /// In words, whose its limits are.
    pub whose: Option<String>,
    /// Fields of its answers that say something about limits and errors.
    pub fields: Option<Vec<FieldOptions>>,
    /// What its errors mean; the first that matches wins.
    pub errors: Option<Vec<ErrorOptions>>,
    /// What its requests say of their cost.
    pub sizing: Option<Vec<SizingOptions>>,
    /// What its answers say of their cost.
    pub usage: Option<Vec<UsageOptions>>,
    /// How it charges what a call uses.
    pub charge: Option<ChargeOptions>,
    /// Where the facts of a preset come from, by a name.
    pub sources: Option<Named<SourceOptions>>,
    /// The name of the source of each single value.
    pub facts: Option<Named<String>>,
}

/// Where facts come from.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SourceOptions {
    /// Its address.
    pub url: Option<String>,
    /// The day on which it was read, `2026-11-29`.
    pub verified_on: Option<String>,
}

/// Environment variables that the provider's SDKs read.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SdkOptions {
    /// For the base URL.
    pub base_url: Option<Vec<SdkVariableOptions>>,
    /// For the key. `exec` sets them only where they are unset, so that SDKs start at all.
    pub key: Option<Vec<String>>,
}

/// One variable for the base URL.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SdkVariableOptions {
    /// Its name.
    pub variable: Option<String>,
    /// What the SDK expects after the provider's base, such as `/v1`.
    pub suffix: Option<String>,
    /// The name of its source.
    pub source: Option<String>,
}

/// The owner of a quota.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AccountOptions {
    /// `env:NAME`, `file:PATH`, or `pass-through` (the default): the agent's own. Never the secret itself.
    pub credential: Option<String>,
    /// Several credentials of the one account, instead of `credential`.
    pub credentials: Option<Vec<String>>,
    /// Header that carries the credential, where it isn't the provider's usual one.
    pub credential_header: Option<String>,
    /// Word before the credential in that header; empty for none.
    pub credential_scheme: Option<String>,
    /// The limits that are known. Left out: they are learnt from answers.
    pub quotas: Option<Vec<QuotaOptions>>,
}

/// One declared limit.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct QuotaOptions {
    /// Its reach: `account`, `credential`, `model` or `endpoint` (each on its own), or one of them, `model:NAME`, `endpoint:METHOD /PATH`.
    pub scope: Option<String>,
    /// What it counts.
    pub dimension: Option<DimensionWord>,
    /// Units per window, at least 1.
    pub limit: Option<u64>,
    /// The window. None for `concurrent`.
    pub window: Option<SpanText>,
    /// How the provider counts. Left out: `unknown`, which is safe for all of them.
    pub kind: Option<KindWord>,
    /// What a token bucket holds.
    pub burst: Option<u64>,
}

written! {
    /// What a quota counts.
    DimensionWord {
        /// Calls.
        Requests,
        /// Tokens in and out.
        Tokens,
        /// Tokens in.
        InputTokens,
        /// Tokens out.
        OutputTokens,
        /// The provider's own units.
        Points,
        /// Money.
        Spend,
        /// Calls open at once.
        Concurrent,
    }
}

written! {
    /// How a provider counts.
    KindWord {
        /// At most the limit in any window's length.
        Sliding,
        /// In windows that start anew.
        Fixed,
        /// A bucket that refills evenly.
        TokenBucket,
        /// Weighted sum of this fixed window and the one before.
        SlidingCounter,
        /// Not known.
        Unknown,
    }
}

/// What is known of an endpoint.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EndpointOptions {
    /// `METHOD /path/{name}`. `{name}` is one segment or a part of one, `*` one segment, a last `*` all that follows; the method may be `*`.
    #[serde(rename = "match")]
    pub matches: Option<String>,
    /// What a repeat of the call could do.
    pub class: Option<Word<Class>>,
    /// How a key travels and what it is worth.
    pub idempotency: Option<IdempotencyOptions>,
    /// Where the answer names what was created, `$.id`.
    pub operation_id: Option<String>,
    /// Where the request names it in the caller's own terms, `$.reference`.
    pub external_ref: Option<String>,
    /// How to find out what became of a write.
    pub reconcile: Option<ReconcileOptions>,
    /// After an uncertain write, a look-alike is held for this long.
    pub hold_after_uncertain: Option<SpanText>,
    /// Equal reads within this time are one call. Only for what never changes.
    pub coalesce: Option<SpanText>,
    /// What one call uses up.
    pub cost: Option<CostOptions>,
    /// Whether "already absent" (404, 410) is success, for deletions.
    pub absent_is_success: Option<bool>,
    /// Statuses among 429 and 503 that surely mean "not processed" here.
    pub refusals_unprocessed: Option<Vec<u16>>,
    /// The name of its source.
    pub source: Option<String>,
}

/// A key that the endpoint is known to honour.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct IdempotencyOptions {
    /// The request header that carries it.
    pub header: Option<String>,
    /// How long the provider remembers a key.
    pub lifetime: Option<SpanText>,
    /// Which results are replayed to a repeat.
    pub stores: Option<StoresWord>,
    /// The status that says "this key is being processed".
    pub in_progress: Option<u16>,
    /// The status that says "this key came with another payload".
    pub mismatch: Option<u16>,
}

written! {
    /// Which results a provider stores under a key.
    StoresWord {
        /// All of them, also failures of the provider.
        All,
        /// Only success.
        Successes,
        /// All but 429 and 5xx.
        Definite,
    }
}

/// A look-up that tells what happened.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReconcileOptions {
    /// `GET /path?key={idempotency_key}`; also `{operation_id}`, `{external_ref}` and the names in `match`.
    pub request: Option<String>,
    /// Where the answer shows it, `$.items[0].id` or `$.id`. An empty list there says that there is none; for one thing by its name, as `$.id`, a 404 does; any other answer says nothing.
    pub found: Option<String>,
    /// Whether "not found" proves absence once nothing can be in flight any more.
    pub authoritative: Option<bool>,
    /// How long the provider may take until a look-up sees a write.
    pub settle: Option<SpanText>,
    /// The longest time that a sent copy can still be on its way.
    pub max_in_flight: Option<SpanText>,
    /// Look-ups in all.
    pub max_lookups: Option<u16>,
}

/// What one call uses up.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CostOptions {
    /// Calls, where one counts as several.
    pub requests: Option<u32>,
    /// Tokens.
    pub tokens: Option<u64>,
    /// The provider's own units.
    pub points: Option<u64>,
    /// Money.
    pub spend: Option<f64>,
}
