//! The policy in force: settings, routes, agents and secrets, joined once per load.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rategov_core::id::{Account, Credential, Provider, Scope};
use rategov_core::policy::{AccountPolicy, ClassLimits, ClassTable};
use rategov_core::time::Span;
use rategov_core::word::Class;
use secrecy::ExposeSecret;

use super::destination::{self, Destination, DestinationError};
use super::headers::Injection;
use super::upstream;
use crate::auth::Agents;
use crate::config::secret::Keyring;
use crate::config::settings::{
    AccountRules, BaseUrl, PlainHttp, ProviderSettings, Scheme, ScopedCall, Settings,
};
use crate::route::RouteTable;

/// Everything that a call's fate depends on, as of one load of the configuration.
pub struct Policy {
    /// What was configured.
    pub settings: Settings,
    /// What calls are.
    pub routes: RouteTable,
    /// Who calls.
    pub agents: Agents,
    /// Where calls go.
    pub destinations: BTreeMap<Provider, Destination>,
    /// What every call of a provider shares, so that none makes a copy of its own.
    shared: BTreeMap<Provider, SharedByCalls>,
    /// Credentials, ready to be injected.
    injections: BTreeMap<Credential, Injection>,
    /// SHA-256 of the configuration's text.
    pub digest: [u8; 32],
    /// What does not act yet, and other things worth knowing.
    pub notices: Vec<String>,
}

/// What every call of a provider shares.
struct SharedByCalls {
    settings: Arc<ProviderSettings>,
    /// The limits of its declared accounts' classes.
    declared: BTreeMap<Account, SharedLimits>,
    /// The limits where no account is declared.
    undeclared: SharedLimits,
}

/// A table of limits, one shared value a class.
struct SharedLimits([Arc<ClassLimits>; Class::ALL.len()]);

impl SharedLimits {
    fn new(table: &ClassTable) -> SharedLimits {
        SharedLimits(std::array::from_fn(|at| {
            Arc::new(table.of(Class::ALL[at]).clone())
        }))
    }

    fn of(&self, class: Class) -> Arc<ClassLimits> {
        Arc::clone(&self.0[class as usize])
    }
}

impl SharedByCalls {
    fn new(settings: &ProviderSettings) -> SharedByCalls {
        let declared = settings.accounts.iter().map(|account| {
            (
                account.account.clone(),
                SharedLimits::new(&account.rules.policy.classes),
            )
        });
        SharedByCalls {
            declared: declared.collect(),
            undeclared: SharedLimits::new(&settings.undeclared.policy.classes),
            settings: Arc::new(settings.clone()),
        }
    }
}

/// A provider whose base URL can't be used.
#[derive(Debug, thiserror::Error)]
#[error("provider {provider}: {cause}")]
pub struct PolicyError {
    provider: Provider,
    cause: DestinationError,
}

impl Policy {
    /// Joins settings and secrets.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn new(
        settings: Settings,
        keyring: Arc<Keyring>,
        runs: Arc<crate::auth::run_tokens::RunTokens>,
        digest: [u8; 32],
        notices: Vec<String>,
    ) -> Result<Policy, PolicyError> {
        let mut destinations = BTreeMap::new();
        let mut injections = BTreeMap::new();
        for (name, provider) in &settings.providers {
            let destination = destination_of(&provider.base).map_err(|cause| PolicyError {
                provider: name.clone(),
                cause,
            })?;
            destinations.insert(name.clone(), destination);
            for account in &provider.accounts {
                for credential in &account.credentials {
                    let Some(secret) = keyring.credential(&credential.credential) else {
                        continue;
                    };
                    let value = match &account.slot.scheme {
                        Some(scheme) => format!("{scheme} {}", secret.expose_secret()),
                        None => secret.expose_secret().to_owned(),
                    };
                    if let Some(injection) = Injection::new(account.slot.header.clone(), &value) {
                        injections.insert(credential.credential.clone(), injection);
                    }
                }
            }
        }
        let shared = settings.providers.iter();
        let shared = shared.map(|(name, provider)| (name.clone(), SharedByCalls::new(provider)));
        Ok(Policy {
            shared: shared.collect(),
            routes: RouteTable::new(&settings),
            agents: Agents::new(&settings, keyring, runs),
            destinations,
            injections,
            settings,
            digest,
            notices,
        })
    }

    /// The header of a credential that the governor holds.
    pub fn injection(&self, credential: &Credential) -> Option<&Injection> {
        self.injections.get(credential)
    }

    /// The settings of a provider, as calls keep them.
    pub fn provider(&self, provider: &Provider) -> Option<&Arc<ProviderSettings>> {
        self.shared.get(provider).map(|shared| &shared.settings)
    }

    /// The limits of a class on an account of a provider, declared or not.
    pub fn limits(&self, provider: &Provider, account: &Account, class: Class) -> Arc<ClassLimits> {
        match self.shared.get(provider) {
            Some(shared) => shared
                .declared
                .get(account)
                .unwrap_or(&shared.undeclared)
                .of(class),
            None => Arc::new(ClassTable::default().of(class).clone()),
        }
    }

    /// The policy of an account, declared or not.
    pub fn account(&self, account: &Account) -> AccountPolicy {
        self.rules(account)
            .and_then(|(rules, name)| rules.policy(name).ok())
            .unwrap_or_default()
    }

    /// The scopes that a call on an account touches, the account's first.
    pub fn scopes(&self, account: &Account, call: &ScopedCall<'_>) -> Vec<Scope> {
        self.rules(account).map_or_else(
            || vec![crate::driver::account_scope(account)],
            |(rules, name)| rules.scopes(name, call),
        )
    }

    /// The rules of an account, declared or not, and its name in scopes. `None` if
    /// its provider is not configured any more.
    fn rules<'s>(&'s self, account: &'s Account) -> Option<(&'s AccountRules, &'s str)> {
        let (provider, name) = account.as_str().split_once('/')?;
        let provider = Provider::new(provider).ok()?;
        let provider = self.settings.providers.get(&provider)?;
        let declared = provider.accounts.iter().find(|it| it.account == *account);
        Some((declared.map_or(&provider.undeclared, |it| &it.rules), name))
    }
}

fn destination_of(base: &BaseUrl) -> Result<Destination, DestinationError> {
    let scheme = match base.scheme {
        Scheme::Https => "https",
        Scheme::Http => "http",
    };
    let host = if base.host.contains(':') {
        format!("[{}]", base.host)
    } else {
        base.host.clone()
    };
    let plain = match base.plain_http {
        PlainHttp::LoopbackOnly => destination::PlainHttp::LoopbackOnly,
        PlainHttp::Anywhere => destination::PlainHttp::Allowed,
    };
    Destination::parse(
        &format!("{scheme}://{host}:{}{}", base.port, base.path),
        plain,
    )
}

/// A provider's time-outs in the transport's form.
pub fn timeouts(provider: &ProviderSettings) -> upstream::Timeouts {
    upstream::Timeouts {
        connect: duration(provider.timeouts.connect),
        response: duration(provider.timeouts.response),
        idle: duration(provider.timeouts.idle),
    }
}

/// A span in the runtime's form.
pub fn duration(span: Span) -> Duration {
    Duration::from_micros(span.as_micros())
}
