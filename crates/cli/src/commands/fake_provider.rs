//! `fake-provider`: a controllable API with a ledger of its own.

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use rategov_sim::fake_provider::{self, Options};
use rategov_sim::provider::config::Config;
use rategov_sim::provider::draw::Seed;

use crate::args::FakeProvider;
use crate::output;

/// Runs until it is stopped.
pub(crate) async fn run(args: FakeProvider) -> anyhow::Result<ExitCode> {
    let quotas = match args.quota.as_str() {
        "none" => Vec::new(),
        rules => rules
            .split(';')
            .map(|rule| {
                rule.trim()
                    .parse()
                    .map_err(|error| anyhow!("--quota: {error}"))
            })
            .collect::<anyhow::Result<Vec<_>>>()?,
    };
    let config = Config {
        seed: Seed(args.seed),
        quotas,
        service: args
            .latency
            .parse()
            .map_err(|error| anyhow!("--latency: {error}"))?,
        limit_fields: args
            .headers
            .parse()
            .map_err(|error| anyhow!("--headers: {error}"))?,
        length: args
            .answers
            .parse()
            .map_err(|error| anyhow!("--answers: {error}"))?,
        cached_permille: args.cached * 10,
        ..Config::default()
    };
    let control = args
        .control
        .unwrap_or_else(|| SocketAddr::new(args.listen.ip(), 0));
    let options = Options {
        listen: args.listen,
        control: Some(control),
        ..Options::new(config)
    };
    let mut running = fake_provider::serve(options)
        .await
        .context("the provider can't start")?;
    output::line(&format!("provider http://{}", running.addr));
    if let Some(control) = running.control_addr {
        output::line(&format!("control  http://{control}/__control/ledger"));
    }
    tokio::select! {
        () = running.ended() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    running.shutdown().await;
    Ok(ExitCode::SUCCESS)
}
