//! The provider's own count: every arrival, and every effect that really
//! happened. All measurements of attempts are taken here and never from the
//! governor's own counters.
//!
//! Bounded: beyond its capacity the oldest arrival (or effect) is dropped and
//! counted as dropped; totals stay exact. Credentials are kept as labels only.

mod charges;

use std::collections::{BTreeMap, VecDeque};

pub use charges::{QuotaCounts, QuotaTotals, Tokens};

use rategov_core::time::Moment;
use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::message::Fields;
use super::quota::Settled;

/// Most arrivals, effects and distinct keys that are kept by default.
pub const CAPACITY: usize = 1_000_000;
/// Longest text of one entry, in bytes; longer ones are cut.
const TEXT_BYTES_MAX: usize = 2_048;
/// Request fields by which an attempt tells what it is.
const MARKS: [&str; 10] = [
    "x-stainless-retry-count",
    "x-stainless-read-timeout",
    "amz-sdk-request",
    "amz-sdk-invocation-id",
    "grpc-previous-rpc-attempts",
    "traceparent",
    "x-request-id",
    "x-agent",
    "prefer",
    "user-agent",
];
/// Fields of the governor, which must never arrive; recorded if they do.
const GOVERNOR_PREFIX: &str = "rategov";

/// Number of an arrival; the first is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ArrivalNo(pub u64);

/// What became of an arrival.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", content = "by", rename_all = "snake_case")]
pub enum Verdict {
    /// Served.
    Accepted,
    /// Refused by the named quota.
    Refused(String),
    /// Answered or spoiled by the script: the fault's word, or the status.
    Faulted(String),
}

/// How the answer to an arrival ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The whole answer was written.
    Answered,
    /// The provider cut it, as scripted.
    Cut,
    /// The caller left before its end.
    CallerGone,
}

/// One request that arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Arrival {
    /// Its number.
    pub no: ArrivalNo,
    /// When its last byte was read, in microseconds on the provider's clock.
    #[serde(rename = "at_us", serialize_with = "micros")]
    pub at: Moment,
    /// Its method.
    pub method: String,
    /// Its raw target, query included.
    pub target: String,
    /// Its idempotency key.
    pub key: Option<String>,
    /// The label of its credential.
    pub credential: String,
    /// The account that the credential belongs to.
    pub account: String,
    /// Fields by which SDKs mark their attempts, and any of the governor's own.
    pub marks: BTreeMap<String, String>,
    /// SHA-256 of its body, hexadecimal.
    pub body_sha256: String,
    /// Length of its body in bytes.
    pub body_bytes: u64,
    /// Other calls that were open when it arrived.
    pub in_flight: u64,
    /// What became of it.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The status that was to be answered; null if no answer was to be given.
    pub status: Option<u16>,
    /// What it took of a model; absent while it is open, and for other calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// What each limit charged it, in the end; empty while it is open.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub charged: BTreeMap<String, u64>,
    /// When and how its answer ended; null while it is open.
    #[serde(flatten)]
    pub ended: Option<Ended>,
}

/// The end of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Ended {
    /// When, in microseconds on the provider's clock.
    #[serde(rename = "ended_at_us", serialize_with = "micros")]
    pub at: Moment,
    /// How.
    #[serde(rename = "ended")]
    pub how: Finish,
}

/// What kind of effect a call had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    /// A record was created.
    Created,
    /// A record was deleted.
    Deleted,
    /// An invitation went out.
    Invited,
    /// A counter went up by one.
    Counted,
    /// Any other write was carried out.
    Written,
    /// A model answered: no outside effect, but it is billed.
    Generated,
}

/// One effect that really happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EffectEntry {
    /// When, in microseconds on the provider's clock. Later than the arrival by
    /// the service time, so it can lie ahead of the moment of reading.
    #[serde(rename = "at_us", serialize_with = "micros")]
    pub at: Moment,
    /// The arrival that caused it.
    pub arrival: ArrivalNo,
    /// What it was.
    pub kind: EffectKind,
    /// The idempotency key of the call.
    pub key: Option<String>,
    /// The caller's own reference for the operation: `external_ref` in the body.
    pub operation: Option<String>,
    /// What it made or changed: `rec_1`.
    pub target: String,
}

/// Totals that stay exact when old entries are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Requests that arrived.
    pub arrived: u64,
    /// Those that were served.
    pub accepted: u64,
    /// Those that a quota refused.
    pub refused: u64,
    /// Those that the script answered or spoiled.
    pub faulted: u64,
    /// Effects that happened, generations apart.
    pub effects: u64,
    /// Generations that happened.
    pub generations: u64,
    /// Arrivals that are no longer listed.
    pub arrivals_dropped: u64,
    /// Effects that are no longer listed.
    pub effects_dropped: u64,
    /// Effects whose key or operation found no place in the counts.
    pub uncounted: u64,
}

/// Arrivals and effects.
#[derive(Clone, Debug, Serialize)]
pub struct Ledger {
    totals: Totals,
    quotas: QuotaCounts,
    arrivals: VecDeque<Arrival>,
    effects: VecDeque<EffectEntry>,
    effects_by_key: BTreeMap<String, u64>,
    effects_by_operation: BTreeMap<String, u64>,
    #[serde(skip)]
    capacity: usize,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger::new(CAPACITY)
    }
}

impl Ledger {
    /// An empty ledger that lists at most `capacity` arrivals and as many effects.
    pub fn new(capacity: usize) -> Ledger {
        Ledger {
            totals: Totals::default(),
            quotas: QuotaCounts::default(),
            arrivals: VecDeque::new(),
            effects: VecDeque::new(),
            effects_by_key: BTreeMap::new(),
            effects_by_operation: BTreeMap::new(),
            capacity: capacity.max(1),
        }
    }

    /// The number that the next arrival gets.
    pub fn next_no(&self) -> ArrivalNo {
        ArrivalNo(self.totals.arrived + 1)
    }

    /// Writes an arrival down; its number must be [`Ledger::next_no`].
    pub fn arrive(&mut self, mut arrival: Arrival) {
        debug_assert_eq!(
            arrival.no,
            self.next_no(),
            "arrivals are numbered without a gap"
        );
        cut(&mut arrival.target);
        if let Some(key) = &mut arrival.key {
            cut(key);
        }
        if let Verdict::Refused(rule) = &arrival.verdict {
            self.quotas.refuse(rule);
        }
        self.totals.arrived += 1;
        *match arrival.verdict {
            Verdict::Accepted => &mut self.totals.accepted,
            Verdict::Refused(_) => &mut self.totals.refused,
            Verdict::Faulted(_) => &mut self.totals.faulted,
        } += 1;
        if self.arrivals.len() >= self.capacity {
            self.arrivals.pop_front();
            self.totals.arrivals_dropped += 1;
        }
        self.arrivals.push_back(arrival);
    }

    /// Writes the end of an arrival's answer down. The first end counts.
    pub fn finish(&mut self, no: ArrivalNo, at: Moment, how: Finish) {
        if let Some(arrival) = self.listed(no) {
            arrival.ended.get_or_insert(Ended { at, how });
        }
    }

    fn listed(&mut self, no: ArrivalNo) -> Option<&mut Arrival> {
        let first = self.arrivals.front()?.no.0;
        let place = usize::try_from(no.0.checked_sub(first)?).ok()?;
        self.arrivals.get_mut(place)
    }

    /// Writes down what an arrival that has ended took.
    pub fn settle(&mut self, no: ArrivalNo, tokens: Option<Tokens>, settled: &[Settled]) {
        for one in settled {
            self.quotas.settle(one);
        }
        if let Some(arrival) = self.listed(no) {
            arrival.tokens = tokens;
            let units = settled.iter().map(|one| (one.rule.clone(), one.in_the_end));
            arrival.charged = units.collect();
        }
    }

    /// Writes an effect down.
    pub fn effect(&mut self, effect: EffectEntry) {
        match effect.kind {
            EffectKind::Generated => self.totals.generations += 1,
            _ => self.totals.effects += 1,
        }
        for (counts, name) in [
            (&mut self.effects_by_key, &effect.key),
            (&mut self.effects_by_operation, &effect.operation),
        ] {
            let Some(name) = name else { continue };
            let mut name = name.clone();
            cut(&mut name);
            if counts.len() < self.capacity || counts.contains_key(&name) {
                *counts.entry(name).or_default() += 1;
            } else {
                self.totals.uncounted += 1;
            }
        }
        if self.effects.len() >= self.capacity {
            self.effects.pop_front();
            self.totals.effects_dropped += 1;
        }
        self.effects.push_back(effect);
    }

    /// The totals.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// What calls took of each limit.
    pub fn quotas(&self) -> &QuotaCounts {
        &self.quotas
    }

    /// The listed arrivals, oldest first.
    pub fn arrivals(&self) -> impl DoubleEndedIterator<Item = &Arrival> + ExactSizeIterator {
        self.arrivals.iter()
    }

    /// The listed effects, in the order in which they were caused.
    pub fn effects(&self) -> impl DoubleEndedIterator<Item = &EffectEntry> + ExactSizeIterator {
        self.effects.iter()
    }

    /// Listed effects that have happened by `now`.
    pub fn effects_at(&self, now: Moment) -> usize {
        self.effects.iter().filter(|e| e.at <= now).count()
    }

    /// When the next listed effect after `now` happens.
    pub fn next_effect_after(&self, now: Moment) -> Option<Moment> {
        self.effects
            .iter()
            .map(|e| e.at)
            .filter(|at| *at > now)
            .min()
    }

    /// Effects under one idempotency key.
    pub fn effects_of_key(&self, key: &str) -> u64 {
        self.effects_by_key.get(key).copied().unwrap_or(0)
    }

    /// Effects of one operation, by the caller's own reference.
    pub fn effects_of_operation(&self, operation: &str) -> u64 {
        self.effects_by_operation
            .get(operation)
            .copied()
            .unwrap_or(0)
    }

    /// The largest number of effects that one key or one operation had: above
    /// one, something was done twice.
    pub fn effects_most(&self) -> u64 {
        let counts = self
            .effects_by_key
            .values()
            .chain(self.effects_by_operation.values());
        counts.copied().max().unwrap_or(0)
    }

    /// The ledger without arrivals up to and including `no`.
    pub fn since(&self, no: ArrivalNo) -> Ledger {
        let arrivals = self
            .arrivals
            .iter()
            .filter(|a| a.no > no)
            .cloned()
            .collect();
        Ledger {
            arrivals,
            ..self.clone()
        }
    }
}

/// The fields of a request that tell what attempt it is.
pub fn marks_of(fields: &Fields) -> BTreeMap<String, String> {
    fields
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .filter(|(name, _)| MARKS.contains(&name.as_str()) || name.starts_with(GOVERNOR_PREFIX))
        .take(2 * MARKS.len())
        .map(|(name, value)| {
            let mut value = value.to_owned();
            cut(&mut value);
            (name, value)
        })
        .collect()
}

/// The label of a credential: enough to tell two apart, not to use one.
pub fn label_of(secret: &str) -> String {
    format!("cred-{}", &sha256(secret.as_bytes())[..8])
}

/// SHA-256 in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn cut(text: &mut String) {
    if text.len() > TEXT_BYTES_MAX {
        let end = (0..=TEXT_BYTES_MAX)
            .rev()
            .find(|n| text.is_char_boundary(*n))
            .unwrap_or(0);
        text.truncate(end);
    }
}

fn micros<S: Serializer>(at: &Moment, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(at.as_micros())
}

#[cfg(test)]
mod tests;
