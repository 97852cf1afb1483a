//! The ledger is right: the engine against every kind of limit, judged by the
//! provider's own count. What is here holds; `cargo xtask sim --quotas` prints
//! the whole table, with what does not yet.
//!
//! Most of it runs as a sample; with `RATEGOV_TEST_FULL` set all of it.

use rategov_core::time::Span;
use rategov_sim::judge::table::Row;
use rategov_sim::judge::{Demand, Happening, Knowledge, Shape, Size, Trial, Work, judge, matrix};
use rategov_sim::provider::limit_fields::LimitFields;
use rategov_sim::provider::quota::{Charge, Refusals};

/// Runs the large matrices whole.
const FULL: &str = "RATEGOV_TEST_FULL";
/// Otherwise one trial of so many.
const SAMPLE: usize = 41;
/// Every shape but the tiny bucket.
const ROOMY: [Shape; 5] = [
    Shape::Fixed,
    Shape::SlidingLog,
    Shape::SlidingCounter,
    Shape::FullBucket,
    Shape::SmallBucket,
];

/// Plays the trials that fit, or a sample of them, and names all that miss a bound.
fn check(trials: Vec<Trial>, fits: impl Fn(&Trial) -> bool) {
    let fitting: Vec<Trial> = trials.into_iter().filter(|trial| fits(trial)).collect();
    assert!(!fitting.is_empty(), "nothing is judged");
    let step = match std::env::var_os(FULL) {
        Some(_) => 1,
        None => SAMPLE.min(fitting.len()),
    };
    let rows = fitting.iter().step_by(step).map(Row::of);
    let missed: Vec<String> = rows
        .filter(|row| !row.missed.is_empty())
        .map(|row| row.line())
        .collect();
    assert!(missed.is_empty(), "\n{}", missed.join("\n"));
}

fn plain(shape: Shape, knowledge: Knowledge, happening: Happening) -> Trial {
    Trial {
        shape,
        size: Size::TEN_SECONDS,
        work: Work::Calls,
        knowledge,
        refusals: Refusals::Free,
        demand: Demand::Saturated,
        jitter: Span::from_millis(50),
        happening,
        seed: 3,
    }
}

#[test]
fn a_declared_limit_is_never_refused_and_used_to_98_percent() {
    check(matrix::calm(Size::MINUTE), |trial| {
        trial.knowledge == Knowledge::Declared && ROOMY.contains(&trial.shape)
    });
}

#[test]
fn a_limit_declared_in_another_shape_is_used_to_95_percent_after_five_windows() {
    check(matrix::calm(Size::MINUTE), |trial| {
        matches!(trial.knowledge, Knowledge::Wrong(_)) && ROOMY.contains(&trial.shape)
    });
}

#[test]
fn a_limit_that_headers_tell_is_never_refused_after_the_first_answer() {
    use LimitFields::{Anthropic, Ietf, OpenAi, XRateLimit};
    check(matrix::calm(Size::MINUTE), |trial| {
        let Knowledge::Told(fields) = trial.knowledge else {
            return false;
        };
        match trial.shape {
            Shape::Fixed | Shape::SlidingLog => {
                matches!(fields, XRateLimit | OpenAi | Anthropic | Ietf)
            }
            // With resets in whole seconds one trial in eight has an event.
            Shape::FullBucket => matches!(fields, OpenAi | Anthropic | Ietf),
            Shape::SlidingCounter => fields == Ietf,
            Shape::Double | Shape::SmallBucket | Shape::TinyBucket => false,
        }
    });
}

#[test]
fn a_limit_that_is_declared_and_told_is_never_refused() {
    check(matrix::calm(Size::MINUTE), |trial| {
        let shapes = [
            Shape::Fixed,
            Shape::SlidingLog,
            Shape::SlidingCounter,
            Shape::FullBucket,
        ];
        matches!(trial.knowledge, Knowledge::Both(_)) && shapes.contains(&trial.shape)
    });
}

#[test]
fn others_and_other_limits_that_headers_tell_cost_one_refusal_and_a_tenth_for_two_windows() {
    check(matrix::eventful(Size::MINUTE), |trial| {
        let fields = match trial.knowledge {
            Knowledge::Told(fields) | Knowledge::Both(fields) => fields,
            _ => return false,
        };
        let is_told = matches!(trial.knowledge, Knowledge::Told(_));
        match trial.shape {
            Shape::Fixed => true,
            // Where others take most of it, what is left takes three windows.
            Shape::SlidingLog => is_told || trial.happening != Happening::Foreign(60),
            // A counter that says when all is forgotten seems twice as long.
            Shape::SlidingCounter => !is_told || fields != LimitFields::OpenAi,
            // Of a bucket whose refills nobody tells, what others take comes in waves.
            Shape::FullBucket if is_told => fields != LimitFields::Ietf,
            Shape::FullBucket => trial.happening != Happening::Foreign(60),
            Shape::Double | Shape::SmallBucket | Shape::TinyBucket => false,
        }
    });
}

#[test]
fn tokens_that_are_charged_at_the_most_are_never_refused_and_used_to_95_percent() {
    check(matrix::tokens(), |trial| {
        let most = matches!(
            trial.work,
            Work::Tokens {
                charge: Charge::Most,
                ..
            }
        );
        most && trial.knowledge == Knowledge::Declared && ROOMY.contains(&trial.shape)
    });
}

#[test]
fn tokens_of_a_declared_window_or_full_bucket_are_never_refused() {
    let shapes = [Shape::Fixed, Shape::SlidingLog, Shape::FullBucket];
    let fits = |trial: &Trial| {
        trial.knowledge == Knowledge::Declared
            && shapes.contains(&trial.shape)
            && trial.jitter == Span::from_millis(500)
    };
    let trials = matrix::tokens().into_iter().filter(fits);
    let step = match std::env::var_os(FULL) {
        Some(_) => 1,
        // Many long answers take their time: one shape of the three.
        None => 13,
    };
    for trial in trials.skip(step / 2).step_by(step) {
        let verdict = judge(&trial);
        assert_eq!(verdict.refusals, 0, "{trial}");
        assert!(1_000 < verdict.calls, "{trial}: hardly anything was sent");
    }
}

#[test]
fn a_trial_gives_the_same_verdict_twice_and_another_seed_another_one() {
    let told = Knowledge::Told(LimitFields::Ietf);
    let trial = Trial {
        jitter: Span::from_millis(500),
        ..plain(Shape::SlidingLog, told, Happening::Foreign(40))
    };
    assert_eq!(judge(&trial), judge(&trial));
    assert_ne!(judge(&trial), judge(&Trial { seed: 4, ..trial }));
}

#[test]
fn the_judge_sees_a_limit_that_is_not_what_was_declared() {
    for shape in ROOMY {
        let row = Row::of(&plain(shape, Knowledge::Declared, Happening::Halved));
        assert!(0 < row.verdict.late_events, "{}", row.line());
        let calm = judge(&plain(shape, Knowledge::Declared, Happening::Nothing));
        assert_eq!(calm.refusals, 0, "{shape:?}");
    }
}

#[test]
fn the_judge_sees_when_a_limit_is_left_unused() {
    // A bucket that holds one call leaves room for one at a time.
    let wrong = Knowledge::Wrong(Shape::TinyBucket);
    let row = Row::of(&plain(Shape::SlidingLog, wrong, Happening::Nothing));
    assert!(!row.missed.is_empty(), "{}", row.line());
}
