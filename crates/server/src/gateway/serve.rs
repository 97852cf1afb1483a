//! The agents' listener: from a connection to an action.

use std::convert::Infallible;
use std::sync::{Arc, PoisonError, RwLock};

use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;

use super::admit::Inbound;
use super::meter;
use super::policy::Policy;
use super::problem::{Problem, RequestCode};
use super::respond::{Out, OutBody};
use super::spool::SpoolBudget;
use super::upstream::Upstream;
use crate::auth::headers_in::Asked;
use crate::auth::pass_through::IdentityKey;
use crate::driver::Driver;
use crate::raw_head::Fault;
use crate::route::target::{Door, Target};

/// Largest head that is passed on, in bytes. Providers refuse far less.
const HEAD_BYTES_MAX: usize = 64 << 10;

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
    /// Room for decoded copies of bodies that are metered.
    pub meter: meter::Room,
    /// Hashes credentials.
    pub identity: IdentityKey,
    /// Hashes fingerprints.
    pub fingerprints: [u8; 32],
    /// Where runners run: the journal's thread starts some, and it is none of the
    /// runtime's own.
    pub runtime: tokio::runtime::Handle,
    /// Where large bodies are spilled to.
    pub spill_folder: std::path::PathBuf,
}

impl Shared {
    /// Joins what all calls share. Called within the runtime that runs them.
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
        Shared {
            driver,
            upstream,
            policy,
            budget,
            meter: meter::Room::default(),
            identity,
            fingerprints,
            runtime: tokio::runtime::Handle::current(),
            spill_folder,
        }
    }
}

/// The gateway. Cheap to clone.
#[derive(Clone)]
pub struct Gateway(pub Arc<Shared>);

/// Either an answer to give at once, or something that went on.
pub(super) type Given<T> = Result<T, Box<Problem>>;

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
        *self
            .0
            .policy
            .write()
            .unwrap_or_else(PoisonError::into_inner) = policy;
    }

    /// The answer to a request whose head is not what the library made of it. It is
    /// not looked at further, and its connection ends.
    pub(crate) fn refuse_head(fault: Fault) -> Response<OutBody> {
        let code = match fault {
            Fault::Fragment | Fault::FirstLine => RequestCode::BadTarget,
            Fault::Framing => RequestCode::BadFraming,
            Fault::Field | Fault::Http2 => RequestCode::BadHeader,
        };
        let problem = Problem::of_request(code, fault.says());
        let mut response = Out::Problem(Box::new(problem)).into_response();
        let close = HeaderValue::from_static("close");
        response
            .headers_mut()
            .insert(http::header::CONNECTION, close);
        response
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
        let size: usize = parts
            .headers
            .iter()
            .map(|(n, v)| n.as_str().len() + v.len() + 4)
            .sum();
        if HEAD_BYTES_MAX < size {
            let why = format!("the head has {size} bytes, at most {HEAD_BYTES_MAX} are passed on");
            return Err(Box::new(Problem::of_request(
                RequestCode::HeadTooLarge,
                why,
            )));
        }
        one_host(&parts)?;
        let target = parts.uri.clone();
        let target = Target::of(&target)
            .map_err(|cause| Problem::of_request(RequestCode::BadTarget, cause.to_string()))?;
        let asked = Asked::read(&parts.headers).map_err(|problem| {
            Problem::of_request(
                RequestCode::BadHeader,
                format!("{problem}; {}", problem.hint),
            )
            .with("header", problem.header)
        })?;
        let policy = self.policy();
        let caller = policy
            .agents
            .identify(&parts.headers, target.run, &asked)
            .map_err(|no| {
                Problem::of_request(RequestCode::Unauthenticated, format!("{no}; {}", no.hint()))
                    .with("reason", no.code())
            })?;
        match target.door {
            Door::Governor { path, query } => {
                let path = path.to_owned();
                let query = query.map(str::to_owned);
                crate::agents::serve(self, &parts, &path, query.as_deref(), &caller, body).await
            }
            Door::Gateway {
                provider,
                path,
                query,
            } => {
                let (provider, path) = (provider.to_owned(), path.to_owned());
                let query = query.map(str::to_owned);
                let call = Inbound {
                    parts,
                    body,
                    provider,
                    path,
                    query,
                    asked,
                    caller,
                    policy,
                };
                self.pass(call).await
            }
        }
    }
}

/// A request says once for whom it is (RFC 9112 §3.2). That it names this governor is
/// not asked: agents reach it under any name.
fn one_host(parts: &http::request::Parts) -> Given<()> {
    let why = match parts.headers.get_all(http::header::HOST).iter().count() {
        1 => return Ok(()),
        0 if parts.version == http::Version::HTTP_10 => return Ok(()),
        0 => "the header `Host` is missing",
        _ => "the header `Host` is there more than once",
    };
    let problem = Problem::of_request(RequestCode::BadHeader, why);
    Err(Box::new(problem.with("header", "Host")))
}
