//! The configuration as written: every key once, with its meaning.
//!
//! These types say what may stand in the file and nothing about what makes
//! sense; `config::check` turns them into [`super::settings`]. Everything is
//! optional, so that "not written" can be told from "written as the default".
//! The doc comments are the descriptions of the JSON schema, which editors show.

mod answers;
mod meter;
mod provider;

pub use answers::*;
pub use meter::*;
pub use provider::*;

use schemars::JsonSchema;
use serde::Deserialize;

use rategov_core::word::{Class, Priority};

use super::named::Named;
use super::units::{PercentText, SizeText, SpanText};
use super::words::Word;

/// The configuration file of Rate Governor. Every key may be left out.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Where the governor listens.
    pub listen: Option<ListenOptions>,
    /// Where state and journal are kept: `sqlite:FOLDER`, created if absent.
    pub store: Option<String>,
    /// Longest time that a caller is held. A longer wait is answered at once, with the time; `0s` refuses instead of waiting.
    pub hold: Option<SpanText>,
    /// Full jitter between the attempts of one action.
    pub backoff: Option<BackoffOptions>,
    /// Stops a path of a task that keeps failing in the same way.
    pub breaker: Option<BreakerOptions>,
    /// Space for bodies that are kept for a repeat. Full is a named refusal.
    pub spool: Option<SpoolOptions>,
    /// Larger request bodies are streamed once and never repeated.
    pub max_replay_body: Option<SizeText>,
    /// Sends a comment line while the first event of a stream is awaited, and so commits to a 200. `0s` is off.
    pub sse_keepalive: Option<SpanText>,
    /// A caller that reads nothing for this long loses its slot.
    pub client_stall: Option<SpanText>,
    /// The outside APIs. Left out: every built-in preset, with the callers' own credentials.
    pub providers: Option<Named<ProviderOptions>>,
    /// What one action of each request class may cost.
    pub request_classes: Option<RequestClassesOptions>,
    /// Limits that all callers of an account share.
    pub shared_scope: Option<SharedScopeOptions>,
    /// Above the classes: what one task may cost in all.
    pub task: Option<TaskOptions>,
    /// The ranks and the share of the quota that each is owed in any case.
    pub priorities: Option<PrioritiesOptions>,
    /// When a scope is slowed down before its quota is gone.
    pub predict: Option<PredictOptions>,
    /// Questions to a person.
    pub escalation: Option<EscalationOptions>,
    /// How long records stay readable.
    pub retention: Option<RetentionOptions>,
    /// Who may call. Left out: everybody who reaches the agents' listener.
    pub agents: Option<Named<AgentOptions>>,
}

/// The two listeners.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListenOptions {
    /// For agents, `ADDRESS:PORT`.
    pub agents: Option<String>,
    /// For operators, `ADDRESS:PORT`. Never the agents' one.
    pub operators: Option<String>,
    /// Further names under which operators reach their listener, such as `governor.example.com`. Others are refused, which is what stops DNS rebinding.
    pub operator_hosts: Option<Vec<String>>,
}

/// Full jitter: uniform between `minimum` and `min(cap, base·2ⁿ)`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BackoffOptions {
    /// The step that is doubled.
    pub base: Option<SpanText>,
    /// The largest step.
    pub cap: Option<SpanText>,
    /// The smallest delay, also where a hint is zero, past or missing.
    pub minimum: Option<SpanText>,
}

/// When the same failure stops a path.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerOptions {
    /// Identical failures in a task before that path stops.
    pub failures: Option<u32>,
}

/// Space for bodies.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SpoolOptions {
    /// In memory, over all calls.
    pub memory: Option<SizeText>,
    /// On disk, over all calls.
    pub disk: Option<SizeText>,
}

/// The limits of each class. One that is left out keeps its default; `generation` follows `read`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RequestClassesOptions {
    /// Calls without an outside effect.
    pub read: Option<ClassOptions>,
    /// Writes that a key makes repeatable.
    pub idempotent_write: Option<ClassOptions>,
    /// Writes that nothing makes repeatable. More attempts here serve definite refusals only.
    pub uncertain_write: Option<ClassOptions>,
    /// Model inference: no outside effect, but it costs money.
    pub generation: Option<ClassOptions>,
}

/// What one action may cost.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClassOptions {
    /// Sends in all, the first included.
    pub max_attempts: Option<u16>,
    /// Waiting after the first attempt, in all.
    pub max_wait_seconds: Option<u64>,
    /// Statuses after which a repeat may follow.
    pub retry_statuses: Option<Vec<u16>>,
    /// Whether a generation may be repeated when nobody knows whether it ran. It may be billed twice.
    pub ambiguous_retry: Option<bool>,
}

/// Limits shared by all callers of an account.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SharedScopeOptions {
    /// Most calls waiting for one account.
    pub max_delayed_requests: Option<u64>,
    /// Most calls of one agent waiting for one account.
    pub max_delayed_requests_per_agent: Option<u64>,
    /// Most calls of one account open at once. Left out: no limit but the provider's.
    pub max_concurrent_requests: Option<u32>,
    /// Repeats of the whole scope after ambiguous failures, 5xx and time-outs.
    pub retry_budget: Option<RetryBudgetOptions>,
    /// 429 events before a person is asked whether the limit is right.
    pub refusal_budget: Option<RefusalBudgetOptions>,
    /// Kept free below a declared limit, beside the margin for jitter.
    pub headroom: Option<PercentText>,
    /// Slots of `max_concurrent_requests` that only interactive work may take.
    pub reserve_interactive: Option<u32>,
}

/// Each first attempt earns `ratio` of a repeat; `burst` is the most that can be saved.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryBudgetOptions {
    /// Repeats earned by each first attempt, from 0 to 1.
    pub ratio: Option<f64>,
    /// Most repeats that can be saved; what a new scope starts with.
    pub burst: Option<u32>,
}

/// At most `events` refusals in `per`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RefusalBudgetOptions {
    /// Refusal events.
    pub events: Option<u32>,
    /// In this time.
    pub per: Option<SpanText>,
}

/// What one task may cost in all, over all accounts.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TaskOptions {
    /// Repeats of all its actions together.
    pub max_retries: Option<u32>,
    /// Waiting after first attempts, all its actions together.
    pub max_wait_seconds: Option<u64>,
    /// From its first call.
    pub deadline: Option<SpanText>,
}

/// The three ranks, best first.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PrioritiesOptions {
    /// A person waits for it.
    pub interactive: Option<PriorityOptions>,
    /// Everything that says nothing.
    pub normal: Option<PriorityOptions>,
    /// Nobody waits for it.
    pub background: Option<PriorityOptions>,
}

/// One rank.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PriorityOptions {
    /// Share of the quota it is owed in any case, so that it never starves.
    pub floor: Option<PercentText>,
}

/// When a scope is slowed down.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PredictOptions {
    /// Consumption is measured over this window.
    pub window: Option<SpanText>,
    /// Share of the quota used in the window beyond which lower priorities shrink.
    pub threshold: Option<PercentText>,
}

/// Questions to a person.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EscalationOptions {
    /// An undecided one ends after this.
    pub expires: Option<SpanText>,
    /// Whether a person may send a new operation although the first may have had its effect.
    pub allow_send_new_operation: Option<bool>,
}

/// How long records stay readable. The chain still verifies afterwards.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionOptions {
    /// What was called.
    pub calls: Option<SpanText>,
    /// Who decided what.
    pub governance: Option<SpanText>,
}

/// One agent.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentOptions {
    /// Where its token is: `env:NAME` or `file:PATH`. Never the token itself.
    pub token: Option<String>,
    /// The best rank it may ask for, and what it gets if it asks for none.
    pub priority: Option<Word<Priority>>,
    /// Its share among the agents of a rank.
    pub weight: Option<u32>,
    /// Most of its calls open at once.
    pub max_concurrent_requests: Option<u32>,
    /// The accounts it may use, `PROVIDER/ACCOUNT` or `PROVIDER/*`. Left out: all.
    pub accounts: Option<Vec<String>>,
    /// The request classes it may use. Left out: all.
    pub classes: Option<Vec<Word<Class>>>,
    /// Calls that need a person's approval each time, `PROVIDER METHOD PATH`.
    pub approve: Option<Vec<String>>,
}
