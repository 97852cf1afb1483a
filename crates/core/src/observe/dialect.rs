//! A provider's rate-limit header fields as data: which field carries what.
//!
//! Six vendors give nearly the same name to six different things: `…-reset` is
//! a number of seconds, an epoch in seconds or milliseconds, a Go duration, an
//! RFC 3339 time or an HTTP-date. So a preset *states* the form, one
//! [`FieldRule`] a field, and [`Unit::Auto`] is the fallback where nothing is
//! known. A new provider is new rows, not new code.
//!
//! [`Unit::Auto`] tells the forms apart like this, the first that fits wins:
//!
//! | text | meaning |
//! |---|---|
//! | a number above 10¹² | milliseconds since 1970 |
//! | a number above 10⁹ | seconds since 1970 |
//! | any other number | seconds from now |
//! | `6m0s`, `12ms` | a duration as Go writes it |
//! | `2026-12-01T12:00:58Z` | RFC 3339 |
//! | `Tue, 01 Dec 2026 12:00:29 GMT` | an HTTP-date |
//!
//! Worked: with an answer dated 2026-12-01T12:00:00Z, `1796126412` is above
//! 10⁹, so an epoch, and 12 s away; `1796126412000` is above 10¹² and the same
//! moment; `55` is 55 s. Ten to the ninth seconds are 31 years: no provider
//! asks for that, and no clock is that far back.

use std::fmt;

use super::quantity::{self, Scale};
use super::{AnsweredAt, Reach, dates};
use crate::time::{Span, WallTime};

/// Most rules of one dialect.
pub const FIELDS_MAX: usize = 128;
/// Longest field or dimension name, in bytes.
pub const NAME_BYTES_MAX: usize = 100;

words! {
    /// What a field carries.
    What {
        /// Units per window. Also `100, 100;w=60`, the form of the first IETF drafts.
        Limit = "limit",
        /// Units left.
        Remaining = "remaining",
        /// Until the window ends and new units come.
        Reset = "reset",
        /// Until *all* units are back, as a bucket refills; the first are back much earlier.
        Full = "full",
        /// How long to stay away.
        Retry = "retry",
        /// Length of the window.
        Window = "window",
        /// Units used and units per window in one value: `32/40`.
        UsedOfLimit = "used_of_limit",
        /// `RateLimit` of the IETF drafts, with its limits inside.
        State = "state",
        /// `RateLimit-Policy` of the IETF drafts.
        Policy = "policy",
    }
}

words! {
    /// How a time is written. Meaningless for counts.
    Unit {
        /// Seconds from the answer, also with a fraction.
        Seconds = "seconds",
        /// Milliseconds from the answer, also with a fraction.
        Millis = "millis",
        /// Seconds since 1970, also with a fraction.
        EpochSeconds = "epoch_s",
        /// Milliseconds since 1970.
        EpochMillis = "epoch_ms",
        /// `6m0s`.
        GoDuration = "go_duration",
        /// `2026-12-01T12:00:58Z`.
        Rfc3339 = "rfc3339",
        /// `Tue, 01 Dec 2026 12:00:29 GMT`.
        HttpDate = "http_date",
        /// Told apart by form and magnitude.
        Auto = "auto",
    }
}

impl Unit {
    /// The span from the answer to the time that is written; a past time is
    /// zero. `None` if the text is not of this form.
    pub fn span(self, text: &str, at: AnsweredAt) -> Option<Span> {
        let until = |time: WallTime| time.since(at.0);
        match self {
            Unit::Seconds => quantity::span(text, Scale::Seconds),
            Unit::Millis => quantity::span(text, Scale::Millis),
            Unit::EpochSeconds => quantity::span(text, Scale::Seconds).map(epoch).map(until),
            Unit::EpochMillis => quantity::span(text, Scale::Millis).map(epoch).map(until),
            Unit::GoDuration => quantity::go_duration(text),
            Unit::Rfc3339 => dates::rfc3339(text, dates::Zone::Written).map(until),
            Unit::HttpDate => dates::http_date(text).map(until),
            Unit::Auto => match quantity::magnitude(text) {
                Some(n) if n > 1_000_000_000_000 => Unit::EpochMillis.span(text, at),
                Some(n) if n > 1_000_000_000 => Unit::EpochSeconds.span(text, at),
                Some(_) => Unit::Seconds.span(text, at),
                None => [Unit::GoDuration, Unit::Rfc3339, Unit::HttpDate]
                    .into_iter()
                    .find_map(|unit| unit.span(text, at)),
            },
        }
    }

    /// Whether the text is a moment in whole seconds since 1970.
    pub(crate) fn is_whole_epoch(self, text: &str) -> bool {
        let seconds = |n: u64| (1_000_000_001..=1_000_000_000_000).contains(&n);
        matches!(self, Unit::EpochSeconds | Unit::Auto) && text.parse().is_ok_and(seconds)
    }
}

fn epoch(since_1970: Span) -> WallTime {
    WallTime::from_micros(0) + since_1970
}

words! {
    /// What a time without a zone in an error message means.
    MessageClock {
        /// Nothing certain: such times are not read.
        Unknown = "unknown",
        /// UTC; the preset says so.
        Utc = "utc",
    }
}

/// What one header field carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRule {
    /// The field's name in lower case.
    pub header: String,
    /// What is counted: `requests`, `tokens`, `input_tokens`, … Empty for [`What::Retry`].
    pub dimension: String,
    /// What the value says about it.
    pub what: What,
    /// How a time is written.
    pub unit: Unit,
    /// Whose limit it is.
    pub reach: Reach,
    /// The length of the window, where the provider documents it and sends none.
    pub window: Option<Span>,
}

/// Why rules do not make a dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DialectError {
    /// More than [`FIELDS_MAX`] rules.
    TooMany,
    /// A name is empty, too long, or has characters that it cannot have.
    Name(String),
    /// Two rules for one field.
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
    /// In the order of their names.
    fields: Vec<FieldRule>,
    message_clock: MessageClock,
}

impl Dialect {
    /// Checks and orders the rules.
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
            let dimension_may_be_empty = rule.what == What::Retry;
            if !is_name(&rule.header) {
                return Err(DialectError::Name(rule.header.clone()));
            }
            if !(is_name(&rule.dimension) || dimension_may_be_empty && rule.dimension.is_empty()) {
                return Err(DialectError::Name(rule.dimension.clone()));
            }
        }
        fields.sort_by(|a, b| a.header.cmp(&b.header));
        if let Some(pair) = fields
            .windows(2)
            .find(|pair| pair[0].header == pair[1].header)
        {
            return Err(DialectError::Twice(pair[0].header.clone()));
        }
        Ok(Dialect {
            fields,
            message_clock,
        })
    }

    /// The rules, in the order of their field names.
    pub fn fields(&self) -> &[FieldRule] {
        &self.fields
    }

    /// What a time without a zone in an error message means.
    pub fn message_clock(&self) -> MessageClock {
        self.message_clock
    }

    /// The rule of a field, whatever the case of its name. Cost: O(log rules).
    pub fn rule(&self, header: &str) -> Option<&FieldRule> {
        let lower = |b: u8| b.to_ascii_lowercase();
        let at = self
            .fields
            .binary_search_by(|rule| rule.header.bytes().cmp(header.bytes().map(lower)))
            .ok()?;
        self.fields.get(at)
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
    use proptest::prelude::*;

    /// 2026-12-01T12:00:00Z.
    const NOON: AnsweredAt = AnsweredAt(WallTime::from_secs(1_796_126_400));

    #[track_caller]
    fn check(unit: Unit, text: &str, expected_ms: Option<u64>) {
        assert_eq!(
            unit.span(text, NOON),
            expected_ms.map(Span::from_millis),
            "{unit:?} {text:?}"
        );
    }

    #[test]
    fn each_unit_reads_its_own_form_and_no_other() {
        let forms = [
            (Unit::Seconds, "1.250", 1_250),
            (Unit::EpochSeconds, "1796126412", 12_000),
            (Unit::EpochMillis, "1796126412500", 12_500),
            (Unit::GoDuration, "1m30s", 90_000),
            (Unit::Rfc3339, "2026-12-01T12:00:58Z", 58_000),
            (Unit::HttpDate, "Tue, 01 Dec 2026 12:00:29 GMT", 29_000),
        ];
        for (unit, text, ms) in forms {
            check(unit, text, Some(ms));
            check(Unit::Auto, text, Some(ms));
        }
        check(Unit::Seconds, "1m30s", None);
        check(Unit::GoDuration, "90", None);
        check(Unit::Rfc3339, "90", None);
        check(Unit::HttpDate, "2026-12-01T12:00:58Z", None);
        check(Unit::Millis, "1500", Some(1_500));
    }

    #[test]
    fn auto_tells_a_delta_from_an_epoch_by_its_size() {
        check(Unit::Auto, "55", Some(55_000));
        check(Unit::Auto, "1000000000", Some(1_000_000_000_000));
        check(Unit::Auto, "1796126412", Some(12_000));
        check(Unit::Auto, "1796126401.250", Some(1_250));
        check(Unit::Auto, "1796126412000", Some(12_000));
        check(Unit::Auto, "soon", None);
        check(Unit::Auto, "-1", None);
    }

    #[test]
    fn a_past_time_is_no_wait() {
        check(Unit::Auto, "1796126399", Some(0));
        check(Unit::Rfc3339, "2026-12-01T11:59:59Z", Some(0));
        check(Unit::HttpDate, "Tue, 01 Dec 2026 11:59:29 GMT", Some(0));
    }

    fn rule(header: &str) -> FieldRule {
        FieldRule {
            header: header.into(),
            dimension: "requests".into(),
            what: What::Limit,
            unit: Unit::Auto,
            reach: Reach::Account,
            window: None,
        }
    }

    #[test]
    fn a_field_is_found_whatever_its_case() {
        let names = ["x-b", "x-a", "x-ab", "retry-after-ms"];
        let fields = names.map(rule).into_iter().collect();
        let dialect = Dialect::new(fields, MessageClock::Unknown).unwrap();
        for name in ["X-A", "x-ab", "X-aB", "x-b", "Retry-After-Ms"] {
            assert_eq!(
                dialect.rule(name).unwrap().header,
                name.to_ascii_lowercase()
            );
        }
        assert_eq!(dialect.rule("x-"), None);
        assert_eq!(dialect.rule(""), None);
    }

    #[test]
    fn rules_that_could_not_be_meant_are_named() {
        let dialect = |fields| Dialect::new(fields, MessageClock::Unknown);
        let twice = dialect(vec![rule("x-a"), rule("x-b"), rule("x-a")]);
        assert_eq!(twice, Err(DialectError::Twice("x-a".into())));
        assert_eq!(
            dialect(vec![rule("X-A")]),
            Err(DialectError::Name("X-A".into()))
        );
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

    #[test]
    fn every_word_names_its_variant() {
        for what in What::ALL {
            assert_eq!(What::parse(what.word()), Some(*what));
        }
        for unit in Unit::ALL {
            assert_eq!(Unit::parse(unit.word()), Some(*unit));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in "\\PC{0,60}") {
            for unit in Unit::ALL {
                let _ = unit.span(&text, NOON);
            }
        }
    }
}
