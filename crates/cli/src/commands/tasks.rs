//! `tasks list` and `tasks cancel`.

use std::process::ExitCode;

use serde_json::{Value, json};

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
            for task in rows.iter().filter(|task| task["spent"].is_string()) {
                output::note(&output::printable(&spent(task)));
            }
            output::table(
                &[
                    "task", "agent", "state", "retries", "of", "waited s", "deadline",
                ],
                rows.iter().map(|task| {
                    [
                        "task",
                        "agent",
                        "state",
                        "retries",
                        "retries_max",
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
                output::line(&cancelled(&answer));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What a cancel did: a default task goes on, and nobody must believe otherwise.
fn cancelled(answer: &Value) -> String {
    let (task, agent) = (field(answer, "task"), field(answer, "agent"));
    match answer["goes_on"] == true {
        true => format!(
            "cancelled what task {task} of {agent} had in hand; the task itself stays: calls that \
             name no task belong to it, and new ones are taken"
        ),
        false => format!("cancelled task {task} of {agent}"),
    }
}

/// That a budget is used up, until when, and what to do.
fn spent(task: &Value) -> String {
    let renews = match &task["renews_at"] {
        Value::Null => String::new(),
        at => format!(", anew from {}", at.as_str().unwrap_or_default()),
    };
    format!(
        "task {} of {}: {}{renews}\nhint: {}",
        field(task, "task"),
        field(task, "agent"),
        field(task, "spent"),
        field(task, "hint")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancel_says_what_goes_on() {
        let named = json!({ "task": "a", "agent": "bot", "cancelled": true, "goes_on": false });
        assert_eq!(cancelled(&named), "cancelled task a of bot");
        let default =
            json!({ "task": "default", "agent": "bot", "cancelled": "in_hand", "goes_on": true });
        let said = cancelled(&default);
        assert!(
            said.contains("had in hand") && said.contains("stays"),
            "{said}"
        );
    }

    #[test]
    fn spent_repeats_are_named_with_what_helps() {
        let task = json!({
            "task": "default", "agent": "bot", "renews_at": "2026-01-01T01:00:00Z",
            "spent": "all 20 repeats of the task are spent", "hint": "give the work a task",
        });
        assert_eq!(
            spent(&task),
            "task default of bot: all 20 repeats of the task are spent, anew from \
             2026-01-01T01:00:00Z\nhint: give the work a task"
        );
    }
}
