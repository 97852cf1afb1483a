//! The traps in what providers answer, each with a test that is named after it: what
//! looks alike and is not, what is named alike and counted otherwise, and what stands
//! where nobody looks. `docs/provider-traps.md` lists them; a test holds that page and
//! these names together, in both directions.
//!
//! A trap is shown at the lowest level that shows it truly:
//!
//! | level | with |
//! |---|---|
//! | an answer becomes facts by its provider's preset | [`facts`], [`check`] |
//! | facts become permission to call, in virtual time | [`account::Account`] |
//! | what a caller sees, over sockets | [`served::World`] |
//!
//! Worked: GitLab's `ratelimit-reset: 1796126429` is an epoch and Zendesk's
//! `ratelimit-reset: 37` is not; one test in `gitlab` and one in `desks` says so.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod account;
mod anthropic;
mod any_answer;
mod atlassian;
mod bedrock;
mod chats;
mod compatible;
mod desks;
mod edges;
mod github;
mod gitlab;
mod google;
mod microsoft;
mod openai;
mod openrouter;
mod page;
mod payments;
mod sdks;
mod served;
mod shops;
mod tables;
mod unseen;

use rategov_core::observe::{Facts, Kind};
use rategov_core::time::{Span, WallTime};
use rategov_server::config::speech::Speech;
use rategov_server::gateway::reading::Tongue;
use rategov_server::gateway::understand::understand;

/// Our clock is far off: only the answers' own dates may count.
pub(crate) const WRONG_CLOCK: WallTime = WallTime::from_secs(1_000_000_000);
const DATE: (&str, &str) = ("date", "Tue, 01 Dec 2026 12:00:00 GMT");

/// What an answer of a provider at noon says, by the provider's preset.
#[track_caller]
pub(crate) fn facts(provider: &str, status: u16, fields: &[(&str, &str)], body: &str) -> Facts {
    let speech = Speech::of(provider, None);
    assert_eq!(speech.preset, provider, "there is a preset");
    let fields = [fields, &[DATE]].concat();
    let headers: Vec<_> = fields.iter().map(|(n, v)| (*n, v.as_bytes())).collect();
    let tongue = Tongue {
        dialect: &speech.dialect,
        rules: &speech.errors,
        hidden: &[],
        arrived: WRONG_CLOCK,
    };
    understand(status, &headers, body.as_bytes(), tongue)
}

#[track_caller]
pub(crate) fn check(
    provider: &str,
    status: u16,
    fields: &[(&str, &str)],
    body: &str,
    expected: Kind,
) {
    let facts = facts(provider, status, fields, body);
    assert_eq!(
        facts.kind, expected,
        "{provider} {status} {body}: {facts:?}"
    );
}

/// The limits that an answer tells and calls are paced by: `tokens 0/18000 1.900s`,
/// ordered by name; `-` is what it does not tell.
pub(crate) fn limits(facts: &Facts) -> Vec<String> {
    let count = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let span = |s: Option<Span>| s.map_or_else(|| "-".to_owned(), |s| s.to_string());
    let mut lines: Vec<String> = facts
        .readings
        .iter()
        .map(|it| {
            let (left, limit) = (count(it.remaining), count(it.limit));
            format!("{} {left}/{limit} {}", it.label(), span(it.reset_after))
        })
        .collect();
    lines.sort();
    lines
}

/// An answer's meaning in a line: `rate_limited, model, 2s: tokens 0/18000 1.900s`.
/// Whose limit it is stands only where something has to be helped.
pub(crate) fn meaning(facts: &Facts) -> String {
    let mut line = facts.kind.word().to_owned();
    if facts.advice.is_some() {
        line = format!("{line}, {}", facts.reach.word());
    }
    if let Some(wait) = facts.retry_after {
        line = format!("{line}, {wait}");
    }
    match limits(facts) {
        none if none.is_empty() => line,
        some => format!("{line}: {}", some.join("; ")),
    }
}

pub(crate) fn secs(secs: u64) -> Option<Span> {
    Some(Span::from_secs(secs))
}
