//! `tasks list` and `tasks cancel`.

use std::process::ExitCode;

use serde_json::json;

use crate::args::{Place, Tasks};
use crate::client::Client;
use crate::output::{self, field};

pub(crate) async fn run(place: &Place, tasks: Tasks, as_json: bool) -> anyhow::Result<ExitCode> {
    let client = Client::new(place)?;
    match tasks {
        Tasks::List => {
            let tasks = client.get("/api/v1/tasks").await?;
            if as_json {
                output::json(&tasks);
                return Ok(ExitCode::SUCCESS);
            }
            let rows = tasks["tasks"].as_array().cloned().unwrap_or_default();
            output::table(
                &["task", "agent", "state", "retries", "waited s", "deadline"],
                rows.iter().map(|task| {
                    [
                        "task",
                        "agent",
                        "state",
                        "retries",
                        "waited_seconds",
                        "deadline",
                    ]
                    .map(|name| field(task, name))
                    .to_vec()
                }),
            );
        }
        Tasks::Cancel { task, agent } => {
            let answer = client
                .post(
                    "/api/v1/tasks/cancel",
                    &json!({ "task": task, "agent": agent }),
                )
                .await?;
            if as_json {
                output::json(&answer);
            } else {
                output::line(&format!(
                    "cancelled task {} of {}",
                    task,
                    field(&answer, "agent")
                ));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
