//! Structured field values (RFC 9651), reduced to what rate-limit fields need.
//!
//! The `sfv` crate does the parsing; its visitors run without a hash map and
//! without I/O. Here every member becomes an [`Item`]: integers, and strings or
//! tokens as text. Any other type, inner lists included, is [`Bare::Other`]: it
//! is valid syntax that no rate-limit field gives a meaning to.
//!
//! Bounds: [`MEMBERS_MAX`] members, [`PARAMETERS_MAX`] parameters each; more is
//! refused as a whole, like any other violation of the grammar. Of a repeated
//! key the last value counts, as the RFC says.

use std::fmt;

use sfv::visitor::{
    DictionaryVisitor, EntryVisitor, Ignored, InnerListVisitor, ItemVisitor, ListVisitor,
    ParameterVisitor,
};
use sfv::{BareItemFromInput, KeyRef, Parser};

/// Most members of a list or dictionary.
pub(crate) const MEMBERS_MAX: usize = 32;
/// Most parameters of a member.
pub(crate) const PARAMETERS_MAX: usize = 16;

/// A value without parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Bare {
    /// An integer of at most 15 digits.
    Integer(i64),
    /// A string or a token; the drafts' own examples mix them.
    Text(String),
    /// Valid, and of a type that means nothing here.
    #[default]
    Other,
}

/// A member of a list or dictionary with its parameters in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Item {
    /// The member itself.
    pub(crate) value: Bare,
    /// Its parameters, each key once.
    pub(crate) parameters: Vec<(String, Bare)>,
}

impl Item {
    /// The value of a parameter.
    pub(crate) fn parameter(&self, key: &str) -> Option<&Bare> {
        self.parameters
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, value)| value)
    }
}

/// Reads a list; `None` if it is not one, or beyond the bounds.
pub(crate) fn list(text: &str) -> Option<Vec<Item>> {
    Parser::new(text)
        .parse_list_with_visitor(Members::default())
        .ok()
}

/// Reads a dictionary; `None` if it is not one, or beyond the bounds.
pub(crate) fn dictionary(text: &str) -> Option<Vec<(String, Item)>> {
    Parser::new(text)
        .parse_dictionary_with_visitor(Entries::default())
        .ok()
}

/// More members or parameters than anybody sends in earnest.
#[derive(Debug)]
struct TooMany;

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many members or parameters")
    }
}

impl std::error::Error for TooMany {}

#[derive(Default)]
struct Members(Vec<Item>);

impl<'de> ListVisitor<'de> for Members {
    type Out = Vec<Item>;
    type Error = TooMany;

    fn entry(&mut self) -> Result<impl EntryVisitor<'de>, TooMany> {
        if self.0.len() == MEMBERS_MAX {
            return Err(TooMany);
        }
        self.0.push(Item::default());
        Ok(Filling(self.0.last_mut()))
    }

    fn finish(self) -> Result<Vec<Item>, TooMany> {
        Ok(self.0)
    }
}

#[derive(Default)]
struct Entries(Vec<(String, Item)>);

impl<'de> DictionaryVisitor<'de> for Entries {
    type Out = Vec<(String, Item)>;
    type Error = TooMany;

    fn entry(&mut self, key: &'de KeyRef) -> Result<impl EntryVisitor<'de>, TooMany> {
        let item = place(&mut self.0, key, MEMBERS_MAX)?;
        *item = Item::default();
        Ok(Filling(Some(item)))
    }

    fn finish(self) -> Result<Vec<(String, Item)>, TooMany> {
        Ok(self.0)
    }
}

/// The member that is being read.
struct Filling<'a>(Option<&'a mut Item>);

impl<'de> EntryVisitor<'de> for Filling<'_> {
    type Error = TooMany;

    fn item(self) -> Result<impl ItemVisitor<'de>, TooMany> {
        Ok(self)
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'de>, TooMany> {
        Ok(Ignored)
    }
}

impl<'de> ItemVisitor<'de> for Filling<'_> {
    type Out = ();
    type Error = TooMany;

    fn bare_item(
        mut self,
        value: BareItemFromInput<'de>,
    ) -> Result<impl ParameterVisitor<'de, Out = ()>, TooMany> {
        if let Some(item) = &mut self.0 {
            item.value = bare(value);
        }
        Ok(self)
    }
}

impl<'de> ParameterVisitor<'de> for Filling<'_> {
    type Out = ();
    type Error = TooMany;

    fn parameter(
        &mut self,
        key: &'de KeyRef,
        value: BareItemFromInput<'de>,
    ) -> Result<(), TooMany> {
        let Some(item) = &mut self.0 else {
            return Ok(());
        };
        *place(&mut item.parameters, key, PARAMETERS_MAX)? = bare(value);
        Ok(())
    }

    fn finish(self) -> Result<(), TooMany> {
        Ok(())
    }
}

/// Where the value of a key goes: a repeated key keeps its first place.
fn place<'v, T: Default>(
    all: &'v mut Vec<(String, T)>,
    key: &KeyRef,
    most: usize,
) -> Result<&'v mut T, TooMany> {
    let at = match all.iter().position(|(known, _)| known == key.as_str()) {
        Some(at) => at,
        None if all.len() == most => return Err(TooMany),
        None => {
            all.push((key.as_str().to_owned(), T::default()));
            all.len() - 1
        }
    };
    all.get_mut(at).map(|(_, value)| value).ok_or(TooMany)
}

fn bare(value: BareItemFromInput<'_>) -> Bare {
    match value {
        BareItemFromInput::Integer(n) => Bare::Integer(i64::from(n)),
        BareItemFromInput::String(text) => Bare::Text(text.as_str().to_owned()),
        BareItemFromInput::Token(text) => Bare::Text(text.as_str().to_owned()),
        _ => Bare::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn of_a_repeated_key_the_last_value_counts() {
        let items = list("a;r=1;t=2;r=3").unwrap();
        assert_eq!(items[0].parameter("r"), Some(&Bare::Integer(3)));
        assert_eq!(items[0].parameters.len(), 2);
        let entries = dictionary("a=1;x=1, b=2, a=3").unwrap();
        assert_eq!(entries.len(), 2);
        assert_eq!(
            entries[0],
            (
                "a".into(),
                Item {
                    value: Bare::Integer(3),
                    parameters: vec![]
                }
            )
        );
    }

    #[test]
    fn more_members_than_the_bound_are_refused_as_a_whole() {
        let members = |n: usize| vec!["a"; n].join(", ");
        assert_eq!(
            list(&members(MEMBERS_MAX)).map(|l| l.len()),
            Some(MEMBERS_MAX)
        );
        assert_eq!(list(&members(MEMBERS_MAX + 1)), None);
        let keys = |n: usize| (0..n).map(|i| format!("k{i}=1")).collect::<Vec<_>>();
        assert!(dictionary(&keys(MEMBERS_MAX).join(", ")).is_some());
        assert_eq!(dictionary(&keys(MEMBERS_MAX + 1).join(", ")), None);
        assert!(list(&format!("a;{}", keys(PARAMETERS_MAX).join(";"))).is_some());
        assert_eq!(
            list(&format!("a;{}", keys(PARAMETERS_MAX + 1).join(";"))),
            None
        );
    }

    /// What the foreign vectors write for a bare value.
    fn expected_bare(value: &Value) -> Bare {
        match value {
            Value::Number(n) => n.as_i64().map_or(Bare::Other, Bare::Integer),
            Value::String(text) => Bare::Text(text.clone()),
            Value::Object(typed) if typed["__type"] == "token" => {
                Bare::Text(typed["value"].as_str().unwrap().to_owned())
            }
            _ => Bare::Other,
        }
    }

    /// `[value, [[key, value], …]]`; a list instead of a value is an inner list,
    /// whose parameters nobody reads.
    fn expected_item(pair: &Value) -> Item {
        if pair[0].is_array() {
            return Item::default();
        }
        let parameters = pair[1].as_array().unwrap().iter();
        Item {
            value: expected_bare(&pair[0]),
            parameters: parameters
                .map(|p| (p[0].as_str().unwrap().to_owned(), expected_bare(&p[1])))
                .collect(),
        }
    }

    /// Runs the lists and dictionaries of one foreign file; gives back how many.
    fn check(file: &str, cases: &[Value]) -> usize {
        let mut run = 0;
        for case in cases {
            let lines: Vec<_> = case["raw"]
                .as_array()
                .unwrap()
                .iter()
                .map(|l| l.as_str().unwrap())
                .collect();
            let joined = lines.join(", ");
            let name = format!("{file}: {} ({joined:?})", case["name"]);
            let items = |value: &Value| -> Vec<Item> {
                value
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(expected_item)
                    .collect()
            };
            let (got, expected) = match case["header_type"].as_str().unwrap() {
                "list" => (list(&joined), case.get("expected").map(items)),
                "dictionary" => (
                    dictionary(&joined).map(|d| d.into_iter().map(|(_, item)| item).collect()),
                    case.get("expected").map(|e| {
                        e.as_array()
                            .unwrap()
                            .iter()
                            .map(|p| expected_item(&p[1]))
                            .collect()
                    }),
                ),
                _ => continue,
            };
            run += 1;
            if case["must_fail"] == true {
                assert_eq!(got, None, "{name}");
            } else if got.is_some() || case["can_fail"] != true {
                assert_eq!(got, expected, "{name}");
            }
        }
        run
    }

    #[test]
    fn the_foreign_vectors_for_lists_and_dictionaries_hold() {
        let root = std::env::var("RATEGOV_VECTORS")
            .unwrap_or_else(|_| format!("{}/../../../shared/vectors", env!("CARGO_MANIFEST_DIR")));
        let Ok(folder) = std::fs::read_dir(format!("{root}/structured-fields")) else {
            eprintln!("skipped: no structured-field vectors in {root}; set RATEGOV_VECTORS");
            return;
        };
        let mut run = 0;
        for entry in folder {
            let path = entry.unwrap().path();
            let cases: Vec<Value> =
                serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            run += check(&path.display().to_string(), &cases);
        }
        assert!(
            run >= 80,
            "only {run} vectors were run: the folder is not what it should be"
        );
    }
}
