//! The operators' listener: a JSON API, metrics, and health.
//!
//! Every call but `/healthz`, `/readyz` and, on loopback, `/metrics` needs the
//! operator's token, and every call a `Host` (and `Origin`, if any) of the
//! governor's own, also on loopback: an agent must not approve itself. Who
//! decides is who the token says, never a field of the request.

mod api;
mod metrics;
mod questions;
mod runs;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use rategov_core::id::Operator;
use serde_json::Value;

use crate::auth::operator::OperatorDoor;
use crate::auth::operator_token::OperatorToken;
use crate::gateway::problem::{Problem, RequestCode};
use crate::gateway::serve::Gateway;
use crate::start::{NotReloaded, Reload};

/// Largest body of a request to this API.
const BODY_BYTES_MAX: usize = 64 << 10;

/// A parsed answer, or the problem that is answered instead.
type Given<T> = Result<T, Box<Problem>>;

/// The operators' interface. Cheap to clone.
#[derive(Clone)]
pub struct Operators(Arc<Shared>);

struct Shared {
    gateway: Gateway,
    door: OperatorDoor,
    token: OperatorToken,
    reload: Reload,
    started: rategov_core::time::WallTime,
}

/// Said to who seems to be an agent.
const OTHER_ADDRESS: &str = "this is the operators' address; agents call the other one that \
    `rategov serve` prints, by default http://127.0.0.1:7878/{provider}/…";

impl Operators {
    /// The interface of a gateway behind a door. `reload` puts the configuration
    /// of its file in force and returns what is worth knowing.
    pub fn new(
        gateway: Gateway,
        door: OperatorDoor,
        token: OperatorToken,
        reload: Reload,
    ) -> Operators {
        let started = gateway.0.driver.clock().wall();
        Operators(Arc::new(Shared {
            gateway,
            door,
            token,
            reload,
            started,
        }))
    }

    /// Answers one request.
    pub async fn serve(
        self,
        peer: SocketAddr,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        let answer = match self.take(peer, request).await {
            Ok(answer) => answer,
            Err(problem) => {
                let mut response = Response::new(Full::new(problem.body()));
                *response.status_mut() = problem.status();
                *response.headers_mut() = problem.headers();
                response
            }
        };
        Ok(hardened(answer))
    }

    async fn take(
        &self,
        peer: SocketAddr,
        request: Request<Incoming>,
    ) -> Given<Response<Full<Bytes>>> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let known = parts.uri.authority().is_none() && parts.method != Method::CONNECT;
        if !known {
            let why = "the request names another host";
            return Err(Box::new(Problem::of_request(RequestCode::BadTarget, why)));
        }
        match (&parts.method, path.as_str()) {
            (&Method::GET, "/healthz") => return Ok(text("ok\n")),
            (&Method::GET, "/readyz") => return self.ready(),
            (&Method::GET, "/metrics") if peer.ip().is_loopback() => {
                self.check_host(&parts.headers)?;
                return Ok(text(&metrics::render(&self.0.gateway)));
            }
            _ => {}
        }
        let is_ours = path.starts_with("/api/") || path == "/metrics";
        let operator = self.operator(&parts.headers).map_err(|refusal| {
            let why = if is_ours { "" } else { OTHER_ADDRESS };
            Box::new(refusal.because(why))
        })?;
        if parts.method == Method::GET && path == "/metrics" {
            return Ok(text(&metrics::render(&self.0.gateway)));
        }
        let Some(path) = path.strip_prefix("/api/v1/") else {
            let why = format!("the operators' API is under /api/v1/. {OTHER_ADDRESS}");
            return Err(Box::new(Problem::of_request(RequestCode::NotFound, why)));
        };
        let body = read_json(body).await?;
        let call = api::Call {
            operators: self,
            gateway: &self.0.gateway,
            operator,
            method: parts.method.clone(),
            path,
            query: parts.uri.query().unwrap_or(""),
            body,
        };
        let (status, value) = call.answer().await?;
        Ok(json(status, &value))
    }

    fn check_host(&self, headers: &HeaderMap) -> Given<()> {
        self.0.door.check(headers).map_err(|refusal| {
            let detail = format!("{refusal}; {}", refusal.hint());
            Box::new(Problem::of_request(RequestCode::WrongHost, detail))
        })
    }

    fn operator(&self, headers: &HeaderMap) -> Given<Operator> {
        match self.0.door.identify(headers, &self.0.token) {
            Ok(caller) => Ok(caller.operator().clone()),
            Err(refusal) => {
                let code = match refusal.status() {
                    401 => RequestCode::Unauthenticated,
                    _ => RequestCode::WrongHost,
                };
                let detail = format!("{refusal}; {}", refusal.hint());
                Err(Box::new(Problem::of_request(code, detail)))
            }
        }
    }

    /// Ready means: calls are admitted because the journal takes records.
    fn ready(&self) -> Given<Response<Full<Bytes>>> {
        match self.0.gateway.0.driver.takes_calls() {
            Ok(()) => Ok(text("ready\n")),
            Err(state) => {
                let code = rategov_core::action::problem::Code::AuditUnavailable;
                let problem = Problem::of_action(code).because(&state.to_string());
                Err(Box::new(problem.retry_after(Some(1))))
            }
        }
    }

    /// Puts the configuration of the file in force.
    async fn reload(&self) -> Result<Vec<String>, NotReloaded> {
        (self.0.reload)().await
    }

    fn started(&self) -> rategov_core::time::WallTime {
        self.0.started
    }
}

async fn read_json(body: Incoming) -> Given<Value> {
    let bytes = Limited::new(body, BODY_BYTES_MAX)
        .collect()
        .await
        .map_err(|_| {
            let why = format!("the body broke off, or has more than {BODY_BYTES_MAX} bytes");
            Problem::of_request(RequestCode::InvalidRequest, why)
        })?;
    let bytes = bytes.to_bytes();
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&bytes).map_err(|_| {
        Box::new(Problem::of_request(
            RequestCode::InvalidRequest,
            "the body is not JSON",
        ))
    })
}

fn text(text: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(text.as_bytes())));
    let plain = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

fn json(status: StatusCode, value: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(value.to_string())));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// What a browser must not do with these answers.
fn hardened(mut response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
