//! The agents' own interface, under `/governor/v1`: actions, tasks, scopes.
//!
//! An agent sees its own actions and tasks, and the scopes of the accounts that
//! it may use. A foreign id is answered like one that does not exist.

use http::{Method, StatusCode, request};
use hyper::body::Incoming;
use rategov_core::action::problem::Code;
use rategov_core::event::CancelledBy;
use rategov_core::id::{Account, ActionId, Provider, Task};
use rategov_core::record::ActionRow;
use rategov_core::word::State;
use rategov_store::StoredResult;
use serde_json::{Value, json};

use crate::auth::Caller;
use crate::driver::Receipt;
use crate::gateway::problem::{Problem, RequestCode};
use crate::gateway::reply::{Context, Reply, ReplyBody};
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
            let cell = gateway.0.driver.cell(&row.requested.account);
            let by = CancelledBy::Agent(caller.agent().clone());
            durable(gateway.0.driver.cancel(&cell, row.requested.action, by)).await?;
            Ok(Out::Json(
                StatusCode::ACCEPTED,
                json!({ "cancelled": true }),
            ))
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
    let row = find_action(gateway, name).await?.ok_or_else(not_found)?;
    if row.requested.agent == *caller.agent() {
        Ok(row)
    } else {
        Err(not_found())
    }
}

async fn action(gateway: &Gateway, caller: &Caller, name: &str) -> Given<Out> {
    let row = own_action(gateway, caller, name).await?;
    Ok(Out::Json(StatusCode::OK, described(gateway, &row).await?))
}

/// An action with its attempts, and what it waits for if it waits.
pub async fn described(gateway: &Gateway, row: &ActionRow) -> Given<Value> {
    let driver = &gateway.0.driver;
    let times = Times(driver.clock());
    let id = row.requested.action;
    let cell = driver.cell(&row.requested.account);
    let mut value = match driver.look(&cell, |engine, now| engine.action(now, id)) {
        Some(view) => wire::action_view(times, &view),
        None => wire::action(times, row),
    };
    let reader = driver.store().reader();
    let attempts = blocking(move || reader.attempts(id)).await?;
    let attempts: Vec<Value> = attempts
        .iter()
        .map(|it| wire::attempt(times, &it.row))
        .collect();
    value["attempts_made"] = json!(attempts);
    value["terminal"] = terminal(row);
    Ok(value)
}

/// The terminal result of an action (R-RETRY-5), as far as it has one.
fn terminal(row: &ActionRow) -> Value {
    if !row.state.is_final() {
        return Value::Null;
    }
    json!({
        "state": row.state.word(),
        "code": row.code,
        "sent": row.attempts > 0,
        "response": row.last_status,
        "attempts": row.attempts,
        "waited_seconds": row.waited.as_secs_f64(),
        "next": next_step(row),
    })
}

/// What is safe to do next, from how an action ended.
fn next_step(row: &ActionRow) -> &'static str {
    match row.state {
        // It happened, but nobody here knows what came of it.
        State::Succeeded if Code::parse(&row.code) == Some(Code::ResultLost) => "check_provider",
        State::Succeeded => "use_result",
        State::CancelledNotSent => "stop",
        State::AbandonedUnknown => "check_provider",
        State::Superseded => "fetch_action",
        State::Interrupted => "send_again",
        State::FailedDefinite if Code::parse(&row.code) == Some(Code::NotApplied) => "send_again",
        State::FailedDefinite if row.last_status == Some(429) => "send_later",
        State::FailedDefinite => "change_call",
        State::Admitted
        | State::Waiting
        | State::Dispatching
        | State::Unknown
        | State::Reconciling
        | State::Escalated => "fetch_action",
    }
}

/// An action by id, or by key over all accounts.
pub async fn find_action(gateway: &Gateway, name: &str) -> Given<Option<ActionRow>> {
    let driver = gateway.0.driver.clone();
    if let Some(id) = ActionId::parse(name) {
        for cell in driver.cells() {
            if let Some(view) = driver.look(&cell, |engine, now| engine.action(now, id)) {
                return Ok(Some(view.row));
            }
        }
        let reader = driver.store().reader();
        let stored = blocking(move || reader.action(id)).await?;
        return Ok(stored.map(|it| it.row));
    }
    for cell in driver.cells() {
        let found = driver.look(&cell, |engine, now| {
            engine
                .action_of_key(name)
                .and_then(|id| engine.action(now, id))
        });
        if let Some(view) = found {
            return Ok(Some(view.row));
        }
        let (reader, account, key) = (
            driver.store().reader(),
            cell.account.clone(),
            name.to_owned(),
        );
        let stored = blocking(move || reader.actions_by_key(&account, &key)).await?;
        if let Some(it) = stored.into_iter().next() {
            return Ok(Some(it.row));
        }
    }
    Ok(None)
}

/// The newest action of an account with this key.
pub async fn action_by_key(
    gateway: &Gateway,
    account: &Account,
    key: &str,
) -> Given<Option<ActionRow>> {
    let (reader, account, key) = (
        gateway.0.driver.store().reader(),
        account.clone(),
        key.to_owned(),
    );
    let stored = blocking(move || reader.actions_by_key(&account, &key)).await?;
    Ok(stored.into_iter().next().map(|it| it.row))
}

/// Whether a key whose action ended may be used for the same operation anew:
/// only if it certainly had no effect.
pub fn can_be_sent_anew(row: &ActionRow) -> bool {
    match row.state {
        State::CancelledNotSent | State::Interrupted => true,
        // A passing refusal may be tried again; any other answer is given again.
        State::FailedDefinite => row
            .last_status
            .is_none_or(|status| matches!(status, 408 | 429 | 500..=599)),
        _ => false,
    }
}

/// The stored result of an action, as its caller would have got it.
pub async fn stored_result(gateway: &Gateway, action: ActionId) -> Given<Out> {
    // The engine first: what it has decided may not be in the tables yet.
    let found = find_action(gateway, &action.to_string()).await?;
    let row = found.ok_or_else(not_found)?;
    let reader = gateway.0.driver.store().reader();
    let result = blocking(move || reader.result(action)).await?;
    let context = Context {
        action,
        attempts: row.attempts,
        waited: row.waited,
        reason: None,
        terminal: row.state.is_final().then(|| row.state.word()),
        next: Some(next_step(&row)),
        should_retry: None,
    };
    match result {
        Some(result) => Ok(Out::Joined(Box::new(replayed(result, context)))),
        None => {
            let code = match row.state {
                State::Succeeded => Code::ResultLost,
                State::CancelledNotSent => Code::Cancelled,
                State::AbandonedUnknown => Code::OutcomeUnknown,
                State::Superseded => Code::Superseded,
                State::Escalated => Code::Escalated,
                State::Interrupted => Code::Interrupted,
                State::FailedDefinite => Code::parse(&row.code).unwrap_or(Code::NotApplied),
                _ => Code::StillOpen,
            };
            let problem = Problem::of_action(code)
                .with("action", action.to_string())
                .with("state", row.state.word())
                .with("operation_id", row.operation_id.clone())
                .with("escalation", row.escalation.map(|id| id.to_string()))
                .next(next_step(&row));
            let context = Some(context);
            Ok(Out::Joined(Box::new(Reply::Governor { problem, context })))
        }
    }
}

fn replayed(result: StoredResult, context: Context) -> Reply {
    let mut headers = http::HeaderMap::new();
    for (name, value) in &result.headers {
        let name = http::HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, http::HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    // The body is whole here, whatever framed it on its way.
    headers.remove(http::header::TRANSFER_ENCODING);
    Reply::Upstream {
        status: StatusCode::from_u16(result.status).unwrap_or(StatusCode::OK),
        headers,
        extensions: http::Extensions::new(),
        body: ReplyBody::Whole(result.body.into()),
        context,
    }
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
        json!({ "task": name, "cancelled": true }),
    ))
}

fn task(gateway: &Gateway, caller: &Caller, name: &str) -> Given<Out> {
    let driver = &gateway.0.driver;
    let times = Times(driver.clock());
    let found = driver.look_at_tasks(|tasks| {
        let own = |row: &&rategov_core::record::TaskRow| {
            row.agent == *caller.agent() && row.task.as_str() == name
        };
        tasks.rows().find(own).map(|row| wire::task(times, row))
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

/// Runs a read of the store where it may block.
pub async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, rategov_store::Error> + Send + 'static,
) -> Given<T> {
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(cause)) => {
            tracing::error!(%cause, "the store can't be read");
            Err(Box::new(Problem::of_request(
                RequestCode::Internal,
                "the store can't be read",
            )))
        }
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
