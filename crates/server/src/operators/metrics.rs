//! Prometheus metrics, made from the state of the engines when they are asked
//! for. Label values are names from the configuration or closed words; an
//! account that is known only by its credential is shown as its hash.
//!
//! Samples are collected first and written family by family, each series once:
//! a scrape with a series twice is refused as a whole. What is beyond the bounds
//! is summed up as `other`:
//!
//! ```text
//! accounts 1 … 200    rategov_waiting{account="openai/main",…} 3
//! accounts 201 … 950  rategov_waiting{account="other",…} 17      the sum of 750
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rategov_core::ledger::ScopeState;
use rategov_core::word::Priority;
use rategov_store::JournalState;

use crate::driver::Driver;
use crate::gateway::serve::Gateway;

/// Accounts that are shown; the rest is summed up as `other`.
const ACCOUNTS_MAX: usize = 200;
/// Scopes that are shown, of all accounts; the rest is summed up as `other`.
const SCOPES_MAX: usize = 2_000;
/// What the rest is called.
const OTHER: &str = "other";

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    Waiting,
    OnTheWire,
    EscalationsOpen,
    ScopeRemaining,
    ScopeLimit,
    ScopeUsed,
    ScopeCeiling,
    ScopeMode,
    Refusals,
    Echoes,
    JournalUp,
    JournalFree,
    Runners,
    UpstreamConnections,
    SpoolMemory,
}

impl Family {
    /// Name, kind and help.
    #[rustfmt::skip]
    const fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Family::Waiting => ("rategov_waiting", "gauge", "Calls that wait, by account and priority."),
            Family::OnTheWire => ("rategov_on_the_wire", "gauge", "Calls that are open at the provider."),
            Family::EscalationsOpen => ("rategov_escalations_open", "gauge", "Questions that nobody has answered."),
            Family::ScopeRemaining => ("rategov_scope_remaining", "gauge", "Units left in the window."),
            Family::ScopeLimit => ("rategov_scope_limit", "gauge", "Units per window."),
            Family::ScopeUsed => ("rategov_scope_used_permille", "gauge", "Thousandths of the limit that were used within the last window."),
            Family::ScopeCeiling => ("rategov_scope_ceiling_permille", "gauge", "Thousandths of the limit that can be used for long."),
            Family::ScopeMode => ("rategov_scope_mode", "gauge", "1 for the mode that a scope is in; of `other`, how many are."),
            Family::Refusals => ("rategov_refusals_total", "counter", "Refusal events of a scope."),
            Family::Echoes => ("rategov_echoes_total", "counter", "Refusals that belong to a known event."),
            Family::JournalUp => ("rategov_journal_up", "gauge", "1 if the journal took the last thing that was to be written."),
            Family::JournalFree => ("rategov_journal_free", "gauge", "Places left in the journal's queue."),
            Family::Runners => ("rategov_runners", "gauge", "Actions that are run now, whether they wait or are out."),
            Family::UpstreamConnections => ("rategov_upstream_connections", "gauge", "Connections to providers."),
            Family::SpoolMemory => ("rategov_spool_memory_bytes", "gauge", "Bodies kept in memory."),
        }
    }
}

/// All metrics in the text form.
pub(super) fn render(gateway: &Gateway) -> String {
    let driver: &Driver = &gateway.0.driver;
    let mut samples = Samples::default();
    for cell in driver.cells() {
        let account = cell.account.as_str();
        driver.look(&cell, |engine, now| {
            let counts = Counts {
                waiting: engine.waiting_by_priority(),
                on_the_wire: engine.on_the_wire(),
                escalations: engine.escalations().count(),
            };
            samples.account(account, &counts, &engine.scopes(now));
        });
    }
    let up = matches!(driver.journal_state(), JournalState::Takes { .. });
    samples.add(Family::JournalUp, &[], u64::from(up));
    samples.add(Family::JournalFree, &[], driver.journal_free() as u64);
    samples.add(Family::Runners, &[], driver.runners() as u64);
    let connections = gateway.0.upstream.open_connections();
    samples.add(Family::UpstreamConnections, &[], connections as u64);
    let memory = gateway.0.budget.memory_used();
    samples.add(Family::SpoolMemory, &[], memory);
    samples.text()
}

/// What is counted of one account.
struct Counts {
    waiting: [usize; 3],
    on_the_wire: usize,
    escalations: usize,
}

/// Samples by family and labels.
#[derive(Default)]
struct Samples {
    values: BTreeMap<Family, BTreeMap<String, u64>>,
    accounts: usize,
    scopes: usize,
}

impl Samples {
    /// Adds what is known of an account.
    fn account(&mut self, account: &str, counts: &Counts, scopes: &[ScopeState]) {
        self.accounts += 1;
        let shown = self.accounts <= ACCOUNTS_MAX;
        let account = if shown { account } else { OTHER };
        let of = ("account", account);
        for (rank, waiting) in Priority::ALL.iter().zip(counts.waiting) {
            let labels = [of, ("priority", rank.word())];
            self.add(Family::Waiting, &labels, waiting as u64);
        }
        self.add(Family::OnTheWire, &[of], counts.on_the_wire as u64);
        self.add(Family::EscalationsOpen, &[of], counts.escalations as u64);
        for state in scopes {
            self.scope(of, state);
        }
    }

    fn scope(&mut self, of: (&str, &str), state: &ScopeState) {
        let shown = of.1 != OTHER && self.scopes < SCOPES_MAX;
        self.scopes += usize::from(shown);
        let name = if shown { state.scope.as_str() } else { OTHER };
        let labels = [of, ("scope", name)];
        if shown {
            // Of different limits a sum says nothing.
            if let Some(remaining) = state.remaining {
                self.add(Family::ScopeRemaining, &labels, remaining);
            }
            if let Some(limit) = state.limit {
                self.add(Family::ScopeLimit, &labels, limit);
            }
            if let Some(used) = state.used_permille {
                self.add(Family::ScopeUsed, &labels, u64::from(used));
            }
            if let Some(ceiling) = state.ceiling_permille {
                self.add(Family::ScopeCeiling, &labels, u64::from(ceiling));
            }
        }
        let mode = ("mode", state.mode.word());
        self.add(Family::ScopeMode, &[of, labels[1], mode], 1);
        self.add(Family::Refusals, &labels, state.refusals);
        self.add(Family::Echoes, &labels, state.echoes);
    }

    /// Adds to a series; one that is there is summed up.
    fn add(&mut self, family: Family, labels: &[(&str, &str)], value: u64) {
        let mut text = String::new();
        for (name, value) in labels {
            let comma = if text.is_empty() { "" } else { "," };
            let _ = write!(text, "{comma}{name}=\"{}\"", escaped(value));
        }
        let family = self.values.entry(family).or_default();
        let sum = family.entry(text).or_default();
        *sum = sum.saturating_add(value);
    }

    fn text(&self) -> String {
        let mut out = String::new();
        for (family, samples) in &self.values {
            let (name, kind, help) = family.words();
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in samples {
                let _ = match labels.as_str() {
                    "" => writeln!(out, "{name} {value}"),
                    labels => writeln!(out, "{name}{{{labels}}} {value}"),
                };
            }
        }
        out
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rategov_core::engine::Engine;
    use rategov_core::id::{Account, Scope};
    use rategov_core::policy::AccountPolicy;
    use rategov_core::time::Moment;

    use super::*;

    /// The scopes of an account that nobody has called yet.
    fn scopes(account: &str) -> Vec<ScopeState> {
        let engine = Engine::restore(
            Account::new(account).unwrap(),
            Scope::new("account:main").unwrap(),
            AccountPolicy::default(),
            Moment::START,
            crate::driver::chance(),
            rategov_core::record::Tables::default(),
            &BTreeMap::new(),
        );
        engine.scopes(Moment::START)
    }

    fn filled(accounts: usize) -> Samples {
        let mut samples = Samples::default();
        let scopes = scopes("openai/main");
        assert!(!scopes.is_empty());
        for n in 1..=accounts {
            let counts = Counts {
                waiting: [1, 2, 3],
                on_the_wire: n,
                escalations: 0,
            };
            samples.account(&format!("openai/{n:04}"), &counts, &scopes);
        }
        samples
    }

    #[test]
    fn no_series_occurs_twice_and_the_rest_is_summed_up() {
        let text = filled(203).text();
        let series: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.rsplit_once(' '))
            .map(|(series, _)| series)
            .collect();
        let distinct: BTreeSet<&str> = series.iter().copied().collect();
        assert_eq!(series.len(), distinct.len());
        for line in [
            "rategov_on_the_wire{account=\"openai/0200\"} 200",
            "rategov_on_the_wire{account=\"other\"} 606",
            "rategov_waiting{account=\"other\",priority=\"background\"} 9",
            "rategov_scope_mode{account=\"other\",scope=\"other\",mode=\"normal\"} 3",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
        assert!(!text.contains("openai/0201"), "{text}");
    }

    #[test]
    fn the_samples_of_a_family_stand_together_below_its_words() {
        let text = filled(2).text();
        let mut seen = BTreeSet::new();
        let mut family = "";
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                family = rest.split(' ').next().unwrap();
                assert!(seen.insert(family), "{family} begins twice");
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                assert_eq!(name, family, "{line}");
            }
        }
        assert_eq!(seen.len(), 6, "{seen:?}");
    }

    #[test]
    fn the_used_share_stands_beside_its_ceiling_and_is_of_no_sum() {
        let mut samples = Samples::default();
        let state = ScopeState {
            used_permille: Some(912),
            ceiling_permille: Some(980),
            ..scopes("openai/main").remove(0)
        };
        samples.scope(("account", "openai/main"), &state);
        samples.scope(("account", OTHER), &state);
        let text = samples.text();
        for line in [
            "rategov_scope_used_permille{account=\"openai/main\",scope=\"account:main\"} 912",
            "rategov_scope_ceiling_permille{account=\"openai/main\",scope=\"account:main\"} 980",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
        assert_eq!(text.matches("\nrategov_scope_used_permille{").count(), 1);
    }

    #[test]
    fn more_scopes_than_are_shown_are_summed_up() {
        let mut samples = Samples::default();
        let state = scopes("openai/main").remove(0);
        for n in 0..SCOPES_MAX + 5 {
            let scope = Scope::new(&format!("model:m{n}")).unwrap();
            let state = ScopeState {
                scope,
                refusals: 2,
                ..state.clone()
            };
            samples.scope(("account", "openai/main"), &state);
        }
        let text = samples.text();
        let rest = "rategov_refusals_total{account=\"openai/main\",scope=\"other\"} 10";
        assert!(text.lines().any(|it| it == rest), "{rest}");
        let shown = text.matches("\nrategov_refusals_total{").count();
        assert_eq!(shown, SCOPES_MAX + 1);
    }
}
