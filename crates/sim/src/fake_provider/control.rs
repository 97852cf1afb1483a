//! The control API, for tests that run in another process.
//!
//! | call | does |
//! |---|---|
//! | `POST /__control/script` | `{"clear": bool, "steps": […], "upstream": […], "connections": {…}}`, each optional |
//! | `GET /__control/ledger` | the ledger; `?since=N` without older arrivals; `?arrivals=N&effects=N&wait_ms=M` waits first |
//! | `GET /__control/completed` | `{"completed": bool, "left": […]}`: whether every scripted fault was met |
//! | `POST /__control/quota` | `{"quotas": ["sliding:60/10s"], "keep": bool}` replaces the limits; with `keep` what was counted stays |
//! | `POST /__control/release` | lets held answers go |
//! | `POST /__control/reset` | forgets records, ledger, script and used quota |
//!
//! Mistakes are answered as `application/problem+json` with a hint. The API has
//! no authentication: it belongs on the loopback address of a test machine.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::handle::Handle;
use super::listener::Bound;
use super::read::{ReadError, Reader};
use super::socket::Socket;
use crate::provider::doors::WrittenDoors;
use crate::provider::fault::{WrittenStep, steps_of_upstream};
use crate::provider::ledger::ArrivalNo;
use crate::provider::message::Request;
use crate::provider::quota::{QuotaError, Rule};

/// Longest body of a control call.
const BODY_BYTES_MAX: u64 = 16 << 20;
/// Longest wait of a control call, in milliseconds.
const WAIT_MS_MAX: u64 = 60_000;
/// Most control connections at once.
const CONNECTIONS_MAX: usize = 64;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct WrittenScript {
    clear: bool,
    steps: Vec<WrittenStep>,
    upstream: Vec<WrittenStep>,
    connections: Option<WrittenDoors>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenQuotas {
    quotas: Vec<String>,
    #[serde(default)]
    keep: bool,
}

/// A control call that can't be done: status, code, cause and hint.
struct Problem(u16, &'static str, String, String);

impl Problem {
    fn unreadable(error: &serde_json::Error) -> Problem {
        let hint = "see the keys in the description of the control API".to_owned();
        Problem(400, "unreadable_body", error.to_string(), hint)
    }
}

/// Serves control calls until it is aborted.
pub(super) async fn run(bound: Bound, handle: Handle) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = bound.listener.accept(), if connections.len() < CONNECTIONS_MAX => {
                if let Ok((tcp, _)) = accepted {
                    connections.spawn(serve(handle.clone(), Socket::Plain(tcp)));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(handle: Handle, mut socket: Socket) {
    let mut reader = Reader::default();
    loop {
        let taken = async {
            let opening = reader.head(&mut socket).await?;
            let body = reader
                .body(&mut socket, &opening, (BODY_BYTES_MAX, None))
                .await?;
            Ok((Request::new(opening.head, body), opening.keep))
        };
        let (answer, keep) = match taken.await {
            Ok((request, keep)) => (answer(&handle, &request).await, keep),
            Err(ReadError::Gone) => return,
            Err(ReadError::Refused(status, cause)) => {
                let hint = "send an HTTP/1.1 request".to_owned();
                (
                    Err(Problem(status, "bad_request", cause.to_owned(), hint)),
                    false,
                )
            }
        };
        let written = socket.write(&rendered(answer, keep)).await;
        if written.is_err() || !keep {
            return socket.close_gently().await;
        }
    }
}

async fn answer(handle: &Handle, request: &Request) -> Result<Value, Problem> {
    match (request.head.method.as_str(), request.head.path()) {
        ("POST", "/__control/script") => script(handle, request.body()),
        ("GET", "/__control/ledger") => ledger(handle, request).await,
        ("GET", "/__control/completed") => {
            let left = handle.script_left();
            Ok(json!({"completed": left.is_empty(), "left": left}))
        }
        ("POST", "/__control/quota") => quota(handle, request.body()),
        ("POST", "/__control/release") => {
            handle.release();
            Ok(json!({"released": true}))
        }
        ("POST", "/__control/reset") => {
            handle.reset();
            Ok(json!({"reset": true}))
        }
        (method, path) => {
            let hint = "the calls are POST /__control/script, quota, release and reset, and GET \
                        /__control/ledger and completed";
            let cause = format!("there is no {method} {path}");
            Err(Problem(404, "no_such_call", cause, hint.to_owned()))
        }
    }
}

fn script(handle: &Handle, body: &[u8]) -> Result<Value, Problem> {
    let written: WrittenScript =
        serde_json::from_slice(body).map_err(|e| Problem::unreadable(&e))?;
    let wrong = |cause: String, hint: String| Problem(400, "unplayable_script", cause, hint);
    let mut steps = Vec::new();
    for (n, step) in written.steps.into_iter().enumerate() {
        let step = step.step();
        steps.push(step.map_err(|e| wrong(format!("step {}: {}", n + 1, e.cause), e.hint))?);
    }
    steps.extend(steps_of_upstream(written.upstream).map_err(|e| wrong(e.cause, e.hint))?);
    let count = steps.len();
    if written.clear {
        handle.with(|provider, _| provider.clear_script());
    }
    handle
        .push_steps(steps)
        .map_err(|e| wrong(e.to_string(), "reset it first".to_owned()))?;
    if written.clear || written.connections.is_some() {
        handle.change_doors(written.connections.unwrap_or_default());
    }
    Ok(json!({"steps": count}))
}

fn quota(handle: &Handle, body: &[u8]) -> Result<Value, Problem> {
    let written: WrittenQuotas =
        serde_json::from_slice(body).map_err(|e| Problem::unreadable(&e))?;
    let rules: Result<Vec<Rule>, QuotaError> = written.quotas.iter().map(|q| q.parse()).collect();
    let rules = rules.map_err(|e| {
        let cause = format!("the quota {:?} can't be read: {}", e.text, e.cause);
        Problem(400, "unreadable_quota", cause, e.hint.to_owned())
    })?;
    let count = rules.len();
    match written.keep {
        true => handle.amend_quotas(rules),
        false => handle.set_quotas(rules),
    }
    Ok(json!({"quotas": count}))
}

async fn ledger(handle: &Handle, request: &Request) -> Result<Value, Problem> {
    let number = |name: &str| match request.head.query(name) {
        None => Ok(0),
        Some(text) => text.parse::<u64>().map_err(|_| {
            let cause = format!("{name}={text:?} is no number");
            Problem(
                400,
                "unreadable_query",
                cause,
                "write a whole number".to_owned(),
            )
        }),
    };
    let (arrivals, effects) = (number("arrivals")?, number("effects")?);
    let since = ArrivalNo(number("since")?);
    let wait = Duration::from_millis(number("wait_ms")?.min(WAIT_MS_MAX));
    let reached = async {
        handle.arrivals(arrivals).await;
        handle
            .effects(usize::try_from(effects).unwrap_or(usize::MAX))
            .await;
    };
    // If it is not reached in time, the ledger as it is says so.
    let _ = timeout(wait, reached).await;
    let now = handle.now();
    let (ledger, in_flight) = handle.read(|p| (p.ledger().since(since), p.in_flight()));
    let mut json = serde_json::to_value(&ledger).map_err(|e| Problem::unreadable(&e))?;
    json["now_us"] = now.as_micros().into();
    json["in_flight"] = in_flight.into();
    Ok(json)
}

fn rendered(answer: Result<Value, Problem>, keep: bool) -> Vec<u8> {
    let (status, kind, body) = match answer {
        Ok(json) => (200, "application/json", json),
        Err(Problem(status, code, cause, hint)) => {
            let body = json!({"status": status, "code": code, "title": cause, "detail": hint});
            (status, "application/problem+json", body)
        }
    };
    let body = body.to_string();
    let connection = if keep { "keep-alive" } else { "close" };
    format!(
        "HTTP/1.1 {status} Control\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\
         connection: {connection}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
