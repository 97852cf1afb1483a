//! How long to wait before a repeat (R-RETRY-4).
//!
//! Without a hint: full jitter, uniform in
//! `[minimum, max(minimum, min(cap, base·2ⁿ))]`, n = 1 for the first repeat. With
//! a hint: the whole hint, then jitter; never a shorter wait than the hint.
//!
//! Worked example (base 1 s, cap 60 s, minimum 250 ms):
//!
//! | repeat | no hint | `Retry-After: 0` | `Retry-After: 3` | `Retry-After: 75` |
//! |---|---|---|---|---|
//! | 1 | 0.25–2 s | 0.25–0.375 s | 3–3.3 s | 75–81 s |
//! | 2 | 0.25–4 s | 2–2.2 s | 3–3.3 s | 75–81 s |
//! | 3 | 0.25–8 s | 4–4.4 s | 4–4.4 s | 75–81 s |
//! | 7 | 0.25–60 s | 30–33 s | 30–33 s | 75–81 s |
//!
//! From the second repeat on a hint has already been wrong once (servers cut
//! off fractions, or say zero in a loop), so it is not believed below half the
//! step of that repeat. Full jitter: M. Brooker, "Exponential Backoff And
//! Jitter", AWS Architecture Blog, 2015.

use crate::policy::Backoff;
use crate::time::{Draw, Span};

/// Which repeat of an action a delay precedes; the first is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RetryNo(u16);

impl RetryNo {
    /// The repeat that follows `attempts` sends; at least the first.
    pub const fn after(attempts: u16) -> RetryNo {
        RetryNo(if attempts == 0 { 1 } else { attempts })
    }

    /// Its number; at least 1.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// The upper end of the interval: `max(minimum, min(cap, base·2ⁿ))`.
pub fn step(backoff: &Backoff, n: RetryNo) -> Span {
    let doubled = match 1_u64.checked_shl(u32::from(n.0)) {
        Some(factor) => backoff.base.saturating_mul(factor),
        // Beyond 63 doublings only zero stays below the cap.
        None if backoff.base.is_zero() => Span::ZERO,
        None => Span::MAX,
    };
    doubled.min(backoff.cap).max(backoff.minimum)
}

/// The wait before repeat `n`; `hint` is the provider's own, zero for a hint
/// that is zero or past. Never shorter than the minimum or the hint.
pub fn delay(backoff: &Backoff, n: RetryNo, hint: Option<Span>, draw: Draw) -> Span {
    match hint {
        None => draw.between(backoff.minimum, step(backoff, n)),
        Some(hint) if n.0 == 1 => with_jitter(backoff, hint.max(backoff.minimum), draw),
        Some(hint) => poll(backoff, n, Some(hint), draw),
    }
}

/// The wait before asking again for something that is known to be under way
/// (the same key is in progress): at least half the step, so that it grows.
pub fn poll(backoff: &Backoff, n: RetryNo, hint: Option<Span>, draw: Draw) -> Span {
    let half = step(backoff, n).scale(1, 2).max(backoff.minimum);
    with_jitter(backoff, hint.unwrap_or(Span::ZERO).max(half), draw)
}

/// Jitter comes after a wait, never before it: a tenth, so that callers who were
/// told the same second come back apart, at least half the minimum and at most a
/// tenth of the cap, because more would only waste quota.
fn with_jitter(backoff: &Backoff, wait: Span, draw: Draw) -> Span {
    let tenth = wait.min(backoff.cap).scale(1, 10);
    let spread = tenth.max(backoff.minimum.scale(1, 2));
    wait + draw.between(Span::ZERO, spread)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LAST: Draw = Draw::from_u32(u32::MAX);

    fn check(n: u16, hint: Option<Span>, low_ms: u64, high_ms: u64) {
        let b = Backoff::default();
        let n = RetryNo::after(n);
        assert_eq!(
            delay(&b, n, hint, Draw::ZERO),
            Span::from_millis(low_ms),
            "{n:?} {hint:?}"
        );
        let high = delay(&b, n, hint, LAST);
        assert!(
            high <= Span::from_millis(high_ms),
            "{n:?} {hint:?} gave {high}"
        );
        assert!(
            high + Span::from_millis(1) >= Span::from_millis(high_ms),
            "{n:?} gave {high}"
        );
    }

    #[test]
    fn the_worked_example_holds() {
        let secs = |s| Some(Span::from_secs(s));
        for (n, top) in [
            (1, 2_000),
            (2, 4_000),
            (3, 8_000),
            (7, 60_000),
            (u16::MAX, 60_000),
        ] {
            check(n, None, 250, top);
        }
        check(1, secs(0), 250, 375);
        check(2, secs(0), 2_000, 2_200);
        check(1, secs(3), 3_000, 3_300);
        check(2, secs(3), 3_000, 3_300);
        check(3, secs(3), 4_000, 4_400);
        check(7, secs(3), 30_000, 33_000);
        check(1, secs(75), 75_000, 81_000);
        check(7, secs(75), 75_000, 81_000);
    }

    #[test]
    fn the_first_repeat_is_number_one_also_when_nothing_was_counted() {
        assert_eq!(RetryNo::after(0).get(), 1);
        assert_eq!(RetryNo::after(1).get(), 1);
        assert_eq!(RetryNo::after(4).get(), 4);
    }

    #[test]
    fn waiting_for_a_key_in_progress_grows() {
        let b = Backoff::default();
        let gaps: Vec<_> = (1..=4)
            .map(|n| poll(&b, RetryNo::after(n), None, Draw::ZERO).as_millis())
            .collect();
        assert_eq!(gaps, [1_000, 2_000, 4_000, 8_000]);
    }

    #[test]
    fn an_endless_hint_is_not_wrapped_into_a_short_one() {
        let b = Backoff::default();
        assert_eq!(
            delay(&b, RetryNo::after(1), Some(Span::MAX), LAST),
            Span::MAX
        );
    }

    #[test]
    fn an_empty_configuration_waits_nothing_and_does_not_panic() {
        let none = Backoff {
            base: Span::ZERO,
            cap: Span::ZERO,
            minimum: Span::ZERO,
        };
        for n in [1, 64, u16::MAX] {
            assert_eq!(delay(&none, RetryNo::after(n), None, LAST), Span::ZERO);
        }
    }

    proptest! {
        #[test]
        fn a_wait_is_never_shorter_than_the_hint_or_the_minimum(
            n in 0_u16..80,
            hint in proptest::option::of(0_u64..10_000_000_000),
            raw in any::<u32>(),
            (base, cap, minimum) in (0_u64..5_000, 0_u64..100_000, 0_u64..5_000),
        ) {
            let b = Backoff {
                base: Span::from_millis(base),
                cap: Span::from_millis(cap),
                minimum: Span::from_millis(minimum),
            };
            let hint = hint.map(Span::from_micros);
            let n = RetryNo::after(n);
            let draw = Draw::from_u32(raw);
            for wait in [delay(&b, n, hint, draw), poll(&b, n, hint, draw)] {
                prop_assert!(wait >= b.minimum);
                prop_assert!(wait >= hint.unwrap_or(Span::ZERO));
            }
            prop_assert!(delay(&b, n, None, draw) <= step(&b, n));
        }
    }
}
