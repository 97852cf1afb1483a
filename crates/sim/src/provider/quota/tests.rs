//! Each kind of limit against its definition, counted by brute force over
//! every call so far, in virtual time.

use proptest::prelude::*;

use super::*;

/// A call at a moment, and whether it was let in.
type Past = Vec<(u64, bool)>;

/// Whether `level` admits a call at `now` after `past`, straight from the
/// definition. `counted` says whether refused calls count.
fn admitted_by_definition(level: Level, past: &Past, now: u64, counted: bool) -> bool {
    let calls = || {
        past.iter()
            .filter(move |(_, admitted)| *admitted || counted)
            .map(|(at, _)| *at)
    };
    match level {
        Level::Fixed {
            limit,
            window,
            phase,
        } => {
            let start = window_start(now, window, phase);
            (calls().filter(|at| (*at as i64) >= start).count() as u64) < limit
        }
        Level::SlidingLog { limit, window } => {
            let inside = |at: &u64| *at as i64 > now as i64 - window.as_micros() as i64;
            (calls().filter(inside).count() as u64) < limit
        }
        Level::SlidingCounter {
            limit,
            window,
            phase,
        } => {
            let (start, width) = (window_start(now, window, phase), window.as_micros() as i64);
            let current = calls().filter(|at| *at as i64 >= start).count() as i128;
            let previous = calls()
                .filter(|at| (start - width..start).contains(&(*at as i64)))
                .count() as i128;
            let left = i128::from(start + width - now as i64);
            let width = i128::from(width);
            previous * left + (current + 1) * width <= i128::from(limit) * width
        }
        Level::Bucket {
            capacity,
            refill,
            per,
        } => {
            // Replayed drop by drop: each call first lets the bucket refill.
            let unit = i128::from(per.as_micros());
            let (mut level, mut last) = (i128::from(capacity) * unit, 0);
            let fill = |level: i128, span: u64| {
                (level + i128::from(span) * i128::from(refill)).min(i128::from(capacity) * unit)
            };
            for (at, admitted) in past {
                level = fill(level, at - last);
                last = *at;
                if *admitted || counted {
                    level = (level - unit).max(0);
                }
            }
            fill(level, now - last) >= unit
        }
        Level::Concurrent { .. } => unreachable!("not a window"),
    }
}

fn window_start(now: u64, window: Span, phase: Span) -> i64 {
    let (width, phase) = (window.as_micros() as i64, phase.as_micros() as i64);
    (now as i64 - phase).div_euclid(width) * width + phase
}

fn levels() -> impl Strategy<Value = Level> {
    let window = (1u64..40).prop_map(Span::from_micros);
    let phase = (0u64..60).prop_map(Span::from_micros);
    prop_oneof![
        (1u64..6, window.clone(), phase.clone()).prop_map(|(limit, window, phase)| Level::Fixed {
            limit,
            window,
            phase
        }),
        (1u64..6, window.clone()).prop_map(|(limit, window)| Level::SlidingLog { limit, window }),
        (1u64..6, window.clone(), phase).prop_map(|(limit, window, phase)| Level::SlidingCounter {
            limit,
            window,
            phase
        }),
        (1u64..6, 1u64..5, window).prop_map(|(capacity, refill, per)| Level::Bucket {
            capacity,
            refill,
            per
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_counter_admits_exactly_what_its_definition_admits(
        level in levels(),
        counted in any::<bool>(),
        gaps in prop::collection::vec(0u64..12, 1..60),
    ) {
        let mut counter = Counter::new(level);
        let (mut past, mut now): (Past, u64) = (Vec::new(), 0);
        for gap in gaps {
            now += gap;
            let at = Moment::from_micros(now);
            let admitted = counter.admits(at);
            prop_assert_eq!(
                admitted, admitted_by_definition(level, &past, now, counted),
                "{:?} at {} after {:?}", level, now, past
            );
            let standing = counter.standing(at).expect("a window has numbers");
            prop_assert_eq!(standing.remaining > 0, admitted, "{:?} at {}", level, now);
            if admitted {
                counter.charge(at);
            } else if counted {
                counter.charge_refused(at);
            }
            past.push((now, admitted));
        }
    }

    #[test]
    fn the_announced_moment_is_the_first_that_is_admitted(
        level in levels(),
        counted in any::<bool>(),
        gaps in prop::collection::vec(0u64..6, 1..40),
    ) {
        let mut counter = Counter::new(level);
        let mut now = Moment::START;
        for gap in gaps {
            now = now + Span::from_micros(gap);
            let free = counter.free_at(now).expect("a window frees itself");
            let mut first = now;
            while !counter.admits(first) {
                first = first + Span::from_micros(1);
            }
            prop_assert_eq!(free, first, "{:?} asked at {:?}", level, now);
            if counter.admits(now) {
                counter.charge(now);
            } else if counted {
                counter.charge_refused(now);
            }
        }
    }
}

fn caller<'a>(credential: &'a str, model: &'a str) -> Caller<'a> {
    Caller {
        account: "org",
        credential,
        model,
        endpoint: "POST /v1/messages",
        call: ("POST", "/v1/messages"),
    }
}

fn quotas(rules: &[&str]) -> Quotas {
    Quotas::new(
        rules
            .iter()
            .map(|r| r.parse().unwrap_or_else(|e| panic!("{e}")))
            .collect(),
    )
}

fn at(ms: u64) -> Moment {
    Moment::from_micros(ms * 1_000)
}

/// Calls at the given milliseconds, all of one caller; `true` where admitted.
fn check(rules: &[&str], calls_ms: &[u64], expected: &[bool]) {
    let mut quotas = quotas(rules);
    let got: Vec<bool> = calls_ms
        .iter()
        .map(|ms| quotas.weigh(at(*ms), &caller("k1", "m")).refusal.is_none())
        .collect();
    assert_eq!(got, expected, "{rules:?} at {calls_ms:?}");
}

#[test]
fn a_refusal_uses_quota_only_where_refusals_count() {
    let calls = [0, 1_000, 9_000, 10_500];
    check(&["sliding:2/10s"], &calls, &[true, true, false, true]);
    check(
        &["sliding:2/10s,count-refusals"],
        &calls,
        &[true, true, false, false],
    );
}

#[test]
fn impatient_callers_lock_themselves_out_of_a_bucket_that_counts_refusals() {
    let every_500_ms: Vec<u64> = (0..40).map(|n| n * 500).collect();
    let mut expected = vec![false; 40];
    expected[0] = true;
    check(&["bucket:1+1/s,count-refusals"], &every_500_ms, &expected);
}

#[test]
fn a_call_must_pass_every_level_and_a_refusal_costs_none_of_them() {
    let rule = ["sliding:4/10s,sliding:2/1s"];
    let calls = [0, 1, 2, 3, 1_100, 1_200, 1_300, 3_000];
    check(
        &rule,
        &calls,
        &[true, true, false, false, true, true, false, false],
    );
    check(
        &["sliding:2/1s", "sliding:4/10s"],
        &calls,
        &[true, true, false, false, true, true, false, false],
    );
}

#[test]
fn the_wait_is_that_of_the_slowest_level() {
    let mut quotas = quotas(&["sliding:1/1s", "sliding:1/10s,name=long"]);
    assert!(quotas.weigh(at(0), &caller("k1", "m")).refusal.is_none());
    let refusal = quotas
        .weigh(at(100), &caller("k1", "m"))
        .refusal
        .expect("it is refused");
    assert_eq!(refusal.free_at, Some(at(10_000)));
    assert_eq!(wait_of(&refusal, at(100)), Some(Span::from_millis(9_900)));
    assert_eq!(refusal.rule, "requests");
}

#[test]
fn a_rule_reaches_whom_it_says() {
    let admitted = |rule: &str, callers: &[(&str, &str)]| -> Vec<bool> {
        let mut quotas = quotas(&[rule]);
        let weigh = |(key, model): &(&str, &str)| quotas.weigh(at(0), &caller(key, model));
        callers
            .iter()
            .map(weigh)
            .map(|w| w.refusal.is_none())
            .collect()
    };
    let callers = [("k1", "a"), ("k2", "a"), ("k1", "b")];
    assert_eq!(admitted("sliding:1/1s", &callers), [true, false, false]);
    assert_eq!(
        admitted("sliding:1/1s,per=credential", &callers),
        [true, true, false]
    );
    assert_eq!(
        admitted("sliding:1/1s,per=model", &callers),
        [true, false, true]
    );
    assert_eq!(
        admitted("sliding:1/1s,per=endpoint", &callers),
        [true, false, false]
    );
    assert_eq!(
        admitted("sliding:1/1s,calls=GET *", &callers),
        [true, true, true]
    );
}

#[test]
fn an_open_call_holds_its_place_until_it_ends() {
    let mut quotas = quotas(&["concurrent:2"]);
    let first = quotas.weigh(at(0), &caller("k1", "m"));
    let second = quotas.weigh(at(0), &caller("k1", "m"));
    let refusal = quotas
        .weigh(at(500), &caller("k1", "m"))
        .refusal
        .expect("two are open");
    assert_eq!(refusal.free_at, None);
    quotas.release(&first.seats);
    assert!(quotas.weigh(at(501), &caller("k1", "m")).refusal.is_none());
    quotas.replace(vec!["concurrent:1".parse().expect("a quota")]);
    assert!(quotas.weigh(at(502), &caller("k1", "m")).refusal.is_none());
    quotas.release(&second.seats);
    assert!(
        quotas.weigh(at(503), &caller("k1", "m")).refusal.is_some(),
        "an old place frees none"
    );
}

#[test]
fn scopes_beyond_the_bound_share_a_counter_instead_of_growing_the_map() {
    let mut quotas = quotas(&["sliding:1/1s,per=credential"]);
    for n in 0..COUNTERS_MAX {
        assert!(
            quotas
                .weigh(at(0), &caller(&format!("k{n}"), "m"))
                .refusal
                .is_none()
        );
    }
    assert!(
        quotas
            .weigh(at(0), &caller("late-1", "m"))
            .refusal
            .is_none()
    );
    assert!(
        quotas
            .weigh(at(0), &caller("late-2", "m"))
            .refusal
            .is_some()
    );
    assert_eq!(quotas.counters.len(), COUNTERS_MAX + 1);
}
