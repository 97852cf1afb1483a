//! A send on its way to the provider and back: what the transport would see.
//!
//! The provider's plan says what it writes and when; the network may lose the
//! request, the answer, or the connection before a late copy of the request
//! arrives. What is left for the governor is [`Seen`], as the transport's
//! evidence.

use rategov_core::action::outcome::{Body, Evidence, Lost, NotSent, Upload};
use rategov_core::engine::BodyEnd;
use rategov_core::estimate::Seen::{Part, Whole};
use rategov_core::estimate::Usage;
use rategov_core::event::Found;
use rategov_core::observe::tables::{generic, generic_rules};
use rategov_core::observe::{ErrorBody, Facts, Meaning, read};
use rategov_core::time::{Span, WallTime};
use serde_json::Value;

use super::order::{ATTEMPT_TIMEOUT, Kind};
use super::random::Random;
use super::scenario::Trouble;
use crate::provider::fault::Ending;
use crate::provider::plan::{self, Act, After, Plan};

/// Longest way of a copy that outlives its connection. With the provider's work
/// it stays inside [`super::order::IN_FLIGHT`].
const LATE: (u64, u64) = (500, 3_000);

/// What the network has in store for one send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing is sent.
    NoConnection(NotSent),
    /// It arrives after this, and its answer comes back after that.
    Arrives(Span, Span),
    /// It is lost; the connection breaks after this.
    Lost(Span),
    /// The connection breaks after the first; its copy arrives after the second.
    LateCopy(Span, Span),
    /// It arrives after the first; the connection breaks this long after that.
    AnswerLost(Span, Span),
}

impl Fate {
    /// Draws what happens.
    pub fn draw(random: &mut Random, trouble: Trouble) -> Fate {
        let reasons = [
            NotSent::Dns,
            NotSent::Connect,
            NotSent::Tls,
            NotSent::ConnectionClosed,
        ];
        if random.happens(trouble.no_connection) {
            return Fate::NoConnection(*random.pick(&reasons));
        }
        let there = random.millis(1, 30);
        if random.happens(trouble.request_lost) {
            return Fate::Lost(random.millis(5, 2_000));
        }
        if random.happens(trouble.late_copy) {
            return Fate::LateCopy(random.millis(5, 100), random.millis(LATE.0, LATE.1));
        }
        if random.happens(trouble.answer_lost) {
            return Fate::AnswerLost(there, random.millis(1, 1_500));
        }
        Fate::Arrives(there, random.millis(1, 30))
    }
}

/// What the transport sees of an answer, and when, counted from the arrival.
#[derive(Clone, Debug)]
pub enum Seen {
    /// All there is, at once.
    Whole(Span, Evidence),
    /// A head, and the end of its body.
    Streams {
        /// When the head is there.
        head_after: Span,
        /// What it says.
        facts: Facts,
        /// When the body ends.
        end_after: Span,
        /// How.
        end: BodyEnd,
        /// What the whole of it says that the call took.
        usage: Usage,
    },
}

/// What the transport sees of a plan that it stays to watch. `left` is what is
/// left of the time for which an answer is awaited.
pub fn watch(plan: &Plan, kind: Kind, wall: WallTime, left: Span) -> Seen {
    let seen = plan.seen();
    let malformed = plan.acts.iter().any(|act| matches!(act, Act::Raw(_)));
    let silent = seen.after == After::End(Ending::Silence);
    let Some(head) = &seen.head else {
        let lost = match (malformed, silent) {
            (true, _) => Lost::Malformed,
            (false, true) => return Seen::Whole(left, Evidence::Lost(Lost::TimedOut)),
            (false, false) => Lost::Closed,
        };
        return in_time(seen.first, left, Evidence::Lost(lost));
    };
    if left <= seen.first {
        return Seen::Whole(left, Evidence::Lost(Lost::TimedOut));
    }
    let facts = facts_of(head, &seen.body, wall);
    let streams = !kind.class().is_write() && facts.meaning == Meaning::Ok;
    if streams {
        let (end_after, end) = match (seen.whole, silent) {
            (true, _) => (seen.last, BodyEnd::Complete),
            (false, true) => (seen.last + ATTEMPT_TIMEOUT, BodyEnd::Cut),
            (false, false) => (seen.last, BodyEnd::Cut),
        };
        return Seen::Streams {
            head_after: seen.first,
            facts,
            end_after,
            end,
            usage: usage_of(&seen.body),
        };
    }
    let (after, body) = match (seen.whole, silent) {
        (true, _) => (seen.last, Body::Complete),
        (false, true) => (left, Body::Cut),
        (false, false) => (seen.last, Body::Cut),
    };
    let evidence = Evidence::Answered {
        facts,
        body,
        upload: Upload::Complete,
    };
    Seen::Whole(after.min(left), evidence)
}

/// What a stream of chat chunks says about what it took; perhaps nothing.
fn usage_of(body: &[u8]) -> Usage {
    let text = String::from_utf8_lossy(body);
    let events = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let chunks = events.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let mut reported = chunks.map(|chunk| chunk["usage"].clone());
    let reported = reported.rfind(Value::is_object);
    let tokens = |name: &str| reported.as_ref().and_then(|usage| usage[name].as_u64());
    Usage {
        input: tokens("prompt_tokens"),
        output: tokens("completion_tokens"),
        total: tokens("total_tokens"),
        output_bytes: body.len() as u64,
        seen: Whole,
        ..Usage::default()
    }
}

/// The same of a stream that was not seen to its end.
pub fn broken_off(usage: Usage) -> Usage {
    Usage {
        output: None,
        total: None,
        output_bytes: usage.output_bytes / 2,
        seen: Part,
        ..usage
    }
}

fn in_time(after: Span, left: Span, evidence: Evidence) -> Seen {
    match after < left {
        true => Seen::Whole(after, evidence),
        false => Seen::Whole(left, Evidence::Lost(Lost::TimedOut)),
    }
}

/// What a look-up's answer says.
pub fn found(plan: &Plan, wall: WallTime) -> (Found, Option<Facts>) {
    let seen = plan.seen();
    let Some(head) = seen.head.as_ref().filter(|_| seen.whole) else {
        return (Found::NoAnswer, None);
    };
    let facts = facts_of(head, &seen.body, wall);
    let json: Value = serde_json::from_slice(&seen.body).unwrap_or(Value::Null);
    let found = match (head.status, json["items"].as_array()) {
        (200, Some(items)) if items.is_empty() => Found::Nothing,
        (200, Some(_)) => Found::Done,
        _ => Found::NoAnswer,
    };
    (found, Some(facts))
}

/// What an answer says.
pub(crate) fn facts_of(head: &plan::Head, body: &[u8], wall: WallTime) -> Facts {
    let headers: Vec<(&str, &[u8])> = head
        .fields
        .iter()
        .map(|(name, value)| (name, value.as_bytes()))
        .collect();
    let json: Value = match head.status {
        400.. => serde_json::from_slice(body).unwrap_or(Value::Null),
        _ => Value::Null,
    };
    let text = |name: &str| json["error"][name].as_str();
    let error = json["error"].is_object().then(|| ErrorBody {
        code: text("code"),
        kind: text("type"),
        message: text("message"),
        ..ErrorBody::default()
    });
    read(
        head.status,
        &headers,
        error.as_ref(),
        &generic(),
        &generic_rules(),
        wall,
    )
}
