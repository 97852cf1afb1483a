//! Who calls: a proof value that only this module makes.
//!
//! | agents configured | the path has a run token | who it is |
//! |---|---|---|
//! | no | no | `Rategov-Agent`, else `default`: everybody who reaches the listener, but no web page |
//! | no | yes | the run's agent |
//! | yes | no | the agent whose token is in `Authorization: Bearer`, `x-api-key`, `x-goog-api-key` or `api-key` |
//! | yes | yes | the run's agent |
//!
//! An agent's token is never taken for a credential: a caller that proves itself
//! with a header can't have that header forwarded, and a run's caller can't either
//! if what it carries is an agent's token. Comparisons are by SHA-256 digest, in
//! constant time.

pub(crate) mod browser;
pub mod headers_in;
pub mod operator;
pub mod operator_token;
pub mod pass_through;
pub mod run_tokens;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{HeaderMap, header};
use rategov_core::id::{Agent, Task};
use rategov_core::policy::AgentLimits;
use rategov_core::word::Priority;
use secrecy::SecretString;

use crate::config::secret::Keyring;
use crate::config::settings::{AgentSettings, Rights, Settings};
use headers_in::Asked;
use run_tokens::{Run, RunId, RunRefusal, RunRequest, RunTokens};

/// The name of callers that say nothing about themselves.
pub const DEFAULT_AGENT: &str = "default";

/// A caller, proved. Whatever acts for a caller takes this value, and only
/// [`Agents::identify`] makes one.
#[derive(Clone, Debug, PartialEq)]
pub struct Caller {
    limits: AgentLimits,
    usual: Priority,
    rights: Rights,
    task: Option<Task>,
    authority: Authority,
    own_credential: OwnCredential,
}

/// Which authorisation allows what a caller does (R-AUDIT-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// No agents are configured: everybody who reaches the listener may call.
    OpenListener,
    /// The agent's token.
    AgentToken,
    /// A run's token.
    RunToken(RunId),
}

impl Authority {
    /// The word used in records.
    pub const fn word(self) -> &'static str {
        match self {
            Authority::OpenListener => "open_listener",
            Authority::AgentToken => "agent_token",
            Authority::RunToken(_) => "run_token",
        }
    }
}

/// Whether the credential in a caller's headers may be forwarded to a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnCredential {
    /// It is the caller's own.
    Forwardable,
    /// It is (or may be) a token of the governor's.
    Withheld,
}

impl Caller {
    /// What the core needs to know.
    pub fn limits(&self) -> &AgentLimits {
        &self.limits
    }

    /// Who it is.
    pub fn agent(&self) -> &Agent {
        &self.limits.agent
    }

    /// What it may do.
    pub fn rights(&self) -> &Rights {
        &self.rights
    }

    /// The task it works on: the run's, else the one it names.
    pub fn task<'a>(&'a self, asked: &'a Asked) -> Option<&'a Task> {
        self.task.as_ref().or(asked.task.as_ref())
    }

    /// Which authorisation it has.
    pub fn authority(&self) -> Authority {
        self.authority
    }

    /// Whether the credential in its headers may be forwarded.
    pub fn own_credential(&self) -> OwnCredential {
        self.own_credential
    }

    /// The rank of its call: the one it asks for or its usual one, never better
    /// than its ceiling.
    ///
    /// Worked: a `background` agent that asks for `interactive` gets `background`;
    /// an `interactive` one that asks for `normal` gets `normal`.
    pub fn priority(&self, asked: Option<Priority>) -> Priority {
        // A larger rank is a worse one.
        asked.unwrap_or(self.usual).max(self.limits.ceiling)
    }
}

/// Why a caller isn't heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthRefusal {
    /// Agents are configured, and there is no token.
    #[error("an agent's token is needed")]
    TokenMissing,
    /// No agent has this token.
    #[error("this is no agent's token")]
    TokenUnknown,
    /// Two headers hold tokens of two agents.
    #[error("two headers hold the tokens of two agents")]
    TokenAmbiguous,
    /// The run in the path has ended, or never was.
    #[error("this run has ended, or never was")]
    RunUnknown,
    /// No agents are configured, and a web page of elsewhere is calling.
    #[error("the request comes from a web page of another site")]
    ForeignPage,
}

impl AuthRefusal {
    /// The status of the answer: one that no SDK retries.
    pub const fn status(self) -> u16 {
        match self {
            AuthRefusal::ForeignPage => 403,
            _ => 401,
        }
    }

    /// A stable word for programs.
    pub const fn code(self) -> &'static str {
        match self {
            AuthRefusal::TokenMissing => "agent_token_missing",
            AuthRefusal::TokenUnknown => "agent_token_unknown",
            AuthRefusal::TokenAmbiguous => "agent_token_ambiguous",
            AuthRefusal::RunUnknown => "run_unknown",
            AuthRefusal::ForeignPage => "foreign_page",
        }
    }

    /// What to do about it.
    pub const fn hint(self) -> &'static str {
        match self {
            AuthRefusal::TokenMissing => {
                "send the agent's token where your SDK sends its API key, or start the program with `rategov exec --agent NAME`"
            }
            AuthRefusal::TokenUnknown => {
                "the governor holds the provider's key; send the agent's own token instead"
            }
            AuthRefusal::TokenAmbiguous => "send one token",
            AuthRefusal::RunUnknown => "start the program again with `rategov exec`",
            AuthRefusal::ForeignPage => {
                "configure `agents`, and let the page send an agent's token"
            }
        }
    }
}

/// Everybody who may call, under one policy.
#[derive(Debug)]
pub struct Agents {
    configured: BTreeMap<Agent, AgentSettings>,
    keyring: Arc<Keyring>,
    runs: Arc<RunTokens>,
    listener: SocketAddr,
}

impl Agents {
    /// The agents of a policy. The runs outlive it.
    pub fn new(settings: &Settings, keyring: Arc<Keyring>, runs: Arc<RunTokens>) -> Agents {
        Agents {
            configured: settings.agents.clone(),
            keyring,
            runs,
            listener: settings.listen.agents,
        }
    }

    /// Proves who calls. `run` is the run token of the path, if it has one.
    ///
    /// # Errors
    /// See [`AuthRefusal`]. Cost: one hash for each header that could hold a token.
    pub fn identify(
        &self,
        headers: &HeaderMap,
        run: Option<&str>,
        asked: &Asked,
    ) -> Result<Caller, AuthRefusal> {
        if let Some(token) = run {
            let run = self.runs.find(token).ok_or(AuthRefusal::RunUnknown)?;
            return self.run_caller(headers, run);
        }
        if self.configured.is_empty() {
            if browser::is_foreign_page(headers, self.listener) {
                return Err(AuthRefusal::ForeignPage);
            }
            let agent = match &asked.agent {
                Some(agent) => agent.clone(),
                None => Agent::new(DEFAULT_AGENT).expect("`default` is seven letters"),
            };
            return Ok(Caller {
                limits: Settings::undeclared_agent(agent, Priority::Interactive),
                usual: Priority::Normal,
                rights: Rights::default(),
                task: None,
                authority: Authority::OpenListener,
                own_credential: OwnCredential::Forwardable,
            });
        }
        let (mut found, mut presented) = (None, false);
        for token in tokens(headers) {
            presented = true;
            match (found, self.keyring.agent(token)) {
                (Some(first), Some(second)) if first != second => {
                    return Err(AuthRefusal::TokenAmbiguous);
                }
                (None, Some(agent)) => found = Some(agent),
                _ => {}
            }
        }
        let refusal = if presented {
            AuthRefusal::TokenUnknown
        } else {
            AuthRefusal::TokenMissing
        };
        let settings = found
            .and_then(|agent| self.configured.get(agent))
            .ok_or(refusal)?;
        Ok(Caller {
            limits: settings.limits.clone(),
            usual: settings.limits.ceiling,
            rights: settings.rights.clone(),
            task: None,
            authority: Authority::AgentToken,
            own_credential: OwnCredential::Withheld,
        })
    }

    fn run_caller(&self, headers: &HeaderMap, run: Run) -> Result<Caller, AuthRefusal> {
        let (own, rights, usual) = match self.configured.get(&run.agent) {
            Some(it) => (it.limits.clone(), it.rights.clone(), it.limits.ceiling),
            // A reload has taken the agent away: its programs end with it.
            None if !self.configured.is_empty() => return Err(AuthRefusal::RunUnknown),
            None => {
                let open = Settings::undeclared_agent(run.agent.clone(), Priority::Interactive);
                (open, Rights::default(), Priority::Normal)
            }
        };
        let ceiling = run
            .priority
            .map_or(own.ceiling, |asked| asked.max(own.ceiling));
        let is_ours = tokens(headers).any(|token| self.keyring.agent(token).is_some());
        Ok(Caller {
            usual: run.priority.unwrap_or(usual).max(ceiling),
            limits: AgentLimits { ceiling, ..own },
            rights,
            task: run.task,
            authority: Authority::RunToken(run.id),
            own_credential: match is_ours {
                true => OwnCredential::Withheld,
                false => OwnCredential::Forwardable,
            },
        })
    }

    /// Makes a run for `rategov exec`. With agents configured it must be one of them.
    ///
    /// # Errors
    /// See [`RunRefusal`].
    pub fn start_run(&self, request: RunRequest) -> Result<(Run, SecretString), RunRefusal> {
        if !self.configured.is_empty() && !self.configured.contains_key(&request.agent) {
            return Err(RunRefusal::UnknownAgent(request.agent));
        }
        self.runs.start(request)
    }

    /// Ends a run; its token is worth nothing afterwards. `None` if it has ended already.
    pub fn end_run(&self, id: RunId) -> Option<Run> {
        self.runs.end(id)
    }
}

/// What could be a token, in the headers that SDKs use for their keys.
fn tokens(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let authorizations = headers.get_all(header::AUTHORIZATION).iter();
    let bearers = authorizations.filter_map(|value| bearer(value.as_bytes()));
    let keys = ["x-api-key", "x-goog-api-key", "api-key"].into_iter();
    let keys = keys
        .flat_map(|name| headers.get_all(name))
        .map(|value| value.as_bytes());
    bearers.chain(keys.filter(|key| !key.is_empty()))
}

/// The token of `Authorization: Bearer TOKEN`; the scheme's case doesn't matter.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests;
