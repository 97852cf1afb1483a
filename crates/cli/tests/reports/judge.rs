//! What a report expects, held against what was seen.
//!
//! Texts of the common forms are read; a text that nobody can read is a failure
//! of the test, so that no expectation is passed over in silence. The forms:
//!
//! | text | of |
//! |---|---|
//! | `[each\|second\|first] gap >= A ms [and] <= B ms` | gaps between an answer and the next arrival |
//! | `first gap >= A ms, second gap >= B ms` | the same, one by one |
//! | `gaps >= A ms and growing` | the same |
//! | `no N ms window [holds\|has] [more than\|above] K [starts]` | arrivals |
//! | `[all] done [by\|within] T` | the last answer to a caller |
//! | `[client\|both\|first] answered within N ms` | the time from call to answer |
//! | `answered by T ms at the latest` | the last answer |
//! | `last call at >= A ms and <= B ms` | the last arrival |
//! | `no repeat before T ms`, `no upstream call between 0 and T ms` | arrivals after the first |
//! | `no upstream call after t=T` | arrivals |
//! | `last five start at >= T ms`, `second ten start at >= T ms` | the last so many arrivals |
//! | `zero 429 …` | answers of the provider |
//! | `x-should-retry: false on …` | answers to callers |
//! | `orders executed = N`, `messages created = N`, `charges = N` | effects at the provider |

use crate::caller::{Ended, Seen};
use crate::played::Played;
use crate::report::Report;

/// What upper bounds allow for, as the reports themselves do.
const SLACK_MS: f64 = 50.0;
/// What lower bounds allow for: a timer's tick.
const TICK_MS: f64 = 1.0;

/// A judgement: nothing, or what is wrong.
pub(crate) type Verdict = Result<(), String>;

/// Fails with a sentence unless it holds.
pub(crate) fn must(holds: bool, sentence: impl Into<String>) -> Verdict {
    if holds { Ok(()) } else { Err(sentence.into()) }
}

/// Fails unless `low <= value <= high`, with the slack that is allowed.
pub(crate) fn between(what: &str, value: f64, low: f64, high: f64) -> Verdict {
    let fits = low - TICK_MS <= value && value <= high + SLACK_MS;
    must(
        fits,
        format!("{what} is {value:.0} ms, not in {low:.0}..={high:.0}"),
    )
}

/// The number of arrivals, as a number or as `<=N`; other texts are not read.
pub(crate) fn calls(expected: &serde_json::Value, played: &Played) -> Option<Verdict> {
    let seen = played.arrivals.len() as u64;
    let (least, most) = match (expected.as_u64(), expected.as_str()) {
        (Some(exactly), _) => (exactly, exactly),
        (None, Some(text)) => match text.split_whitespace().collect::<Vec<_>>().as_slice() {
            [one] => (0, one.strip_prefix("<=")?.parse().ok()?),
            [one, "accepted" | "processed"] => (one.parse().ok()?, one.parse().ok()?),
            _ => return None,
        },
        (None, None) => return None,
    };
    let fits = (least..=most).contains(&seen);
    Some(must(
        fits,
        format!("{seen} calls arrived at the provider, not {expected}"),
    ))
}

/// What all callers got: `ok …`, `passthrough:S`, `uncertain`, `cancelled`;
/// texts that tell callers apart are not read.
pub(crate) fn result(expected: &str, played: &Played) -> Option<Verdict> {
    let check: Box<dyn Fn(&Seen) -> Verdict> = match expected.split_once(':') {
        Some(("passthrough", status)) => {
            let status: u16 = status.parse().ok()?;
            Box::new(move |seen| passed_through(seen, status))
        }
        Some(_) => return None,
        None if expected == "ok" || expected.starts_with("ok for ") => Box::new(ok),
        None if expected == "uncertain" => Box::new(uncertain),
        None if expected == "cancelled" => Box::new(cancelled),
        None => return None,
    };
    Some(played.seen.iter().try_for_each(check))
}

/// The provider's success reached the caller whole.
pub(crate) fn ok(seen: &Seen) -> Verdict {
    let good = (200..300).contains(&seen.status) && seen.ended == Ended::Whole;
    must(good, format!("not ok: {}", seen.shown()))
}

/// The provider's own answer reached the caller.
pub(crate) fn passed_through(seen: &Seen, status: u16) -> Verdict {
    let passed = seen.status == status && seen.ended == Ended::Whole && !seen.is_governors();
    must(
        passed,
        format!("not the provider's {status}: {}", seen.shown()),
    )
}

/// The governor answered without calling upstream, for one of these reasons.
pub(crate) fn denied(seen: &Seen, codes: &[&str]) -> Verdict {
    let code = seen.code();
    must(
        codes.contains(&code.as_str()),
        format!("not denied as {codes:?}: {}", seen.shown()),
    )
}

/// A write that may have happened: not repeated, and a person is asked.
pub(crate) fn uncertain(seen: &Seen) -> Verdict {
    denied(seen, &["escalated"])?;
    let asked = seen.json()["escalation"].is_string();
    must(asked, format!("no question is named: {}", seen.shown()))
}

/// The caller left.
pub(crate) fn cancelled(seen: &Seen) -> Verdict {
    must(
        seen.ended == Ended::Left,
        format!("its caller had left: {}", seen.shown()),
    )
}

/// Reads one text about times or counts; `None` if it has another form.
pub(crate) fn text(text: &str, played: &Played) -> Option<Verdict> {
    let plain = text.split(" (").next().unwrap_or(text).replace(',', " ");
    let words: Vec<&str> = plain.split_whitespace().filter(|it| *it != "and").collect();
    let number = |word: &str| word.trim_start_matches("t=").parse::<f64>().ok();
    let gaps = || played.gaps();
    let starts = || played.starts();
    let verdict =
        match words.as_slice() {
            ["each" | "second" | "first", "gap", bounds @ ..] | ["gap", bounds @ ..] => {
                if bounds.contains(&"gap") {
                    return Some(in_turn(&words, &gaps()));
                }
                let (low, high) = bounds_of(bounds)?;
                let gaps = gaps();
                let of = match words[0] {
                    "first" => gaps.get(..1)?,
                    "second" => gaps.get(1..2)?,
                    _ => &gaps[..],
                };
                must(!of.is_empty(), "nothing was repeated").and_then(|()| {
                    of.iter()
                        .try_for_each(|gap| between("a gap", *gap, low, high))
                })
            }
            ["gaps", ">=", low, "ms", "growing"] => {
                let (gaps, low) = (gaps(), number(low)?);
                gaps.iter()
                    .try_for_each(|gap| between("a gap", *gap, low, f64::INFINITY))
                    .and_then(|()| {
                        let grow = gaps.windows(2).all(|pair| pair[0] < pair[1]);
                        must(
                            grow && gaps.len() > 1,
                            format!("the gaps do not grow: {gaps:?}"),
                        )
                    })
            }
            ["no", window, "ms", "window", rest @ ..] => {
                let most = rest.iter().find_map(|word| number(word))?;
                within_window(&starts(), number(window)?, most)
            }
            ["done" | "all", .., "by" | "within", time] if words.contains(&"done") => {
                all_answered(played, milliseconds(time, "")?)
            }
            ["done" | "all", .., "by" | "within", time, unit] if words.contains(&"done") => {
                all_answered(played, milliseconds(time, unit)?)
            }
            [
                who @ ("client" | "both" | "first" | "refusals"),
                "answered" | "within",
                ..,
                "ms",
            ] => {
                let most = words.iter().find_map(|word| number(word))?;
                let count = if *who == "first" { 1 } else { usize::MAX };
                played.seen.iter().take(count).try_for_each(|seen| {
                    between("an answer", seen.ended_ms - seen.sent_ms, 0.0, most)
                })
            }
            ["answered", "by", time, "ms", ..] => all_answered(played, number(time)?),
            ["last", "call", "at", bounds @ ..] => {
                let (low, high) = bounds_of(bounds)?;
                between("the last arrival", *starts().last()?, low, high)
            }
            ["no", "repeat", "before", time, "ms"] => {
                let (count, time) = (played.seen.len(), number(time)?);
                starts()
                    .iter()
                    .skip(count)
                    .try_for_each(|at| between("a repeat", *at, time, f64::INFINITY))
            }
            ["no", "upstream", "call", "between", "0", time, "ms"] => {
                let time = number(time)?;
                starts()
                    .iter()
                    .skip(1)
                    .try_for_each(|at| between("a call", *at, time, f64::INFINITY))
            }
            ["no", "upstream", "call", "after", time] => {
                let time = number(time)?;
                starts()
                    .iter()
                    .try_for_each(|at| between("a call", *at, 0.0, time))
            }
            [
                "last" | "second" | "third",
                ..,
                "start",
                "at",
                ">=",
                time,
                "ms",
            ] => {
                let count = match words[1] {
                    "five" => 5,
                    "ten" => 10,
                    "fourth" => 2,
                    _ => return None,
                };
                let (starts, time) = (starts(), number(time)?);
                let from = starts.len().checked_sub(count)?;
                starts[from..]
                    .iter()
                    .try_for_each(|at| between("a start", *at, time, f64::INFINITY))
            }
            ["zero", "429", ..] => {
                let refused = played.answered_with(429);
                must(
                    refused == 0,
                    format!("the provider refused {refused} calls"),
                )
            }
            ["x-should-retry:", "false", "on", which @ ..] => {
                let count = if which.contains(&"first") {
                    1
                } else {
                    usize::MAX
                };
                played.seen.iter().take(count).try_for_each(|seen| {
                    let told = seen.header("x-should-retry") == "false";
                    must(
                        told,
                        format!("x-should-retry is not false: {}", seen.shown()),
                    )
                })
            }
            ["orders" | "messages" | "charges", .., "=", count] => {
                let wanted = number(count)?;
                let (effects, same) = (played.effects, played.effects as f64 == wanted);
                must(
                    same,
                    format!("{effects} writes were carried out, not {wanted}"),
                )
            }
            _ => return None,
        };
    Some(verdict)
}

/// `first gap >= 1000 ms second gap >= 2000 ms`.
fn in_turn(words: &[&str], gaps: &[f64]) -> Verdict {
    let mut lows = words.iter().filter_map(|word| word.parse::<f64>().ok());
    gaps.iter()
        .zip(&mut lows)
        .try_for_each(|(gap, low)| between("a gap", *gap, low, f64::INFINITY))
}

/// `>= A ms <= B ms`, each half optional; words between are for people.
fn bounds_of(words: &[&str]) -> Option<(f64, f64)> {
    let after = |sign: &str| {
        let place = words.iter().position(|word| *word == sign)?;
        words.get(place + 1)?.parse::<f64>().ok()
    };
    match (after(">="), after("<=")) {
        (None, None) => None,
        (low, high) => Some((low.unwrap_or(0.0), high.unwrap_or(f64::INFINITY))),
    }
}

/// `30000 ms`, `32 s`, `21500ms`.
fn milliseconds(number: &str, unit: &str) -> Option<f64> {
    let number: f64 = number.parse().ok()?;
    match unit {
        "ms" | "" => Some(number),
        "s" => Some(number * 1_000.0),
        _ => None,
    }
}

fn all_answered(played: &Played, by_ms: f64) -> Verdict {
    let last = played
        .seen
        .iter()
        .map(|seen| seen.ended_ms)
        .fold(0.0, f64::max);
    between("the last answer", last, 0.0, by_ms)
}

/// No half-open window of this length holds more than `most` arrivals.
pub(crate) fn within_window(starts: &[f64], window_ms: f64, most: f64) -> Verdict {
    let at_once = |first: usize| {
        let end = starts[first] + window_ms - TICK_MS;
        starts[first..].iter().take_while(|at| **at < end).count()
    };
    let worst = (0..starts.len()).map(at_once).max().unwrap_or(0);
    must(
        worst as f64 <= most,
        format!("{worst} calls arrived within {window_ms} ms, not {most}"),
    )
}

/// Every expectation of the report, those that the table judges by hand apart.
pub(crate) fn all(report: &Report, played: &Played, by_hand: &dyn Fn(&str) -> bool) -> Vec<String> {
    let expected = &report.expected;
    let mut wrong = Vec::new();
    let mut note = |what: &str, verdict: Option<Verdict>| match verdict {
        Some(Ok(())) => {}
        Some(Err(cause)) => wrong.push(format!("{what:?}: {cause}")),
        None if by_hand(what) => {}
        None => wrong.push(format!("{what:?}: nobody judges this")),
    };
    let count = expected.upstream_calls.to_string();
    if !by_hand(&count) {
        note(&count, calls(&expected.upstream_calls, played));
    }
    if !by_hand(&expected.result) {
        note(&expected.result, result(&expected.result, played));
    }
    for it in expected.timing.iter().chain(&expected.also) {
        if !by_hand(it) {
            note(it, text(it, played));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_half_open_and_count_what_they_hold() {
        let starts = [0.0, 0.0, 10.0, 6_000.0, 6_000.0];
        assert_eq!(within_window(&starts, 6_000.0, 3.0), Ok(()));
        assert!(within_window(&starts, 6_100.0, 3.0).is_err());
    }

    #[test]
    fn bounds_are_read_from_sentences() {
        assert_eq!(
            bounds_of(&[">=", "3000", "ms", "<=", "3400", "ms"]),
            Some((3_000.0, 3_400.0))
        );
        assert_eq!(bounds_of(&["<=", "400", "ms"]), Some((0.0, 400.0)));
        assert_eq!(bounds_of(&["soon"]), None);
    }
}
