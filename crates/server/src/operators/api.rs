//! The operators' JSON API, `/api/v1/`. Lists are objects with one array under
//! the resource's name.

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use rategov_core::action::problem::Code;
use rategov_core::event::CancelledBy;
use rategov_core::id::{Account, Agent, Operator, Scope, Task};
use rategov_core::word::State;
use rategov_store::{ActionQuery, JournalQuery, JournalRow, Page};
use serde_json::{Value, json};

use super::{Given, Operators};
use crate::agents::{Whose, blocking, cancel, described, durable, find_action};
use crate::driver::clock::rfc3339;
use crate::driver::{Cancelled, NotResumed};
use crate::gateway::problem::{Problem, RequestCode};
use crate::gateway::serve::Gateway;
use crate::start::NotReloaded;
use crate::wire::{self, Times};

/// Rows of a list unless the query says otherwise.
const LIMIT_DEFAULT: u32 = 1_000;

/// Names in a sentence that says what could be meant.
const NAMED_MAX: usize = 10;

/// One authenticated call.
pub(super) struct Call<'c> {
    pub(super) operators: &'c Operators,
    pub(super) gateway: &'c Gateway,
    pub(super) operator: Operator,
    pub(super) method: Method,
    pub(super) path: &'c str,
    pub(super) query: &'c str,
    pub(super) body: Value,
}

pub(super) type Answer = Given<(StatusCode, Value)>;

pub(super) fn ok(value: Value) -> Answer {
    Ok((StatusCode::OK, value))
}

pub(super) fn invalid(why: impl Into<String>) -> Box<Problem> {
    Box::new(Problem::of_request(RequestCode::InvalidRequest, why))
}

pub(super) fn not_found(what: &str) -> Box<Problem> {
    Box::new(Problem::of_request(
        RequestCode::NotFound,
        format!("there is no such {what}"),
    ))
}

impl Call<'_> {
    pub(super) async fn answer(self) -> Answer {
        let segments: Vec<&str> = self.path.split('/').filter(|it| !it.is_empty()).collect();
        match (&self.method, segments.as_slice()) {
            (&Method::GET, ["status"]) => self.status(),
            (&Method::GET, ["scopes"]) => ok(json!({ "scopes": self.scopes() })),
            (&Method::POST, ["scopes", "resume"]) => self.resume().await,
            (&Method::GET, ["queue"]) => self.queue(),
            (&Method::GET, ["actions"]) => self.actions().await,
            (&Method::GET, ["actions", name]) => self.action(name).await,
            (&Method::POST, ["actions", name, "cancel"]) => self.cancel(name).await,
            (&Method::GET, ["escalations"]) => self.escalations().await,
            (&Method::GET, ["escalations", id]) => self.escalation(id).await,
            (&Method::POST, ["escalations", id, "decide"]) => self.decide(id).await,
            (&Method::GET, ["agents"]) => ok(self.agents()),
            (&Method::GET, ["tasks"]) => ok(self.tasks()),
            (&Method::POST, ["tasks", "cancel"]) => self.cancel_task().await,
            (&Method::GET, ["journal"]) => self.journal().await,
            (&Method::GET, ["policy"]) => ok(self.policy()),
            (&Method::POST, ["policy", "reload"]) => self.reload().await,
            (&Method::GET, ["variables"]) => ok(json!({ "variables": self.variables(None) })),
            (&Method::POST, ["runs"]) => self.start_run(),
            (&Method::DELETE, ["runs", id]) => self.end_run(id).await,
            _ => Err(not_found("resource")),
        }
    }

    pub(super) fn times(&self) -> Times<'_> {
        Times(self.gateway.0.driver.clock())
    }

    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        self.query.split('&').find_map(|pair| {
            let (own, value) = pair.split_once('=').unwrap_or((pair, ""));
            (own == name).then(|| crate::agents::decode(value))
        })
    }

    pub(super) fn limit(&self) -> Given<u32> {
        match self.parameter("limit") {
            None => Ok(LIMIT_DEFAULT),
            Some(text) => text
                .parse()
                .map_err(|_| invalid("`limit` is a whole number")),
        }
    }

    // ---- what is going on ----------------------------------------------------

    fn status(&self) -> Answer {
        let driver = &self.gateway.0.driver;
        let mut accounts = Vec::new();
        let mut open = 0;
        for cell in driver.cells() {
            driver.look(&cell, |engine, _| {
                let [interactive, normal, background] = engine.waiting_by_priority();
                open += engine.escalations().count();
                accounts.push(json!({
                    "account": cell.account.as_str(),
                    "waiting": {
                        "interactive": interactive, "normal": normal, "background": background,
                    },
                    "on_the_wire": engine.on_the_wire(),
                    "escalations_open": engine.escalations().count(),
                }));
            });
        }
        ok(json!({
            "version": env!("CARGO_PKG_VERSION"),
            "started_at": rfc3339(self.operators.started()),
            "escalations_open": open,
            "accounts": accounts,
            "scopes": self.scopes(),
            "warnings": self.gateway.policy().notices,
        }))
    }

    fn scopes(&self) -> Vec<Value> {
        let driver = &self.gateway.0.driver;
        let mut list = Vec::new();
        for cell in driver.cells() {
            let states = driver.look(&cell, |engine, now| engine.scopes(now));
            list.extend(
                states
                    .iter()
                    .map(|it| wire::scope(self.times(), &cell.account, it)),
            );
        }
        list
    }

    async fn resume(&self) -> Answer {
        let scope = self.body["scope"].as_str().unwrap_or_default();
        let scope = Scope::new(scope).map_err(|cause| invalid(format!("`scope`: {cause}")))?;
        let account = match &self.body["account"] {
            Value::Null => None,
            account => Some(
                Account::new(account.as_str().unwrap_or_default())
                    .map_err(|cause| invalid(format!("`account`: {cause}")))?,
            ),
        };
        let driver = &self.gateway.0.driver;
        match driver.resume_scope(account.as_ref(), &scope, &self.operator) {
            Ok((account, receipt)) => {
                durable(receipt).await?;
                ok(json!({
                    "account": account.as_str(), "scope": scope.as_str(), "resumed": true,
                }))
            }
            Err(NotResumed::Unknown) => Err(not_found("scope")),
            Err(NotResumed::AuditUnavailable) => {
                let problem = Problem::of_action(Code::AuditUnavailable);
                Err(Box::new(problem.retry_after(Some(1))))
            }
            Err(NotResumed::Ambiguous(accounts)) => {
                let shown = accounts.iter().take(NAMED_MAX).map(Account::as_str);
                let shown: Vec<&str> = shown.collect();
                let why = format!(
                    "{} accounts have a scope of this name; `account` says which one: {}",
                    accounts.len(),
                    shown.join(", ")
                );
                Err(invalid(why))
            }
        }
    }

    fn queue(&self) -> Answer {
        let limit = self.limit()? as usize;
        let driver = &self.gateway.0.driver;
        let mut queue = Vec::new();
        for cell in driver.cells() {
            let left = limit.saturating_sub(queue.len());
            let views = driver.look(&cell, |engine, now| engine.queue(now, left));
            queue.extend(views.iter().map(|it| wire::parked(self.times(), it)));
        }
        ok(json!({ "queue": queue }))
    }

    async fn actions(&self) -> Answer {
        let states = match self.parameter("state") {
            None => Vec::new(),
            Some(words) => words
                .split(',')
                .map(|word| {
                    State::parse(word).ok_or_else(|| invalid("`state` is no state of an action"))
                })
                .collect::<Given<Vec<State>>>()?,
        };
        let agent = self.name("agent", Agent::new)?;
        let task = self.name("task", Task::new)?;
        let query = ActionQuery {
            states,
            agent,
            task,
            limit: self.limit()?,
            ..ActionQuery::default()
        };
        let reader = self.gateway.0.driver.store().reader_of_all();
        let rows = blocking(move || reader.actions(&query)).await?;
        let rows: Vec<Value> = rows
            .iter()
            .map(|it| wire::action(self.times(), &it.row))
            .collect();
        ok(json!({ "actions": rows }))
    }

    fn name<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, rategov_core::id::NameError>,
    ) -> Given<Option<T>> {
        self.parameter(name)
            .map(|text| parse(&text).map_err(|cause| invalid(format!("`{name}`: {cause}"))))
            .transpose()
    }

    async fn action(&self, name: &str) -> Answer {
        let name = crate::agents::decode(name);
        let row = find_action(self.gateway, &name, Whose::Everybody)
            .await?
            .ok_or_else(|| not_found("action"))?;
        ok(described(self.gateway, &row).await?)
    }

    async fn cancel(&self, name: &str) -> Answer {
        let name = crate::agents::decode(name);
        let row = find_action(self.gateway, &name, Whose::Everybody)
            .await?
            .ok_or_else(|| not_found("action"))?;
        let by = CancelledBy::Operator(self.operator.clone());
        let (cancelled, told) = cancel(self.gateway, &row, by).await?;
        let status = match cancelled {
            Cancelled::AfterThisAttempt | Cancelled::OutcomeUnknown => StatusCode::ACCEPTED,
            Cancelled::Now | Cancelled::NotInHand => StatusCode::OK,
        };
        Ok((status, told))
    }

    // ---- agents, tasks, runs -------------------------------------------------

    fn agents(&self) -> Value {
        let policy = self.gateway.policy();
        let driver = &self.gateway.0.driver;
        let mut load: BTreeMap<String, (usize, usize)> = BTreeMap::new();
        for cell in driver.cells() {
            for view in driver.look(&cell, |engine, now| engine.queue(now, 10_000)) {
                load.entry(view.row.requested.agent.as_str().to_owned())
                    .or_default()
                    .0 += 1;
            }
        }
        for agent in policy.settings.agents.keys() {
            load.entry(agent.as_str().to_owned()).or_default();
        }
        let list: Vec<Value> = load
            .iter()
            .map(|(agent, (waiting, _))| {
                let known = Agent::new(agent).ok();
                let settings = known.and_then(|agent| policy.settings.agents.get(&agent));
                json!({
                    "agent": agent,
                    "configured": settings.is_some(),
                    "priority": settings.map(|it| it.limits.ceiling.word()),
                    "weight": settings.map(|it| it.limits.weight),
                    "waiting": waiting,
                })
            })
            .collect();
        json!({ "agents": list })
    }

    fn tasks(&self) -> Value {
        let times = self.times();
        let driver = &self.gateway.0.driver;
        let now = driver.clock().now();
        let list: Vec<Value> = driver.look_at_tasks(|tasks| {
            let rows = tasks.rows();
            rows.map(|row| wire::task(times, now, tasks, row)).collect()
        });
        json!({ "tasks": list })
    }

    async fn cancel_task(&self) -> Answer {
        let name = self.body["task"].as_str().unwrap_or_default();
        let task = Task::new(name).map_err(|cause| invalid(format!("`task`: {cause}")))?;
        let driver = &self.gateway.0.driver;
        let agent = match self.body["agent"].as_str() {
            Some(agent) => {
                Agent::new(agent).map_err(|cause| invalid(format!("`agent`: {cause}")))?
            }
            None => {
                let owners: Vec<Agent> = driver.look_at_tasks(|tasks| {
                    let of = tasks.rows().filter(|row| row.task == task);
                    of.map(|row| row.agent.clone()).collect()
                });
                match owners.as_slice() {
                    [] => return Err(not_found("task")),
                    [one] => one.clone(),
                    several => {
                        let names: Vec<&str> = several.iter().map(Agent::as_str).collect();
                        let why = format!("several agents have it: {}; name one", names.join(", "));
                        return Err(invalid(why));
                    }
                }
            }
        };
        let by = CancelledBy::Operator(self.operator.clone());
        let key = (agent, task);
        let receipt = driver
            .cancel_task(&key, by)
            .map_err(|_| Problem::of_request(RequestCode::Conflict, "too many tasks are open"))?;
        durable(receipt).await?;
        ok(wire::task_cancelled(&key.0, &key.1))
    }

    // ---- journal and policy --------------------------------------------------

    async fn journal(&self) -> Answer {
        let action = match self.parameter("action") {
            None => None,
            Some(name) => {
                let row = find_action(self.gateway, &name, Whose::Everybody).await?;
                Some(row.ok_or_else(|| not_found("action"))?.requested.action)
            }
        };
        let query = JournalQuery {
            action,
            task: self.name("task", Task::new)?,
            agent: self.name("agent", Agent::new)?,
            event: self.parameter("event"),
            page: Page::Backward(None),
            limit: self.limit()?,
            ..JournalQuery::default()
        };
        let reader = self.gateway.0.driver.store().reader_of_all();
        let rows = blocking(move || reader.journal(&query)).await?;
        let rows: Vec<Value> = rows.iter().map(journal_row).collect();
        ok(json!({ "records": rows }))
    }

    fn policy(&self) -> Value {
        let policy = self.gateway.policy();
        json!({
            "digest": wire::hex(&policy.digest),
            "providers": policy.settings.providers.keys().map(|it| it.as_str()).collect::<Vec<_>>(),
            "agents": policy.settings.agents.keys().map(|it| it.as_str()).collect::<Vec<_>>(),
            "hold_seconds": policy.settings.hold.as_secs_f64(),
            "warnings": policy.notices,
        })
    }

    async fn reload(&self) -> Answer {
        match self.operators.reload().await {
            Ok(warnings) => ok(json!({ "reloaded": true, "warnings": warnings })),
            Err(NotReloaded::Mistakes(mistakes)) => Err(invalid(format!(
                "the old configuration stays in force:\n{mistakes}"
            ))),
            Err(NotReloaded::NotDurable(lost)) => {
                let problem = Problem::of_action(Code::AuditUnavailable).because(&lost.to_string());
                Err(Box::new(problem.retry_after(Some(5))))
            }
        }
    }
}

pub(super) fn journal_row(row: &JournalRow) -> Value {
    json!({
        "seq": row.seq.0,
        "at": rfc3339(row.wall),
        "event": row.event,
        "account": row.account,
        "action": row.action.map(|id| id.to_string()),
        "agent": row.agent,
        "task": row.task,
        "text": row.fact.as_ref().map(crate::audit_text::line),
    })
}
