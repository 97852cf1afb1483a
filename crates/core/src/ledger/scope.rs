//! One scope: its limits, its gate, its seats, and what it went through.

use super::gate::{GOOD_FOR, Gate, Passage, hold};
use super::limits::{Limits, Origin};
use super::{Blocked, Change, Reason};
use crate::cost::Cost;
use crate::id::Scope;
use crate::observe::{Facts, Meaning};
use crate::policy::ScopeLimits;
use crate::time::{Draw, Moment, Span};
use crate::word::{Mode, Priority};

/// A hold longer than this is put to a person.
const HOPELESS: Span = Span::from_secs(3_600);

/// What is known of one scope.
#[derive(Clone, Debug)]
pub(super) struct ScopeLedger {
    pub(super) scope: Scope,
    pub(super) limits: Limits,
    pub(super) gate: Gate,
    /// Counts refusal events; a send carries the number of its time.
    pub(super) epoch: u64,
    /// How many holds in a row found it still closed.
    pub(super) hold_level: u32,
    /// Since when nothing was refused.
    pub(super) good_since: Moment,
    pub(super) in_flight: u32,
    pub(super) max_concurrent: Option<u32>,
    pub(super) learned_concurrent: Option<u32>,
    pub(super) reserve_interactive: u32,
    pub(super) minimum: Span,
    pub(super) reset_at: Option<Moment>,
    pub(super) remaining: Option<u64>,
    pub(super) source: String,
    pub(super) refusals: u64,
    pub(super) echoes: u64,
    /// When it was last used, to forget idle scopes.
    pub(super) used_at: Moment,
    /// Names of malformed fields that were reported.
    reported: Vec<String>,
}

/// Most names of malformed fields that are remembered.
const REPORTED_MAX: usize = 16;

impl ScopeLedger {
    pub(super) fn new(scope: Scope, rules: &Rules<'_>) -> ScopeLedger {
        let mut ledger = ScopeLedger {
            scope,
            limits: Limits::new(rules.declared, rules.headroom_permille),
            gate: Gate::Open,
            epoch: 0,
            hold_level: 0,
            good_since: Moment::START,
            in_flight: 0,
            max_concurrent: None,
            learned_concurrent: None,
            reserve_interactive: 0,
            minimum: rules.minimum,
            reset_at: None,
            remaining: None,
            source: String::new(),
            refusals: 0,
            echoes: 0,
            used_at: Moment::START,
            reported: Vec::new(),
        };
        ledger.set_rules(rules);
        ledger
    }

    pub(super) fn set_rules(&mut self, rules: &Rules<'_>) {
        self.limits.declare(rules.declared, rules.headroom_permille);
        self.max_concurrent = rules.declared.and_then(|limits| limits.max_concurrent);
        self.reserve_interactive = rules.reserve_interactive;
        self.minimum = rules.minimum;
        self.source = match self.limits.origin {
            Origin::Declared => "policy".to_owned(),
            _ => std::mem::take(&mut self.source),
        };
    }

    /// Calls that may be open at once.
    pub(super) fn seats(&self) -> Option<u32> {
        match (self.max_concurrent, self.learned_concurrent) {
            (Some(declared), Some(learned)) => Some(declared.min(learned)),
            (declared, learned) => declared.or(learned),
        }
    }

    /// Whether a call fits now; says whether it would be the probe.
    pub(super) fn stage(
        &self,
        now: Moment,
        cost: Cost,
        priority: Priority,
        probe_safe: bool,
    ) -> Result<(), Blocked> {
        let blocked = |reason, until| {
            Err(Blocked {
                scope: self.scope.clone(),
                reason,
                until,
            })
        };
        match self.gate.passage(now) {
            Passage::Free => {}
            Passage::AsProbe if probe_safe => {}
            Passage::AsProbe | Passage::AwaitProbe => {
                return blocked(Reason::Probing, Moment::NEVER);
            }
            Passage::Closed(until) => return blocked(Reason::Closed, until),
            Passage::Ramp(until) => return blocked(Reason::Ramping, until),
        }
        if let Some(seats) = self.seats() {
            if seats <= self.in_flight {
                return blocked(Reason::Concurrency, Moment::NEVER);
            }
            // At least one seat is left to the others, or nobody else ever goes.
            let kept = self.reserve_interactive.min(seats - 1);
            if priority != Priority::Interactive && seats - kept <= self.in_flight {
                return blocked(Reason::Reserved, Moment::NEVER);
            }
        }
        let (free_at, paced) = self.limits.free_at(now, u64::from(cost.requests));
        if now < free_at {
            return blocked(if paced { Reason::Pacing } else { Reason::Quota }, free_at);
        }
        Ok(())
    }

    /// A call passes. Says whether it is the probe.
    pub(super) fn secure(&mut self, now: Moment, cost: Cost) -> bool {
        self.in_flight += 1;
        self.used_at = now;
        self.limits.reserve(now, u64::from(cost.requests));
        self.gate.pass(now)
    }

    pub(super) fn mode(&self) -> Mode {
        match self.gate {
            Gate::Open => Mode::Normal,
            Gate::Closed { .. } | Gate::Shut => Mode::Closed,
            Gate::Probing => Mode::Probing,
            Gate::Ramping { .. } => Mode::Ramping,
        }
    }

    /// When the next call may go, as far as gate and limits say.
    pub(super) fn next_allowed_at(&self, now: Moment) -> Option<Moment> {
        match self.gate.passage(now) {
            Passage::Closed(until) if until < Moment::NEVER => Some(until),
            Passage::Closed(_) | Passage::AwaitProbe => None,
            Passage::Ramp(until) => Some(until),
            Passage::Free | Passage::AsProbe => {
                let (free_at, _) = self.limits.free_at(now, 1);
                (free_at < Moment::NEVER).then_some(free_at)
            }
        }
    }

    /// Changes the gate and says so.
    pub(super) fn turn(&mut self, now: Moment, to: Gate, why: String, out: &mut Vec<Change>) {
        let from = self.mode();
        self.gate = to;
        let to = self.mode();
        if from != to || to == Mode::Closed {
            out.push(Change::Mode {
                scope: self.scope.clone(),
                from,
                to,
                why,
                next_allowed_at: self.next_allowed_at(now),
            });
        }
    }

    /// The scope refused a call that was sent in `epoch`.
    pub(super) fn refuse(
        &mut self,
        now: Moment,
        draw: Draw,
        facts: &Facts,
        epoch: u64,
        out: &mut Vec<Change>,
    ) {
        let hint = self.hint(facts);
        let echo = epoch < self.epoch;
        let until = if echo {
            // The same event once more: at most it names a later end.
            self.echoes += 1;
            match (&self.gate, hint) {
                (Gate::Closed { until }, Some(hint)) => (*until).max(now + hint),
                (Gate::Closed { until }, None) => *until,
                _ => now,
            }
        } else {
            let quiet = now.since(self.good_since);
            if GOOD_FOR <= quiet && self.mode() == Mode::Normal {
                self.hold_level = 0;
            }
            let held = hold(hint, self.minimum, self.hold_level, draw);
            self.hold_level = self.hold_level.saturating_add(1);
            self.epoch += 1;
            self.refusals += 1;
            self.good_since = now;
            now + held
        };
        out.push(Change::Refused {
            scope: self.scope.clone(),
            status: facts.status,
            until,
            echo,
        });
        if echo && !matches!(self.gate, Gate::Closed { .. }) {
            return;
        }
        self.source = facts.retry_source.map_or_else(
            || format!("HTTP {} without a hint", facts.status),
            str::to_owned,
        );
        if !echo && self.limits.refused(until) {
            let rate = self.limits.rate();
            out.push(Change::Learned {
                scope: self.scope.clone(),
                what: rate.map_or_else(
                    || "a refusal".to_owned(),
                    |(units, per)| format!("{units} in {per} at most"),
                ),
            });
        }
        self.turn(now, Gate::Closed { until }, self.source.clone(), out);
        if HOPELESS < until.since(now) {
            let why = format!("closed for {} by {}", until.since(now), self.source);
            out.push(Change::Hopeless {
                scope: self.scope.clone(),
                why,
            });
        }
    }

    /// The longest of what the answer says about when to come back: its
    /// `Retry-After`, else the reset of a dimension that is exhausted.
    fn hint(&self, facts: &Facts) -> Option<Span> {
        let exhausted = facts
            .readings
            .iter()
            .filter(|reading| reading.remaining == Some(0))
            .filter_map(|reading| reading.reset_after)
            .max();
        facts.retry_after.or(exhausted)
    }

    /// The quota is gone for long, or needs a person.
    pub(super) fn exhaust(
        &mut self,
        now: Moment,
        draw: Draw,
        facts: &Facts,
        out: &mut Vec<Change>,
    ) {
        self.epoch += 1;
        self.refusals += 1;
        self.good_since = now;
        let word = match facts.meaning {
            Meaning::Billing => "the account can't pay",
            _ => "the quota is used up",
        };
        self.source = format!("HTTP {}: {word}", facts.status);
        let gate = match self.hint(facts) {
            Some(hint) if Span::ZERO < hint => Gate::Closed {
                until: now + hold(Some(hint), self.minimum, 1, draw),
            },
            _ => Gate::Shut,
        };
        let until = match gate {
            Gate::Closed { until } => until,
            _ => Moment::NEVER,
        };
        out.push(Change::Refused {
            scope: self.scope.clone(),
            status: facts.status,
            until,
            echo: false,
        });
        self.turn(now, gate, self.source.clone(), out);
        let why = format!(
            "{word}: {}",
            facts.error_code.as_deref().unwrap_or("no code given")
        );
        out.push(Change::Hopeless {
            scope: self.scope.clone(),
            why,
        });
    }

    /// The provider has no capacity: its own hint holds, no limit is learnt.
    pub(super) fn overloaded(
        &mut self,
        now: Moment,
        draw: Draw,
        facts: &Facts,
        out: &mut Vec<Change>,
    ) {
        let Some(hint) = facts.retry_after.filter(|hint| Span::ZERO < *hint) else {
            return;
        };
        let until = now + hold(Some(hint), self.minimum, 0, draw);
        let until = match self.gate {
            Gate::Closed { until: already } => already.max(until),
            Gate::Shut => return,
            _ => until,
        };
        self.source = facts.retry_source.unwrap_or("overload").to_owned();
        self.turn(
            now,
            Gate::Closed { until },
            format!("overloaded: {}", self.source),
            out,
        );
    }

    /// The probe came back good.
    pub(super) fn probe_passed(&mut self, now: Moment, draw: Draw, out: &mut Vec<Change>) {
        self.good_since = now;
        let to = match self.limits.rate() {
            Some(_) => Gate::Open,
            None => Gate::ramp(now, draw),
        };
        self.turn(now, to, "the probe was accepted".to_owned(), out);
    }

    /// The probe's outcome is unknown: another one, later.
    pub(super) fn probe_lost(&mut self, now: Moment, draw: Draw, out: &mut Vec<Change>) {
        let held = hold(None, self.minimum, self.hold_level, draw);
        self.hold_level = self.hold_level.saturating_add(1);
        let why = "the probe got no answer".to_owned();
        self.turn(now, Gate::Closed { until: now + held }, why, out);
    }

    /// The probe never left: the next call may be it.
    pub(super) fn probe_withdrawn(&mut self, now: Moment) {
        if self.gate == Gate::Probing {
            self.gate = Gate::Closed { until: now };
        }
    }

    /// Names malformed fields once each.
    pub(super) fn report_malformed(&mut self, facts: &Facts, out: &mut Vec<Change>) {
        for field in &facts.malformed {
            if self.reported.len() < REPORTED_MAX && !self.reported.contains(field) {
                self.reported.push(field.clone());
                out.push(Change::Malformed {
                    scope: self.scope.clone(),
                    field: field.clone(),
                });
            }
        }
    }
}

/// What the policy says of one scope.
pub(super) struct Rules<'p> {
    pub(super) declared: Option<&'p ScopeLimits>,
    pub(super) headroom_permille: u32,
    pub(super) reserve_interactive: u32,
    pub(super) minimum: Span,
}
