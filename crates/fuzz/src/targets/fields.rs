//! Rate-limit fields: what is told is read as it was told, and nothing more.

use rategov_core::observe::tables::{generic, generic_rules};
use rategov_core::observe::{MALFORMED_MAX, READINGS_MAX, Reading, read};
use rategov_core::time::Span;

use crate::Target;
use crate::input::{Input, NOON, head_and_body};

/// No limit is of a longer span.
const YEAR: Span = Span::from_secs(366 * 24 * 3_600);

/// `RateLimit` and `RateLimit-Policy` of the IETF drafts.
pub(super) const RATELIMIT: Target = Target {
    name: "ratelimit",
    holds: "policies that are written are read as they were, and no number of any text comes out larger than it stands there",
    check: check_ratelimit,
    seeds: || {
        [
            "\"day\";r=100;t=36000\n\"day\";q=1000;w=86400",
            "limit=100, remaining=50, reset=5\n100;w=60",
            "\"b\";r=1;t=1, \"d\";r=2;t=2\n\"d\";q=1000;w=86400;qu=\"tokens\",\"b\";q=100;w=60",
            "\"x\";r=0;t=999999999999999\n\"x\";q=0;w=0",
            "a;r=-1, b;r=1.5, c;r=?1, (d e);r=1\n?1;q=1;pk=:aa==:",
        ]
        .map(|text| [&[3; 33], text.as_bytes()].concat())
        .to_vec()
    },
};

fn check_ratelimit(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    check_written(&mut input);
    let text = input.text();
    let (state, policy) = text.split_once('\n').unwrap_or((&text, ""));
    let readings = readings(state, policy);
    assert!(readings.len() <= READINGS_MAX);
    let largest = largest_number(&text);
    for reading in &readings {
        assert!(
            reading.limit <= Some(largest) && reading.remaining <= Some(largest),
            "{reading:?}"
        );
        let longest = Some(Span::from_secs(largest));
        assert!(
            reading.reset_after <= longest && reading.window <= longest,
            "{reading:?}"
        );
        assert!(
            reading.limit != Some(0),
            "nobody is paced by a limit of nothing"
        );
        let names = reading.name.as_deref().unwrap_or("").len() + reading.dimension.len();
        assert!(names <= text.len() + "requests".len(), "{reading:?}");
    }
}

/// Writes policies with their states and reads them again.
fn check_written(input: &mut Input<'_>) {
    let count = usize::from(input.byte()) % 5;
    let mut policies = Vec::new();
    for at in 0..count {
        let [quota, window, left, reset] = [0; 4].map(|_| {
            let digits = u32::from(input.byte()) % 15;
            u64::from(input.byte()) * 10_u64.pow(digits) / 256
        });
        policies.push((format!("p{at}"), quota.max(1), window, left, reset));
    }
    let all = |write: fn(&(String, u64, u64, u64, u64)) -> String| {
        let members: Vec<String> = policies.iter().map(write).collect();
        members.join(", ")
    };
    let state = all(|(name, _, _, left, reset)| format!("\"{name}\";r={left};t={reset}"));
    let policy = all(|(name, quota, window, _, _)| format!("\"{name}\";q={quota};w={window}"));
    let read = readings(&state, &policy);
    assert_eq!(read.len(), policies.len(), "{state} | {policy}");
    for (name, quota, window, left, reset) in &policies {
        let reading = read.iter().find(|it| it.name.as_ref() == Some(name));
        let reading = reading.expect("each policy is a reading");
        assert_eq!(reading.limit, Some(*quota));
        assert_eq!(reading.remaining, Some(*left));
        let meant = |seconds| Some(Span::from_secs(seconds)).filter(|span| *span <= YEAR);
        assert_eq!(reading.reset_after, meant(*reset));
        let window = meant(*window).filter(|window| !window.is_zero());
        assert_eq!(reading.window, window);
    }
}

fn readings(state: &str, policy: &str) -> Vec<Reading> {
    let headers: [(&str, &[u8]); 2] = [
        ("RateLimit", state.as_bytes()),
        ("RateLimit-Policy", policy.as_bytes()),
    ];
    read(200, &headers, None, &generic(), &generic_rules(), NOON).readings
}

/// The largest run of digits; what is too long counts as the largest number.
fn largest_number(text: &str) -> u64 {
    let runs = text.split(|c: char| !c.is_ascii_digit());
    let numbers = runs.filter(|run| !run.is_empty());
    let number = |run: &str| run.parse().unwrap_or(u64::MAX);
    numbers.map(number).max().unwrap_or(0)
}

/// The fields of many vendors, as nobody's preset reads them.
pub(super) const DIALECTS: Target = Target {
    name: "dialects",
    holds: "a field means the same in any case and beside strangers, what is malformed is named once, and the result is bounded",
    check: check_dialects,
    seeds: || {
        let fields = [
            "x-ratelimit-limit: 60\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 1796126412",
            "x-ratelimit-limit-requests: 5000\nx-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 6m0s",
            "ratelimit-limit: 100, 100;w=60\nratelimit-remaining: 3\nratelimit-reset: 9\nage: 7",
            "retry-after-ms: 1250\nx-should-retry: false\nretry-after: soon",
            "x-ratelimit-remaining: NaN\nx-ratelimit-limit: -1\nx-ratelimit-reset: 1e308",
        ];
        let seeds = fields
            .iter()
            .map(|text| [&[1, 173], text.as_bytes()].concat());
        seeds.collect()
    },
};

fn check_dialects(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let status = 100 + (u16::from(input.byte()) << 8 | u16::from(input.byte())) % 500;
    let (fields, _) = head_and_body(input.rest());
    let (dialect, rules) = (generic(), generic_rules());
    let facts = |fields: &[(&str, &[u8])]| read(status, fields, None, &dialect, &rules, NOON);
    let said = facts(&fields);
    assert!(said.readings.len() + said.asides().limits.len() <= READINGS_MAX);
    assert!(said.malformed.len() <= MALFORMED_MAX);
    for (at, name) in said.malformed.iter().enumerate() {
        assert!(
            !said.malformed[..at].contains(name),
            "{name} is named twice"
        );
    }
    let loud: Vec<String> = fields
        .iter()
        .map(|(name, _)| name.to_ascii_uppercase())
        .collect();
    let mut other: Vec<(&str, &[u8])> = loud
        .iter()
        .map(String::as_str)
        .zip(fields.iter().map(|it| it.1))
        .collect();
    assert_eq!(facts(&other), said, "names have no case");
    other.insert(0, ("x-stranger", b"1; mode=block"));
    assert_eq!(facts(&other), said, "a stranger says nothing");
}
