//! A wait that the provider only writes into its error message.
//!
//! ```text
//! hint   = phrase value
//! phrase = "retry after " / "try again after " / "retry in " / "try again in "
//!        / "reset at " / "resets at "
//! value  = duration                  ; "1.9s", "10h17m5.7s"
//!        / number SP unit-word       ; "55 seconds", "5 minutes"
//!        / time [ SP "UTC" ]         ; "2026-01-01 05:00:00"
//! ```
//!
//! Only what is certain is read. A time without a zone means nothing unless the
//! preset says that the provider writes UTC; a number without a unit, and any
//! phrase that is not in the table, mean nothing at all. So a sentence can give
//! no hint, but never a wrong one. Of several hints the longest counts.
//!
//! Worked: "Usage limit reached for 5 hour. Resets at 2026-01-01 05:00:00" in an
//! answer of midnight UTC is a wait of five hours where the preset's clock is
//! `utc`, and no hint otherwise.

use super::dialect::MessageClock;
use super::quantity::{self, Scale};
use super::{AnsweredAt, dates};
use crate::time::Span;

/// How the words behind a phrase are read.
#[derive(Clone, Copy)]
enum Form {
    Duration,
    Time,
    Either,
}

const PHRASES: [(&str, Form); 6] = [
    ("retry after ", Form::Either),
    ("try again after ", Form::Either),
    ("retry in ", Form::Duration),
    ("try again in ", Form::Duration),
    ("reset at ", Form::Time),
    ("resets at ", Form::Time),
];

/// The wait that a message names. `message` is in lower case. Cost: a few passes.
pub(crate) fn wait(message: &str, clock: MessageClock, at: AnsweredAt) -> Option<Span> {
    let hints = PHRASES.iter().filter_map(|(phrase, form)| {
        let start = message.find(phrase)? + phrase.len();
        let mut words = message[start..]
            .split_ascii_whitespace()
            .map(without_punctuation);
        let (first, second, third) = (words.next()?, words.next(), words.next());
        let as_time = || time(first, second, third, clock, at);
        match form {
            Form::Duration => duration(first, second),
            Form::Time => as_time(),
            Form::Either => duration(first, second).or_else(as_time),
        }
    });
    hints.max()
}

fn without_punctuation(word: &str) -> &str {
    word.trim_end_matches(['.', ',', ';', ':', '!', ')', '"', '\''])
}

fn duration(value: &str, unit: Option<&str>) -> Option<Span> {
    if let Some(number) = quantity::span(value, Scale::Seconds) {
        let factor = match unit? {
            "ms" | "millisecond" | "milliseconds" => return quantity::span(value, Scale::Millis),
            "s" | "sec" | "secs" | "second" | "seconds" => 1,
            "min" | "mins" | "minute" | "minutes" => 60,
            "h" | "hour" | "hours" => 3_600,
            "day" | "days" => 86_400,
            _ => return None,
        };
        return Some(number.saturating_mul(factor));
    }
    quantity::go_duration(value)
}

fn time(
    first: &str,
    second: Option<&str>,
    third: Option<&str>,
    clock: MessageClock,
    at: AnsweredAt,
) -> Option<Span> {
    let is_utc = |word: Option<&str>| matches!(word, Some("utc" | "gmt"));
    let (text, says_utc) = if first.contains('t') {
        (first.to_owned(), is_utc(second))
    } else {
        (format!("{first} {}", second?), is_utc(third))
    };
    let zone = match clock {
        MessageClock::Utc => dates::Zone::UtcIfSilent,
        MessageClock::Unknown if says_utc => dates::Zone::UtcIfSilent,
        MessageClock::Unknown => dates::Zone::Written,
    };
    dates::rfc3339(&text, zone).map(|time| time.since(at.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::WallTime;
    use proptest::prelude::*;

    /// 2026-01-01T00:00:00Z.
    const MIDNIGHT: AnsweredAt = AnsweredAt(WallTime::from_secs(1_767_225_600));

    #[track_caller]
    fn check(message: &str, clock: MessageClock, expected_ms: Option<u64>) {
        let got = wait(&message.to_ascii_lowercase(), clock, MIDNIGHT);
        assert_eq!(got, expected_ms.map(Span::from_millis), "{message}");
    }

    #[test]
    fn a_duration_behind_a_known_phrase_is_a_hint() {
        for (message, ms) in [
            ("Please retry after 55 seconds.", 55_000),
            ("Please retry after 86400 seconds.", 86_400_000),
            ("Please try again after 60 seconds.", 60_000),
            ("Rate limit reached. Please try again in 1.9s.", 1_900),
            ("Please try again in 250 ms", 250),
            ("Try again in 5 minutes, or ask for more.", 300_000),
            ("Please retry in 6m0s", 360_000),
            ("retry after 2 seconds or try again in 3s", 3_000),
        ] {
            check(message, MessageClock::Unknown, Some(ms));
        }
    }

    #[test]
    fn a_time_is_a_hint_only_where_its_zone_is_certain() {
        let silent = "Usage limit reached for 5 hour. Resets at 2026-01-01 05:00:00";
        check(silent, MessageClock::Utc, Some(5 * 3_600_000));
        check(silent, MessageClock::Unknown, None);
        let certain = [
            "Resets at 2026-01-01 05:00:00 UTC.",
            "Resets at 2026-01-01T05:00:00Z.",
            "Your quota will reset at 2026-01-01T06:00:00+01:00",
            "User-rate limit exceeded.  Retry after 2026-01-01T05:00:00.000Z",
            "Too many calls. Try again after 2026-01-01 05:00:00 UTC.",
        ];
        for message in certain {
            check(message, MessageClock::Unknown, Some(5 * 3_600_000));
        }
    }

    #[test]
    fn no_time_is_invented() {
        for message in [
            "Please retry after a while.",
            "Please retry after 55",
            "Please retry after 55 elephants",
            "Please retry after -5 seconds",
            "You have 30 seconds of quota.",
            "Resets at noon",
            "Retry after 2026-01-01",
            "Retry after the 2026-01-01T05:00:00Z release",
            "Resets at 05:00",
            "Resets at 2026-01-01",
            "try again in ",
            "",
        ] {
            check(message, MessageClock::Utc, None);
        }
    }

    proptest! {
        #[test]
        fn any_sentence_is_read_or_passed_over_without_a_panic(
            before in "\\PC{0,20}", phrase in 0..PHRASES.len(), after in "\\PC{0,40}"
        ) {
            let message = format!("{before}{}{after}", PHRASES[phrase].0);
            let _ = wait(&message, MessageClock::Utc, MIDNIGHT);
        }
    }
}
