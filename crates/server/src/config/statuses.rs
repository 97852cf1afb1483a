//! One status or several, as a configuration writes them: `429`, `[500, 502]`.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Most statuses of one rule.
const STATUSES_MAX: usize = 32;

/// Statuses of an answer, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(pub Vec<u16>);

/// A status of an answer.
fn status<E: Error>(number: u64) -> Result<u16, E> {
    match u16::try_from(number) {
        Ok(status) if (200..=599).contains(&status) => Ok(status),
        _ => Err(E::custom("this is not the status of an answer")),
    }
}

impl<'de> Deserialize<'de> for Statuses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Statuses, D::Error> {
        struct OneOrMany;
        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Statuses;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a status, or a list of them")
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Statuses, E> {
                Ok(Statuses(vec![status(number)?]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Statuses, A::Error> {
                let mut statuses = Vec::new();
                while let Some(number) = list.next_element::<u64>()? {
                    if statuses.len() == STATUSES_MAX {
                        return Err(A::Error::custom("too many statuses"));
                    }
                    statuses.push(status(number)?);
                }
                match statuses.is_empty() {
                    true => Err(A::Error::custom("no status would match")),
                    false => Ok(Statuses(statuses)),
                }
            }
        }
        deserializer.deserialize_any(OneOrMany)
    }
}

impl JsonSchema for Statuses {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Statuses".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = json_schema!({ "type": "integer", "minimum": 200, "maximum": 599 });
        json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}
