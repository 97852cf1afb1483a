//! Taking up what a restart found: how each action is to be treated, and its runner.
//!
//! What is stored of a write, and of what runs without its caller, is its head
//! without credentials, and its body. The credential is added anew from the
//! configuration. A pass-through credential is never stored: such an action is not
//! looked up or sent, so its look-ups end without an answer and a person is asked.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version, request};
use http_body_util::Full;
use rategov_core::engine::Setup;
use rategov_core::event::{Requested, TEXT_BYTES_MAX};
use rategov_core::id::{Account, ActionId};
use rategov_core::policy::{AccountPolicy, TaskLimits};
use rategov_core::record::ActionRow;
use rategov_core::tasks::task_key;
use rategov_store::{Attachment, Payload as StoredPayload};

use super::framing::Framing;
use super::job::{Credentials, Job, Payload};
use super::meter::{self, Metered};
use super::policy::{duration, timeouts};
use super::purpose::Purpose;
use super::run::Runner;
use super::serve::Gateway;
use super::spool::{Spool, SpoolError, SpoolLimits};
use crate::config::settings::ScopedCall;
use crate::driver::{Cell, Mailbox, Resume};
use crate::route::template::Parameters;

/// How often room for a stored body is asked for, and how long between two tries.
const ROOM_TRIES: u32 = 30;
const ROOM_PAUSE: Duration = Duration::from_secs(1);

/// A request's head as it is stored.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct StoredHead {
    method: String,
    target: String,
    headers: Vec<(String, Vec<u8>)>,
    chunked: bool,
    has_body: bool,
    /// Whether a field was left out that may have said who calls.
    withheld: bool,
}

impl StoredHead {
    /// The head of a request that is about to be sent for the first time.
    pub fn new(
        head: &request::Parts,
        headers: Vec<(String, Vec<u8>)>,
        framing: Framing,
    ) -> StoredHead {
        StoredHead {
            method: head.method.as_str().to_owned(),
            target: head.uri.to_string(),
            withheld: headers.len() < head.headers.len(),
            headers,
            chunked: framing == Framing::Chunked,
            has_body: framing != Framing::None,
        }
    }

    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    fn decode(bytes: &[u8]) -> Option<StoredHead> {
        serde_json::from_slice(bytes).ok()
    }

    fn framing(&self, length: usize) -> Framing {
        match (self.has_body, self.chunked) {
            (false, _) => Framing::None,
            (true, true) => Framing::Chunked,
            (true, false) => Framing::Length(length as u64),
        }
    }

    fn parts(&self) -> Option<request::Parts> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            headers.append(name, HeaderValue::from_bytes(value).ok()?);
        }
        let mut parts = http::Request::new(()).into_parts().0;
        parts.method = Method::from_bytes(self.method.as_bytes()).ok()?;
        parts.uri = self.target.parse::<Uri>().ok()?;
        parts.version = Version::HTTP_11;
        parts.headers = headers;
        Some(parts)
    }
}

/// A stored head, read as a restart reads it and stored again; for tests of damaged
/// input.
pub(crate) fn stored_again(bytes: &[u8]) -> Option<Vec<u8>> {
    let stored = StoredHead::decode(bytes)?;
    let parts = stored.parts()?;
    let fields = parts.headers.iter();
    let headers = fields.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
    let again = StoredHead {
        method: parts.method.as_str().to_owned(),
        target: parts.uri.to_string(),
        headers: headers.collect(),
        ..stored
    };
    Some(again.encode())
}

impl Resume for Gateway {
    fn setup(&self, row: &ActionRow) -> Option<Setup> {
        let policy = self.policy();
        let requested = &row.requested;
        let settings = policy.settings.providers.get(&requested.provider)?;
        let route = policy.routes.resolve(
            requested.provider.as_str(),
            &requested.method,
            &requested.path,
        )?;
        if may_be_cut(&requested.path) && route.endpoint != requested.endpoint {
            // Its end told which endpoint it is.
            return None;
        }
        let agents = policy.settings.agents.get(&requested.agent);
        let scopes = policy.scopes(
            &requested.account,
            &ScopedCall {
                endpoint: &requested.endpoint,
                model: requested.model.as_deref(),
                credential: Some(&requested.credential),
            },
        );
        Some(Setup {
            profile: Arc::clone(&route.rule.profile),
            scopes: scopes.into(),
            cost: route.rule.cost,
            // Its body is in the tables; its length is what its engine asks for.
            sizing: (!Metered::of(&route.rule, &settings.meter).is_not()).then(|| {
                let length = requested.payload_bytes;
                let rules = &settings.meter;
                Box::new(meter::sizing::by_length(length, &route.rule, rules))
            }),
            limits: policy.limits(&requested.provider, &requested.account, requested.class),
            weight: agents.map_or(1, |agent| agent.limits.weight),
            agent_concurrent_max: agents.and_then(|agent| agent.limits.max_concurrent),
            attempt_timeout: settings.timeouts.response,
            may_send_new: policy.settings.escalation.send_new_operation
                == crate::config::settings::SendNewOperation::Offered,
        })
    }

    fn start(&self, cell: &Arc<Cell>, row: &ActionRow, mut mailbox: Mailbox) {
        let (gateway, cell, row) = (self.clone(), Arc::clone(cell), row.clone());
        self.0.runtime.spawn(async move {
            // The payload is there once the engine says something: a child's commits
            // with its first record.
            let first = tokio::select! {
                biased;
                first = mailbox.next() => first,
                () = cell.closed() => None,
            };
            let Some(first) = first else {
                return;
            };
            let driver = gateway.0.driver.clone();
            let job = tokio::select! {
                biased;
                () = cell.closed() => return,
                job = gateway.job_of(&row) => job,
            };
            match job {
                Some(job) => {
                    Runner::resumed(driver, cell, mailbox, job, &row)
                        .run(vec![first])
                        .await;
                }
                None => {
                    tracing::error!(
                        action = %row.requested.action,
                        "the route of an action is gone; a person must settle it"
                    );
                    driver.leave_unrun(&cell, mailbox, first);
                }
            }
        });
    }

    fn child_payload(&self, parent: StoredPayload, child: &Requested) -> Option<Attachment> {
        let policy = Gateway::policy(self);
        let provider = child.provider.as_str();
        let route = policy
            .routes
            .resolve(provider, &child.method, &child.path)?;
        let mut head = StoredHead::decode(&parent.head)?;
        if let (Some(name), Some(key)) = (&route.rule.idempotency_header, &child.key) {
            head.headers.retain(|(own, _)| own != name.as_str());
            head.headers
                .push((name.as_str().to_owned(), key.clone().into_bytes()));
        }
        Some(Attachment::Payload(StoredPayload {
            action: child.action,
            head: head.encode(),
            body: parent.body,
        }))
    }

    fn policy(&self, account: &Account) -> AccountPolicy {
        Gateway::policy(self).account(account)
    }

    fn task_limits(&self) -> TaskLimits {
        Gateway::policy(self).settings.task
    }
}

/// Whether a path of a record may lack its end.
fn may_be_cut(path: &str) -> bool {
    // A cut comes at a character's border.
    TEXT_BYTES_MAX < path.len() + char::MAX.len_utf8()
}

/// What is stored of a request, read.
struct StoredRequest {
    head: StoredHead,
    parts: request::Parts,
    body: Bytes,
}

impl Gateway {
    /// The request of an action as it is stored. One that can't be read, because its
    /// key is lost or it is damaged, is as good as none: the action can be looked up
    /// and asked about, and it is not sent.
    async fn stored_request(&self, id: ActionId) -> Option<StoredRequest> {
        let reader = self.0.driver.store().reader();
        let stored = match tokio::task::spawn_blocking(move || reader.payload(id)).await {
            Ok(Ok(stored)) => stored?,
            Ok(Err(cause)) => {
                tracing::error!(action = %id, %cause, "its stored request can't be read; it is not sent again");
                return None;
            }
            // The process stops.
            Err(_) => return None,
        };
        let head = StoredHead::decode(&stored.head);
        let parts = head.as_ref().and_then(StoredHead::parts);
        let (Some(head), Some(parts)) = (head, parts) else {
            tracing::error!(action = %id, "its stored request is damaged; it is not sent again");
            return None;
        };
        Some(StoredRequest {
            head,
            parts,
            body: Bytes::from(stored.body),
        })
    }

    /// Puts a stored body where it can be sent from. After a restart many want room
    /// at once: who finds none waits, but not for ever, since it may hold a seat
    /// that those who have room wait for.
    async fn room_for(&self, id: ActionId, stored: &StoredRequest) -> Payload {
        let limits = SpoolLimits {
            max_replay: u64::MAX,
            stall: duration(self.policy().settings.client_stall),
            directory: self.0.spill_folder.clone(),
        };
        let framing = stored.head.framing(stored.body.len());
        for _ in 0..ROOM_TRIES {
            let body = Full::new(stored.body.clone());
            match Spool::take(body, framing, &limits, &self.0.budget).await {
                Ok(spool) => return Payload::Stored(spool),
                Err(SpoolError::Full) => tokio::time::sleep(ROOM_PAUSE).await,
                Err(cause) => {
                    tracing::error!(action = %id, %cause, "its body can't be kept; it is not sent again");
                    return Payload::Missing;
                }
            }
        }
        tracing::error!(action = %id, "there is no room for its body; it is not sent again");
        Payload::Missing
    }

    /// The body of an action as it is stored, where it can be sent from.
    pub(super) async fn stored_payload(&self, id: ActionId) -> Payload {
        match self.stored_request(id).await {
            Some(stored) => self.room_for(id, &stored).await,
            None => Payload::Missing,
        }
    }

    async fn job_of(&self, row: &ActionRow) -> Option<Job> {
        let policy = self.policy();
        let requested = &row.requested;
        let settings = Arc::clone(policy.provider(&requested.provider)?);
        let destination = policy.destinations.get(&requested.provider)?.clone();
        let stored = self.stored_request(requested.action).await;
        // The path in the record is cut where it is long; the stored head has all of it.
        let whole = stored
            .as_ref()
            .and_then(|stored| destination.path_of(&stored.head.target));
        let route = policy.routes.resolve(
            requested.provider.as_str(),
            &requested.method,
            whole.unwrap_or(&requested.path),
        )?;
        let parameters = match whole {
            None if may_be_cut(&requested.path) => Parameters::default(),
            _ => route.parameters,
        };
        let external_ref = stored
            .as_ref()
            .and_then(|stored| route.rule.external_ref_in(&stored.body));
        let (mut head, payload, withheld) = match stored {
            Some(stored) => {
                let payload = self.room_for(requested.action, &stored).await;
                (stored.parts, payload, stored.head.withheld)
            }
            None => {
                let mut parts = http::Request::new(()).into_parts().0;
                parts.method = Method::from_bytes(requested.method.as_bytes()).ok()?;
                parts.version = Version::HTTP_11;
                parts
                    .headers
                    .insert(http::header::HOST, destination.host_header().clone());
                (parts, Payload::Missing, true)
            }
        };
        let credentials = match policy.injection(&requested.credential) {
            Some(injection) => {
                injection.put_into(&mut head.headers);
                Credentials::Present
            }
            None if withheld => Credentials::Missing,
            None => Credentials::Present,
        };
        Some(Job {
            gateway: self.clone(),
            upstream: Arc::clone(&self.0.upstream),
            destination,
            timeouts: timeouts(&settings),
            head,
            credentials,
            payload,
            given_back: std::sync::Mutex::new(None),
            provider: requested.provider.clone(),
            settings,
            endpoint: requested.endpoint.clone(),
            rule: Arc::clone(&route.rule),
            parameters,
            class: requested.class,
            purpose: Purpose::of(requested.class, requested.detached),
            task: task_key(&requested.agent, requested.task.as_ref()),
            key: requested.key.clone(),
            known_operation: row.operation_id.clone(),
            external_ref,
            respond_async: false,
            patience: None,
            client_stall: duration(policy.settings.client_stall),
        })
    }
}
