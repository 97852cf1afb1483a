//! How providers write times: one name, six forms.
//!
//! `…-reset` is a number of seconds, an epoch in seconds or milliseconds, a Go
//! duration, an RFC 3339 time or an HTTP-date. A preset *states* the form;
//! [`Unit::Auto`] is the fallback where nothing is known. It tells the forms
//! apart like this, the first that fits wins:
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

use super::quantity::{self, Scale};
use super::{AnsweredAt, dates};
use crate::time::{Span, WallTime};

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

    #[test]
    fn every_word_names_its_variant() {
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
