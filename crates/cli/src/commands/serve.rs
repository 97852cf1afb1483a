//! `serve`: run the governor until it is told to stop.
//!
//! What it says goes to standard error: for people as plain lines, with `--log json` as
//! one JSON object a line from the first to the last, whatever it is about. Logs are
//! kept and shipped, so there the operator's token is named by its file only.

use std::process::ExitCode;

use anyhow::Context;
use rategov_server::start::{self, Options, Running};
use secrecy::ExposeSecret;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::args::{LogForm, Place, Serve};
use crate::output;

/// Runs until SIGTERM or SIGINT; SIGHUP reads the configuration again.
pub(crate) async fn run(place: &Place, serve: Serve) -> anyhow::Result<ExitCode> {
    let form = serve.log;
    log_to_stderr(form);
    let options = Options {
        config: serve.config,
        data_folder: place.data.clone(),
        agents: serve.agents,
        operators: serve.operators_listen,
        extra_authorities: std::env::var_os("RATEGOV_EXTRA_CA").map(Into::into),
        ..Options::default()
    };
    let running = match (start::start(options).await, form) {
        (Ok(running), _) => running,
        (Err(cause), LogForm::Text) => return Err(cause.into()),
        (Err(cause), LogForm::Json) => {
            tracing::error!(%cause, "the governor can't start");
            return Ok(ExitCode::FAILURE);
        }
    };
    // Before anybody is told that it runs: who sends a signal then is heard.
    let mut terminate = signal(SignalKind::terminate()).context("signals can't be heard")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("signals can't be heard")?;
    let mut hangup = signal(SignalKind::hangup()).context("signals can't be heard")?;
    for notice in &running.notices {
        warn(form, notice);
    }
    match form {
        LogForm::Text => greet(&running),
        LogForm::Json => tracing::info!(
            agents = %running.agents,
            operators = %running.operators,
            token_file = %running.token_file.display(),
            "the governor runs"
        ),
    }
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => match running.reload().await {
                Ok(notices) => {
                    tracing::info!("the configuration was read again");
                    for notice in notices {
                        warn(form, &notice);
                    }
                }
                Err(mistakes) => match form {
                    LogForm::Text => {
                        output::note(&format!("the old configuration stays in force:\n{mistakes}"));
                    }
                    LogForm::Json => {
                        tracing::error!(%mistakes, "the old configuration stays in force");
                    }
                },
            },
        }
    }
    match form {
        LogForm::Text => output::note("stopping: open calls may end"),
        LogForm::Json => tracing::info!("stopping: open calls may end"),
    }
    running.shut_down().await;
    Ok(ExitCode::SUCCESS)
}

fn warn(form: LogForm, notice: &str) {
    match form {
        LogForm::Text => output::note(&format!("warning: {notice}")),
        LogForm::Json => tracing::warn!("{notice}"),
    }
}

fn greet(running: &Running) {
    output::note(&format!(
        "agents call      http://{}/{{provider}}/…",
        running.agents
    ));
    output::note(&format!(
        "operators log in http://{}/#token={}",
        running.operators,
        running.token.secret().expose_secret()
    ));
    output::note(&format!(
        "the token is in  {}",
        running.token_file.display()
    ));
}

fn log_to_stderr(form: LogForm) {
    let filter = EnvFilter::try_from_env("RATEGOV_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    // A second subscriber (in tests) is no reason to stop.
    let _ = match form {
        LogForm::Text => builder
            .with_ansi(std::env::var_os("NO_COLOR").is_none())
            .try_init(),
        LogForm::Json => builder.json().try_init(),
    };
}
