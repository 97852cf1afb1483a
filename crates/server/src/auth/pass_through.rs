//! Calls with the caller's own credential: which account they belong to.
//!
//! Nothing is known of such a credential but its bytes, and they are never kept.
//! Its account is named by a keyed hash (HMAC-SHA-256, 80 bits of it, under a key
//! of this installation), so that the same key is always the same account here,
//! and nobody who reads a record can test guesses at a credential without the key.
//! Where configuration declares an account with `pass-through`, all credentials of
//! that provider belong to it: that is how several are joined (R-VAULT-2).

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderName};
use rategov_core::id::{Account, Provider};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::config::settings::{AccountSettings, CredentialSlot, PLACEHOLDER_KEY, ProviderSettings};

/// Headers in which SDKs send credentials, besides the one of the provider.
const USUAL_HEADERS: [&str; 4] = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];

/// The name of the account of calls without any credential.
const ANONYMOUS: &str = "anonymous";

/// The key of this installation under which credentials are hashed.
pub struct IdentityKey(Zeroizing<[u8; 32]>);

impl fmt::Debug for IdentityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdentityKey([redacted])")
    }
}

/// A credential that came with a call, borrowed from its headers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Presented<'h> {
    /// The header it came in.
    pub header: &'h HeaderName,
    /// The header's value, scheme included.
    value: &'h [u8],
}

impl fmt::Debug for Presented<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Presented({}: [redacted])", self.header)
    }
}

impl<'h> Presented<'h> {
    /// The credential of a call: that of the provider's own header, else the first
    /// of the usual ones. The placeholder of `rategov exec` is none.
    pub fn find(headers: &'h HeaderMap, slot: &CredentialSlot) -> Option<Presented<'h>> {
        let names = std::iter::once(slot.header.as_str()).chain(USUAL_HEADERS);
        names.into_iter().find_map(|name| {
            let header = HeaderName::from_bytes(name.as_bytes()).ok()?;
            let (header, value) = headers.iter().find(|(own, _)| **own == header)?;
            let presented = Presented {
                header,
                value: value.as_bytes(),
            };
            let is_one = !matches!(presented.credential(), b"")
                && presented.credential() != PLACEHOLDER_KEY.as_bytes();
            is_one.then_some(presented)
        })
    }

    /// The bytes that authenticate: the value without `Bearer` or another scheme,
    /// so that a key counts as the same in every header.
    fn credential(&self) -> &'h [u8] {
        match self.value.iter().position(|b| *b == b' ') {
            Some(end) => self.value[end..].trim_ascii(),
            None => self.value,
        }
    }
}

/// The account of a call that brings its own credential.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnAccount<'s> {
    /// One that configuration declares.
    Declared(&'s AccountSettings),
    /// One that is known by its credential only.
    Hashed {
        /// `PROVIDER/NAME`.
        account: Account,
        /// `NAME`, as it stands in scopes.
        name: String,
    },
}

impl IdentityKey {
    /// Takes the key of this installation, 32 random bytes.
    pub fn new(bytes: [u8; 32]) -> IdentityKey {
        IdentityKey(Zeroizing::new(bytes))
    }

    /// The account of a call with the caller's own credential (or with none).
    pub fn account<'s>(
        &self,
        provider: &'s ProviderSettings,
        presented: Option<Presented<'_>>,
    ) -> OwnAccount<'s> {
        let joined = provider
            .accounts
            .iter()
            .find(|account| account.credentials.is_empty());
        if let Some(account) = joined {
            return OwnAccount::Declared(account);
        }
        let name = match presented {
            Some(presented) => self.name(&provider.name, presented.credential()),
            None => ANONYMOUS.to_owned(),
        };
        let account = Account::new(&format!("{}/{name}", provider.name))
            .expect("a provider's name has at most 64 bytes and this one 24, all printable");
        OwnAccount::Hashed { account, name }
    }

    fn name(&self, provider: &Provider, credential: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.0.as_ref())
            .expect("HMAC takes keys of every length");
        mac.update(provider.as_str().as_bytes());
        mac.update(&[0]);
        mac.update(credential);
        let hash = mac.finalize().into_bytes();
        hash[..10].iter().fold(String::from("key-"), |name, byte| {
            name + &format!("{byte:02x}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::Settings;

    fn name(key: u8, provider: &str, pairs: &[(&'static str, &str)]) -> String {
        let settings = Settings::default();
        let provider = &settings.providers[&Provider::new(provider).unwrap()];
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        let presented = Presented::find(&headers, &provider.slot);
        match IdentityKey::new([key; 32]).account(provider, presented) {
            OwnAccount::Hashed { account, name } => {
                assert_eq!(account.as_str(), format!("{}/{name}", provider.name));
                name
            }
            OwnAccount::Declared(account) => panic!("{account:?}"),
        }
    }

    #[test]
    fn one_credential_is_one_account_however_it_is_sent() {
        let bearer = name(1, "anthropic", &[("authorization", "Bearer sk-canary")]);
        let bare = name(1, "anthropic", &[("x-api-key", "sk-canary")]);
        assert_eq!(bearer, bare);
        assert!(!bare.contains("canary"));
        assert_eq!(bare.len(), 24);
    }

    #[test]
    fn another_credential_provider_or_installation_is_another_account() {
        let names = [
            name(1, "openai", &[("authorization", "Bearer a")]),
            name(1, "openai", &[("authorization", "Bearer b")]),
            name(1, "anthropic", &[("authorization", "Bearer a")]),
            name(2, "openai", &[("authorization", "Bearer a")]),
            name(1, "openai", &[]),
        ];
        let different: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "{names:?}");
    }

    #[test]
    fn the_placeholder_of_exec_is_no_credential() {
        let placeholder = format!("Bearer {PLACEHOLDER_KEY}");
        let none = name(1, "openai", &[]);
        assert_eq!(name(1, "openai", &[("authorization", &placeholder)]), none);
        assert_eq!(name(1, "openai", &[("authorization", "Bearer ")]), none);
    }

    #[test]
    fn the_providers_own_header_decides_where_two_are_sent() {
        let both = [
            ("authorization", "Bearer other"),
            ("x-api-key", "sk-canary"),
        ];
        assert_eq!(
            name(1, "anthropic", &both),
            name(1, "anthropic", &[("x-api-key", "sk-canary")])
        );
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", "sk-canary".parse().unwrap());
        let settings = Settings::default();
        let slot = &settings.providers[&Provider::new("anthropic").unwrap()].slot;
        assert!(!format!("{:?}", Presented::find(&headers, slot)).contains("canary"));
    }
}
