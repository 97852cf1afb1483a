//! Where a part of the configuration was written.

use super::mistake::Mark;
use super::tree::{Entry, Node, START, Value};

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
        Place {
            node: Some(node),
            mark: START,
        }
    }

    /// No file: presets and defaults have no place that a person could look at.
    pub(crate) fn nowhere() -> Place<'static> {
        Place {
            node: None,
            mark: Mark::default(),
        }
    }

    /// The value of a key; the key itself where the value has parts.
    pub(crate) fn key(self, key: &str) -> Place<'t> {
        match self.entry(key) {
            Some(Entry { node, mark, .. }) => match node.value {
                Value::Map(_) | Value::Null => Place {
                    node: Some(node),
                    mark: *mark,
                },
                _ => Place {
                    node: Some(node),
                    mark: node.mark,
                },
            },
            None => Place {
                node: None,
                mark: self.mark,
            },
        }
    }

    /// An item of a list.
    pub(crate) fn item(self, index: usize) -> Place<'t> {
        match self.node.map(|node| &node.value) {
            Some(Value::List(nodes)) if index < nodes.len() => Place {
                node: Some(&nodes[index]),
                mark: nodes[index].mark,
            },
            _ => Place {
                node: None,
                mark: self.mark,
            },
        }
    }

    /// The `index`-th item of a list that can be a map. Other items have been
    /// reported and are absent from the options, so they don't count.
    pub(crate) fn part(self, index: usize) -> Place<'t> {
        let nodes = match self.node.map(|node| &node.value) {
            Some(Value::List(nodes)) => nodes.as_slice(),
            _ => &[],
        };
        let mut parts = nodes
            .iter()
            .filter(|node| matches!(node.value, Value::Map(_) | Value::Null));
        match parts.nth(index) {
            Some(node) => Place {
                node: Some(node),
                mark: node.mark,
            },
            None => Place {
                node: None,
                mark: self.mark,
            },
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
    use crate::config::tree::parse;

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
        assert_eq!(
            quota.key("window").mark(),
            at(5, 9),
            "absent: the part that lacks it"
        );
    }
}
