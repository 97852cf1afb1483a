//! A thousand worlds, and the bugs that must not hide in them.

use rategov_sim::seeds::{self, Failure};
use rategov_sim::world::node::Planted;

/// Seeds that the tests run; `cargo xtask sim --seeds A..B` runs more.
const SEEDS: u64 = 1_000;
/// Seeds among which a planted bug must show itself.
const SEEDS_FOR_A_BUG: u64 = 300;

#[test]
fn a_thousand_worlds_break_no_invariant_and_are_the_same_twice() {
    let sum = seeds::run_all(0..SEEDS).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(sum.seeds, SEEDS);
    // Worlds in which nothing happens prove nothing.
    assert!(SEEDS * 15 < sum.actions, "{sum}");
    assert!(SEEDS < sum.deaths, "{sum}");
    assert!(SEEDS < sum.decisions, "{sum}");
    assert!(SEEDS / 5 < sum.commits_lost, "{sum}");
    assert!(SEEDS / 100 < sum.reopened, "{sum}");
}

/// The first seed that finds the bug, and what it says.
fn first_to_find(planted: Planted) -> Option<Failure> {
    (0..SEEDS_FOR_A_BUG).find_map(|seed| seeds::run_once(seed, Some(planted), false).err())
}

fn check(planted: Planted, invariants: &[&str]) {
    let Some(failure) = first_to_find(planted) else {
        panic!("{planted:?} hid in {SEEDS_FOR_A_BUG} worlds");
    };
    let named = invariants.iter().any(|name| failure.what.contains(name));
    assert!(named, "{planted:?} was found as {}", failure.what);
    let again = seeds::run_once(failure.seed, Some(planted), false);
    assert_eq!(
        again,
        Err(failure.clone()),
        "a failing seed fails the same way"
    );
    let without = seeds::run_once(failure.seed, None, false);
    assert!(without.is_ok(), "the world is sound without the bug");
}

#[test]
fn taking_a_crash_for_not_sent_is_found() {
    check(
        Planted::CrashMeansNotSent,
        &["invariant 10", "invariant 12", "invariant 3"],
    );
}

#[test]
fn believing_absence_too_early_is_found() {
    check(Planted::AbsenceAtOnce, &["invariant 10", "invariant 12"]);
}

#[test]
fn forgetting_a_cancel_is_found() {
    check(Planted::CancelForgotten, &["invariant 6"]);
}

#[test]
fn a_failing_seed_says_how_to_run_it_again() {
    let failure = Failure {
        seed: 7,
        what: "invariant 12: op-3 happened 2 times, allowed are 1".to_owned(),
        tail: vec!["the last thing that happened".to_owned()],
    };
    let text = failure.to_string();
    assert!(text.ends_with("cargo xtask sim --seed 7"), "{text}");
    assert!(text.contains("op-3 happened 2 times"));
}
