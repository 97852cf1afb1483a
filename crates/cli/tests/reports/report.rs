//! The users' reports as they stand in their file: one JSON object a line.
//!
//! Nothing here judges. Unknown keys are errors, so that a report that says
//! something new is noticed instead of being read as if it said nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rategov_sim::provider::fault::WrittenStep;
use serde::Deserialize;

/// Names the file; without it the project's own place beside the workspace is used.
const VARIABLE: &str = "RATEGOV_REPORTS";
/// Where the file is, seen from the workspace.
const BESIDE_WORKSPACE: &str = "../shared/reports-open.jsonl";

/// One report.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Report {
    /// `R17`.
    pub(crate) id: String,
    /// What went wrong for the user, in a few words.
    pub(crate) title: String,
    /// The family it belongs to.
    pub(crate) kind: String,
    /// What happens in it.
    pub(crate) scenario: Scenario,
    /// What must come of it.
    pub(crate) expected: Expected,
}

/// What happens.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// Settings of the governor, by the report's own names.
    #[serde(default)]
    pub(crate) policy: BTreeMap<String, serde_json::Value>,
    /// Things that go wrong besides, in words; the table sets them up.
    #[serde(default, rename = "faults")]
    pub(crate) _faults: Vec<String>,
    /// The provider's answers, in the order of arrival.
    pub(crate) upstream: Vec<WrittenStep>,
    /// The calls.
    pub(crate) clients: Vec<Client>,
    /// The same scenario, changed in one thing.
    #[serde(default)]
    pub(crate) variants: Vec<String>,
    /// For people.
    #[serde(default, rename = "note")]
    pub(crate) _note: Option<String>,
}

/// Calls of one kind.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Client {
    /// When the first is made.
    pub(crate) at_ms: u64,
    /// `METHOD PATH`, or in words what is done instead.
    pub(crate) send: String,
    /// `read`, `generation` or `write`.
    pub(crate) cls: Option<String>,
    /// How many.
    pub(crate) n: Option<u64>,
    /// The pause between two of them; all at once without it.
    pub(crate) every_ms: Option<u64>,
    /// They are spread over this time.
    pub(crate) over_ms: Option<u64>,
    /// The agent.
    pub(crate) who: Option<String>,
    /// The credential.
    pub(crate) cred: Option<String>,
    /// The part of the quota it draws on.
    pub(crate) scope: Option<String>,
    /// The caller's own name for the operation.
    pub(crate) op: Option<String>,
    /// Its rank.
    pub(crate) priority: Option<String>,
    /// What is sent, in words.
    pub(crate) body: Option<String>,
    /// The model that the body names.
    pub(crate) model: Option<String>,
    /// Whether the body asks for a stream.
    pub(crate) stream: bool,
    /// Tokens it will use.
    pub(crate) tokens: Option<u64>,
    /// Most tokens it asks for.
    pub(crate) max_tokens: Option<u64>,
    /// Further request headers.
    pub(crate) headers: BTreeMap<String, String>,
    /// Its deadline, from when it is made.
    pub(crate) deadline_ms: Option<u64>,
    /// When its caller hangs up.
    pub(crate) client_disconnects_at_ms: Option<u64>,
    /// How long its caller is ready to wait for the answer.
    pub(crate) client_timeout_ms: Option<u64>,
    /// Repeats of the caller's own library.
    pub(crate) sdk_retries: Option<u64>,
    /// Whether a person must approve it.
    pub(crate) needs_approval: Option<bool>,
    /// `query` or `mutation`.
    pub(crate) graphql: Option<String>,
    /// What a person does before it is made.
    pub(crate) after: Option<String>,
    /// For people.
    pub(crate) note: Option<String>,
}

/// What must come of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    /// Arrivals at the provider: a number or a text.
    pub(crate) upstream_calls: serde_json::Value,
    /// What the callers get, in words.
    pub(crate) result: String,
    /// When things happen, in words.
    #[serde(default)]
    pub(crate) timing: Vec<String>,
    /// What else must hold, in words.
    #[serde(default)]
    pub(crate) also: Vec<String>,
}

impl Client {
    /// How many calls it makes.
    pub(crate) fn count(&self) -> u64 {
        self.n.unwrap_or(1)
    }

    /// How long after the first its call number `index` is made.
    pub(crate) fn offset_ms(&self, index: u64) -> u64 {
        match (self.every_ms, self.over_ms) {
            (Some(every), _) => every * index,
            (None, Some(over)) => over * index / self.count().max(1),
            (None, None) => 0,
        }
    }
}

/// Where the reports are.
pub(crate) fn place() -> PathBuf {
    let workspace = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    match std::env::var_os(VARIABLE) {
        Some(path) => PathBuf::from(path),
        None => workspace.join(BESIDE_WORKSPACE),
    }
}

/// Every report of the file; `None`, and a word about it, if the file is not there.
pub(crate) fn read_all() -> Option<Vec<Report>> {
    let place = place();
    let Ok(text) = std::fs::read_to_string(&place) else {
        eprintln!(
            "skipped: there are no users' reports at {}\nhint: name their file in {VARIABLE}",
            place.display()
        );
        return None;
    };
    let reports = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            serde_json::from_str(line)
                .unwrap_or_else(|cause| panic!("a report can't be read: {cause}\n{line}"))
        });
    Some(reports.collect())
}
