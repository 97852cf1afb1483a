//! Providers: what the user wrote over what the preset knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderName;
use rategov_core::id::Provider;
use rategov_core::policy::Profile;
use rategov_core::time::Span;

use super::policy::Policy;
use super::{above_zero, account, base_url, dialect, endpoint, meter};
use crate::config::mistake::{Collector, nearest};
use crate::config::options::{Options, ProviderOptions, SdkOptions};
use crate::config::place::Place;
use crate::config::presets::Presets;
use crate::config::settings::{
    AccountRules, CredentialSlot, PlainHttp, ProviderSettings, SdkVariables, Timeouts,
};
use crate::config::units::shown;
use crate::route::target::RESERVED;

/// Most providers.
const PROVIDERS_MAX: usize = 1_000;

pub(super) fn providers(
    options: &Options,
    place: Place<'_>,
    presets: &Presets,
    policy: &Policy,
    out: &mut Collector,
) -> BTreeMap<Provider, ProviderSettings> {
    let at = place.key("providers");
    let mut providers = BTreeMap::new();
    let Some(written) = &options.providers else {
        // Nothing said: every preset that knows where its provider is.
        for name in presets.callable() {
            let options = ProviderOptions::default();
            let found = provider(name, &options, Place::nowhere(), presets, policy, out);
            providers.extend(found.map(|it| (it.name.clone(), it)));
        }
        return providers;
    };
    if written.0.len() > PROVIDERS_MAX {
        out.add(
            at.mark(),
            format!("at most {PROVIDERS_MAX} providers can be configured"),
        );
    }
    for (name, options) in written.iter().take(PROVIDERS_MAX) {
        let found = provider(name, options, at.key(name), presets, policy, out);
        providers.extend(found.map(|it| (it.name.clone(), it)));
    }
    providers
}

fn provider(
    name: &str,
    written: &ProviderOptions,
    place: Place<'_>,
    presets: &Presets,
    policy: &Policy,
    out: &mut Collector,
) -> Option<ProviderSettings> {
    let provider = provider_name(name)
        .map_err(|cause| out.add(place.mark(), cause))
        .ok();
    let preset_name = match &written.preset {
        Some(wanted) if presets.get(wanted).is_none() => {
            let hint = match nearest(wanted, presets.names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", presets.list()),
            };
            out.add(
                place.key("preset").mark(),
                format!("there is no preset `{}`\nhint: {hint}", shown(wanted)),
            );
            return None;
        }
        Some(wanted) => wanted.as_str(),
        None if presets.get(name).is_some() => name,
        None => Presets::GENERIC,
    };
    let preset = presets.get(preset_name);
    let options = match preset {
        Some(preset) => written.over(preset),
        None => written.clone(),
    };
    let plain_http = match options.allow_plain_http {
        Some(true) => PlainHttp::Anywhere,
        _ => PlainHttp::LoopbackOnly,
    };
    let base = match &options.base_url {
        Some(url) => base_url::parse(url, plain_http)
            .map_err(|cause| out.add(place.key("base_url").mark(), cause))
            .ok(),
        None => {
            if !place.has("base_url") {
                let add = "add `base_url: https://…`".to_owned();
                let (cause, hint) = match preset_name {
                    Presets::GENERIC => {
                        let near = nearest(name, presets.names());
                        let hint = near.map(|near| format!("did you mean `{near}`?"));
                        ("there is no preset of that name", hint.unwrap_or(add))
                    }
                    _ => (
                        "each customer of this provider has an address of its own",
                        add,
                    ),
                };
                let name = shown(name);
                out.add(
                    place.mark(),
                    format!("provider `{name}` has no `base_url`, and {cause}\nhint: {hint}"),
                );
            }
            None
        }
    };
    let path_prefix = path_prefix(&options, place, out);
    // A base that ends with the prefix says the same twice.
    let base = base.map(|mut base| {
        if let Some(path) = base.path.strip_suffix(path_prefix.as_str()) {
            base.path = path.to_owned();
        }
        base
    });
    let slot = slot(&options, place, out);
    let refusals = refusals(options.refusals_unprocessed.as_deref(), place, out);
    let unmatched_profile = Profile {
        refusals_unprocessed: refusals,
        ..Profile::nothing()
    };
    // The operator's endpoints come first: among rules for the same calls the first wins.
    let own = written.endpoints.as_deref().unwrap_or_default();
    let mut endpoints = endpoint::endpoints(own, place.key("endpoints"), &unmatched_profile, out);
    if let Some(known) = preset.and_then(|preset| preset.endpoints.as_deref()) {
        endpoints.extend(endpoint::endpoints(
            known,
            Place::nowhere(),
            &unmatched_profile,
            out,
        ));
    }
    let named = preset.map(|preset| (preset_name, preset));
    let errors = dialect::errors(written, named, presets, place, out);
    let dialect = dialect::dialect(written, preset, place, out);
    let heard = dialect.fields().iter().map(|field| field.reach);
    let mut meter = meter::rules(written, preset, presets, place, out);
    meter.points_beside = meter::tell_points(&dialect);
    let mut account_policy = policy.account.clone();
    account_policy.charge = meter::charge(written, preset);
    let rules = AccountRules {
        policy: account_policy,
        max_concurrent: policy.max_concurrent,
        quotas: Vec::new(),
        heard: heard
            .chain(errors.iter().filter_map(|rule| rule.reach))
            .collect(),
    };
    let accounts = account::accounts(name, written, &slot, &rules, place.key("accounts"), out);
    let timeouts = timeouts(&options, place, out);
    let identity_headers = header_names(&options, place, out);
    Some(ProviderSettings {
        name: provider?,
        preset: preset.map(|_| preset_name.to_owned()),
        base: base?,
        timeouts,
        slot,
        identity_headers,
        sdk: sdk(options.sdk.as_ref(), place.key("sdk"), out),
        accounts,
        undeclared: rules,
        endpoints,
        unmatched_profile,
        path_prefix,
        whose: options.whose,
        dialect,
        errors,
        meter: Arc::new(meter),
    })
}

/// A provider's name is the first segment of a path, so it needs no encoding.
fn provider_name(name: &str) -> Result<Provider, String> {
    if RESERVED.contains(&name) {
        return Err(format!(
            "`{name}` is the governor's own path and can't name a provider"
        ));
    }
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-._".contains(&b);
    let starts = name
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphanumeric());
    if !starts || name.len() > 64 || !name.bytes().all(plain) {
        return Err(format!(
            "`{}` can't name a provider: the name is part of its gateway path\nhint: lower-case letters, digits, `-`, `_` and `.`, at most 64",
            shown(name)
        ));
    }
    Provider::new(name).map_err(|error| error.to_string())
}

fn path_prefix(options: &ProviderOptions, place: Place<'_>, out: &mut Collector) -> String {
    let prefix = options
        .path_prefix
        .as_deref()
        .unwrap_or_default()
        .trim_end_matches('/');
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~/".contains(c);
    let dots = prefix
        .split('/')
        .any(|segment| matches!(segment, "." | ".."));
    let rooted = prefix.is_empty() || prefix.starts_with('/');
    if !rooted || dots || prefix.len() > 100 || !prefix.chars().all(plain) {
        out.add(
            place.key("path_prefix").mark(),
            "this is no beginning of a path\nhint: write `/v1`, or `\"\"` for none",
        );
        return String::new();
    }
    prefix.to_owned()
}

fn timeouts(options: &ProviderOptions, place: Place<'_>, out: &mut Collector) -> Timeouts {
    let mut time = |value, default_secs, key: &str| {
        above_zero(value, Span::from_secs(default_secs), place.key(key), out)
    };
    Timeouts {
        connect: time(options.connect_timeout, 10, "connect_timeout"),
        // Ten minutes is what the official SDKs of model providers wait.
        response: time(options.response_timeout, 600, "response_timeout"),
        idle: time(options.idle_timeout, 600, "idle_timeout"),
    }
}

fn slot(options: &ProviderOptions, place: Place<'_>, out: &mut Collector) -> CredentialSlot {
    let default = CredentialSlot {
        header: http::header::AUTHORIZATION,
        scheme: Some("Bearer".to_owned()),
    };
    account::slot(
        options.credential_header.as_deref(),
        options.credential_scheme.as_deref(),
        &default,
        place,
        out,
    )
}

/// Statuses that surely mean "not processed".
pub(super) fn refusals(
    statuses: Option<&[u16]>,
    place: Place<'_>,
    out: &mut Collector,
) -> Vec<u16> {
    let Some(statuses) = statuses else {
        return Profile::nothing().refusals_unprocessed;
    };
    for (index, status) in statuses.iter().enumerate() {
        if !matches!(status, 429 | 503) {
            out.add(
                place.key("refusals_unprocessed").item(index).mark(),
                format!("{status} is never proof that nothing was processed\nhint: only 429 and 503 can be"),
            );
        }
    }
    statuses.to_vec()
}

fn header_names(
    options: &ProviderOptions,
    place: Place<'_>,
    out: &mut Collector,
) -> Vec<HeaderName> {
    let names = options.identity_headers.as_deref().unwrap_or_default();
    let mut known = Vec::new();
    for (index, name) in names.iter().take(16).enumerate() {
        match HeaderName::from_bytes(name.as_bytes()) {
            Ok(name) => known.push(name),
            Err(_) => out.add(
                place.key("identity_headers").item(index).mark(),
                format!("`{}` is not the name of a header", shown(name)),
            ),
        }
    }
    known
}

fn sdk(options: Option<&SdkOptions>, place: Place<'_>, out: &mut Collector) -> SdkVariables {
    let options = options.cloned().unwrap_or_default();
    let is_variable = |name: &str| {
        !name.is_empty()
            && name.len() <= 100
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let mut variables = SdkVariables::default();
    for (index, variable) in options
        .base_url
        .unwrap_or_default()
        .into_iter()
        .take(16)
        .enumerate()
    {
        let at = place.key("base_url").item(index);
        let name = variable.variable.unwrap_or_default();
        let suffix = variable.suffix.unwrap_or_default();
        if !is_variable(&name) {
            out.add(
                at.key("variable").mark(),
                "this is not the name of an environment variable",
            );
        } else if !(suffix.is_empty() || suffix.starts_with('/')) {
            out.add(
                at.key("suffix").mark(),
                "a suffix is empty or begins with `/`",
            );
        } else {
            variables.base_url.push((name, suffix));
        }
    }
    for (index, name) in options
        .key
        .unwrap_or_default()
        .into_iter()
        .take(16)
        .enumerate()
    {
        if is_variable(&name) {
            variables.key.push(name);
        } else {
            out.add(
                place.key("key").item(index).mark(),
                "this is not the name of an environment variable",
            );
        }
    }
    variables
}
