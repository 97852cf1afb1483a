//! An account: its credentials, its limits, and the scopes of a call.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rategov_core::id::{Account, Credential, Endpoint, NameError, Scope};
use rategov_core::observe::Reach;
use rategov_core::policy::{AccountPolicy, Quota, ScopeLimits};

use super::CredentialSlot;
use crate::config::mistake::Mark;

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
    /// Whose limits the provider's answers speak of.
    pub heard: BTreeSet<Reach>,
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
    /// Units of a dimension per window.
    Window(Quota),
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
        let mut limits = |scope: Scope, add: &dyn Fn(&mut ScopeLimits)| match scopes
            .iter_mut()
            .find(|(own, _)| *own == scope)
        {
            Some((_, limits)) => add(limits),
            None => {
                let mut fresh = ScopeLimits::default();
                add(&mut fresh);
                scopes.push((scope, fresh));
            }
        };
        if let Some(most) = self.max_concurrent {
            limits(account.clone(), &|limits| {
                limits.max_concurrent = Some(most)
            });
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
                QuotaLimit::Window(quota) => limits.quotas.push(quota.clone()),
                QuotaLimit::Concurrent(most) => {
                    let least = limits.max_concurrent.unwrap_or(u32::MAX).min(*most);
                    limits.max_concurrent = Some(least);
                }
            });
        }
        Ok(AccountPolicy {
            scopes,
            ..self.policy.clone()
        })
    }

    /// The scopes that one call touches (R-LEDGER-2), the account's first.
    ///
    /// The endpoint is always one, since an overloaded provider holds its endpoint
    /// only (R-CLASS-1). A model or a credential is one if its limit is declared, or
    /// if the provider's answers speak of such limits: what they say of one model
    /// must not slow down another. Everything else concerns the account.
    pub fn scopes(&self, name: &str, call: &ScopedCall<'_>) -> Vec<Scope> {
        let declared =
            |test: &dyn Fn(&QuotaReach) -> bool| self.quotas.iter().any(|quota| test(&quota.reach));
        let mut names = vec![
            format!("account:{name}"),
            format!("endpoint:{}", call.endpoint),
        ];
        if let Some(model) = call.model
            && (self.heard.contains(&Reach::Model)
                || declared(&|reach| match reach {
                    QuotaReach::EachModel => true,
                    QuotaReach::Model(own) => own == model,
                    _ => false,
                }))
        {
            names.push(format!("model:{model}"));
        }
        if let Some(credential) = call.credential
            && (self.heard.contains(&Reach::Credential)
                || declared(&|reach| *reach == QuotaReach::EachCredential))
        {
            names.push(format!("credential:{credential}"));
        }
        // A name that is too long for a scope was too long for its declaration as well.
        names
            .iter()
            .filter_map(|name| Scope::new(name).ok())
            .collect()
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
