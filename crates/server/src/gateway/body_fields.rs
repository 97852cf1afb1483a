//! The values in a JSON body at the places that a provider's dialect names.
//!
//! What such a value means is the core's business; here it becomes text. Numbers
//! keep the form in which they were sent. Lists and objects are no values.
//!
//! Some endpoints wrap their answer in a list (Vertex AI, Salesforce). A path that
//! doesn't begin with a place in a list then starts at the first member, where the
//! error's own shape is looked for as well.
//!
//! Bounds: [`VALUES_MAX`] values, [`TEXT_BYTES_MAX`] bytes each.

use rategov_core::observe::dialect::{Dialect, fill_name};
use rategov_core::observe::{BodyValue, dialect::Place};
use serde_json::{Map, Value};

use super::body_path::{BodyPath, get};
use super::error_body::TEXT_BYTES_MAX;

/// Most values that are taken from one body.
const VALUES_MAX: usize = 128;

/// Whether a body can hold any of the dialect's values: a cheap look before a parse.
pub(super) fn may_hold(body: &[u8], dialect: &Dialect) -> bool {
    let mut before = None;
    dialect.body_fields().iter().any(|rule| {
        let name = BodyPath::first_name(rule.place.label());
        // Rules of one object stand together; it is looked for once.
        let is_another = before.replace(name) != Some(name);
        is_another && name.is_none_or(|name| holds(body, name.as_bytes()))
    })
}

/// Whether a body holds a word, whatever its case. Nearly every success is looked
/// through for every word and holds none, so most bytes must cost next to nothing:
/// only the places of the first letter are looked at.
fn holds(body: &[u8], word: &[u8]) -> bool {
    let Some(first) = word.first() else {
        return true;
    };
    let (lower, upper) = (first.to_ascii_lowercase(), first.to_ascii_uppercase());
    memchr::memchr2_iter(lower, upper, body).any(|at| {
        let there = body.get(at..at + word.len());
        there.is_some_and(|there| there.eq_ignore_ascii_case(word))
    })
}

/// The values of a body, in the order of the dialect's rules. Cost: rules × found.
pub(super) fn find(root: &Value, dialect: &Dialect) -> Vec<BodyValue> {
    let mut values = Vec::new();
    for (at, rule) in dialect.body_fields().iter().enumerate() {
        let Place::Body(path) = &rule.place else {
            continue;
        };
        let Some(path) = BodyPath::parse(path) else {
            continue;
        };
        let start = match root {
            Value::Array(members) if !path.starts_in_a_list() => members.first(),
            root => Some(root),
        };
        for (value, beside) in start.map(|start| path.find(start)).unwrap_or_default() {
            let Some(text) = text_of(value) else {
                continue;
            };
            let other = |name: &str| beside.and_then(|map| other(map, name));
            if values.len() == VALUES_MAX || !rule.applies(other) {
                continue;
            }
            values.push(BodyValue {
                rule: at,
                name: rule.name.as_deref().and_then(|name| fill_name(name, other)),
                text,
            });
        }
    }
    values
}

/// A text beside a value.
fn other<'v>(beside: &'v Map<String, Value>, name: &str) -> Option<&'v str> {
    get(beside, name)?.as_str()
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => {
            let end = text.floor_char_boundary(TEXT_BYTES_MAX);
            Some(text[..end].to_owned())
        }
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(sign) => Some(sign.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rategov_core::observe::dialect::{FieldRule, MessageClock, What};
    use serde_json::json;

    fn dialect(rules: Vec<FieldRule>) -> Dialect {
        Dialect::new(rules, MessageClock::Unknown).unwrap()
    }

    fn rule(path: &str, what: What) -> FieldRule {
        let dimension = if what.is_of_a_limit() { "points" } else { "" };
        FieldRule {
            dimension: dimension.to_owned(),
            ..FieldRule::new(Place::Body(path.to_owned()), what)
        }
    }

    #[test]
    fn each_value_is_found_with_its_rule_and_the_name_beside_it() {
        let limits = FieldRule {
            name: Some("{type}".to_owned()),
            ..rule("$.limits[*].left", What::Remaining)
        };
        let dialect = dialect(vec![limits, rule("$.cost", What::Cost)]);
        let body = json!({
            "cost": 2.5,
            "limits": [
                {"type": "request", "left": 9},
                {"left": 7},
                {"type": "complexity", "left": "8"},
                {"type": "odd", "left": [1]},
            ],
        });
        let found: Vec<String> = find(&body, &dialect)
            .into_iter()
            .map(|it| format!("{} {} {}", it.rule, it.name.unwrap_or_default(), it.text))
            .collect();
        assert_eq!(found, ["0 request 9", "0  7", "0 complexity 8", "1  2.5"]);
    }

    #[test]
    fn a_body_in_a_list_is_read_at_its_first_member() {
        let rules = vec![rule("$.error.cost", What::Cost), rule("$[*].n", What::Cost)];
        let body = json!([{"error": {"cost": 3}, "n": 1}, {"error": {"cost": 4}, "n": 2}]);
        let found = find(&body, &dialect(rules));
        let texts: Vec<&str> = found.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(texts, ["3", "1", "2"]);
        assert!(find(&json!([]), &dialect(vec![rule("$.error.cost", What::Cost)])).is_empty());
    }

    #[test]
    fn a_rule_with_a_condition_takes_only_what_stands_beside_it() {
        let of_day = FieldRule {
            beside: vec![("quotaId".to_owned(), "perday".to_owned())],
            ..rule("$.v[*].quotaValue", What::Limit)
        };
        let body = json!({"v": [
            {"quotaId": "RequestsPerDay", "quotaValue": "20"},
            {"quotaId": "RequestsPerMinute", "quotaValue": "5"},
            {"quotaValue": "7"},
        ]});
        let found = find(&body, &dialect(vec![of_day]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].text, "20");
    }

    #[test]
    fn a_body_without_the_first_name_is_not_parsed() {
        let dialect = dialect(vec![rule("$.extensions.cost", What::Cost)]);
        assert!(may_hold(br#"{"extensions":{}}"#, &dialect));
        assert!(!may_hold(br#"{"choices":[]}"#, &dialect));
        assert!(!may_hold(br#"{"extensions":{}}"#, &self::dialect(vec![])));
        let two = vec![
            rule("$.extensions.cost", What::Cost),
            rule("$.Cost", What::Cost),
        ];
        assert!(may_hold(br#"{"cost":1}"#, &self::dialect(two)));
    }

    proptest! {
        #[test]
        fn a_word_is_found_where_a_look_at_every_place_finds_it(
            body in "[aAbB\"]{0,30}",
            word in "[aAbB]{1,4}",
        ) {
            let (body, word) = (body.as_bytes(), word.as_bytes());
            let mut places = body.windows(word.len());
            let expected = places.any(|part| part.eq_ignore_ascii_case(word));
            prop_assert_eq!(holds(body, word), expected);
        }
    }
}
