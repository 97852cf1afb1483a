//! The `RateLimit` fields of the IETF drafts, all ten revisions.
//!
//! The work is `draft-ietf-httpapi-ratelimit-headers`; it has no RFC number
//! (articles that say "RFC 9333" mean Minimal ESP). Three generations are on
//! the wire, and one server may mix them:
//!
//! ```text
//! -01 … -03  RateLimit-Limit     = limit *( "," policy )      100, 100;w=60
//!            RateLimit-Remaining = 1*DIGIT
//!            RateLimit-Reset     = 1*DIGIT                    ; seconds
//! -04 … -06  the same three, the policies in a field of their own:
//!            RateLimit-Policy    = policy *( "," policy )     10;w=1, 1000;w=3600
//! -07        RateLimit           = dictionary                 limit=100, remaining=50, reset=5
//! -08 … -10  RateLimit           = state *( "," state )       "default";r=50;t=30
//!            RateLimit-Policy    = policy *( "," policy )     "day";q=1000;w=86400
//!
//! policy = limit ";w=" seconds / name ";q=" limit [ ";w=" seconds ] [ ";qu=" unit ] [ ";pk=" key ]
//! state  = name [ ";r=" remaining ] [ ";t=" seconds ] [ ";pk=" key ]
//! name   = string / token                             ; the drafts' own examples use both
//! ```
//!
//! A field that does not parse is ignored whole. A policy without `q` lacks what
//! it needs and is ignored alone. The drafts ask for `r`; Atlassian leaves it out
//! while much is left, so a state without it says only when its window ends.
//!
//! Worked: `RateLimit-Policy: "day";q=1000;w=86400` beside
//! `RateLimit: "day";r=100;t=36000` is one reading: 100 of 1000 left in a window
//! of a day, back in ten hours. Without names a limit belongs to the policy of
//! the same size, if exactly one has it: of `5000, 1000;w=3600, 5000;w=86400`
//! the limit 5000 is the daily one, and 1000 an hour stands beside it.

use super::limit::meant;
use super::structured::{self, Bare, Item};
use super::{Reach, Reading};
use crate::time::Span;

/// In words where these readings come from.
pub(crate) const SOURCE: &str = "RateLimit header";

/// What a limit counts where the field is silent.
pub(crate) const REQUESTS: &str = "requests";

/// Longest unit or policy name that is kept, in bytes.
const NAME_BYTES_MAX: usize = 60;

/// A limit that the provider declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Its name; the old forms have none.
    pub(crate) name: Option<String>,
    /// Units per window.
    pub(crate) quota: u64,
    /// The window.
    pub(crate) window: Option<Span>,
    /// What it counts, if not requests.
    pub(crate) unit: Option<String>,
}

/// Where a limit stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// The policy's name; the old forms have none.
    pub(crate) name: Option<String>,
    /// Units per window, where the state says so itself.
    pub(crate) limit: Option<u64>,
    /// Units left.
    pub(crate) remaining: Option<u64>,
    /// Until more is back.
    pub(crate) reset: Option<Span>,
}

/// `RateLimit-Limit`: the limit in force and the policies behind it.
pub(crate) fn limit(text: &str) -> Option<(u64, Vec<Policy>)> {
    let items = structured::list(text)?;
    let limit = match items.first()?.value {
        Bare::Integer(n) => u64::try_from(n).ok()?,
        _ => return None,
    };
    Some((limit, items[1..].iter().filter_map(policy).collect()))
}

/// `RateLimit-Policy` in either form. `None` if it does not parse.
pub(crate) fn policies(text: &str) -> Option<Vec<Policy>> {
    Some(structured::list(text)?.iter().filter_map(policy).collect())
}

/// `RateLimit` in either form. `None` if it does not parse.
pub(crate) fn states(text: &str) -> Option<Vec<State>> {
    // `quota;t=1` parses as both; the list is the newer form and is tried first.
    // `limit=10` never parses as a list.
    if let Some(items) = structured::list(text) {
        return Some(items.iter().filter_map(state).collect());
    }
    let entries = structured::dictionary(text)?;
    let number = |key: &str| {
        entries
            .iter()
            .find(|(k, _)| k == key)
            .and_then(|(_, item)| natural(&item.value))
    };
    let state = State {
        name: None,
        limit: number("limit"),
        remaining: number("remaining"),
        reset: number("reset").map(Span::from_secs).and_then(meant),
    };
    (state.limit.is_some() || state.remaining.is_some()).then(|| vec![state])
}

fn policy(item: &Item) -> Option<Policy> {
    let window = item.parameter("w").and_then(span);
    let (name, quota) = match &item.value {
        Bare::Integer(n) => (None, u64::try_from(*n).ok()?),
        Bare::Text(name) => (Some(clip(name)), item.parameter("q").and_then(natural)?),
        Bare::Other => return None,
    };
    let unit = match item.parameter("qu") {
        Some(Bare::Text(unit)) => Some(clip(unit)),
        _ => None,
    };
    Some(Policy {
        name,
        quota,
        window: window.filter(|w| !w.is_zero()),
        unit,
    })
}

fn state(item: &Item) -> Option<State> {
    let Bare::Text(name) = &item.value else {
        return None;
    };
    let remaining = match item.parameter("r") {
        Some(remaining) => Some(natural(remaining)?),
        None => None,
    };
    let state = State {
        name: Some(clip(name)),
        limit: item.parameter("q").and_then(natural),
        remaining,
        reset: item.parameter("t").and_then(span),
    };
    (state.remaining.is_some() || state.reset.is_some()).then_some(state)
}

/// Seconds; what nobody can mean is as good as not there.
fn span(value: &Bare) -> Option<Span> {
    meant(Span::from_secs(natural(value)?))
}

fn natural(value: &Bare) -> Option<u64> {
    match value {
        Bare::Integer(n) => u64::try_from(*n).ok(),
        _ => None,
    }
}

/// Strings and tokens are ASCII, so any byte is a boundary.
fn clip(text: &str) -> String {
    text[..text.len().min(NAME_BYTES_MAX)].to_owned()
}

/// Puts states and policies together; a policy without a state is a reading of
/// its own. Cost: states × policies, both bounded by the parser.
pub(crate) fn join(states: Vec<State>, mut policies: Vec<Policy>, reach: Reach) -> Vec<Reading> {
    let mut readings = Vec::new();
    for state in states {
        let at = match &state.name {
            Some(_) => policies.iter().position(|p| p.name == state.name),
            None => only(&policies, |p| Some(p.quota) == state.limit),
        };
        let policy = at.map(|at| policies.remove(at));
        readings.push(Reading {
            dimension: dimension(policy.as_ref()),
            name: state.name,
            reach,
            limit: state.limit.or_else(|| policy.as_ref().map(|p| p.quota)),
            remaining: state.remaining,
            reset_after: state.reset,
            refills: false,
            fits_after: None,
            window: policy.and_then(|p| p.window),
            source: SOURCE,
        });
    }
    readings.extend(policies.into_iter().map(|policy| Reading {
        dimension: dimension(Some(&policy)),
        name: policy.name,
        reach,
        limit: Some(policy.quota),
        remaining: None,
        reset_after: None,
        refills: false,
        fits_after: None,
        window: policy.window,
        source: SOURCE,
    }));
    readings
}

/// The place of the single match; two of them would be a guess.
fn only(policies: &[Policy], matches: impl Fn(&Policy) -> bool) -> Option<usize> {
    let mut places = policies
        .iter()
        .enumerate()
        .filter(|(_, p)| matches(p))
        .map(|(at, _)| at);
    let first = places.next()?;
    places.next().is_none().then_some(first)
}

/// The unit of the draft in the words of the product; requests where it is silent.
fn dimension(policy: Option<&Policy>) -> String {
    match policy.and_then(|p| p.unit.as_deref()) {
        None => REQUESTS.to_owned(),
        Some("concurrent-requests") => "concurrent".to_owned(),
        Some(other) => other.to_ascii_lowercase().replace('-', "_"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A reading in one line: `left/limit back-in window dimension`, `-` for unknown.
    fn line(reading: &Reading) -> String {
        let count = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let span = |s: Option<Span>| s.map_or_else(|| "-".to_owned(), |s| s.to_string());
        format!(
            "{}/{} {} {} {}",
            count(reading.remaining),
            count(reading.limit),
            span(reading.reset_after),
            span(reading.window),
            reading.dimension
        )
    }

    #[track_caller]
    fn check(state: &str, policy: &str, expected: &[&str]) {
        let states = states(state).expect("the state parses");
        let policies = policies(policy).expect("the policy parses");
        let readings = join(states, policies, Reach::Account);
        assert_eq!(
            readings.iter().map(line).collect::<Vec<_>>(),
            expected,
            "{state} | {policy}"
        );
    }

    #[test]
    fn a_state_finds_its_policy_by_name() {
        check(
            r#""day";r=100;t=36000"#,
            r#""day";q=1000;w=86400"#,
            &["100/1000 36000s 86400s requests"],
        );
        check(
            r#""b";r=1;t=1, "d";r=2;t=2"#,
            r#""d";q=1000;w=86400,"b";q=100;w=60"#,
            &["1/100 1s 60s requests", "2/1000 2s 86400s requests"],
        );
        check(r#"day;r=7"#, r#""day";q=10"#, &["7/10 - - requests"]);
    }

    #[test]
    fn a_policy_without_a_state_stands_alone() {
        check(
            r#""x";r=5"#,
            r#""hour";q=1000;w=3600, "day";q=5000;w=86400"#,
            &[
                "5/- - - requests",
                "-/1000 - 3600s requests",
                "-/5000 - 86400s requests",
            ],
        );
    }

    #[test]
    fn the_dictionary_of_revision_07_finds_its_policy_by_size() {
        check(
            "limit=100, remaining=50, reset=5",
            "100;w=60",
            &["50/100 5s 60s requests"],
        );
        check(
            "limit=10, reset=1",
            "10;w=1, 10;w=60",
            &[
                "-/10 1s - requests",
                "-/10 - 1s requests",
                "-/10 - 60s requests",
            ],
        );
        assert_eq!(
            states("quota=5"),
            None,
            "a dictionary without a limit says nothing"
        );
    }

    #[test]
    fn a_unit_becomes_a_dimension() {
        let units = [
            (
                r#""u";q=65535;qu="content-bytes";w=10;pk=:sdfjLJUOUH==:"#,
                "content_bytes",
            ),
            (r#""u";q=65535;qu="concurrent-requests";w=10"#, "concurrent"),
            (r#""u";q=65535;qu="requests";w=10"#, "requests"),
        ];
        for (policy, dimension) in units {
            check("", policy, &[&format!("-/65535 - 10s {dimension}")]);
        }
    }

    #[test]
    fn what_lacks_a_needed_parameter_is_ignored_alone() {
        check(
            r#"quota;pk=:aa==:, "ok";r=3"#,
            r#"quota;w=1, "ok";q=9"#,
            &["3/9 - - requests"],
        );
        check(r#""x";r="3";t=1"#, r#""x";q=-9"#, &[]);
        check("5;r=1", "?1;q=1", &[]);
    }

    #[test]
    fn what_does_not_parse_is_ignored_whole() {
        for text in [r#""day;r=1"#, "limit=", ";;", "a b", "\"x\";r=1,"] {
            assert_eq!(states(text), None, "{text}");
        }
        for text in ["100;w=", "100;;w=60", "\u{e9}"] {
            assert_eq!(policies(text), None, "{text}");
            assert_eq!(limit(text), None, "{text}");
        }
        assert_eq!(limit(""), None);
        assert_eq!(limit("-5"), None);
        assert_eq!(limit("ten"), None);
    }

    #[test]
    fn a_state_that_leaves_out_what_is_left_still_says_when_its_window_ends() {
        check(
            r#""global-app-quota";t=240"#,
            r#""global-app-quota";q=80000;w=3600"#,
            &["-/80000 240s 3600s requests"],
        );
    }

    proptest! {
        #[test]
        fn any_text_is_bounded_and_read_without_a_panic(a in "[ -~]{0,200}", b in "[ -~]{0,200}") {
            let states = states(&a).unwrap_or_default();
            let policies = policies(&b).unwrap_or_default();
            let most = states.len() + policies.len();
            prop_assert!(join(states, policies, Reach::Account).len() <= most);
            let _ = limit(&a);
        }
    }
}
