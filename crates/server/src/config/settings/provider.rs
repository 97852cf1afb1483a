//! A provider: where it is, how it is spoken to, what is known of it.

use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use rategov_core::id::Provider;
use rategov_core::observe::{Dialect, ErrorRule};
use rategov_core::policy::Profile;
use rategov_core::time::Span;

use super::{AccountRight, AccountRules, AccountSettings, Rights};
use crate::gateway::meter::MeterRules;
use crate::route::{EndpointRule, prefixed};

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
    /// A call whose path doesn't begin with it gets it put in front: empty, or
    /// beginning with `/` and not ending with it.
    pub path_prefix: String,
    /// In words, whose its limits are.
    pub whose: Option<String>,
    /// What the fields of its answers say.
    pub dialect: Dialect,
    /// What its errors mean, in the order in which rules are tried.
    pub errors: Vec<ErrorRule>,
    /// Where its requests and answers tell what calls cost.
    pub meter: Arc<MeterRules>,
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

impl BaseUrl {
    /// The URL as text, in its one spelling.
    pub fn url(&self) -> String {
        let scheme = match self.scheme {
            Scheme::Https => "https",
            Scheme::Http => "http",
        };
        let (host, port, path) = (&self.host, self.port, &self.path);
        match host.contains(':') {
            true => format!("{scheme}://[{host}]:{port}{path}"),
            false => format!("{scheme}://{host}:{port}{path}"),
        }
    }
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

/// What `rategov exec` gives SDKs that don't start without a key. It is never taken
/// for a credential, and never forwarded.
pub const PLACEHOLDER_KEY: &str = "held-by-rategov";

/// Environment variables that `rategov exec` and `env` set for a provider's SDKs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SdkVariables {
    /// For the base URL: the variable, and what the SDK expects after the base.
    pub base_url: Vec<(String, String)>,
    /// For the key; set to a placeholder where unset, so that SDKs start at all.
    pub key: Vec<String>,
}

/// Variables of a program and their values. Not `Debug`: a base URL can hold a run token.
#[derive(Clone, PartialEq, Eq)]
pub struct SdkEnvironment {
    /// To be set in any case.
    pub base_url: Vec<(String, String)>,
    /// To be set where they are unset.
    pub key_if_unset: Vec<(String, &'static str)>,
}

impl ProviderSettings {
    /// What is appended to the provider's base for a call's path: the path byte for
    /// byte, with the provider's prefix before it where it lacks that.
    pub fn full_path(&self, path: &str) -> String {
        prefixed(&self.path_prefix, path)
    }

    /// The variables that point this provider's SDKs at the governor. `door` is the
    /// agents' listener, with the run token where there is one:
    /// `http://127.0.0.1:7878/run/TOKEN`. Those for keys belong only where they are
    /// unset: a caller's own key must stay.
    pub fn sdk_environment(&self, door: &str) -> SdkEnvironment {
        let base = |(name, suffix): &(String, String)| {
            (name.clone(), format!("{door}/{}{suffix}", self.name))
        };
        SdkEnvironment {
            base_url: self.sdk.base_url.iter().map(base).collect(),
            key_if_unset: self
                .sdk
                .key
                .iter()
                .map(|name| (name.clone(), PLACEHOLDER_KEY))
                .collect(),
        }
    }

    /// The account of a call that isn't decided by a pass-through credential: the
    /// first declared one that the caller may use, in the order of the caller's
    /// rights where it has any, else in the order of the file.
    pub fn account_for(&self, rights: &Rights) -> Option<&AccountSettings> {
        let ranked = rights
            .accounts
            .iter()
            .flatten()
            .find_map(|right| match right {
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
