//! What an error body says: code, type, sentence, wait, from the common shapes.
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
//! Under a success status a body is an error only if it is nothing else: an
//! error object beside `id`, `data`, `choices` or the like is a result that
//! *mentions* an error, such as a stored failed job, and must not be repeated.
//!
//! Bounds: bodies beyond [`BODY_BYTES_MAX`] are not read, texts are cut at
//! [`TEXT_BYTES_MAX`]. Bodies arrive decoded (gzip and the like are the
//! caller's). Credentials that the caller names are cut out of every text, since
//! providers echo them.

use std::fmt;

use rategov_core::observe::dialect::Unit;
use rategov_core::observe::{AnsweredAt, ErrorBody};
use rategov_core::time::{Span, WallTime};
use serde_json::{Map, Value};

/// Longest body that is read, in bytes.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// Longest text that is kept, in bytes.
pub const TEXT_BYTES_MAX: usize = 4096;
/// Shorter credentials are not looked for: they would cut words to pieces, and
/// nobody can be protected who uses them.
const SECRET_BYTES_MIN: usize = 4;

/// What an error body said; owned, and lent to the core as [`ErrorBody`].
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ErrorText {
    /// The most specific code.
    pub code: Option<String>,
    /// The wider type.
    pub kind: Option<String>,
    /// The provider's sentence.
    pub message: Option<String>,
    /// A wait in a field of its own.
    pub retry_after: Option<Span>,
    /// A status named in the body.
    pub status: Option<u16>,
}

/// Without the sentence, which only the core's cleaned form may show.
impl fmt::Debug for ErrorText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lend().fmt(f)
    }
}

impl ErrorText {
    /// The form that the core reads.
    pub fn lend(&self) -> ErrorBody<'_> {
        ErrorBody {
            code: self.code.as_deref(),
            kind: self.kind.as_deref(),
            message: self.message.as_deref(),
            retry_after: self.retry_after,
            status: self.status,
        }
    }

    fn says_something(&self) -> bool {
        *self != ErrorText::default()
    }

    /// Cuts out what must not be shown and bounds what is left.
    fn cleaned(mut self, hidden: &[&str]) -> ErrorText {
        for text in [&mut self.code, &mut self.kind, &mut self.message]
            .into_iter()
            .flatten()
        {
            for secret in hidden
                .iter()
                .filter(|secret| secret.len() >= SECRET_BYTES_MIN)
            {
                if text.contains(secret) {
                    *text = text.replace(secret, "[credential]");
                }
            }
            text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        }
        self
    }
}

/// Reads the complete, decoded body of an answer. `hidden` are the credentials
/// of the call. `None`: it says no error. Cost: one parse.
pub fn read(status: u16, body: &[u8], hidden: &[&str]) -> Option<ErrorText> {
    if body.len() > BODY_BYTES_MAX || (status < 400 && !mentions_error(body)) {
        return None;
    }
    let found = match serde_json::from_slice(body) {
        Ok(value) if status >= 400 => of_error(&value),
        Ok(value) => of_success(&value),
        Err(_) if status >= 400 => plain_text(body),
        Err(_) => None,
    };
    Some(found?.cleaned(hidden)).filter(ErrorText::says_something)
}

/// Reads one event of a stream, its name and its data, as [`read`] does. An
/// event is an error by its name, its type, or an error object in it.
pub(super) fn of_event(name: &str, data: &str, hidden: &[&str]) -> Option<ErrorText> {
    let value: Value = match serde_json::from_str(data) {
        Ok(value) => value,
        Err(_) if name == "error" => {
            return Some(
                plain_text(data.as_bytes())
                    .unwrap_or_default()
                    .cleaned(hidden),
            );
        }
        Err(_) => return None,
    };
    let is_error = name == "error" || value["type"] == "error" || holds_error(&value);
    is_error.then(|| of_error(&value).unwrap_or_default().cleaned(hidden))
}

/// A cheap look before a parse: most successes do not hold the word as a name
/// or value.
fn mentions_error(body: &[u8]) -> bool {
    body.windows(6).any(|part| part == b"\"error")
}

fn plain_text(body: &[u8]) -> Option<ErrorText> {
    let text = std::str::from_utf8(body).ok()?.trim();
    // A page for people says nothing that a rule could match.
    if text.is_empty() || text.starts_with('<') {
        return None;
    }
    Some(ErrorText {
        message: Some(text.to_owned()),
        ..ErrorText::default()
    })
}

/// An error under a success status.
fn of_success(value: &Value) -> Option<ErrorText> {
    const RESULTS: [&str; 10] = [
        "id", "object", "data", "choices", "output", "content", "result", "results", "items",
        "response",
    ];
    if value["choices"][0]["finish_reason"] == "error" {
        // Tokens were made, so this is a failure and no refusal: the code and
        // status of the inner error would let it be repeated.
        let message = string(&value["choices"][0]["error"]["message"]);
        let code = Some("finish_reason_error".to_owned());
        return Some(ErrorText {
            code,
            message,
            ..ErrorText::default()
        });
    }
    let has_result = RESULTS.iter().any(|key| !value[key].is_null());
    let has_errors = value["errors"]
        .as_array()
        .is_some_and(|errors| !errors.is_empty());
    if has_result || !(holds_error(value) || has_errors) {
        return None;
    }
    of_error(value)
}

fn holds_error(value: &Value) -> bool {
    match &value["error"] {
        Value::Object(_) => true,
        Value::String(text) => !text.is_empty(),
        _ => false,
    }
}

/// An error in any of the shapes of the table above.
fn of_error(value: &Value) -> Option<ErrorText> {
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
        retry_after: wait(inner).or_else(|| wait(root)).or_else(|| refill(root)),
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
        .or_else(|| seconds(at(part, &["availability", "retry_after"])))
        .or_else(|| details(part).find_map(|detail| seconds(&detail["retryDelay"])))
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

/// Shopify's bucket of query cost: until the refused query fits. Worked: 100
/// points asked, 12 there, 50 a second restored: (100 − 12) / 50 = 1.76 s.
fn refill(root: &Map<String, Value>) -> Option<Span> {
    let cost = at(root, &["extensions", "cost"]);
    let asked = cost["requestedQueryCost"].as_f64()?;
    let there = cost["throttleStatus"]["currentlyAvailable"].as_f64()?;
    let restored = cost["throttleStatus"]["restoreRate"].as_f64()?;
    Span::from_secs_f64((asked - there) / restored)
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

fn string(value: &Value) -> Option<String> {
    value
        .as_str()
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        let got = read(status, body.as_bytes(), &[]).as_ref().map(line);
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
                " | RESOURCE_EXHAUSTED | M | 38.200s | 429",
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
    fn what_says_nothing_is_no_error_body() {
        for body in [
            "",
            "{}",
            "[]",
            "null",
            "7",
            "<html>Bad gateway</html>",
            r#"{"error":null}"#,
        ] {
            check(502, body, None);
        }
        let long = format!(r#"{{"error":"{}"}}"#, "x".repeat(BODY_BYTES_MAX));
        check(429, &long, None);
    }

    #[test]
    fn an_error_object_alone_under_a_success_is_an_error() {
        check(
            200,
            r#"{"error":{"code":429,"message":"M"}}"#,
            Some(" |  | M |  | 429"),
        );
        check(
            200,
            r#"{"ok":false,"error":"invalid_auth"}"#,
            Some("invalid_auth |  |  |  | "),
        );
        check(
            200,
            r#"{"errors":[{"extensions":{"code":"THROTTLED"}}],"data":null}"#,
            Some("THROTTLED |  |  |  | "),
        );
        check(
            200,
            r#"{"errors":[{"extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"requestedQueryCost":100,"throttleStatus":{"maximumAvailable":1000,"currentlyAvailable":12,"restoreRate":50}}}}"#,
            Some("THROTTLED |  |  | 1.760s | "),
        );
    }

    #[test]
    fn a_result_that_mentions_an_error_is_a_result() {
        for body in [
            r#"{"choices":[{"message":{"content":"what is an \"error\"?"},"finish_reason":"stop"}]}"#,
            r#"{"id":"resp_1","error":null}"#,
            r#"{"id":"resp_1","status":"failed","error":{"code":"rate_limit_exceeded"}}"#,
            r#"{"data":{"shop":{}},"errors":[{"message":"field deprecated"}]}"#,
            r#"{"errors":[]}"#,
            r#"{"error":""}"#,
            r#"{"error":false}"#,
            "not json but \"error\"",
        ] {
            check(200, body, None);
        }
    }

    #[test]
    fn a_choice_that_ended_in_an_error_failed_and_names_no_status_to_repeat_for() {
        let body = r#"{"choices":[{"finish_reason":"error","error":{"code":502,"message":"M"}}]}"#;
        check(200, body, Some("finish_reason_error |  | M |  | "));
    }

    #[test]
    fn a_wait_that_is_no_number_of_seconds_is_no_wait() {
        for wait in ["-1", "\"soon\"", "\"-1s\"", "null", "true", "[]"] {
            let body = format!(r#"{{"code":"c","retry_after":{wait}}}"#);
            check(429, &body, Some("c |  |  |  | "));
        }
    }

    #[test]
    fn a_credential_is_cut_out_of_every_text_and_a_debug_form_has_no_sentence() {
        let body = br#"{"error":{"code":"bad:sk-canary","message":"key sk-canary is wrong"}}"#;
        let error = read(401, body, &["sk-canary", "", "abc"]).unwrap();
        assert_eq!(error.code.as_deref(), Some("bad:[credential]"));
        assert_eq!(error.message.as_deref(), Some("key [credential] is wrong"));
        let plain = read(500, b"no such key: sk-canary", &["sk-canary"]).unwrap();
        assert_eq!(plain.message.as_deref(), Some("no such key: [credential]"));
        assert!(!format!("{:?}", read(401, body, &[])).contains("wrong"));
    }

    proptest! {
        #[test]
        fn any_json_is_read_without_a_panic_and_bounded(
            body in "[\\[\\]{}:,\"a-e0-9 \\.-]{0,200}|\\{\"error[s]?\":[\\[{]?(\"[a-z]{0,9}\"[:,]){0,4}.{0,60}",
            status in 100u16..600,
        ) {
            if let Some(error) = read(status, body.as_bytes(), &["secret"]) {
                prop_assert!(error.message.is_none_or(|m| m.len() <= TEXT_BYTES_MAX));
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(body in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(429, &body, &[]);
        }
    }
}
