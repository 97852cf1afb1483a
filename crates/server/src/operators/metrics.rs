//! Prometheus metrics, made from the state of the engines when they are asked
//! for. Label values are names from the configuration or closed words; an
//! account that is known only by its credential is shown as its hash.

use std::fmt::Write as _;

use rategov_store::JournalState;

use crate::driver::Driver;
use crate::gateway::serve::Gateway;

/// Accounts that are shown; the rest is summed up as `other`.
const ACCOUNTS_MAX: usize = 200;

/// All metrics in the text form.
pub(super) fn render(gateway: &Gateway) -> String {
    let driver: &Driver = &gateway.0.driver;
    let mut out = String::new();
    family(
        &mut out,
        "rategov_waiting",
        "gauge",
        "Calls that wait, by account and priority.",
    );
    family(
        &mut out,
        "rategov_on_the_wire",
        "gauge",
        "Calls that are open at the provider.",
    );
    family(
        &mut out,
        "rategov_escalations_open",
        "gauge",
        "Questions that nobody has answered.",
    );
    family(
        &mut out,
        "rategov_scope_remaining",
        "gauge",
        "Units left in the window.",
    );
    family(
        &mut out,
        "rategov_scope_limit",
        "gauge",
        "Units per window.",
    );
    family(
        &mut out,
        "rategov_scope_mode",
        "gauge",
        "1 for the mode that a scope is in.",
    );
    family(
        &mut out,
        "rategov_refusals_total",
        "counter",
        "Refusal events of a scope.",
    );
    family(
        &mut out,
        "rategov_echoes_total",
        "counter",
        "Refusals that belong to a known event.",
    );
    for (n, cell) in driver.cells().iter().enumerate() {
        let account = if n < ACCOUNTS_MAX {
            cell.account.as_str()
        } else {
            "other"
        };
        let account = escaped(account);
        driver.look(cell, |engine, now| {
            let ranks = ["interactive", "normal", "background"];
            for (rank, waiting) in ranks.iter().zip(engine.waiting_by_priority()) {
                let _ = writeln!(
                    out,
                    "rategov_waiting{{account=\"{account}\",priority=\"{rank}\"}} {waiting}"
                );
            }
            let open = engine.on_the_wire();
            let _ = writeln!(out, "rategov_on_the_wire{{account=\"{account}\"}} {open}");
            let asked = engine.escalations().count();
            let _ = writeln!(
                out,
                "rategov_escalations_open{{account=\"{account}\"}} {asked}"
            );
            for state in engine.scopes(now) {
                let scope = escaped(state.scope.as_str());
                let labels = format!("account=\"{account}\",scope=\"{scope}\"");
                if let Some(remaining) = state.remaining {
                    let _ = writeln!(out, "rategov_scope_remaining{{{labels}}} {remaining}");
                }
                if let Some(limit) = state.limit {
                    let _ = writeln!(out, "rategov_scope_limit{{{labels}}} {limit}");
                }
                let mode = state.mode.word();
                let _ = writeln!(out, "rategov_scope_mode{{{labels},mode=\"{mode}\"}} 1");
                let _ = writeln!(out, "rategov_refusals_total{{{labels}}} {}", state.refusals);
                let _ = writeln!(out, "rategov_echoes_total{{{labels}}} {}", state.echoes);
            }
        });
    }
    family(
        &mut out,
        "rategov_journal_free",
        "gauge",
        "Places left in the journal's queue.",
    );
    let _ = writeln!(out, "rategov_journal_free {}", driver.journal_free());
    family(
        &mut out,
        "rategov_journal_up",
        "gauge",
        "1 if the journal took the last thing that was to be written.",
    );
    let up = matches!(driver.journal_state(), JournalState::Takes { .. });
    let _ = writeln!(out, "rategov_journal_up {}", u8::from(up));
    family(
        &mut out,
        "rategov_upstream_connections",
        "gauge",
        "Connections to providers.",
    );
    let _ = writeln!(
        out,
        "rategov_upstream_connections {}",
        gateway.0.upstream.open_connections()
    );
    family(
        &mut out,
        "rategov_spool_memory_bytes",
        "gauge",
        "Bodies kept in memory.",
    );
    let _ = writeln!(
        out,
        "rategov_spool_memory_bytes {}",
        gateway.0.budget.memory_used()
    );
    out
}

fn family(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', " ")
}
