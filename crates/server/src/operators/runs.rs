//! Runs of programs: a token of their own while they run, and the end of their task
//! with it.

use http::StatusCode;
use rategov_core::event::CancelledBy;
use rategov_core::id::{Agent, Task};
use rategov_core::tasks::task_key;
use rategov_core::word::{Priority, State};
use rategov_store::ActionQuery;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::api::{Answer, Call, invalid, not_found, ok};
use crate::agents::{blocking, durable};
use crate::auth::run_tokens::{RunId, RunRequest};
use crate::gateway::problem::{Problem, RequestCode};

impl Call<'_> {
    /// The variables that make known SDKs use the governor.
    pub(super) fn variables(&self, token: Option<&str>) -> Value {
        let policy = self.gateway.policy();
        let base = policy.settings.listen.agents;
        let run = token
            .map(|token| format!("/run/{token}"))
            .unwrap_or_default();
        let mut variables = serde_json::Map::new();
        let door = format!("http://{base}{run}");
        for provider in policy.settings.providers.values() {
            let environment = provider.sdk_environment(&door);
            let bases = environment.base_url.into_iter();
            variables.extend(bases.map(|(name, url)| (name, json!(url))));
            let keys = environment.key_if_unset.into_iter();
            variables.extend(keys.map(|(name, key)| (name, json!(key))));
        }
        variables.insert("RATEGOV_URL".to_owned(), json!(door));
        Value::Object(variables)
    }

    pub(super) fn start_run(&self) -> Answer {
        let agent = self.body["agent"].as_str().unwrap_or_default();
        let agent = Agent::new(agent).map_err(|cause| invalid(format!("`agent`: {cause}")))?;
        let task = match self.body["task"].as_str() {
            Some(task) => task.to_owned(),
            // A run has a task of its own, so that its end is the end of its calls.
            None => format!("run-{}", uuid::Uuid::now_v7()),
        };
        let task = Task::new(&task).map_err(|cause| invalid(format!("`task`: {cause}")))?;
        self.refuse_ended(&agent, &task)?;
        let priority = match self.body["priority"].as_str() {
            None => None,
            Some(word) => {
                Some(Priority::parse(word).ok_or_else(|| invalid("`priority` is no priority"))?)
            }
        };
        let request = RunRequest {
            agent,
            task: Some(task.clone()),
            priority,
        };
        let (run, token) = self
            .gateway
            .policy()
            .agents
            .start_run(request)
            .map_err(|refusal| Problem::of_request(RequestCode::Conflict, refusal.to_string()))?;
        let variables = self.variables(Some(token.expose_secret()));
        Ok((
            StatusCode::CREATED,
            json!({
                "id": run.id.to_string(),
                "agent": run.agent.as_str(),
                "task": task.as_str(),
                "variables": variables,
            }),
        ))
    }

    /// A run of a task that has ended would have each of its calls refused.
    fn refuse_ended(&self, agent: &Agent, task: &Task) -> Result<(), Box<Problem>> {
        let driver = &self.gateway.0.driver;
        let (now, key) = (driver.clock().now(), task_key(agent, Some(task)));
        if !driver.look_at_tasks(|book| book.has_ended(now, &key)) {
            return Ok(());
        }
        let why = format!(
            "the task {task} of {agent} has ended, and no call of it is sent any more; name \
             another one, or none: a run without a name has a task of its own"
        );
        Err(Box::new(Problem::of_request(RequestCode::Conflict, why)))
    }

    pub(super) async fn end_run(&self, id: &str) -> Answer {
        let number = id
            .strip_prefix("run-")
            .and_then(|number| number.parse().ok());
        let number = number.ok_or_else(|| not_found("run"))?;
        let run = self.gateway.policy().agents.end_run(RunId(number));
        let run = run.ok_or_else(|| not_found("run"))?;
        let mut last_failure = Value::Null;
        if let Some(task) = run.task.clone() {
            let by = CancelledBy::Task;
            let key = (run.agent.clone(), task.clone());
            if let Ok(receipt) = self.gateway.0.driver.cancel_task(&key, by) {
                durable(receipt).await?;
            }
            let query = ActionQuery {
                task: Some(task),
                limit: 20,
                ..ActionQuery::default()
            };
            let reader = self.gateway.0.driver.store().reader_of_all();
            let rows = blocking(move || reader.actions(&query)).await?;
            let failed = rows.iter().find(|it| it.row.state == State::FailedDefinite);
            if let Some(it) = failed {
                last_failure = json!(format!(
                    "{} ended with {} after {} attempts ({})",
                    it.row.requested.endpoint,
                    it.row
                        .last_status
                        .map_or_else(|| "no answer".to_owned(), |status| status.to_string()),
                    it.row.attempts,
                    it.row.code,
                ));
            }
        }
        ok(json!({ "id": id, "ended": true, "last_failure": last_failure }))
    }
}
