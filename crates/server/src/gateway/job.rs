//! What a runner needs to send an action, as often as it takes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, request};
use rategov_core::id::{ActionId, Endpoint, Provider};
use rategov_core::tasks::TaskKey;
use rategov_core::word::Class;
use rategov_store::{Attachment, StoredResult};

use super::destination::Destination;
use super::outgoing::Outgoing;
use super::purpose::Purpose;
use super::serve::Gateway;
use super::spool::{Replay, Spool};
use super::upstream::{Timeouts, Upstream};
use crate::config::settings::ProviderSettings;
use crate::route::Rule;
use crate::route::template::Parameters;

/// The body of an action, wherever it is kept.
pub enum Payload {
    /// Here alone, as it came from its caller.
    Spooled(Spool),
    /// Here, and in the tables.
    Stored(Spool),
    /// In the tables alone: while a person is asked it takes no room here.
    Shelved,
    /// Nowhere: a restart found the action, but not its body; or it streamed away.
    Missing,
}

/// Whether an action can show the provider who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// Its head carries all that its caller's did, or the governor's own.
    Present,
    /// Its caller's were withheld when it was stored, and there are no others.
    /// Nothing of it is sent: an answer to a stranger says nothing.
    Missing,
}

/// One action, ready to be sent.
pub struct Job {
    /// Where its body is taken back from.
    pub gateway: Gateway,
    /// The way out.
    pub upstream: Arc<Upstream>,
    /// Where to.
    pub destination: Destination,
    /// How long each step may take.
    pub timeouts: Timeouts,
    /// The head as it leaves, credential included.
    pub head: request::Parts,
    /// Whether that is so.
    pub credentials: Credentials,
    /// The body.
    pub payload: Payload,
    /// The request that the transport gave back whole. A body that streams can't
    /// be shared between threads by itself; the lock is never contended.
    pub given_back: Mutex<Option<Box<Request<Outgoing>>>>,
    /// At which provider.
    pub provider: Provider,
    /// Its settings.
    pub settings: Arc<ProviderSettings>,
    /// The endpoint.
    pub endpoint: Endpoint,
    /// What is known of it.
    pub rule: Arc<Rule>,
    /// The values of the endpoint's names.
    pub parameters: Parameters,
    /// What a repeat could do.
    pub class: Class,
    /// How its answers are read.
    pub purpose: Purpose,
    /// Whose budget it draws on.
    pub task: TaskKey,
    /// Its key.
    pub key: Option<String>,
    /// The provider's name of what it created, once known.
    pub known_operation: Option<String>,
    /// The caller's name of it.
    pub external_ref: Option<String>,
    /// Whether its caller wants a 202 when its patience is over.
    pub respond_async: bool,
    /// How long its caller waits for an answer; `None` if it did not say.
    pub patience: Option<Duration>,
    /// A caller that reads nothing for this long is gone.
    pub client_stall: Duration,
}

impl Job {
    /// The credentials that its head carries, to be cut out of what a provider
    /// echoes. Asked of the head itself, so that no way to make a job forgets them.
    pub fn hidden(&self) -> Vec<String> {
        let is_secret = |name: &HeaderName, value: &HeaderValue| {
            value.is_sensitive() || super::headers::KEY_FIELDS.contains(name)
        };
        self.head
            .headers
            .iter()
            .filter(|(name, value)| is_secret(name, value))
            .filter_map(|(_, value)| value.to_str().ok())
            .filter_map(|value| value.split_whitespace().last().map(str::to_owned))
            .collect()
    }

    /// The request of the next attempt; `None` if its body or its credential is
    /// not there any more.
    pub fn request(&mut self) -> Option<Request<Outgoing>> {
        if self.credentials == Credentials::Missing {
            return None;
        }
        let given_back = self
            .given_back
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(request) = given_back.take() {
            return Some(*request);
        }
        let (body, replay) = match &self.payload {
            Payload::Spooled(spool) | Payload::Stored(spool) => (spool.body()?, spool.replay()),
            Payload::Shelved | Payload::Missing => return None,
        };
        if replay == Replay::Streaming {
            // It leaves with its only send, and so does the room that it takes.
            self.payload = Payload::Missing;
        }
        Some(Request::from_parts(self.head.clone(), body))
    }

    /// Keeps a request that was never begun: a body that streams is still whole.
    pub fn give_back(&mut self, request: Option<Box<Request<Outgoing>>>) {
        let replayable = match &self.payload {
            Payload::Spooled(spool) | Payload::Stored(spool) => spool.replay() == Replay::Whole,
            Payload::Shelved | Payload::Missing => false,
        };
        if !replayable {
            *self
                .given_back
                .get_mut()
                .unwrap_or_else(PoisonError::into_inner) = request;
        }
    }

    /// Gives up the room that its body takes here, where the tables have it too.
    pub fn shelve(&mut self) {
        if let Payload::Stored(_) = self.payload {
            self.payload = Payload::Shelved;
        }
    }

    /// Takes its body back from the tables.
    pub async fn take_from_shelf(&mut self, id: ActionId) {
        if let Payload::Shelved = self.payload {
            self.payload = self.gateway.stored_payload(id).await;
        }
    }

    /// The identifier that an answer names.
    pub fn operation_id(&mut self, body: &[u8]) -> Option<String> {
        let path = self.rule.operation_id.as_ref()?;
        let value: serde_json::Value = serde_json::from_slice(body).ok()?;
        let found = path.find_id(&value)?;
        self.known_operation = Some(found.clone());
        Some(found)
    }

    /// The result of a write as it is stored.
    pub fn result(&self, id: ActionId, head: &http::response::Parts, body: Bytes) -> Attachment {
        Attachment::Result(StoredResult {
            action: id,
            status: head.status.as_u16(),
            headers: head
                .headers
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
                .collect(),
            body: body.to_vec(),
        })
    }
}

/// Headers of a request as they are stored for a repeat: without credentials,
/// which are added anew when it is sent.
pub fn storable(headers: &http::HeaderMap, slot: &HeaderName) -> Vec<(String, Vec<u8>)> {
    headers
        .iter()
        .filter(|(name, value)| {
            !value.is_sensitive()
                && *name != slot
                && !super::headers::KEY_FIELDS.contains(name)
                && *name != http::header::COOKIE
        })
        .map(|(name, value): (&HeaderName, &HeaderValue)| {
            (name.as_str().to_owned(), value.as_bytes().to_vec())
        })
        .collect()
}
