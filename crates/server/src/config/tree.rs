//! A configuration file as a tree that knows where each part was written.
//!
//! serde-saphyr reads YAML straight into types, but stops at the first mistake.
//! People who repair a configuration want all of them at once. So the file is
//! read into this tree first; [`super::decode`] then fills the types from it and
//! goes on after a mistake, and [`super::check`] walks beside them with a
//! [`Place`], so that a contradiction found late still names its line.

use std::fmt;

use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::Deserialize;
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
        return Err((Mark::default(), format!("the file is larger than {limit} KiB")));
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
        Ok(node) => Ok(node.unwrap_or(Node { mark: START, value: Value::Map(Vec::new()) })),
        Err(error) => {
            let mark = error.location().map_or(Mark::default(), |at| mark_of(&at));
            Err((mark, cause_of(&error)))
        }
    }
}

/// The beginning of a file.
const START: Mark = Mark { line: 1, column: 1 };

fn mark_of(at: &serde_saphyr::Location) -> Mark {
    let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    Mark { line: small(at.line()), column: small(at.column()) }
}

/// The library's sentence without its own place, which we print ourselves.
fn cause_of(error: &serde_saphyr::Error) -> String {
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
        Ok(Node { mark: mark_of(&spanned.referenced), value: spanned.value })
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
            entries.push(Entry { key: key.value, mark, node: map.next_value()? });
        }
        Ok(Value::Map(entries))
    }
}

/// A cursor that walks the tree beside the decoded options.
///
/// Where a key is absent the cursor stays at the nearest part that was written,
/// so that "`window` is missing" points at the quota which lacks it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'t> {
    node: Option<&'t Node>,
    mark: Mark,
}

impl<'t> Place<'t> {
    /// The whole file.
    pub(crate) fn root(node: &'t Node) -> Place<'t> {
        Place { node: Some(node), mark: START }
    }

    /// No file: presets and defaults have no place that a person could look at.
    pub(crate) fn nowhere() -> Place<'static> {
        Place { node: None, mark: Mark::default() }
    }

    /// The value of a key; the key itself where the value has parts.
    pub(crate) fn key(self, key: &str) -> Place<'t> {
        match self.entry(key) {
            Some(Entry { node, mark, .. }) => match node.value {
                Value::Map(_) | Value::Null => Place { node: Some(node), mark: *mark },
                _ => Place { node: Some(node), mark: node.mark },
            },
            None => Place { node: None, mark: self.mark },
        }
    }

    /// An item of a list.
    pub(crate) fn item(self, index: usize) -> Place<'t> {
        match self.node.map(|node| &node.value) {
            Some(Value::List(nodes)) if index < nodes.len() => {
                Place { node: Some(&nodes[index]), mark: nodes[index].mark }
            }
            _ => Place { node: None, mark: self.mark },
        }
    }

    /// The `index`-th item of a list that can be a map. Other items have been
    /// reported and are absent from the options, so they don't count.
    pub(crate) fn part(self, index: usize) -> Place<'t> {
        let nodes = match self.node.map(|node| &node.value) {
            Some(Value::List(nodes)) => nodes.as_slice(),
            _ => &[],
        };
        let mut parts = nodes.iter().filter(|node| matches!(node.value, Value::Map(_) | Value::Null));
        match parts.nth(index) {
            Some(node) => Place { node: Some(node), mark: node.mark },
            None => Place { node: None, mark: self.mark },
        }
    }

    /// Where it is.
    pub(crate) fn mark(self) -> Mark {
        self.mark
    }

    /// Whether a key was written, well or badly. A key that was written badly has
    /// been reported already and isn't missing.
    pub(crate) fn has(self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// The keys of a map, as written.
    pub(crate) fn keys(self) -> impl Iterator<Item = &'t str> {
        let entries = match self.node.map(|node| &node.value) {
            Some(Value::Map(entries)) => entries.as_slice(),
            _ => &[],
        };
        entries.iter().map(|entry| entry.key.as_str())
    }

    /// How many items a list has; 0 for anything else.
    pub(crate) fn items(self) -> usize {
        match self.node.map(|node| &node.value) {
            Some(Value::List(nodes)) => nodes.len(),
            _ => 0,
        }
    }

    /// The value, if it is text.
    pub(crate) fn text(self) -> Option<&'t str> {
        match self.node.map(|node| &node.value) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn entry(self, key: &str) -> Option<&'t Entry> {
        match self.node.map(|node| &node.value) {
            Some(Value::Map(entries)) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32, column: u32) -> Mark {
        Mark { line, column }
    }

    #[test]
    fn every_part_knows_its_line_and_column() {
        let text = "hold: 60s\nproviders:\n  a:\n    quotas:\n      - { limit: 0 }\n";
        let node = parse(text).unwrap();
        let root = Place::root(&node);
        assert_eq!(root.key("hold").mark(), at(1, 7));
        let provider = root.key("providers").key("a");
        assert_eq!(provider.mark(), at(3, 3));
        let quota = provider.key("quotas").item(0);
        assert_eq!(quota.mark(), at(5, 9));
        assert_eq!(quota.key("limit").mark(), at(5, 18));
        assert_eq!(quota.key("window").mark(), at(5, 9), "absent: the part that lacks it");
    }

    #[test]
    fn an_empty_file_is_an_empty_map() {
        for text in ["", "\n", "# nothing but words\n"] {
            assert_eq!(parse(text).unwrap().value, Value::Map(Vec::new()), "{text:?}");
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
