//! Agents: tokens, ceilings, rights.

use std::collections::BTreeMap;

use rategov_core::id::{Agent, Provider};
use rategov_core::policy::AgentLimits;
use rategov_core::word::Priority;

use crate::config::mistake::{Collector, nearest};
use crate::config::options::{AgentOptions, Options};
use crate::config::place::Place;
use crate::config::secret;
use crate::config::settings::{AccountRight, AgentSettings, ProviderSettings, Rights, SecretRef};
use crate::config::units::shown;
use crate::route::template::Template;

/// Most agents.
const AGENTS_MAX: usize = 10_000;

pub(super) fn agents(
    options: &Options,
    place: Place<'_>,
    providers: &BTreeMap<Provider, ProviderSettings>,
    out: &mut Collector,
) -> BTreeMap<Agent, AgentSettings> {
    let mut known: BTreeMap<Agent, AgentSettings> = BTreeMap::new();
    let Some(written) = &options.agents else {
        return known;
    };
    if written.0.len() > AGENTS_MAX {
        out.add(
            place.mark(),
            format!("at most {AGENTS_MAX} agents can be configured"),
        );
    }
    for (name, options) in written.iter().take(AGENTS_MAX) {
        let at = place.key(name);
        let agent = match Agent::new(name) {
            Ok(agent) => agent,
            Err(error) => {
                out.add(
                    at.mark(),
                    format!("`{}` can't name an agent: {error}", shown(name)),
                );
                continue;
            }
        };
        let token = token(options, at, out);
        let shared = token.as_ref().and_then(|token| {
            known.iter().find(|(_, other)| {
                other
                    .token
                    .as_ref()
                    .is_some_and(|other| other.source == token.source)
            })
        });
        if let Some((other, _)) = shared {
            out.add(
                at.key("token").mark(),
                format!("agents `{other}` and `{agent}` have the same token: nobody could tell them apart\nhint: give each its own"),
            );
        }
        let limits = limits(agent.clone(), options, at, out);
        let rights = rights(options, at, providers, out);
        approvals(options, at.key("approve"), providers, out);
        known.insert(
            agent,
            AgentSettings {
                limits,
                token,
                rights,
            },
        );
    }
    known
}

fn token(options: &AgentOptions, place: Place<'_>, out: &mut Collector) -> Option<SecretRef> {
    let mark = place.key("token").mark();
    match secret::parse(options.token.as_deref()?) {
        Ok(Some(source)) => Some(SecretRef { source, mark }),
        Ok(None) => {
            out.add(mark, "an agent's token can't be passed through: it is what tells agents apart\nhint: write `env:NAME` or `file:PATH`");
            None
        }
        Err(cause) => {
            out.add(mark, cause);
            None
        }
    }
}

fn limits(
    agent: Agent,
    options: &AgentOptions,
    place: Place<'_>,
    out: &mut Collector,
) -> AgentLimits {
    let weight = options.weight.unwrap_or(1);
    if !(1..=1_000).contains(&weight) {
        out.add(place.key("weight").mark(), "a weight is from 1 to 1000\nhint: take rights away from an agent that should have no share");
    }
    if options.max_concurrent_requests == Some(0) {
        out.add(
            place.key("max_concurrent_requests").mark(),
            "no call could ever be open\nhint: at least 1, or leave the key out",
        );
    }
    AgentLimits {
        agent,
        ceiling: options.priority.map_or(Priority::Normal, |word| word.0),
        weight: weight.clamp(1, 1_000),
        max_concurrent: options.max_concurrent_requests.map(|most| most.max(1)),
    }
}

fn rights(
    options: &AgentOptions,
    place: Place<'_>,
    providers: &BTreeMap<Provider, ProviderSettings>,
    out: &mut Collector,
) -> Rights {
    let accounts = options.accounts.as_ref().map(|accounts| {
        let rights = accounts.iter().enumerate().filter_map(|(index, text)| {
            account_right(text, providers)
                .map_err(|cause| out.add(place.key("accounts").item(index).mark(), cause))
                .ok()
        });
        rights.collect()
    });
    let classes = options.classes.as_ref();
    let classes = classes.map(|classes| classes.iter().map(|word| word.0).collect());
    Rights { accounts, classes }
}

fn account_right(
    text: &str,
    providers: &BTreeMap<Provider, ProviderSettings>,
) -> Result<AccountRight, String> {
    let form = "write `PROVIDER/ACCOUNT`, or `PROVIDER/*` for all of a provider's";
    let (provider, account) = text
        .split_once('/')
        .ok_or_else(|| format!("`{}` is no account\nhint: {form}", shown(text)))?;
    let names = || providers.keys().map(Provider::as_str);
    let Some(known) = Provider::new(provider)
        .ok()
        .and_then(|name| providers.get(&name))
    else {
        let hint = match nearest(provider, names()) {
            Some(near) => format!("did you mean `{near}/{account}`?"),
            None => "providers are listed under `providers`".to_owned(),
        };
        return Err(format!(
            "there is no provider `{}`\nhint: {hint}",
            shown(provider)
        ));
    };
    if account == "*" {
        return Ok(AccountRight::Provider(known.name.clone()));
    }
    match known.accounts.iter().find(|it| it.name == account) {
        Some(it) => Ok(AccountRight::Account(it.account.clone())),
        None => {
            let hint = match nearest(account, known.accounts.iter().map(|it| it.name.as_str())) {
                Some(near) => format!("did you mean `{provider}/{near}`?"),
                None if known.accounts.is_empty() => {
                    format!("`{provider}` declares no accounts; write `{provider}/*`")
                }
                None => format!("accounts are listed under `providers.{provider}.accounts`"),
            };
            Err(format!(
                "there is no account `{}`\nhint: {hint}",
                shown(text)
            ))
        }
    }
}

fn approvals(
    options: &AgentOptions,
    place: Place<'_>,
    providers: &BTreeMap<Provider, ProviderSettings>,
    out: &mut Collector,
) {
    for (index, text) in options.approve.iter().flatten().enumerate() {
        let at = place.item(index).mark();
        let Some((provider, call)) = text.split_once(' ') else {
            out.add(at, "an approval names a provider and an endpoint\nhint: write `billing-api POST /invites`");
            continue;
        };
        if let Err(cause) = Template::parse(call) {
            out.add(at, cause);
        }
        let known = Provider::new(provider).is_ok_and(|name| providers.contains_key(&name));
        if !known {
            let near = nearest(provider, providers.keys().map(Provider::as_str));
            let hint = near.map_or_else(
                || "providers are listed under `providers`".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            out.add(
                at,
                format!("there is no provider `{}`\nhint: {hint}", shown(provider)),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rategov_core::id::Account;

    fn account(name: &str) -> Account {
        Account::new(name).unwrap()
    }

    #[test]
    fn a_right_to_a_provider_covers_accounts_that_are_not_declared() {
        let openai = Provider::new("openai").unwrap();
        let rights = Rights {
            accounts: Some(vec![AccountRight::Provider(openai.clone())]),
            classes: None,
        };
        assert!(rights.allow_account(&openai, &account("openai/key-3f2a")));
        let stripe = Provider::new("stripe").unwrap();
        assert!(!rights.allow_account(&stripe, &account("stripe/main")));
    }
}
