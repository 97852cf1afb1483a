//! What serde finds wrong, in a person's words and without the value.

use std::fmt;

use serde::de::{Expected, Unexpected};

use super::{Identity, identity};
use crate::config::mistake::{Mark, meant};
use crate::config::tree::Node;
use crate::config::units::shown;

/// An error on its way to the node that it belongs to.
#[derive(Debug)]
pub(super) struct DecodeError {
    pub(super) at: Option<(Identity, Mark)>,
    pub(super) text: String,
}

impl DecodeError {
    /// Places the error at this node, unless an inner node has claimed it.
    pub(super) fn or_at(mut self, node: &Node) -> DecodeError {
        self.at.get_or_insert_with(|| (identity(node), node.mark));
        self
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for DecodeError {}

impl serde::de::Error for DecodeError {
    fn custom<T: fmt::Display>(text: T) -> DecodeError {
        DecodeError {
            at: None,
            text: text.to_string(),
        }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> DecodeError {
        let expected = plain(&expected.to_string());
        DecodeError::custom(format!("expected {expected}, found {}", kind(&found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> DecodeError {
        let expected = plain(&expected.to_string());
        match found {
            Unexpected::Unsigned(n) => DecodeError::custom(format!("{n} is not {expected}")),
            Unexpected::Signed(n) => DecodeError::custom(format!("{n} is not {expected}")),
            other => DecodeError::custom(format!("expected {expected}, found {}", kind(&other))),
        }
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> DecodeError {
        let mut text = format!("unknown word `{}`", shown(word));
        if let Some(hint) = meant(word, known.iter().copied()) {
            text.push_str(&format!("\nhint: {hint}"));
        }
        DecodeError::custom(text)
    }
}

/// Rust's names of types in a person's words.
fn plain(expected: &str) -> String {
    match expected {
        "u16" => "a whole number from 0 to 65535".to_owned(),
        "u32" => "a whole number from 0 to 4294967295".to_owned(),
        "u64" | "usize" => "a whole number".to_owned(),
        "f64" => "a number".to_owned(),
        "a string" => "text".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a boolean" => "`true` or `false`".to_owned(),
        other if other.starts_with("struct ") => "a map of keys".to_owned(),
        other => other.to_owned(),
    }
}

fn kind(found: &Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "true or false",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) => "a number",
        Unexpected::Float(_) => "a fraction",
        Unexpected::Char(_) | Unexpected::Str(_) | Unexpected::Bytes(_) => "text",
        Unexpected::Unit | Unexpected::Option => "nothing",
        Unexpected::Seq => "a list",
        Unexpected::Map => "a map",
        _ => "something else",
    }
}
