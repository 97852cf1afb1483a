//! `escalations list`, `show` and `decide`.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::status::encode;
use crate::args::{Escalations, Place};
use crate::client::Client;
use crate::output::{self, field};

pub(crate) async fn run(
    place: &Place,
    escalations: Escalations,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let client = Client::new(place)?;
    match escalations {
        Escalations::List { all } => {
            let path = if all {
                "/api/v1/escalations?all=true"
            } else {
                "/api/v1/escalations"
            };
            let answer = client.get(path).await?;
            if as_json {
                output::json(&answer);
                return Ok(ExitCode::SUCCESS);
            }
            let rows = answer["escalations"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            output::table(
                &[
                    "escalation",
                    "trigger",
                    "scope",
                    "action",
                    "asked",
                    "expires",
                    "decided",
                ],
                rows.iter().map(|row| {
                    [
                        "escalation",
                        "trigger",
                        "scope",
                        "action",
                        "opened_at",
                        "expires",
                        "chosen",
                    ]
                    .map(|name| field(row, name))
                    .to_vec()
                }),
            );
        }
        Escalations::Show { escalation } => {
            let row = client
                .get(&format!("/api/v1/escalations/{}", encode(&escalation)))
                .await?;
            if as_json {
                output::json(&row);
            } else {
                show(&row);
            }
        }
        Escalations::Decide {
            escalation,
            choice,
            note,
            confirm,
            version,
        } => {
            let path = format!("/api/v1/escalations/{}", encode(&escalation));
            let version = match version {
                Some(version) => json!(version),
                None => shown(&client.get(&path).await?, as_json),
            };
            let path = format!("{path}/decide");
            let body = json!({
                "choice": choice, "note": note, "confirm": confirm, "version": version,
            });
            let answer = client.post(&path, &body).await?;
            if as_json {
                output::json(&answer);
            } else {
                output::line(&format!("decided: {}", field(&answer, "choice")));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows in one line what is about to be decided on, and gives its version: an
/// action that changes from here on is not decided on unseen.
fn shown(row: &Value, as_json: bool) -> Value {
    let version = row["version"].clone();
    if !as_json && row["action"] != Value::Null {
        let action = &row["dossier"];
        output::line(&format!(
            "deciding on {} version {version}: {} {}, {} attempts",
            field(row, "action"),
            output::printable(&field(action, "endpoint")),
            field(action, "state"),
            action["attempts"].as_array().map_or(0, Vec::len),
        ));
    }
    version
}

fn show(row: &Value) {
    for name in [
        "escalation",
        "trigger",
        "why",
        "scope",
        "account",
        "version",
        "opened_at",
        "expires",
    ] {
        output::line(&format!(
            "{name:<14} {}",
            output::printable(&field(row, name))
        ));
    }
    if let Value::Object(action) = &row["dossier"] {
        output::line("");
        for (name, value) in action {
            if let Value::Array(_) = value {
                continue;
            }
            let text = match value {
                Value::Null => continue,
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            output::line(&format!("{name:<14} {}", output::printable(&text)));
        }
        for attempt in row["dossier"]["attempts"].as_array().into_iter().flatten() {
            output::line(&format!(
                "attempt {:<6} opened {} status {} certainty {}",
                field(attempt, "attempt"),
                field(attempt, "opened_at"),
                field(attempt, "status"),
                field(attempt, "certainty"),
            ));
        }
    }
    output::line("");
    output::line("choices");
    for choice in row["choices"].as_array().into_iter().flatten() {
        output::line(&format!(
            "  {:<26} {}",
            field(choice, "choice"),
            output::printable(&field(choice, "does"))
        ));
        if let Some(text) = choice["confirm"].as_str() {
            output::line(&format!(
                "  {:<26} type it to confirm: --confirm {text:?}",
                ""
            ));
        }
    }
    if row["chosen"] != Value::Null {
        output::line(&format!(
            "decided        {} by {} at {}",
            field(row, "chosen"),
            field(row, "decided_by"),
            field(row, "decided_at")
        ));
    }
}
