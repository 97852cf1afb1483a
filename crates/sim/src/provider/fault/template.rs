//! Field values that depend on when the answer is given.
//!
//! | written | means |
//! |---|---|
//! | `<now>` `<T>` `<T0>` | the moment of the answer: HTTP-date in `date` and `retry-after`, else epoch seconds |
//! | `<T+10>` `<now+3s>` | so many seconds later, in the same form |
//! | `<T0+4s IMF-fixdate>` | an HTTP-date |
//! | `<now+3s RFC 3339>` | `2026-01-01T00:00:03Z` |
//! | `<T+10 epoch>` `<T+10 epoch-ms>` | seconds or milliseconds since 1970 |
//! | `<remaining s>` `<floor(remaining s)>` | whole seconds, rounded down, that the step still stays |
//!
//! Everything else is taken as it is.

use std::time::{Duration, SystemTime};

use rategov_core::time::{Span, WallTime};

/// Why a field value can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the placeholder {0:?} means nothing\nhint: write for example <now+3s>, <now+3s IMF-fixdate>, \
     <now+3s RFC 3339>, <T+10 epoch> or <remaining s>"
)]
pub struct TemplateError(pub String);

/// A field value, perhaps with a moment to be filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Template {
    /// Exactly this text.
    Text(String),
    /// The moment of the answer plus a span, in a form.
    Moment(Span, Form),
    /// Whole seconds that the step still stays in the script.
    Remaining,
}

/// How a moment is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `Thu, 01 Jan 2026 00:00:00 GMT`.
    HttpDate,
    /// `2026-01-01T00:00:00Z`.
    Rfc3339,
    /// Seconds since 1970.
    EpochSeconds,
    /// Milliseconds since 1970.
    EpochMillis,
}

/// The moments that a template can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// When the answer is given.
    pub wall: WallTime,
    /// How long the step still stays.
    pub remaining: Span,
}

impl Template {
    /// Reads the value of the field `name`.
    ///
    /// # Errors
    /// If it opens a placeholder that means nothing.
    pub fn parse(name: &str, value: &str) -> Result<Template, TemplateError> {
        let Some(inner) = value.strip_prefix('<').and_then(|v| v.strip_suffix('>')) else {
            return Ok(Template::Text(value.to_owned()));
        };
        if matches!(inner, "remaining s" | "floor(remaining s)") {
            return Ok(Template::Remaining);
        }
        let error = || TemplateError(value.to_owned());
        let (moment, form) = inner.split_once(' ').unwrap_or((inner, ""));
        let (base, offset) = moment.split_once('+').unwrap_or((moment, "0"));
        if !matches!(base, "now" | "T" | "T0") {
            return Err(error());
        }
        let seconds = offset
            .strip_suffix('s')
            .unwrap_or(offset)
            .parse()
            .map_err(|_| error())?;
        let dated = ["date", "retry-after", "last-modified", "expires"];
        let form = match form {
            "IMF-fixdate" => Form::HttpDate,
            "RFC 3339" => Form::Rfc3339,
            "epoch" => Form::EpochSeconds,
            "epoch-ms" => Form::EpochMillis,
            "" if dated.iter().any(|d| name.eq_ignore_ascii_case(d)) => Form::HttpDate,
            "" => Form::EpochSeconds,
            _ => return Err(error()),
        };
        Ok(Template::Moment(Span::from_secs(seconds), form))
    }

    /// The value at these times.
    pub fn fill(&self, times: Times) -> String {
        match self {
            Template::Text(text) => text.clone(),
            Template::Moment(offset, form) => form.write(times.wall + *offset),
            Template::Remaining => (times.remaining.as_micros() / 1_000_000).to_string(),
        }
    }
}

impl Form {
    /// The moment in this form; moments before 1970 count as its start.
    pub fn write(self, wall: WallTime) -> String {
        let us = wall.as_micros().max(0);
        match self {
            Form::HttpDate => {
                let since = Duration::from_micros(us.unsigned_abs());
                httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since)
            }
            Form::Rfc3339 => jiff::Timestamp::from_second(us / 1_000_000)
                .map_or_else(|_| String::new(), |moment| moment.to_string()),
            Form::EpochSeconds => (us / 1_000_000).to_string(),
            Form::EpochMillis => (us / 1_000).to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, value: &str, expected: &str) {
        let times = Times {
            wall: WallTime::from_secs(1_767_225_600), // 2026-01-01T00:00:00Z
            remaining: Span::from_millis(2_900),
        };
        let template = Template::parse(name, value).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(template.fill(times), expected, "{name}: {value}");
    }

    #[test]
    fn each_placeholder_becomes_its_moment() {
        check("retry-after", "3", "3");
        check("date", "<T0 IMF-fixdate>", "Thu, 01 Jan 2026 00:00:00 GMT");
        check(
            "retry-after",
            "<T0+4s IMF-fixdate>",
            "Thu, 01 Jan 2026 00:00:04 GMT",
        );
        check("date", "<T>", "Thu, 01 Jan 2026 00:00:00 GMT");
        check("x-ratelimit-reset", "<T+10>", "1767225610");
        check("x-ratelimit-reset", "<now+10s epoch-ms>", "1767225610000");
        check(
            "anthropic-ratelimit-requests-reset",
            "<now+3s RFC 3339>",
            "2026-01-01T00:00:03Z",
        );
        check("retry-after", "<floor(remaining s)>", "2");
    }

    #[test]
    fn an_unknown_placeholder_is_an_error_and_not_a_literal() {
        for value in ["<soon>", "<T+x>", "<now+3s stardate>"] {
            assert_eq!(
                Template::parse("x", value),
                Err(TemplateError(value.to_owned()))
            );
        }
    }
}
