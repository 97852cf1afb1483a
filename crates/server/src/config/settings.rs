//! The configuration as meant: checked values that the rest of the server uses.
//!
//! Nothing here can contradict itself: [`super::check`] is the only maker, beside
//! [`Settings::default`], which is what holds with no configuration at all and is
//! never stricter than a provider. Secrets are not here, only where they are
//! ([`SecretRef`]); [`super::secret`] opens them when the server starts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;

use http::{HeaderName, HeaderValue};
use rategov_core::id::{Account, Agent, Credential, Endpoint, NameError, Provider, Scope};
use rategov_core::policy::{AccountPolicy, AgentLimits, ClassTable, Profile, Quota, ScopeLimits, TaskLimits};
use rategov_core::time::Span;
use rategov_core::word::{Class, Priority};

use super::mistake::Mark;
use crate::route::EndpointRule;

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

/// An outside API.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderSettings {
    /// Its name, the first segment of gateway paths.
    pub name: Provider,
    /// The preset it started from, if any.
    pub preset: Option<String>,
    /// Where it is.
    pub base: BaseUrl,
    /// How long its parts may take.
    pub timeouts: Timeouts,
    /// Where its credential travels.
    pub slot: CredentialSlot,
    /// Answer headers that name the organisation of a credential.
    pub identity_headers: Vec<HeaderName>,
    /// Variables of its SDKs.
    pub sdk: SdkVariables,
    /// Declared accounts, in the order of the file. The first is used where nothing else decides.
    pub accounts: Vec<AccountSettings>,
    /// What an account that isn't declared gets: pass-through credentials.
    pub undeclared: AccountRules,
    /// Known endpoints: the operator's first, then the preset's.
    pub endpoints: Vec<EndpointRule>,
    /// What is promised about a call that no endpoint rule matches.
    pub unmatched_profile: Profile,
}

/// Where a provider is. The one place a call to it can go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    /// How it is reached.
    pub scheme: Scheme,
    /// Lower-case name or address; an IPv6 address without its brackets.
    pub host: String,
    /// Port, also where it is the scheme's own.
    pub port: u16,
    /// Empty, or beginning with `/` and not ending with it.
    pub path: String,
    /// Whether a credential may travel there in clear.
    pub plain_http: PlainHttp,
}

/// How a provider is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// TLS.
    Https,
    /// In clear.
    Http,
}

/// Whether `http://` is accepted to a host that isn't this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainHttp {
    /// Only to loopback.
    LoopbackOnly,
    /// The operator accepts that credentials travel in clear.
    Anywhere,
}

/// How long the parts of a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To connect, TLS included.
    pub connect: Span,
    /// To the first byte of the answer.
    pub response: Span,
    /// Silence inside the answer's body.
    pub idle: Span,
}

/// The header that carries a credential, and the word before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialSlot {
    /// `authorization`, `x-api-key`, …
    pub header: HeaderName,
    /// `Bearer`; `None` where the value is the bare credential.
    pub scheme: Option<String>,
}

impl CredentialSlot {
    /// The header's value for a credential, marked sensitive.
    ///
    /// # Errors
    /// If the credential holds what a header can't carry; the error doesn't show it.
    pub fn value(&self, credential: &str) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
        let mut value = match &self.scheme {
            Some(scheme) => HeaderValue::from_str(&format!("{scheme} {credential}"))?,
            None => HeaderValue::from_str(credential)?,
        };
        value.set_sensitive(true);
        Ok(value)
    }
}

/// Environment variables that `rategov exec` and `env` set for a provider's SDKs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SdkVariables {
    /// For the base URL: the variable, and what the SDK expects after the base.
    pub base_url: Vec<(String, String)>,
    /// For the key; set to a placeholder where unset, so that SDKs start at all.
    pub key: Vec<String>,
}

/// The owner of a quota.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountSettings {
    /// `PROVIDER/NAME`.
    pub account: Account,
    /// `NAME`, as it stands in scopes: `account:NAME`.
    pub name: String,
    /// Its credentials; empty means the callers' own.
    pub credentials: Vec<CredentialSettings>,
    /// Where they travel.
    pub slot: CredentialSlot,
    /// Its rules.
    pub rules: AccountRules,
}

/// A credential, by name and place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialSettings {
    /// `PROVIDER/ACCOUNT#1`.
    pub credential: Credential,
    /// Where the secret is.
    pub source: SecretRef,
}

/// Where a secret is, and where the configuration says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretRef {
    /// The place.
    pub source: SecretSource,
    /// The line that names it.
    pub mark: Mark,
}

/// Where a secret is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretSource {
    /// An environment variable.
    Env(String),
    /// A file; relative to the configuration's folder.
    File(PathBuf),
}

/// The rules of one account, from which its policy is made once its name is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccountRules {
    /// Everything but the scopes.
    pub policy: AccountPolicy,
    /// Most calls of the account open at once, if declared.
    pub max_concurrent: Option<u32>,
    /// Declared limits.
    pub quotas: Vec<DeclaredQuota>,
}

/// A declared limit and its reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredQuota {
    /// Whose limit it is.
    pub reach: QuotaReach,
    /// What it limits.
    pub limit: QuotaLimit,
}

/// Whose limit a declared quota is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaReach {
    /// The account as a whole.
    Account,
    /// Each credential on its own.
    EachCredential,
    /// Each model on its own.
    EachModel,
    /// One model.
    Model(String),
    /// Each endpoint on its own.
    EachEndpoint,
    /// One endpoint, by its template.
    Endpoint(String),
}

/// What a declared quota limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuotaLimit {
    /// Requests per window.
    Requests(Quota),
    /// Calls open at once.
    Concurrent(u32),
}

/// The name that stands for every scope of a kind: `model:*`.
pub const EACH: &str = "*";

impl AccountRules {
    /// The account's policy under its name. A quota of each model (endpoint,
    /// credential) is declared for the scope `model:*`, whose limits a scope
    /// `model:NAME` takes that has none of its own.
    ///
    /// # Errors
    /// If the name can't be one.
    pub fn policy(&self, name: &str) -> Result<AccountPolicy, NameError> {
        let account = Scope::new(&format!("account:{name}"))?;
        let mut scopes: Vec<(Scope, ScopeLimits)> = Vec::new();
        let mut limits = |scope: Scope, add: &dyn Fn(&mut ScopeLimits)| {
            match scopes.iter_mut().find(|(own, _)| *own == scope) {
                Some((_, limits)) => add(limits),
                None => {
                    let mut fresh = ScopeLimits::default();
                    add(&mut fresh);
                    scopes.push((scope, fresh));
                }
            }
        };
        if let Some(most) = self.max_concurrent {
            limits(account.clone(), &|limits| limits.max_concurrent = Some(most));
        }
        for quota in &self.quotas {
            let scope = match &quota.reach {
                QuotaReach::Account => account.clone(),
                QuotaReach::EachCredential => Scope::new(&format!("credential:{EACH}"))?,
                QuotaReach::EachModel => Scope::new(&format!("model:{EACH}"))?,
                QuotaReach::Model(model) => Scope::new(&format!("model:{model}"))?,
                QuotaReach::EachEndpoint => Scope::new(&format!("endpoint:{EACH}"))?,
                QuotaReach::Endpoint(template) => Scope::new(&format!("endpoint:{template}"))?,
            };
            limits(scope, &|limits| match &quota.limit {
                QuotaLimit::Requests(quota) => limits.requests.push(quota.clone()),
                QuotaLimit::Concurrent(most) => {
                    let least = limits.max_concurrent.unwrap_or(u32::MAX).min(*most);
                    limits.max_concurrent = Some(least);
                }
            });
        }
        Ok(AccountPolicy { scopes, ..self.policy.clone() })
    }

    /// The scopes that one call touches (R-LEDGER-2): the account always; the model
    /// if the call names one and a model quota is declared; the endpoint and the
    /// credential likewise. What isn't declared is learnt by the engine.
    pub fn scopes(&self, name: &str, call: &ScopedCall<'_>) -> Vec<Scope> {
        let declared = |test: &dyn Fn(&QuotaReach) -> bool| {
            self.quotas.iter().any(|quota| test(&quota.reach))
        };
        let mut names = vec![format!("account:{name}")];
        if let Some(model) = call.model
            && declared(&|reach| match reach {
                QuotaReach::EachModel => true,
                QuotaReach::Model(own) => own == model,
                _ => false,
            })
        {
            names.push(format!("model:{model}"));
        }
        let endpoint = call.endpoint.as_str();
        if declared(&|reach| match reach {
            QuotaReach::EachEndpoint => true,
            QuotaReach::Endpoint(own) => own == endpoint,
            _ => false,
        }) {
            names.push(format!("endpoint:{endpoint}"));
        }
        if let Some(credential) = call.credential
            && declared(&|reach| *reach == QuotaReach::EachCredential)
        {
            names.push(format!("credential:{credential}"));
        }
        // A name that is too long for a scope was too long for its declaration as well.
        names.iter().filter_map(|name| Scope::new(name).ok()).collect()
    }
}

/// What a call says about the scopes it touches.
#[derive(Clone, Copy, Debug)]
pub struct ScopedCall<'c> {
    /// Its endpoint.
    pub endpoint: &'c Endpoint,
    /// The model it names.
    pub model: Option<&'c str>,
    /// The credential it will use.
    pub credential: Option<&'c Credential>,
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

    /// Whether a request class may be used.
    pub fn allow_class(&self, class: Class) -> bool {
        self.classes.as_ref().is_none_or(|classes| classes.contains(&class))
    }
}

impl ProviderSettings {
    /// The account of a call that isn't decided by a pass-through credential: the
    /// first declared one that the caller may use, in the order of the caller's
    /// rights where it has any, else in the order of the file.
    pub fn account_for(&self, rights: &Rights) -> Option<&AccountSettings> {
        let ranked = rights.accounts.iter().flatten().find_map(|right| match right {
            AccountRight::Account(own) => self.accounts.iter().find(|it| it.account == *own),
            AccountRight::Provider(own) if *own == self.name => self.accounts.first(),
            AccountRight::Provider(_) => None,
        });
        match &rights.accounts {
            Some(_) => ranked,
            None => self.accounts.first(),
        }
    }
}

impl Settings {
    /// The agents' limits as the core takes them.
    pub fn agent_limits(&self) -> Vec<AgentLimits> {
        self.agents.values().map(|agent| agent.limits.clone()).collect()
    }

    /// The limits of an agent that isn't configured, under a ceiling.
    pub fn undeclared_agent(agent: Agent, ceiling: Priority) -> AgentLimits {
        AgentLimits { agent, ceiling, weight: 1, max_concurrent: None }
    }
}
