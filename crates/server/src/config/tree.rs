//! A configuration file as a tree that knows where each part was written.
//!
//! serde-saphyr reads YAML straight into types, but stops at the first mistake.
//! People who repair a configuration want all of them at once. So the file is
//! read into this tree first; [`super::decode`] then fills the types from it and
//! goes on after a mistake, and [`super::check`] walks beside them with a
//! [`Place`](super::place::Place), so that a contradiction found late still names its line.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Spanned};

use super::mistake::Mark;

/// Largest file that is read.
pub(crate) const FILE_BYTES_MAX: usize = 1 << 20;

/// Deepest nesting; the deepest that a configuration needs is eight.
const DEPTH_MAX: usize = 32;

/// Most parts of one file, aliases written out.
const NODES_MAX: usize = 100_000;

/// One value and where it stands.
#[derive(Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) mark: Mark,
    pub(crate) value: Value,
}

/// What a value is.
#[derive(Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Whole(u64),
    Negative(i64),
    Fraction(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One key of a map, where it stands, and its value.
#[derive(Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) mark: Mark,
    pub(crate) node: Node,
}

impl Value {
    /// What a person would call it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Whole(_) | Value::Negative(_) | Value::Fraction(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
}

/// Reads YAML. An empty file is an empty map: no configuration is a configuration.
///
/// # Errors
/// The first syntax error: its place, and its cause without any of the text.
pub(crate) fn parse(text: &str) -> Result<Node, (Mark, String)> {
    if text.len() > FILE_BYTES_MAX {
        let limit = FILE_BYTES_MAX / 1024;
        return Err((
            Mark::default(),
            format!("the file is larger than {limit} KiB"),
        ));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            max_nodes: NODES_MAX,
            max_events: 4 * NODES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: NODES_MAX,
        },
        // Repeats are mistakes, but not the last one that we want to find.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        strict_booleans: true,
        with_snippet: false,
    };
    match serde_saphyr::from_str_with_options::<Option<Node>>(text, options) {
        Ok(node) => Ok(node.unwrap_or(Node {
            mark: START,
            value: Value::Map(Vec::new()),
        })),
        Err(error) => {
            let mark = error
                .location()
                .map_or_else(Mark::default, |at| mark_of(&at));
            Err((mark, cause_of(&error)))
        }
    }
}

/// The beginning of a file.
pub(crate) const START: Mark = Mark { line: 1, column: 1 };

fn mark_of(at: &serde_saphyr::Location) -> Mark {
    let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    Mark {
        line: small(at.line()),
        column: small(at.column()),
    }
}

/// The library's sentence without its own place, which we print ourselves.
fn cause_of(error: &serde_saphyr::Error) -> String {
    if matches!(
        error.without_snippet(),
        serde_saphyr::Error::MultipleDocuments { .. }
    ) {
        return "a configuration is one YAML document\nhint: leave out what follows `---`"
            .to_owned();
    }
    let text = error.without_snippet().render();
    let first = text.lines().next().unwrap_or("not valid YAML");
    let cause = match first.rfind(" at line ") {
        Some(end) => &first[..end],
        None => first,
    };
    super::units::shown(cause.trim_start_matches("error: ")).into_owned()
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Node {
            mark: mark_of(&spanned.referenced),
            value: spanned.value,
        })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Whole(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(u64::try_from(value).map_or(Value::Negative(value), Value::Whole))
    }
    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        Ok(Value::Fraction(value as f64))
    }
    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Fraction(value as f64))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Fraction(value))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }
    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = seq.next_element()? {
            nodes.push(node);
        }
        Ok(Value::List(nodes))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let mark = mark_of(&key.referenced);
            if key.value.len() > super::KEY_BYTES_MAX {
                return Err(A::Error::custom("a key is too long"));
            }
            entries.push(Entry {
                key: key.value,
                mark,
                node: map.next_value()?,
            });
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_is_an_empty_map() {
        for text in ["", "\n", "# nothing but words\n"] {
            assert_eq!(
                parse(text).unwrap().value,
                Value::Map(Vec::new()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn bombs_end_in_an_error() {
        let deep = "[".repeat(10_000);
        assert!(parse(&deep).is_err());
        let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for n in 1..9 {
            let items = vec![format!("*a{}", n - 1); 10].join(", ");
            laughs.push_str(&format!("a{n}: &a{n} [{items}]\n"));
        }
        assert!(parse(&laughs).is_err());
        assert!(parse(&"x".repeat(FILE_BYTES_MAX + 1)).is_err());
    }
}
