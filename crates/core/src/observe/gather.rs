//! One pass over the fields of an answer: each value goes where its rule says.
//!
//! Header fields come first, in the order of the answer, then the values that
//! were found in the body. A value that does not match its grammar is left out
//! and its field is named, once.

use super::answer::{Answer, BodyValue};
use super::dialect::{Dialect, FieldRule, fill_name};
use super::readings::Limits;
use super::told::Told;
use super::{AnsweredAt, Malformed, Reading, pairs, quantity, text, values};

/// What the fields of an answer amount to.
pub(crate) struct Gathered {
    pub(crate) readings: Vec<Reading>,
    pub(crate) asides: Vec<Reading>,
    pub(crate) told: Told,
}

/// Reads every field that the dialect knows. Cost: O(fields × log rules).
pub(crate) fn gather(
    answer: &Answer<'_>,
    dialect: &Dialect,
    at: AnsweredAt,
    malformed: &mut Malformed,
) -> Gathered {
    let mut gathering = Gathering {
        limits: Limits::default(),
        told: Told::default(),
        is_cached: is_cached(answer.headers),
        at,
    };
    for (header, value) in answer.headers {
        let (rules, end) = dialect.rules(header);
        for (at, rule) in rules.iter().enumerate() {
            let applies = |rule: &FieldRule| rule.applies(|name| field(answer.headers, name));
            let before = &rules[..at];
            if !applies(rule) || before.iter().any(|it| it.reads_what(rule) && applies(it)) {
                continue;
            }
            let taken = text(value).and_then(|value| {
                let name = name(rule, end, answer.headers);
                gathering.take(rule, name, value)
            });
            if taken.is_none() {
                malformed.note(rule.place.label());
            }
        }
    }
    for BodyValue { rule, name, text } in answer.values {
        let Some(rule) = dialect.body_fields().get(*rule) else {
            continue;
        };
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        if gathering.take(rule, name.clone(), text).is_none() {
            malformed.note(rule.place.label());
        }
    }
    let (readings, asides) = gathering.limits.finish();
    Gathered {
        readings,
        asides,
        told: gathering.told,
    }
}

struct Gathering<'a> {
    limits: Limits<'a>,
    told: Told,
    /// Limits of a cached answer describe the past and are left out.
    is_cached: bool,
    at: AnsweredAt,
}

impl<'a> Gathering<'a> {
    /// Takes one value. `None` if it does not match its grammar.
    fn take(&mut self, rule: &'a FieldRule, name: Option<String>, value: &str) -> Option<()> {
        let value = match &rule.key {
            Some(key) if value.contains('=') => match pairs::value(value, key) {
                Some(value) => value,
                // The other keys are other rules' business.
                None => return Some(()),
            },
            Some(_) => return None,
            None => value,
        };
        if !rule.what.is_of_a_limit() {
            return self.told.take(rule, value, self.at);
        }
        match self.is_cached {
            true => Some(()),
            false => self.limits.take(rule, name, value, self.at),
        }
    }
}

/// How the limit of a header field is called. Names of policies are filled in
/// where the field's own grammar is read.
fn name(rule: &FieldRule, end: &str, headers: &[(&str, &[u8])]) -> Option<String> {
    let end = end.to_ascii_lowercase();
    fill_name(rule.name.as_deref()?, |part| match part {
        "name" => Some(end.as_str()),
        header => field(headers, header),
    })
}

/// The first value of a header field.
fn field<'h>(headers: &[(&'h str, &'h [u8])], name: &str) -> Option<&'h str> {
    let mut fields = headers.iter();
    let field = fields.find(|(known, _)| known.eq_ignore_ascii_case(name));
    field.and_then(|(_, value)| text(value))
}

/// Whether a cache gave this answer some time after the provider did.
fn is_cached(headers: &[(&str, &[u8])]) -> bool {
    values(headers, "age")
        .filter_map(|age| quantity::whole(text(age)?))
        .any(|age| age > 0)
}
