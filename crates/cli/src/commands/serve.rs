//! `serve`: run the governor until it is told to stop.

use std::process::ExitCode;

use anyhow::Context;
use rategov_server::start::{self, Options};
use secrecy::ExposeSecret;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::args::{LogForm, Place, Serve};
use crate::output;

/// Runs until SIGTERM or SIGINT; SIGHUP reads the configuration again.
pub(crate) async fn run(place: &Place, serve: Serve) -> anyhow::Result<ExitCode> {
    log_to_stderr(serve.log);
    let options = Options {
        config: serve.config,
        data_folder: place.data.clone(),
        agents: serve.agents,
        operators: serve.operators_listen,
        extra_authorities: std::env::var_os("RATEGOV_EXTRA_CA").map(Into::into),
        ..Options::default()
    };
    let running = start::start(options).await?;
    // Before anybody is told that it runs: who sends a signal then is heard.
    let mut terminate = signal(SignalKind::terminate()).context("signals can't be heard")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("signals can't be heard")?;
    let mut hangup = signal(SignalKind::hangup()).context("signals can't be heard")?;
    for notice in &running.notices {
        output::note(&format!("warning: {notice}"));
    }
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
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => match running.reload().await {
                Ok(notices) => {
                    tracing::info!("the configuration was read again");
                    for notice in notices {
                        output::note(&format!("warning: {notice}"));
                    }
                }
                Err(mistakes) => {
                    output::note(&format!("the old configuration stays in force:\n{mistakes}"));
                }
            },
        }
    }
    output::note("stopping: open calls may end");
    running.shut_down().await;
    Ok(ExitCode::SUCCESS)
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
