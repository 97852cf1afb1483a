//! Which values of a JSON text mean something: `$.choices[*].delta.content`.
//!
//! ```text
//! place = "$" 1*( "." name / "[*]" )
//! name  = 1*( ALPHA / DIGIT / "_" / "-" )
//! ```
//!
//! Unlike the path of `route::json_path`, which leads to one value, a place may be
//! in every element of a list: what is metered there is added up or compared.
//! Places are data of a preset. They are kept as a tree, so that reading a text
//! compares each name with those that can stand there, and with no others.

use std::fmt;

/// Most steps of a place; so deep a reader follows a text.
pub const STEPS_MAX: usize = 16;
/// Most places that are looked for at once.
pub const PLACES_MAX: usize = 512;

/// A place, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Name(String),
    Each,
}

impl Place {
    /// Reads the grammar above.
    ///
    /// # Errors
    /// The cause, and a hint on a line of its own.
    pub fn parse(text: &str) -> Result<Place, String> {
        let wrong = || {
            "not a place in a JSON text\nhint: write `$.usage.output_tokens` or `$.choices[*].text`"
                .to_owned()
        };
        let mut rest = text.strip_prefix('$').ok_or_else(wrong)?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            rest = if let Some(after) = rest.strip_prefix("[*]") {
                steps.push(Step::Each);
                after
            } else {
                let named = rest.strip_prefix('.').ok_or_else(wrong)?;
                let end = named
                    .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
                    .unwrap_or(named.len());
                if !is_name(&named[..end]) {
                    return Err(wrong());
                }
                steps.push(Step::Name(named[..end].to_owned()));
                &named[end..]
            };
        }
        match steps.len() {
            1..=STEPS_MAX => Ok(Place { steps }),
            _ => Err(format!("a place has 1 to {STEPS_MAX} steps")),
        }
    }

    /// The place of another member of the same object; `None` where the last step is
    /// no member.
    pub fn beside(&self, name: &str) -> Option<Place> {
        let (Step::Name(_), way) = self.steps.split_last()? else {
            return None;
        };
        let mut steps = way.to_vec();
        steps.push(Step::Name(name.to_owned()));
        Some(Place { steps })
    }
}

/// Whether a text can be a step.
pub fn is_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (1..=64).contains(&text.len()) && text.bytes().all(plain)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("$")?;
        self.steps.iter().try_for_each(|step| match step {
            Step::Each => f.write_str("[*]"),
            Step::Name(name) => write!(f, ".{name}"),
        })
    }
}

/// What stands at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// A number, reported under this id.
    Number(u16),
    /// Generated text, of which the length counts: a string, or all that is in an
    /// object or a list.
    Text,
}

/// The number of a node in the tree; the root is 0.
pub(super) type NodeId = u16;

/// Places as a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    names: Vec<(String, NodeId)>,
    each: Option<NodeId>,
    numbers: Vec<u16>,
    is_text: bool,
}

impl Default for Places {
    fn default() -> Places {
        Places {
            nodes: vec![Node::default()],
        }
    }
}

impl Places {
    /// Looks for one place more. Beyond [`PLACES_MAX`] nodes nothing is added.
    pub fn add(&mut self, place: &Place, leaf: Leaf) {
        let mut at = 0;
        for step in &place.steps {
            let next = match step {
                Step::Each => self.nodes[at].each,
                Step::Name(name) => self.named(at as NodeId, name.as_bytes()),
            };
            at = match next {
                Some(next) => usize::from(next),
                None if self.nodes.len() < STEPS_MAX * PLACES_MAX => {
                    let new = self.nodes.len() as NodeId;
                    self.nodes.push(Node::default());
                    match step {
                        Step::Each => self.nodes[at].each = Some(new),
                        Step::Name(name) => self.nodes[at].names.push((name.clone(), new)),
                    }
                    usize::from(new)
                }
                None => return,
            };
        }
        match leaf {
            Leaf::Number(id) => self.nodes[at].numbers.push(id),
            Leaf::Text => self.nodes[at].is_text = true,
        }
    }

    pub(super) fn named(&self, node: NodeId, name: &[u8]) -> Option<NodeId> {
        let names = &self.nodes[usize::from(node)].names;
        let found = names.iter().find(|(known, _)| known.as_bytes() == name);
        found.map(|(_, id)| *id)
    }

    pub(super) fn each(&self, node: NodeId) -> Option<NodeId> {
        self.nodes[usize::from(node)].each
    }

    pub(super) fn numbers(&self, node: NodeId) -> &[u16] {
        &self.nodes[usize::from(node)].numbers
    }

    pub(super) fn is_text(&self, node: NodeId) -> bool {
        self.nodes[usize::from(node)].is_text
    }

    /// Whether anything is looked for below.
    pub(super) fn has_more(&self, node: NodeId) -> bool {
        let node = &self.nodes[usize::from(node)];
        !node.names.is_empty() || node.each.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_place_is_refused() {
        for text in [
            "", "$", "usage", "$.", "$..a", "$.*", "$[0]", "$[-1]", "$.a[", "$ .a", "$['a']",
            "$.a b",
        ] {
            assert!(Place::parse(text).is_err(), "{text}");
        }
        assert!(Place::parse(&format!("${}", ".a".repeat(17))).is_err());
    }

    #[test]
    fn a_member_has_members_beside_it_and_an_element_has_none() {
        let place = |text: &str| Place::parse(text).unwrap();
        assert_eq!(place("$.usage.a").beside("b"), Some(place("$.usage.b")));
        assert_eq!(place("$.usage[*]").beside("b"), None);
    }

    proptest! {
        #[test]
        fn a_place_reads_back_what_it_writes(text in "\\$(\\.[a-zA-Z_-]{1,5}|\\[\\*\\]){1,6}") {
            prop_assert_eq!(Place::parse(&text).unwrap().to_string(), text);
        }

        #[test]
        fn no_text_makes_a_place_panic(text in ".{0,60}") {
            let _ = Place::parse(&text);
        }
    }
}
