//! What is built in: the header fields and error codes of the generic provider,
//! OpenAI and Anthropic, as tables.
//!
//! The presets under `providers/` say the same with the source of each fact; a
//! test holds the two together. A provider's rules go before the generic ones:
//! `[openai_rules(), generic_rules()].concat()`.
//!
//! The generic dialect also knows the field names of OpenAI and Anthropic: they
//! are used by many compatible servers and mean nothing else anywhere.

use super::Kind::{self, *};
use super::Reach;
use super::dialect::Unit::{self, Auto, GoDuration, Millis, Rfc3339, Seconds};
use super::dialect::What::{
    self, Asked, Full, Limit, Policy, Remaining, Reset, Restore, Retry, State,
};
use super::dialect::{Dialect, FieldRule, MessageClock, Place};
use super::errors::ErrorRule;
use crate::time::Span;

/// Header, dimension, what it carries, how times are written.
type Field = (&'static str, &'static str, What, Unit);

/// Status, code or type, piece of the message, kind, reach, documented wait.
type Row = (
    Option<u16>,
    Option<&'static str>,
    Option<&'static str>,
    Kind,
    Option<Reach>,
    Option<Span>,
);

/// Fields that mean the same wherever they are sent.
#[rustfmt::skip]
const COMMON: &[Field] = &[
    ("retry-after-ms", "", Retry, Millis),
    ("ratelimit", "requests", State, Seconds),
    ("ratelimit-policy", "requests", Policy, Seconds),
    // The drafts say seconds; GitLab sends an epoch, and the size tells.
    ("ratelimit-limit", "requests", Limit, Auto),
    ("ratelimit-remaining", "requests", Remaining, Auto),
    ("ratelimit-reset", "requests", Reset, Auto),
    ("x-ratelimit-limit", "requests", Limit, Auto),
    ("x-ratelimit-remaining", "requests", Remaining, Auto),
    ("x-ratelimit-reset", "requests", Reset, Auto),
    ("x-rate-limit", "requests", Limit, Auto),
    ("x-rate-limit-limit", "requests", Limit, Auto),
    ("x-rate-limit-remaining", "requests", Remaining, Auto),
    ("x-rate-limit-reset", "requests", Reset, Auto),
];

#[rustfmt::skip]
const OPENAI: &[Field] = &[
    ("x-ratelimit-limit-requests", "requests", Limit, GoDuration),
    ("x-ratelimit-remaining-requests", "requests", Remaining, GoDuration),
    ("x-ratelimit-reset-requests", "requests", Full, GoDuration),
    ("x-ratelimit-limit-tokens", "tokens", Limit, GoDuration),
    ("x-ratelimit-remaining-tokens", "tokens", Remaining, GoDuration),
    ("x-ratelimit-reset-tokens", "tokens", Full, GoDuration),
];

/// Limits of the project, whatever the model.
#[rustfmt::skip]
const OPENAI_PROJECT: &[Field] = &[
    ("x-ratelimit-limit-project-tokens", "project_tokens", Limit, GoDuration),
    ("x-ratelimit-remaining-project-tokens", "project_tokens", Remaining, GoDuration),
    ("x-ratelimit-reset-project-tokens", "project_tokens", Full, GoDuration),
];

/// All of them per minute, as the documentation says.
#[rustfmt::skip]
const ANTHROPIC: &[Field] = &[
    ("anthropic-ratelimit-requests-limit", "requests", Limit, Rfc3339),
    ("anthropic-ratelimit-requests-remaining", "requests", Remaining, Rfc3339),
    ("anthropic-ratelimit-requests-reset", "requests", Full, Rfc3339),
    ("anthropic-ratelimit-tokens-limit", "tokens", Limit, Rfc3339),
    ("anthropic-ratelimit-tokens-remaining", "tokens", Remaining, Rfc3339),
    ("anthropic-ratelimit-tokens-reset", "tokens", Full, Rfc3339),
    ("anthropic-ratelimit-input-tokens-limit", "input_tokens", Limit, Rfc3339),
    ("anthropic-ratelimit-input-tokens-remaining", "input_tokens", Remaining, Rfc3339),
    ("anthropic-ratelimit-input-tokens-reset", "input_tokens", Full, Rfc3339),
    ("anthropic-ratelimit-output-tokens-limit", "output_tokens", Limit, Rfc3339),
    ("anthropic-ratelimit-output-tokens-remaining", "output_tokens", Remaining, Rfc3339),
    ("anthropic-ratelimit-output-tokens-reset", "output_tokens", Full, Rfc3339),
    ("anthropic-priority-input-tokens-limit", "priority_input_tokens", Limit, Rfc3339),
    ("anthropic-priority-input-tokens-remaining", "priority_input_tokens", Remaining, Rfc3339),
    ("anthropic-priority-input-tokens-reset", "priority_input_tokens", Full, Rfc3339),
    ("anthropic-priority-output-tokens-limit", "priority_output_tokens", Limit, Rfc3339),
    ("anthropic-priority-output-tokens-remaining", "priority_output_tokens", Remaining, Rfc3339),
    ("anthropic-priority-output-tokens-reset", "priority_output_tokens", Full, Rfc3339),
];

/// Places in bodies that mean the same wherever they are found: path, dimension,
/// what it carries, how the limit is called.
#[rustfmt::skip]
const BODIES: &[(&str, &str, What, Option<&str>)] = &[
    ("$.error.details[*].retryDelay", "", Retry, None),
    ("$.error.availability.retry_after", "", Retry, None),
    ("$.extensions.cost.throttleStatus.maximumAvailable", "points", Limit, Some("cost_points")),
    ("$.extensions.cost.throttleStatus.currentlyAvailable", "points", Remaining, Some("cost_points")),
    ("$.extensions.cost.throttleStatus.restoreRate", "points", Restore, Some("cost_points")),
    ("$.extensions.cost.requestedQueryCost", "points", Asked, Some("cost_points")),
];

const MINUTE: Option<Span> = Some(Span::from_secs(60));

/// Any provider: `Retry-After`, `RateLimit` in all revisions, `X-RateLimit-*`.
pub fn generic() -> Dialect {
    // Compatible servers borrow the names without the form, so the form is told
    // by the value, and without the scope, so the account is meant.
    let borrowed = |fields: &[Field], window| {
        let auto: Vec<Field> = fields.iter().map(|f| (f.0, f.1, f.2, Auto)).collect();
        rules(&auto, Reach::Account, window)
    };
    dialect([
        rules(COMMON, Reach::Account, None),
        borrowed(OPENAI, None),
        borrowed(OPENAI_PROJECT, None),
        borrowed(ANTHROPIC, MINUTE),
        bodies(),
    ])
}

fn bodies() -> Vec<FieldRule> {
    let rule = |&(path, dimension, what, name): &(&str, &str, What, Option<&str>)| FieldRule {
        dimension: dimension.to_owned(),
        name: name.map(str::to_owned),
        ..FieldRule::new(Place::Body(path.to_owned()), what)
    };
    BODIES.iter().map(rule).collect()
}

/// OpenAI: a bucket per model for requests and tokens, one per project for tokens.
pub fn openai() -> Dialect {
    dialect([
        rules(&COMMON[..1], Reach::Account, None),
        rules(OPENAI, Reach::Model, None),
        rules(OPENAI_PROJECT, Reach::Account, None),
    ])
}

/// Anthropic: buckets per minute and model class.
pub fn anthropic() -> Dialect {
    dialect([
        rules(&COMMON[..1], Reach::Account, None),
        rules(ANTHROPIC, Reach::Model, MINUTE),
    ])
}

fn rules(fields: &[Field], reach: Reach, window: Option<Span>) -> Vec<FieldRule> {
    let has_no_name = |header: &str| COMMON.iter().any(|field| field.0 == header);
    let rule = |&(header, dimension, what, unit): &Field| FieldRule {
        dimension: dimension.to_owned(),
        name: match what {
            Retry | State | Policy => None,
            _ => has_no_name(header).then(|| "default".to_owned()),
        },
        unit,
        reach,
        window: window.filter(|_| what == Limit),
        ..FieldRule::new(Place::header(header), what)
    };
    fields.iter().map(rule).collect()
}

fn dialect<const N: usize>(fields: [Vec<FieldRule>; N]) -> Dialect {
    Dialect::new(fields.concat(), MessageClock::Unknown)
        .expect("the built-in tables hold each field once, and a test builds them all")
}

const ACCOUNT: Option<Reach> = Some(Reach::Account);
const MODEL: Option<Reach> = Some(Reach::Model);

/// Rules for any provider: codes and sentences that mean the same wherever they
/// were seen. They stand in the order in which they are tried.
#[rustfmt::skip]
const GENERIC_RULES: &[Row] = &[
    // Open calls, not their rate.
    (None, Some("concurrent_request_limit_exceeded"), None, TooManyConcurrent, None, None),
    (Some(429), None, Some("concurrent request"), TooManyConcurrent, None, None),
    (Some(429), None, Some("concurrency limit"), TooManyConcurrent, None, None),
    // The same idempotency key.
    (None, Some("idempotency_key_in_use"), None, KeyInProgress, None, None),
    (None, Some("idempotency_error"), None, KeyMismatch, None, None),
    (None, Some("IDEMPOTENCY_KEY_REUSED"), None, KeyMismatch, None, None),
    (None, Some("IdempotentRequestError"), None, KeyMismatch, None, None),
    // Money.
    (None, Some("billing_error"), None, Billing, None, None),
    (None, Some("credit_balance_exhausted"), None, Billing, None, None),
    (Some(400), None, Some("credit balance is too low"), Billing, None, None),
    (None, Some("insufficient_quota"), Some("billing"), Billing, None, None),
    (None, Some("insufficient_quota"), None, QuotaExhausted, None, None),
    // A long window.
    (Some(429), None, Some("usage limit reached"), QuotaExhausted, None, None),
    (Some(429), None, Some("subscription quota"), QuotaExhausted, None, None),
    (Some(429), None, Some("daily limit"), QuotaExhausted, None, None),
    // No wait makes it fit.
    (Some(429), None, Some("request too large"), TooLarge, None, None),
    (None, Some("request_too_large"), None, TooLarge, None, None),
    // The key.
    (None, Some("API_KEY_INVALID"), None, Credential, None, None),
    (None, Some("authentication_error"), None, Credential, None, None),
    (None, Some("invalid_auth"), None, Credential, None, None),
    (Some(400), None, Some("api key expired"), Credential, None, None),
    (Some(400), None, Some("api key not valid"), Credential, None, None),
    // No capacity, whatever the status.
    (None, Some("overloaded_error"), None, Overloaded, None, None),
    (None, Some("server_is_overloaded"), None, Overloaded, None, None),
    (None, Some("service_overload"), None, Overloaded, None, None),
    (None, Some("service_unavailable_error"), None, Overloaded, None, None),
    // A rate, whatever the status. GitHub asks for a minute after a secondary limit.
    (Some(403), None, Some("secondary rate limit"), RateLimited, None, MINUTE),
    (Some(429), None, Some("secondary rate limit"), RateLimited, None, MINUTE),
    (Some(403), None, Some("rate limit exceeded"), RateLimited, None, None),
    (None, Some("rate_limit_exceeded"), None, RateLimited, None, None),
    (None, Some("rate_limit_error"), None, RateLimited, None, None),
    (None, Some("rate_limited"), None, RateLimited, None, None),
    (None, Some("ratelimited"), None, RateLimited, None, None),
    (None, Some("rateLimitExceeded"), None, RateLimited, None, None),
    (None, Some("userRateLimitExceeded"), None, RateLimited, None, None),
    (None, Some("ThrottlingException"), None, RateLimited, None, None),
    (None, Some("THROTTLED"), None, RateLimited, None, None),
    // The provider's own failure, also as the first event of a stream.
    (None, Some("api_error"), None, ProviderError, None, None),
    (None, Some("server_error"), None, ProviderError, None, None),
    (None, Some("timeout_error"), None, ProviderError, None, None),
];

#[rustfmt::skip]
const OPENAI_RULES: &[Row] = &[
    (Some(429), Some("credit_balance_exhausted"), None, Billing, ACCOUNT, None),
    (Some(429), Some("organization_spend_limit_exceeded"), None, Billing, ACCOUNT, None),
    (Some(429), Some("project_spend_limit_exceeded"), None, Billing, ACCOUNT, None),
    (Some(429), Some("organization_usage_limit_exceeded"), None, Billing, ACCOUNT, None),
    (Some(429), Some("insufficient_quota"), Some("billing"), Billing, ACCOUNT, None),
    (Some(429), Some("insufficient_quota"), None, QuotaExhausted, ACCOUNT, None),
    // Before the rate: these refusals carry the code of a rate limit.
    (Some(429), None, Some("request too large"), TooLarge, MODEL, None),
    (Some(429), None, Some("per day"), QuotaExhausted, MODEL, None),
    (Some(429), Some("slow_down"), None, RateLimited, ACCOUNT, None),
    (Some(429), Some("rate_limit_exceeded"), None, RateLimited, MODEL, None),
    (Some(503), Some("server_is_overloaded"), None, Overloaded, None, None),
];

#[rustfmt::skip]
const ANTHROPIC_RULES: &[Row] = &[
    (Some(429), Some("enforced_spend_limit_reached"), None, Billing, ACCOUNT, None),
    (Some(400), None, Some("specified API usage limits"), Billing, ACCOUNT, None),
    (Some(400), None, Some("credit balance is too low"), Billing, ACCOUNT, None),
    (Some(402), Some("billing_error"), None, Billing, ACCOUNT, None),
    (None, Some("rate_limit_error"), None, RateLimited, MODEL, None),
    (None, Some("overloaded_error"), None, Overloaded, None, None),
    (Some(409), Some("conflict_error"), None, LockConflict, None, None),
    (Some(413), Some("request_too_large"), None, TooLarge, None, None),
    (None, Some("timeout_error"), None, OutcomeUnknown, None, None),
];

/// The generic error rules.
pub fn generic_rules() -> Vec<ErrorRule> {
    table(GENERIC_RULES)
}

/// OpenAI's own error rules.
pub fn openai_rules() -> Vec<ErrorRule> {
    table(OPENAI_RULES)
}

/// Anthropic's own error rules.
pub fn anthropic_rules() -> Vec<ErrorRule> {
    table(ANTHROPIC_RULES)
}

fn table(rows: &[Row]) -> Vec<ErrorRule> {
    let rule = |&(status, code, message, kind, reach, wait): &Row| ErrorRule {
        status,
        code: code.map(str::to_owned),
        message: message.map(str::to_owned),
        reach,
        wait,
        ..ErrorRule::of(kind)
    };
    rows.iter().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_dialect_can_be_built() {
        assert_eq!(generic().fields().len(), 13 + 9 + 18 + 6);
        assert_eq!(openai().fields().len(), 10);
        assert_eq!(anthropic().fields().len(), 19);
    }

    #[test]
    fn no_built_in_rule_asks_for_nothing_or_stands_behind_its_like() {
        for rules in [generic_rules(), openai_rules(), anthropic_rules()] {
            for (at, rule) in rules.iter().enumerate() {
                assert!(rule.asks(), "rule {at} matches nothing");
                let asked =
                    |rule: &ErrorRule| (rule.status, rule.code.clone(), rule.message.clone());
                let shadowed = rules[..at]
                    .iter()
                    .any(|earlier| asked(earlier) == asked(rule));
                assert!(!shadowed, "rule {at} can never be reached: {rule:?}");
            }
        }
    }
}
