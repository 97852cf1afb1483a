//! The agents' listener: from a connection to an action.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, request};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use rategov_core::action::breaker::Path;
use rategov_core::action::fingerprint;
use rategov_core::action::problem::Code;
use rategov_core::engine::{Setup, Submit};
use rategov_core::event::{Requested, bounded_text};
use rategov_core::id::{Account, ActionId, Credential, Fingerprint, Provider, Task};
use rategov_core::tasks::{DEFAULT_TASK, TaskKey, TaskRefusal};
use rategov_core::time::{Moment, Span};
use rategov_store::{Attachment, Payload as StoredPayload};
use tokio::sync::oneshot;

use super::headers::{self, Credential as Sends, HeadRefusal, Rewrite};
use super::job::{Job, Payload, storable};
use super::policy::{Policy, duration, timeouts};
use super::problem::{self, Problem, RequestCode};
use super::reading::Purpose;
use super::reply::{Broken, Context, Reply, ReplyBody};
use super::run::Runner;
use super::spool::{Replay, Spool, SpoolBudget, SpoolError, SpoolLimits};
use super::upstream::Upstream;
use crate::auth::headers_in::{ActionKey, AnswerMode, Asked};
use crate::auth::pass_through::{IdentityKey, OwnAccount, Presented};
use crate::auth::{Caller, OwnCredential};
use crate::config::settings::{ProviderSettings, ScopedCall};
use crate::driver::{Cell, Driver, Mail, new_action_id};
use crate::route::target::{Door, Target};
use crate::route::model_of;

/// Largest head that is passed on, in bytes. Providers refuse far less.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Largest body in which a model's name is looked for.
const MODEL_BYTES_MAX: u64 = 4 << 20;

/// What all calls share.
pub struct Shared {
    /// The owner of the engines.
    pub driver: Driver,
    /// The way out.
    pub upstream: Arc<Upstream>,
    /// The policy in force.
    policy: RwLock<Arc<Policy>>,
    /// Room for bodies.
    pub budget: SpoolBudget,
    /// Hashes credentials.
    pub identity: IdentityKey,
    /// Hashes fingerprints.
    pub fingerprints: [u8; 32],
    /// Where large bodies are spilled to.
    pub spill_folder: std::path::PathBuf,
}

impl Shared {
    /// Joins what all calls share.
    pub fn new(
        driver: Driver,
        upstream: Arc<Upstream>,
        policy: Arc<Policy>,
        budget: SpoolBudget,
        identity: IdentityKey,
        fingerprints: [u8; 32],
        spill_folder: std::path::PathBuf,
    ) -> Shared {
        let policy = RwLock::new(policy);
        Shared { driver, upstream, policy, budget, identity, fingerprints, spill_folder }
    }
}

/// The gateway. Cheap to clone.
#[derive(Clone)]
pub struct Gateway(pub Arc<Shared>);

/// Either an answer to give at once, or something that went on.
type Given<T> = Result<T, Box<Problem>>;

impl Gateway {
    /// A gateway under a policy.
    pub fn new(shared: Shared) -> Gateway {
        Gateway(Arc::new(shared))
    }

    /// The policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.0.policy.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another policy in force. Calls under way keep theirs.
    pub fn set_policy(&self, policy: Arc<Policy>) {
        *self.0.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
    }

    /// Answers one request of the agents' listener.
    pub async fn serve(self, request: Request<Incoming>) -> Result<Response<OutBody>, Infallible> {
        let reply = match self.take(request).await {
            Ok(reply) => reply,
            Err(problem) => Out::Problem(problem),
        };
        Ok(reply.into_response())
    }

    async fn take(&self, request: Request<Incoming>) -> Given<Out> {
        let (parts, body) = request.into_parts();
        let size: usize = parts.headers.iter().map(|(n, v)| n.as_str().len() + v.len() + 4).sum();
        if HEAD_BYTES_MAX < size {
            let why = format!("the head has {size} bytes, at most {HEAD_BYTES_MAX} are passed on");
            return Err(Box::new(Problem::of_request(RequestCode::HeadTooLarge, why)));
        }
        let target = parts.uri.clone();
        let target = Target::of(&target).map_err(|cause| {
            Problem::of_request(RequestCode::BadTarget, cause.to_string())
        })?;
        let asked = Asked::read(&parts.headers).map_err(|problem| {
            Problem::of_request(RequestCode::BadHeader, format!("{problem}; {}", problem.hint))
                .with("header", problem.header)
        })?;
        let policy = self.policy();
        let caller = policy.agents.identify(&parts.headers, target.run, &asked).map_err(|no| {
            Problem::of_request(RequestCode::Unauthenticated, format!("{no}; {}", no.hint()))
                .with("reason", no.code())
        })?;
        match target.door {
            Door::Governor { path, query } => {
                let path = path.to_owned();
                let query = query.map(str::to_owned);
                crate::agents::serve(self, &parts, &path, query.as_deref(), &caller, body).await
            }
            Door::Gateway { provider, path, query } => {
                let (provider, path) = (provider.to_owned(), path.to_owned());
                let query = query.map(str::to_owned);
                let call = Inbound { parts, body, provider, path, query, asked, caller, policy };
                self.pass(call).await
            }
        }
    }

    /// Takes a call to a provider: route, account, body, and then the engine.
    async fn pass(&self, call: Inbound) -> Given<Out> {
        let Inbound { parts, body, provider, path, query, asked, caller, policy } = call;
        let settings = Provider::new(&provider)
            .ok()
            .and_then(|name| policy.provider(&name))
            .ok_or_else(|| unknown_provider(&policy))?;
        let path = settings.full_path(&path);
        let route = policy
            .routes
            .resolve(&provider, parts.method.as_str(), &path)
            .ok_or_else(|| unknown_provider(&policy))?;
        let destination = policy
            .destinations
            .get(&route.provider)
            .ok_or_else(|| unknown_provider(&policy))?;
        let route = route.tightened(asked.class).map_err(|cause| {
            Problem::of_request(RequestCode::ClassLoosened, cause.to_string())
        })?;
        let owner = self.owner(&policy, &settings, &caller, &parts.headers)?;
        if !caller.rights().allow_account(&route.provider, &owner.account)
            || !caller.rights().allow_class(route.class)
        {
            let why = format!("agent {} has no right to this account or class", caller.agent());
            return Err(Box::new(Problem::of_request(RequestCode::Forbidden, why)));
        }
        let key = ActionKey::read(&parts.headers, route.rule.idempotency_header.as_ref())
            .map_err(|problem| {
                Problem::of_request(RequestCode::BadHeader, format!("{problem}; {}", problem.hint))
            })?;
        let key = route.class.is_write().then(|| key.map(|key| key.as_str().to_owned())).flatten();
        // An endpoint that honours keys gets one, whether or not the agent sent it.
        let made = route.rule.idempotency_header.is_some() && route.class.is_write();
        let key = key.or_else(|| made.then(|| uuid::Uuid::new_v4().to_string()));
        let mut set: Vec<(HeaderName, HeaderValue)> = Vec::new();
        if let (Some(header), Some(key)) = (&route.rule.idempotency_header, &key)
            && let Ok(value) = HeaderValue::from_str(key)
        {
            set.push((header.clone(), value));
        }
        let credential = match &owner.injection {
            Some(injection) => Sends::Inject(injection),
            None => Sends::PassThrough { spent: None },
        };
        let rewrite = Rewrite {
            destination,
            path: &path,
            query: query.as_deref(),
            credential,
            set: &set,
        };
        let (mut head, framing) = headers::for_provider(parts, rewrite).map_err(head_refusal)?;
        let limits = SpoolLimits {
            max_replay: policy.settings.max_replay_body,
            stall: duration(policy.settings.client_stall),
            directory: self.0.spill_folder.clone(),
        };
        let spool = Spool::take(body, framing, &limits, &self.0.budget).await.map_err(spool_refusal)?;
        let body = spool.contents(MODEL_BYTES_MAX).await.ok().flatten();
        let model = body.as_ref().and_then(|body| model_of(&route.parameters, body));
        let endpoint = route.endpoint.clone();
        let scopes = owner.rules.scopes(&owner.name, &ScopedCall {
            endpoint: &endpoint,
            model: model.as_deref(),
            credential: Some(&owner.credential),
        });
        let fingerprint = self.fingerprint(&owner.account, &head, body.as_deref(), &spool);
        let now = self.0.driver.clock().now();
        let id = new_action_id();
        let task_key = task_key(&caller, &asked);
        let breaker_path = Path { account: owner.account.clone(), endpoint: endpoint.clone() };
        let allowance = self
            .0
            .driver
            .admit_task(&task_key, asked.goal.clone(), &breaker_path)
            .map_err(|refusal| task_refusal(&refusal))?;
        let deadline = deadline(now, &asked, self.0.driver.task_deadline(&task_key));
        let replayable = spool.replay() == Replay::Whole;
        let external_ref = None;
        // The caller's own Idempotency-Key stays in its place; an id of ours never leaves.
        head.headers.remove("rategov-action");
        let requested = Arc::new(Requested {
            action: id,
            provider: route.provider.clone(),
            account: owner.account.clone(),
            credential: owner.credential.clone(),
            agent: caller.agent().clone(),
            task: caller.task(&asked).cloned(),
            goal: asked.goal.as_deref().map(bounded_text),
            priority: caller.priority(asked.priority),
            class: route.class,
            method: head.method.as_str().to_owned(),
            endpoint: endpoint.clone(),
            path: bounded_text(&path),
            fingerprint,
            payload_digest: *spool.digest(),
            payload_bytes: spool.read(),
            replayable,
            key: key.clone(),
            deadline,
            detached: asked.answer == AnswerMode::Async,
            authorised_by: format!("{} as {}", caller.authority().word(), caller.agent()),
            parent: None,
        });
        if let Some(reply) = self.earlier_result(&requested, &owner.account).await? {
            return Ok(reply);
        }
        if !self.0.driver.has_room() {
            let problem = Problem::of_action(Code::AuditUnavailable).retry_after(Some(1));
            return Err(Box::new(problem));
        }
        let payload = (route.class.is_write() && replayable)
            .then(|| stored_payload(id, &head, &owner.slot, body.as_ref(), &spool))
            .flatten();
        let setup = Setup {
            profile: Arc::clone(&route.rule.profile),
            scopes: scopes.into(),
            cost: route.rule.cost,
            limits: policy.limits(&route.provider, &owner.account, route.class),
            weight: caller.limits().weight,
            agent_concurrent_max: caller.limits().max_concurrent,
            attempt_timeout: settings.timeouts.response,
            may_send_new: policy.settings.escalation.send_new_operation
                == crate::config::settings::SendNewOperation::Offered,
        };
        let hold_until = now + asked.held(policy.settings.hold);
        let purpose = if route.class.is_write() { Purpose::Write } else { Purpose::Read };
        let job = Job {
            upstream: Arc::clone(&self.0.upstream),
            destination: destination.clone(),
            timeouts: timeouts(&settings),
            hidden: hidden(&head.headers),
            head,
            payload: Payload::Spooled(spool),
            given_back: std::sync::Mutex::new(None),
            provider: route.provider.clone(),
            settings: Arc::clone(&settings),
            endpoint,
            rule: Arc::clone(&route.rule),
            parameters: route.parameters.clone(),
            class: route.class,
            purpose,
            task: task_key,
            key,
            known_operation: None,
            external_ref,
            respond_async: asked.answer == AnswerMode::Async,
            client_stall: duration(policy.settings.client_stall),
        };
        let cell = self.0.driver.cell(&owner.account);
        let submit = Submit { requested, setup, hold_until, task: allowance };
        self.submit(cell, id, job, submit, payload).await
    }

    /// Hands the call to its engine and waits for what comes of it.
    async fn submit(
        &self,
        cell: Arc<Cell>,
        id: ActionId,
        job: Job,
        submit: Submit,
        payload: Option<Attachment>,
    ) -> Given<Out> {
        let driver = self.0.driver.clone();
        let Some(mut mailbox) = driver.register(id) else {
            return Err(Box::new(Problem::of_request(RequestCode::Internal, "an id came up twice")));
        };
        let mut guard = Guard { driver: driver.clone(), cell: Arc::clone(&cell), action: Some(id) };
        driver.submit(&cell, submit, payload);
        // A repeat of an action that exists is told at once, before a runner is made.
        let mut first = Vec::new();
        while let Some(mail) = mailbox.try_next() {
            if let Mail::Output(rategov_core::engine::Output::Join { existing, .. }) = &mail {
                guard.action = None;
                return self.join(*existing).await;
            }
            first.push(mail);
        }
        let (caller, answer) = oneshot::channel();
        let runner = Runner::new(driver, cell, mailbox, job, Some(caller));
        tokio::spawn(runner.run_from(first));
        let reply = answer.await.map_err(|_| {
            Problem::of_request(RequestCode::Internal, "the action ended without an answer")
        })?;
        Ok(Out::Reply(Box::new(reply), guard))
    }

    /// Waits for an action that exists, or takes its stored result.
    async fn join(&self, existing: ActionId) -> Given<Out> {
        let (caller, answer) = oneshot::channel();
        if self.0.driver.write_to(existing, Mail::Joiner(caller)).is_ok()
            && let Ok(reply) = answer.await
        {
            return Ok(Out::Joined(Box::new(reply)));
        }
        self.stored(existing).await
    }

    /// The result of an action that ended earlier.
    pub(crate) async fn stored(&self, action: ActionId) -> Given<Out> {
        crate::agents::stored_result(self, action).await
    }

    /// A key that was used before this process started: its result, or a refusal.
    async fn earlier_result(
        &self,
        requested: &Requested,
        account: &Account,
    ) -> Given<Option<Out>> {
        let Some(key) = requested.key.clone() else { return Ok(None) };
        let cell = self.0.driver.cell(account);
        if self.0.driver.look(&cell, |engine, _| engine.action_of_key(&key)).is_some() {
            // The engine knows it and decides under its lock.
            return Ok(None);
        }
        let earlier = crate::agents::action_by_key(self, account, &key).await?;
        let Some(row) = earlier else { return Ok(None) };
        if row.requested.payload_digest != requested.payload_digest
            || row.requested.endpoint != requested.endpoint
        {
            let problem = Problem::of_action(Code::KeyReused)
                .with("action", row.requested.action.to_string());
            return Err(Box::new(problem));
        }
        match crate::agents::can_be_sent_anew(&row) {
            true => Ok(None),
            false => self.join(row.requested.action).await.map(Some),
        }
    }

    /// Whose quota and credential a call uses.
    fn owner<'p>(
        &self,
        policy: &'p Policy,
        settings: &'p ProviderSettings,
        caller: &Caller,
        headers: &HeaderMap,
    ) -> Given<Owner<'p>> {
        let declared = settings.account_for(caller.rights());
        if let Some(account) = declared.filter(|account| !account.credentials.is_empty()) {
            // Several credentials of one account share its quota; the first is used.
            let credential = &account.credentials[0].credential;
            let Some(injection) = policy.injection(credential) else {
                let why = format!("the secret of {credential} is not there");
                let problem = Problem::of_request(RequestCode::CredentialMissing, why);
                return Err(Box::new(problem));
            };
            return Ok(Owner {
                account: account.account.clone(),
                name: account.name.clone(),
                credential: credential.clone(),
                injection: Some(injection),
                rules: &account.rules,
                slot: account.slot.header.clone(),
            });
        }
        if caller.own_credential() == OwnCredential::Withheld && declared.is_none() {
            let why = "no credential of this provider is configured for this agent";
            return Err(Box::new(Problem::of_request(RequestCode::CredentialMissing, why)));
        }
        let presented = Presented::find(headers, &settings.slot);
        let (account, name, rules) = match self.0.identity.account(settings, presented) {
            OwnAccount::Declared(it) => (it.account.clone(), it.name.clone(), &it.rules),
            OwnAccount::Hashed { account, name } => (account, name, &settings.undeclared),
        };
        let credential = Credential::new(&format!("{account}#own")).map_err(|cause| {
            Problem::of_request(RequestCode::Internal, cause.to_string())
        })?;
        Ok(Owner { account, name, credential, injection: None, rules, slot: settings.slot.header.clone() })
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
        let digest;
        let payload = match body {
            Some(body) => body,
            None => {
                digest = *spool.digest();
                &digest
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
        let Ok(mut mac) = mac else { return Fingerprint([0; 16]) };
        fingerprint::request(&call, &mut |piece| mac.update(piece));
        let hash = mac.finalize().into_bytes();
        let mut short = [0; 16];
        short.copy_from_slice(&hash[..16]);
        Fingerprint(short)
    }
}

/// A call to a provider, as it came in.
struct Inbound {
    parts: request::Parts,
    body: Incoming,
    provider: String,
    path: String,
    query: Option<String>,
    asked: Asked,
    caller: Caller,
    policy: Arc<Policy>,
}

/// Whose quota and credential a call uses.
struct Owner<'p> {
    account: Account,
    name: String,
    credential: Credential,
    injection: Option<&'p super::headers::Injection>,
    rules: &'p crate::config::settings::AccountRules,
    slot: HeaderName,
}

fn unknown_provider(policy: &Policy) -> Problem {
    let names: Vec<&str> = policy.routes.providers().map(|it| it.as_str()).collect();
    let detail = "the path names no provider that is configured; it is /{provider}/…";
    Problem::of_request(RequestCode::UnknownProvider, detail).with("providers", names)
}

fn head_refusal(refusal: HeadRefusal) -> Problem {
    let code = match refusal {
        HeadRefusal::Target(_) => RequestCode::BadTarget,
        HeadRefusal::Framing(_) => RequestCode::BadFraming,
        HeadRefusal::Websocket => RequestCode::UpgradeRefused,
        HeadRefusal::Connect | HeadRefusal::Trace => RequestCode::MethodNotAllowed,
        HeadRefusal::TooManyFields => RequestCode::HeadTooLarge,
    };
    Problem::of_request(code, refusal.to_string())
}

fn spool_refusal(refusal: SpoolError) -> Problem {
    let code = match refusal {
        SpoolError::Full | SpoolError::Disk(_) => RequestCode::SpoolFull,
        SpoolError::Caller | SpoolError::Stalled => RequestCode::BodyCut,
    };
    Problem::of_request(code, refusal.to_string())
}

fn task_refusal(refusal: &TaskRefusal) -> Problem {
    match refusal {
        TaskRefusal::Cancelled => Problem::of_action(Code::Cancelled),
        TaskRefusal::DeadlineExceeded => Problem::of_action(Code::DeadlinePassed),
        TaskRefusal::BreakerTripped(constraint) => {
            Problem::of_action(Code::BreakerTripped).because(&constraint.to_string())
        }
        TaskRefusal::TooMany => Problem::of_action(Code::AgentQueueFull)
            .because("too many tasks are open")
            .retry_after(Some(60)),
    }
}

fn task_key(caller: &Caller, asked: &Asked) -> TaskKey {
    let task = caller.task(asked).cloned().or_else(|| Task::new(DEFAULT_TASK).ok());
    // The default's name is a constant that is a valid name.
    let task = task.unwrap_or_else(|| unreachable!("`default` is a name"));
    (caller.agent().clone(), task)
}

fn deadline(now: Moment, asked: &Asked, of_task: Option<Moment>) -> Moment {
    let own = asked.deadline.map_or(Moment::NEVER, |span: Span| now + span);
    own.min(of_task.unwrap_or(Moment::NEVER))
}

/// The credentials of a call, to be cut out of what a provider echoes.
fn hidden(headers: &HeaderMap) -> Vec<String> {
    headers
        .iter()
        .filter(|(name, value)| value.is_sensitive() || headers::KEY_FIELDS.contains(name))
        .filter_map(|(_, value)| value.to_str().ok())
        .filter_map(|value| value.split_whitespace().last().map(str::to_owned))
        .collect()
}

/// What is kept of a write so that it can be sent again after a restart.
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
    let stored = super::resume::StoredHead::new(head, storable(&head.headers, slot), spool.framing());
    Some(Attachment::Payload(StoredPayload { action: id, head: stored.encode(), body }))
}

/// Tells the engine when a caller leaves before its answer.
pub struct Guard {
    driver: Driver,
    cell: Arc<Cell>,
    action: Option<ActionId>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(action) = self.action.take() {
            self.driver.caller_gone(&self.cell, action);
        }
    }
}

/// An answer on its way out.
pub enum Out {
    /// What came of an action.
    Reply(Box<Reply>, Guard),
    /// What came of an action that another call made.
    Joined(Box<Reply>),
    /// A problem before there was an action.
    Problem(Box<Problem>),
    /// JSON of the agents' own interface.
    Json(StatusCode, serde_json::Value),
}

impl Out {
    fn into_response(self) -> Response<OutBody> {
        match self {
            Out::Reply(reply, guard) => respond(*reply, Some(guard)),
            Out::Joined(reply) => respond(*reply, None),
            Out::Problem(problem) => problem_response(&problem, None),
            Out::Json(status, value) => {
                let mut response = Response::new(OutBody::whole(Bytes::from(value.to_string())));
                *response.status_mut() = status;
                let headers = response.headers_mut();
                let json = HeaderValue::from_static("application/json");
                headers.insert(http::header::CONTENT_TYPE, json);
                headers.insert(problem::SOURCE, HeaderValue::from_static("governor"));
                response
            }
        }
    }
}

fn respond(reply: Reply, guard: Option<Guard>) -> Response<OutBody> {
    match reply {
        Reply::Governor { problem, context } => {
            if let Some(mut guard) = guard {
                guard.action = None;
            }
            problem_response(&problem, context.as_ref())
        }
        Reply::Upstream { status, headers, extensions, body, context } => {
            let body = match body {
                ReplyBody::Whole(bytes) => {
                    if let Some(mut guard) = guard {
                        guard.action = None;
                    }
                    OutBody::whole(bytes)
                }
                ReplyBody::Streaming(frames) => OutBody::Streaming { frames, guard },
            };
            let mut response = Response::new(body);
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            *response.extensions_mut() = extensions;
            let headers = response.headers_mut();
            headers.insert(problem::SOURCE, HeaderValue::from_static("upstream"));
            add_context(headers, &context);
            response
        }
    }
}

fn problem_response(problem: &Problem, context: Option<&Context>) -> Response<OutBody> {
    let mut response = Response::new(OutBody::whole(problem.body()));
    *response.status_mut() = problem.status();
    *response.headers_mut() = problem.headers();
    if let Some(context) = context {
        add_context(response.headers_mut(), context);
    }
    if problem.status() == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Bearer realm=\"rategov\"");
        response.headers_mut().insert(http::header::WWW_AUTHENTICATE, challenge);
    }
    response
}

fn add_context(headers: &mut HeaderMap, context: &Context) {
    let id = context.action.to_string();
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(problem::ACTION, value);
    }
    if let Ok(value) = HeaderValue::from_str(&format!("</governor/v1/actions/{id}>; rel=\"monitor\"")) {
        headers.append(http::header::LINK, value);
    }
    headers.insert(problem::ATTEMPTS, HeaderValue::from(context.attempts));
    headers.insert(problem::WAITED_MS, HeaderValue::from(context.waited.as_millis()));
    let words = [
        (problem::REASON, context.reason),
        (problem::TERMINAL, context.terminal),
        (problem::NEXT, context.next),
    ];
    for (name, word) in words {
        if let Some(word) = word {
            headers.insert(name, HeaderValue::from_static(word));
        }
    }
    if let Some(should) = context.should_retry {
        let word = if should { "true" } else { "false" };
        headers.entry(problem::SHOULD_RETRY).or_insert(HeaderValue::from_static(word));
    }
}

/// A body on its way to a caller.
pub enum OutBody {
    /// All of it.
    Whole(Option<Bytes>),
    /// As it arrives.
    Streaming {
        /// The frames.
        frames: tokio::sync::mpsc::Receiver<Result<Frame<Bytes>, Broken>>,
        /// Dropped with the body: a caller that leaves is noticed at once.
        guard: Option<Guard>,
    },
}

impl OutBody {
    fn whole(bytes: Bytes) -> OutBody {
        OutBody::Whole((!bytes.is_empty()).then_some(bytes))
    }
}

impl Body for OutBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.get_mut() {
            OutBody::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            OutBody::Streaming { frames, guard } => {
                let next = std::task::ready!(frames.poll_recv(context));
                if next.is_none()
                    && let Some(guard) = guard
                {
                    guard.action = None;
                }
                Poll::Ready(next)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, OutBody::Whole(None))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            OutBody::Whole(bytes) => {
                http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            OutBody::Streaming { .. } => http_body::SizeHint::default(),
        }
    }
}

/// Methods that the agents' own interface offers.
pub const OWN_METHODS: [Method; 3] = [Method::GET, Method::POST, Method::DELETE];
