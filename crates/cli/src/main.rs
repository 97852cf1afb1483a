//! The one binary of Rate Governor: `serve`, and everything that a client does.
//!
//! What was typed is in [`args`]; what it does is one file a command. Data goes
//! to standard output, everything else to standard error. Exit codes: 0 done,
//! 1 it could not be done, 2 the command line is wrong, 3 the governor can't be
//! reached; a command with more codes documents them in its help.

mod args;
mod client;
mod commands;
mod output;

use std::process::ExitCode;

use clap::Parser;

/// A call makes and drops some hundreds of small values, on two threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(cause) => {
            eprintln!("rategov: the runtime can't start: {cause}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(commands::run(args)) {
        Ok(code) => code,
        Err(error) => {
            output::complain(&error);
            if error.downcast_ref::<client::Unreachable>().is_some() {
                ExitCode::from(3)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}
