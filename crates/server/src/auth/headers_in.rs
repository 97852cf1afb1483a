//! What an agent asks for in its headers, parsed and bounded.
//!
//! | header | value |
//! |---|---|
//! | `Rategov-Agent`, `Rategov-Task` | a name, printable ASCII, at most 200 bytes |
//! | `Rategov-Goal` | text, at most 1000 bytes of UTF-8 |
//! | `Rategov-Priority` | `interactive`, `normal`, `background` |
//! | `Rategov-Deadline` | seconds from now, also a fraction, at most 30 days |
//! | `Rategov-Class` | a request class |
//! | `Rategov-Action`, `Idempotency-Key` | the action's key, printable ASCII, at most 255 bytes |
//! | `Prefer` | `wait=N`, `respond-async` (RFC 7240); other preferences aren't ours |
//!
//! A value of ours that isn't understood is refused rather than ignored: an agent
//! that asked for a deadline must not wait without one. Marks that SDKs set by
//! themselves ([`SdkMarks`]) are used if they are understood, and never refused.

mod action_key;
mod sdk;

pub use action_key::{ActionKey, KEY_BYTES_MAX};
pub use sdk::SdkMarks;

use http::HeaderMap;
use rategov_core::id::{Agent, NAME_BYTES_MAX, Task};
use rategov_core::time::Span;
use rategov_core::word::{Class, Priority};

/// Longest time that can be asked for.
const ASKED_SECS_MAX: u64 = 30 * 24 * 3600;

/// Longest goal, in bytes.
const GOAL_BYTES_MAX: usize = 1_000;

/// What an agent asked for. All of it is optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// How it calls itself; counts only where no token says who it is.
    pub agent: Option<Agent>,
    /// The task it works on.
    pub task: Option<Task>,
    /// The task's goal in its own words. Hostile input: show it as text only.
    pub goal: Option<String>,
    /// The rank it wants.
    pub priority: Option<Priority>,
    /// From now.
    pub deadline: Option<Span>,
    /// A class that allows less than the route's.
    pub class: Option<Class>,
    /// How long it is ready to be held (`Prefer: wait`).
    pub wait: Option<Span>,
    /// What it wants when the wait is over.
    pub answer: AnswerMode,
    /// What its SDK says about itself.
    pub sdk: SdkMarks,
}

/// What follows when a caller has been held long enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerMode {
    /// The call ends.
    #[default]
    Held,
    /// The call is answered with 202 and goes on (`Prefer: respond-async`).
    Async,
}

/// A header that can't be meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the header `{header}` {cause}")]
pub struct HeaderProblem {
    /// Its name as it is documented.
    pub header: String,
    /// What is wrong, after the name. Never shows the value.
    pub cause: &'static str,
    /// What to send instead.
    pub hint: &'static str,
}

impl Asked {
    /// Reads what an agent asks for.
    ///
    /// # Errors
    /// The first header that can't be meant.
    pub fn read(headers: &HeaderMap) -> Result<Asked, HeaderProblem> {
        let name_hint = "send printable ASCII, at most 200 characters";
        let (wait, answer) = prefer(headers)?;
        Ok(Asked {
            agent: one(headers, "Rategov-Agent", name_hint, |text| {
                Agent::new(text).ok()
            })?,
            task: one(headers, "Rategov-Task", name_hint, |text| {
                Task::new(text).ok()
            })?,
            goal: goal(headers)?,
            priority: one(
                headers,
                "Rategov-Priority",
                "send `interactive`, `normal` or `background`",
                Priority::parse,
            )?,
            deadline: one(
                headers,
                "Rategov-Deadline",
                "send the seconds from now, such as `30` or `2.5`, at most 30 days",
                seconds,
            )?,
            class: one(
                headers,
                "Rategov-Class",
                "send `read`, `generation`, `idempotent_write` or `uncertain_write`",
                Class::parse,
            )?,
            wait,
            answer,
            sdk: SdkMarks::read(headers),
        })
    }

    /// How long the caller is held (R-RETRY-5): the least of the policy's `hold`,
    /// `Prefer: wait`, its deadline, and its SDK's time-out less five seconds, so
    /// that our answer arrives before the SDK gives up and sends again.
    ///
    /// Worked: `hold: 60s`, `Prefer: wait=90`, `x-stainless-timeout: 45` → 40 s.
    pub fn held(&self, hold: Span) -> Span {
        self.patience().map_or(hold, |own| own.min(hold))
    }

    /// How long the caller itself is ready to wait for an answer, sent or not; `None`
    /// if it says nothing about it.
    pub fn patience(&self) -> Option<Span> {
        let margin = Span::from_secs(5);
        let sdk = self
            .sdk
            .timeout
            .map(|timeout| timeout.saturating_sub(margin));
        [self.wait, self.deadline, sdk].into_iter().flatten().min()
    }
}

/// The one value of a header of ours.
fn one<T>(
    headers: &HeaderMap,
    name: &'static str,
    hint: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, HeaderProblem> {
    let problem = |cause| HeaderProblem {
        header: name.to_owned(),
        cause,
        hint,
    };
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(problem("is there twice"));
    }
    let text = value
        .to_str()
        .ok()
        .map(str::trim)
        .filter(|text| text.len() <= NAME_BYTES_MAX);
    match text.and_then(parse) {
        Some(parsed) => Ok(Some(parsed)),
        None => Err(problem("has a value that it can't have")),
    }
}

fn goal(headers: &HeaderMap) -> Result<Option<String>, HeaderProblem> {
    let Some(value) = headers.get("rategov-goal") else {
        return Ok(None);
    };
    let text = std::str::from_utf8(value.as_bytes()).ok().map(str::trim);
    match text.filter(|text| text.len() <= GOAL_BYTES_MAX && !text.contains(char::is_control)) {
        Some("") => Ok(None),
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(HeaderProblem {
            header: "Rategov-Goal".to_owned(),
            cause: "is no short text",
            hint: "send one line of UTF-8, at most 1000 bytes",
        }),
    }
}

/// `1*9DIGIT ["." 1*6DIGIT]` seconds, at most 30 days.
fn seconds(text: &str) -> Option<Span> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str, most: usize| {
        let plain =
            !part.is_empty() && part.len() <= most && part.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| part.parse::<u64>().ok()).flatten()
    };
    let whole = digits(whole, 9).filter(|secs| *secs <= ASKED_SECS_MAX)?;
    let scale = 10_u64.pow(6_u32.checked_sub(u32::try_from(fraction.len()).ok()?)?);
    let micros = digits(fraction, 6)? * scale;
    Some(Span::from_secs(whole) + Span::from_micros(micros))
}

/// Reads RFC 7240's `Prefer`, of which two preferences are ours:
///
/// ```text
/// Prefer     = 1#preference
/// preference = token [ BWS "=" BWS word ] *( OWS ";" [ OWS parameter ] )
/// ```
///
/// Where a preference is there twice the first counts, as the RFC says.
fn prefer(headers: &HeaderMap) -> Result<(Option<Span>, AnswerMode), HeaderProblem> {
    let (mut wait, mut answer) = (None, AnswerMode::Held);
    for value in headers.get_all("prefer") {
        // Other people's preferences may hold anything; only ASCII can be ours.
        let Ok(text) = value.to_str() else { continue };
        for preference in text.split(',') {
            let preference = preference.split(';').next().unwrap_or("").trim();
            let (name, word) = match preference.split_once('=') {
                Some((name, word)) => (name.trim_end(), word.trim_start().trim_matches('"')),
                None => (preference, ""),
            };
            if name.eq_ignore_ascii_case("respond-async") {
                answer = AnswerMode::Async;
            } else if name.eq_ignore_ascii_case("wait") && wait.is_none() {
                let span = seconds(word).ok_or_else(|| HeaderProblem {
                    header: "Prefer".to_owned(),
                    cause: "has a `wait` that is no number of seconds",
                    hint: "send `Prefer: wait=30`, at most 30 days",
                })?;
                wait = Some(span);
            }
        }
    }
    Ok((wait, answer))
}

#[cfg(test)]
mod tests;
