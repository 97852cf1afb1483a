//! The written form of a step, as the control API and scenario files give it.
//!
//! ```json
//! {"calls": "POST /records", "skip": 1, "times": 2, "status": 503, "headers": {"retry-after": "2"}}
//! {"calls": "POST /records", "fault": "reset_after_effect"}
//! {"when": "more than 10 starts in the last 10000 ms", "status": 429, "times": "always"}
//! {"status": 200, "sse": true, "events": ["message_start", "delta Partial", "error overloaded_error"]}
//! ```
//!
//! A list of *steps* is followed by ordinary service; a list of *upstream*
//! answers repeats its last one for ever ([`steps_of_upstream`]). An unknown key
//! is an error: a misspelt fault that silently did nothing would prove nothing.

use std::collections::BTreeMap;

use rategov_core::time::Span;
use serde::Deserialize;
use serde_json::Value;

use super::{
    Condition, Conduct, Effect, Ending, Fault, Framing, Pattern, ScriptedAnswer, ScriptedBody,
    Step, Template, Times,
};

/// Why a written step can't be played.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}\nhint: {hint}")]
pub struct StepError {
    /// What is wrong.
    pub cause: String,
    /// What would be right.
    pub hint: String,
}

fn wrong(cause: impl Into<String>, hint: impl Into<String>) -> StepError {
    StepError {
        cause: cause.into(),
        hint: hint.into(),
    }
}

/// A step as written. Every key may be left out.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct WrittenStep {
    /// `METHOD PATH` with `*`; every call if absent.
    pub calls: Option<String>,
    /// A field that the request must carry and a text that its value must contain.
    pub has_field: Option<(String, String)>,
    /// A text that the body must contain.
    pub body_has: Option<String>,
    /// `N already in flight`, `more than N starts in the last M ms`, or
    /// `first N calls of agent NAME` (told by a request field `x-agent`).
    pub when: Option<String>,
    /// Matching calls that pass first.
    pub skip: u32,
    /// A number, or `"always"`.
    pub times: Option<WrittenTimes>,
    /// Milliseconds that the step stays.
    #[serde(alias = "until_upstream_ms")]
    pub until_ms: Option<u64>,
    /// The status; absent or 0 for ordinary service.
    pub status: Option<u16>,
    /// Fields of the answer, with the placeholders of [`Template`].
    pub headers: BTreeMap<String, WrittenField>,
    /// The body: JSON, or a text. The text `echoes the key` means the caller's credential.
    pub body: Option<Value>,
    /// `applied` or `skipped`; by the status if absent.
    pub effect: Option<String>,
    /// Milliseconds before the first byte of the answer.
    #[serde(alias = "first_byte_ms")]
    pub delay_ms: u64,
    /// Whether the answer waits to be released.
    pub hold: bool,
    /// Whether the answer is an event stream.
    pub sse: bool,
    /// Milliseconds from the first event to the last.
    pub lasts_ms: Option<u64>,
    /// The events, in words.
    pub events: Option<Vec<String>>,
    /// Whether the body is gzip-coded.
    pub gzip: bool,
    /// The fault's word, or its description in a report.
    pub fault: Option<String>,
    /// `fin`, `rst` or `silence`, for faults whose word doesn't say it; `fin` if absent.
    pub ending: Option<String>,
    /// Events before an error event or a cut (1 if absent), or bytes of a cut upload (0).
    pub after: Option<u64>,
    /// Pieces of a slow body; 10 if absent.
    pub pieces: Option<u32>,
    /// Milliseconds before each piece of a slow body; 50 if absent.
    pub pause_ms: Option<u64>,
    /// For people.
    pub note: Option<String>,
}

/// `3` or `"always"`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum WrittenTimes {
    /// So often.
    Count(u32),
    /// A word; only `always` is one.
    Word(String),
}

/// One value, or several under the same name.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum WrittenField {
    /// One field.
    One(String),
    /// Several fields of that name, in order.
    Many(Vec<String>),
}

/// Steps that answer like a list of upstream answers: in order, each `times`
/// often, those with `when` first, the last of the others for ever.
///
/// # Errors
/// The first step that can't be played, with its place.
pub fn steps_of_upstream(answers: Vec<WrittenStep>) -> Result<Vec<Step>, StepError> {
    let mut steps = answers
        .into_iter()
        .enumerate()
        .map(|(n, a)| {
            let (conditional, counted) = (a.when.is_some(), a.times.is_some());
            let step = a
                .step()
                .map_err(|e| wrong(format!("answer {}: {}", n + 1, e.cause), e.hint))?;
            // A condition or an end in time bounds an answer by itself.
            Ok(if (conditional || step.until.is_some()) && !counted {
                step.times(Times::Always)
            } else {
                step
            })
        })
        .collect::<Result<Vec<Step>, StepError>>()?;
    let first_calls = |s: &Step| s.condition.is_some() || s.field.is_some();
    if let Some(last) = steps.iter_mut().rev().find(|s| !first_calls(s)) {
        last.times = Times::Always;
    }
    Ok(steps)
}

impl WrittenStep {
    /// The step that is meant.
    ///
    /// # Errors
    /// If a word or a placeholder means nothing, with the words that would.
    pub fn step(self) -> Result<Step, StepError> {
        let (condition, agent, calls_of_agent) = match &self.when {
            Some(text) => read_when(text)?,
            None => (None, None, None),
        };
        let times = match &self.times {
            Some(WrittenTimes::Count(n)) => Times::Count(*n),
            Some(WrittenTimes::Word(word)) if word == "always" => Times::Always,
            Some(WrittenTimes::Word(word)) => {
                return Err(wrong(
                    format!("{word:?} is no number of times"),
                    "write 3 or \"always\"",
                ));
            }
            None => Times::Count(calls_of_agent.unwrap_or(1)),
        };
        Ok(Step {
            calls: self
                .calls
                .as_deref()
                .map_or_else(Pattern::any, Pattern::parse),
            field: self.has_field.clone().or(agent),
            body_has: self.body_has.clone(),
            condition,
            skip: self.skip,
            times,
            until: self.until_ms.map(Span::from_millis),
            conduct: self.conduct()?,
        })
    }

    fn conduct(self) -> Result<Conduct, StepError> {
        let coded = |(name, value): (&String, &WrittenField)| {
            name.eq_ignore_ascii_case("content-encoding")
                && *value == WrittenField::One("gzip".to_owned())
        };
        Ok(Conduct {
            delay: Span::from_millis(self.delay_ms),
            held: self.hold,
            answer: self.answer()?,
            lasts: self.lasts_ms.map(Span::from_millis),
            stream: self.sse,
            gzip: self.gzip || self.headers.iter().any(coded),
            fault: self
                .fault
                .as_deref()
                .map(|word| self.read_fault(word))
                .transpose()?,
        })
    }

    fn answer(&self) -> Result<Option<ScriptedAnswer>, StepError> {
        let Some(status) = self.status.filter(|s| *s != 0) else {
            return Ok(None);
        };
        if !(200..=999).contains(&status) {
            return Err(wrong(
                format!("{status} is no final status"),
                "write 200 to 999",
            ));
        }
        let mut fields = Vec::new();
        for (name, values) in &self.headers {
            // The coding is applied to the body, and the field follows from that.
            if name.eq_ignore_ascii_case("content-encoding") && self.is_gzip(values) {
                continue;
            }
            let values = match values {
                WrittenField::One(value) => std::slice::from_ref(value),
                WrittenField::Many(values) => values,
            };
            for value in values {
                let template = Template::parse(name, value).map_err(|e| {
                    wrong(
                        format!("the field {name}: {value:?} means nothing"),
                        e.to_string(),
                    )
                })?;
                fields.push((name.clone(), template));
            }
        }
        let body = match (&self.events, &self.body) {
            (Some(events), _) => ScriptedBody::Events(events.clone()),
            (None, None) => ScriptedBody::Ordinary,
            (None, Some(Value::String(text))) => match text.as_str() {
                "" => ScriptedBody::Empty,
                "echoes the key" => ScriptedBody::EchoCredential,
                _ => ScriptedBody::Text(text.clone()),
            },
            (None, Some(json)) => ScriptedBody::Json(json.clone()),
        };
        let effect = match self.effect.as_deref() {
            None => Effect::of_status(status),
            Some("applied") => Effect::Applied,
            Some("skipped") => Effect::Skipped,
            Some(word) => {
                return Err(wrong(
                    format!("{word:?} is no effect"),
                    "write applied or skipped",
                ));
            }
        };
        Ok(Some(ScriptedAnswer {
            status,
            fields,
            body,
            effect,
        }))
    }

    fn is_gzip(&self, values: &WrittenField) -> bool {
        *values == WrittenField::One("gzip".to_owned())
    }

    fn read_fault(&self, text: &str) -> Result<Fault, StepError> {
        use Effect::{Applied, Skipped};
        let ending = match self.ending.as_deref() {
            None | Some("fin") => Ending::Fin,
            Some("rst") => Ending::Rst,
            Some("silence") => Ending::Silence,
            Some(word) => {
                return Err(wrong(
                    format!("{word:?} is no ending"),
                    "write fin, rst or silence",
                ));
            }
        };
        let effect = match self.effect.as_deref() {
            Some("skipped") => Skipped,
            _ => Applied,
        };
        let no_answer = |effect, ending| Fault::NoAnswer { effect, ending };
        let half = |framing| Fault::HalfBody { framing, ending };
        let events = u32::try_from(self.after.unwrap_or(1)).unwrap_or(u32::MAX);
        Ok(match text {
            "reset_before_effect" => no_answer(Skipped, Ending::Rst),
            "reset_after_effect" | "execute, then reset" => no_answer(Applied, Ending::Rst),
            "close_before_effect" => no_answer(Skipped, Ending::Fin),
            "close_after_effect"
            | "execute, then close the connection before any response byte"
            | "execute, then close before the answer" => no_answer(Applied, Ending::Fin),
            "silence_before_effect" | "timeout" => no_answer(Skipped, Ending::Silence),
            "silence_after_effect" => no_answer(Applied, Ending::Silence),
            "interim_only" => Fault::InterimOnly { effect, ending },
            "malformed" => Fault::Malformed { effect },
            "half_body" => half(Framing::Length),
            "half_body_chunked" => half(Framing::Chunked),
            "half_body_until_close" => half(Framing::UntilClose),
            "slow_body" => Fault::SlowBody {
                pieces: self.pieces.unwrap_or(10).max(1),
                pause: Span::from_millis(self.pause_ms.unwrap_or(50)),
            },
            "error_event" => Fault::ErrorEvent {
                after: events,
                kind: "overloaded_error".to_owned(),
            },
            "stream_cut" => Fault::StreamCut {
                after: events,
                ending,
            },
            "cut_upload" => Fault::CutUpload {
                after: self.after.unwrap_or(0),
                ending,
            },
            "close_after_answer" => Fault::CloseAfter,
            _ => return Err(wrong(format!("{text:?} is no fault"), FAULT_WORDS)),
        })
    }
}

const FAULT_WORDS: &str = "write one of reset_before_effect, reset_after_effect, close_before_effect, \
    close_after_effect, silence_before_effect, silence_after_effect, interim_only, malformed, half_body, \
    half_body_chunked, half_body_until_close, slow_body, error_event, stream_cut, cut_upload, \
    close_after_answer";

type When = (Option<Condition>, Option<(String, String)>, Option<u32>);

/// Reads a condition in words: what must hold, which field tells the agent,
/// and how many of its calls are meant.
fn read_when(text: &str) -> Result<When, StepError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let error = || {
        let hint = "write \"N already in flight\", \"more than N starts in the last M ms\" or \
                    \"first N calls of agent NAME\"";
        wrong(format!("the condition {text:?} can't be read"), hint)
    };
    Ok(match words.as_slice() {
        [n, "already", "in", "flight"] => (
            Some(Condition::InFlight(count(n).ok_or_else(error)?)),
            None,
            None,
        ),
        ["more", "than", n, "starts", "in", "the", "last", ms, "ms"]
        | [
            "more",
            "than",
            n,
            "starts",
            "in",
            "the",
            "last",
            ms,
            "ms",
            "over",
            "all",
            "keys",
        ] => {
            let span = Span::from_millis(count(ms).ok_or_else(error)?);
            (
                Some(Condition::StartsAbove(count(n).ok_or_else(error)?, span)),
                None,
                None,
            )
        }
        ["first", n, "calls", "of", "agent", name] => {
            let n = count(n)
                .and_then(|n| u32::try_from(n).ok())
                .ok_or_else(error)?;
            (
                None,
                Some(("x-agent".to_owned(), (*name).to_owned())),
                Some(n),
            )
        }
        _ => return Err(error()),
    })
}

/// A number in digits, or in words up to ten.
fn count(text: &str) -> Option<u64> {
    const WORDS: [&str; 11] = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    ];
    text.parse()
        .ok()
        .or_else(|| WORDS.iter().position(|w| *w == text).map(|n| n as u64))
}

#[cfg(test)]
mod tests;
