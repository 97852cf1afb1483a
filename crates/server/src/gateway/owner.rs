//! Whose quota and whose credential a call uses.

use http::{HeaderMap, HeaderName};
use rategov_core::id::{Account, Credential};

use super::headers::Injection;
use super::policy::Policy;
use super::problem::{Problem, RequestCode};
use super::serve::{Gateway, Given};
use crate::auth::pass_through::{OwnAccount, Presented};
use crate::auth::{Caller, OwnCredential};
use crate::config::settings::{AccountRules, ProviderSettings};

/// Whose quota and credential a call uses.
pub(super) struct Owner<'p> {
    pub(super) account: Account,
    /// The account's name as it stands in scopes, without the provider.
    pub(super) name: String,
    pub(super) credential: Credential,
    /// The governor's credential; `None` where the caller's own goes up.
    pub(super) injection: Option<&'p Injection>,
    pub(super) rules: &'p AccountRules,
    /// The field in which the provider expects a credential.
    pub(super) slot: HeaderName,
}

impl Gateway {
    /// Whose quota and credential a call uses.
    ///
    /// # Errors
    /// `forbidden` if the caller may use no account of the provider,
    /// `credential_missing` if no credential is there that may go to the provider. A
    /// token of the governor's never does.
    pub(super) fn owner<'p>(
        &self,
        policy: &'p Policy,
        settings: &'p ProviderSettings,
        caller: &Caller,
        headers: &HeaderMap,
    ) -> Given<Owner<'p>> {
        let declared = settings.account_for(caller.rights());
        if let Some(account) = declared.filter(|account| !account.credentials.is_empty()) {
            // Several credentials of one account share its quota; the first is used.
            let credential = &account.credentials[0].credential;
            let Some(injection) = policy.injection(credential) else {
                let why = format!("the secret of {credential} is not there");
                let problem = Problem::of_request(RequestCode::CredentialMissing, why);
                return Err(Box::new(problem));
            };
            return Ok(Owner {
                account: account.account.clone(),
                name: account.name.clone(),
                credential: credential.clone(),
                injection: Some(injection),
                rules: &account.rules,
                slot: account.slot.header.clone(),
            });
        }
        if !caller.rights().allow_some_account(&settings.name) {
            let why = format!(
                "agent {} may use no account of this provider",
                caller.agent()
            );
            return Err(Box::new(Problem::of_request(RequestCode::Forbidden, why)));
        }
        if caller.own_credential() == OwnCredential::Withheld {
            let why = "no credential of this provider is configured for this agent";
            return Err(Box::new(Problem::of_request(
                RequestCode::CredentialMissing,
                why,
            )));
        }
        let presented = Presented::find(headers, &settings.slot);
        let (account, name, rules) = match self.0.identity.account(settings, presented) {
            OwnAccount::Declared(it) => (it.account.clone(), it.name.clone(), &it.rules),
            OwnAccount::Hashed { account, name } => {
                self.0.driver.has_place_for(&account).map_err(|in_hand| {
                    let why = format!(
                        "{in_hand} accounts are in hand, and this credential is none of theirs; hint: name the account in the configuration"
                    );
                    Problem::of_request(RequestCode::TooManyAccounts, why)
                })?;
                (account, name, &settings.undeclared)
            }
        };
        let credential = Credential::new(&format!("{account}#own"))
            .map_err(|cause| Problem::of_request(RequestCode::Internal, cause.to_string()))?;
        Ok(Owner {
            account,
            name,
            credential,
            injection: None,
            rules,
            slot: settings.slot.header.clone(),
        })
    }
}
