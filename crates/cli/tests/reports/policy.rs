//! From a report's `policy` to a configuration of the governor.
//!
//! | in the reports | here |
//! |---|---|
//! | `limits: ["10/10s"]` | a declared sliding quota of requests |
//! | `limits: {"parent/A": …}` | the quota of a model that the calls name |
//! | `max_parallel` | `max_concurrent_requests` |
//! | `max_attempts`, `max_wait_ms` | of every request class |
//! | `queue_timeout_ms` | `hold`: how long a call waits that was never sent |
//! | `mode: reject` | `hold: 0s` |
//! | `deadline_ms` | `Rategov-Deadline` on each call |
//! | `repeat_failure_guard` | `breaker.failures` |
//! | `read_timeout_ms` | `response_timeout` |
//! | `buckets` | one declared account that takes every credential |
//! | `cls` of a call | the class of its endpoint |
//!
//! The base policy is the one that the reports' own introduction gives. Budgets
//! that it does not know (tasks) are set out of its way; so is nothing else.

use std::fmt::Write as _;
use std::net::SocketAddr;

use crate::report::{Client, Report};

/// What a governor is set up with for one report.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// The preset that the provider starts from.
    pub(crate) preset: String,
    /// Longest hold of a call that was never sent.
    pub(crate) hold_ms: u64,
    /// Waiting after the first attempt.
    pub(crate) max_wait_ms: u64,
    /// Sends of one action.
    pub(crate) max_attempts: u64,
    /// From the call, where it says nothing itself; as in the base policy nothing
    /// ends by it alone, only what the report itself sets is sent.
    pub(crate) deadline_ms: Option<u64>,
    /// Identical failures before a path stops.
    pub(crate) breaker_failures: u64,
    /// Calls open at once.
    pub(crate) max_concurrent: Option<u64>,
    /// To the first byte of an answer.
    pub(crate) response_timeout_ms: u64,
    /// Whether one declared account takes every credential.
    pub(crate) one_account: bool,
    /// Declared quotas: scope, limit, window.
    pub(crate) quotas: Vec<(String, u64, String)>,
    /// Endpoints: what they match, their class, further keys.
    pub(crate) endpoints: Vec<(String, &'static str, String)>,
    /// Further keys of the provider.
    pub(crate) provider: Vec<String>,
    /// Further lines of the configuration.
    pub(crate) extra: String,
}

impl Setup {
    /// The setup of a report: the base policy, and over it what the report says.
    pub(crate) fn of(report: &Report) -> Setup {
        let policy = &report.scenario.policy;
        let number = |key: &str| policy.get(key).and_then(serde_json::Value::as_u64);
        let text = |key: &str| policy.get(key).and_then(serde_json::Value::as_str);
        let max_wait_ms = number("max_wait_ms").unwrap_or(30_000);
        let hold_ms = match (text("mode"), number("queue_timeout_ms")) {
            (Some("reject"), _) => 0,
            (_, Some(own)) => own,
            (_, None) => max_wait_ms.max(60_000),
        };
        Setup {
            preset: preset_of(&report.scenario.clients),
            hold_ms,
            max_wait_ms,
            max_attempts: number("max_attempts").unwrap_or(3),
            deadline_ms: number("deadline_ms"),
            breaker_failures: number("repeat_failure_guard").unwrap_or(3),
            max_concurrent: number("max_parallel"),
            response_timeout_ms: number("read_timeout_ms").unwrap_or(600_000),
            one_account: policy.contains_key("limits") || policy.contains_key("buckets"),
            quotas: quotas_of(policy.get("limits")),
            endpoints: endpoints_of(&report.scenario.clients),
            provider: Vec::new(),
            extra: String::new(),
        }
    }

    /// One more key of the provider.
    pub(crate) fn more(&mut self, key: &str) {
        self.provider.push(key.to_owned());
    }

    /// The configuration's text, for a provider at `base`.
    pub(crate) fn text(&self, base: SocketAddr) -> String {
        let mut yaml = String::new();
        let mut line = |indent: usize, text: &str| {
            let _ = writeln!(yaml, "{:indent$}{text}", "");
        };
        line(0, &format!("hold: {}ms", self.hold_ms));
        line(0, "backoff: { base: 1s, cap: 30s, minimum: 250ms }");
        line(
            0,
            &format!("breaker: {{ failures: {} }}", self.breaker_failures),
        );
        line(
            0,
            "task: { max_retries: 100000, max_wait_seconds: 1000000, deadline: 24h }",
        );
        if let Some(most) = self.max_concurrent {
            line(
                0,
                &format!("shared_scope: {{ max_concurrent_requests: {most} }}"),
            );
        }
        line(0, "request_classes:");
        for (class, statuses) in [
            ("read", "[408, 429, 500, 502, 503, 504]"),
            ("generation", "[408, 429, 500, 502, 503, 504]"),
            ("idempotent_write", "[408, 429, 502, 503, 504]"),
            ("uncertain_write", "[429, 503]"),
        ] {
            let statuses = if self.max_attempts > 1 {
                statuses
            } else {
                "[]"
            };
            let wait = self.max_wait_ms / 1_000;
            let most = self.max_attempts;
            line(
                2,
                &format!(
                    "{class}: {{ max_attempts: {most}, max_wait_seconds: {wait}, retry_statuses: {statuses} }}"
                ),
            );
        }
        line(0, "providers:");
        line(2, "api:");
        line(4, &format!("preset: {}", self.preset));
        line(4, &format!("base_url: http://{base}"));
        line(
            4,
            &format!("response_timeout: {}ms", self.response_timeout_ms),
        );
        line(4, "refusals_unprocessed: [429, 503]");
        for key in &self.provider {
            line(4, key);
        }
        if self.one_account {
            line(4, "accounts:");
            line(6, "main:");
            line(
                8,
                &format!("quotas: {}", if self.quotas.is_empty() { "[]" } else { "" }),
            );
            for (scope, limit, window) in &self.quotas {
                line(
                    10,
                    &format!(
                        "- {{ scope: \"{scope}\", dimension: requests, limit: {limit}, window: {window}, kind: sliding }}"
                    ),
                );
            }
        }
        line(4, "endpoints:");
        for (matches, class, keys) in &self.endpoints {
            line(
                6,
                &format!("- {{ match: \"{matches}\", class: {class}{keys} }}"),
            );
        }
        yaml.push_str(&self.extra);
        yaml
    }

    /// Makes every write one whose provider honours keys: the class and the words
    /// of the endpoint rule. `lookup` is the rule's `reconcile`, if it has one.
    pub(crate) fn honour_keys(&mut self, lookup: &str) {
        for (_, class, keys) in &mut self.endpoints {
            if *class == "uncertain_write" {
                *class = "idempotent_write";
                *keys = format!(
                    ", idempotency: {{ header: Idempotency-Key, lifetime: 24h, stores: all, \
                     in_progress: 409, mismatch: 422 }}{lookup}"
                );
            }
        }
    }
}

/// The preset that knows the paths that are called.
fn preset_of(clients: &[Client]) -> String {
    let calls = |part: &str| clients.iter().any(|client| client.send.contains(part));
    let preset = match () {
        () if calls("/v1/messages") => "anthropic",
        () if calls("/v1/chat/completions") || calls("/responses") => "openai",
        () => "generic",
    };
    preset.to_owned()
}

/// Declared quotas, as `10/10s`, `10/min`, or by scope.
fn quotas_of(limits: Option<&serde_json::Value>) -> Vec<(String, u64, String)> {
    let quota = |scope: &str, text: &str| {
        let (limit, window) = text.split_once('/')?;
        let window = match window {
            "min" => "60s".to_owned(),
            "s" => "1s".to_owned(),
            other => other.to_owned(),
        };
        // A part of an account's quota is told here by the model that is named.
        let scope = match scope.split_once('/') {
            Some((_, part)) => format!("model:{part}"),
            None => "account".to_owned(),
        };
        Some((scope, limit.parse().ok()?, window))
    };
    match limits {
        Some(serde_json::Value::Array(list)) => list
            .iter()
            .filter_map(|it| quota("", it.as_str()?))
            .collect(),
        Some(serde_json::Value::Object(named)) => named
            .iter()
            .filter_map(|(scope, it)| quota(scope, it.as_str()?))
            .collect(),
        _ => Vec::new(),
    }
}

/// The endpoints that the calls are made to, each with the class it has there.
fn endpoints_of(clients: &[Client]) -> Vec<(String, &'static str, String)> {
    let mut known: Vec<(String, &'static str, String)> = Vec::new();
    for client in clients {
        let class = match client.cls.as_deref() {
            Some("read") => "read",
            Some("generation") => "generation",
            Some("write") => "uncertain_write",
            _ => continue,
        };
        let call = client.send.split('?').next().unwrap_or_default().to_owned();
        if !known.iter().any(|(own, ..)| *own == call) {
            known.push((call, class, String::new()));
        }
    }
    known
}
