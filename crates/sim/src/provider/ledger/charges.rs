//! What calls took of the limits, as the ledger shows it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::provider::quota::Settled;
use crate::provider::usage::Usage;

/// What a model call took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Tokens {
    /// Tokens of the request.
    pub input: u64,
    /// Those of them that were cached.
    pub cached: u64,
    /// Tokens that were produced before it ended.
    pub output: u64,
}

impl Tokens {
    /// Of a call whose answer came to so much.
    pub(in crate::provider) fn of(usage: &Usage, output: u64) -> Tokens {
        Tokens {
            input: usage.input,
            cached: usage.cached,
            output,
        }
    }
}

/// What all calls took of one limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QuotaTotals {
    /// Calls that it refused first.
    pub refused: u64,
    /// Calls that ended.
    pub ended: u64,
    /// Units that ended calls were charged when they arrived.
    pub at_arrival: u64,
    /// Units that they were charged in the end.
    pub in_the_end: u64,
}

/// The totals by the names of the limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct QuotaCounts(BTreeMap<String, QuotaTotals>);

impl QuotaCounts {
    /// The totals of one limit.
    pub fn of(&self, rule: &str) -> QuotaTotals {
        self.0.get(rule).copied().unwrap_or_default()
    }

    /// A limit refused a call. Bounded by the number of rules.
    pub(super) fn refuse(&mut self, rule: &str) {
        self.0.entry(rule.to_owned()).or_default().refused += 1;
    }

    /// A call ended.
    pub(super) fn settle(&mut self, settled: &Settled) {
        let totals = self.0.entry(settled.rule.clone()).or_default();
        totals.ended += 1;
        totals.at_arrival = totals.at_arrival.saturating_add(settled.at_arrival);
        totals.in_the_end = totals.in_the_end.saturating_add(settled.in_the_end);
    }
}
