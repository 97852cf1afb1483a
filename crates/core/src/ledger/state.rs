//! What is shown of a scope, and what a restart reads back.

use std::collections::BTreeMap;

use super::Ledger;
use super::call::{Call, Origin};
use super::discovery::Discovery;
use super::gate::Gate;
use super::limiter::Limiter;
use super::map::Place;
use super::scope::{POLICY, ScopeLedger};
use super::tally::Tally;
use crate::action::outcome::Certainty;
use crate::cost::{Cost, Dimension};
use crate::id::Scope;
use crate::policy::{Quota, WindowKind};
use crate::record::{AttemptRow, ScopeRow, ToldRow};
use crate::time::{Moment, Span};
use crate::word::{Mode, Priority};

/// What is known of one scope (R-LEDGER-3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeState {
    /// The scope.
    pub scope: Scope,
    /// Its mode.
    pub mode: Mode,
    /// The earliest moment at which an ordinary call of one unit could go;
    /// `None` if it could go now, or if it waits for an event (a closed scope:
    /// for a person).
    pub next_allowed_at: Option<Moment>,
    /// Units per window of the quota that binds first; `None` if none is known.
    pub limit: Option<u64>,
    /// What that quota counts.
    pub dimension: Option<Dimension>,
    /// Units left of it now, after what is reserved and what others used.
    pub remaining: Option<u64>,
    /// Its window.
    pub window: Option<Span>,
    /// Until more is back: as last told, or as the window says.
    pub reset_after: Option<Span>,
    /// The best use for long of the quota that binds first; see
    /// [`QuotaState::ceiling_permille`].
    pub ceiling_permille: Option<u32>,
    /// What was used of it within the last window; see [`QuotaState::used_permille`].
    pub used_permille: Option<u32>,
    /// Where this came from, in words.
    pub source: String,
    /// Where the limit came from; `None` if there is none.
    pub origin: Option<Origin>,
    /// Calls open now.
    pub in_flight: u32,
    /// Most calls open at once, declared or learnt.
    pub max_concurrent: Option<u32>,
    /// Every quota of it.
    pub quotas: Vec<QuotaState>,
    /// Calls granted and not sent.
    pub reserved: u64,
    /// Counts the refusal events.
    pub epoch: u64,
    /// Refusals that were news.
    pub refusals: u64,
    /// Refusals that only repeated what was known.
    pub echoes: u64,
    /// Units that others used in the current window, at least.
    pub foreign: u64,
    /// Whether a declared quota was found to have another shape and is paced evenly.
    pub misdeclared: bool,
}

/// One quota of a scope. `cap + debt = available + reserved + spent + foreign`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaState {
    /// What it counts.
    pub dimension: Dimension,
    /// How whoever told of it calls it; the dimension's word, or a name beside it.
    pub name: String,
    /// Units per window, declared, told or learnt.
    pub limit: u64,
    /// The window.
    pub window: Span,
    /// Where it came from.
    pub origin: Origin,
    /// Whether starts are spaced evenly.
    pub paced: bool,
    /// Units that are granted per window and spread.
    pub cap: u64,
    /// Units that could be granted now.
    pub available: u64,
    /// Units granted and not counted as spent: not sent, or known only once the
    /// answer has ended.
    pub reserved: u64,
    /// Units that count as spent within window and spread, or that a bucket lacks.
    pub spent: u64,
    /// Units that others used.
    pub foreign: u64,
    /// Units beyond the cap, after a limit was lowered or a larger call went.
    pub debt: u64,
    /// The share of the limit that can be used for long by the rule that keeps its
    /// starts safe, in thousandths. 60 per 10 s with a spread of 200 ms: 10/10.2 is
    /// 980. What headers say is left may go beside the rule.
    pub ceiling_permille: u32,
    /// The share of the limit that our calls used within the last window, in
    /// thousandths; more than 1,000 after a call that was larger than the limit.
    /// `None` of a rate that was learnt, which only spaces and counts nothing.
    pub used_permille: Option<u32>,
}

impl QuotaState {
    /// What of it is left, in millionths.
    fn share_left(&self) -> u64 {
        let share = u128::from(self.available) * 1_000_000 / u128::from(self.cap.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

impl Ledger {
    /// What is known of a scope; `None` if it was never used nor declared.
    pub fn state(&self, now: Moment, scope: &Scope) -> Option<ScopeState> {
        self.scopes.get(scope).map(|ledger| show(now, ledger))
    }

    /// What is known of every scope, in the order of their names.
    pub fn states(&self, now: Moment) -> impl Iterator<Item = ScopeState> {
        self.scopes.iter().map(move |(_, ledger)| show(now, ledger))
    }

    /// Whether a quota is declared of what governs a scope: under its own name or, as
    /// of `model:a` under `model:*`, for each of its kind.
    pub fn has_declared_quota(&self, scope: &Scope) -> bool {
        let governing = self.scopes.governing(scope);
        governing.is_some_and(|ledger| {
            let mut limiters = ledger.limiters.iter();
            limiters.any(|limiter| limiter.origin() == Origin::Declared)
        })
    }

    /// What a restart needs of a scope. `limit` and `window` are those that the
    /// headers told: what is declared is read from the policy.
    pub fn save(&self, now: Moment, scope: &Scope) -> Option<ScopeRow> {
        let ledger = self.scopes.get(scope)?;
        let state = show(now, ledger);
        let told = told(ledger);
        let mode = ledger.gate.mode(now);
        Some(ScopeRow {
            scope: scope.clone(),
            mode,
            next_allowed_at: ledger.gate.next_allowed_at(now),
            remaining: state.remaining,
            limit: told.map(|limiter| limiter.quota().limit),
            window: told
                .map(|limiter| limiter.quota().window)
                .or_else(|| ledger.discovery.as_ref().map(Discovery::window)),
            reset_at: state.reset_after.map(|reset| now + reset),
            spacing: ledger.discovery.as_ref().map(Discovery::spacing),
            max_concurrent: ledger.seats.learnt(),
            epoch: ledger.gate.epoch(),
            hold_level: ledger.gate.level(),
            misdeclared: ledger.is_misdeclared(),
            exhausted: ledger.exhausted,
            source: state.source,
            told: ledger
                .limiters
                .iter()
                .filter(|limiter| limiter.origin() == Origin::Header)
                .map(|limiter| save_told(now, ledger, limiter))
                .collect(),
        })
    }

    /// After a restart: holds stand for what is left of them, what was learnt
    /// is known again, and the windows hold what the attempts say. An attempt
    /// that was open then may have left at any time up to now, and counts as
    /// sent now. Attempts of other accounts are left alone.
    ///
    /// Cost: O(n log n) in the attempts.
    pub fn restore(&mut self, now: Moment, saved: &[ScopeRow], attempts: &[AttemptRow]) {
        self.version += 1;
        for row in saved {
            let place = self.scopes.ensure(now, &row.scope);
            if let Some(ledger) = self.scopes.at_mut(place) {
                restore_scope(now, ledger, row);
            }
        }
        let mut sends: BTreeMap<(&Scope, Dimension), Vec<(Moment, u64)>> = BTreeMap::new();
        let own = |row: &&AttemptRow| row.scopes.first() == Some(&self.account);
        for row in attempts.iter().filter(own) {
            if let Some(at) = left_at(now, row) {
                for scope in &row.scopes {
                    for (dimension, units) in row.cost.iter() {
                        let sends = sends.entry((scope, dimension)).or_default();
                        sends.push((at, units));
                    }
                }
            }
        }
        for ((scope, dimension), sends) in &mut sends {
            sends.sort_unstable();
            if let Some(place) = self.scopes.place(scope)
                && let Some(ledger) = self.scopes.at_mut(place)
            {
                ledger.seed(now, *dimension, sends);
            }
        }
        let places: Vec<Place> = self.scopes.iter().map(|(place, _)| place).collect();
        for place in places {
            if let Some(ledger) = self.scopes.at_mut(place) {
                for limiter in &mut ledger.limiters {
                    limiter.adopt_restored(now);
                }
            }
            self.rearm(now, place);
        }
    }
}

/// When a send left, as far as its row knows; `None` if it did not.
fn left_at(now: Moment, row: &AttemptRow) -> Option<Moment> {
    match (row.certainty, row.sent_at) {
        (None, _) => Some(now),
        (Some(Certainty::NotSent), _) => None,
        (Some(_), sent_at) => Some(sent_at?.min(now)),
    }
}

fn save_told(now: Moment, ledger: &ScopeLedger, limiter: &Limiter) -> ToldRow {
    let taken = ledger.tally(limiter.dimension()).map_or(0, Tally::taken);
    let quota = limiter.quota();
    ToldRow {
        name: limiter.label().to_owned(),
        dimension: quota.dimension,
        limit: quota.limit,
        window: quota.window,
        named: limiter.window_is_named(),
        burst: match quota.kind {
            WindowKind::TokenBucket { burst } => Some(burst),
            _ => None,
        },
        left: limiter.told.left(now, taken),
        reset_at: limiter.told.reset_at().filter(|at| now < *at),
    }
}

/// A limit as it was told before a restart. What was left then is what was not
/// taken: by us, as the sends say that are seeded next, or by others.
fn restore_told(now: Moment, ledger: &ScopeLedger, row: &ToldRow) -> Option<Limiter> {
    if row.limit == 0 || row.window.is_zero() {
        return None;
    }
    let quota = Quota {
        dimension: row.dimension,
        limit: row.limit,
        window: row.window,
        kind: match row.burst {
            Some(burst) => WindowKind::TokenBucket { burst },
            None => WindowKind::Unknown,
        },
    };
    let limiter = match row.named {
        true => Limiter::new(quota, Origin::Header, ledger.margins()),
        false => Limiter::without_window(quota, ledger.margins()),
    };
    let mut limiter = limiter.labelled(&row.name);
    match (row.left, row.reset_at) {
        (Some(0), Some(reset_at)) => limiter.told.run_dry(reset_at),
        (Some(left), reset_at) => {
            let until = reset_at.unwrap_or_else(|| now + limiter.span());
            limiter.told.restore(left, until);
        }
        (None, _) => {}
    }
    Some(limiter)
}

fn restore_scope(now: Moment, ledger: &mut ScopeLedger, row: &ScopeRow) {
    let counts = (row.epoch, row.hold_level);
    ledger.gate = Gate::restored(now, row.mode, row.next_allowed_at, counts);
    ledger.exhausted = row.exhausted;
    ledger.announced = row.mode;
    ledger.announced_hold = ledger.hold(now);
    ledger.last_used = now;
    ledger.held_by.clone_from(&row.source);
    ledger.why.clone_from(&row.source);
    if let Some(spacing) = row.spacing {
        let window = row.window.unwrap_or(Span::from_secs(10));
        ledger.discovery = Some(Discovery::restored(now, spacing, window));
    }
    if let Some(cap) = row.max_concurrent {
        ledger.seats.learn(now, cap);
    }
    for told in &row.told {
        let is_declared = ledger.limiters.iter().any(|known| {
            known.dimension() == told.dimension && known.quota().window == told.window
        });
        if !is_declared {
            ledger.limiters.extend(restore_told(now, ledger, told));
        }
    }
    // A row of an earlier form knows of one limit only.
    if let (true, Some(limit), Some(window)) = (row.told.is_empty(), row.limit, row.window)
        && 0 < limit
        && !window.is_zero()
        && !ledger
            .of_calls()
            .any(|known| known.quota().window == window)
    {
        let quota = Quota {
            dimension: Dimension::Requests,
            limit,
            window,
            kind: WindowKind::Unknown,
        };
        let mut limiter = Limiter::new(quota, Origin::Header, ledger.margins());
        if let (Some(0), Some(reset_at)) = (row.remaining, row.reset_at) {
            limiter.told.run_dry(reset_at);
        }
        ledger.limiters.push(limiter);
    }
    if row.misdeclared {
        for limiter in &mut ledger.limiters {
            limiter.restore_misdeclared(now);
        }
    }
}

/// The quota that the headers told, if they told one.
fn told(ledger: &ScopeLedger) -> Option<&Limiter> {
    ledger
        .limiters
        .iter()
        .find(|limiter| limiter.origin() == Origin::Header)
}

fn show(now: Moment, ledger: &ScopeLedger) -> ScopeState {
    let quotas: Vec<QuotaState> = ledger
        .limiters
        .iter()
        .map(|limiter| show_quota(now, ledger, limiter))
        .chain(ledger.discovery.as_ref().map(show_learnt))
        .collect();
    let binding = ledger
        .limiters
        .iter()
        .zip(&quotas)
        .min_by_key(|(_, quota)| quota.share_left());
    let ordinary = Call {
        scopes: &[],
        cost: Cost::ONE,
        estimate: None,
        priority: Priority::Normal,
        probe_safe: true,
    };
    let block = ledger.block(now, &ordinary);
    let reset_after = binding.and_then(|(limiter, quota)| {
        let told = limiter.told.reset_at().filter(|reset| now < *reset);
        let own = limiter.next_freed(now);
        let at = told.or_else(|| own.filter(|_| 0 < quota.spent))?;
        Some(at.since(now))
    });
    let shown = binding.map(|(_, quota)| quota).or_else(|| quotas.last());
    let origin = match (shown, ledger.seats.cap(), ledger.seats.learnt()) {
        (Some(quota), _, _) => Some(quota.origin),
        (None, Some(_), None) => Some(Origin::Policy),
        (None, Some(_), Some(_)) => Some(Origin::Learned),
        (None, None, _) => None,
    };
    ScopeState {
        scope: ledger.name.clone(),
        mode: ledger.gate.mode(now),
        next_allowed_at: block
            .map(|(_, until)| until)
            .filter(|until| *until < Moment::NEVER),
        limit: shown.map(|quota| quota.limit),
        dimension: shown.map(|quota| quota.dimension),
        remaining: binding.map(|(limiter, quota)| {
            let taken = ledger.tally(limiter.dimension()).map_or(0, Tally::taken);
            let told = limiter.told.left(now, taken);
            match limiter.origin() {
                Origin::Header => told.unwrap_or(quota.available),
                _ => quota.available,
            }
        }),
        window: shown.map(|quota| quota.window),
        reset_after,
        ceiling_permille: shown.map(|quota| quota.ceiling_permille),
        used_permille: shown.and_then(|quota| quota.used_permille),
        source: source(now, ledger, origin, binding.map(|(limiter, _)| limiter)),
        origin,
        in_flight: ledger.seats.open(),
        max_concurrent: ledger.seats.cap(),
        reserved: ledger.reserved(Dimension::Requests),
        epoch: ledger.gate.epoch(),
        refusals: ledger.refusals,
        echoes: ledger.echoes,
        foreign: quotas.iter().map(|quota| quota.foreign).max().unwrap_or(0),
        misdeclared: ledger.is_misdeclared(),
        quotas,
    }
}

/// Where the state came from: the hold while it holds, else the limit.
fn source(
    now: Moment,
    ledger: &ScopeLedger,
    origin: Option<Origin>,
    binding: Option<&Limiter>,
) -> String {
    let held = ledger.gate.mode(now) != Mode::Normal && !ledger.held_by.is_empty();
    match (origin, binding) {
        _ if held => ledger.held_by.clone(),
        (Some(Origin::Declared), Some(limiter)) if limiter.is_misdeclared() => {
            format!("{POLICY}, paced evenly because the provider refused below the limit")
        }
        (Some(Origin::Declared | Origin::Policy), _) => POLICY.to_owned(),
        (Some(Origin::Header), Some(limiter)) if !limiter.told.source().is_empty() => {
            limiter.told.source().to_owned()
        }
        (Some(origin), _) => origin.word().to_owned(),
        (None, _) => String::new(),
    }
}

fn show_quota(now: Moment, ledger: &ScopeLedger, limiter: &Limiter) -> QuotaState {
    let (cap, spent) = (limiter.cap(), limiter.spent(now));
    let foreign = limiter.told.foreign(now).units;
    let reserved = ledger.reserved(limiter.dimension());
    let taken = spent + foreign + reserved;
    QuotaState {
        dimension: limiter.dimension(),
        name: limiter.label().to_owned(),
        limit: limiter.quota().limit,
        window: limiter.quota().window,
        origin: limiter.origin(),
        paced: limiter.is_paced(),
        cap,
        available: cap.saturating_sub(taken),
        reserved,
        spent,
        foreign,
        debt: taken.saturating_sub(cap),
        ceiling_permille: ceiling(limiter),
        used_permille: Some(used(now, limiter)),
    }
}

/// Rate × window / limit, and never more than all of it.
fn ceiling(limiter: &Limiter) -> u32 {
    let (rate, quota) = (limiter.rate(), limiter.quota());
    let units = u128::from(rate.units) * u128::from(quota.window.as_micros());
    let whole = u128::from(rate.per.as_micros()) * u128::from(quota.limit);
    permille(units, whole).min(1_000)
}

/// What left within one window, without the spread for which it counts beyond.
///
/// Cost: O(n) in the entries of the log, which are bounded.
fn used(now: Moment, limiter: &Limiter) -> u32 {
    let quota = limiter.quota();
    let counts = |(at, _): &(Moment, u64)| now < *at + quota.window;
    let units: u128 = limiter
        .sends()
        .filter(counts)
        .map(|(_, units)| u128::from(units))
        .sum();
    permille(units, u128::from(quota.limit))
}

/// A share in thousandths, rounded down.
fn permille(part: u128, whole: u128) -> u32 {
    u32::try_from(part.saturating_mul(1_000) / whole.max(1)).unwrap_or(u32::MAX)
}

/// A learnt rate counts nothing: it only spaces.
fn show_learnt(discovery: &Discovery) -> QuotaState {
    let limit = discovery.limit();
    QuotaState {
        dimension: Dimension::Requests,
        name: Dimension::Requests.word().to_owned(),
        limit,
        window: discovery.window(),
        origin: Origin::Learned,
        paced: true,
        cap: limit,
        available: limit,
        reserved: 0,
        spent: 0,
        foreign: 0,
        debt: 0,
        ceiling_permille: 1_000,
        used_permille: None,
    }
}
