//! Header fields become readings: what belongs to one limit is put together.
//!
//! Fields of one family, dimension and reach describe one limit: what
//! `x-ratelimit-limit-tokens`, `-remaining-tokens` and `-reset-tokens` say is
//! one [`Reading`]. Families stay apart, because a server that sends two of
//! them may mean two limits.

use super::dialect::{Dialect, FieldRule, What};
use super::limit::Limit;
use super::{AnsweredAt, Malformed, Reach, Reading, ratelimit_fields as ietf, text};

/// Most readings of one answer; a provider with more limits is read in part.
pub const READINGS_MAX: usize = 32;

/// Reads every field that the dialect knows, the fullest readings first. Cost:
/// O(fields × log rules).
pub(crate) fn read(
    headers: &[(&str, &[u8])],
    dialect: &Dialect,
    at: AnsweredAt,
    malformed: &mut Malformed,
) -> Vec<Reading> {
    let mut limits: Vec<Limit<'_>> = Vec::new();
    let mut structured: Vec<Structured<'_>> = Vec::new();
    for (name, value) in headers {
        let Some(rule) = dialect.rule(name) else {
            continue;
        };
        let taken = text(value).and_then(|value| match rule.what {
            What::Retry => Some(()),
            What::State | What::Policy => match Structured::of(&mut structured, rule) {
                Some(pair) => pair.take(rule.what, value),
                None => Some(()),
            },
            _ => match Limit::of(&mut limits, rule) {
                Some(limit) => limit.take(rule, value, at),
                None => Some(()),
            },
        });
        if taken.is_none() {
            malformed.note(&rule.header);
        }
    }
    let mut readings = finish(limits, structured);
    // Stable: among equals the order of the answer stays.
    readings.sort_by_key(|reading| std::cmp::Reverse(known(reading)));
    readings.truncate(READINGS_MAX);
    readings
}

fn finish(limits: Vec<Limit<'_>>, structured: Vec<Structured<'_>>) -> Vec<Reading> {
    let mut readings = Vec::new();
    // The three fields of the older drafts are a state without a name; their
    // policies stand in a field of their own since revision -04.
    let (old_ietf, vendor): (Vec<_>, Vec<_>) = limits
        .into_iter()
        .partition(|limit| limit.source == ietf::SOURCE);
    let mut old_ietf = old_ietf;
    for Structured {
        reach,
        states,
        mut policies,
        ..
    } in structured
    {
        let nameless = old_ietf.iter_mut().find(|limit| limit.reach == reach);
        if let (true, Some(limit)) = (states.is_empty(), nameless) {
            limit.policies.append(&mut policies);
        }
        readings.extend(ietf::join(states, policies, reach));
    }
    readings.extend(old_ietf.into_iter().chain(vendor).flat_map(Limit::finish));
    readings
}

/// How much a reading says.
fn known(reading: &Reading) -> usize {
    [
        reading.limit.is_some(),
        reading.remaining.is_some(),
        reading.reset_after.is_some(),
        reading.window.is_some(),
    ]
    .into_iter()
    .filter(|known| *known)
    .count()
}

/// `RateLimit` and `RateLimit-Policy` of one prefix.
struct Structured<'a> {
    prefix: &'a str,
    reach: Reach,
    states: Vec<ietf::State>,
    policies: Vec<ietf::Policy>,
}

impl<'a> Structured<'a> {
    /// The pair that this field belongs to. `None` beyond the bound.
    fn of<'l>(
        all: &'l mut Vec<Structured<'a>>,
        rule: &'a FieldRule,
    ) -> Option<&'l mut Structured<'a>> {
        let prefix = rule.header.strip_suffix("-policy").unwrap_or(&rule.header);
        let at = match all.iter().position(|known| known.prefix == prefix) {
            Some(at) => at,
            None if all.len() == READINGS_MAX => return None,
            None => {
                let (states, policies) = (Vec::new(), Vec::new());
                all.push(Structured {
                    prefix,
                    reach: rule.reach,
                    states,
                    policies,
                });
                all.len() - 1
            }
        };
        all.get_mut(at)
    }

    /// Takes one value. `None` if it does not match its grammar.
    fn take(&mut self, what: What, value: &str) -> Option<()> {
        match what {
            What::State => self.states.extend(ietf::states(value)?),
            _ => self.policies.extend(ietf::policies(value)?),
        }
        // A repeated field counts against the same bound.
        self.states.truncate(READINGS_MAX);
        self.policies.truncate(READINGS_MAX);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::tables;
    use crate::time::{Span, WallTime};

    /// 2026-12-01T12:00:00Z.
    const NOON: AnsweredAt = AnsweredAt(WallTime::from_secs(1_796_126_400));

    fn lines(dialect: &Dialect, fields: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let headers: Vec<_> = fields.iter().map(|(n, v)| (*n, v.as_bytes())).collect();
        let mut malformed = Malformed::default();
        let count = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let span = |s: Option<Span>| s.map_or_else(|| "-".to_owned(), |s| s.to_string());
        let line = |r: &Reading| {
            let (left, limit) = (count(r.remaining), count(r.limit));
            let (reset, window) = (span(r.reset_after), span(r.window));
            format!(
                "{left}/{limit} {reset} {window} {} ({})",
                r.dimension, r.source
            )
        };
        let readings = read(&headers, dialect, NOON, &mut malformed);
        (readings.iter().map(line).collect(), malformed.0)
    }

    #[track_caller]
    fn check(fields: &[(&str, &str)], expected: &[&str]) {
        let (readings, malformed) = lines(&tables::generic(), fields);
        assert_eq!(readings, expected, "{fields:?}");
        assert!(malformed.is_empty(), "{malformed:?}");
    }

    #[test]
    fn the_three_fields_of_one_limit_are_one_reading() {
        check(
            &[
                ("X-RateLimit-Limit", "120"),
                ("X-RateLimit-Remaining", "0"),
                ("X-RateLimit-Reset", "1796126412"),
            ],
            &["0/120 12s - requests (X-RateLimit header)"],
        );
        check(
            &[
                ("ratelimit-limit", "100"),
                ("ratelimit-remaining", "50"),
                ("ratelimit-reset", "5"),
            ],
            &["50/100 5s - requests (RateLimit header)"],
        );
    }

    #[test]
    fn a_policy_gives_the_old_three_fields_their_window() {
        let trio = [("ratelimit-remaining", "50"), ("ratelimit-reset", "5")];
        let inside = [("ratelimit-limit", "5000, 1000;w=3600, 5000;w=86400")];
        let beside = [
            ("ratelimit-limit", "5000"),
            ("ratelimit-policy", "1000;w=3600, 5000;w=86400"),
        ];
        let expected = [
            "50/5000 5s 86400s requests (RateLimit header)",
            "-/1000 - 3600s requests (RateLimit header)",
        ];
        check(&[&trio[..], &inside[..]].concat(), &expected);
        check(&[&trio[..], &beside[..]].concat(), &expected);
        check(
            &[
                ("x-ratelimit-limit", "10, 10;w=1;name=\"per second\""),
                ("x-ratelimit-remaining", "9"),
            ],
            &["9/10 - 1s requests (X-RateLimit header)"],
        );
    }

    #[test]
    fn the_reading_that_says_most_comes_first() {
        check(
            &[
                ("x-ratelimit-limit-tokens", "9000"),
                ("x-ratelimit-limit", "60"),
                ("x-ratelimit-remaining", "5"),
            ],
            &[
                "5/60 - - requests (X-RateLimit header)",
                "-/9000 - - tokens (X-RateLimit header)",
            ],
        );
    }

    #[test]
    fn families_stay_apart() {
        check(
            &[
                ("x-ratelimit-remaining", "349"),
                ("ratelimit", r#""tenant";r=7;t=60"#),
                ("ratelimit-policy", r#""tenant";q=80;w=3600"#),
            ],
            &[
                "7/80 60s 3600s requests (RateLimit header)",
                "349/- - - requests (X-RateLimit header)",
            ],
        );
    }

    #[test]
    fn when_a_bucket_is_full_again_is_no_window() {
        let bucket = |remaining, reset| {
            [
                ("x-ratelimit-limit-requests", "60"),
                ("x-ratelimit-remaining-requests", remaining),
                ("x-ratelimit-reset-requests", reset),
            ]
        };
        let source = "requests (X-RateLimit header)";
        check(&bucket("59", "1s"), &[&format!("59/60 1s - {source}")]);
        check(&bucket("0", "60s"), &[&format!("0/60 60s - {source}")]);
        check(&bucket("60", "0s"), &[&format!("60/60 0s - {source}")]);
    }

    #[test]
    fn a_documented_window_stands_where_none_is_sent() {
        check(
            &[
                ("anthropic-ratelimit-requests-limit", "50"),
                ("anthropic-ratelimit-requests-remaining", "0"),
                ("anthropic-ratelimit-requests-reset", "2026-12-01T12:00:03Z"),
            ],
            &["0/50 3s 60s requests (the provider's rate-limit header)"],
        );
    }

    #[test]
    fn a_sentinel_is_no_reading_and_no_error() {
        check(
            &[("x-ratelimit-limit", "0"), ("x-ratelimit-remaining", "0")],
            &[],
        );
        check(
            &[
                ("x-ratelimit-limit-tokens", "-1"),
                ("x-ratelimit-remaining-tokens", "-1"),
                ("x-ratelimit-reset-tokens", "0"),
            ],
            &[],
        );
        check(
            &[("x-ratelimit-limit", "60"), ("x-ratelimit-remaining", "-1")],
            &["-/60 - - requests (X-RateLimit header)"],
        );
    }

    #[test]
    fn of_repeated_values_the_cautious_one_counts() {
        check(
            &[
                ("x-ratelimit-remaining", "9"),
                ("x-ratelimit-remaining", "4, 7"),
                ("x-ratelimit-reset", "3"),
                ("x-ratelimit-reset", "8"),
            ],
            &["4/- 8s - requests (X-RateLimit header)"],
        );
    }

    #[test]
    fn a_moment_alone_is_kept_until_it_has_passed() {
        check(
            &[("x-ratelimit-reset", "55")],
            &["-/- 55s - requests (X-RateLimit header)"],
        );
        check(&[("x-ratelimit-reset", "1796126300")], &[]);
    }

    #[test]
    fn malformed_fields_are_named_once_and_take_nothing_away() {
        let (readings, malformed) = lines(
            &tables::generic(),
            &[
                ("X-RateLimit-Limit", "sixty"),
                ("X-RateLimit-Limit", "many"),
                ("X-RateLimit-Remaining", "5"),
                ("X-RateLimit-Reset", "soon"),
                ("RateLimit", "\"unfinished"),
                ("Content-Type", "text/\"html"),
            ],
        );
        assert_eq!(readings, ["5/- - - requests (X-RateLimit header)"]);
        assert_eq!(
            malformed,
            ["x-ratelimit-limit", "x-ratelimit-reset", "ratelimit"]
        );
    }

    #[test]
    fn used_of_limit_becomes_what_is_left() {
        let rule = FieldRule {
            header: "x-shopify-shop-api-call-limit".into(),
            dimension: "requests".into(),
            what: What::UsedOfLimit,
            unit: crate::observe::dialect::Unit::Auto,
            reach: Reach::Account,
            window: None,
        };
        let clock = crate::observe::dialect::MessageClock::Unknown;
        let shopify = Dialect::new(vec![rule], clock).unwrap();
        let field = |value| [("X-Shopify-Shop-Api-Call-Limit", value)];
        let source = "requests (the provider's rate-limit header)";
        assert_eq!(
            lines(&shopify, &field("32/40")).0,
            [format!("8/40 - - {source}")]
        );
        assert_eq!(
            lines(&shopify, &field("41/40")).0,
            [format!("0/40 - - {source}")]
        );
        assert_eq!(
            lines(&shopify, &field("32 of 40")).1,
            ["x-shopify-shop-api-call-limit"]
        );
    }
}
