//! Each kind of limit against its definition, counted by brute force over
//! every call so far, in virtual time.

use proptest::prelude::*;

use super::*;

/// 2026-01-01T00:00:00Z.
const START: WallTime = WallTime::from_secs(1_767_225_600);

/// A call at a moment, what it costs, and whether it was let in.
type Past = Vec<(u64, u64, bool)>;

/// Whether `level` admits a call of `need` units at `now` after `past`, straight
/// from the definition. `counted` says whether refused calls count.
fn admitted_by_definition(level: Level, past: &Past, now: u64, need: u64, counted: bool) -> bool {
    let units = |inside: &dyn Fn(i64) -> bool| -> u64 {
        past.iter()
            .filter(|(at, _, admitted)| (*admitted || counted) && inside(*at as i64))
            .map(|(_, units, _)| units)
            .sum()
    };
    match level {
        Level::Fixed {
            limit,
            window,
            phase,
        } => {
            let start = window_start(now, window, phase);
            units(&|at| at >= start) + need <= limit
        }
        Level::SlidingLog { limit, window } => {
            let start = now as i64 - window.as_micros() as i64;
            units(&|at| start < at) + need <= limit
        }
        Level::SlidingCounter {
            limit,
            window,
            phase,
        } => {
            let (start, width) = (window_start(now, window, phase), window.as_micros() as i64);
            let current = i128::from(units(&|at| at >= start));
            let previous = i128::from(units(&|at| (start - width..start).contains(&at)));
            let left = i128::from(start + width - now as i64);
            let width = i128::from(width);
            previous * left + (current + i128::from(need)) * width <= i128::from(limit) * width
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
            for (at, units, admitted) in past {
                level = fill(level, at - last);
                last = *at;
                if *admitted || counted {
                    level = (level - i128::from(*units) * unit).max(0);
                }
            }
            fill(level, now - last) >= i128::from(need) * unit
        }
        Level::Concurrent { .. } | Level::Calendar { .. } => unreachable!("not drawn"),
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
        calls in prop::collection::vec((0u64..12, 1u64..4), 1..60),
    ) {
        let mut counter = Counter::new(level, START);
        let (mut past, mut now): (Past, u64) = (Vec::new(), 0);
        for (gap, need) in calls {
            now += gap;
            let at = Moment::from_micros(now);
            let admitted = counter.admits(at, need);
            prop_assert_eq!(
                admitted, admitted_by_definition(level, &past, now, need, counted),
                "{:?} at {} needs {} after {:?}", level, now, need, past
            );
            let standing = counter.standing(at).expect("a window has numbers");
            prop_assert_eq!(need <= standing.remaining, admitted, "{:?} at {}", level, now);
            if admitted {
                counter.charge(at, need);
            } else if counted {
                counter.charge_refused(at, need);
            }
            past.push((now, need, admitted));
        }
    }

    #[test]
    fn the_announced_moment_is_the_first_that_is_admitted(
        level in levels(),
        counted in any::<bool>(),
        calls in prop::collection::vec((0u64..6, 1u64..4), 1..40),
    ) {
        let mut counter = Counter::new(level, START);
        let mut now = Moment::START;
        for (gap, need) in calls {
            now = now + Span::from_micros(gap);
            match counter.free_at(now, need) {
                Some(free) => {
                    let mut first = now;
                    while !counter.admits(first, need) {
                        first = first + Span::from_micros(1);
                    }
                    prop_assert_eq!(free, first, "{:?} asked at {:?}", level, now);
                }
                None => prop_assert!(
                    !counter.admits(now + Span::from_secs(1), need),
                    "{:?} never admits {}", level, need
                ),
            }
            if counter.admits(now, need) {
                counter.charge(now, need);
            } else if counted {
                counter.charge_refused(now, need);
            }
        }
    }

    #[test]
    fn what_is_given_back_is_as_if_it_had_never_been_taken(
        level in levels(),
        calls in prop::collection::vec((0u64..6, 1u64..4, 0u64..4), 1..40),
    ) {
        // One counter is charged the most and gives the rest back at once, the
        // other is charged what was used. A bucket's refill runs on meanwhile.
        let mut most = Counter::new(level, START);
        let mut exact = Counter::new(level, START);
        let mut now = Moment::START;
        for (gap, used, rest) in calls {
            now = now + Span::from_micros(gap);
            let admitted = (most.admits(now, used + rest), exact.admits(now, used + rest));
            prop_assert_eq!(admitted.0, admitted.1, "{:?} at {:?}", level, now);
            if admitted.0 {
                most.charge(now, used + rest);
                most.give_back(now, now, rest);
                exact.charge(now, used);
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
        load: Load::default(),
    }
}

fn quotas(rules: &[&str]) -> Quotas {
    Quotas::new(
        rules
            .iter()
            .map(|r| r.parse().unwrap_or_else(|e| panic!("{e}")))
            .collect(),
        START,
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
    quotas.settle(at(500), &first.holds, &Load::default(), 0);
    assert!(quotas.weigh(at(501), &caller("k1", "m")).refusal.is_none());
    quotas.replace(vec!["concurrent:1".parse().expect("a quota")]);
    assert!(quotas.weigh(at(502), &caller("k1", "m")).refusal.is_none());
    quotas.settle(at(502), &second.holds, &Load::default(), 0);
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
