//! The agents' own interface, under `/governor/v1`: actions, tasks, scopes.
//!
//! An agent sees its own actions and tasks, and the scopes of the accounts that
//! it may use. A foreign id is answered like one that does not exist.

mod actions;

use http::{Method, StatusCode, request};
use hyper::body::Incoming;
use rategov_core::action::problem::Code;
use rategov_core::event::CancelledBy;
use rategov_core::id::{Provider, Task};
use rategov_core::record::ActionRow;
use serde_json::{Value, json};

pub use actions::{Whose, action_by_key, described, find_action, stored_result};

use crate::auth::Caller;
use crate::driver::{Cancelled, Receipt};
use crate::gateway::problem::{Problem, RequestCode};
use crate::gateway::respond::Out;
use crate::gateway::serve::Gateway;
use crate::wire::{self, Times};

type Given<T> = Result<T, Box<Problem>>;

/// Answers one request of the agents' own interface. `path` follows `/governor/v1`.
pub async fn serve(
    gateway: &Gateway,
    parts: &request::Parts,
    path: &str,
    query: Option<&str>,
    caller: &Caller,
    body: Incoming,
) -> Given<Out> {
    drop(body);
    let _ = query;
    let segments: Vec<&str> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    match (&parts.method, segments.as_slice()) {
        (&Method::GET, ["actions", name]) => action(gateway, caller, &decode(name)).await,
        (&Method::GET, ["actions", name, "result"]) => {
            let row = own_action(gateway, caller, &decode(name)).await?;
            stored_result(gateway, row.requested.action).await
        }
        (&Method::DELETE, ["actions", name]) => {
            let row = own_action(gateway, caller, &decode(name)).await?;
            let by = CancelledBy::Agent(caller.agent().clone());
            let (_, told) = cancel(gateway, &row, by).await?;
            Ok(Out::Json(StatusCode::ACCEPTED, told))
        }
        (&Method::DELETE, ["tasks", name]) => end_task(gateway, caller, &decode(name)).await,
        (&Method::GET, ["tasks", name]) => task(gateway, caller, &decode(name)),
        (&Method::GET, ["scopes"]) => Ok(Out::Json(StatusCode::OK, scopes(gateway, caller))),
        (&Method::GET, ["errors", code]) => match crate::documents::find(code) {
            Some(text) => Ok(Out::Json(
                StatusCode::OK,
                json!({ "code": code, "text": text }),
            )),
            None => Err(not_found()),
        },
        (
            _,
            ["actions", _] | ["actions", _, "result"] | ["tasks", _] | ["scopes"] | ["errors", _],
        ) => {
            let why = "this resource offers GET, and DELETE where something can be ended";
            Err(Box::new(Problem::of_request(
                RequestCode::MethodNotAllowed,
                why,
            )))
        }
        _ => Err(not_found()),
    }
}

fn not_found() -> Box<Problem> {
    Box::new(Problem::of_request(
        RequestCode::NotFound,
        "there is nothing here that you may see",
    ))
}

/// Percent-decodes one path segment; what is no UTF-8 stays as it was sent.
pub(crate) fn decode(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = (first == b'%')
            .then(|| std::str::from_utf8(after.get(..2)?).ok())
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| segment.to_owned())
}

/// An action of the caller by id or key.
async fn own_action(gateway: &Gateway, caller: &Caller, name: &str) -> Given<ActionRow> {
    let found = find_action(gateway, name, Whose::Agent(caller.agent())).await?;
    found.ok_or_else(not_found)
}

async fn action(gateway: &Gateway, caller: &Caller, name: &str) -> Given<Out> {
    let row = own_action(gateway, caller, name).await?;
    Ok(Out::Json(StatusCode::OK, described(gateway, &row).await?))
}

/// Tells an action to stop, and says what that did: whoever asked must not believe
/// that nothing happened where something did, or still may.
pub(crate) async fn cancel(
    gateway: &Gateway,
    row: &ActionRow,
    by: CancelledBy,
) -> Given<(Cancelled, Value)> {
    let driver = &gateway.0.driver;
    let id = row.requested.action;
    let Some(cell) = driver.cell_of(&row.requested.account) else {
        return Err(not_cancelled(gateway, row).await?);
    };
    let (cancelled, receipt) = driver.cancel(&cell, id, by);
    durable(receipt).await?;
    let word = match cancelled {
        Cancelled::Now => json!(true),
        Cancelled::AfterThisAttempt => json!("after_this_attempt"),
        Cancelled::OutcomeUnknown => json!("outcome_unknown"),
        Cancelled::NotInHand => return Err(not_cancelled(gateway, row).await?),
    };
    Ok((
        cancelled,
        json!({ "action": id.to_string(), "cancelled": word }),
    ))
}

/// Why an action could not be told to stop: it has ended, or its account gives way
/// after a lost commit.
async fn not_cancelled(gateway: &Gateway, row: &ActionRow) -> Given<Box<Problem>> {
    let id = row.requested.action;
    let now = find_action(gateway, &id.to_string(), Whose::Everybody).await?;
    let row = now.as_ref().unwrap_or(row);
    if !row.state.is_final() {
        let problem = Problem::of_action(Code::AuditUnavailable);
        return Ok(Box::new(problem.retry_after(Some(1))));
    }
    let ended = described(gateway, row).await?["terminal"].take();
    let why = format!("it has ended as {}, so it was not cancelled", row.state);
    let problem = Problem::of_request(RequestCode::Conflict, why)
        .with("action", id.to_string())
        .with("state", row.state.word())
        .with("terminal", ended);
    Ok(Box::new(problem))
}

async fn end_task(gateway: &Gateway, caller: &Caller, name: &str) -> Given<Out> {
    let task = Task::new(name).map_err(|cause| {
        Problem::of_request(RequestCode::InvalidRequest, format!("not a task: {cause}"))
    })?;
    let by = CancelledBy::Agent(caller.agent().clone());
    let key = (caller.agent().clone(), task);
    let receipt = gateway.0.driver.cancel_task(&key, by).map_err(|_| {
        Problem::of_request(
            RequestCode::Conflict,
            "too many tasks are open to end another",
        )
    })?;
    durable(receipt).await?;
    Ok(Out::Json(
        StatusCode::ACCEPTED,
        wire::task_cancelled(&key.0, &key.1),
    ))
}

fn task(gateway: &Gateway, caller: &Caller, name: &str) -> Given<Out> {
    let driver = &gateway.0.driver;
    let (times, now) = (Times(driver.clock()), driver.clock().now());
    let found = driver.look_at_tasks(|tasks| {
        let own = |row: &&rategov_core::record::TaskRow| {
            row.agent == *caller.agent() && row.task.as_str() == name
        };
        let row = tasks.rows().find(own);
        row.map(|row| wire::task(times, now, tasks, row))
    });
    found
        .map(|value| Out::Json(StatusCode::OK, value))
        .ok_or_else(not_found)
}

fn scopes(gateway: &Gateway, caller: &Caller) -> Value {
    let driver = &gateway.0.driver;
    let times = Times(driver.clock());
    let mut list = Vec::new();
    for cell in driver.cells() {
        let provider = cell.account.as_str().split('/').next().unwrap_or("");
        let may = Provider::new(provider)
            .is_ok_and(|provider| caller.rights().allow_account(&provider, &cell.account));
        if may {
            let states = driver.look(&cell, |engine, now| engine.scopes(now));
            list.extend(
                states
                    .iter()
                    .map(|state| wire::scope(times, &cell.account, state)),
            );
        }
    }
    json!({ "scopes": list })
}

/// Waits until what a caller is about to be told is durable.
pub(crate) async fn durable(receipt: Receipt) -> Given<()> {
    receipt.durable().await.map_err(|lost| {
        let problem = Problem::of_action(Code::AuditUnavailable).because(&lost.to_string());
        Box::new(problem.retry_after(Some(5)))
    })
}

/// What is said when the store can't be read.
pub fn unreadable(cause: rategov_store::Error) -> Problem {
    tracing::error!(%cause, hint = cause.hint(), "the store can't be read");
    let (code, why) = match cause {
        rategov_store::Error::Sqlite(_) | rategov_store::Error::File { .. } => (
            RequestCode::StoreUnavailable,
            "what is recorded can't be read just now, so this call sent nothing; come back \
             with the same call under the same key",
        ),
        _ => (RequestCode::Internal, "the store can't be read"),
    };
    Problem::of_request(code, why)
}

/// Runs a read of the store where it may block. What can't be read now (no file
/// descriptor is free, the disk fails) may be readable in a moment, and nothing was
/// sent by whoever asked: that is no defect, and is not called one.
pub async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, rategov_store::Error> + Send + 'static,
) -> Given<T> {
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(cause)) => Err(Box::new(unreadable(cause))),
        Err(_) => Err(Box::new(Problem::of_request(
            RequestCode::Internal,
            "a read was stopped",
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_segment_is_decoded_once_and_never_panics() {
        assert_eq!(decode("rec%2D91%2ff2"), "rec-91/f2");
        assert_eq!(decode("100%"), "100%");
        assert_eq!(decode("%zz%4"), "%zz%4");
        assert_eq!(decode("%ff"), "%ff");
    }
}
