//! The policy in force: settings, routes, agents and secrets, joined once per load.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rategov_core::id::{Account, Credential, Provider};
use rategov_core::policy::AccountPolicy;
use rategov_core::time::Span;
use secrecy::ExposeSecret;

use super::destination::{self, Destination, DestinationError};
use super::headers::Injection;
use super::upstream;
use crate::auth::Agents;
use crate::config::secret::Keyring;
use crate::config::settings::{BaseUrl, PlainHttp, ProviderSettings, Scheme, Settings};
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
    /// Credentials, ready to be injected.
    injections: BTreeMap<Credential, Injection>,
    /// SHA-256 of the configuration's text.
    pub digest: [u8; 32],
    /// What does not act yet, and other things worth knowing.
    pub notices: Vec<String>,
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
        Ok(Policy {
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

    /// The rules of an account, declared or not.
    pub fn account(&self, account: &Account) -> AccountPolicy {
        let Some((provider, name)) = account.as_str().split_once('/') else {
            return AccountPolicy::default();
        };
        let provider = Provider::new(provider).ok();
        let Some(provider) = provider.and_then(|it| self.settings.providers.get(&it)) else {
            return AccountPolicy::default();
        };
        let declared = provider.accounts.iter().find(|it| it.account == *account);
        let rules = declared.map_or(&provider.undeclared, |it| &it.rules);
        rules.policy(name).unwrap_or_default()
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
