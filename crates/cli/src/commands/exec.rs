//! `exec`: run a program whose calls are governed, without changing it.
//!
//! The governor makes a run token for the agent, its rank and its task; the
//! known SDKs find it in the base URL that their environment variables name.
//! When the program ends its task is cancelled, so that nothing of it is sent
//! for nobody. The token is a secret of this run: it is printed nowhere.

use std::process::{ExitCode, Stdio};

use anyhow::{Context, anyhow};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{Env, Exec, Place, PriorityArg};
use crate::client::Client;
use crate::output;

/// The end of a program that a signal ended, as shells say it.
const SIGNAL_EXIT_BASE: i32 = 128;

/// A run as the governor made it.
struct Run {
    id: String,
    variables: Vec<(String, String)>,
}

async fn open_run(
    client: &Client,
    agent: &str,
    task: Option<&str>,
    priority: Option<PriorityArg>,
) -> anyhow::Result<Run> {
    let body = json!({
        "agent": agent,
        "task": task,
        "priority": priority.map(PriorityArg::word),
    });
    let run = client.post("/api/v1/runs", &body).await?;
    let id = run["id"]
        .as_str()
        .ok_or_else(|| anyhow!("the governor made no run"))?
        .to_owned();
    Ok(Run {
        id,
        variables: variables(&run),
    })
}

fn variables(answer: &Value) -> Vec<(String, String)> {
    answer["variables"]
        .as_object()
        .map(|object| {
            object
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .filter(|(name, _)| !is_own_key(name))
                .collect()
        })
        .unwrap_or_default()
}

/// A key that is set stays: pass-through needs it. One that is missing is filled in,
/// since SDKs refuse to start without any.
fn is_own_key(name: &str) -> bool {
    name.ends_with("_KEY") && std::env::var_os(name).is_some()
}

/// Runs the program and passes its exit code on.
pub(crate) async fn run(place: &Place, exec: Exec) -> anyhow::Result<ExitCode> {
    let client = Client::new(place)?;
    let run = open_run(&client, &exec.agent, exec.task.as_deref(), exec.priority).await?;
    let (program, arguments) = exec
        .command
        .split_first()
        .ok_or_else(|| anyhow!("no program is named"))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::inherit());
    command.envs(run.variables.iter().cloned());
    let status = match command.spawn() {
        Ok(child) => wait(child).await.context("the program can't be waited for"),
        Err(cause) => Err(anyhow!("{program} can't be started: {cause}")),
    };
    // Whatever became of the program, nothing of it is sent any more.
    let closed = client.delete(&format!("/api/v1/runs/{}", run.id)).await;
    let summary = match closed {
        Ok(summary) => summary,
        Err(error) => {
            output::note(&format!("rategov: the run could not be closed: {error:#}"));
            Value::Null
        }
    };
    let status = status?;
    let code = status.code().unwrap_or_else(|| {
        use std::os::unix::process::ExitStatusExt;
        SIGNAL_EXIT_BASE + status.signal().unwrap_or(0)
    });
    if code != 0
        && let Some(cause) = summary["last_failure"].as_str()
    {
        output::note(&format!("rategov: the last call that failed: {cause}"));
    }
    Ok(ExitCode::from(
        u8::try_from(code.clamp(0, 255)).unwrap_or(1),
    ))
}

/// Waits for the program; signals that reach us reach it too.
async fn wait(mut child: tokio::process::Child) -> std::io::Result<std::process::ExitStatus> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    loop {
        tokio::select! {
            status = child.wait() => return status,
            // A terminal sends its interrupt to the whole group: the child has it already.
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {
                if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok())
                    && let Some(pid) = rustix::process::Pid::from_raw(pid)
                {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
                }
            }
        }
    }
}

/// `env`: the same variables, for a shell to take over.
pub(crate) async fn print_environment(
    place: &Place,
    env: Env,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let client = Client::new(place)?;
    let variables = match &env.agent {
        Some(agent) => {
            open_run(&client, agent, env.task.as_deref(), env.priority)
                .await?
                .variables
        }
        None => variables(&client.get("/api/v1/variables").await?),
    };
    if as_json {
        output::json(&json!(
            variables
                .into_iter()
                .collect::<std::collections::BTreeMap<_, _>>()
        ));
    } else {
        for (name, value) in variables {
            output::line(&format!("export {name}='{value}'"));
        }
    }
    Ok(ExitCode::SUCCESS)
}
