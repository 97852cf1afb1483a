//! What a body says: the error in it, with code, type, sentence and wait, and the
//! values at the places that the provider's dialect names. The shapes of errors
//! are those of `error_shapes`.
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

use rategov_core::observe::{BodyValue, Dialect, ErrorBody};
use rategov_core::time::Span;
use serde_json::Value;

use super::body_fields;
use super::error_shapes::{holds_error, of_error, string};

/// Longest body that is read, in bytes: a batch of twenty mails is one answer, and a
/// refused member stands anywhere in it.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// Longest text that is kept, in bytes.
pub const TEXT_BYTES_MAX: usize = 4096;
/// Shorter credentials are not looked for: they would cut words to pieces, and
/// nobody can be protected who uses them.
pub(super) const SECRET_BYTES_MIN: usize = 4;

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
            clean(text, hidden);
        }
        self
    }
}

/// Cuts out what must not be shown and bounds what is left.
pub(super) fn clean(text: &mut String, hidden: &[&str]) {
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

/// Where to look, and what must never be shown.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    /// The places where the provider keeps what.
    pub dialect: &'a Dialect,
    /// Credentials of the call, cut out of every text.
    pub hidden: &'a [&'a str],
}

/// What a body or an event said.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// The error, if it is one.
    pub error: Option<ErrorText>,
    /// The values at the dialect's places.
    pub values: Vec<BodyValue>,
}

/// Without the values, of which one may be a sentence.
impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Said")
            .field("error", &self.error)
            .field("values", &self.values.len())
            .finish()
    }
}

impl Said {
    fn of(error: Option<ErrorText>, root: Option<&Value>, look: Look<'_>) -> Said {
        let mut values = root.map_or_else(Vec::new, |root| body_fields::find(root, look.dialect));
        for value in &mut values {
            clean(&mut value.text, look.hidden);
            if let Some(name) = &mut value.name {
                clean(name, look.hidden);
            }
        }
        Said {
            error: error.map(|error| error.cleaned(look.hidden)),
            values,
        }
    }
}

/// Reads the complete, decoded body of an answer. Cost: one parse, if it can say
/// anything at all.
pub fn read(status: u16, body: &[u8], look: Look<'_>) -> Said {
    let is_error = status >= 400;
    let may_say = is_error || mentions_error(body) || body_fields::may_hold(body, look.dialect);
    if body.len() > BODY_BYTES_MAX || !may_say {
        return Said::default();
    }
    let root = serde_json::from_slice(body).ok();
    let error = match &root {
        Some(root) if is_error => of_error(root),
        Some(root) => of_success(root),
        None if is_error => plain_text(body),
        None => None,
    };
    Said::of(error.filter(ErrorText::says_something), root.as_ref(), look)
}

/// Reads one event of a stream, its name and its data, as [`read`] does. An
/// event is an error by its name, its type, or an error object in it.
pub(super) fn of_event(name: &str, data: &str, look: Look<'_>) -> Option<Said> {
    let value: Value = match serde_json::from_str(data) {
        Ok(value) => value,
        Err(_) if name == "error" => {
            let error = plain_text(data.as_bytes()).unwrap_or_default();
            return Some(Said::of(Some(error), None, look));
        }
        Err(_) => return None,
    };
    let is_error = name == "error" || value["type"] == "error" || holds_error(&value);
    is_error.then(|| {
        let error = of_error(&value).unwrap_or_default();
        Said::of(Some(error), Some(&value), look)
    })
}

/// A cheap look before a parse: most successes do not hold the word as a name
/// or value.
fn mentions_error(body: &[u8]) -> bool {
    memchr::memmem::find(body, b"\"error").is_some()
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
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

    fn look<'a>(dialect: &'a Dialect, hidden: &'a [&'a str]) -> Look<'a> {
        Look { dialect, hidden }
    }

    fn said(status: u16, body: &[u8], hidden: &[&str]) -> Option<ErrorText> {
        read(status, body, look(&tables::generic(), hidden)).error
    }

    #[track_caller]
    fn check(status: u16, body: &str, expected: Option<&str>) {
        let got = said(status, body.as_bytes(), &[]).as_ref().map(line);
        assert_eq!(got.as_deref(), expected, "{status} {body}");
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
    fn a_credential_is_cut_out_of_every_text_and_a_debug_form_has_no_sentence() {
        let body = br#"{"error":{"code":"bad:sk-canary","message":"key sk-canary is wrong"}}"#;
        let error = said(401, body, &["sk-canary", "", "abc"]).unwrap();
        assert_eq!(error.code.as_deref(), Some("bad:[credential]"));
        assert_eq!(error.message.as_deref(), Some("key [credential] is wrong"));
        let plain = said(500, b"no such key: sk-canary", &["sk-canary"]).unwrap();
        assert_eq!(plain.message.as_deref(), Some("no such key: [credential]"));
        assert!(!format!("{:?}", said(401, body, &[])).contains("wrong"));
        let in_a_value = br#"{"error":{"details":[{"retryDelay":"sk-canary"}]}}"#;
        let dialect = tables::generic();
        let values = read(429, in_a_value, look(&dialect, &["sk-canary"])).values;
        assert_eq!(values[0].text, "[credential]");
    }

    proptest! {
        #[test]
        fn any_json_is_read_without_a_panic_and_bounded(
            body in "[\\[\\]{}:,\"a-e0-9 \\.-]{0,200}|\\{\"error[s]?\":[\\[{]?(\"[a-z]{0,9}\"[:,]){0,4}.{0,60}",
            status in 100u16..600,
        ) {
            if let Some(error) = said(status, body.as_bytes(), &["secret"]) {
                prop_assert!(error.message.is_none_or(|m| m.len() <= TEXT_BYTES_MAX));
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(body in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = said(429, &body, &[]);
        }
    }
}
