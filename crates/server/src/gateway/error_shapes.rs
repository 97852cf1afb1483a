//! The shapes in which providers write an error as JSON, and where each keeps
//! its code, type, sentence, wait and status.
//!
//! | shape | seen at |
//! |---|---|
//! | `{"error": {"code", "type", "message"}}` | OpenAI and compatible, Stripe |
//! | `{"type": "error", "error": {"type", "message", "details": {"error_code"}}}` | Anthropic |
//! | `{"error": {"code": 429, "status", "details": [{"reason"}, {"retryDelay"}]}}`, also in an array | Google |
//! | `{"error": {"code", "errors": [{"reason"}]}}` | Google, older |
//! | `{"error": "code"}`, `{"error": "code", "description"}` | Slack, Zendesk |
//! | `{"code": "…", "error": "a sentence"}` | xAI |
//! | `{"code" or "name" or "errorCode", "message"}`, also in an array | Discord, Notion, PayPal, Salesforce, GitHub |
//! | `{"errors": [{"code" or "error" or "extensions": {"code"}, "message"}]}` | Square, Airtable, Linear, Shopify |
//! | `{"errors": "a sentence"}`, `{"errorMessages": ["a sentence"]}` | Shopify REST, Jira |
//! | `{"type", "title", "status", "detail"}` (RFC 9457) | many |
//! | a line of text | DeepSeek, GitLab |
//!
//! Of several codes the most specific counts; a number between 400 and 599 is a
//! status and no code. What one vendor alone keeps in a place of its own is a row
//! of its preset, and no code here.

use rategov_core::observe::AnsweredAt;
use rategov_core::observe::dialect::Unit;
use rategov_core::time::{Span, WallTime};
use serde_json::{Map, Value};

use super::error_body::ErrorText;

/// Whether a body has an error object or code of its own.
pub(super) fn holds_error(value: &Value) -> bool {
    match &value["error"] {
        Value::Object(_) => true,
        Value::String(text) => !text.is_empty(),
        _ => false,
    }
}

/// An error in any of the shapes of the table above. `None` if it is no object.
pub(super) fn of_error(value: &Value) -> Option<ErrorText> {
    let root = match value {
        Value::Array(items) => items.first()?.as_object()?,
        other => other.as_object()?,
    };
    let first_of_list = match root.get("errors") {
        Some(Value::Array(list)) => list.first(),
        other => other,
    };
    // The part that describes the error, and the sentence or code that stands
    // in its place.
    let (inner, bare) = match (root.get("error"), first_of_list) {
        (Some(Value::Object(inner)), _) | (None, Some(Value::Object(inner))) => (inner, None),
        (Some(Value::String(text)), _) | (None, Some(Value::String(text))) => (root, Some(text)),
        _ => (root, None),
    };
    let (bare_code, bare_sentence) = match bare {
        Some(text) if text.contains(' ') => (None, Some(text.clone())),
        other => (other.cloned(), None),
    };
    Some(ErrorText {
        code: specific_code(inner)
            .or(bare_code)
            .or_else(|| specific_code(root)),
        kind: kind(inner).or_else(|| kind(root)),
        message: sentence(inner).or(bare_sentence).or_else(|| sentence(root)),
        retry_after: wait(inner).or_else(|| wait(root)),
        status: status(inner).or_else(|| status(root)),
    })
}

/// The most specific code first.
fn specific_code(part: &Map<String, Value>) -> Option<String> {
    let nested = string(at(part, &["details", "error_code"]))
        .or_else(|| details(part).find_map(|detail| string(&detail["reason"])))
        .or_else(|| string(&at(part, &["errors"])[0]["reason"]))
        .or_else(|| string(at(part, &["extensions", "code"])));
    let own = [
        "code",
        "errorCode",
        "error_code",
        "reason",
        "error",
        "name",
        "policyName",
    ];
    nested.or_else(|| {
        own.iter().find_map(|key| match part.get(*key)? {
            Value::String(code) if !code.is_empty() && !code.contains(' ') => Some(code.clone()),
            // A number in the range of statuses is one, not a code.
            Value::Number(n) if !is_status(n.as_u64()) => Some(n.to_string()),
            _ => None,
        })
    })
}

fn kind(part: &Map<String, Value>) -> Option<String> {
    let kinds = ["type", "status", "errorType", "category"];
    // `error` only says that this is one.
    kinds
        .iter()
        .find_map(|key| string(part.get(*key)?).filter(|kind| kind != "error"))
}

fn sentence(part: &Map<String, Value>) -> Option<String> {
    let own = [
        "message",
        "detail",
        "error_description",
        "description",
        "title",
    ];
    own.iter()
        .find_map(|key| string(part.get(*key)?))
        .or_else(|| string(&at(part, &["errorMessages"])[0]))
}

fn wait(part: &Map<String, Value>) -> Option<Span> {
    seconds(at(part, &["retry_after"]))
}

/// A number of seconds, or a duration such as `38.2s`.
fn seconds(value: &Value) -> Option<Span> {
    // No date is read here, so the moment of the answer does not matter.
    let never = AnsweredAt(WallTime::default());
    match value {
        Value::Number(number) => Unit::Seconds.span(&number.to_string(), never),
        Value::String(text) => Unit::Seconds
            .span(text, never)
            .or_else(|| Unit::GoDuration.span(text, never)),
        _ => None,
    }
}

fn status(part: &Map<String, Value>) -> Option<u16> {
    let own = [
        &["code"][..],
        &["status"],
        &["statusCode"],
        &["extensions", "statusCode"],
    ];
    let numbers = own.iter().filter_map(|path| at(part, path).as_u64());
    numbers
        .filter(|n| is_status(Some(*n)))
        .find_map(|n| u16::try_from(n).ok())
}

fn is_status(number: Option<u64>) -> bool {
    number.is_some_and(|n| (400..=599).contains(&n))
}

/// The typed details of google.rpc.
fn details(part: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    part.get("details")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// The value at a path, or null.
fn at<'v>(part: &'v Map<String, Value>, path: &[&str]) -> &'v Value {
    let (first, rest) = path.split_first().unwrap_or((&"", &[]));
    let start = part.get(*first).unwrap_or(&Value::Null);
    rest.iter().fold(start, |value, key| &value[key])
}

/// A text with something in it.
pub(super) fn string(value: &Value) -> Option<String> {
    value
        .as_str()
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::error_body::{ErrorText, Look, read};
    use rategov_core::observe::tables;

    /// `code | kind | message | wait | status`, empty for what is not there.
    fn line(error: &ErrorText) -> String {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let wait = error
            .retry_after
            .map(|wait| wait.to_string())
            .unwrap_or_default();
        let status = error
            .status
            .map(|status| status.to_string())
            .unwrap_or_default();
        let (code, kind, message) = (text(&error.code), text(&error.kind), text(&error.message));
        format!("{code} | {kind} | {message} | {wait} | {status}")
    }

    #[track_caller]
    fn check(status: u16, body: &str, expected: Option<&str>) {
        let (dialect, hidden) = (tables::generic(), &[][..]);
        let dialect = &dialect;
        let said = read(status, body.as_bytes(), Look { dialect, hidden });
        let got = said.error.as_ref().map(line);
        assert_eq!(got.as_deref(), expected, "{status} {body}");
    }

    #[test]
    fn each_common_shape_gives_up_its_code_type_and_sentence() {
        for (body, expected) in [
            (
                r#"{"error":{"message":"Slow","type":"rate_limit_error","param":null,"code":"slow_down"}}"#,
                "slow_down | rate_limit_error | Slow |  | ",
            ),
            (
                r#"{"type":"error","error":{"type":"rate_limit_error","message":"M","details":{"error_code":"enforced_spend_limit_reached"}},"request_id":"r"}"#,
                "enforced_spend_limit_reached | rate_limit_error | M |  | ",
            ),
            (
                r#"{"error":{"code":429,"message":"M","status":"RESOURCE_EXHAUSTED","details":[{"@type":"x"},{"retryDelay":"38.2s"}]}}"#,
                " | RESOURCE_EXHAUSTED | M |  | 429",
            ),
            (
                r#"{"error":{"code":400,"message":"API key expired","details":[{"reason":"API_KEY_INVALID"}]}}"#,
                "API_KEY_INVALID |  | API key expired |  | 400",
            ),
            (
                r#"[{"error":{"code":429,"message":"M","errors":[{"reason":"rateLimitExceeded"}]}}]"#,
                "rateLimitExceeded |  | M |  | 429",
            ),
            (
                r#"{"error":"APIRateLimitExceeded","description":"D"}"#,
                "APIRateLimitExceeded |  | D |  | ",
            ),
            (
                r#"{"ok":false,"error":"rate_limited","retry_after":1}"#,
                "rate_limited |  |  | 1s | ",
            ),
            (
                r#"{"code":"The system is busy","error":"Try later"}"#,
                " |  | Try later |  | ",
            ),
            (
                r#"{"message":"M","retry_after":900.41,"global":false}"#,
                " |  | M | 900.410s | ",
            ),
            (
                r#"{"object":"error","status":529,"code":"service_overload","message":"M"}"#,
                "service_overload |  | M |  | 529",
            ),
            (
                r#"{"name":"RATE_LIMIT_REACHED","message":"M"}"#,
                "RATE_LIMIT_REACHED |  | M |  | ",
            ),
            (
                r#"[{"message":"M","errorCode":"REQUEST_LIMIT_EXCEEDED"}]"#,
                "REQUEST_LIMIT_EXCEEDED |  | M |  | ",
            ),
            (
                r#"{"status":"error","message":"M","errorType":"RATE_LIMIT","policyName":"DAILY"}"#,
                "DAILY | RATE_LIMIT | M |  | ",
            ),
            (
                r#"{"code":20429,"message":"M","status":429}"#,
                "20429 |  | M |  | 429",
            ),
            (
                r#"{"errors":[{"category":"C","code":"IDEMPOTENCY_KEY_REUSED","detail":"D"}]}"#,
                "IDEMPOTENCY_KEY_REUSED | C | D |  | ",
            ),
            (
                r#"{"errors":[{"error":"RATE_LIMIT_REACHED","message":"M"}]}"#,
                "RATE_LIMIT_REACHED |  | M |  | ",
            ),
            (
                r#"{"errors":[{"message":"M","extensions":{"code":"RATELIMITED","statusCode":429}}]}"#,
                "RATELIMITED |  | M |  | 429",
            ),
            (
                r#"{"errors":"Call rate above the allowance"}"#,
                " |  | Call rate above the allowance |  | ",
            ),
            (r#"{"errorMessages":["M"]}"#, " |  | M |  | "),
            (
                r#"{"type":"https://x/quota","title":"T","status":429,"detail":"D"}"#,
                " | https://x/quota | D |  | 429",
            ),
            (
                r#"{"error":{"code":"concurrent_request_limit_exceeded","retry_after":10}}"#,
                "concurrent_request_limit_exceeded |  |  | 10s | ",
            ),
            ("Retry later\n", " |  | Retry later |  | "),
        ] {
            check(429, body, Some(expected));
        }
    }

    #[test]
    fn a_wait_that_is_no_number_of_seconds_is_no_wait() {
        for wait in ["-1", "\"soon\"", "\"-1s\"", "null", "true", "[]"] {
            let body = format!(r#"{{"code":"c","retry_after":{wait}}}"#);
            check(429, &body, Some("c |  |  |  | "));
        }
    }
}
