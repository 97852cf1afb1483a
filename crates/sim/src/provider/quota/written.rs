//! The written form of a limit, as in `fake-provider --quota sliding:60/10s`.
//!
//! ```text
//! quota = item *( "," item )             at least one level
//! item  = level | option
//! level = "sliding:"    N "/" SPAN                  exact log of the last SPAN
//!       | "fixed:"      N "/" SPAN [ "@" SPAN ]     windows that start anew, the first at @
//!       | "fixed:"      N "/" ( "day" | "month" )   of the calendar, in UTC
//!       | "counter:"    N "/" SPAN [ "@" SPAN ]     two windows, the older one fading
//!       | "bucket:"     N "+" N "/" SPAN            holds the first, refills the second a SPAN
//!       | "concurrent:" N                           open calls
//! option = "count-refusals"
//!       | "untold"                                  no header field tells of it
//!       | "of=" ( "requests" | "tokens" | "input_tokens" | "output_tokens" | "points" )
//!       | "charge=" ( "actual" | "most" | "most-then-refund" )   when output is charged
//!       | "cached-free"                             cached input costs nothing
//!       | "penalty=" SPAN                           after a refusal all is refused so long
//!       | "per=" ( "everyone" | "account" | "credential" | "model" | "endpoint" )
//!       | "name=" NAME
//!       | "calls=" METHOD " " PATH                  `*` stands for anything in both
//! SPAN  = [ N ] ( "us" | "ms" | "s" | "m" | "h" )
//! ```
//!
//! Examples: `sliding:60/10s,count-refusals` · `bucket:10+6/s` ·
//! `fixed:5000/h@90s,per=credential` · `sliding:60/m,sliding:5/s,name=search,calls=GET /search*` ·
//! `bucket:160000+160000/m,of=tokens,charge=most-then-refund,per=model`. Two rules make two
//! levels: `fixed:300/m` for the account and `fixed:100/m,per=model` inside it.

use std::str::FromStr;

use rategov_core::time::Span;

use super::level::LIMIT_MAX;
use super::{Charge, Dimension, Level, Page, Price, Reach, Refusals, Rule};
use crate::provider::fault::Pattern;

/// Longest name of a rule, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Longest window.
const WINDOW_MAX: Span = Span::from_secs(366 * 24 * 3_600);

/// Why a text is no limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the quota {text:?} can't be read: {cause}\nhint: {hint}")]
pub struct QuotaError {
    /// The text as given.
    pub text: String,
    /// What is wrong with it.
    pub cause: String,
    /// What would be right.
    pub hint: &'static str,
}

const FORMS: &str = "write KIND:LIMIT/WINDOW, for example sliding:60/10s, fixed:60/10s, counter:60/10s, \
                     bucket:10+6/s or concurrent:4";
const OPTIONS: &str = "the options are count-refusals, untold, cached-free, \
                       per=everyone|account|credential|model|endpoint, name=NAME, calls=METHOD PATH, \
                       of=requests|tokens|input_tokens|output_tokens|points, \
                       charge=actual|most|most-then-refund and penalty=TIME";

impl FromStr for Rule {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Rule, QuotaError> {
        let wrong = |cause: String, hint| QuotaError {
            text: text.to_owned(),
            cause,
            hint,
        };
        let mut name = None;
        let mut rule = Rule {
            name: String::new(),
            reach: Reach::Account,
            calls: None,
            levels: Vec::new(),
            refusals: Refusals::Free,
            is_told: true,
            price: Price::default(),
            penalty: None,
        };
        for item in text.split(',').map(str::trim) {
            match item.split_once('=') {
                _ if item == "count-refusals" => rule.refusals = Refusals::Counted,
                _ if item == "untold" => rule.is_told = false,
                _ if item == "cached-free" => rule.price.cached_is_free = true,
                Some(("per", word)) => {
                    rule.reach = reach(word)
                        .ok_or_else(|| wrong(format!("{word:?} is no reach"), OPTIONS))?;
                }
                Some(("of", word)) => {
                    rule.price.dimension = dimension(word)
                        .ok_or_else(|| wrong(format!("{word:?} is no dimension"), OPTIONS))?;
                }
                Some(("charge", word)) => {
                    rule.price.charge = charge(word)
                        .ok_or_else(|| wrong(format!("{word:?} is no charge"), OPTIONS))?;
                }
                Some(("penalty", word)) => {
                    let span = window_of(word).map_err(|cause| wrong(cause, OPTIONS))?;
                    rule.penalty = Some(span);
                }
                Some(("name", word)) if is_name(word) => name = Some(word.to_owned()),
                Some(("name", word)) => {
                    let cause = format!("{word:?} is no name");
                    return Err(wrong(
                        cause,
                        "a name has 1 to 64 letters, digits, dashes or dots",
                    ));
                }
                Some(("calls", call)) => rule.calls = Some(Pattern::parse(call)),
                Some(_) => return Err(wrong(format!("{item:?} is no option"), OPTIONS)),
                None => rule
                    .levels
                    .push(level(item).map_err(|cause| wrong(cause, FORMS))?),
            }
        }
        if rule.levels.is_empty() {
            return Err(wrong("it limits nothing".to_owned(), FORMS));
        }
        rule.name = name.unwrap_or_else(|| rule.price.dimension.word().to_owned());
        Ok(rule)
    }
}

fn reach(word: &str) -> Option<Reach> {
    Some(match word {
        "everyone" => Reach::Everyone,
        "account" => Reach::Account,
        "credential" => Reach::Credential,
        "model" => Reach::Model,
        "endpoint" => Reach::Endpoint,
        _ => return None,
    })
}

fn dimension(word: &str) -> Option<Dimension> {
    Dimension::ALL.into_iter().find(|d| d.word() == word)
}

fn charge(word: &str) -> Option<Charge> {
    Charge::ALL.into_iter().find(|c| c.word() == word)
}

/// What may stand unquoted in a header field's structured string.
fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
}

fn level(item: &str) -> Result<Level, String> {
    let (kind, rest) = item
        .split_once(':')
        .ok_or_else(|| format!("{item:?} names no kind"))?;
    let windowed = || -> Result<(u64, Span, Span), String> {
        let (main, phase) = rest.split_once('@').unwrap_or((rest, "0s"));
        let (limit, window) = main
            .split_once('/')
            .ok_or_else(|| format!("{rest:?} names no window"))?;
        let phase = parse_span(phase).ok_or_else(|| format!("{phase:?} is no time"))?;
        Ok((number(limit)?, window_of(window)?, phase))
    };
    match kind {
        "sliding" => {
            if rest.contains('@') {
                return Err("a sliding log has no phase".to_owned());
            }
            windowed().map(|(limit, window, _)| Level::SlidingLog { limit, window })
        }
        "fixed" if rest.ends_with("/day") || rest.ends_with("/month") => {
            let (limit, word) = rest.split_once('/').unwrap_or((rest, ""));
            let page = match word {
                "day" => Page::Day,
                "month" => Page::Month,
                _ => return Err(format!("{rest:?} is no limit a day or month")),
            };
            Ok(Level::Calendar {
                limit: number(limit)?,
                page,
            })
        }
        "fixed" => windowed().map(|(limit, window, phase)| Level::Fixed {
            limit,
            window,
            phase,
        }),
        "counter" => windowed().map(|(limit, window, phase)| Level::SlidingCounter {
            limit,
            window,
            phase,
        }),
        "bucket" => {
            let parts = rest.split_once('+').zip(rest.split_once('/'));
            let ((capacity, refill), _) =
                parts.ok_or_else(|| format!("{rest:?} is not CAPACITY+REFILL/TIME"))?;
            let (refill, per) = refill
                .split_once('/')
                .ok_or_else(|| format!("{refill:?} names no time"))?;
            let (capacity, refill, per) = (number(capacity)?, number(refill)?, window_of(per)?);
            Ok(Level::Bucket {
                capacity,
                refill,
                per,
            })
        }
        "concurrent" => Ok(Level::Concurrent {
            limit: number(rest)?,
        }),
        _ => Err(format!("{kind:?} is no kind of quota")),
    }
}

/// Reads a whole number from 1 to 10¹².
pub fn parse_number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|n| (1..=LIMIT_MAX).contains(n))
}

fn number(text: &str) -> Result<u64, String> {
    match parse_number(text) {
        Some(n) => Ok(n),
        None => Err(format!("{text:?} is no number from 1 to {LIMIT_MAX}")),
    }
}

fn window_of(text: &str) -> Result<Span, String> {
    match parse_span(text) {
        Some(span) if !span.is_zero() && span <= WINDOW_MAX => Ok(span),
        _ => Err(format!("{text:?} is no time from 1us to 8784h")),
    }
}

/// Reads `10s`, `500ms`, `1m`, `2h`, `250us`, or a unit alone for one of it.
pub fn parse_span(text: &str) -> Option<Span> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let n: u64 = if number.is_empty() {
        1
    } else {
        number.parse().ok()?
    };
    let unit = match unit {
        "us" => Span::from_micros(1),
        "ms" => Span::from_millis(1),
        "s" => Span::from_secs(1),
        "m" => Span::from_secs(60),
        "h" => Span::from_secs(3_600),
        _ => return None,
    };
    Some(unit.saturating_mul(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, levels: &[Level]) -> Rule {
        let rule: Rule = text.parse().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(rule.levels, levels, "{text}");
        rule
    }

    #[test]
    fn each_kind_has_a_written_form() {
        let s = Span::from_secs;
        check(
            "sliding:60/10s",
            &[Level::SlidingLog {
                limit: 60,
                window: s(10),
            }],
        );
        check(
            "fixed:60/10s",
            &[Level::Fixed {
                limit: 60,
                window: s(10),
                phase: s(0),
            }],
        );
        check(
            "fixed:60/10s@3s",
            &[Level::Fixed {
                limit: 60,
                window: s(10),
                phase: s(3),
            }],
        );
        check(
            "counter:60/m",
            &[Level::SlidingCounter {
                limit: 60,
                window: s(60),
                phase: s(0),
            }],
        );
        check(
            "bucket:10+6/s",
            &[Level::Bucket {
                capacity: 10,
                refill: 6,
                per: s(1),
            }],
        );
        check("concurrent:4", &[Level::Concurrent { limit: 4 }]);
    }

    #[test]
    fn options_say_whose_calls_and_whether_refusals_count() {
        let rule = check(
            "sliding:60/10s, sliding:10/1s, count-refusals, per=model, name=burst, calls=POST /v1/*",
            &[
                Level::SlidingLog {
                    limit: 60,
                    window: Span::from_secs(10),
                },
                Level::SlidingLog {
                    limit: 10,
                    window: Span::from_secs(1),
                },
            ],
        );
        assert_eq!(
            (rule.refusals, rule.reach),
            (Refusals::Counted, Reach::Model)
        );
        assert_eq!(rule.name, "burst");
        let calls = rule.calls.expect("a pattern was given");
        assert!(calls.matches(("POST", "/v1/messages")) && !calls.matches(("GET", "/v1/models")));
    }

    #[test]
    fn a_mistake_is_named_with_a_hint() {
        for (text, cause) in [
            ("", "\"\" names no kind"),
            ("sliding:60", "\"60\" names no window"),
            ("sliding:0/10s", "\"0\" is no number"),
            ("sliding:60/0s", "\"0s\" is no time"),
            ("sliding:60/10s@1s", "no phase"),
            ("rolling:60/10s", "\"rolling\" is no kind"),
            ("bucket:10/s", "not CAPACITY+REFILL/TIME"),
            ("sliding:60/10s,per=planet", "\"planet\" is no reach"),
            ("sliding:60/10s,colour=red", "no option"),
            ("sliding:60/10s,name=a\"b", "no name"),
            ("count-refusals", "limits nothing"),
        ] {
            let error = text.parse::<Rule>().expect_err(text).to_string();
            assert!(
                error.contains(cause) && error.contains("hint: "),
                "{text}: {error}"
            );
        }
    }
}
