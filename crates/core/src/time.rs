//! Time as the core sees it: a moment on a clock that never goes back, and the
//! span between two moments.
//!
//! Both count whole microseconds. A [`Moment`] belongs to the boot clock of one
//! machine (it keeps counting while the machine sleeps) and means nothing on
//! another; a [`WallTime`] is what people and HTTP-dates mean. The core never
//! reads either: the caller passes them in, taken in one paired reading.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A length of time in whole microseconds. Never negative; arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// Longer than any wait that can be meant; stands for "no bound".
    pub const MAX: Span = Span(u64::MAX);

    /// A span of `us` microseconds.
    pub const fn from_micros(us: u64) -> Span {
        Span(us)
    }

    /// A span of `ms` milliseconds.
    pub const fn from_millis(ms: u64) -> Span {
        Span(ms.saturating_mul(1_000))
    }

    /// A span of `s` seconds.
    pub const fn from_secs(s: u64) -> Span {
        Span(s.saturating_mul(1_000_000))
    }

    /// The span of a fractional number of seconds, rounded **up** to the next
    /// microsecond. `None` for a negative or non-finite number; anything beyond
    /// the range becomes [`Span::MAX`].
    pub fn from_secs_f64(s: f64) -> Option<Span> {
        if !s.is_finite() || s < 0.0 {
            return None;
        }
        let us = (s * 1e6).ceil();
        // The cast saturates, which is the wanted meaning of "absurdly long".
        Some(Span(us as u64))
    }

    /// Whole microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole seconds, rounded **up**: the form of `Retry-After`, which must
    /// never be shorter than the wait it announces.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// Seconds as a floating-point number, for display and for rates.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The sum, or [`Span::MAX`].
    pub const fn saturating_add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }

    /// The difference, or zero.
    pub const fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }

    /// The span times a whole number, or [`Span::MAX`].
    pub const fn saturating_mul(self, n: u64) -> Span {
        Span(self.0.saturating_mul(n))
    }

    /// `self * numerator / denominator` without intermediate overflow, rounded down.
    ///
    /// # Panics
    /// If `denominator` is zero.
    pub const fn scale(self, numerator: u64, denominator: u64) -> Span {
        let wide = self.0 as u128 * numerator as u128 / denominator as u128;
        Span(if wide > u64::MAX as u128 {
            u64::MAX
        } else {
            wide as u64
        })
    }

    /// Whether this is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        self.saturating_add(other)
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            u64::MAX => f.write_str("for ever"),
            us if us % 1_000_000 == 0 => write!(f, "{}s", us / 1_000_000),
            us if us >= 1_000_000 => write!(f, "{:.3}s", us as f64 / 1e6),
            us if us % 1_000 == 0 => write!(f, "{}ms", us / 1_000),
            us => write!(f, "{us}us"),
        }
    }
}

/// A moment on the boot clock, in microseconds since some fixed start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The start of the clock.
    pub const START: Moment = Moment(0);
    /// Later than anything: "never".
    pub const NEVER: Moment = Moment(u64::MAX);

    /// The moment `us` microseconds after the start of the clock.
    pub const fn from_micros(us: u64) -> Moment {
        Moment(us)
    }

    /// Microseconds since the start of the clock.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The span since `earlier`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Moment) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// The moment `span` before this one, or the start of the clock.
    pub const fn back(self, span: Span) -> Moment {
        Moment(self.0.saturating_sub(span.0))
    }
}

impl Add<Span> for Moment {
    type Output = Moment;
    fn add(self, span: Span) -> Moment {
        Moment(self.0.saturating_add(span.0))
    }
}

impl Sub<Moment> for Moment {
    type Output = Span;
    fn sub(self, earlier: Moment) -> Span {
        self.since(earlier)
    }
}

/// A wall-clock time in microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(i64);

impl WallTime {
    /// The time `us` microseconds after the epoch.
    pub const fn from_micros(us: i64) -> WallTime {
        WallTime(us)
    }

    /// The time `s` seconds after the epoch.
    pub const fn from_secs(s: i64) -> WallTime {
        WallTime(s.saturating_mul(1_000_000))
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The span since `earlier`, or zero if `earlier` is later.
    pub const fn since(self, earlier: WallTime) -> Span {
        let us = self.0.saturating_sub(earlier.0);
        Span(if us > 0 { us as u64 } else { 0 })
    }
}

impl Add<Span> for WallTime {
    type Output = WallTime;
    fn add(self, span: Span) -> WallTime {
        let us = if span.0 > i64::MAX as u64 {
            i64::MAX
        } else {
            span.0 as i64
        };
        WallTime(self.0.saturating_add(us))
    }
}

/// A uniform draw in [0, 1), made by the caller, in units of 2⁻³².
///
/// Jitter is a number passed in, so that the same seed gives the same run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw(u32);

impl Draw {
    /// The smallest draw.
    pub const ZERO: Draw = Draw(0);

    /// The draw `n / 2³²`.
    pub const fn from_u32(n: u32) -> Draw {
        Draw(n)
    }

    /// A point of the interval `[low, high)`; `low` if the interval is empty.
    pub const fn between(self, low: Span, high: Span) -> Span {
        let width = high.0.saturating_sub(low.0);
        let part = (width as u128 * self.0 as u128) >> 32;
        Span(low.0 + part as u64)
    }

    /// A second draw derived from this one, for a decision that needs two.
    ///
    /// One round of the 32-bit finaliser of MurmurHash3 (public domain).
    pub const fn again(self) -> Draw {
        let mut h = self.0 ^ 0x9e37_79b9;
        h ^= h >> 16;
        h = h.wrapping_mul(0x85eb_ca6b);
        h ^= h >> 13;
        h = h.wrapping_mul(0xc2b2_ae35);
        h ^= h >> 16;
        Draw(h)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_of_a_second_rounds_up() {
        assert_eq!(
            Span::from_secs_f64(1.000_000_1),
            Some(Span::from_micros(1_000_001))
        );
        assert_eq!(Span::from_secs_f64(-0.5), None);
        assert_eq!(Span::from_secs_f64(f64::NAN), None);
        assert_eq!(Span::from_secs_f64(1e300), Some(Span::MAX));
    }

    #[test]
    fn retry_after_is_never_shorter_than_the_wait() {
        assert_eq!(Span::from_millis(1).as_secs_ceil(), 1);
        assert_eq!(Span::from_millis(1_000).as_secs_ceil(), 1);
        assert_eq!(Span::from_millis(1_001).as_secs_ceil(), 2);
    }

    #[test]
    fn a_draw_stays_in_its_interval() {
        let (low, high) = (Span::from_millis(250), Span::from_secs(2));
        for n in [0, 1, u32::MAX / 2, u32::MAX] {
            let span = Draw::from_u32(n).between(low, high);
            assert!(low <= span && span < high, "{n} gave {span}");
        }
        assert_eq!(Draw::from_u32(7).between(high, low), high);
    }
}
