//! How to ask a provider what became of a write: the request, and where its
//! answer shows the operation.
//!
//! The request is a template: `GET /records?key={idempotency_key}`. What is put
//! in is percent-encoded as far as RFC 3986 allows nothing else, so a key that
//! holds `&` or `/` stays one value and can't turn the look-up into another call.
//! Values that come from the original call's path are put in as they were sent.

use std::fmt::Write as _;

use super::json_path::JsonPath;

/// Most bytes of a look-up's path and query with its values put in.
const TARGET_BYTES_MAX: usize = 8 * 1024;

/// A configured look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReconcilePlan {
    request: RequestTemplate,
    /// Where the answer names the operation; see [`JsonPath::shows_absence`] for what
    /// "not found" takes.
    pub found: JsonPath,
}

/// The request of a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTemplate {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Value(Value),
}

/// What a look-up may put into its request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// The key of the action.
    IdempotencyKey,
    /// The provider's own name of the operation, from an earlier answer.
    OperationId,
    /// The caller's name of it, from the request.
    ExternalRef,
    /// A name of the endpoint's own template.
    Parameter(String),
}

impl Value {
    /// The word between the braces.
    pub fn word(&self) -> &str {
        match self {
            Value::IdempotencyKey => "idempotency_key",
            Value::OperationId => "operation_id",
            Value::ExternalRef => "external_ref",
            Value::Parameter(name) => name,
        }
    }
}

/// What is known of the action that is looked up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'k> {
    /// Its key.
    pub idempotency_key: Option<&'k str>,
    /// The provider's name of it.
    pub operation_id: Option<&'k str>,
    /// The caller's name of it.
    pub external_ref: Option<&'k str>,
    /// The values of its endpoint's names, as they were sent.
    pub parameters: &'k [(String, String)],
}

/// A value that the look-up needs and nobody knows: it can't be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The value isn't known.
    #[error("the look-up needs `{{{0}}}`, which is not known of this action")]
    Unknown(String),
    /// The request would be too long.
    #[error("the look-up's request would be longer than 8 KiB")]
    TooLong,
}

impl RequestTemplate {
    /// Reads `GET /path?key={idempotency_key}`. `parameters` are the names that the
    /// endpoint's own template binds.
    ///
    /// # Errors
    /// The cause, and a hint on a line of its own.
    pub fn parse(text: &str, parameters: &[&str]) -> Result<RequestTemplate, String> {
        let form = "write `GET /path?key={idempotency_key}`";
        let target = match text.split_once(' ') {
            Some(("GET", target)) => target.trim(),
            Some(_) => {
                return Err(format!(
                    "a look-up is a GET: it must be safe to repeat\nhint: {form}"
                ));
            }
            None => return Err(format!("a look-up needs a method and a path\nhint: {form}")),
        };
        if !target.starts_with('/') || target.contains('#') {
            return Err(format!(
                "a look-up's path begins with `/` and has no fragment\nhint: {form}"
            ));
        }
        if target.len() > 2048 || target.contains(|c: char| !c.is_ascii_graphic() || c == '\\') {
            return Err(
                "a look-up's path is printable ASCII without spaces, at most 2 KiB".to_owned(),
            );
        }
        let path = target.split('?').next().unwrap_or(target);
        if path.split('/').any(|segment| matches!(segment, "." | "..")) {
            return Err("a look-up's path can't hold `.` or `..`".to_owned());
        }
        let mut parts = Vec::new();
        let mut rest = target;
        while let Some((before, after)) = rest.split_once('{') {
            let (word, after) = after.split_once('}').ok_or("a `{` without its `}`")?;
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::Value(value(word, parameters)?));
            rest = after;
        }
        if rest.contains('}') {
            return Err("a `}` without its `{`".to_owned());
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(RequestTemplate {
            text: format!("GET {target}"),
            parts,
        })
    }

    /// The template as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What it puts in.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.parts.iter().filter_map(|part| match part {
            Part::Value(value) => Some(value),
            Part::Text(_) => None,
        })
    }
}

fn value(word: &str, parameters: &[&str]) -> Result<Value, String> {
    match word {
        "idempotency_key" => Ok(Value::IdempotencyKey),
        "operation_id" => Ok(Value::OperationId),
        "external_ref" => Ok(Value::ExternalRef),
        name if parameters.contains(&name) => Ok(Value::Parameter(name.to_owned())),
        name => {
            let known = ["idempotency_key", "operation_id", "external_ref"];
            let all: Vec<&str> = known.iter().chain(parameters).copied().collect();
            let hint = crate::config::mistake::meant(name, all.iter().copied()).unwrap_or_default();
            Err(format!(
                "`{{{}}}` is nothing a look-up knows\nhint: {hint}",
                crate::config::units::shown(name)
            ))
        }
    }
}

impl ReconcilePlan {
    /// Joins a request and the place of its result.
    pub fn new(request: RequestTemplate, found: JsonPath) -> ReconcilePlan {
        ReconcilePlan { request, found }
    }

    /// The request as it was configured: `GET /records?key={idempotency_key}`.
    pub fn template(&self) -> &str {
        self.request.as_str()
    }

    /// Path and query of the look-up (a GET), to be appended to the provider's base.
    ///
    /// # Errors
    /// If a value it needs isn't known, or the request would be too long.
    pub fn target(&self, known: &Known<'_>) -> Result<String, LookupError> {
        let mut target = String::new();
        for part in &self.request.parts {
            let value = match part {
                Part::Text(text) => {
                    target.push_str(text);
                    continue;
                }
                Part::Value(value) => value,
            };
            match value {
                Value::IdempotencyKey => encode(known.idempotency_key, &mut target),
                Value::OperationId => encode(known.operation_id, &mut target),
                Value::ExternalRef => encode(known.external_ref, &mut target),
                Value::Parameter(name) => {
                    parameter(known.parameters, name).map(|v| target.push_str(v))
                }
            }
            .ok_or_else(|| LookupError::Unknown(value.word().to_owned()))?;
            if target.len() > TARGET_BYTES_MAX {
                return Err(LookupError::TooLong);
            }
        }
        Ok(target)
    }
}

fn parameter<'k>(parameters: &'k [(String, String)], name: &str) -> Option<&'k str> {
    parameters
        .iter()
        .find(|(own, _)| own == name)
        .map(|(_, value)| value.as_str())
}

/// Appends a value with everything but RFC 3986's unreserved characters encoded.
/// An empty value, `.` and `..` name nothing and are as good as unknown.
fn encode(value: Option<&str>, out: &mut String) -> Option<()> {
    let value = value.filter(|value| !matches!(*value, "" | "." | ".."))?;
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte))
            }
            _ => write!(out, "%{byte:02X}").ok()?,
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan(request: &str, parameters: &[&str]) -> ReconcilePlan {
        let found = JsonPath::parse("$.items[0].id").unwrap();
        ReconcilePlan::new(RequestTemplate::parse(request, parameters).unwrap(), found)
    }

    #[test]
    fn a_value_stays_one_value() {
        let plan = plan("GET /records?key={idempotency_key}&limit=1", &[]);
        let known = Known {
            idempotency_key: Some("a&b=c/../d é"),
            ..Known::default()
        };
        assert_eq!(
            plan.target(&known).unwrap(),
            "/records?key=a%26b%3Dc%2F..%2Fd%20%C3%A9&limit=1"
        );
    }

    #[test]
    fn a_look_up_may_use_the_path_of_the_call_itself() {
        let plan = plan("GET /teams/{team}/records/{operation_id}", &["team"]);
        let parameters = [("team".to_owned(), "a%2Fb".to_owned())];
        let known = Known {
            operation_id: Some("r 1"),
            parameters: &parameters,
            ..Known::default()
        };
        assert_eq!(plan.target(&known).unwrap(), "/teams/a%2Fb/records/r%201");
    }

    #[test]
    fn a_look_up_without_its_value_cannot_be_asked() {
        let plan = plan("GET /records/{operation_id}", &[]);
        for operation_id in [None, Some(""), Some("..")] {
            let known = Known {
                operation_id,
                ..Known::default()
            };
            assert_eq!(
                plan.target(&known),
                Err(LookupError::Unknown("operation_id".to_owned()))
            );
        }
    }

    #[test]
    fn only_a_safe_request_is_a_look_up() {
        for text in [
            "",
            "/records",
            "POST /records",
            "GET records",
            "GET /a#b",
            "GET /a/../b",
            "GET /{key}",
            "GET /{",
            "GET /}",
            "GET /a b",
            "GET http://other/",
        ] {
            assert!(RequestTemplate::parse(text, &[]).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_value_leaves_its_place(key in "\\PC{1,40}") {
            let plan = plan("GET /r/{idempotency_key}?x=1", &[]);
            if let Ok(target) = plan.target(&Known { idempotency_key: Some(&key), ..Known::default() }) {
                prop_assert_eq!(target.matches('/').count(), 2);
                prop_assert_eq!(target.matches('?').count(), 1);
                prop_assert!(target.bytes().all(|b| b.is_ascii_graphic()));
            }
        }
    }
}
