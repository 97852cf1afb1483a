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

use http::{HeaderMap, HeaderName, HeaderValue};
use rategov_core::id::{Agent, NAME_BYTES_MAX, Task};
use rategov_core::time::Span;
use rategov_core::word::{Class, Priority};

/// Longest time that can be asked for.
const ASKED_SECS_MAX: u64 = 30 * 24 * 3600;

/// Longest goal, in bytes.
const GOAL_BYTES_MAX: usize = 1_000;

/// Longest key of an action, in bytes.
pub const KEY_BYTES_MAX: usize = 255;

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

/// What SDKs say about themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SdkMarks {
    /// How long it will wait for an answer.
    pub timeout: Option<Span>,
    /// Which send of its own this is: 0 for the first, unknown where it doesn't say.
    pub retry: Option<u32>,
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

/// The key of an action: the same key is the same operation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActionKey(String);

impl ActionKey {
    /// The key as it was sent, quotes included.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key that an agent sent, in `Rategov-Action`, in `Idempotency-Key` or in
    /// the header of the endpoint.
    ///
    /// # Errors
    /// If it can't be a key, or two headers hold different keys.
    pub fn read(
        headers: &HeaderMap,
        endpoint_header: Option<&HeaderName>,
    ) -> Result<Option<ActionKey>, HeaderProblem> {
        let usual = ["rategov-action", "idempotency-key"];
        let names = usual.into_iter().chain(endpoint_header.map(HeaderName::as_str));
        let mut found: Option<&HeaderValue> = None;
        for name in names {
            for value in headers.get_all(name) {
                let length = value.len();
                let printable = value.as_bytes().iter().all(|b| (b' '..=b'~').contains(b));
                if length == 0 || length > KEY_BYTES_MAX || !printable {
                    return Err(HeaderProblem {
                        header: name.to_owned(),
                        cause: "is no key of an action",
                        hint: "send 1 to 255 printable ASCII characters, a UUID for example",
                    });
                }
                if found.is_some_and(|other| other != value) {
                    return Err(HeaderProblem {
                        header: name.to_owned(),
                        cause: "holds another key than a second header of this request",
                        hint: "`Rategov-Action` and `Idempotency-Key` name the same operation; send one of them",
                    });
                }
                found = Some(value);
            }
        }
        Ok(found.and_then(|value| value.to_str().ok()).map(|key| ActionKey(key.to_owned())))
    }
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
            agent: one(headers, "Rategov-Agent", name_hint, |text| Agent::new(text).ok())?,
            task: one(headers, "Rategov-Task", name_hint, |text| Task::new(text).ok())?,
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
        let margin = Span::from_secs(5);
        let sdk = self.sdk.timeout.map(|timeout| timeout.saturating_sub(margin));
        [self.wait, self.deadline, sdk].into_iter().flatten().fold(hold, Span::min)
    }
}

/// The one value of a header of ours.
fn one<T>(
    headers: &HeaderMap,
    name: &'static str,
    hint: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, HeaderProblem> {
    let problem = |cause| HeaderProblem { header: name.to_owned(), cause, hint };
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(problem("is there twice"));
    }
    let text = value.to_str().ok().map(str::trim).filter(|text| text.len() <= NAME_BYTES_MAX);
    match text.and_then(parse) {
        Some(parsed) => Ok(Some(parsed)),
        None => Err(problem("has a value that it can't have")),
    }
}

fn goal(headers: &HeaderMap) -> Result<Option<String>, HeaderProblem> {
    let Some(value) = headers.get("rategov-goal") else { return Ok(None) };
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
        let plain = !part.is_empty() && part.len() <= most && part.bytes().all(|b| b.is_ascii_digit());
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

impl SdkMarks {
    fn read(headers: &HeaderMap) -> SdkMarks {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let amz = text("amz-sdk-request").and_then(|text| {
            let attempt = text.split(';').find_map(|part| part.trim().strip_prefix("attempt="))?;
            attempt.parse::<u32>().ok()?.checked_sub(1)
        });
        SdkMarks {
            timeout: text("x-stainless-timeout").and_then(|text| seconds(text.trim())),
            retry: text("x-stainless-retry-count").and_then(|text| text.trim().parse().ok()).or(amz),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(pairs: &[(&str, &[u8])]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            map.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        map
    }

    fn asked(pairs: &[(&str, &[u8])]) -> Result<Asked, HeaderProblem> {
        Asked::read(&headers(pairs))
    }

    #[test]
    fn everything_that_can_be_asked_is_understood() {
        let found = asked(&[
            ("rategov-agent", b"sync-bot"),
            ("rategov-task", b"sync-482"),
            ("rategov-goal", "Kunden übertragen".as_bytes()),
            ("rategov-priority", b"background"),
            ("rategov-deadline", b"2.5"),
            ("rategov-class", b"uncertain_write"),
            ("prefer", b"return=minimal, Wait=30; x=1"),
            ("prefer", b"respond-async, wait=99"),
            ("x-stainless-timeout", b"600"),
            ("x-stainless-retry-count", b"2"),
        ])
        .unwrap();
        assert_eq!(
            found,
            Asked {
                agent: Agent::new("sync-bot").ok(),
                task: Task::new("sync-482").ok(),
                goal: Some("Kunden übertragen".to_owned()),
                priority: Some(Priority::Background),
                deadline: Some(Span::from_millis(2_500)),
                class: Some(Class::UncertainWrite),
                wait: Some(Span::from_secs(30)),
                answer: AnswerMode::Async,
                sdk: SdkMarks { timeout: Some(Span::from_secs(600)), retry: Some(2) },
            }
        );
        assert_eq!(asked(&[]), Ok(Asked::default()));
    }

    #[test]
    fn a_value_that_cannot_be_meant_is_refused_by_name() {
        for (name, value) in [
            ("Rategov-Agent", &b"\xc3\xa9"[..]),
            ("Rategov-Task", b""),
            ("Rategov-Priority", b"urgent"),
            ("Rategov-Deadline", b"-1"),
            ("Rategov-Deadline", b"1e3"),
            ("Rategov-Deadline", b"9999999"),
            ("Rategov-Deadline", b"1.1234567"),
            ("Rategov-Class", b"safe"),
            ("Rategov-Goal", b"\xff\xfe"),
            ("Prefer", b"wait=soon"),
            ("Prefer", b"wait"),
        ] {
            let problem = asked(&[(name, value)]).unwrap_err();
            assert_eq!(problem.header, name);
        }
        let twice = asked(&[("rategov-priority", b"normal"), ("rategov-priority", b"normal")]);
        assert_eq!(twice.unwrap_err().cause, "is there twice");
    }

    #[test]
    fn what_belongs_to_others_is_never_refused() {
        let found = asked(&[
            ("prefer", b"\xff, wait=1"),
            ("prefer", b"return=representation; wait"),
            ("x-stainless-timeout", b"NaN"),
            ("x-stainless-retry-count", b"-3"),
            ("amz-sdk-request", b"ttl=x; attempt=2; max=3"),
        ])
        .unwrap();
        assert_eq!(found.sdk, SdkMarks { timeout: None, retry: Some(1) });
        assert_eq!(found.wait, None);
    }

    #[test]
    fn a_caller_is_held_for_the_least_of_what_everybody_allows() {
        let hold = Span::from_secs(60);
        let held = |pairs: &[(&str, &[u8])]| asked(pairs).unwrap().held(hold);
        assert_eq!(held(&[]), hold);
        assert_eq!(held(&[("prefer", b"wait=90"), ("x-stainless-timeout", b"45")]), Span::from_secs(40));
        assert_eq!(held(&[("rategov-deadline", b"7")]), Span::from_secs(7));
        assert_eq!(held(&[("x-stainless-timeout", b"3")]), Span::ZERO);
    }

    #[test]
    fn two_headers_with_one_key_are_one_key() {
        let read = |pairs: &[(&str, &[u8])]| {
            let own = HeaderName::from_static("x-request-key");
            ActionKey::read(&headers(pairs), Some(&own)).map(|key| key.map(|key| key.0))
        };
        let key = Ok(Some("rec-91f2".to_owned()));
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("idempotency-key", b"rec-91f2")]), key);
        assert_eq!(read(&[("rategov-action", b"rec-91f2"), ("x-request-key", b"rec-91f2")]), key);
        assert!(read(&[("rategov-action", b"a"), ("idempotency-key", b"b")]).is_err());
        assert!(read(&[("idempotency-key", b"")]).is_err());
        assert!(read(&[("idempotency-key", &[b'x'; 256])]).is_err());
        assert!(read(&[("idempotency-key", b"\xff")]).is_err());
    }

    proptest! {
        #[test]
        fn no_value_panics_and_no_problem_shows_it(value in prop::collection::vec(any::<u8>(), 0..60)) {
            let Ok(value) = HeaderValue::from_bytes(&value) else { return Ok(()) };
            for name in ["rategov-task", "rategov-goal", "rategov-deadline", "prefer", "amz-sdk-request", "x-stainless-timeout"] {
                let mut map = HeaderMap::new();
                map.insert(name, value.clone());
                let _ = (Asked::read(&map), ActionKey::read(&map, None));
            }
        }
    }
}
