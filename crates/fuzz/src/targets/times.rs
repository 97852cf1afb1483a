//! Times as providers write them: a wait that is written comes back as it was meant,
//! and no text is read as a longer one than it says.

use rategov_core::observe::dialect::Unit;
use rategov_core::observe::{AnsweredAt, retry_after};
use rategov_core::time::{Span, WallTime};

use crate::Target;
use crate::input::{Input, NOON};

/// `Retry-After`, one field a line.
pub(super) const RETRY_AFTER: Target = Target {
    name: "retry_after",
    holds: "the longest member counts, a written date or delay is read exactly, order and repetition don't matter",
    check: check_retry_after,
    seeds: || {
        [
            "30",
            "0.25, 7",
            "Tue, 01 Dec 2026 12:00:30 GMT",
            "Tuesday, 01-Dec-26 12:02:00 GMT, 5\nTue Dec  1 12:03:00 2026",
            "-5, +3, 120junk, NaN, 1e308",
            "18446744073709551615",
            "Fri, 31 Dec 9999 23:59:59 GMT",
        ]
        .map(|text| [&[7; 9], text.as_bytes()].concat())
        .to_vec()
    },
};

fn check_retry_after(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (kind, number) = (input.byte(), input.number());
    let text = input.text();
    let lines: Vec<&str> = text.split('\n').collect();
    let at = AnsweredAt(NOON);
    let all = retry_after::read(lines.iter().copied(), at);

    let each = lines.iter().map(|line| retry_after::read([*line], at));
    let longest = each.clone().filter_map(|hint| hint.wait).max();
    assert_eq!(all.wait, longest, "the longest of several fields counts");
    assert_eq!(all.malformed, each.clone().any(|hint| hint.malformed));
    let backwards = retry_after::read(lines.iter().rev().copied(), at);
    assert_eq!(backwards, all, "their order means nothing");
    if all.wait.is_some() {
        let digits = text.bytes().any(|byte| byte.is_ascii_digit());
        assert!(digits, "a wait without a digit: {text:?}");
    }

    let (written, meant) = match kind % 2 {
        0 => (number.to_string(), Span::from_secs(number)),
        _ => {
            let date = WallTime::from_secs(date_of(number).as_micros().div_euclid(1_000_000));
            let (form, meant) = (kind / 2 % 3, date.since(NOON));
            (http_date(date, form), meant)
        }
    };
    let hint = retry_after::read([written.as_str()], at);
    assert_eq!(
        (hint.wait, hint.malformed),
        (Some(meant), false),
        "{written}"
    );
    // A well-formed member beside others is never shortened.
    let joined = retry_after::read([written.as_str(), text.as_str()], at);
    assert!(joined.wait >= Some(meant), "{written} beside {text:?}");
}

/// The forms of times of vendors' fields.
pub(super) const UNITS: Target = Target {
    name: "units",
    holds: "what one form writes it reads exactly, longer digits never mean a shorter wait, and `auto` agrees with the form it takes",
    check: check_units,
    seeds: || {
        [
            "6m0s",
            "23h18m29.144s",
            "12ms",
            "1796126412",
            "1796126412500",
            "1.25",
            "2026-12-01T12:00:58Z",
            "2026-12-01 13:00+01:00",
            "Tue, 01 Dec 2026 12:00:29 GMT",
            "99999999999999999999999999h",
            "0",
            "-1",
            "1e308",
            "2026-02-29T00:00:60.9-23:59",
        ]
        .map(|text| [&[5; 9], text.as_bytes()].concat())
        .to_vec()
    },
};

fn check_units(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (kind, number) = (input.byte(), input.number());
    let text = input.text();
    let at = AnsweredAt(NOON);
    let of_auto = Unit::Auto.span(&text, at);
    let mut others = Unit::ALL.iter().filter(|unit| **unit != Unit::Auto);
    let agrees = others.any(|unit| unit.span(&text, at) == of_auto);
    assert!(
        of_auto.is_none() || agrees,
        "`auto` has a form of its own: {text:?}"
    );
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        for unit in [
            Unit::Seconds,
            Unit::Millis,
            Unit::EpochSeconds,
            Unit::EpochMillis,
        ] {
            let longer = unit.span(&format!("{text}0"), at);
            assert!(longer >= unit.span(&text, at), "{unit:?} {text}");
        }
    }

    let date = date_of(number);
    let micros = date.as_micros();
    let small = number % 1_000_000_000_000;
    let (unit, written, meant) = match kind % 7 {
        0 => (Unit::Seconds, number.to_string(), Span::from_secs(number)),
        1 => (Unit::Millis, number.to_string(), Span::from_millis(number)),
        2 => {
            let seconds = micros.div_euclid(1_000_000).max(0);
            let date = WallTime::from_secs(seconds);
            (Unit::EpochSeconds, seconds.to_string(), date.since(NOON))
        }
        3 => {
            let millis = micros.div_euclid(1_000).max(0);
            let date = WallTime::from_micros(millis * 1_000);
            (Unit::EpochMillis, millis.to_string(), date.since(NOON))
        }
        4 => (
            Unit::GoDuration,
            go_duration(small),
            Span::from_micros(small),
        ),
        5 => (Unit::Rfc3339, rfc3339(date), date.since(NOON)),
        _ => {
            let date = WallTime::from_secs(micros.div_euclid(1_000_000));
            (Unit::HttpDate, http_date(date, 0), date.since(NOON))
        }
    };
    assert_eq!(unit.span(&written, at), Some(meant), "{unit:?} {written}");
}

/// A moment from 1970 to the end of 9999.
fn date_of(number: u64) -> WallTime {
    const END: u64 = 253_402_300_800 * 1_000_000;
    WallTime::from_micros((number % END) as i64)
}

/// Year, month, day, weekday from Sunday, and the seconds of the day, by counting.
fn civil(date: WallTime) -> (u64, usize, u64, usize, u64) {
    let seconds = date.as_micros().div_euclid(1_000_000) as u64;
    let (mut day, second) = (seconds / 86_400, seconds % 86_400);
    let weekday = (day + 4) % 7;
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    // Whole cycles of 400 years first, so that the count ends soon.
    let mut year = 1970 + 400 * (day / 146_097);
    day %= 146_097;
    loop {
        let days = if is_leap(year) { 366 } else { 365 };
        if day < days {
            break;
        }
        (day, year) = (day - days, year + 1);
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 0;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        (day, month) = (day - days, month + 1);
    }
    (year, month, day + 1, weekday as usize, second)
}

fn http_date(date: WallTime, form: u8) -> String {
    const DAYS: [&str; 7] = [
        "Sunday",
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
    ];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (year, month, day, weekday, second) = civil(date);
    let time = format!(
        "{:02}:{:02}:{:02}",
        second / 3_600,
        second / 60 % 60,
        second % 60
    );
    let (name, month) = (DAYS[weekday], MONTHS[month]);
    let short = &name[..3];
    match form {
        // Two digits of a year stand for 1970 to 2069 only.
        1 if (1970..2070).contains(&year) => {
            format!("{name}, {day:02}-{month}-{:02} {time} GMT", year % 100)
        }
        2 => format!("{short} {month} {day:>2} {time} {year:04}"),
        _ => format!("{short}, {day:02} {month} {year:04} {time} GMT"),
    }
}

fn rfc3339(date: WallTime) -> String {
    let (year, month, day, _, second) = civil(date);
    let micros = date.as_micros().rem_euclid(1_000_000);
    format!(
        "{year:04}-{:02}-{day:02}T{:02}:{:02}:{:02}.{micros:06}Z",
        month + 1,
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

/// As Go prints a duration: `1h2m3.000004s`.
fn go_duration(micros: u64) -> String {
    let (seconds, part) = (micros / 1_000_000, micros % 1_000_000);
    format!(
        "{}h{}m{}.{part:06}s",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    )
}
