//! From the configuration as written to the configuration as meant.
//!
//! Every function here takes options and the [`Place`] beside them, adds what
//! contradicts itself to the collector, and gives the best value it can: the
//! default where a value is impossible. So one reading finds every mistake, and a
//! result is used only if none was found.

mod account;
mod agents;
mod base_url;
pub(super) mod dialect;
mod endpoint;
mod meter;
mod policy;
mod provider;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use rategov_core::time::Span;

use super::mistake::Collector;
use super::options::{ListenOptions, Options, SpoolOptions};
use super::place::Place;
use super::presets::Presets;
use super::settings::{EscalationSettings, Listen, SendNewOperation, Settings, SpoolLimits};
use super::units::{SizeText, SpanText, shown};

/// Longest time that a caller can be held.
const HOLD_MAX: Span = Span::from_secs(24 * 3600);

/// Checks everything.
pub(crate) fn settings(
    options: &Options,
    place: Place<'_>,
    presets: &Presets,
    out: &mut Collector,
) -> Settings {
    let policy = policy::policy(options, place, out);
    let listen = listen(options.listen.as_ref(), place.key("listen"), out);
    let providers = provider::providers(options, place, presets, &policy, out);
    account::reserve_interactive(options, place, &providers, out);
    let agents = agents::agents(options, place.key("agents"), &providers, out);
    let settings = Settings {
        data_folder: data_folder(options.store.as_deref(), place.key("store"), out),
        hold: hold(options.hold, place.key("hold"), out),
        spool: spool(options.spool.as_ref(), place.key("spool"), out),
        max_replay_body: options.max_replay_body.map_or(32_000_000, |size| size.0),
        client_stall: above_zero(
            options.client_stall,
            Span::from_secs(60),
            place.key("client_stall"),
            out,
        ),
        classes: policy.account.classes.clone(),
        task: policy.task,
        escalation: EscalationSettings {
            expires: policy.account.escalation_expires,
            send_new_operation: match options.escalation.as_ref() {
                Some(it) if it.allow_send_new_operation == Some(true) => SendNewOperation::Offered,
                _ => SendNewOperation::Withheld,
            },
        },
        listen,
        providers,
        agents,
    };
    whole(&settings, place, out);
    settings
}

/// What only shows when all parts are known.
fn whole(settings: &Settings, place: Place<'_>, out: &mut Collector) {
    let room = settings
        .spool
        .memory_bytes
        .saturating_add(settings.spool.disk_bytes);
    if settings.max_replay_body > room {
        out.add(
            place.key("max_replay_body").mark(),
            "`max_replay_body` is more than the whole spool holds\nhint: raise `spool.disk`, or lower `max_replay_body`",
        );
    }
    let open_to_others = !settings.listen.agents.ip().is_loopback();
    if open_to_others && settings.agents.is_empty() {
        for provider in settings.providers.values() {
            for account in provider
                .accounts
                .iter()
                .filter(|it| !it.credentials.is_empty())
            {
                let at = place
                    .key("providers")
                    .key(provider.name.as_str())
                    .key("accounts");
                out.add(
                    at.key(&account.name).key("credential").mark(),
                    format!(
                        "anybody who reaches {} could use this credential: no agents are configured\nhint: add `agents`, or listen on 127.0.0.1",
                        settings.listen.agents
                    ),
                );
            }
        }
    }
}

fn listen(options: Option<&ListenOptions>, place: Place<'_>, out: &mut Collector) -> Listen {
    let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut address = |text: Option<&String>, key: &str, default: SocketAddr| match text {
        None => default,
        Some(text) => text.trim().parse().unwrap_or_else(|_| {
            out.add(
                place.key(key).mark(),
                format!(
                    "`{}` is not an address\nhint: write `127.0.0.1:{}` or `[::1]:{}`",
                    shown(text),
                    default.port(),
                    default.port()
                ),
            );
            default
        }),
    };
    let agents = address(
        options.and_then(|it| it.agents.as_ref()),
        "agents",
        local(7878),
    );
    let operators = address(
        options.and_then(|it| it.operators.as_ref()),
        "operators",
        local(7879),
    );
    if agents == operators && agents.port() != 0 {
        out.add(
            place.key("operators").mark(),
            "agents and operators can't share a listener: an agent must not reach the operators' API\nhint: use two ports",
        );
    }
    let mut operator_hosts = BTreeSet::new();
    let hosts = options
        .and_then(|it| it.operator_hosts.as_deref())
        .unwrap_or_default();
    for (index, host) in hosts.iter().enumerate() {
        let host = host.to_ascii_lowercase();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        if host.is_empty() || host.len() > 255 || !host.chars().all(plain) {
            out.add(
                place.key("operator_hosts").item(index).mark(),
                format!("`{}` is not a host name\nhint: write `governor.example.com`, without scheme or path", shown(&host)),
            );
        } else {
            operator_hosts.insert(host);
        }
    }
    Listen {
        agents,
        operators,
        operator_hosts,
    }
}

fn data_folder(store: Option<&str>, place: Place<'_>, out: &mut Collector) -> PathBuf {
    let default = PathBuf::from("rategov-data");
    match store {
        None => default,
        Some(text) => match text.split_once(':') {
            Some(("sqlite", folder)) if !folder.is_empty() => PathBuf::from(folder),
            Some(("postgres" | "postgresql", _)) => {
                out.add(
                    place.mark(),
                    "a PostgreSQL store is not available in this version\nhint: use `sqlite:rategov-data`",
                );
                default
            }
            _ => {
                // Not shown: a store's address can hold a password.
                out.add(
                    place.mark(),
                    "this is no store\nhint: write `sqlite:FOLDER`",
                );
                default
            }
        },
    }
}

fn hold(hold: Option<SpanText>, place: Place<'_>, out: &mut Collector) -> Span {
    let hold = hold.map_or(Span::from_secs(60), |span| span.0);
    if hold > HOLD_MAX {
        out.add(
            place.mark(),
            "a caller can be held for a day at most\nhint: use `Prefer: respond-async` for work that waits longer",
        );
        return HOLD_MAX;
    }
    hold
}

fn spool(options: Option<&SpoolOptions>, place: Place<'_>, out: &mut Collector) -> SpoolLimits {
    let bytes = |size: Option<SizeText>, default: u64| size.map_or(default, |size| size.0);
    let memory_bytes = bytes(options.and_then(|it| it.memory), 256_000_000);
    if memory_bytes < 1_000_000 {
        out.add(
            place.key("memory").mark(),
            "the spool needs memory for the bodies on their way\nhint: at least `1MB`",
        );
    }
    SpoolLimits {
        memory_bytes,
        disk_bytes: bytes(options.and_then(|it| it.disk), 4_000_000_000),
    }
}

/// A time that can't be zero.
fn above_zero(
    span: Option<SpanText>,
    default: Span,
    place: Place<'_>,
    out: &mut Collector,
) -> Span {
    match span {
        Some(SpanText(span)) if span.is_zero() => {
            out.add(
                place.mark(),
                "this time can't be zero\nhint: leave the key out for the default",
            );
            default
        }
        Some(SpanText(span)) => span,
        None => default,
    }
}
