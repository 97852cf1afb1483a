//! One file a command.

mod audit;
mod demo;
mod escalations;
mod exec;
mod explain;
mod fake_provider;
mod policy;
mod providers;
mod serve;
mod status;
mod tasks;

use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::{Args, Command};

/// Does what was typed.
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (json, place) = (args.json, args.place);
    match args.command {
        Command::Serve(serve) => serve::run(&place, serve).await,
        Command::Exec(exec) => exec::run(&place, exec).await,
        Command::Env(env) => exec::print_environment(&place, env, json).await,
        Command::Status => status::run(&place, json).await,
        Command::Why { action } => status::why(&place, &action, json).await,
        Command::Tasks(tasks) => tasks::run(&place, tasks, json).await,
        Command::Escalations(escalations) => escalations::run(&place, escalations, json).await,
        Command::Audit(audit) => audit::run(&place, audit, json),
        Command::Policy(policy) => policy::run(&policy, json),
        Command::Providers(providers) => providers::run(&providers, json),
        Command::Demo(demo) => demo::run(demo, json).await,
        Command::FakeProvider(fake) => fake_provider::run(fake).await,
        Command::Explain { code } => explain::run(&code),
        Command::Completions { shell } => {
            clap_complete::generate(
                shell,
                &mut Args::command(),
                "rategov",
                &mut std::io::stdout(),
            );
            Ok(ExitCode::SUCCESS)
        }
    }
}
