//! Accounts: credentials and declared limits.

use std::collections::BTreeMap;

use http::HeaderName;
use rategov_core::cost::Dimension;
use rategov_core::id::{Account, Credential, Provider};
use rategov_core::policy::{Quota, WindowKind};
use rategov_core::time::Span;

use crate::config::mistake::{Collector, meant};
use crate::config::options::{
    AccountOptions, DimensionWord, KindWord, Options, ProviderOptions, QuotaOptions,
};
use crate::config::place::Place;
use crate::config::secret;
use crate::config::settings::{
    AccountRules, AccountSettings, CredentialSettings, CredentialSlot, DeclaredQuota,
    ProviderSettings, QuotaLimit, QuotaReach, SecretRef,
};
use crate::config::units::shown;
use crate::route::template::Template;

/// Most declared limits of an account, and most of its credentials.
const PARTS_MAX: usize = 100;

pub(super) fn accounts(
    provider: &str,
    written: &ProviderOptions,
    slot: &CredentialSlot,
    shared: &AccountRules,
    place: Place<'_>,
    out: &mut Collector,
) -> Vec<AccountSettings> {
    let Some(accounts) = &written.accounts else {
        return Vec::new();
    };
    let mut known = Vec::new();
    for (name, options) in accounts.iter() {
        let at = place.key(name);
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
            out.add(at.mark(), format!("`{}` can't name an account\nhint: letters, digits, `-`, `_`, `.` and `@`, at most 64", shown(name)));
            continue;
        }
        known.extend(account(provider, name, options, slot, shared, at, out));
    }
    known
}

fn account(
    provider: &str,
    name: &str,
    options: &AccountOptions,
    provider_slot: &CredentialSlot,
    shared: &AccountRules,
    place: Place<'_>,
    out: &mut Collector,
) -> Option<AccountSettings> {
    let header = options.credential_header.as_deref();
    let scheme = options.credential_scheme.as_deref();
    let slot = slot(header, scheme, provider_slot, place, out);
    let credentials = credentials(provider, name, options, place, out);
    let written = options.quotas.as_deref().unwrap_or_default();
    let at = place.key("quotas");
    if written.len() > PARTS_MAX {
        out.add(
            at.mark(),
            format!("an account has at most {PARTS_MAX} quotas"),
        );
    }
    let quotas = written.iter().take(PARTS_MAX).enumerate();
    let quotas = quotas
        .filter_map(|(index, it)| quota(it, at.part(index), out))
        .collect();
    Some(AccountSettings {
        // A name that is too long was refused above, by its parts.
        account: Account::new(&format!("{provider}/{name}")).ok()?,
        name: name.to_owned(),
        credentials,
        slot,
        rules: AccountRules {
            quotas,
            ..shared.clone()
        },
    })
}

/// The header of a credential and the word before it. `Bearer` belongs to
/// `Authorization`: another header carries the bare credential unless told otherwise.
pub(super) fn slot(
    header: Option<&str>,
    scheme: Option<&str>,
    default: &CredentialSlot,
    place: Place<'_>,
    out: &mut Collector,
) -> CredentialSlot {
    let name = match header {
        None => default.header.clone(),
        Some(text) => HeaderName::from_bytes(text.as_bytes()).unwrap_or_else(|_| {
            out.add(
                place.key("credential_header").mark(),
                "this is not the name of a header\nhint: write `Authorization` or `x-api-key`",
            );
            default.header.clone()
        }),
    };
    let usual = match () {
        () if name == default.header => default.scheme.clone(),
        () if name == http::header::AUTHORIZATION => Some("Bearer".to_owned()),
        () => None,
    };
    let scheme = match scheme.map(str::trim) {
        None => usual,
        Some("") => None,
        Some(word)
            if word.len() <= 32 && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') =>
        {
            Some(word.to_owned())
        }
        Some(_) => {
            out.add(
                place.key("credential_scheme").mark(),
                "this is not an authentication scheme\nhint: write `Bearer`, or `\"\"` for none",
            );
            usual
        }
    };
    CredentialSlot {
        header: name,
        scheme,
    }
}

fn credentials(
    provider: &str,
    account: &str,
    options: &AccountOptions,
    place: Place<'_>,
    out: &mut Collector,
) -> Vec<CredentialSettings> {
    let several = options.credentials.as_deref();
    if options.credential.is_some() && several.is_some() {
        out.add(place.key("credentials").mark(), "an account has `credential` or `credentials`, not both\nhint: put all of them into `credentials`");
    }
    let one = options
        .credential
        .iter()
        .map(|text| (text.as_str(), place.key("credential")));
    let list = several.unwrap_or_default().iter().enumerate();
    let list = list.map(|(index, text)| (text.as_str(), place.key("credentials").item(index)));
    let mut known: Vec<CredentialSettings> = Vec::new();
    let mut own = 0;
    for (number, (text, at)) in one.chain(list).take(PARTS_MAX).enumerate() {
        match secret::parse(text) {
            Ok(None) => own += 1,
            Ok(Some(source)) if known.iter().any(|it| it.source.source == source) => {
                out.add(at.mark(), "this credential is listed twice");
            }
            Ok(Some(source)) => {
                let credential = format!("{provider}/{account}#{}", number + 1);
                known.extend(Credential::new(&credential).ok().map(|credential| {
                    CredentialSettings {
                        credential,
                        source: SecretRef {
                            source,
                            mark: at.mark(),
                        },
                    }
                }));
            }
            Err(cause) => out.add(at.mark(), cause),
        }
    }
    if own > 0 && !known.is_empty() {
        out.add(
            place.key("credentials").mark(),
            "an account uses its own credentials or the callers' (`pass-through`), not both",
        );
    }
    known
}

fn quota(options: &QuotaOptions, place: Place<'_>, out: &mut Collector) -> Option<DeclaredQuota> {
    let missing = |key: &str, hint: &str, out: &mut Collector| {
        // What was written badly has been reported already.
        if !place.has(key) {
            out.add(place.mark(), format!("a quota needs `{key}`\nhint: {hint}"));
        }
    };
    let reach = match options.scope.as_deref() {
        None => Some(QuotaReach::Account),
        Some(text) => reach(text)
            .map_err(|cause| out.add(place.key("scope").mark(), cause))
            .ok(),
    };
    let dimension = options.dimension.unwrap_or(DimensionWord::Requests);
    match options.limit {
        Some(0) => out.add(
            place.key("limit").mark(),
            "a limit of 0 would refuse every call\nhint: leave the quota out to learn it, or take the account away from the agents",
        ),
        Some(_) => {}
        None => missing("limit", "write `limit: 60`", out),
    }
    if dimension == DimensionWord::Concurrent {
        for (key, written) in [
            ("window", options.window.is_some()),
            ("kind", options.kind.is_some()),
            ("burst", options.burst.is_some()),
        ] {
            if written {
                out.add(
                    place.key(key).mark(),
                    format!("calls open at once have no `{key}`\nhint: leave it out"),
                );
            }
        }
        let most = u32::try_from(options.limit?).unwrap_or(u32::MAX);
        return (most > 0).then_some(DeclaredQuota {
            reach: reach?,
            limit: QuotaLimit::Concurrent(most),
        });
    }
    match options.window {
        Some(window) if window.0.is_zero() => {
            out.add(place.key("window").mark(), "a window can't be zero\nhint: write the time in which the limit holds, such as `60s`");
        }
        Some(_) => {}
        None => missing(
            "window",
            "write the time in which the limit holds, such as `window: 60s`",
            out,
        ),
    }
    let kind = kind(options, place, out);
    let window = options.window.map_or(Span::ZERO, |window| window.0);
    let limit = options.limit?;
    let per = units_of(dimension);
    let quota = Quota {
        dimension: dimension_of(dimension),
        limit: limit.saturating_mul(per),
        window,
        kind: match kind? {
            WindowKind::TokenBucket { burst } => WindowKind::TokenBucket {
                burst: burst.saturating_mul(per),
            },
            kind => kind,
        },
    };
    (limit > 0 && !window.is_zero()).then_some(DeclaredQuota {
        reach: reach?,
        limit: QuotaLimit::Window(quota),
    })
}

/// Units in which a dimension is counted, in one as it is written: money is written
/// in whole units of the account's currency and counted in millionths.
fn units_of(dimension: DimensionWord) -> u64 {
    match dimension {
        DimensionWord::Spend => 1_000_000,
        _ => 1,
    }
}

fn dimension_of(dimension: DimensionWord) -> Dimension {
    match dimension {
        DimensionWord::Requests => Dimension::Requests,
        DimensionWord::Tokens => Dimension::Tokens,
        DimensionWord::InputTokens => Dimension::InputTokens,
        DimensionWord::OutputTokens => Dimension::OutputTokens,
        DimensionWord::Points => Dimension::Points,
        DimensionWord::Spend => Dimension::Spend,
        DimensionWord::Concurrent => Dimension::Concurrent,
    }
}

fn kind(options: &QuotaOptions, place: Place<'_>, out: &mut Collector) -> Option<WindowKind> {
    let kind = options.kind.unwrap_or(KindWord::Unknown);
    match (kind, options.burst) {
        (KindWord::TokenBucket, None) => {
            if !place.has("burst") {
                out.add(place.key("kind").mark(), "a token bucket needs `burst`, what it holds\nhint: often the limit itself; `kind: unknown` is safe where nobody says");
            }
            None
        }
        (KindWord::TokenBucket, Some(0)) => {
            out.add(
                place.key("burst").mark(),
                "a bucket that holds nothing lets nothing through",
            );
            None
        }
        (KindWord::TokenBucket, Some(burst)) => Some(WindowKind::TokenBucket { burst }),
        (_, Some(_)) => {
            out.add(place.key("burst").mark(), "only a token bucket has a `burst`\nhint: write `kind: token_bucket`, or leave `burst` out");
            None
        }
        (KindWord::Sliding, None) => Some(WindowKind::Sliding),
        (KindWord::Fixed, None) => Some(WindowKind::Fixed),
        (KindWord::SlidingCounter, None) => Some(WindowKind::SlidingCounter),
        (KindWord::Unknown, None) => Some(WindowKind::Unknown),
    }
}

fn reach(text: &str) -> Result<QuotaReach, String> {
    let (kind, name) = match text.split_once(':') {
        Some((kind, name)) => (kind.trim(), Some(name.trim())),
        None => (text.trim(), None),
    };
    match (kind, name) {
        ("account", None) => Ok(QuotaReach::Account),
        ("credential", None) => Ok(QuotaReach::EachCredential),
        ("model", None) => Ok(QuotaReach::EachModel),
        ("endpoint", None) => Ok(QuotaReach::EachEndpoint),
        ("model", Some(name))
            if (1..=160).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic()) =>
        {
            Ok(QuotaReach::Model(name.to_owned()))
        }
        ("endpoint", Some(name)) => {
            Template::parse(name).map(|template| QuotaReach::Endpoint(template.as_str().to_owned()))
        }
        ("model", Some(_)) => Err("this can't be the name of a model".to_owned()),
        (word, _) => {
            let hint =
                meant(word, ["account", "credential", "model", "endpoint"]).unwrap_or_default();
            Err(format!(
                "`{}` is no scope of a quota\nhint: {hint}",
                shown(text)
            ))
        }
    }
}

/// Slots can be kept only where their number is known.
pub(super) fn reserve_interactive(
    options: &Options,
    place: Place<'_>,
    providers: &BTreeMap<Provider, ProviderSettings>,
    out: &mut Collector,
) {
    let Some(shared) = &options.shared_scope else {
        return;
    };
    let Some(reserved) = shared.reserve_interactive.filter(|reserved| *reserved > 0) else {
        return;
    };
    let at = place.key("shared_scope").key("reserve_interactive");
    let declared = providers
        .values()
        .flat_map(|it| &it.accounts)
        .flat_map(|it| &it.rules.quotas);
    let slots = declared.filter_map(|quota| match quota.limit {
        QuotaLimit::Concurrent(most) => Some(most),
        QuotaLimit::Window(_) => None,
    });
    match slots.chain(shared.max_concurrent_requests).min() {
        None => out.add(at.mark(), "slots can be kept only where their number is known\nhint: set `max_concurrent_requests` beside it"),
        Some(slots) if reserved >= slots => out.add(
            at.mark(),
            format!("{reserved} of {slots} slots for interactive work leave none for the rest\nhint: keep at least one, or lower `reserve_interactive`"),
        ),
        Some(_) => {}
    }
}
