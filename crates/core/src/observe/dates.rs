//! Points in time as providers write them: HTTP-dates and RFC 3339 times.
//!
//! Both become a [`WallTime`]; nothing here asks what time it is. HTTP-dates
//! are the three forms of RFC 9110 §5.6.7, read by the `httpdate` crate, which
//! also checks that the weekday belongs to the date. RFC 3339 times are read
//! here, because vendors bend them: Jira leaves out the seconds, and messages
//! for people leave out the zone.
//!
//! Worked: `2026-12-01T13:00+01:00` is 12:00:00 UTC. A fraction of a second is
//! rounded up, so that nobody comes back before the moment that was named.
//!
//! Source of the day count: the days-from-civil algorithm published by Howard
//! Hinnant ("chrono-Compatible Low-Level Date Algorithms"), written anew.

use crate::time::WallTime;

/// Longest text that can be a time; longer ones are not looked at.
const TIME_BYTES_MAX: usize = 64;

/// Whether a time without a zone may be read, and as what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zone {
    /// The zone must be written; without it there is no time.
    Written,
    /// A missing zone is UTC, because the preset says so.
    UtcIfSilent,
}

/// One of the three HTTP-date forms; `None` for anything else.
pub(crate) fn http_date(text: &str) -> Option<WallTime> {
    if text.len() > TIME_BYTES_MAX {
        return None;
    }
    let since_epoch = httpdate::parse_http_date(text)
        .ok()?
        .duration_since(std::time::UNIX_EPOCH)
        .ok()?;
    Some(WallTime::from_secs(
        i64::try_from(since_epoch.as_secs()).ok()?,
    ))
}

/// A time of RFC 3339, also with a blank instead of `T` and without seconds.
pub(crate) fn rfc3339(text: &str, zone: Zone) -> Option<WallTime> {
    if text.len() > TIME_BYTES_MAX {
        return None;
    }
    let mut at = Cursor { rest: text };
    let (year, month, day) = (
        at.number(4)?,
        at.then('-')?.number(2)?,
        at.then('-')?.number(2)?,
    );
    at.one_of(&['T', 't', ' '])?;
    let (hour, minute) = (at.number(2)?, at.then(':')?.number(2)?);
    let second = if at.one_of(&[':']).is_some() {
        at.number(2)?
    } else {
        0
    };
    let micros = if at.one_of(&['.']).is_some() {
        at.fraction()?
    } else {
        0
    };
    let offset_minutes = at.offset(zone)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    // A leap second (60) is allowed by the grammar and is the next second here.
    if !(1..=days).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = days_since_epoch(year, month, day) * 86_400
        + (hour * 60 + minute - offset_minutes) * 60
        + second;
    Some(WallTime::from_micros(seconds * 1_000_000 + micros))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar, year 0 to 9999.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last of its year.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// What is left to read.
struct Cursor<'a> {
    rest: &'a str,
}

impl Cursor<'_> {
    /// Exactly `width` digits.
    fn number(&mut self, width: usize) -> Option<i64> {
        let digits = self.rest.get(..width)?;
        if !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        self.rest = &self.rest[width..];
        digits.parse().ok()
    }

    /// This character, or nothing is consumed.
    fn one_of(&mut self, allowed: &[char]) -> Option<char> {
        let c = self.rest.chars().next().filter(|c| allowed.contains(c))?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn then(&mut self, c: char) -> Option<&mut Self> {
        self.one_of(&[c])?;
        Some(self)
    }

    /// The digits behind the point, in microseconds, rounded up.
    fn fraction(&mut self) -> Option<i64> {
        let width = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        if width == 0 {
            return None;
        }
        let digits = self.rest.as_bytes().iter().take(width);
        self.rest = &self.rest[width..];
        let mut micros = 0;
        let mut beyond = false;
        for (place, digit) in digits.enumerate() {
            match place {
                0..=5 => micros += i64::from(digit - b'0') * 10_i64.pow(5 - place as u32),
                _ => beyond |= *digit != b'0',
            }
        }
        Some(micros + i64::from(beyond))
    }

    /// Minutes east of UTC; must be the end of the text.
    fn offset(&mut self, zone: Zone) -> Option<i64> {
        let minutes = match self.one_of(&['Z', 'z', '+', '-']) {
            Some('Z' | 'z') => 0,
            Some(sign) => {
                let (hours, minutes) = (self.number(2)?, self.then(':')?.number(2)?);
                if hours > 23 || minutes > 59 {
                    return None;
                }
                let east = hours * 60 + minutes;
                if sign == '-' { -east } else { east }
            }
            None if zone == Zone::UtcIfSilent => 0,
            None => return None,
        };
        self.rest.is_empty().then_some(minutes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2026-12-01T12:00:00Z.
    const NOON: i64 = 1_796_126_400;

    fn at(offset_s: i64) -> Option<WallTime> {
        Some(WallTime::from_secs(NOON + offset_s))
    }

    #[test]
    fn the_three_forms_of_an_http_date_name_the_same_moment() {
        assert_eq!(http_date("Tue, 01 Dec 2026 12:00:00 GMT"), at(0));
        assert_eq!(http_date("Tuesday, 01-Dec-26 12:00:00 GMT"), at(0));
        assert_eq!(http_date("Tue Dec  1 12:00:00 2026"), at(0));
    }

    #[test]
    fn a_date_that_cannot_be_is_refused() {
        for text in [
            "Wed, 01 Dec 2026 12:00:00 GMT",
            "Tue, 31 Feb 2026 12:00:00 GMT",
            "Tue, 01 Dec 9999999 12:00:00 GMT",
            "Tue, 01 Dec 2026 12:00:00 +0200",
            "Tue, 01 Dec 2026 12:00:00",
            "Tue, 01 Dec 2026 25:00:00 GMT",
            "soon",
            "",
        ] {
            assert_eq!(http_date(text), None, "{text}");
        }
    }

    #[test]
    fn times_of_rfc_3339_are_read_with_any_offset_and_without_seconds() {
        for text in [
            "2026-12-01T12:00:00Z",
            "2026-12-01t12:00:00z",
            "2026-12-01T12:00Z",
            "2026-12-01 12:00:00.000Z",
            "2026-12-01T13:30:00+01:30",
            "2026-11-30T23:59:00-12:01",
        ] {
            assert_eq!(rfc3339(text, Zone::Written), at(0), "{text}");
        }
        let fraction = Some(WallTime::from_micros(NOON * 1_000_000 + 250_001));
        assert_eq!(
            rfc3339("2026-12-01T12:00:00.2500001Z", Zone::Written),
            fraction
        );
    }

    #[test]
    fn a_time_that_cannot_be_is_refused() {
        for text in [
            "2026-13-01T12:00:00Z",
            "2026-02-29T12:00:00Z",
            "2026-12-01T24:00:00Z",
            "2026-12-01T12:60:00Z",
            "2026-12-01T12:00:00",
            "2026-12-01T12:00:00.Z",
            "2026-12-01T12:00:00Zulu",
            "2026-12-01",
            "26-12-01T12:00:00Z",
            "2026-12-01T12:00:00+1:00",
            "２026-12-01T12:00:00Z",
        ] {
            assert_eq!(rfc3339(text, Zone::Written), None, "{text}");
        }
    }

    #[test]
    fn a_missing_zone_is_utc_only_where_the_preset_says_so() {
        assert_eq!(rfc3339("2026-12-01 12:00:00", Zone::Written), None);
        assert_eq!(rfc3339("2026-12-01 12:00:00", Zone::UtcIfSilent), at(0));
    }

    proptest! {
        #[test]
        fn both_calendars_agree_on_every_second(s in 0i64..253_402_300_800) {
            let date = httpdate::fmt_http_date(
                std::time::UNIX_EPOCH + std::time::Duration::from_secs(s as u64),
            );
            // "Tue, 01 Dec 2026 12:00:00 GMT" rearranged.
            const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug",
                "Sep", "Oct", "Nov", "Dec"];
            let month = MONTHS.iter().position(|m| *m == &date[8..11]).unwrap() + 1;
            let iso = format!("{}-{month:02}-{}T{}Z", &date[12..16], &date[5..7], &date[17..25]);
            prop_assert_eq!(http_date(&date), Some(WallTime::from_secs(s)));
            prop_assert_eq!(rfc3339(&iso, Zone::Written), Some(WallTime::from_secs(s)));
        }

        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text in "\\PC{0,70}") {
            let _ = (http_date(&text), rfc3339(&text, Zone::Written), rfc3339(&text, Zone::UtcIfSilent));
        }
    }
}
