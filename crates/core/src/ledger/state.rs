//! The readable state of a scope (R-LEDGER-3), and what a restart saves of it.

use super::Ledger;
use super::gate::Gate;
use super::limits::Origin;
use super::scope::ScopeLedger;
use crate::id::Scope;
use crate::record::{AttemptRow, ScopeRow};
use crate::time::{Moment, Span};
use crate::word::Mode;

/// One scope, for people and agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeState {
    /// The scope.
    pub scope: Scope,
    /// Its mode.
    pub mode: Mode,
    /// Nothing before this; `None` if it is not known or something may go now.
    pub next_allowed_at: Option<Moment>,
    /// Units per window.
    pub limit: Option<u64>,
    /// The window's length.
    pub window: Option<Span>,
    /// Units left: what the window leaves, or less if the provider says less.
    pub remaining: Option<u64>,
    /// Until more is back.
    pub reset_after: Option<Span>,
    /// Units spent in the window.
    pub spent: u64,
    /// Units reserved for calls whose first byte has not left.
    pub reserved: u64,
    /// Distance between two calls, where they are paced.
    pub spacing: Option<Span>,
    /// Calls open now.
    pub in_flight: u32,
    /// Most calls open at once.
    pub max_concurrent: Option<u32>,
    /// Where the limits come from.
    pub origin: Origin,
    /// Whether the declared shape turned out to be wrong.
    pub misdeclared: bool,
    /// Where the state comes from, in words.
    pub source: String,
    /// Refusal events.
    pub refusals: u64,
    /// Refusals that belonged to an event already known.
    pub echoes: u64,
}

impl ScopeLedger {
    fn state(&self, now: Moment) -> ScopeState {
        let tightest = self.limits.tightest(now);
        let (limit, window, spent, reserved) = match tightest {
            Some((limit, window, spent, reserved)) => (Some(limit), Some(window), spent, reserved),
            None => (None, None, 0, 0),
        };
        let own = limit.map(|limit| limit.saturating_sub(spent + reserved));
        let told = self
            .limits
            .ceiling
            .filter(|c| now < c.until)
            .map(|c| c.left);
        let remaining = match (own, told) {
            (Some(own), Some(told)) => Some(own.min(told)),
            (own, told) => own.or(told),
        };
        ScopeState {
            scope: self.scope.clone(),
            mode: self.mode(),
            next_allowed_at: self.next_allowed_at(now).filter(|at| now < *at),
            limit,
            window,
            remaining,
            reset_after: self.reset_at.filter(|at| now < *at).map(|at| at.since(now)),
            spent,
            reserved,
            spacing: self.limits.distance(),
            in_flight: self.in_flight,
            max_concurrent: self.seats(),
            origin: self.limits.origin,
            misdeclared: self.limits.misdeclared,
            source: self.source.clone(),
            refusals: self.refusals,
            echoes: self.echoes,
        }
    }

    fn save(&self, now: Moment) -> ScopeRow {
        let state = self.state(now);
        ScopeRow {
            scope: self.scope.clone(),
            mode: state.mode,
            next_allowed_at: match self.gate {
                Gate::Closed { until } => Some(until),
                Gate::Shut => Some(Moment::NEVER),
                _ => None,
            },
            remaining: state.remaining,
            limit: state.limit,
            window: state.window,
            reset_at: self.reset_at,
            spacing: state.spacing,
            max_concurrent: self.learned_concurrent,
            epoch: self.epoch,
            hold_level: self.hold_level,
            misdeclared: self.limits.misdeclared,
            source: self.source.clone(),
        }
    }

    fn restore(&mut self, now: Moment, row: &ScopeRow) {
        self.epoch = row.epoch;
        self.hold_level = row.hold_level;
        self.learned_concurrent = row.max_concurrent;
        self.source.clone_from(&row.source);
        self.reset_at = row.reset_at;
        self.limits.restore(row);
        self.gate = match (row.mode, row.next_allowed_at) {
            (Mode::Closed, Some(Moment::NEVER)) => Gate::Shut,
            (Mode::Closed, Some(until)) => Gate::Closed { until },
            // What a probe or a ramp was up to is not known any more: one call sees.
            (Mode::Closed | Mode::Probing | Mode::Ramping, _) => Gate::Closed { until: now },
            (Mode::Normal | Mode::Throttled, _) => Gate::Open,
        };
    }
}

impl Ledger {
    /// What is known of a scope.
    pub fn state(&self, now: Moment, scope: &Scope) -> Option<ScopeState> {
        self.scopes.get(scope).map(|scope| scope.state(now))
    }

    /// What is known of every scope.
    pub fn states(&self, now: Moment) -> impl Iterator<Item = ScopeState> {
        self.scopes.values().map(move |scope| scope.state(now))
    }

    /// What a restart needs of a scope.
    pub fn save(&self, now: Moment, scope: &Scope) -> Option<ScopeRow> {
        self.scopes.get(scope).map(|scope| scope.save(now))
    }

    /// Takes up what the tables have: gates with the rest of their hold, learnt
    /// limits, and the windows, rebuilt from the sends that may still count. A
    /// send whose moment is not known counts from now: a whole window, to be safe.
    pub fn restore(&mut self, now: Moment, rows: &[ScopeRow], sends: &[AttemptRow]) {
        for row in rows {
            self.touch(now, &row.scope);
            if let Some(scope) = self.scopes.get_mut(&row.scope) {
                scope.restore(now, row);
            }
        }
        let mut sends: Vec<(Moment, &AttemptRow)> = sends
            .iter()
            .filter(|row| row.certainty != Some(crate::action::outcome::Certainty::NotSent))
            .map(|row| (row.sent_at.unwrap_or(now).min(now), row))
            .collect();
        sends.sort_by_key(|(at, row)| (*at, row.action, row.kind, row.attempt));
        for (at, row) in sends {
            for name in &row.scopes {
                self.touch(now, name);
                if let Some(scope) = self.scopes.get_mut(name) {
                    scope.limits.record(at, u64::from(row.requests));
                }
            }
        }
    }
}
