//! A folder with a configuration and the data of one governor, whoever runs on it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The provider's credential; the governor gets it by a variable.
pub(crate) const SECRET: &str = "sk-crash-matrix";

/// Look-ups that [`CONFIGURATION`] allows one action.
pub(crate) const LOOKUPS_MAX: u64 = 8;

/// Every span is short, so that a whole life fits into a second or two; which
/// is longer than which stays as in production.
const CONFIGURATION: &str = r#"
hold: 20s
backoff: { base: 40ms, cap: 200ms, minimum: 30ms }
providers:
  fake:
    base_url: http://PROVIDER
    connect_timeout: 2s
    response_timeout: 400ms
    refusals_unprocessed: [429]
    accounts:
      ops: { credential: env:FAKE_KEY }
    endpoints:
      - match: POST /records
        class: idempotent_write
        idempotency: { header: Idempotency-Key, lifetime: 24h, stores: all, in_progress: 409, mismatch: 422 }
        operation_id: $.id
        reconcile:
          request: GET /records?key={idempotency_key}
          found: $.items[0].id
          authoritative: true
          settle: 50ms
          max_in_flight: 150ms
          max_lookups: 8
      - match: POST /orders
        class: idempotent_write
        idempotency: { header: Idempotency-Key, lifetime: 24h, stores: all, in_progress: 409, mismatch: 422 }
        operation_id: $.id
      - match: POST /invites
        class: uncertain_write
escalation: { allow_send_new_operation: true }
request_classes:
  idempotent_write: { max_attempts: 4, max_wait_seconds: 20, retry_statuses: [408, 429, 502, 503, 504] }
  uncertain_write: { max_attempts: 3, max_wait_seconds: 20, retry_statuses: [429] }
"#;

/// The folder. Removed when it is dropped.
pub(crate) struct Home {
    folder: TempDir,
    data: PathBuf,
}

impl Home {
    /// A new folder, configured for a provider at an address.
    pub(crate) fn new(provider: SocketAddr) -> Home {
        let folder = TempDir::with_prefix("rategov-test-").expect("a temporary folder");
        let data = folder.path().join("data");
        let home = Home { folder, data };
        home.configure(&CONFIGURATION.replace("PROVIDER", &provider.to_string()));
        home
    }

    /// The same, with its data elsewhere.
    pub(crate) fn with_data(self, data: &Path) -> Home {
        Home {
            data: data.to_owned(),
            ..self
        }
    }

    /// Writes another configuration.
    pub(crate) fn configure(&self, text: &str) {
        std::fs::write(self.configuration(), text).expect("the folder can be written");
    }

    /// The configuration's file.
    pub(crate) fn configuration(&self) -> PathBuf {
        self.folder.path().join("rategov.yaml")
    }

    /// The data folder.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }
}
