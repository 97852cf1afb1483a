//! Days and months of the calendar, in UTC, on a clock that starts at some wall
//! time. Example: started on 2026-01-31T23:00Z, the first day ends after an hour,
//! and so does the month; the second month lasts 28 days.
//!
//! Months by Howard Hinnant, "chrono-compatible low-level date algorithms" (2013).

use rategov_core::time::{Moment, Span, WallTime};

/// A piece of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// From midnight to midnight.
    Day,
    /// From the first to the first.
    Month,
}

/// The page around a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Around {
    /// A number that grows by one from page to page.
    pub(super) index: u64,
    /// Its length.
    pub(super) length: Span,
    /// Until its end.
    pub(super) left: Span,
}

const DAY: i64 = 86_400_000_000;

impl Page {
    /// The page around `now` on a clock that showed `start` at its beginning.
    pub(super) fn around(self, now: Moment, start: WallTime) -> Around {
        let wall = (start + now.since(Moment::START)).as_micros();
        let (index, first, end) = match self {
            Page::Day => {
                let day = wall.div_euclid(DAY);
                (day, day.saturating_mul(DAY), (day + 1).saturating_mul(DAY))
            }
            Page::Month => month(wall),
        };
        let span = |micros: i64| Span::from_micros(u64::try_from(micros).unwrap_or(0));
        Around {
            index: u64::try_from(index).unwrap_or(0),
            length: span(end - first),
            left: span(end - wall),
        }
    }
}

/// Number, first and end of the month around a wall time.
fn month(wall: i64) -> (i64, i64, i64) {
    let index = month_of(wall.div_euclid(DAY));
    let starts = |index| first_day(index).saturating_mul(DAY);
    (index, starts(index), starts(index + 1))
}

/// The month, counted from the year 0, of a day counted from 1970.
fn month_of(day: i64) -> i64 {
    // Eras of 400 years that begin on 1 March.
    let day = day + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    (era * 400 + year) * 12 + from_march + 2
}

/// The first day, counted from 1970, of a month counted from the year 0.
fn first_day(month: i64) -> i64 {
    let (year, from_march) = ((month - 2).div_euclid(12), (month - 2).rem_euclid(12));
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * from_march + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_with_the_day_or_the_month() {
        // 2026-01-31T23:00:00Z.
        let start = WallTime::from_secs(1_769_900_400);
        let (now, hour) = (Moment::START, Span::from_secs(3_600));
        let days = |n: u64| Span::from_secs(n * 86_400);
        let check = |page: Page, at: Moment, length, left| {
            let around = page.around(at, start);
            assert_eq!((around.length, around.left), (length, left), "{page:?}");
            around.index
        };
        let first = check(Page::Day, now, days(1), hour);
        let next = check(Page::Day, now + hour, days(1), days(1));
        assert_eq!(next, first + 1);
        let first = check(Page::Month, now, days(31), hour);
        let next = check(Page::Month, now + hour, days(28), days(28));
        assert_eq!(next, first + 1);
    }

    #[test]
    fn months_meet_and_have_their_days() {
        let lengths = |year: i64| -> Vec<i64> {
            (year * 12..year * 12 + 12)
                .map(|month| first_day(month + 1) - first_day(month))
                .collect()
        };
        let common = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        assert_eq!(lengths(2026), common);
        assert_eq!(lengths(1900), common);
        assert_eq!((lengths(2028)[1], lengths(2000)[1]), (29, 29));
        assert_eq!(first_day(1970 * 12), 0);
        assert!((-800_000..800_000).all(|day| {
            let month = month_of(day);
            first_day(month) <= day && day < first_day(month + 1)
        }));
    }
}
