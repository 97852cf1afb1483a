//! The JSON that agents and operators see. Inner types are not serialisable: a
//! serialisable type is a promise, and the promises are made here.

use rategov_core::cost::Dimension;
use rategov_core::engine::{ActionView, QueueView};
use rategov_core::id::{Account, Agent, Task};
use rategov_core::ledger::ScopeState;
use rategov_core::record::{ActionRow, AttemptRow, EscalationRow, SendKind, TaskRow};
use rategov_core::tasks::{DEFAULT_TASK, TaskBook, TaskKey};
use rategov_core::time::{Moment, Span};
use serde_json::{Value, json};

use crate::driver::Clock;
use crate::driver::clock::rfc3339;

/// Turns moments into times of day.
#[derive(Clone, Copy)]
pub struct Times<'c>(pub &'c Clock);

impl Times<'_> {
    /// A moment; null for "never".
    pub fn at(&self, at: Moment) -> Value {
        if at == Moment::NEVER {
            Value::Null
        } else {
            json!(rfc3339(self.0.wall_of(at)))
        }
    }

    /// A moment that may be unknown.
    pub fn maybe(&self, at: Option<Moment>) -> Value {
        at.map_or(Value::Null, |at| self.at(at))
    }
}

/// Seconds with a fraction.
pub fn seconds(span: Span) -> Value {
    json!(span.as_secs_f64())
}

/// A share, 1 for the whole.
fn share(permille: Option<u32>) -> Option<f64> {
    permille.map(|permille| f64::from(permille) / 1_000.0)
}

/// One scope (R-LEDGER-3); more fields may follow.
pub fn scope(times: Times<'_>, account: &Account, state: &ScopeState) -> Value {
    let provider = account
        .as_str()
        .split_once('/')
        .map_or("", |(provider, _)| provider);
    json!({
        "provider": provider,
        "account": account.as_str(),
        "scope": state.scope.as_str(),
        "request_class": "*",
        "mode": state.mode.word(),
        "next_allowed_at": times.maybe(state.next_allowed_at),
        "remaining": state.remaining,
        "limit": state.limit,
        "dimension": state.dimension.map(Dimension::word),
        "window_seconds": state.window.map(Span::as_secs_f64),
        "reset_after_seconds": state.reset_after.map(Span::as_secs_f64),
        "ceiling": share(state.ceiling_permille),
        "used": share(state.used_permille),
        "reserved": state.reserved,
        "foreign": state.foreign,
        "quotas": state.quotas.iter().map(|quota| json!({
            "dimension": quota.dimension.word(),
            "name": quota.name,
            "limit": quota.limit,
            "window_seconds": quota.window.as_secs_f64(),
            "origin": quota.origin.word(),
            "paced": quota.paced,
            "cap": quota.cap,
            "spent": quota.spent,
            "held": quota.reserved,
            "foreign": quota.foreign,
            "debt": quota.debt,
            "available": quota.available,
            "ceiling": share(Some(quota.ceiling_permille)),
            "used": share(quota.used_permille),
        })).collect::<Vec<_>>(),
        "in_flight": state.in_flight,
        "max_concurrent": state.max_concurrent,
        "origin": state.origin.map(|origin| origin.word()),
        "misdeclared": state.misdeclared,
        "source": (!state.source.is_empty()).then_some(state.source.as_str()),
        "refusals": state.refusals,
        "echoes": state.echoes,
    })
}

/// One waiting call.
pub fn parked(times: Times<'_>, view: &QueueView) -> Value {
    let QueueView {
        parked,
        row,
        attempts_max,
    } = view;
    let requested = &row.requested;
    json!({
        "action": requested.action.to_string(),
        "agent": requested.agent.as_str(),
        "task": requested.task.as_ref().map(|task| task.as_str()),
        "priority": requested.priority.word(),
        "class": requested.class.word(),
        "account": requested.account.as_str(),
        "endpoint": requested.endpoint.as_str(),
        "attempts": row.attempts,
        "attempts_max": attempts_max,
        "reason": parked.reason.word(),
        "scope": parked.scope.as_str(),
        "position": parked.position,
        "expected_start": times.maybe(parked.expected_start),
        "waiting_since": times.at(row.requested_at),
    })
}

/// One action. Everything but the payload; of that only its digest.
pub fn action(times: Times<'_>, row: &ActionRow) -> Value {
    let requested = &row.requested;
    json!({
        "action": requested.action.to_string(),
        "state": row.state.word(),
        "final": row.state.is_final(),
        "provider": requested.provider.as_str(),
        "account": requested.account.as_str(),
        "agent": requested.agent.as_str(),
        "task": requested.task.as_ref().map(|task| task.as_str()),
        "goal": requested.goal,
        "priority": requested.priority.word(),
        "class": requested.class.word(),
        "method": requested.method,
        "endpoint": requested.endpoint.as_str(),
        "path": requested.path,
        "fingerprint": requested.fingerprint.to_string(),
        "payload_bytes": requested.payload_bytes,
        "payload_sha256": hex(&requested.payload_digest),
        "key": requested.key,
        "requested_at": times.at(row.requested_at),
        "deadline": times.at(requested.deadline),
        "attempts": row.attempts,
        "lookups": row.lookups,
        "waited_seconds": seconds(row.waited),
        "not_before": times.at(row.not_before),
        "sent": row.may_have_left(),
        "maybe_arrived": row.maybe_arrived,
        "uncertain": row.uncertain,
        "operation_id": row.operation_id,
        "status": row.last_status,
        "escalation": row.escalation.map(|id| id.to_string()),
        "cancelled": row.cancelled,
        "code": (!row.code.is_empty()).then_some(row.code.as_str()),
        "authorised_by": requested.authorised_by,
        "parent": requested.parent.map(|id| id.to_string()),
    })
}

/// One action in hand, with what it waits for.
pub fn action_view(times: Times<'_>, view: &ActionView) -> Value {
    let mut value = action(times, &view.row);
    value["on_the_wire"] = json!(view.on_the_wire);
    if let Some(parked) = &view.parked {
        value["reason"] = json!(parked.reason.word());
        value["scope"] = json!(parked.scope.as_str());
        value["position"] = json!(parked.position);
        value["expected_start"] = times.maybe(parked.expected_start);
    }
    value
}

/// One send of an action.
pub fn attempt(times: Times<'_>, row: &AttemptRow) -> Value {
    json!({
        "kind": match row.kind { SendKind::Attempt => "attempt", SendKind::Lookup => "lookup" },
        "attempt": row.attempt,
        "opened_at": times.at(row.opened_at),
        "sent_at": times.maybe(row.sent_at),
        "certainty": row.certainty.map(|certainty| certainty.word()),
        "outcome": row.outcome.map(|outcome| outcome.word()),
        "status": row.status,
    })
}

/// One question.
pub fn escalation(times: Times<'_>, account: Option<&Account>, row: &EscalationRow) -> Value {
    json!({
        "escalation": row.escalation.to_string(),
        "account": account.map(|account| account.as_str()),
        "action": row.action.map(|id| id.to_string()),
        "scope": row.scope.as_str(),
        "trigger": row.trigger.word(),
        "why": row.why,
        "choices": row.choices.iter().map(|choice| json!({
            "choice": choice.word(),
            "does": does(*choice),
            "confirm": (*choice == rategov_core::word::Choice::SendNew)
                .then_some(rategov_core::action::choices::CONFIRM_SECOND_EFFECT),
        })).collect::<Vec<_>>(),
        "version": row.version,
        "opened_at": times.at(row.opened_at),
        "expires": times.at(row.expires),
        "chosen": row.chosen.map(|choice| choice.word()),
        "decided_by": row.decided_by,
        "decided_at": times.maybe(row.decided_at),
        "note": row.note,
    })
}

/// What a choice does, in one sentence.
fn does(choice: rategov_core::word::Choice) -> &'static str {
    use rategov_core::word::Choice;
    match choice {
        Choice::Query => "ask the provider what happened; nothing is sent again",
        Choice::RetrySameKey => {
            "send the same bytes under the same key; the provider promises not to do it twice"
        }
        Choice::ItHappened => "record that it happened; it ends as done and is never sent again",
        Choice::ItDidNot => {
            "record that it did not happen; the agent is told that it may send it again"
        }
        Choice::Cancel => "never send it again",
        Choice::SendNew => "send a new operation with a new key; this may happen twice",
        Choice::Wait => "let it go on; one call sees at once whether the provider accepts again",
        Choice::RaiseQuota => "the limit was raised at the provider: let one call see, and go on",
        Choice::ChangePlan => "end it without sending, and give the agent your instruction",
    }
}

/// One task of a book.
///
/// An agent's default task gets its budgets anew after each `task.deadline`; `renews_at`
/// says when. `hint` says what to do once they are spent.
pub fn task(times: Times<'_>, now: Moment, book: &TaskBook, row: &TaskRow) -> Value {
    let key = (row.agent.clone(), row.task.clone());
    let (limits, spent) = (book.limits(), book.spent(now, &key));
    json!({
        "retries_max": limits.max_retries,
        "waited_seconds_max": seconds(limits.max_wait),
        "renews_at": times.maybe(book.renews_at(&key)),
        "spent": spent.map(|it| it.to_string()),
        "hint": spent.map(|_| when_spent(&key)),
        "task": row.task.as_str(),
        "agent": row.agent.as_str(),
        "goal": row.goal,
        "state": if row.cancelled { "cancelled" } else { "open" },
        "opened_at": times.at(row.opened_at),
        "deadline": times.at(row.deadline),
        "retries": row.retries,
        "waited_seconds": seconds(row.waited),
    })
}

/// What to do when a budget of a task is used up.
pub fn when_spent(key: &TaskKey) -> &'static str {
    match key.1.as_str() {
        DEFAULT_TASK => {
            "calls go on, but none is repeated until `renews_at`: give the work a task of its own \
             (`Rategov-Task: NAME`), or raise `task.max_retries` and `task.max_wait`"
        }
        _ => {
            "calls go on, but none is repeated: begin a new task (`Rategov-Task: NAME`), or raise \
             `task.max_retries` and `task.max_wait`"
        }
    }
}

/// What a cancel of a task did: `true` if it ended the task, `in_hand` if the task is
/// an agent's default one, which goes on without what it had in hand.
pub fn task_cancelled(agent: &Agent, task: &Task) -> Value {
    let goes_on = task.as_str() == DEFAULT_TASK;
    json!({
        "task": task.as_str(),
        "agent": agent.as_str(),
        "cancelled": if goes_on { json!("in_hand") } else { json!(true) },
        "goes_on": goes_on,
    })
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rategov_core::id::Scope;
    use rategov_core::ledger::Ledger;
    use rategov_core::policy::{AccountPolicy, Quota, ScopeLimits, WindowKind};

    #[test]
    fn a_scope_and_each_quota_of_it_show_what_is_used_beside_what_can_be() {
        let name = Scope::new("account:main").unwrap();
        let quota = Quota {
            dimension: Dimension::Requests,
            limit: 60,
            window: Span::from_secs(10),
            kind: WindowKind::Sliding,
        };
        let limits = ScopeLimits {
            quotas: vec![quota],
            max_concurrent: None,
        };
        let policy = AccountPolicy {
            scopes: vec![(name.clone(), limits)],
            ..AccountPolicy::default()
        };
        let ledger = Ledger::new(name.clone(), &policy);
        let mut state = ledger.state(Moment::START, &name).unwrap();
        state.used_permille = Some(1_250);
        let account = Account::new("raw/main").unwrap();
        let clock = Clock::new();
        let shown = scope(Times(&clock), &account, &state);
        assert_eq!(shown["ceiling"], json!(0.98));
        assert_eq!(shown["used"], json!(1.25));
        assert_eq!(shown["quotas"][0]["ceiling"], json!(0.98));
        assert_eq!(shown["quotas"][0]["used"], json!(0.0));
        state.used_permille = None;
        let shown = scope(Times(&clock), &account, &state);
        assert_eq!(shown["used"], Value::Null);
    }
}
