//! The configuration as meant: checked values that the rest of the server uses.
//!
//! Nothing here can contradict itself: `config::check` is the only maker, beside
//! [`Settings::default`], which is what holds with no configuration at all and is
//! never stricter than a provider. Secrets are not here, only where they are
//! ([`SecretRef`]); [`super::secret`] opens them when the server starts.

mod account;
mod provider;

pub use account::*;
pub use provider::*;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;

use rategov_core::id::{Account, Agent, Provider};
use rategov_core::policy::{AgentLimits, ClassTable, TaskLimits};
use rategov_core::time::Span;
use rategov_core::word::{Class, Priority};

/// Everything that was configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where the governor listens.
    pub listen: Listen,
    /// The folder of the embedded store; relative to the working directory.
    pub data_folder: PathBuf,
    /// Longest time that a caller is held; zero refuses instead of waiting.
    pub hold: Span,
    /// Space for bodies that are kept for a repeat.
    pub spool: SpoolLimits,
    /// Request bodies of more bytes are streamed once and never repeated.
    pub max_replay_body: u64,
    /// A caller that reads nothing for this long loses its slot.
    pub client_stall: Span,
    /// The outside APIs.
    pub providers: BTreeMap<Provider, ProviderSettings>,
    /// Who may call; empty means everybody who reaches the agents' listener.
    pub agents: BTreeMap<Agent, AgentSettings>,
    /// The limits of every class.
    pub classes: ClassTable,
    /// What one task may cost in all.
    pub task: TaskLimits,
    /// Questions to a person.
    pub escalation: EscalationSettings,
}

/// The two listeners, never the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// For agents.
    pub agents: SocketAddr,
    /// For operators.
    pub operators: SocketAddr,
    /// Further names under which operators reach their listener, lower case.
    pub operator_hosts: BTreeSet<String>,
}

/// Space for bodies, over all calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpoolLimits {
    /// Bytes in memory.
    pub memory_bytes: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
}

/// Questions to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EscalationSettings {
    /// An undecided one ends after this.
    pub expires: Span,
    /// Whether *send a new operation* may be chosen for an uncertain write.
    pub send_new_operation: SendNewOperation,
}

/// Whether a person may risk a second effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendNewOperation {
    /// It is offered, and asks for a typed confirmation.
    Offered,
    /// It isn't offered.
    Withheld,
}

/// One agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSettings {
    /// What the core needs to know of it.
    pub limits: AgentLimits,
    /// Where its token is; `None` for an agent that only `rategov exec` starts.
    pub token: Option<SecretRef>,
    /// What it may do.
    pub rights: Rights,
}

/// What an agent may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// The accounts it may use, in the order of the file; `None` for all.
    pub accounts: Option<Vec<AccountRight>>,
    /// The request classes it may use; `None` for all.
    pub classes: Option<Vec<Class>>,
}

/// A right to accounts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccountRight {
    /// Every account of a provider, those by pass-through included.
    Provider(Provider),
    /// One account.
    Account(Account),
}

impl Rights {
    /// Whether an account of a provider may be used.
    pub fn allow_account(&self, provider: &Provider, account: &Account) -> bool {
        self.accounts.as_ref().is_none_or(|rights| {
            rights.iter().any(|right| match right {
                AccountRight::Provider(own) => own == provider,
                AccountRight::Account(own) => own == account,
            })
        })
    }

    /// Whether any account of a provider may be used, declared or by pass-through.
    pub fn allow_some_account(&self, provider: &Provider) -> bool {
        self.accounts.as_ref().is_none_or(|rights| {
            rights.iter().any(|right| match right {
                AccountRight::Provider(own) => own == provider,
                AccountRight::Account(own) => {
                    own.as_str().split('/').next() == Some(provider.as_str())
                }
            })
        })
    }

    /// Whether a request class may be used.
    pub fn allow_class(&self, class: Class) -> bool {
        self.classes
            .as_ref()
            .is_none_or(|classes| classes.contains(&class))
    }
}

impl Settings {
    /// The limits of an agent that isn't configured, under a ceiling.
    pub fn undeclared_agent(agent: Agent, ceiling: Priority) -> AgentLimits {
        AgentLimits {
            agent,
            ceiling,
            weight: 1,
            max_concurrent: None,
        }
    }
}
