//! From a call to a provider to something its engine can decide on.
//!
//! ```text
//! way      where it goes, what it is, whose quota it uses      R-VAULT, R-ROUTE
//! key      the caller's key, or one that is made for it
//! head     as it leaves
//! body     kept, so that it can be sent again
//! submit   one action, handed to the engine of its account
//! ```

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, request};
use hyper::body::Incoming;
use rategov_core::action::breaker::Path;
use rategov_core::action::fingerprint;
use rategov_core::action::problem::Code;
use rategov_core::engine::{Marker, Setup, Submit};
use rategov_core::event::{Requested, bounded_text};
use rategov_core::id::{Account, ActionId, Fingerprint, Provider};
use rategov_core::tasks::task_key;
use rategov_core::time::{Moment, Span};
use rategov_core::word::Class;
use rategov_store::{Attachment, Payload as StoredPayload};

use super::destination::Destination;
use super::framing::Framing;
use super::headers::{self, Credential as Sends, Rewrite};
use super::job::{Credentials, Job, Payload, storable};
use super::meter::{self, Metered};
use super::owner::Owner;
use super::policy::{Policy, duration, timeouts};
use super::problem::{Problem, RequestCode};
use super::purpose::Purpose;
use super::refusals::{head_refusal, spool_refusal, stopping, task_refusal, unknown_provider};
use super::respond::Out;
use super::resume::StoredHead;
use super::serve::{Gateway, Given};
use super::spool::{Replay, Spool, SpoolLimits};
use super::submit::OfKey;
use crate::agents::unreadable;
use crate::auth::Caller;
use crate::auth::headers_in::{ActionKey, AnswerMode, Asked};
use crate::config::settings::{ProviderSettings, ScopedCall, SendNewOperation};
use crate::driver::new_action_id;
use crate::route::{Route, model_of};

/// Largest body in which a model's name is looked for.
const MODEL_BYTES_MAX: u64 = 4 << 20;

/// A call to a provider, as it came in.
pub(super) struct Inbound {
    pub(super) parts: request::Parts,
    pub(super) body: Incoming,
    pub(super) provider: String,
    pub(super) path: String,
    pub(super) query: Option<String>,
    pub(super) asked: Asked,
    pub(super) caller: Caller,
    pub(super) policy: Arc<Policy>,
}

/// Where a call goes, what it is, and on whose quota.
struct Way<'p> {
    settings: &'p Arc<ProviderSettings>,
    destination: &'p Destination,
    /// The provider's prefix included.
    path: String,
    route: Route,
    owner: Owner<'p>,
}

/// What a call must survive until it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outlives {
    /// A restart sends it, or sends it again: a write, or what runs without its caller.
    Restart,
    /// It ends with its caller.
    Nothing,
}

impl Outlives {
    fn of(class: Class, asked: &Asked) -> Outlives {
        match class.is_write() || asked.answer == AnswerMode::Async {
            true => Outlives::Restart,
            false => Outlives::Nothing,
        }
    }
}

/// A body that was taken in.
struct Taken {
    spool: Spool,
    /// All of it, where it is small enough to be looked into.
    contents: Option<Bytes>,
}

impl Gateway {
    /// Takes a call to a provider: route, account, body, and then the engine.
    pub(super) async fn pass(&self, call: Inbound) -> Given<Out> {
        let policy = Arc::clone(&call.policy);
        let way = self.way(&policy, &call)?;
        let key = key_of(&call.parts.headers, &way.route)?;
        let Inbound {
            parts,
            body,
            query,
            asked,
            caller,
            ..
        } = call;
        let (head, framing) = way.head(parts, query.as_deref(), key.as_deref())?;
        let outlives = Outlives::of(way.route.class, &asked);
        let taken = self.take_body(&policy, outlives, framing, body).await?;
        let Taken { spool, contents } = taken;
        let Way {
            settings,
            destination,
            path,
            route,
            owner,
        } = way;
        let body = contents.as_deref();
        let external_ref = body.and_then(|body| route.rule.external_ref_in(body));
        let model = body.and_then(|body| model_of(&route.parameters, body));
        let scopes = owner.rules.scopes(
            &owner.name,
            &ScopedCall {
                endpoint: &route.endpoint,
                model: model.as_deref(),
                credential: Some(&owner.credential),
            },
        );
        let driver = &self.0.driver;
        let (id, now) = (new_action_id(), driver.clock().now());
        let task = task_key(caller.agent(), caller.task(&asked));
        let breaker_path = Path {
            account: owner.account.clone(),
            endpoint: route.endpoint.clone(),
        };
        let allowance = driver
            .admit_task(&task, asked.goal.clone(), &breaker_path)
            .map_err(|refusal| task_refusal(&refusal))?;
        let respond_async = asked.answer == AnswerMode::Async;
        let replayable = spool.replay() == Replay::Whole;
        let requested = Arc::new(Requested {
            action: id,
            provider: route.provider.clone(),
            account: owner.account.clone(),
            credential: owner.credential.clone(),
            agent: caller.agent().clone(),
            task: caller.task(&asked).cloned(),
            task_stops: allowance.stops,
            goal: asked.goal.as_deref().map(bounded_text),
            priority: caller.priority(asked.priority),
            class: route.class,
            method: head.method.as_str().to_owned(),
            endpoint: route.endpoint.clone(),
            model,
            path: bounded_text(&path),
            fingerprint: self.fingerprint(&owner.account, &head, body, &spool),
            payload_digest: *spool.digest(),
            payload_bytes: spool.length().unwrap_or_else(|| spool.read()),
            replayable,
            key: key.clone(),
            earlier: None,
            deadline: deadline(now, &asked, driver.task_deadline(&task)),
            detached: respond_async,
            authorised_by: format!("{} as {}", caller.authority().word(), caller.agent()),
            parent: None,
        });
        let earlier = match self.stored_of_key(&requested, &owner.account).await? {
            OfKey::Free(earlier) => earlier,
            OfKey::Answered(reply) => return Ok(reply),
        };
        if let Err(state) = driver.takes_calls() {
            let problem = Problem::of_action(Code::AuditUnavailable).because(&state.to_string());
            return Err(Box::new(problem.retry_after(Some(1))));
        }
        let payload = (outlives == Outlives::Restart && replayable)
            .then(|| stored_payload(id, &head, &owner.slot, contents.as_ref(), &spool))
            .flatten();
        let sizing = match Metered::of(&route.rule, &settings.meter) {
            Metered::Whole | Metered::Points => {
                let room = &self.0.meter;
                let rule = &route.rule;
                let rules = &settings.meter;
                Some(Box::new(
                    meter::sizing::of(&head.headers, &spool, rule, rules, room).await,
                ))
            }
            Metered::Not => None,
        };
        let setup = Setup {
            profile: Arc::clone(&route.rule.profile),
            scopes: scopes.into(),
            cost: route.rule.cost,
            sizing,
            limits: policy.limits(&route.provider, &owner.account, route.class),
            weight: caller.limits().weight,
            agent_concurrent_max: caller.limits().max_concurrent,
            attempt_timeout: settings.timeouts.response,
            may_send_new: policy.settings.escalation.send_new_operation
                == SendNewOperation::Offered,
        };
        // A counter above zero says that the agent's library sends an equal call again.
        let marker = match asked.sdk.retry {
            Some(1..) => Marker::SdkRetry,
            Some(0) | None => Marker::None,
        };
        let submit = Submit {
            marker,
            requested,
            setup,
            hold_until: now + asked.held(policy.settings.hold),
            task: allowance,
            earlier,
        };
        let body = match payload {
            Some(_) => Payload::Stored(spool),
            None => Payload::Spooled(spool),
        };
        let job = Job {
            gateway: self.clone(),
            upstream: Arc::clone(&self.0.upstream),
            destination: destination.clone(),
            timeouts: timeouts(settings),
            head,
            credentials: Credentials::Present,
            payload: body,
            given_back: Mutex::new(None),
            provider: route.provider,
            settings: Arc::clone(settings),
            endpoint: route.endpoint,
            rule: route.rule,
            parameters: route.parameters,
            class: route.class,
            purpose: Purpose::of(route.class, respond_async),
            task,
            key,
            known_operation: None,
            external_ref,
            respond_async,
            patience: patience(&asked),
            client_stall: duration(policy.settings.client_stall),
        };
        let cell = driver.cell(&owner.account).await.map_err(unreadable)?;
        self.submit(cell, id, job, submit, payload).await
    }

    /// Where the call goes, and whether its caller may go there.
    fn way<'p>(&self, policy: &'p Policy, call: &Inbound) -> Given<Way<'p>> {
        let unknown = || unknown_provider(policy);
        let settings = Provider::new(&call.provider)
            .ok()
            .and_then(|name| policy.provider(&name))
            .ok_or_else(unknown)?;
        let path = settings.full_path(&call.path);
        let route = policy
            .routes
            .resolve(&call.provider, call.parts.method.as_str(), &path)
            .ok_or_else(unknown)?;
        let destination = policy
            .destinations
            .get(&route.provider)
            .ok_or_else(unknown)?;
        let route = route
            .tightened(call.asked.class)
            .map_err(|cause| Problem::of_request(RequestCode::ClassLoosened, cause.to_string()))?;
        let owner = self.owner(policy, settings, &call.caller, &call.parts.headers)?;
        let rights = call.caller.rights();
        if !rights.allow_account(&route.provider, &owner.account)
            || !rights.allow_class(route.class)
        {
            let agent = call.caller.agent();
            let why = format!("agent {agent} has no right to this account or class");
            return Err(Box::new(Problem::of_request(RequestCode::Forbidden, why)));
        }
        Ok(Way {
            settings,
            destination,
            path,
            route,
            owner,
        })
    }

    /// Takes the body in. What outlives a restart is kept whole, so that it can be
    /// sent again; of other calls only the model's name is wanted.
    async fn take_body(
        &self,
        policy: &Policy,
        outlives: Outlives,
        framing: Framing,
        body: Incoming,
    ) -> Given<Taken> {
        let limits = SpoolLimits {
            max_replay: policy.settings.max_replay_body,
            stall: duration(policy.settings.client_stall),
            directory: self.0.spill_folder.clone(),
        };
        let spool = tokio::select! {
            biased;
            taken = Spool::take(body, framing, &limits, &self.0.budget) => {
                taken.map_err(spool_refusal)?
            }
            () = self.0.driver.stop_over() => return Err(Box::new(stopping())),
        };
        let at_most = match outlives {
            Outlives::Restart => policy.settings.max_replay_body,
            Outlives::Nothing => MODEL_BYTES_MAX,
        };
        let contents = spool.contents(at_most).await.ok().flatten();
        Ok(Taken { spool, contents })
    }

    /// A keyed hash of what is asked for, so that look-alikes can be recognised
    /// without the record saying anything about the content.
    fn fingerprint(
        &self,
        account: &Account,
        head: &request::Parts,
        body: Option<&[u8]>,
        spool: &Spool,
    ) -> Fingerprint {
        use hmac::{Hmac, KeyInit as _, Mac as _};
        let beginning;
        let payload = match body {
            Some(body) => body,
            None => {
                // Of a body that streams only the beginning is digested; with its
                // length two uploads that begin alike differ, as a rule.
                let length = spool.length().unwrap_or(u64::MAX);
                beginning = [&spool.digest()[..], &length.to_be_bytes()].concat();
                &beginning
            }
        };
        let call = fingerprint::Call {
            account,
            method: head.method.as_str(),
            path: head.uri.path(),
            query: head.uri.query(),
            payload,
        };
        let mac = Hmac::<sha2::Sha256>::new_from_slice(&self.0.fingerprints);
        let Ok(mut mac) = mac else {
            return Fingerprint([0; 16]);
        };
        fingerprint::request(&call, &mut |piece| mac.update(piece));
        let hash = mac.finalize().into_bytes();
        let mut short = [0; 16];
        short.copy_from_slice(&hash[..16]);
        Fingerprint(short)
    }
}

impl Way<'_> {
    /// The head as it leaves, and how its body is framed.
    fn head(
        &self,
        parts: request::Parts,
        query: Option<&str>,
        key: Option<&str>,
    ) -> Given<(request::Parts, Framing)> {
        let set: Vec<(HeaderName, HeaderValue)> = match (
            &self.route.rule.idempotency_header,
            key.map(HeaderValue::from_str),
        ) {
            (Some(header), Some(Ok(value))) => vec![(header.clone(), value)],
            _ => Vec::new(),
        };
        let credential = match self.owner.injection {
            Some(injection) => Sends::Inject(injection),
            None => Sends::PassThrough { spent: None },
        };
        let rewrite = Rewrite {
            destination: self.destination,
            path: &self.path,
            query,
            credential,
            set: &set,
        };
        let made = headers::for_provider(parts, rewrite).map_err(head_refusal)?;
        Ok(made)
    }
}

/// The key of a write: the caller's, else one that is made for an endpoint that
/// honours keys.
fn key_of(headers: &HeaderMap, route: &Route) -> Given<Option<String>> {
    let honoured = route.rule.idempotency_header.as_ref();
    let key = ActionKey::read(headers, honoured).map_err(|problem| {
        let detail = format!("{problem}; {}", problem.hint);
        Problem::of_request(RequestCode::BadHeader, detail)
    })?;
    if !route.class.is_write() {
        return Ok(None);
    }
    let own = key.map(|key| key.as_str().to_owned());
    Ok(own.or_else(|| honoured.map(|_| uuid::Uuid::new_v4().to_string())))
}

fn deadline(now: Moment, asked: &Asked, of_task: Option<Moment>) -> Moment {
    let own = asked
        .deadline
        .map_or(Moment::NEVER, |span: Span| now + span);
    own.min(of_task.unwrap_or(Moment::NEVER))
}

/// How long the caller waits for an answer. One that wants to be let go waits only for
/// as long as it says.
fn patience(asked: &Asked) -> Option<Duration> {
    match asked.answer {
        AnswerMode::Async => Some(asked.wait.map_or(Duration::ZERO, duration)),
        AnswerMode::Held => asked.patience().map(duration),
    }
}

/// What is kept of a call so that it can be sent again after a restart.
fn stored_payload(
    id: ActionId,
    head: &request::Parts,
    slot: &HeaderName,
    body: Option<&Bytes>,
    spool: &Spool,
) -> Option<Attachment> {
    let body = match body {
        Some(body) => body.to_vec(),
        None if spool.read() == 0 => Vec::new(),
        None => return None,
    };
    let stored = StoredHead::new(head, storable(&head.headers, slot), spool.framing());
    Some(Attachment::Payload(StoredPayload {
        action: id,
        head: stored.encode(),
        body,
    }))
}
