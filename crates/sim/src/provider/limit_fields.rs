//! How the provider tells callers where their quota stands: one dialect of
//! header fields, as configured.
//!
//! | dialect | on every counted answer | on a refusal besides |
//! |---|---|---|
//! | none | nothing | nothing, not even a hint |
//! | retry-after-only | nothing | `retry-after` in seconds |
//! | x-ratelimit | `x-ratelimit-limit/-remaining/-reset` (seconds) | `retry-after` |
//! | epoch | the same, reset as seconds since 1970 (GitHub's) | `retry-after` |
//! | openai | `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`, reset as `1.2s` | `retry-after` |
//! | azure | `x-ratelimit-remaining-{requests,tokens}` alone | `retry-after`, `retry-after-ms` |
//! | anthropic | `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}`, reset as RFC 3339, tokens in thousands | `retry-after` |
//! | ietf | `ratelimit-policy`, `ratelimit` of draft-ietf-httpapi-ratelimit-headers-10, all levels, the unit if not requests | `retry-after` |
//! | native | openai or anthropic on their endpoints, nothing on Gemini's, x-ratelimit elsewhere | |
//!
//! A wait is rounded up to whole seconds, so it is never too short; a refusal
//! by a concurrency limit gives none, since nobody knows it. Where a vendor
//! documents its reset as the time of the *full* budget, it is that.

use std::str::FromStr;

use rategov_core::time::{Moment, Span, WallTime};

use super::fault::Form;
use super::message::Fields;
use super::quota::{Dimension, Reading, Refusal, Weighed, wait_of};
use super::shapes::Dialect;

/// The dialects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitFields {
    /// Nothing at all.
    None,
    /// Only the hint on a refusal.
    RetryAfterOnly,
    /// The three fields of many APIs.
    XRateLimit,
    /// The same, with the reset as seconds since 1970.
    Epoch,
    /// OpenAI's.
    OpenAi,
    /// Azure OpenAI's.
    Azure,
    /// Anthropic's.
    Anthropic,
    /// The structured fields of the IETF draft.
    Ietf,
    /// What the endpoint's own vendor sends.
    #[default]
    Native,
}

/// A word that names no dialect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no dialect of rate-limit fields\nhint: write native, none, retry-after-only, \
     x-ratelimit, epoch, openai, azure, anthropic or ietf"
)]
pub struct UnknownDialect(pub String);

impl FromStr for LimitFields {
    type Err = UnknownDialect;

    fn from_str(word: &str) -> Result<LimitFields, UnknownDialect> {
        Ok(match word {
            "none" => LimitFields::None,
            "retry-after-only" => LimitFields::RetryAfterOnly,
            "x-ratelimit" => LimitFields::XRateLimit,
            "epoch" => LimitFields::Epoch,
            "openai" => LimitFields::OpenAi,
            "azure" => LimitFields::Azure,
            "anthropic" => LimitFields::Anthropic,
            "ietf" => LimitFields::Ietf,
            "native" => LimitFields::Native,
            _ => return Err(UnknownDialect(word.to_owned())),
        })
    }
}

impl LimitFields {
    /// The word by which it is chosen.
    pub const fn word(self) -> &'static str {
        match self {
            LimitFields::None => "none",
            LimitFields::RetryAfterOnly => "retry-after-only",
            LimitFields::XRateLimit => "x-ratelimit",
            LimitFields::Epoch => "epoch",
            LimitFields::OpenAi => "openai",
            LimitFields::Azure => "azure",
            LimitFields::Anthropic => "anthropic",
            LimitFields::Ietf => "ietf",
            LimitFields::Native => "native",
        }
    }

    /// The fields of an answer to a call that was weighed at `now`.
    pub fn write(
        self,
        (now, wall): (Moment, WallTime),
        dialect: Dialect,
        weighed: &Weighed,
    ) -> Fields {
        let mut fields = Fields::new();
        let spoken = match (self, dialect) {
            (LimitFields::Native, Dialect::OpenAi) => LimitFields::OpenAi,
            (LimitFields::Native, Dialect::Anthropic) => LimitFields::Anthropic,
            (LimitFields::Native, Dialect::Gemini) => LimitFields::None,
            (LimitFields::Native, Dialect::Plain) => LimitFields::XRateLimit,
            (chosen, _) => chosen,
        };
        let one = |dimension| weighed.tightest(dimension);
        match spoken {
            LimitFields::None | LimitFields::RetryAfterOnly | LimitFields::Native => {}
            LimitFields::Ietf => ietf(&mut fields, &weighed.readings),
            LimitFields::XRateLimit | LimitFields::Epoch => {
                // One budget is shown; of several dimensions the first.
                if let Some(r) = Dimension::ALL.into_iter().find_map(one) {
                    let ends = wall + r.standing.reset;
                    let reset = match spoken {
                        LimitFields::Epoch => whole_seconds(ends).to_string(),
                        _ => r.standing.reset.as_secs_ceil().to_string(),
                    };
                    let names = ["limit", "remaining", "reset"];
                    three(&mut fields, names, "x-ratelimit-", r, reset);
                }
            }
            LimitFields::OpenAi => {
                for r in OPENAI.into_iter().filter_map(one) {
                    let word = r.dimension.word();
                    let names = ["limit", "remaining", "reset"].map(|n| format!("{n}-{word}"));
                    let reset = go_duration(r.standing.full);
                    let names = names.each_ref().map(String::as_str);
                    three(&mut fields, names, "x-ratelimit-", r, reset);
                }
            }
            LimitFields::Azure => {
                for r in OPENAI.into_iter().filter_map(one) {
                    let name = format!("x-ratelimit-remaining-{}", r.dimension.word());
                    fields.push(&name, r.standing.remaining.to_string());
                }
            }
            LimitFields::Anthropic => {
                for r in ANTHROPIC.into_iter().filter_map(one) {
                    anthropic(&mut fields, r, wall);
                }
            }
        }
        if let (Some(refusal), true) = (&weighed.refusal, spoken != LimitFields::None) {
            hint(&mut fields, refusal, now);
            if let (LimitFields::Azure, Some(wait)) = (spoken, wait_of(refusal, now)) {
                let ms = wait.as_micros().div_ceil(1_000);
                fields.push("retry-after-ms", ms.to_string());
            }
        }
        fields
    }
}

/// Dimensions that OpenAI tells.
const OPENAI: [Dimension; 2] = [Dimension::Requests, Dimension::Tokens];
/// Dimensions that Anthropic tells.
const ANTHROPIC: [Dimension; 4] = [
    Dimension::Requests,
    Dimension::Tokens,
    Dimension::InputTokens,
    Dimension::OutputTokens,
];

fn anthropic(fields: &mut Fields, r: &Reading, wall: WallTime) {
    let word = r.dimension.word().replace('_', "-");
    let reset = wall + Span::from_secs(r.standing.full.as_secs_ceil());
    // Tokens are told to the nearest thousand.
    let remaining = match r.dimension.is_tokens() {
        true => (r.standing.remaining + 500) / 1_000 * 1_000,
        false => r.standing.remaining,
    };
    for (name, value) in [
        ("limit", r.standing.limit.to_string()),
        ("remaining", remaining.to_string()),
        ("reset", Form::Rfc3339.write(reset)),
    ] {
        fields.push(&format!("anthropic-ratelimit-{word}-{name}"), value);
    }
}

/// Seconds since 1970, rounded up.
fn whole_seconds(wall: WallTime) -> i64 {
    -((-wall.as_micros()).div_euclid(1_000_000))
}

fn hint(fields: &mut Fields, refusal: &Refusal, now: Moment) {
    if let Some(wait) = wait_of(refusal, now) {
        fields.push("retry-after", wait.as_secs_ceil().to_string());
    }
}

fn three(fields: &mut Fields, names: [&str; 3], prefix: &str, r: &Reading, reset: String) {
    let values = [
        r.standing.limit.to_string(),
        r.standing.remaining.to_string(),
        reset,
    ];
    for (name, value) in names.into_iter().zip(values) {
        fields.push(&format!("{prefix}{name}"), value);
    }
}

/// `"requests";q=60;w=10` and `"requests";r=50;t=3`, one item a level.
fn ietf(fields: &mut Fields, readings: &[Reading]) {
    let item = |r: &Reading, parts: [(&str, u64); 2]| {
        let [(a, x), (b, y)] = parts;
        let unit = match (a, r.dimension) {
            ("q", Dimension::Requests) | ("r", _) => String::new(),
            (_, dimension) => format!(";qu=\"{}\"", dimension.word()),
        };
        format!("\"{}\";{a}={x};{b}={y}{unit}", r.rule)
    };
    let join = |of: &dyn Fn(&Reading) -> String| readings.iter().map(of).collect::<Vec<_>>();
    let policy = join(&|r| {
        item(
            r,
            [
                ("q", r.standing.limit),
                ("w", r.standing.window.as_secs_ceil()),
            ],
        )
    });
    let state = join(&|r| {
        item(
            r,
            [
                ("r", r.standing.remaining),
                ("t", r.standing.reset.as_secs_ceil()),
            ],
        )
    });
    if !readings.is_empty() {
        fields.push("ratelimit-policy", policy.join(", "));
        fields.push("ratelimit", state.join(", "));
    }
}

/// A span the way Go prints it: `850ms`, `1.2s`, `6m0s`, `2h3m0s`.
pub fn go_duration(span: Span) -> String {
    let ms = span.as_micros().div_ceil(1_000);
    if ms < 1_000 {
        return format!("{ms}ms");
    }
    let (hours, minutes) = (ms / 3_600_000, ms / 60_000 % 60);
    let (seconds, fraction) = (ms / 1_000 % 60, ms % 1_000);
    let fraction = if fraction == 0 {
        String::new()
    } else {
        format!(".{}", format!("{fraction:03}").trim_end_matches('0'))
    };
    match (hours, minutes) {
        (0, 0) => format!("{seconds}{fraction}s"),
        (0, _) => format!("{minutes}m{seconds}{fraction}s"),
        _ => format!("{hours}h{minutes}m{seconds}{fraction}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::quota::{Caller, Load, Quotas};

    /// The fields after two calls at 0 and one at 400 ms under `sliding:2/10s`.
    fn check(fields: LimitFields, dialect: Dialect, expected: &[(&str, &str)]) {
        let rule = "sliding:2/10s".parse().expect("a quota");
        let mut quotas = Quotas::new(vec![rule], WallTime::from_secs(1_767_225_600));
        let caller = Caller {
            account: "a",
            credential: "c",
            model: "",
            endpoint: "GET /x",
            call: ("GET", "/x"),
            load: Load::default(),
        };
        quotas.weigh(Moment::START, &caller);
        quotas.weigh(Moment::START, &caller);
        let now = Moment::from_micros(400_000);
        let weighed = quotas.weigh(now, &caller);
        let wall = WallTime::from_secs(1_767_225_600);
        let got = fields.write((now, wall), dialect, &weighed);
        assert_eq!(got.iter().collect::<Vec<_>>(), expected, "{fields:?}");
    }

    #[test]
    fn each_dialect_says_the_same_refusal_in_its_own_words() {
        check(LimitFields::None, Dialect::Plain, &[]);
        check(
            LimitFields::RetryAfterOnly,
            Dialect::Plain,
            &[("retry-after", "10")],
        );
        check(
            LimitFields::Native,
            Dialect::Plain,
            &[
                ("x-ratelimit-limit", "2"),
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset", "10"),
                ("retry-after", "10"),
            ],
        );
        check(
            LimitFields::Native,
            Dialect::OpenAi,
            &[
                ("x-ratelimit-limit-requests", "2"),
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-requests", "9.6s"),
                ("retry-after", "10"),
            ],
        );
        check(
            LimitFields::Native,
            Dialect::Anthropic,
            &[
                ("anthropic-ratelimit-requests-limit", "2"),
                ("anthropic-ratelimit-requests-remaining", "0"),
                ("anthropic-ratelimit-requests-reset", "2026-01-01T00:00:10Z"),
                ("retry-after", "10"),
            ],
        );
        check(
            LimitFields::Ietf,
            Dialect::Plain,
            &[
                ("ratelimit-policy", "\"requests\";q=2;w=10"),
                ("ratelimit", "\"requests\";r=0;t=10"),
                ("retry-after", "10"),
            ],
        );
    }

    #[test]
    fn a_duration_is_written_as_go_writes_it() {
        for (ms, text) in [
            (12, "12ms"),
            (1_000, "1s"),
            (1_200, "1.2s"),
            (1_020, "1.02s"),
            (90_000, "1m30s"),
            (360_000, "6m0s"),
            (7_380_000, "2h3m0s"),
        ] {
            assert_eq!(go_duration(Span::from_millis(ms)), text);
        }
    }
}
