//! How long a repeat under an idempotency key is still a repeat.
//!
//! A provider forgets a key at the end of its lifetime and then treats the same
//! bytes as a new operation. So the last repeat must have *finished* before that:
//!
//! `safe_until = first send + lifetime − (request time-out + in-flight horizon)`
//!
//! Worked example: lifetime 30 min, request time-out 60 s, a sent copy can wait
//! up to 5 s in somebody's queue. First send at 12:00:00 → safe until 12:28:55.
//! A repeat sent at 12:28:54 may run until 12:29:54, and a late copy of it
//! arrives by 12:29:59: still inside the key's life. An exhaustive search of the
//! machine without the second margin finds executions with two effects.

use crate::policy::Profile;
use crate::time::{Moment, Span};

/// How long a sent copy is assumed to be on its way where the profile does not
/// say: longer than the idle time-outs of the usual proxies and load balancers
/// (60 s for nginx and AWS, 240 s for Azure).
pub const IN_FLIGHT_ASSUMED: Span = Span::from_secs(300);

/// The moment from which the key is not used again once an attempt may have
/// arrived. Equals `first_send` where the margins eat the whole lifetime: then
/// the key is never safe for a repeat.
pub fn safe_until(
    first_send: Moment,
    lifetime: Span,
    request_timeout: Span,
    in_flight: Span,
) -> Moment {
    first_send + lifetime.saturating_sub(request_timeout + in_flight)
}

/// [`safe_until`] by an endpoint's profile; `None` where it honours no key.
pub fn safe_until_by(
    profile: &Profile,
    first_send: Moment,
    request_timeout: Span,
) -> Option<Moment> {
    let lifetime = profile.idempotency.as_ref()?.lifetime;
    let in_flight = profile
        .lookup
        .as_ref()
        .map_or(IN_FLIGHT_ASSUMED, |l| l.max_in_flight);
    Some(safe_until(first_send, lifetime, request_timeout, in_flight))
}

/// Whether a send that starts at `at` is safe under the key.
pub fn is_safe(key_safe_until: Option<Moment>, at: Moment) -> bool {
    key_safe_until.is_some_and(|until| at < until)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Idempotency, Lookup, Stores};

    fn check(lifetime: u64, timeout: u64, in_flight: u64, expected: u64) {
        let first = Moment::START + Span::from_secs(1_000);
        let s = Span::from_secs;
        let until = safe_until(first, s(lifetime), s(timeout), s(in_flight));
        assert_eq!(
            until.since(first),
            s(expected),
            "{lifetime} {timeout} {in_flight}"
        );
    }

    #[test]
    fn both_margins_are_taken_off_the_lifetime() {
        check(1_800, 60, 5, 1_735);
        check(86_400, 600, 300, 85_500);
    }

    #[test]
    fn margins_longer_than_the_lifetime_leave_no_safe_moment() {
        check(60, 60, 5, 0);
        let first = Moment::START;
        assert!(!is_safe(
            Some(safe_until(first, Span::ZERO, Span::ZERO, Span::ZERO)),
            first
        ));
    }

    #[test]
    fn a_key_is_safe_up_to_but_not_at_its_end() {
        let until = Moment::from_micros(100);
        assert!(is_safe(Some(until), Moment::from_micros(99)));
        assert!(!is_safe(Some(until), until));
        assert!(!is_safe(None, Moment::START));
    }

    #[test]
    fn a_profile_without_a_key_promises_nothing_and_a_silent_one_gets_the_wide_margin() {
        let timeout = Span::from_secs(60);
        assert_eq!(
            safe_until_by(&Profile::nothing(), Moment::START, timeout),
            None
        );
        let keyed = Profile {
            idempotency: Some(Idempotency {
                lifetime: Span::from_secs(3_600),
                stores: Stores::All,
                in_progress: None,
                mismatch: None,
            }),
            ..Profile::nothing()
        };
        let until = safe_until_by(&keyed, Moment::START, timeout);
        assert_eq!(until, Some(Moment::START + Span::from_secs(3_240)));
        let lookup = Lookup {
            authoritative: true,
            settle: Span::from_secs(1),
            max_in_flight: Span::from_secs(5),
            max_lookups: 5,
        };
        let known = Profile {
            lookup: Some(lookup),
            ..keyed
        };
        let until = safe_until_by(&known, Moment::START, timeout);
        assert_eq!(until, Some(Moment::START + Span::from_secs(3_535)));
    }
}
