//! Words of the core's vocabularies in a configuration.
//!
//! The core has each word once; this makes them readable from a file and listed in
//! the schema without a second list that could drift.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use rategov_core::observe::dialect::{MessageClock, Unit, What};
use rategov_core::observe::{Advice, Kind, Reach};
use rategov_core::word::{Class, Priority};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer};

use super::mistake::meant;
use super::units::shown;

/// A closed vocabulary of the core.
pub trait Vocabulary: Copy + 'static {
    /// Its name in the schema, and what one of its words is.
    const NAME: &'static str;
    /// Every value.
    fn all() -> &'static [Self];
    /// The word of a value.
    fn word(self) -> &'static str;
}

macro_rules! vocabularies {
    ($($name:ident = $what:literal;)*) => {$(
        impl Vocabulary for $name {
            const NAME: &'static str = $what;
            fn all() -> &'static [$name] {
                $name::ALL
            }
            fn word(self) -> &'static str {
                $name::word(self)
            }
        }
    )*};
}

vocabularies! {
    Class = "request class";
    Priority = "priority";
    What = "content of a field";
    Unit = "form of a time";
    Reach = "reach of a limit";
    Kind = "meaning of an error";
    Advice = "advice";
    MessageClock = "clock";
}

/// A word of a vocabulary, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<T>(pub T);

impl<'de, T: Vocabulary> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Word<T>, D::Error> {
        struct Known<T>(PhantomData<T>);
        impl<T: Vocabulary> Visitor<'_> for Known<T> {
            type Value = Word<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a word, the {}", T::NAME)
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Word<T>, E> {
                let words = || T::all().iter().map(|value| value.word());
                match T::all().iter().find(|value| value.word() == text) {
                    Some(value) => Ok(Word(*value)),
                    None => {
                        let hint = meant(text, words().collect::<Vec<_>>()).unwrap_or_default();
                        let name = T::NAME;
                        Err(E::custom(format!(
                            "unknown {name} `{}`\nhint: {hint}",
                            shown(text)
                        )))
                    }
                }
            }
        }
        deserializer.deserialize_str(Known(PhantomData))
    }
}

impl<T: Vocabulary> JsonSchema for Word<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<&str> = T::all().iter().map(|value| value.word()).collect();
        json_schema!({ "type": "string", "enum": words })
    }
}
