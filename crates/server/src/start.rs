//! From settings to a running governor, and back to a stopped one.
//!
//! Order of a start: configuration and secrets, the store (whose lock refuses a
//! second governor on the same folder), the journal's first record, the accounts
//! that a restart found, and last the listeners. Nothing listens before all of it
//! is there; a mistake in the configuration starts nothing at all.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rategov_core::event::Event;
use rategov_core::tasks::TaskBook;
use rategov_store::Store;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::operator::OperatorDoor;
use crate::auth::operator_token::{OperatorToken, OperatorTokenError};
use crate::auth::pass_through::IdentityKey;
use crate::auth::run_tokens::RunTokens;
use crate::config::mistake::Mistakes;
use crate::config::secret::{Keyring, ProcessEnvironment};
use crate::config::settings::{Listen, Settings, SpoolLimits};
use crate::config::{self, Loaded};
use crate::driver::{ACCOUNTS_MAX, Clock, Driver, NotDurable};
use crate::gateway::policy::{Policy, PolicyError, duration};
use crate::gateway::pool::PoolLimits;
use crate::gateway::serve::{Gateway, Shared};
use crate::gateway::spool::SpoolBudget;
use crate::gateway::tls::{TlsError, TlsOptions};
use crate::gateway::upstream::Upstream;
use crate::listeners::{serve_agents, serve_operators};
use crate::operators::Operators;
use crate::{fail, key_file};

/// How long open calls may go on when the governor stops.
const STOP_TIME_MAX: Duration = Duration::from_secs(20);
/// How long the last answers then have to reach their callers.
const LAST_WORDS_MAX: Duration = Duration::from_secs(2);

/// What a start is told beside the configuration.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The configuration's file; without one, presets and pass-through keys.
    pub config: Option<PathBuf>,
    /// The configuration's text, instead of a file's.
    pub config_text: Option<String>,
    /// The data folder, instead of the configured one.
    pub data_folder: Option<PathBuf>,
    /// Where agents call, instead of the configured address.
    pub agents: Option<SocketAddr>,
    /// Where operators call, instead of the configured address.
    pub operators: Option<SocketAddr>,
    /// A further file of certificate authorities that providers may use.
    pub extra_authorities: Option<PathBuf>,
    /// The clocks, instead of the machine's.
    pub clock: Option<Clock>,
    /// Accounts in hand beyond which a new credential is refused, instead of
    /// [`ACCOUNTS_MAX`].
    pub accounts_max: Option<usize>,
}

/// Why nothing started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration has mistakes.
    #[error(
        "{0}\nhint: nothing was started; `rategov policy check FILE` names every mistake, and examples/rategov.yaml explains every key"
    )]
    Config(Mistakes),
    /// A provider's base URL can't be used.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// What should be the data folder is a file.
    #[error(
        "the data folder {} is a file\nhint: name a folder with --data, or `store: sqlite:FOLDER` in the configuration; it is made if absent",
        .0.display()
    )]
    NoFolder(PathBuf),
    /// The data folder can't be used.
    #[error("{0}\nhint: {hint}", hint = .0.hint())]
    Store(rategov_store::Error),
    /// The operator's token can't be made or read.
    #[error(transparent)]
    Token(#[from] OperatorTokenError),
    /// A key of this installation can't be made or read.
    #[error("the key file {path} can't be used: {cause}", path = .0.display(), cause = .1)]
    Key(PathBuf, io::Error),
    /// The certificate authorities can't be read.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A test arms a fail point that does not exist.
    #[error(transparent)]
    FailPoint(#[from] fail::Unknown),
    /// An address can't be listened on.
    #[error(
        "{0} can't be listened on: {1}\nhint: another program may listen there; `listen` in the configuration names another address"
    )]
    Listen(SocketAddr, io::Error),
}

/// A running governor.
pub struct Running {
    /// Where agents call.
    pub agents: SocketAddr,
    /// Where operators call.
    pub operators: SocketAddr,
    /// The operator's token's file.
    pub token_file: PathBuf,
    /// The operator's token.
    pub token: OperatorToken,
    /// What is worth knowing of the configuration.
    pub notices: Vec<String>,
    gateway: Gateway,
    store: Store,
    stop: CancellationToken,
    connections: TaskTracker,
    reload: Reload,
}

/// Starts a governor.
///
/// # Errors
/// [`StartError`]; nothing goes on then.
pub async fn start(options: Options) -> Result<Running, StartError> {
    fail::check()?;
    let runs = Arc::new(RunTokens::default());
    let mut policy = load(&options, &runs)?;
    let written = Fixed::of(&policy.settings);
    if let Some(agents) = options.agents {
        policy.settings.listen.agents = agents;
    }
    if let Some(operators) = options.operators {
        policy.settings.listen.operators = operators;
    }
    let folder = options
        .data_folder
        .clone()
        .unwrap_or_else(|| policy.settings.data_folder.clone());
    if folder.is_file() {
        return Err(StartError::NoFolder(folder));
    }
    let clock = options.clock.clone().unwrap_or_default();
    let (store, recovered) =
        Store::open(&folder, &rategov_store::Options::default(), &clock.paired())
            .map_err(StartError::Store)?;
    let token = OperatorToken::open_or_create(&folder)?;
    let key = |name| {
        let path = folder.join(name);
        key_file::open_or_make(&path).map_err(|cause| StartError::Key(path, cause))
    };
    let identity = key("identity.key")?;
    let fingerprints = key("fingerprint.key")?;

    let agents = bind(policy.settings.listen.agents).await?;
    let operators = bind(policy.settings.listen.operators).await?;
    // Port 0 means any: what was got is what variables and links must name.
    policy.settings.listen.agents = agents.1;
    policy.settings.listen.operators = operators.1;

    let upstream = Upstream::new(
        PoolLimits::default(),
        &TlsOptions {
            extra_ca: options.extra_authorities.clone(),
        },
    )?;
    let tasks = TaskBook::restore(policy.settings.task, recovered.tasks);
    let driver = Driver::new(
        clock.clone(),
        store.clone(),
        tasks,
        options.accounts_max.unwrap_or(ACCOUNTS_MAX),
    );
    let spool = policy.settings.spool;
    let policy = Arc::new(policy);
    let gateway = Gateway::new(Shared::new(
        driver.clone(),
        Arc::new(upstream),
        Arc::clone(&policy),
        SpoolBudget::new(spool.memory_bytes, spool.disk_bytes),
        IdentityKey::new(identity),
        fingerprints,
        std::env::temp_dir(),
    ));
    driver.connect(Arc::new(gateway.clone()));
    driver.listen_to_journal();
    let started = Event::Started {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        policy_digest: policy.digest,
    };
    // What it lets out is recorded behind it, so nobody need wait for it alone.
    drop(driver.note(started, 1));
    fail::point(fail::RESTART_BEFORE_TAKE_UP);
    driver.take_up(recovered.accounts);
    fail::point(fail::RESTART_AFTER_TAKE_UP);

    let reload = reloader(&options, &runs, &gateway, written);
    let door = OperatorDoor::new(operators.1, &policy.settings.listen.operator_hosts);
    let own = OperatorToken::open_or_create(&folder)?;
    let api = Operators::new(gateway.clone(), door, own, Arc::clone(&reload));

    let stop = CancellationToken::new();
    let connections = TaskTracker::new();
    serve_agents(agents.0, gateway.clone(), &stop, &connections);
    serve_operators(operators.0, api, &stop, &connections);
    Ok(Running {
        agents: agents.1,
        operators: operators.1,
        token_file: token.path().to_owned(),
        token,
        notices: policy.notices.clone(),
        gateway,
        store,
        stop,
        connections,
        reload,
    })
}

impl Running {
    /// Puts the configuration of the file in force.
    ///
    /// # Errors
    /// [`NotReloaded`]; the old configuration stays in force.
    pub async fn reload(&self) -> Result<Vec<String>, NotReloaded> {
        (self.reload)().await
    }

    /// The gateway.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Takes no new calls, lets open ones end for a while, and closes the store.
    pub async fn shut_down(self) {
        self.stop.cancel();
        self.connections.close();
        // A write whose caller has left goes on as well.
        let driver = &self.gateway.0.driver;
        let open = async { tokio::join!(self.connections.wait(), driver.writes_settled()) };
        if tokio::time::timeout(STOP_TIME_MAX, open).await.is_err() {
            tracing::warn!(
                "calls were still open; writes among them are settled at the next start"
            );
            driver.end_stop();
            let _ = tokio::time::timeout(LAST_WORDS_MAX, self.connections.wait()).await;
        }
        let store = self.store.clone();
        let closed = tokio::task::spawn_blocking(move || store.close()).await;
        if let Ok(Err(cause)) = closed {
            tracing::error!(%cause, "the store was not closed cleanly");
        }
    }
}

/// Reads, checks and opens a configuration.
fn load(options: &Options, runs: &Arc<RunTokens>) -> Result<Policy, StartError> {
    // Read once: the digest that is recorded is the one of what is in force.
    let (file, text) = match (&options.config_text, &options.config) {
        (Some(text), _) => ("configuration".to_owned(), Some(text.clone())),
        (None, Some(path)) => {
            let text = config::text_of(path).map_err(StartError::Config)?;
            (path.display().to_string(), Some(text))
        }
        (None, None) => ("built-in".to_owned(), None),
    };
    let loaded = match &text {
        Some(text) => config::read(&file, text).map_err(StartError::Config)?,
        None => Loaded {
            settings: Settings::default(),
            notices: Vec::new(),
        },
    };
    let opened = Keyring::open(
        &file,
        &loaded.settings,
        &ProcessEnvironment::beside(options.config.as_deref()),
    )
    .map_err(StartError::Config)?;
    let notices = loaded
        .notices
        .iter()
        .chain(&opened.notices)
        .map(ToString::to_string)
        .collect();
    let digest = Sha256::digest(text.unwrap_or_default().as_bytes()).into();
    let keyring = Arc::new(opened.keyring);
    Ok(Policy::new(
        loaded.settings,
        keyring,
        Arc::clone(runs),
        digest,
        notices,
    )?)
}

/// Puts the configuration of its file in force.
pub type Reload = Arc<dyn Fn() -> Reloading + Send + Sync>;

/// Under way; gives what is worth knowing of what is in force then.
pub type Reloading = Pin<Box<dyn Future<Output = Result<Vec<String>, NotReloaded>> + Send>>;

/// Why the old configuration stays in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReloaded {
    /// The new one has mistakes, in words.
    #[error("{0}")]
    Mistakes(String),
    /// The change can't be recorded.
    #[error("the change of policy was not put in force: {0}")]
    NotDurable(#[from] NotDurable),
}

/// What only a start reads.
#[derive(Clone, PartialEq)]
struct Fixed {
    listen: Listen,
    data_folder: PathBuf,
    spool: SpoolLimits,
}

impl Fixed {
    fn of(settings: &Settings) -> Fixed {
        Fixed {
            listen: settings.listen.clone(),
            data_folder: settings.data_folder.clone(),
            spool: settings.spool,
        }
    }

    /// One notice for each key that was changed to no effect.
    fn notices(&self, now: &Fixed) -> Vec<String> {
        let keys = [
            ("listen", self.listen != now.listen),
            ("store", self.data_folder != now.data_folder),
            ("spool", self.spool != now.spool),
        ];
        let changed = keys.into_iter().filter(|(_, changed)| *changed);
        changed
            .map(|(key, _)| format!("`{key}` has changed; it takes a restart to put that in force"))
            .collect()
    }
}

/// `started` is what was written when the governor started.
fn reloader(options: &Options, runs: &Arc<RunTokens>, gateway: &Gateway, started: Fixed) -> Reload {
    let (options, runs, gateway) = (options.clone(), Arc::clone(runs), gateway.clone());
    // The number of the next one; locked, one reload at a time is put in force.
    let next = Arc::new(tokio::sync::Mutex::new(2));
    let started = Arc::new(started);
    Arc::new(move || {
        let (options, runs, gateway) = (options.clone(), Arc::clone(&runs), gateway.clone());
        let (next, started) = (Arc::clone(&next), Arc::clone(&started));
        Box::pin(async move {
            let mut generation = next.lock().await;
            let mut policy =
                load(&options, &runs).map_err(|error| NotReloaded::Mistakes(error.to_string()))?;
            let mut notices = policy.notices.clone();
            notices.extend(started.notices(&Fixed::of(&policy.settings)));
            policy.notices.clone_from(&notices);
            let old = gateway.policy();
            policy.settings.listen = old.settings.listen.clone();
            policy
                .settings
                .data_folder
                .clone_from(&old.settings.data_folder);
            policy.settings.spool = old.settings.spool;
            // As with everything else: first its record, then its effect.
            let policy_digest = policy.digest;
            let event = Event::PolicyChanged { policy_digest };
            let receipt = gateway.0.driver.note(event, *generation);
            *generation += 1;
            receipt.durable().await?;
            gateway.set_policy(Arc::new(policy));
            gateway.0.driver.policy_changed();
            Ok(notices)
        })
    })
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let listener = TcpListener::bind(address)
        .await
        .map_err(|cause| StartError::Listen(address, cause))?;
    let bound = listener
        .local_addr()
        .map_err(|cause| StartError::Listen(address, cause))?;
    Ok((listener, bound))
}

/// A setting's span in the runtime's form, for those who build listeners.
pub fn span(span: rategov_core::time::Span) -> Duration {
    duration(span)
}
