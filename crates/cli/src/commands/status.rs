//! `status` and `why`: what is going on, and what one action waits for.

use std::process::ExitCode;

use serde_json::Value;

use crate::args::Place;
use crate::client::Client;
use crate::output::{self, field};

/// Accounts, quotas and queues at a glance.
pub(crate) async fn run(place: &Place, as_json: bool) -> anyhow::Result<ExitCode> {
    let client = Client::new(place)?;
    let status = client.get("/api/v1/status").await?;
    if as_json {
        output::json(&status);
        return Ok(ExitCode::SUCCESS);
    }
    output::line(&format!(
        "rategov {} · {} open questions",
        field(&status, "version"),
        field(&status, "escalations_open")
    ));
    for warning in status["warnings"].as_array().into_iter().flatten() {
        output::note(&format!(
            "warning: {}",
            warning.as_str().unwrap_or_default()
        ));
    }
    let scopes = status["scopes"].as_array().cloned().unwrap_or_default();
    output::table(
        &[
            "account", "scope", "mode", "left", "limit", "of", "used", "ceiling", "next at",
            "open", "source",
        ],
        scopes.iter().map(|scope| {
            [
                "account",
                "scope",
                "mode",
                "remaining",
                "limit",
                "dimension",
                "used",
                "ceiling",
                "next_allowed_at",
                "in_flight",
                "source",
            ]
            .map(|name| field(scope, name))
            .to_vec()
        }),
    );
    let queue = client.get("/api/v1/queue?limit=20").await?;
    let queue = queue["queue"].as_array().cloned().unwrap_or_default();
    if !queue.is_empty() {
        output::line("");
        output::table(
            &[
                "waiting", "agent", "priority", "call", "for", "scope", "expected",
            ],
            queue.iter().map(|call| {
                [
                    "action",
                    "agent",
                    "priority",
                    "endpoint",
                    "reason",
                    "scope",
                    "expected_start",
                ]
                .map(|name| field(call, name))
                .to_vec()
            }),
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// What one action waits for, or how it ended.
pub(crate) async fn why(place: &Place, action: &str, as_json: bool) -> anyhow::Result<ExitCode> {
    let client = Client::new(place)?;
    let action = client
        .get(&format!("/api/v1/actions/{}", encode(action)))
        .await?;
    if as_json {
        output::json(&action);
        return Ok(ExitCode::SUCCESS);
    }
    for name in [
        "action",
        "state",
        "agent",
        "task",
        "priority",
        "class",
        "account",
        "endpoint",
        "attempts",
        "waited_seconds",
        "reason",
        "scope",
        "position",
        "expected_start",
        "code",
        "status",
        "operation_id",
        "escalation",
        "task_spent",
    ] {
        if action[name] != Value::Null {
            show(name, &field(&action, name));
        }
    }
    // How it ended, in a sentence: a code alone explains nothing.
    let terminal = &action["terminal"];
    for name in ["cause", "next"] {
        if terminal[name] != Value::Null {
            show(name, &field(terminal, name));
        }
    }
    if let Some(document) = terminal["document"].as_str() {
        let code = document.rsplit('/').next().unwrap_or(document);
        show("read more", &format!("rategov explain {code}"));
    }
    let id = field(&action, "action");
    show("history", &format!("rategov audit show --action {id}"));
    Ok(ExitCode::SUCCESS)
}

fn show(name: &str, value: &str) {
    output::line(&format!("{name:<16} {}", output::printable(value)));
}

/// A path segment of whatever was typed.
pub(crate) fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        })
        .collect()
}
