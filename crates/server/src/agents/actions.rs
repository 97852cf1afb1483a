//! Actions as they are shown to whoever may see them: found by id or key,
//! described with their attempts, and their stored results.

use http::StatusCode;
use rategov_core::action::next_step::{
    NextStep, WAIT_EXHAUSTED, after_code_of_answer, after_problem, code_of_answer,
};
use rategov_core::action::outcome::Certainty;
use rategov_core::action::problem::Code;
use rategov_core::engine::Engine;
use rategov_core::id::{Account, ActionId, Agent};
use rategov_core::observe::Meaning;
use rategov_core::record::{ActionRow, AttemptRow, SendKind};
use rategov_core::tasks::task_key;
use rategov_core::word::State;
use rategov_store::{Stamped, StoredResult};
use serde_json::{Value, json};

use super::{Given, blocking, not_found};
use crate::gateway::problem::{DOCUMENT_BASE, Problem};
use crate::gateway::reply::{Context, Reply, ReplyBody};
use crate::gateway::respond::Out;
use crate::gateway::serve::Gateway;
use crate::wire::{self, Times};

/// An action with its attempts, and what it waits for if it waits.
pub async fn described(gateway: &Gateway, row: &ActionRow) -> Given<Value> {
    let driver = &gateway.0.driver;
    let times = Times(driver.clock());
    let id = row.requested.action;
    // To look at what has ended is no reason to take its account in hand.
    let cell = driver.cell_of(&row.requested.account);
    let view = cell.and_then(|cell| driver.look(&cell, |engine, now| engine.action(now, id)));
    let mut value = match view {
        Some(view) => wire::action_view(times, &view),
        None => wire::action(times, row),
    };
    let reader = driver.store().reader_of_all();
    let read = blocking(move || Ok((reader.attempts(id)?, opened(reader.result(id))?.is_some())));
    let (attempts, kept) = read.await?;
    let sent = was_sent(&attempts);
    let attempts: Vec<Value> = attempts
        .iter()
        .map(|it| wire::attempt(times, &it.row))
        .collect();
    value["attempts_made"] = json!(attempts);
    value["sent"] = json!(sent);
    value["terminal"] = terminal(row, Kept::of(kept), sent);
    let key = task_key(&row.requested.agent, row.requested.task.as_ref());
    let now = driver.clock().now();
    if let Some(spent) = driver.look_at_tasks(|tasks| tasks.spent(now, &key)) {
        value["task_spent"] = json!(format!("{spent}; {}", wire::when_spent(&key)));
    }
    Ok(value)
}

/// Whether a byte of an attempt may have left. One that is open, or was when the
/// process died, may be the provider's already.
fn was_sent(attempts: &[Stamped<AttemptRow>]) -> bool {
    let may_have_left = |row: &AttemptRow| {
        row.kind == SendKind::Attempt && row.certainty != Some(Certainty::NotSent)
    };
    attempts.iter().any(|it| may_have_left(&it.row))
}

/// The terminal result of an action (R-RETRY-5), as far as it has one.
fn terminal(row: &ActionRow, result: Kept, sent: bool) -> Value {
    if !row.state.is_final() {
        return Value::Null;
    }
    json!({
        "state": row.state.word(),
        "code": row.code,
        "sent": sent,
        "response": row.last_status,
        "attempts": row.attempts,
        "waited_seconds": row.waited.as_secs_f64(),
        "next": next_step(row, result).word(),
        "cause": cause(&row.code, row.last_status),
        "document": Code::parse(&row.code)
            .map(|code| format!("{DOCUMENT_BASE}{}", code.problem().id)),
    })
}

/// Why an action ended without success, in a sentence; `None` where its code is no cause.
fn cause(code: &str, status: Option<u16>) -> Option<String> {
    if let Some(code) = Code::parse(code) {
        let row = code.problem();
        return Some(format!("{}: {}", row.title, row.detail));
    }
    if code == WAIT_EXHAUSTED {
        return Some(
            "the wait for the provider would have been longer than it may take".to_owned(),
        );
    }
    let meaning = Meaning::ALL
        .iter()
        .find(|meaning| **meaning != Meaning::Ok && code_of_answer(**meaning) == code)?;
    let said = code_of_answer(*meaning)
        .trim_start_matches("provider_")
        .replace('_', " ");
    let status = status.map_or(String::new(), |status| format!(" {status}"));
    Some(format!("the provider answered{status}: {said}"))
}

/// Whether what came of an action can be fetched here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// It can.
    Yes,
    /// It was lost, or never kept.
    No,
}

impl Kept {
    fn of(is_there: bool) -> Kept {
        if is_there { Kept::Yes } else { Kept::No }
    }
}

/// What is safe to do next, from how an action ended: the same that its caller was told.
fn next_step(row: &ActionRow, result: Kept) -> NextStep {
    let own = Code::parse(&row.code).map(after_problem);
    match row.state {
        State::Succeeded if row.requested.class.is_write() && result == Kept::No => {
            NextStep::CheckProvider
        }
        State::Succeeded => NextStep::UseResult,
        State::CancelledNotSent if row.cancelled => NextStep::Stop,
        State::CancelledNotSent => own.unwrap_or(NextStep::Stop),
        State::AbandonedUnknown => NextStep::CheckProvider,
        State::Superseded => NextStep::FetchAction,
        State::Interrupted => NextStep::SendAgain,
        State::FailedDefinite => own
            .or_else(|| after_code_of_answer(&row.code, row.requested.class))
            .unwrap_or(NextStep::ChangeCall),
        State::Admitted
        | State::Waiting
        | State::Dispatching
        | State::Unknown
        | State::Reconciling
        | State::Escalated => NextStep::FetchAction,
    }
}

/// Whose actions are looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose<'a> {
    /// An agent's own.
    Agent(&'a Agent),
    /// Everybody's.
    Everybody,
}

impl Whose<'_> {
    fn has(self, row: &ActionRow) -> bool {
        match self {
            Whose::Agent(agent) => row.requested.agent == *agent,
            Whose::Everybody => true,
        }
    }
}

/// An action by id, or else the newest by key, over all accounts. What looks like
/// an id may be a key: libraries, and the governor itself, make keys of that form.
pub async fn find_action(
    gateway: &Gateway,
    name: &str,
    whose: Whose<'_>,
) -> Given<Option<ActionRow>> {
    let driver = &gateway.0.driver;
    let id = ActionId::parse(name);
    // An action in hand is ahead of the tables.
    let in_hand = |named: &dyn Fn(&Engine) -> Option<ActionId>| {
        driver.cells().iter().find_map(|cell| {
            let found = driver.look(cell, |engine, now| engine.action(now, named(engine)?));
            found.map(|view| view.row).filter(|row| whose.has(row))
        })
    };
    if let Some(row) = id.and_then(|id| in_hand(&|_| Some(id))) {
        return Ok(Some(row));
    }
    let (reader, key) = (driver.store().reader_of_all(), name.to_owned());
    let stored = blocking(move || reader.actions_named(&key, None)).await?;
    let mut stored = stored.into_iter().map(|it| it.row).peekable();
    let is_meant = |row: &ActionRow| Some(row.requested.action) == id && whose.has(row);
    if let Some(row) = stored.next_if(is_meant) {
        return Ok(Some(row));
    }
    if let Some(row) = in_hand(&|engine| engine.action_of_key(name)) {
        return Ok(Some(row));
    }
    Ok(stored.find(|row| whose.has(row)))
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

/// The stored result of an action, as its caller would have got it.
pub async fn stored_result(gateway: &Gateway, action: ActionId) -> Given<Out> {
    let reader = gateway.0.driver.store().reader_of_all();
    let stored = blocking(move || {
        let row = reader.action(action)?;
        let attempts = reader.attempts(action)?;
        Ok((row, attempts, opened(reader.result(action))?))
    });
    let (row, attempts, result) = stored.await?;
    let Some(row) = row.map(|it| it.row) else {
        return Err(not_found());
    };
    let context = Context {
        action,
        attempts: row.attempts,
        waited: row.waited,
        reason: None,
        task_spent: None,
        terminal: row.state.is_final().then(|| row.state.word()),
        next: Some(next_step(&row, Kept::of(result.is_some())).word()),
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
            let sent = was_sent(&attempts);
            let why = match (code, sent) {
                (Code::StillOpen, false) => "it waits for its turn, and nothing of it was sent yet",
                _ => "",
            };
            let problem = Problem::of_action(code)
                .because(why)
                .with("action", action.to_string())
                .with("sent", sent)
                .with("state", row.state.word())
                .with("operation_id", row.operation_id.clone())
                .with("escalation", row.escalation.map(|id| id.to_string()))
                .next(next_step(&row, Kept::No).word());
            let context = Some(context);
            Ok(Out::Joined(Box::new(Reply::Governor { problem, context })))
        }
    }
}

/// A stored result that no key opens is lost, like one that was never kept: the
/// action is there all the same, and what is known of it can be told.
fn opened(
    read: Result<Option<StoredResult>, rategov_store::Error>,
) -> Result<Option<StoredResult>, rategov_store::Error> {
    match read {
        Err(cause) if cause.is_about_a_key() => {
            tracing::error!(%cause, hint = cause.hint(), "a stored result can't be opened");
            Ok(None)
        }
        read => read,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: &str, status: Option<u16>, begins: Option<&str>) {
        let cause = cause(code, status);
        match (&cause, begins) {
            (Some(cause), Some(begins)) => assert!(cause.starts_with(begins), "{cause}"),
            (cause, begins) => assert_eq!(cause.as_deref(), begins, "{code}"),
        }
    }

    #[test]
    fn whatever_ended_without_success_has_a_cause() {
        check(
            "hold_exceeded",
            None,
            Some("the wait is longer than it may be held: "),
        );
        check(
            WAIT_EXHAUSTED,
            Some(429),
            Some("the wait for the provider would"),
        );
        let limited = Some("the provider answered 429: rate limited");
        check("provider_rate_limited", Some(429), limited);
        check(
            "provider_credential",
            None,
            Some("the provider answered: credential"),
        );
        for none in ["", "provider_ok", "done"] {
            check(none, Some(200), None);
        }
        for meaning in Meaning::ALL {
            let cause = cause(code_of_answer(*meaning), Some(500));
            assert_eq!(cause.is_some(), *meaning != Meaning::Ok, "{meaning:?}");
        }
    }
}
