//! What was typed. Parsing does nothing else.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

/// One place through which many agents' calls to shared, limited APIs pass.
#[derive(Debug, Parser)]
#[command(name = "rategov", version, max_term_width = 100)]
pub(crate) struct Args {
    /// Print data as JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Where to find the governor and its data.
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where a governor is.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Place {
    /// The data folder: journal, state, the operator's token.
    #[arg(long, global = true, env = "RATEGOV_DATA", value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    /// The operators' address of a running governor.
    #[arg(
        long,
        global = true,
        env = "RATEGOV_OPERATORS",
        value_name = "ADDRESS",
        default_value = "127.0.0.1:7879"
    )]
    pub(crate) operators: String,
}

impl Place {
    /// The data folder, by default the one that `serve` makes.
    pub(crate) fn data_folder(&self) -> PathBuf {
        self.data
            .clone()
            .unwrap_or_else(|| PathBuf::from("rategov-data"))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the governor.
    Serve(Serve),
    /// Run a program with its calls governed.
    Exec(Exec),
    /// Print the variables that make known SDKs use the governor.
    Env(Env),
    /// Show accounts, quotas and queues.
    Status,
    /// Say what an action waits for or how it ended.
    Why {
        /// The action's id or idempotency key.
        action: String,
    },
    /// Tasks: list and cancel.
    #[command(subcommand)]
    Tasks(Tasks),
    /// Questions to a person: list, show, decide.
    #[command(subcommand)]
    Escalations(Escalations),
    /// The journal: show, verify, export.
    #[command(subcommand)]
    Audit(Audit),
    /// The configuration: check.
    #[command(subcommand)]
    Policy(Policy),
    /// What is known of providers: list, show; and how their answers are understood: test.
    #[command(subcommand)]
    Providers(Providers),
    /// Nine agents, one quota: on their own, and through the governor.
    Demo(Demo),
    /// A controllable API with a ledger of its own.
    FakeProvider(FakeProvider),
    /// Explain an error code.
    Explain {
        /// `RG1003`, or the word `hold_exceeded`.
        code: String,
    },
    /// Print a completion script for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Serve {
    /// The configuration; without one, presets and pass-through keys.
    #[arg(long, short, env = "RATEGOV_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where agents call, instead of the configured address.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) agents: Option<SocketAddr>,
    /// Where operators call, instead of the configured address.
    #[arg(long = "operators-listen", value_name = "ADDRESS")]
    pub(crate) operators_listen: Option<SocketAddr>,
    /// How logs are written.
    #[arg(long, value_enum, default_value_t = LogForm::Text)]
    pub(crate) log: LogForm,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogForm {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Exec {
    /// Who calls.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: String,
    /// The goal on whose behalf it calls; by default one of its own.
    #[arg(long, value_name = "NAME")]
    pub(crate) task: Option<String>,
    /// Rank of its calls.
    #[arg(long, value_enum)]
    pub(crate) priority: Option<PriorityArg>,
    /// The program and its arguments.
    #[arg(required = true, last = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PriorityArg {
    /// A person waits for it.
    Interactive,
    /// Everything that says nothing.
    Normal,
    /// Nobody waits for it.
    Background,
}

impl PriorityArg {
    /// The word that the governor knows.
    pub(crate) fn word(self) -> &'static str {
        match self {
            PriorityArg::Interactive => "interactive",
            PriorityArg::Normal => "normal",
            PriorityArg::Background => "background",
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Env {
    /// Who calls; a run token is made for it. Without one, plain addresses.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// The goal on whose behalf it calls.
    #[arg(long, value_name = "NAME", requires = "agent")]
    pub(crate) task: Option<String>,
    /// Rank of its calls.
    #[arg(long, value_enum, requires = "agent")]
    pub(crate) priority: Option<PriorityArg>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Tasks {
    /// Every task and what it has used.
    List,
    /// End a task: nothing of it ever sends again.
    Cancel {
        /// The task.
        task: String,
        /// Its agent; needed where several agents have a task of this name.
        #[arg(long)]
        agent: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Escalations {
    /// Questions that are open.
    List {
        /// Also those that were answered.
        #[arg(long)]
        all: bool,
    },
    /// One question with its dossier.
    Show {
        /// The question's id.
        escalation: String,
    },
    /// Answer a question.
    Decide {
        /// The question's id.
        escalation: String,
        /// The answer, one of those that `show` offers.
        choice: String,
        /// What you found out.
        #[arg(long)]
        note: Option<String>,
        /// Typed confirmation for an answer that can cause a second effect; `show` says which text.
        #[arg(long)]
        confirm: Option<String>,
        /// The version that you saw, as `show` prints it; the answer is refused if the
        /// action has changed since. Without it, what is shown now is decided on.
        #[arg(long, value_name = "N")]
        version: Option<u32>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// Print the journal in its compact text form.
    Show(AuditShow),
    /// Walk the hash chain and name the first bad record. Exit code 1 if there is one, 2 if
    /// the last record is not whole, 3 if there is nothing to verify.
    Verify {
        /// An exported file, instead of the data folder.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Print the chain as JSON lines that `verify` reads.
    Export,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AuditShow {
    /// Only this action, by id or key.
    #[arg(long)]
    pub(crate) action: Option<String>,
    /// Only this task.
    #[arg(long)]
    pub(crate) task: Option<String>,
    /// Only this agent.
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Only this account.
    #[arg(long)]
    pub(crate) account: Option<String>,
    /// At most this many records, the newest.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) limit: usize,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    /// Name every mistake of a configuration with its line. Exit code 1 if there is one.
    Check {
        /// The file.
        file: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Providers {
    /// Every provider that is known.
    List {
        /// A configuration whose providers count as well.
        #[arg(long, short, env = "RATEGOV_CONFIG", value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// All that is known of a provider, each fact with its source and the day it was read.
    Show {
        /// Its name.
        name: String,
        /// A configuration that stands over what is built in.
        #[arg(long, short, env = "RATEGOV_CONFIG", value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Read recorded answers and say what each of them means. Exit code 1 if the file says
    /// otherwise.
    Test {
        /// A JSON list of answers, each with `provider`, `case`, `status`, `headers` and `body`,
        /// and with `meaning` to be compared; `-` for standard input.
        file: PathBuf,
        /// A configuration whose providers count as well.
        #[arg(long, short, env = "RATEGOV_CONFIG", value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Demo {
    /// Only the first three runs.
    #[arg(long)]
    pub(crate) quick: bool,
    /// How many agents; a third of them, at least one, is interactive.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(2..=200))]
    pub(crate) agents: u32,
    /// Calls of each background agent.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) calls: u32,
    /// Where the plot is written.
    #[arg(long, default_value = "rategov-demo.svg", value_name = "FILE")]
    pub(crate) plot: PathBuf,
    /// Seed of arrivals and service times.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct FakeProvider {
    /// Where it listens.
    #[arg(long, default_value = "127.0.0.1:9100", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// How it counts: `sliding:60/10s`, `fixed:60/10s`, `counter:60/10s`,
    /// `fixed:200/day`, `bucket:10+6/s`, `concurrent:4`; after it what else is so, such as
    /// `,count-refusals`, `,per=model`, `,penalty=30s`, `,untold`, or for tokens
    /// `,of=tokens,charge=most-then-refund`; several with `;` between them; `none` for no
    /// quota.
    #[arg(long, default_value = "sliding:60/10s", value_name = "QUOTA")]
    pub(crate) quota: String,
    /// Time to serve a call, `200ms-600ms` or one value.
    #[arg(long, default_value = "0ms", value_name = "TIME")]
    pub(crate) latency: String,
    /// Which rate-limit headers it sends: native (by endpoint), none, retry-after-only,
    /// x-ratelimit, epoch, openai, azure, anthropic, ietf.
    #[arg(long, default_value = "native", value_name = "FORM")]
    pub(crate) headers: String,
    /// How long a model's answers are: `short`, or a median in tokens and a deviation in
    /// percent of the mean, `400~300`.
    #[arg(long, default_value = "short", value_name = "LENGTH")]
    pub(crate) answers: String,
    /// How much of a model call's input counts as cached, in percent.
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(0..=100))]
    pub(crate) cached: u64,
    /// Where its control interface listens: script, ledger, quota. By default a free port.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) control: Option<SocketAddr>,
    /// Seed of its choices.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}
