//! How long to stay away, when an answer says it several times.
//!
//! Which of them counts, in this order:
//!
//! | wait | when |
//! |---|---|
//! | the longest of `Retry-After` and the vendor's own fields | a vendor's field shortens the standard one only where that is the same wait rounded up |
//! | the body's own field | if it is longer, or the same wait before rounding to whole seconds |
//! | the message's sentence | if there is neither, or a field in whole seconds has cut its fraction |
//! | the reset of the limit that is used up | if a limit refused and there is none of the above |
//! | the documented wait of the rule | if there is none of the above |
//!
//! Worked (Discord): `Retry-After: 901` and `"retry_after": 900.41` are the same
//! wait, so 900.41 s. Worked (two limits): 40 requests left, back in 1 s, and 0
//! tokens left, back in 8 s: a refusal without a hint means 8 s.

use super::dialect::{Dialect, FieldRule, What};
use super::retry_after::{self, Hint};
use super::{AnsweredAt, Malformed, Reading, text, values};
use crate::time::Span;

/// A wait, and in words where it comes from.
pub(crate) type Wait = (Span, &'static str);

/// In words where a wait comes from that only the documentation names.
pub const DOCUMENTED: &str = "the provider's documented wait";

/// The longest wait that a header field names; `vendor` is that of the
/// provider's own fields.
pub(crate) fn from_headers(
    status: u16,
    headers: &[(&str, &[u8])],
    vendor: Option<Span>,
    at: AnsweredAt,
    malformed: &mut Malformed,
) -> Option<Wait> {
    let mut standard = Hint::default();
    for value in values(headers, "retry-after") {
        match text(value) {
            Some(value) => {
                let one = retry_after::read([value], at);
                standard.wait = standard.wait.max(one.wait);
                standard.malformed |= one.malformed;
            }
            None => standard.malformed = true,
        }
    }
    if standard.malformed {
        malformed.note("retry-after");
    }
    let standard = standard.wait.map(|wait| (wait, retry_after_source(status)));
    let vendor = vendor.map(|wait| (wait, "the provider's retry header"));
    more_exact(standard, vendor)
}

/// In words where the standard field came from, as R-LEDGER-3 shows it.
const fn retry_after_source(status: u16) -> &'static str {
    match status {
        403 => "HTTP 403 Retry-After",
        429 => "HTTP 429 Retry-After",
        503 => "HTTP 503 Retry-After",
        529 => "HTTP 529 Retry-After",
        _ => "Retry-After",
    }
}

/// The wait until a used-up limit is back.
///
/// A moment in whole seconds since 1970 may be meant up to a second later, for
/// it was cut, and it is read against a `Date` that was cut as well. Whoever
/// comes back at its first instant is refused again, so its second is waited out.
/// Worked: `Date` 12:00:00, reset 12:00:10, really back at 12:00:10.5: 11 s.
pub(crate) fn until_reset(
    headers: &[(&str, &[u8])],
    dialect: &Dialect,
    reading: &Reading,
) -> Option<Span> {
    let tells = |rule: &FieldRule, value: &[u8]| {
        let of_it = rule.dimension == reading.dimension && rule.reach == reading.reach;
        let tells = of_it && matches!(rule.what, What::Reset | What::Full);
        tells && text(value).is_some_and(|value| rule.unit.is_whole_epoch(value))
    };
    let is_epoch = |(name, value): &(&str, &[u8])| {
        let (rules, _) = dialect.rules(name);
        rules.iter().any(|rule| tells(rule, value))
    };
    let reset = reading.back_after()?;
    // A moment that is past needs no second more: it is no hint any longer.
    if reset.is_zero() || !headers.iter().any(is_epoch) {
        return Some(reset);
    }
    Some(reset + Span::from_secs(1))
}

/// The waits that an error names, by where they stand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Said {
    /// In header fields.
    pub(crate) header: Option<Wait>,
    /// In a field of the body.
    pub(crate) body: Option<Span>,
    /// In the message's sentence.
    pub(crate) message: Option<Span>,
    /// The reset of the limit that is used up, if a limit refused.
    pub(crate) exhausted: Option<Span>,
    /// In the provider's documentation.
    pub(crate) documented: Option<Span>,
}

impl Said {
    /// The wait that counts.
    pub(crate) fn decide(self) -> Option<Wait> {
        let body = self.body.map(|wait| (wait, "the provider's error body"));
        let message = self
            .message
            .map(|wait| (wait, "the provider's error message"));
        let exhausted = self
            .exhausted
            .map(|wait| (wait, "reset of the exhausted limit"));
        let documented = self.documented.map(|wait| (wait, DOCUMENTED));
        let field = more_exact(self.header, body);
        let is_whole = |span: Span| span.as_micros().is_multiple_of(1_000_000);
        let is_cut = |field: Wait, message: Wait| {
            let is_longer = field.0 < message.0 && message.0 < field.0 + Span::from_secs(1);
            is_longer && is_whole(field.0) && !is_whole(message.0)
        };
        match (field, message) {
            (Some(field), Some(message)) if is_cut(field, message) => Some(message),
            (field, message) => field.or(message).or(exhausted).or(documented),
        }
    }
}

/// The finer wait if it is longer than the coarse one, or less than a second
/// shorter: then the coarse one is the same wait rounded up to whole seconds.
/// Equal waits are named by the coarse one, which is the standard's.
fn more_exact(coarse: Option<Wait>, fine: Option<Wait>) -> Option<Wait> {
    match (coarse, fine) {
        (Some(coarse), Some(fine)) => {
            let rounded_up = coarse.0.saturating_sub(fine.0) < Span::from_secs(1);
            Some(if rounded_up && fine.0 != coarse.0 {
                fine
            } else {
                coarse
            })
        }
        (coarse, fine) => coarse.or(fine),
    }
}

#[cfg(test)]
mod tests {
    use crate::observe::tables::{generic, generic_rules};
    use crate::observe::{ErrorBody, Facts, Meaning, read};
    use crate::time::{Span, WallTime};
    use proptest::prelude::*;

    /// Our clock is four seconds ahead of the answers' own.
    const ARRIVED: WallTime = WallTime::from_secs(1_796_126_404);
    const DATE: (&str, &[u8]) = ("Date", b"Tue, 01 Dec 2026 12:00:00 GMT");

    fn facts(status: u16, fields: &[(&str, &str)], body: Option<ErrorBody<'_>>) -> Facts {
        let mut headers: Vec<_> = fields.iter().map(|(n, v)| (*n, v.as_bytes())).collect();
        headers.push(DATE);
        read(
            status,
            &headers,
            body.as_ref(),
            &generic(),
            &generic_rules(),
            ARRIVED,
        )
    }

    fn says(message: &str) -> Option<ErrorBody<'_>> {
        Some(ErrorBody {
            message: Some(message),
            ..ErrorBody::default()
        })
    }

    fn hints(wait_us: u64) -> Option<ErrorBody<'static>> {
        Some(ErrorBody {
            retry_after: Some(Span::from_micros(wait_us)),
            ..ErrorBody::default()
        })
    }

    #[track_caller]
    fn check(facts: &Facts, expected: Option<(u64, &str)>) {
        let wait = facts
            .retry_after
            .map(Span::as_micros)
            .zip(facts.retry_source);
        assert_eq!(wait, expected, "{facts:?}");
        assert_eq!(facts.retry_after.is_some(), facts.retry_source.is_some());
    }

    #[test]
    fn a_vendors_field_lengthens_the_standard_one_or_says_what_was_rounded() {
        let both = |standard, vendor| {
            facts(
                429,
                &[("Retry-After", standard), ("retry-after-ms", vendor)],
                None,
            )
        };
        check(
            &both("20", "1500"),
            Some((20_000_000, "HTTP 429 Retry-After")),
        );
        check(
            &both("2", "2500.5"),
            Some((2_500_500, "the provider's retry header")),
        );
        check(
            &both("2", "1240"),
            Some((1_240_000, "the provider's retry header")),
        );
        check(
            &both("2", "1000"),
            Some((2_000_000, "HTTP 429 Retry-After")),
        );
        check(
            &both("soon", "1500"),
            Some((1_500_000, "the provider's retry header")),
        );
    }

    #[test]
    fn a_body_is_believed_where_the_header_only_rounds_it() {
        let both = |header, us| facts(429, &[("retry-after", header)], hints(us));
        check(
            &both("901", 900_410_000),
            Some((900_410_000, "the provider's error body")),
        );
        check(
            &both("13", 12_340_000),
            Some((12_340_000, "the provider's error body")),
        );
        check(
            &both("13", 12_000_000),
            Some((13_000_000, "HTTP 429 Retry-After")),
        );
        check(
            &both("2", 10_000_000),
            Some((10_000_000, "the provider's error body")),
        );
        check(
            &facts(429, &[], hints(0)),
            Some((0, "the provider's error body")),
        );
    }

    #[test]
    fn a_sentence_is_believed_where_no_field_speaks_or_cuts_it() {
        let sentence = || says("Please try again in 1.9s.");
        check(
            &facts(429, &[], sentence()),
            Some((1_900_000, "the provider's error message")),
        );
        let header = facts(429, &[("retry-after", "2")], sentence());
        check(&header, Some((2_000_000, "HTTP 429 Retry-After")));
        let cut = facts(429, &[("retry-after", "1")], sentence());
        check(&cut, Some((1_900_000, "the provider's error message")));
        let other = facts(
            429,
            &[("retry-after", "1")],
            says("Please try again in 2s."),
        );
        check(&other, Some((1_000_000, "HTTP 429 Retry-After")));
    }

    #[test]
    fn the_exhausted_limit_decides_and_not_the_first_one() {
        let fields = [
            ("x-ratelimit-remaining-requests", "40"),
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-remaining-tokens", "0"),
            ("x-ratelimit-reset-tokens", "8s"),
        ];
        let refused = facts(429, &fields, None);
        check(&refused, Some((8_000_000, "reset of the exhausted limit")));
        assert_eq!(refused.exhausted().unwrap().dimension, "tokens");
        check(&facts(200, &fields, None), None);
        let both = [&fields[1..], &[("x-ratelimit-remaining-requests", "0")]].concat();
        check(
            &facts(429, &both, None),
            Some((8_000_000, "reset of the exhausted limit")),
        );
        check(&facts(500, &fields, None), None);
    }

    #[test]
    fn a_reset_is_counted_from_the_answers_own_date() {
        let epoch = [
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "1796126410"),
        ];
        let limited = facts(403, &epoch, says("API rate limit exceeded"));
        assert_eq!(limited.meaning, Meaning::RateLimited);
        // Both seconds were cut, so the second that is named is waited out.
        check(&limited, Some((11_000_000, "reset of the exhausted limit")));
        let headers: Vec<_> = epoch.iter().map(|(n, v)| (*n, v.as_bytes())).collect();
        let undated = read(429, &headers, None, &generic(), &[], ARRIVED);
        check(&undated, Some((7_000_000, "reset of the exhausted limit")));
    }

    #[test]
    fn only_a_moment_in_whole_seconds_is_waited_out() {
        let wait = |reset: &str| {
            let fields = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", reset)];
            facts(429, &fields, None).retry_after
        };
        assert_eq!(wait("10"), Some(Span::from_secs(10)));
        assert_eq!(wait("1796126410000"), Some(Span::from_secs(10)));
        assert_eq!(wait("1796126410"), Some(Span::from_secs(11)));
        assert_eq!(wait("1796126399"), Some(Span::ZERO));
    }

    #[test]
    fn a_documented_wait_is_the_last_resort() {
        let hidden = says("You have exceeded a secondary rate limit");
        let bare = facts(403, &[], hidden);
        check(&bare, Some((60_000_000, "the provider's documented wait")));
        let told = facts(403, &[("retry-after", "5")], hidden);
        check(&told, Some((5_000_000, "HTTP 403 Retry-After")));
    }

    #[test]
    fn the_retry_after_is_for_this_call_and_the_longer_reset_for_the_scope() {
        let fields = [
            ("retry-after", "10"),
            ("ratelimit", r#""default";r=0;t=50"#),
        ];
        let refused = facts(429, &fields, None);
        check(&refused, Some((10_000_000, "HTTP 429 Retry-After")));
        assert_eq!(
            refused.exhausted().unwrap().reset_after,
            Some(Span::from_secs(50))
        );
    }

    proptest! {
        #[test]
        fn a_well_formed_retry_after_is_never_shortened_by_a_second(
            standard in 0u64..100_000, vendor_ms in 0u64..100_000_000, reset in 0u64..100_000
        ) {
            let (standard_text, vendor) = (standard.to_string(), vendor_ms.to_string());
            let reset = reset.to_string();
            let facts = facts(429, &[
                ("retry-after", &standard_text),
                ("retry-after-ms", &vendor),
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset", &reset),
            ], None);
            let least = Span::from_secs(standard).saturating_sub(Span::from_millis(999));
            prop_assert!(facts.retry_after >= Some(least));
        }
    }
}
