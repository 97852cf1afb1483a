//! What an answer means, as `providers test` writes it and compares it.
//!
//! | key | is |
//! |---|---|
//! | `kind` | what the answer is |
//! | `retry_after_seconds` | the wait that the answer itself names; a reset is none |
//! | `remaining`, `limit`, `reset_seconds` | of each limit, by its name |
//! | `scope` | in words, whose limit it is; prose, so it is not compared |
//! | `retry` | what helps; absent where nothing has to be helped |
//!
//! The words are those of recorded cases as they are passed around, which are not
//! everywhere the words of presets: `burst_limit` is `rate_limited` there.
//!
//! A bucket of points that is too empty for the call says when the call fits; that
//! is the reset `NAME_for_this_query`. Only what was understood is here: no header,
//! no body, no sentence of the provider.

use rategov_core::observe::{Facts, Figures, Kind, Reach, Reading};
use rategov_core::time::Span;
use serde_json::{Map, Number, Value, json};

/// Two times are the same if they differ by less: ours are whole microseconds.
const SAME_SECONDS: f64 = 0.001;

/// The word of a kind in recorded cases.
pub(super) const fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Ok => "ok",
        Kind::NearLimit => "near_limit",
        Kind::Replayed => "idempotent_replay",
        Kind::PartlyLimited => "partial_burst_limit",
        Kind::RateLimited => "burst_limit",
        Kind::TooManyConcurrent => "concurrency_limit",
        Kind::QuotaExhausted => "quota_exhausted",
        Kind::Billing => "billing_exhausted",
        Kind::NoAllowance => "zero_allowance",
        Kind::Overloaded => "overloaded",
        Kind::LockConflict => "lock_conflict",
        Kind::Credential => "auth",
        Kind::Permission => "permission",
        Kind::TooLarge | Kind::CallerError => "invalid_request",
        Kind::KeyInProgress => "idempotency_in_progress",
        Kind::KeyMismatch => "idempotency_conflict",
        Kind::ProviderError => "server_error",
        Kind::OutcomeUnknown => "outcome_unknown",
    }
}

/// The meaning of an answer. `whose` is the provider's own word for whose its
/// limits are.
pub(super) fn of(facts: &Facts, whose: Option<&str>) -> Value {
    let mut limits = Limits::default();
    for reading in facts.readings.iter().chain(&facts.asides().limits) {
        limits.add(reading);
    }
    let mut meaning = json!({
        "kind": kind_word(facts.kind),
        "retry_after_seconds": facts.retry_after.filter(|_| is_named(facts)).map(seconds),
        "remaining": limits.remaining,
        "limit": limits.limit,
        "reset_seconds": limits.reset,
        "scope": scope(facts, whose),
    });
    if let Some(advice) = facts.advice {
        meaning["retry"] = json!(advice.word());
    }
    meaning
}

/// Whether the wait stands in the answer, and is no reset and no documentation.
fn is_named(facts: &Facts) -> bool {
    !matches!(
        facts.retry_source,
        Some("reset of the exhausted limit" | "the provider's documented wait")
    )
}

/// In words, whose limit it is; `None` where no limit is spoken of.
fn scope<'w>(facts: &'w Facts, whose: Option<&'w str>) -> Option<&'w str> {
    let refused = match facts.kind {
        Kind::Credential | Kind::Permission | Kind::CallerError | Kind::TooLarge => false,
        Kind::Ok | Kind::NearLimit => false,
        Kind::Replayed | Kind::PartlyLimited => true,
        Kind::RateLimited | Kind::TooManyConcurrent | Kind::QuotaExhausted => true,
        Kind::Billing | Kind::NoAllowance | Kind::Overloaded | Kind::LockConflict => true,
        Kind::KeyInProgress | Kind::KeyMismatch => true,
        Kind::ProviderError | Kind::OutcomeUnknown => true,
    };
    let asides = facts.asides();
    let speaks = refused
        || !facts.readings.is_empty()
        || !asides.limits.is_empty()
        || asides.figures != Figures::default();
    let ruled = asides.whose.as_deref();
    // That it is the account's is what silence means, so it is not said.
    let reach = Some(facts.reach).filter(|reach| refused && *reach != Reach::Account);
    let known = ruled.or_else(|| whose.filter(|_| speaks));
    known.or_else(|| reach.map(Reach::word))
}

#[derive(Default)]
struct Limits {
    remaining: Map<String, Value>,
    limit: Map<String, Value>,
    reset: Map<String, Value>,
}

impl Limits {
    /// Adds a reading; of two with the same name the more cautious value counts.
    fn add(&mut self, reading: &Reading) {
        let name = reading.label();
        least(&mut self.remaining, name, reading.remaining);
        least(&mut self.limit, name, reading.limit);
        latest(&mut self.reset, name, reading.reset_after);
        let of_this_call = format!("{name}_for_this_query");
        latest(&mut self.reset, &of_this_call, reading.fits_after);
    }
}

fn least(values: &mut Map<String, Value>, name: &str, value: Option<u64>) {
    if let Some(value) = value {
        let known = values.get(name).and_then(Value::as_u64);
        let least = known.map_or(value, |known| known.min(value));
        values.insert(name.to_owned(), json!(least));
    }
}

fn latest(values: &mut Map<String, Value>, name: &str, value: Option<Span>) {
    if let Some(value) = value {
        let known = values.get(name).and_then(Value::as_f64);
        if known.is_none_or(|known| known < value.as_secs_f64()) {
            values.insert(name.to_owned(), seconds(value));
        }
    }
}

/// Whole seconds as a whole number.
fn seconds(span: Span) -> Value {
    match span.as_micros() % 1_000_000 {
        0 => json!(span.as_micros() / 1_000_000),
        _ => Number::from_f64(span.as_secs_f64()).map_or(Value::Null, Value::Number),
    }
}

/// What differs from what was recorded, a line each. Keys that the record leaves
/// out are not asked for.
pub(super) fn differences(recorded: &Value, got: &Value) -> Vec<String> {
    let keys = ["kind", "retry_after_seconds", "retry"];
    let maps = ["remaining", "limit", "reset_seconds"];
    let asked = |key: &&str| recorded.get(*key).is_some();
    let mut lines: Vec<String> = Vec::new();
    for key in keys.into_iter().chain(maps).filter(asked) {
        let (expected, found) = (&recorded[key], &got[key]);
        if !is_same(expected, found) {
            lines.push(format!("{key}: expected {expected}, got {found}"));
        }
    }
    lines
}

fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap_or(0.0), b.as_f64().unwrap_or(0.0));
            (a - b).abs() < SAME_SECONDS
        }
        (Value::Object(a), Value::Object(b)) => {
            let same = |(key, value): (&String, &Value)| {
                b.get(key).is_some_and(|other| is_same(value, other))
            };
            a.len() == b.len() && a.iter().all(same)
        }
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rategov_core::observe::Meaning;

    #[test]
    fn only_numbers_and_words_that_were_asked_for_are_compared() {
        let got =
            json!({"kind": "ok", "retry_after_seconds": 2, "remaining": {"a": 1}, "scope": "x"});
        for same in [
            json!({}),
            json!({"kind": "ok", "scope": "prose"}),
            json!({"retry_after_seconds": 2.0004, "remaining": {"a": 1.0}}),
        ] {
            assert_eq!(differences(&same, &got), Vec::<String>::new());
        }
        for (other, key) in [
            (json!({"kind": "auth"}), "kind"),
            (json!({"retry_after_seconds": null}), "retry_after_seconds"),
            (json!({"remaining": {}}), "remaining"),
            (json!({"remaining": {"a": 2}}), "remaining"),
            (json!({"retry": "no"}), "retry"),
        ] {
            let lines = differences(&other, &got);
            assert!(lines.len() == 1 && lines[0].starts_with(key), "{lines:?}");
        }
    }

    #[test]
    fn a_reset_is_no_wait_that_the_answer_names() {
        let mut facts = Facts::bare(429, Meaning::RateLimited);
        facts.retry_after = Some(Span::from_secs(12));
        facts.retry_source = Some("reset of the exhausted limit");
        assert_eq!(of(&facts, None)["retry_after_seconds"], Value::Null);
        facts.retry_source = Some("HTTP 429 Retry-After");
        assert_eq!(of(&facts, None)["retry_after_seconds"], 12);
        facts.retry_after = Some(Span::from_millis(1_500));
        assert_eq!(of(&facts, None)["retry_after_seconds"], 1.5);
    }

    #[test]
    fn every_kind_has_its_word_and_two_share_one() {
        let mut words: Vec<&str> = Kind::ALL.iter().map(|kind| kind_word(*kind)).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Kind::ALL.len() - 1);
    }
}
