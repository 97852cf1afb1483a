//! What an experiment brought, in numbers. Arrivals and refusals are the
//! provider's own count; the agents only know when they asked.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// One request as the provider's ledger has it.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    /// Since the experiment began, in seconds.
    pub(super) at_s: f64,
    /// Whether the quota let it in.
    pub(super) accepted: bool,
    /// Its path.
    pub(super) path: String,
}

/// One call as its agent saw it, in seconds since the experiment began.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) agent: String,
    pub(super) interactive: bool,
    pub(super) path: String,
    pub(super) started_s: f64,
    pub(super) ended_s: f64,
    pub(super) succeeded: bool,
}

/// The figures of one experiment.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) arrived: usize,
    pub(super) refused: usize,
    pub(super) utilisation: f64,
    pub(super) interactive_wait_p50_s: f64,
    pub(super) interactive_wait_p95_s: f64,
    pub(super) jain: f64,
    pub(super) failed: usize,
    /// Until the last background call was done.
    pub(super) lasted_s: f64,
    /// Interactive waits, for the plot: when asked, how long waited.
    pub(super) waits: Vec<(f64, f64)>,
    /// Arrivals, for the plot.
    pub(super) arrivals: Vec<Arrival>,
}

/// What the provider allows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    pub(super) units: f64,
    pub(super) per_s: f64,
}

/// Computes the figures. `lasted_s` is the time in which background work was
/// queued: only then can the quota be used up.
pub(super) fn of(
    seen: &[Seen],
    arrivals: Vec<Arrival>,
    allowed: Allowed,
    lasted_s: f64,
    unfinished: usize,
) -> Figures {
    let within: Vec<&Arrival> = arrivals.iter().filter(|a| a.at_s <= lasted_s).collect();
    let accepted = within.iter().filter(|a| a.accepted).count();
    let refused = within.len() - accepted;
    let mut let_in: BTreeMap<&str, f64> = BTreeMap::new();
    for arrival in arrivals.iter().filter(|arrival| arrival.accepted) {
        let_in.entry(&arrival.path).or_insert(arrival.at_s);
    }
    // A person waits from asking until the provider begins; a call that never
    // got in waited as long as it lived.
    let mut waits: Vec<(f64, f64)> = seen
        .iter()
        .filter(|call| call.interactive)
        .map(|call| {
            let in_at = let_in
                .get(call.path.as_str())
                .copied()
                .unwrap_or(call.ended_s);
            (call.started_s, (in_at - call.started_s).max(0.0))
        })
        .collect();
    waits.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut sorted: Vec<f64> = waits.iter().map(|(_, wait)| *wait).collect();
    sorted.sort_by(f64::total_cmp);

    let mut speeds: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for call in seen.iter().filter(|call| !call.interactive) {
        let speed = speeds.entry(&call.agent).or_default();
        speed.0 += f64::from(u8::from(call.succeeded));
        speed.1 = speed.1.max(call.ended_s);
    }
    let speeds: Vec<f64> = speeds
        .values()
        .map(|(done, last)| done / last.max(f64::MIN_POSITIVE))
        .collect();
    Figures {
        arrived: within.len(),
        refused,
        utilisation: accepted as f64 / (allowed.units * lasted_s / allowed.per_s),
        interactive_wait_p50_s: percentile(&sorted, 0.50),
        interactive_wait_p95_s: percentile(&sorted, 0.95),
        jain: jain(&speeds),
        failed: unfinished + seen.iter().filter(|call| !call.succeeded).count(),
        lasted_s,
        waits,
        arrivals,
    }
}

impl Figures {
    /// The documented form.
    pub(super) fn json(&self) -> Value {
        let round = |x: f64| (x * 10_000.0).round() / 10_000.0;
        json!({
            "arrived": self.arrived,
            "refused": self.refused,
            "utilisation": round(self.utilisation.clamp(0.0, 1.0)),
            "interactive_wait_p50_s": round(self.interactive_wait_p50_s),
            "interactive_wait_p95_s": round(self.interactive_wait_p95_s),
            "jain": round(self.jain),
            "failed": self.failed,
        })
    }
}

/// Nearest-rank percentile of sorted numbers; 0 if there are none.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
}

/// Jain's index: 1 if all are equal, 1/n if one has everything.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    if squares == 0.0 {
        0.0
    } else {
        sum * sum / (shares.len() as f64 * squares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(agent: &str, interactive: bool, path: &str, times: (f64, f64)) -> Seen {
        Seen {
            agent: agent.to_owned(),
            interactive,
            path: path.to_owned(),
            started_s: times.0,
            ended_s: times.1,
            succeeded: true,
        }
    }

    fn arrival(at_s: f64, accepted: bool, path: &str) -> Arrival {
        Arrival {
            at_s,
            accepted,
            path: path.to_owned(),
        }
    }

    #[test]
    fn a_wait_ends_when_the_provider_lets_the_call_in() {
        let seen = [
            call("p", true, "/a", (1.0, 5.0)),
            call("b", false, "/b", (0.0, 10.0)),
        ];
        let arrivals = vec![
            arrival(1.1, false, "/a"),
            arrival(4.0, true, "/a"),
            arrival(2.0, true, "/b"),
        ];
        let figures = of(
            &seen,
            arrivals,
            Allowed {
                units: 60.0,
                per_s: 10.0,
            },
            10.0,
            0,
        );
        assert_eq!(
            (figures.arrived, figures.refused, figures.failed),
            (3, 1, 0)
        );
        assert!((figures.interactive_wait_p95_s - 3.0).abs() < 1e-9);
        assert!((figures.utilisation - 2.0 / 60.0).abs() < 1e-9);
    }

    #[test]
    fn fairness_is_one_for_equals_and_a_share_for_a_monopoly() {
        assert!((jain(&[2.0, 2.0, 2.0]) - 1.0).abs() < 1e-12);
        assert!((jain(&[3.0, 0.0, 0.0]) - 1.0 / 3.0).abs() < 1e-12);
        assert!((jain(&[])).abs() < 1e-12);
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let sorted: Vec<f64> = (1..=20).map(f64::from).collect();
        assert!((percentile(&sorted, 0.95) - 19.0).abs() < 1e-12);
        assert!((percentile(&sorted, 0.5) - 10.0).abs() < 1e-12);
        assert!(percentile(&[], 0.5).abs() < 1e-12);
    }
}
