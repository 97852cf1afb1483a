//! Fills the options from the tree, and goes on after a mistake.
//!
//! A serde visitor is used up by its first error, so one pass can report one.
//! Here the reading is repeated: the node that failed is set aside, which makes
//! it look absent, and the rest is read again until nothing fails. Every option
//! is optional *as written*, so an absent one never causes a second mistake.
//! Worked: a file with three wrong types is read four times; at most
//! [`MISTAKES_MAX`] times in all, each linear in the file (≤ 1 MiB).
//!
//! Unknown and repeated keys don't fail a reading: they are noted and skipped.
//! Values are never repeated in a message of this file, since any of them may be
//! a secret in the wrong place; only the units show what they could not read.

mod error;

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};

use error::DecodeError;

use super::mistake::{Collector, MISTAKES_MAX, Mark, meant};
use super::tree::{Entry, Node, Value};
use super::units::shown;

/// Reads a type from the tree. What could not be read is in `mistakes`, and
/// absent from the result.
pub(crate) fn decode<'t, T: Deserialize<'t> + Default>(
    root: &'t Node,
    mistakes: &mut Collector,
) -> T {
    let pass = Pass {
        set_aside: RefCell::default(),
        notes: RefCell::default(),
    };
    let mut result = T::default();
    for _ in 0..MISTAKES_MAX {
        match T::deserialize(Cursor {
            node: root,
            pass: &pass,
        }) {
            Ok(read) => {
                result = read;
                break;
            }
            Err(DecodeError {
                at: Some((identity, mark)),
                text,
            }) => {
                mistakes.add(mark, text);
                if !pass.set_aside.borrow_mut().insert(identity) {
                    break; // The same node again: nothing more can be learnt.
                }
            }
            Err(DecodeError { at: None, text }) => {
                mistakes.add(root.mark, text);
                break;
            }
        }
    }
    for (mark, text) in pass.notes.into_inner() {
        mistakes.add(mark, text);
    }
    result
}

/// Which node of one tree: its address, since the tree doesn't move meanwhile.
type Identity = usize;

fn identity(node: &Node) -> Identity {
    std::ptr::from_ref(node) as usize
}

/// What all cursors of one reading share.
struct Pass {
    set_aside: RefCell<BTreeSet<Identity>>,
    notes: RefCell<BTreeSet<(Mark, String)>>,
}

impl Pass {
    fn note(&self, mark: Mark, text: String) {
        let mut notes = self.notes.borrow_mut();
        if notes.len() < MISTAKES_MAX {
            notes.insert((mark, text));
        }
    }

    fn skips(&self, node: &Node) -> bool {
        self.set_aside.borrow().contains(&identity(node))
    }
}

/// A node being read.
#[derive(Clone, Copy)]
struct Cursor<'t, 'p> {
    node: &'t Node,
    pass: &'p Pass,
}

impl<'t> Cursor<'t, '_> {
    /// The entries to be read: the first of each key, without those set aside.
    fn entries(
        self,
        entries: &'t [Entry],
        fields: Option<&'static [&'static str]>,
    ) -> Vec<&'t Entry> {
        let mut seen = BTreeSet::new();
        let mut kept = Vec::new();
        for entry in entries {
            if !seen.insert(entry.key.as_str()) {
                let key = shown(&entry.key);
                self.pass.note(
                    entry.mark,
                    format!("`{key}` is written twice\nhint: keep one of them"),
                );
                continue;
            }
            if let Some(fields) = fields
                && !fields.contains(&entry.key.as_str())
            {
                let mut text = format!("unknown key `{}`", shown(&entry.key));
                if let Some(hint) = meant(&entry.key, fields.iter().copied()) {
                    text.push_str(&format!("\nhint: {hint}"));
                }
                self.pass.note(entry.mark, text);
                continue;
            }
            if !self.pass.skips(&entry.node) {
                kept.push(entry);
            }
        }
        kept
    }
}

impl<'t> Deserializer<'t> for Cursor<'t, '_> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let result = match &self.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Whole(value) => visitor.visit_u64(*value),
            Value::Negative(value) => visitor.visit_i64(*value),
            Value::Fraction(value) => visitor.visit_f64(*value),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::List(nodes) => visitor.visit_seq(Items {
                nodes: nodes.iter(),
                pass: self.pass,
            }),
            Value::Map(entries) => visitor.visit_map(Entries {
                entries: self.entries(entries, None).into_iter(),
                value: None,
                pass: self.pass,
            }),
        };
        result.map_err(|error| error.or_at(self.node))
    }

    fn deserialize_option<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        // `key:` with nothing after it is as if the key were absent, except where
        // a map belongs: `openai:` means `openai: {}`. So the inner type decides.
        visitor.visit_some(self)
    }

    fn deserialize_struct<V: Visitor<'t>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let entries = match &self.node.value {
            Value::Map(entries) => self.entries(entries, Some(fields)),
            Value::Null => Vec::new(),
            other => {
                let text = format!("expected a map of keys, found {}", other.kind());
                return Err(DecodeError::custom(text).or_at(self.node));
            }
        };
        visitor
            .visit_map(Entries {
                entries: entries.into_iter(),
                value: None,
                pass: self.pass,
            })
            .map_err(|error| error.or_at(self.node))
    }

    fn deserialize_map<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.node.value {
            Value::Null => visitor
                .visit_map(Entries {
                    entries: Vec::new().into_iter(),
                    value: None,
                    pass: self.pass,
                })
                .map_err(|error| error.or_at(self.node)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'t>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let result = match &self.node.value {
            Value::Text(word) if variants.contains(&word.as_str()) => {
                visitor.visit_enum(Word(word))
            }
            Value::Text(word) => Err(DecodeError::unknown_variant(word, variants)),
            other => Err(DecodeError::custom(format!(
                "expected a word, found {}",
                other.kind()
            ))),
        };
        result.map_err(|error| error.or_at(self.node))
    }

    fn deserialize_newtype_struct<V: Visitor<'t>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        <W: Visitor<'t>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct identifier ignored_any
    }
}

/// The items of a list, without those set aside.
struct Items<'t, 'p> {
    nodes: std::slice::Iter<'t, Node>,
    pass: &'p Pass,
}

impl<'t> SeqAccess<'t> for Items<'t, '_> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'t>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        let pass = self.pass;
        match self.nodes.find(|node| !pass.skips(node)) {
            Some(node) => seed.deserialize(Cursor { node, pass }).map(Some),
            None => Ok(None),
        }
    }
}

/// The entries of a map.
struct Entries<'t, 'p> {
    entries: std::vec::IntoIter<&'t Entry>,
    value: Option<&'t Node>,
    pass: &'p Pass,
}

impl<'t> MapAccess<'t> for Entries<'t, '_> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'t>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, DecodeError> {
        let Some(entry) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some(&entry.node);
        let key: serde::de::value::BorrowedStrDeserializer<'t, DecodeError> =
            serde::de::value::BorrowedStrDeserializer::new(&entry.key);
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'t>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, DecodeError> {
        match self.value.take() {
            Some(node) => seed
                .deserialize(Cursor {
                    node,
                    pass: self.pass,
                })
                .map_err(|error| error.or_at(node)),
            None => Err(DecodeError::custom("a value was asked for before its key")),
        }
    }
}

/// A word of a closed vocabulary.
struct Word<'t>(&'t str);

impl<'t> EnumAccess<'t> for Word<'t> {
    type Error = DecodeError;
    type Variant = Bare;

    fn variant_seed<V: DeserializeSeed<'t>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Bare), DecodeError> {
        Ok((seed.deserialize(self.0.into_deserializer())?, Bare))
    }
}

/// A word has nothing beside itself.
struct Bare;

impl<'t> VariantAccess<'t> for Bare {
    type Error = DecodeError;

    fn unit_variant(self) -> Result<(), DecodeError> {
        Ok(())
    }
    fn newtype_variant_seed<T: DeserializeSeed<'t>>(self, _: T) -> Result<T::Value, DecodeError> {
        Err(DecodeError::custom("a word can't carry a value"))
    }
    fn tuple_variant<V: Visitor<'t>>(self, _: usize, _: V) -> Result<V::Value, DecodeError> {
        Err(DecodeError::custom("a word can't carry a list"))
    }
    fn struct_variant<V: Visitor<'t>>(
        self,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, DecodeError> {
        Err(DecodeError::custom("a word can't carry a map"))
    }
}
