//! A provider's fields as data, ready for look-up: which field carries what.
//!
//! Six vendors give nearly the same name to six different things, so a preset
//! states what each field carries and how, one [`FieldRule`] a row. A new
//! provider is new rows, not new code.
//!
//! One header may have several rows: for several keys in its value, or for
//! several cases, of which the first that applies is meant. A name with an open
//! end counts only where no row has the exact name.

use std::fmt;

pub use super::field::{FieldRule, Place, Standing, What};
pub use super::name::{fill as fill_name, is_template};
pub use super::unit::Unit;

/// Most rules of one dialect.
pub const FIELDS_MAX: usize = 256;
/// Longest field or dimension name, in bytes.
pub const NAME_BYTES_MAX: usize = 100;
/// Shortest beginning of an open name, in bytes: a shorter one would take in
/// fields that mean something else.
const OPEN_BYTES_MIN: usize = 4;

words! {
    /// What a time without a zone in an error message means.
    MessageClock {
        /// Nothing certain: such times are not read.
        Unknown = "unknown",
        /// UTC; the preset says so.
        Utc = "utc",
    }
}

/// Why rules do not make a dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialectError {
    /// More than [`FIELDS_MAX`] rules.
    TooMany,
    /// A name is empty, too long, or has characters that it cannot have.
    Name(String),
    /// Two rules that read the same from one field.
    Twice(String),
}

impl fmt::Display for DialectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DialectError::TooMany => write!(f, "a dialect has at most {FIELDS_MAX} fields"),
            DialectError::Name(name) => write!(
                f,
                "{name:?} can't be the name of a field or dimension\n  hint: 1 to {NAME_BYTES_MAX} lower-case letters, digits, `-`, `_`, `.` or `:`"
            ),
            DialectError::Twice(header) => {
                write!(
                    f,
                    "two rules for the field {header:?}\n  hint: keep one of them"
                )
            }
        }
    }
}

impl std::error::Error for DialectError {}

/// The fields of one provider, ready for look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// Headers in the order of their names, then open names, then the body's.
    fields: Vec<FieldRule>,
    /// So many of them have an exact header.
    exact: usize,
    /// So many of them have a header.
    headers: usize,
    message_clock: MessageClock,
}

impl Dialect {
    /// Checks and orders the rules. Rules of one header keep their order, and so
    /// do those of the body: the first that finds something is believed.
    ///
    /// # Errors
    /// See [`DialectError`].
    pub fn new(
        mut fields: Vec<FieldRule>,
        message_clock: MessageClock,
    ) -> Result<Dialect, DialectError> {
        if fields.len() > FIELDS_MAX {
            return Err(DialectError::TooMany);
        }
        for rule in &fields {
            check(rule)?;
        }
        fields.sort_by(|a, b| order(a).cmp(&order(b)));
        let count = |below: u8| fields.partition_point(|rule| order(rule).0 < below);
        let (exact, headers) = (count(1), count(2));
        for (at, rule) in fields.iter().enumerate().take(headers) {
            let alike = |other: &&FieldRule| {
                other.reads_what(rule) && (other.beside == rule.beside || other.beside.is_empty())
            };
            let before = fields[..at].iter().rev();
            if before
                .take_while(|it| it.place == rule.place)
                .any(|it| alike(&it))
            {
                return Err(DialectError::Twice(rule.place.label().to_owned()));
            }
        }
        Ok(Dialect {
            fields,
            exact,
            headers,
            message_clock,
        })
    }

    /// The rules: headers in the order of their names, then the body's.
    pub fn fields(&self) -> &[FieldRule] {
        &self.fields
    }

    /// The rules for values in a body, in the order in which they are believed.
    pub fn body_fields(&self) -> &[FieldRule] {
        &self.fields[self.headers..]
    }

    /// What a time without a zone in an error message means.
    pub fn message_clock(&self) -> MessageClock {
        self.message_clock
    }

    /// The rules of a header field, whatever the case of its name, and what
    /// stands at the open end of that name. Cost: O(log rules + open names).
    pub fn rules<'d, 'h>(&'d self, header: &'h str) -> (&'d [FieldRule], &'h str) {
        let lower = |b: u8| b.to_ascii_lowercase();
        let exact = &self.fields[..self.exact];
        let name = |rule: &FieldRule| rule.place.label().bytes().cmp(header.bytes().map(lower));
        let start = exact.partition_point(|rule| name(rule).is_lt());
        let end = start + exact[start..].partition_point(|rule| name(rule).is_eq());
        if start < end {
            return (&exact[start..end], "");
        }
        self.open_rules(header).unwrap_or((&[], ""))
    }

    /// The rules of the longest open name that the header begins with.
    fn open_rules<'d, 'h>(&'d self, header: &'h str) -> Option<(&'d [FieldRule], &'h str)> {
        let open = &self.fields[self.exact..self.headers];
        let begins = |rule: &&FieldRule| {
            let begin = header.get(..rule.place.label().len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(rule.place.label()))
        };
        let longest = open.iter().filter(begins).map(|rule| rule.place.label());
        let prefix = longest.max_by_key(|prefix| prefix.len())?;
        let start = open.iter().position(|rule| rule.place.label() == prefix)?;
        let same = |rule: &&FieldRule| rule.place.label() == prefix;
        let count = open[start..].iter().take_while(same).count();
        let end = header.get(prefix.len()..).filter(|end| !end.is_empty())?;
        Some((&open[start..start + count], end))
    }
}

/// What rules are ordered by. Those of the body stay as they are.
fn order(rule: &FieldRule) -> (u8, &str) {
    match &rule.place {
        Place::Header(name) => (0, name),
        Place::OpenHeader(prefix) => (1, prefix),
        Place::Body(_) => (2, ""),
    }
}

fn check(rule: &FieldRule) -> Result<(), DialectError> {
    let header_is_good = match &rule.place {
        Place::Header(name) => is_name(name),
        Place::OpenHeader(prefix) => is_name(prefix) && OPEN_BYTES_MIN <= prefix.len(),
        Place::Body(path) => path.starts_with('$'),
    };
    if !header_is_good {
        return Err(DialectError::Name(rule.place.label().to_owned()));
    }
    let dimension_may_be_empty = !rule.what.is_of_a_limit() && rule.dimension.is_empty();
    if !(is_name(&rule.dimension) || dimension_may_be_empty) {
        return Err(DialectError::Name(rule.dimension.clone()));
    }
    match &rule.name {
        Some(name) if !is_template(name) => Err(DialectError::Name(name.clone())),
        _ => Ok(()),
    }
}

fn is_name(text: &str) -> bool {
    let allowed = |b: u8| {
        b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.' | b':')
    };
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(header: &str) -> FieldRule {
        FieldRule {
            dimension: "requests".into(),
            ..FieldRule::new(Place::header(header), What::Limit)
        }
    }

    #[test]
    fn a_field_is_found_whatever_its_case() {
        let names = ["x-b", "x-a", "x-ab", "retry-after-ms"];
        let fields = names.map(rule).into_iter().collect();
        let dialect = Dialect::new(fields, MessageClock::Unknown).unwrap();
        for name in ["X-A", "x-ab", "X-aB", "x-b", "Retry-After-Ms"] {
            let (found, _) = dialect.rules(name);
            assert_eq!(found.len(), 1, "{name}");
            assert_eq!(found[0].place.label(), name.to_ascii_lowercase());
        }
        assert!(dialect.rules("x-").0.is_empty());
        assert!(dialect.rules("").0.is_empty());
    }

    #[test]
    fn an_open_name_gives_its_end_and_an_exact_one_goes_before_it() {
        let names = ["vendor-*", "vendor-limit-*", "vendor-limit-all"];
        let fields = names.map(rule).into_iter().collect();
        let dialect = Dialect::new(fields, MessageClock::Unknown).unwrap();
        let found = |name| {
            let (rules, end) = dialect.rules(name);
            rules.first().map(|rule| (rule.place.label(), end))
        };
        assert_eq!(found("Vendor-Limit-All"), Some(("vendor-limit-all", "")));
        assert_eq!(
            found("Vendor-Limit-Tickets"),
            Some(("vendor-limit-", "Tickets"))
        );
        assert_eq!(found("vendor-other"), Some(("vendor-", "other")));
        assert_eq!(found("vendor-"), None);
        assert_eq!(found("vend"), None);
    }

    #[test]
    fn one_field_may_have_a_rule_for_each_key() {
        let keyed = |key: &str, what| FieldRule {
            key: Some(key.into()),
            what,
            ..rule("x-a")
        };
        let both = vec![keyed("total", What::Limit), keyed("left", What::Remaining)];
        let dialect = Dialect::new(both.clone(), MessageClock::Unknown).unwrap();
        assert_eq!(dialect.rules("x-a").0, both);
    }

    #[test]
    fn one_field_may_have_a_rule_for_each_case_and_one_for_the_rest() {
        let core = FieldRule {
            beside: vec![("x-resource".into(), "core".into())],
            ..rule("x-a")
        };
        let dialect = |fields| Dialect::new(fields, MessageClock::Unknown);
        assert!(dialect(vec![core.clone(), rule("x-a")]).is_ok());
        // Behind the rest no case is ever reached.
        let twice = Err(DialectError::Twice("x-a".into()));
        assert_eq!(dialect(vec![rule("x-a"), core]), twice);
    }

    #[test]
    fn rules_that_could_not_be_meant_are_named() {
        let dialect = |fields| Dialect::new(fields, MessageClock::Unknown);
        let twice = dialect(vec![rule("x-a"), rule("x-b"), rule("x-a")]);
        assert_eq!(twice, Err(DialectError::Twice("x-a".into())));
        let loud = FieldRule::new(Place::Header("X-A".into()), What::Retry);
        assert_eq!(dialect(vec![loud]), Err(DialectError::Name("X-A".into())));
        let open = FieldRule::new(Place::header("x-*"), What::Retry);
        assert_eq!(dialect(vec![open]), Err(DialectError::Name("x-".into())));
        let odd = FieldRule {
            name: Some("a{b".into()),
            ..rule("x-a")
        };
        assert_eq!(dialect(vec![odd]), Err(DialectError::Name("a{b".into())));
        let nameless = FieldRule {
            dimension: String::new(),
            ..rule("x-a")
        };
        assert_eq!(
            dialect(vec![nameless.clone()]),
            Err(DialectError::Name(String::new()))
        );
        let retry = FieldRule {
            what: What::Retry,
            ..nameless
        };
        assert!(dialect(vec![retry]).is_ok());
        let many = (0..=FIELDS_MAX).map(|n| rule(&format!("x-{n}"))).collect();
        assert_eq!(dialect(many), Err(DialectError::TooMany));
    }
}
