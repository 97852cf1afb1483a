//! From header fields to readings: families, names, sentinels, buckets of points.

use super::*;
use crate::observe::dialect::{MessageClock, Place};
use crate::observe::{Answer, Dialect, Malformed, gather::gather, tables};
use crate::time::{Span, WallTime};

/// 2026-12-01T12:00:00Z.
const NOON: WallTime = WallTime::from_secs(1_796_126_400);

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
    let answer = Answer {
        status: 200,
        headers: &headers,
        error: None,
        values: &[],
        arrived: NOON,
    };
    let gathered = gather(&answer, dialect, AnsweredAt(NOON), &mut malformed);
    (gathered.readings.iter().map(line).collect(), malformed.0)
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
fn of_joined_values_all_must_be_numbers_and_a_thousand_is_no_pair() {
    for value in ["9, many", "1,000", "12,500,000", "9,"] {
        let fields = [
            ("x-ratelimit-limit", "60"),
            ("x-ratelimit-remaining", value),
        ];
        let (readings, malformed) = lines(&tables::generic(), &fields);
        assert_eq!(
            readings,
            ["-/60 - - requests (X-RateLimit header)"],
            "{value}"
        );
        assert_eq!(malformed, ["x-ratelimit-remaining"], "{value}");
    }
    let grouped = [
        ("x-ratelimit-limit", "1,000"),
        ("x-ratelimit-remaining", "7"),
    ];
    let (readings, malformed) = lines(&tables::generic(), &grouped);
    assert_eq!(readings, ["7/- - - requests (X-RateLimit header)"]);
    assert_eq!(malformed, ["x-ratelimit-limit"]);
    check(
        &[("x-ratelimit-remaining", "-1, 7, 1000,6")],
        &["6/- - - requests (X-RateLimit header)"],
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

/// A dialect of these rows: header, dimension, what, and how the limit is called.
fn dialect(rows: &[(&str, &str, What, Option<&str>)]) -> Dialect {
    let rule = |(header, dimension, what, name): &(&str, &str, What, Option<&str>)| FieldRule {
        dimension: (*dimension).to_owned(),
        name: name.map(str::to_owned),
        ..FieldRule::new(Place::header(header), *what)
    };
    Dialect::new(rows.iter().map(rule).collect(), MessageClock::Unknown).unwrap()
}

fn names(dialect: &Dialect, fields: &[(&str, &str)]) -> Vec<String> {
    let headers: Vec<_> = fields.iter().map(|(n, v)| (*n, v.as_bytes())).collect();
    let answer = Answer {
        status: 200,
        headers: &headers,
        error: None,
        values: &[],
        arrived: NOON,
    };
    let gathered = gather(
        &answer,
        dialect,
        AnsweredAt(NOON),
        &mut Malformed::default(),
    );
    let name = |r: &Reading| format!("{}={:?}", r.label(), r.remaining.unwrap_or_default());
    gathered.readings.iter().map(name).collect()
}

#[test]
fn used_of_limit_becomes_what_is_left() {
    let name = "x-shopify-shop-api-call-limit";
    let shopify = dialect(&[(name, "requests", What::UsedOfLimit, None)]);
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
    assert_eq!(lines(&shopify, &field("32 of 40")).1, [name]);
}

#[test]
fn what_is_used_leaves_the_rest_of_the_limit() {
    let rows = [
        ("x-limit", "requests", What::Limit, None),
        ("x-used", "requests", What::Used, None),
    ];
    let fields = [("x-limit", "600"), ("x-used", "5")];
    assert_eq!(names(&dialect(&rows), &fields), ["requests=595"]);
}

#[test]
fn one_field_name_may_stand_for_many_limits_each_with_its_name() {
    let keyed = |key: &str, what| FieldRule {
        key: Some(key.to_owned()),
        dimension: "requests".to_owned(),
        name: Some("{name}".to_owned()),
        ..FieldRule::new(Place::header("zendesk-ratelimit-*"), what)
    };
    let rules = vec![
        keyed("total", What::Limit),
        keyed("remaining", What::Remaining),
    ];
    let zendesk = Dialect::new(rules, MessageClock::Unknown).unwrap();
    let fields = [
        (
            "Zendesk-RateLimit-tickets-index",
            "total=100; remaining=98; resets=37",
        ),
        ("zendesk-ratelimit-users", "total=5; remaining=0"),
    ];
    assert_eq!(names(&zendesk, &fields), ["tickets-index=98", "users=0"]);
    let odd = [("zendesk-ratelimit-odd", "ninety-eight")];
    assert_eq!(lines(&zendesk, &odd).1, ["zendesk-ratelimit-"]);
}

#[test]
fn a_limit_is_called_by_its_bucket_where_the_answer_names_it() {
    let name = Some("bucket:{x-ratelimit-bucket}");
    let discord = dialect(&[("x-ratelimit-remaining", "requests", What::Remaining, name)]);
    let left = ("x-ratelimit-remaining", "3");
    let named = [left, ("X-RateLimit-Bucket", "b7f0e1")];
    assert_eq!(names(&discord, &named), ["bucket:b7f0e1=3"]);
    assert_eq!(names(&discord, &[left]), ["requests=3"]);
}

#[test]
fn what_is_announced_and_not_enforced_is_told_and_never_waited_for() {
    let announced = FieldRule {
        dimension: "requests".to_owned(),
        name: Some("beta:{name}".to_owned()),
        standing: Standing::Announced,
        ..FieldRule::new(Place::header("beta-ratelimit"), What::State)
    };
    let jira = Dialect::new(vec![announced], MessageClock::Unknown).unwrap();
    let headers: [(&str, &[u8]); 1] = [("Beta-RateLimit", br#""tenant-app-quota";r=0;t=2650"#)];
    let facts = crate::observe::read(200, &headers, None, &jira, &[], NOON);
    assert!(facts.readings.is_empty() && facts.exhausted().is_none());
    let [aside] = &facts.asides().limits[..] else {
        panic!("{facts:?}");
    };
    assert_eq!(
        (aside.label(), aside.remaining),
        ("beta:tenant-app-quota", Some(0))
    );
}

#[test]
fn minus_one_is_not_known_and_zero_is_nothing_granted() {
    let unknown = [("x-ratelimit-limit", "-1"), ("x-ratelimit-remaining", "-1")];
    check(&[&unknown[..], &[("x-ratelimit-reset", "0")]].concat(), &[]);
    check(
        &[("x-ratelimit-remaining", "-1"), ("x-ratelimit-limit", "9")],
        &["-/9 - - requests (X-RateLimit header)"],
    );
    let headers: [(&str, &[u8]); 1] = [("x-ratelimit-limit", b"0")];
    let facts = crate::observe::read(429, &headers, None, &tables::generic(), &[], NOON);
    assert!(facts.readings.is_empty());
    assert_eq!(facts.asides().limits[0].limit, Some(0));
}

#[test]
fn a_bucket_with_too_little_for_the_call_says_when_it_fits() {
    let rows = [
        ("x-max", "points", What::Limit, None),
        ("x-left", "points", What::Remaining, None),
        ("x-rate", "points", What::Restore, None),
        ("x-asked", "points", What::Asked, None),
    ];
    let read = |asked: &str, rate: &str| {
        let fields = [
            ("x-max", "1000.0"),
            ("x-left", "118.0"),
            ("x-rate", rate),
            ("x-asked", asked),
        ];
        let headers: Vec<_> = fields.iter().map(|(n, v)| (*n, v.as_bytes())).collect();
        let facts = crate::observe::read(429, &headers, None, &dialect(&rows), &[], NOON);
        (facts.readings[0].fits_after, facts.retry_after)
    };
    let wait = Some(Span::from_millis(1_680));
    assert_eq!(read("202", "50.0"), (wait, wait));
    assert_eq!(read("118", "50.0"), (None, None));
    assert_eq!(read("202", "0"), (None, None));
    assert!(read("99999999999999999999", "0.000001").0.is_some());
}

#[test]
fn a_window_beyond_a_year_is_nothing_that_anybody_can_wait_for() {
    let year = "31622400";
    check(
        &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", year)],
        &["0/- 31622400s - requests (X-RateLimit header)"],
    );
    for reset in [
        "31622401",
        "999999999",
        "99999999999999999999",
        "253402300799",
    ] {
        let fields = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", reset)];
        let (readings, malformed) = lines(&tables::generic(), &fields);
        assert_eq!(
            readings,
            ["0/- - - requests (X-RateLimit header)"],
            "{reset}"
        );
        assert_eq!(malformed, ["x-ratelimit-reset"]);
    }
    check(
        &[
            ("ratelimit", "\"a\";r=0;t=999999999999999"),
            ("ratelimit-policy", "\"a\";q=1;w=999999999999999"),
        ],
        &["0/1 - - requests (RateLimit header)"],
    );
}
