//! Where values stand in a JSON body: `$.error.details[*].retryDelay`.
//!
//! ```text
//! path = "$" 1*step
//! step = "." name / "['" text "']" / "[" index "]" / "[*]"
//! name = 1*( ALPHA / DIGIT / "_" / "-" / "@" )
//! ```
//!
//! Unlike the path to an operation's id, one path may lead to many values: a
//! refusal may name several limits, and a batch has many members. Names are
//! compared whatever their case, because headers inside bodies have none.
//!
//! Worked: in `{"responses":[{"status":200},{"status":429}]}` the path
//! `$.responses[*].status` leads to 200 and 429, each with the object it is in.
//!
//! Bounds: `STEPS_MAX` steps, [`FOUND_MAX`] values; what is beyond is not read.

use serde_json::{Map, Value};

/// Most steps of a path.
const STEPS_MAX: usize = 16;
/// Most values that one path leads to.
pub const FOUND_MAX: usize = 64;

/// A path, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyPath<'p> {
    steps: Vec<Step<'p>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step<'p> {
    Name(&'p str),
    Index(usize),
    Each,
}

/// A value, and the object in which it stands.
pub type Found<'v> = (&'v Value, Option<&'v Map<String, Value>>);

impl<'p> BodyPath<'p> {
    /// Reads the grammar above; `None` for anything else. Cost: one pass.
    pub fn parse(text: &'p str) -> Option<BodyPath<'p>> {
        let mut rest = text.strip_prefix('$')?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = step(rest)?;
            steps.push(step);
            rest = after;
        }
        (1..=STEPS_MAX)
            .contains(&steps.len())
            .then_some(BodyPath { steps })
    }

    /// The first name on the way of a path: a body that doesn't hold it holds no value.
    /// Reads no further than that; `None` if there is none so far.
    pub fn first_name(text: &'p str) -> Option<&'p str> {
        let mut rest = text.strip_prefix('$')?;
        loop {
            match step(rest)? {
                (Step::Name(name), _) => return Some(name),
                (Step::Index(_) | Step::Each, after) => rest = after,
            }
        }
    }

    /// Whether the body itself is to be a list.
    pub fn starts_in_a_list(&self) -> bool {
        matches!(self.steps.first(), Some(Step::Index(_) | Step::Each))
    }

    /// The values it leads to, in the order of the body, without null.
    pub fn find<'v>(&self, root: &'v Value) -> Vec<Found<'v>> {
        let mut at: Vec<Found<'v>> = vec![(root, None)];
        for step in &self.steps {
            let next = at.into_iter().flat_map(|(value, _)| step.from(value));
            at = next.take(FOUND_MAX).collect();
        }
        at.retain(|(value, _)| !value.is_null());
        at
    }
}

impl Step<'_> {
    fn from<'v>(&self, value: &'v Value) -> Vec<Found<'v>> {
        match (self, value) {
            (Step::Name(name), Value::Object(map)) => {
                let found = get(map, name).map(|value| (value, Some(map)));
                found.into_iter().collect()
            }
            (Step::Index(index), Value::Array(items)) => {
                let item = items.get(*index).map(|item| (item, None));
                item.into_iter().collect()
            }
            (Step::Each, Value::Array(items)) => {
                let items = items.iter().take(FOUND_MAX);
                items.map(|item| (item, None)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The value of a key, of the same case where there is one, else of any.
pub fn get<'v>(map: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    map.get(name).or_else(|| {
        let mut entries = map.iter();
        let entry = entries.find(|(key, _)| key.eq_ignore_ascii_case(name));
        entry.map(|(_, value)| value)
    })
}

fn step(text: &str) -> Option<(Step<'_>, &str)> {
    if let Some(rest) = text.strip_prefix("[*]") {
        return Some((Step::Each, rest));
    }
    if let Some(rest) = text.strip_prefix("['") {
        let (name, rest) = rest.split_once("']")?;
        return (!name.is_empty()).then_some((Step::Name(name), rest));
    }
    if let Some(rest) = text.strip_prefix('[') {
        let (index, rest) = rest.split_once(']')?;
        let plain = !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit());
        return plain.then_some((Step::Index(index.parse().ok()?), rest));
    }
    let rest = text.strip_prefix('.')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-@".contains(c);
    let end = rest.find(|c| !plain(c)).unwrap_or(rest.len());
    (0 < end).then(|| (Step::Name(&rest[..end]), &rest[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(path: &str, body: &str, expected: &[&str]) {
        let root = serde_json::from_str(body).unwrap();
        let path = BodyPath::parse(path).unwrap();
        let found = path.find(&root);
        let found: Vec<String> = found.iter().map(|(value, _)| value.to_string()).collect();
        assert_eq!(found, expected, "{path:?} in {body}");
    }

    #[test]
    fn a_path_leads_to_one_value_or_to_many() {
        check("$.a.b-c", r#"{"a":{"b-c":7}}"#, &["7"]);
        check("$.a[1]", r#"{"a":[1,2]}"#, &["2"]);
        check(
            "$[*].code",
            r#"[{"code":1},{},{"code":null},{"code":3}]"#,
            &["1", "3"],
        );
        check(
            "$.d[*].v[*].id",
            r#"{"d":[{"v":[{"id":1},{"id":2}]},{"x":0},{"v":[{"id":3}]}]}"#,
            &["1", "2", "3"],
        );
        check("$['odd name']", r#"{"odd name":true}"#, &["true"]);
        check("$.a.b", r#"{"a":[{"b":1}]}"#, &[]);
    }

    #[test]
    fn a_header_inside_a_body_is_found_whatever_its_case() {
        let body = r#"{"responses":[{"headers":{"retry-after":"13"}}]}"#;
        check("$.responses[*].headers.Retry-After", body, &["\"13\""]);
    }

    #[test]
    fn a_value_comes_with_the_object_it_is_in() {
        let root = serde_json::from_str(r#"{"v":[{"id":"PerDay","value":"20"}]}"#).unwrap();
        let path = BodyPath::parse("$.v[*].value").unwrap();
        let (value, beside) = path.find(&root)[0];
        assert_eq!(
            (value.as_str(), beside.unwrap()["id"].as_str()),
            (Some("20"), Some("PerDay"))
        );
    }

    #[test]
    fn the_first_name_of_a_path_is_found_behind_places_in_lists() {
        let of = |path| BodyPath::first_name(path);
        assert_eq!(of("$.error.details[*].retryDelay"), Some("error"));
        assert_eq!(of("$[*][0]['odd name'].code"), Some("odd name"));
        for path in ["$", "$[*]", "error", "$[x].error"] {
            assert_eq!(of(path), None, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in [
            "", "$", "a", "$a", "$.", "$.a..b", "$[x]", "$['']", "$.a[", "$[-1]",
        ] {
            assert_eq!(BodyPath::parse(text), None, "{text}");
        }
        assert_eq!(
            BodyPath::parse(&format!("${}", ".a".repeat(STEPS_MAX + 1))),
            None
        );
    }

    #[test]
    fn many_values_are_read_in_part() {
        let many = format!("[{}]", vec!["[1,2,3,4,5,6,7,8,9]"; 40].join(","));
        let root = serde_json::from_str(&many).unwrap();
        assert_eq!(
            BodyPath::parse("$[*][*]").unwrap().find(&root).len(),
            FOUND_MAX
        );
    }

    proptest! {
        #[test]
        fn any_text_is_a_path_or_none(text in "\\$?[\\.\\[\\]'*a-c0-2]{0,20}", body in "[\\[\\]{}\":,a-c0-2]{0,30}") {
            if let (Some(path), Ok(root)) = (BodyPath::parse(&text), serde_json::from_str(&body)) {
                prop_assert!(path.find(&root).len() <= FOUND_MAX);
            }
        }
    }
}
