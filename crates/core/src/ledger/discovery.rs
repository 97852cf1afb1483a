//! A rate that refusals taught, and its way up and down.
//!
//! Loss-based discovery. Starts are paced at 0.98 of the rate. It grows by 1 %
//! after each window (at least 10 s) in which it was really used, and by up to
//! 8 % while no upper bound was met. At a loss it becomes what was measured
//! ([`super::history`]), or half way from there to the last rate that held for a
//! window if that was more, but less than the one that was refused; and 0.85 of
//! that at most if it was refused within 20 s. Then it stays for 10 minutes.
//!
//! Example: learnt 6.0/s, paced at 5.88/s. Used to the full for 10 s it grows to
//! 6.06/s, for 10 s more to 6.18/s; there (paced at 6.06/s) it is refused.
//! Measured: 5.9/s. Held before: 6.06/s. Now: 5.98/s, paced at 5.86/s.
//! Source: the additive growth and multiplicative cut of TCP (Chiu and Jain,
//! 1989), with a measurement in place of the cut where there is one.

use super::call::PermitId;
use super::history::Measured;
use super::limiter::spread;
use super::pacer::Pacer;
use super::ramp::SAFE_PERMILLE;
use crate::time::{Moment, Span};

/// As many units make a measurement that is trusted for a long while.
const UNITS_SURE: u64 = 20;
/// The shortest time after which a rate grows, and in which it is shown.
const GROWS_AFTER: Span = Span::from_secs(10);
/// Growth in thousandths: at first, and at most.
const GROWTH_PERMILLE: (u64, u64) = (10, 80);
/// Share of the rate that must have been used for it to grow, in thousandths.
const USED_PERMILLE: u64 = 800;
/// No growth for this long after a loss that was measured well.
const QUIET: Span = Span::from_secs(600);
/// The same where the end of the hold was guessed, so that the rate is too low.
const QUIET_GUESSED: Span = Span::from_secs(60);
/// A loss so soon after the scope opened means that the rate was far too high.
const SOON: Span = Span::from_secs(20);
/// The cut then, and without a measurement, as a fraction of the old rate.
const CUT: (u64, u64) = (85, 100);
/// The deepest cut at once: a quarter of the old rate.
const DEEPEST_CUT: u64 = 4;

/// A rate that was learnt, and its way up and down. See the module.
#[derive(Clone, Debug)]
pub(super) struct Discovery {
    /// The rate as a spacing; paced at [`SAFE_PERMILLE`] of it.
    spacing: Span,
    /// The time in which it was measured.
    window: Span,
    pacer: Pacer,
    since: Moment,
    sent: u64,
    growth_permille: u64,
    quiet_until: Moment,
    /// The last spacing that was used for a whole window and not refused.
    held: Option<Span>,
    /// When the scope last opened.
    woke: Moment,
    /// Whether this rate, or one near it, was ever refused.
    met_bound: bool,
}

impl Discovery {
    /// A first estimate.
    pub(super) fn new(now: Moment, measured: Measured) -> Discovery {
        Discovery::restored(now, measured.spacing(), measured.span)
    }

    /// An estimate that a restart reads back.
    pub(super) fn restored(now: Moment, spacing: Span, window: Span) -> Discovery {
        let spacing = spacing.max(Span::from_micros(1));
        // A limit per fraction of a second would say nothing to people.
        let window = window.max(GROWS_AFTER);
        let (units, per) = safe(spacing);
        Discovery {
            spacing,
            window,
            pacer: Pacer::new(units, per, spread(window, None)),
            since: now,
            sent: 0,
            growth_permille: GROWTH_PERMILLE.0,
            quiet_until: now,
            held: None,
            woke: now,
            met_bound: false,
        }
    }

    /// The rate was too high. `refused_at` is when the refused call left,
    /// `measured` what went since the scope last opened, and `hinted` says
    /// whether the provider named the end of the hold, or we guessed it.
    pub(super) fn lose(
        &mut self,
        now: Moment,
        refused_at: Moment,
        measured: Option<Measured>,
        hinted: bool,
    ) {
        let old = self.spacing;
        let refused = old.scale(1_000, SAFE_PERMILLE);
        let cut = old.scale(CUT.1, CUT.0);
        let soon = refused_at.since(self.woke) < SOON;
        let wanted = match measured.map(Measured::spacing) {
            Some(measured) if soon => measured.max(cut),
            Some(measured) => {
                let held = self.held.filter(|_| hinted);
                let between = held.map_or(measured, |held| middle(held, measured));
                measured.min(between).max(refused)
            }
            None => cut,
        };
        self.set(wanted.min(old.saturating_mul(DEEPEST_CUT)));
        let sure = measured.is_some_and(|measured| UNITS_SURE <= measured.units);
        let quiet = match (sure, hinted) {
            (true, true) => QUIET,
            (true, false) => QUIET_GUESSED,
            (false, _) => Span::ZERO,
        };
        self.quiet_until = now + quiet.max(self.window);
        self.met_bound = true;
        self.held = None;
        self.growth_permille = GROWTH_PERMILLE.0;
        self.woke = now;
        self.since = now;
        self.sent = 0;
    }

    /// The learnt spacing, without the margin.
    pub(super) fn spacing(&self) -> Span {
        self.spacing
    }

    /// The time in which it was measured.
    pub(super) fn window(&self) -> Span {
        self.window
    }

    /// Units per [`Discovery::window`], at least 1.
    pub(super) fn limit(&self) -> u64 {
        (self.window.as_micros() / self.spacing.as_micros()).max(1)
    }

    /// Units and time of the paced rate.
    pub(super) fn rate(&self) -> (u64, Span) {
        self.pacer.rate()
    }

    /// The next start is not before this.
    pub(super) fn free_at(&self) -> Moment {
        self.pacer.free_at()
    }

    /// A start is granted; the rate grows if it was used for a while.
    pub(super) fn grant(&mut self, now: Moment, units: u64, permit: PermitId) {
        self.grow(now);
        self.pacer.grant(now, units, permit);
        self.sent += units;
    }

    /// A granted start left.
    pub(super) fn left(&mut self, now: Moment, units: u64, permit: PermitId) {
        self.pacer.left(now, units, permit);
    }

    /// A granted start never left.
    pub(super) fn take_back(&mut self, units: u64, permit: PermitId) {
        self.pacer.take_back(permit);
        self.sent = self.sent.saturating_sub(units);
    }

    fn grow(&mut self, now: Moment) {
        let passed = now.since(self.since);
        if passed < self.window {
            return;
        }
        let needed = self.spacing.saturating_mul(self.sent);
        let used = passed.scale(USED_PERMILLE, 1_000) <= needed;
        if used {
            self.held = Some(self.spacing);
        }
        if used && self.quiet_until <= now {
            let factor = 1_000 + self.growth_permille;
            self.set(self.spacing.scale(1_000, factor));
            if !self.met_bound {
                self.growth_permille = (self.growth_permille * 2).min(GROWTH_PERMILLE.1);
            }
        }
        self.since = now;
        self.sent = 0;
    }

    fn set(&mut self, spacing: Span) {
        self.spacing = spacing.max(Span::from_micros(1));
        let (units, per) = safe(self.spacing);
        self.pacer.reshape(units, per, spread(self.window, None));
    }
}

/// Half way between two spacings.
fn middle(one: Span, other: Span) -> Span {
    one.scale(1, 2) + other.scale(1, 2)
}

/// The paced rate of a learnt spacing.
fn safe(spacing: Span) -> (u64, Span) {
    (SAFE_PERMILLE, spacing.saturating_mul(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Moment {
        Moment::START + Span::from_millis(ms)
    }

    fn discovery(spacing_ms: u64) -> Discovery {
        Discovery::restored(ms(0), Span::from_millis(spacing_ms), Span::from_secs(10))
    }

    /// Uses the rate to the full until `end`.
    fn saturate(discovery: &mut Discovery, end: Moment) {
        let mut id = 0;
        while discovery.free_at() < end {
            let now = discovery.free_at();
            discovery.grant(now, 1, PermitId(id));
            discovery.left(now, 1, PermitId(id));
            id += 1;
        }
    }

    #[test]
    fn a_used_rate_grows_by_one_percent_a_window_and_then_faster() {
        let mut discovery = discovery(100);
        saturate(&mut discovery, ms(10_500));
        assert_eq!(discovery.spacing(), Span::from_micros(99_009));
        saturate(&mut discovery, ms(21_000));
        assert_eq!(discovery.spacing(), Span::from_micros(97_067));
    }

    #[test]
    fn an_unused_rate_does_not_grow() {
        let mut discovery = discovery(100);
        for n in 0..100 {
            discovery.grant(ms(n * 1_000), 1, PermitId(n));
            discovery.left(ms(n * 1_000), 1, PermitId(n));
        }
        assert_eq!(discovery.spacing(), Span::from_millis(100));
    }

    #[test]
    fn a_loss_takes_the_measured_rate_and_a_second_one_soon_cuts() {
        let mut discovery = discovery(100);
        let measured = Measured {
            units: 50,
            span: Span::from_secs(6),
        };
        discovery.lose(ms(60_000), ms(60_000), Some(measured), true);
        assert_eq!(discovery.spacing(), Span::from_millis(120));
        let barely = Measured {
            units: 50,
            span: Span::from_micros(6_000_050),
        };
        discovery.lose(ms(70_000), ms(70_000), Some(barely), true);
        assert_eq!(discovery.spacing(), Span::from_micros(141_176));
        // For ten minutes it stays there.
        saturate(&mut discovery, ms(600_000));
        assert_eq!(discovery.spacing(), Span::from_micros(141_176));
        saturate(&mut discovery, ms(700_000));
        assert!(discovery.spacing() < Span::from_micros(141_176));
    }

    #[test]
    fn a_faster_measurement_than_the_refused_rate_is_not_believed() {
        let mut discovery = discovery(98);
        let absurd = Measured {
            units: 50,
            span: Span::from_secs(1),
        };
        discovery.lose(ms(60_000), ms(60_000), Some(absurd), true);
        assert_eq!(discovery.spacing(), Span::from_millis(100));
    }
}
