//! Where a value stands in a JSON text: `$.items[0].id`.
//!
//! ```text
//! path = "$" *( "." name / "[" index "]" / "['" text "']" )
//! name = 1*( ALPHA / DIGIT / "_" / "-" )
//! ```
//!
//! A small part of RFC 9535: one path leads to at most one value, and no step
//! costs more than a look-up. Filters, wildcards and descent are left out because
//! "the" id of a record must not depend on what else an answer happens to hold.

use std::fmt;

use serde_json::Value;

/// Most steps of a path.
const STEPS_MAX: usize = 16;

/// A path, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Name(String),
    Index(usize),
}

impl JsonPath {
    /// Reads the grammar above.
    ///
    /// # Errors
    /// The cause, and a hint on a line of its own.
    pub fn parse(text: &str) -> Result<JsonPath, String> {
        let wrong = || {
            "not a path into a JSON text\nhint: write `$.id`, `$.items[0].id` or `$['odd name']`"
                .to_owned()
        };
        let mut rest = text.strip_prefix('$').ok_or_else(wrong)?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = step(rest).ok_or_else(wrong)?;
            steps.push(step);
            rest = after;
            if steps.len() > STEPS_MAX {
                return Err(format!("a path has at most {STEPS_MAX} steps"));
            }
        }
        Ok(JsonPath { steps })
    }

    /// The value it leads to; `None` if a step leads nowhere. `null` is a value.
    pub fn find<'v>(&self, root: &'v Value) -> Option<&'v Value> {
        self.steps.iter().try_fold(root, |value, step| match step {
            Step::Name(name) => value.get(name),
            Step::Index(index) => value.get(index),
        })
    }

    /// The value it leads to as an identifier: text or a whole number, at most 512
    /// bytes, not empty. What else stands there identifies nothing.
    pub fn find_id(&self, root: &Value) -> Option<String> {
        const ID_BYTES_MAX: usize = 512;
        let id = match self.find(root)? {
            Value::String(text) => text.clone(),
            Value::Number(number) if !number.is_f64() => number.to_string(),
            _ => return None,
        };
        (!id.is_empty() && id.len() <= ID_BYTES_MAX).then_some(id)
    }
}

impl JsonPath {
    /// The object that holds the value: `$.items[0]` of `$.items[0].id`.
    pub fn object_of<'v>(&self, root: &'v Value) -> Option<&'v Value> {
        let (_, way) = self.steps.split_last()?;
        let object = way.iter().try_fold(root, |value, step| match step {
            Step::Name(name) => value.get(name),
            Step::Index(index) => value.get(index),
        });
        object.filter(|object| object.is_object())
    }

    /// Whether the value stands in a list: then an answer without the list says
    /// nothing about what is in it.
    pub fn is_in_a_list(&self) -> bool {
        let is_index = |step: &Step| matches!(step, Step::Index(_));
        self.steps.iter().any(is_index)
    }

    /// Whether an answer shows that there is no such thing: the list in which it
    /// would stand is there, and too short. An answer of any other shape shows
    /// nothing, least of all absence: it may be an error, or another version.
    ///
    /// Example: `{"items": []}` shows it for `$.items[0].id`; `{}` does not.
    pub fn shows_absence(&self, root: &Value) -> bool {
        let mut value = root;
        for step in &self.steps {
            match step {
                Step::Name(name) => match value.get(name) {
                    Some(next) => value = next,
                    None => return false,
                },
                Step::Index(index) => match value.as_array() {
                    Some(list) if list.len() <= *index => return true,
                    Some(list) => value = &list[*index],
                    None => return false,
                },
            }
        }
        false
    }
}

/// Splits the first step off.
fn step(text: &str) -> Option<(Step, &str)> {
    if let Some(text) = text.strip_prefix('.') {
        let end = text
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
            .unwrap_or(text.len());
        return (end > 0).then(|| (Step::Name(text[..end].to_owned()), &text[end..]));
    }
    if let Some(text) = text.strip_prefix("['") {
        let (name, rest) = text.split_once("']")?;
        return Some((Step::Name(name.to_owned()), rest));
    }
    let (digits, rest) = text.strip_prefix('[')?.split_once(']')?;
    let plain =
        !digits.is_empty() && digits.len() <= 6 && digits.bytes().all(|b| b.is_ascii_digit());
    Some((Step::Index(plain.then(|| digits.parse().ok())??), rest))
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("$")?;
        self.steps.iter().try_for_each(|step| match step {
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Name(name)
                if name
                    .contains(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
                    || name.is_empty() =>
            {
                write!(f, "['{name}']")
            }
            Step::Name(name) => write!(f, ".{name}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn only_an_empty_list_shows_absence() {
        let path = JsonPath::parse("$.items[0].id").unwrap();
        for (answer, absent) in [
            (json!({ "items": [] }), true),
            (json!({ "items": [{ "id": "r" }] }), false),
            (json!({ "items": [{}] }), false),
            (json!({}), false),
            (json!({ "error": "busy" }), false),
            (json!({ "items": null }), false),
        ] {
            assert_eq!(path.shows_absence(&answer), absent, "{answer}");
        }
        assert!(!JsonPath::parse("$.id").unwrap().shows_absence(&json!({})));
    }

    #[test]
    fn a_path_leads_to_one_value_or_nowhere() {
        let answer = json!({ "items": [{ "id": "r_893" }], "n": 7, "odd name": true, "nil": null });
        let id = |path: &str| JsonPath::parse(path).unwrap().find_id(&answer);
        assert_eq!(id("$.items[0].id").as_deref(), Some("r_893"));
        assert_eq!(id("$.n").as_deref(), Some("7"));
        assert_eq!(id("$.items[1].id"), None);
        assert_eq!(id("$.items.id"), None);
        assert_eq!(id("$['odd name']"), None, "true identifies nothing");
        assert_eq!(
            JsonPath::parse("$.nil").unwrap().find(&answer),
            Some(&Value::Null)
        );
        assert_eq!(JsonPath::parse("$").unwrap().find(&answer), Some(&answer));
    }

    #[test]
    fn what_could_lead_to_many_values_is_refused() {
        for text in [
            "", "id", "$.", "$..id", "$.*", "$[*]", "$[-1]", "$[?@.a]", "$.a[", "$ .a", "$[1e9]",
        ] {
            assert!(JsonPath::parse(text).is_err(), "{text}");
        }
        assert!(JsonPath::parse(&format!("${}", ".a".repeat(17))).is_err());
    }

    proptest! {
        #[test]
        fn a_path_reads_back_what_it_writes(text in "\\$(\\.[a-z_-]{1,5}|\\[[0-9]{1,3}\\]|\\['[a-z .]{0,5}'\\]){0,6}") {
            let path = JsonPath::parse(&text).unwrap();
            prop_assert_eq!(JsonPath::parse(&path.to_string()), Ok(path));
        }

        #[test]
        fn no_text_makes_a_path_panic(text in ".{0,60}") {
            let _ = JsonPath::parse(&text);
        }
    }
}
