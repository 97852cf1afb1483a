//! The written form against the steps it stands for, and against every form
//! that reports from users take.

use serde_json::json;

use super::*;

fn read(step: Value) -> Result<Step, StepError> {
    let written: WrittenStep =
        serde_json::from_value(step).map_err(|e| wrong(e.to_string(), "see the keys"))?;
    written.step()
}

fn upstream(answers: Value) -> Vec<Step> {
    let written = serde_json::from_value(answers).expect("the keys are known");
    steps_of_upstream(written).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn every_fault_word_is_the_word_of_its_fault() {
    let words = FAULT_WORDS.trim_start_matches("write one of ").split(", ");
    let mut seen = 0;
    for word in words {
        let step = read(json!({"calls": "POST /x", "fault": word})).expect(word);
        assert_eq!(step.conduct.fault.expect("it has a fault").word(), word);
        seen += 1;
    }
    assert_eq!(seen, 16);
}

#[test]
fn the_faults_in_reports_say_whether_the_write_was_executed() {
    for (text, effect, ending) in [
        ("execute, then reset", Effect::Applied, Ending::Rst),
        (
            "execute, then close before the answer",
            Effect::Applied,
            Ending::Fin,
        ),
        (
            "execute, then close the connection before any response byte",
            Effect::Applied,
            Ending::Fin,
        ),
        ("timeout", Effect::Skipped, Ending::Silence),
    ] {
        let step = read(json!({"status": 0, "fault": text})).expect(text);
        assert_eq!(
            step.conduct.fault,
            Some(Fault::NoAnswer { effect, ending }),
            "{text}"
        );
        assert_eq!(step.conduct.answer, None);
    }
}

#[test]
fn the_last_answer_of_an_upstream_repeats_and_a_condition_repeats_too() {
    let steps = upstream(json!([
        {"status": 429, "headers": {"retry-after": "5"}, "times": 20},
        {"status": 429, "when": "more than 4 starts in the last 1000 ms"},
        {"status": 200}
    ]));
    let times: Vec<Times> = steps.iter().map(|s| s.times).collect();
    assert_eq!(times, [Times::Count(20), Times::Always, Times::Always]);
    let above = Condition::StartsAbove(4, Span::from_millis(1_000));
    assert_eq!(steps[1].condition, Some(above));
}

#[test]
fn conditions_in_reports_can_be_read() {
    let step = |when: &str| read(json!({"status": 429, "when": when})).expect(when);
    assert_eq!(
        step("2 already in flight").condition,
        Some(Condition::InFlight(2))
    );
    let above = Condition::StartsAbove(10, Span::from_millis(10_000));
    assert_eq!(
        step("more than 10 starts in the last 10000 ms over all keys").condition,
        Some(above)
    );
    let first = step("first four calls of agent c");
    assert_eq!(first.field, Some(("x-agent".to_owned(), "c".to_owned())));
    assert_eq!(first.times, Times::Count(4));
}

#[test]
fn an_answer_until_a_moment_repeats_until_then() {
    let steps = upstream(json!([
        {"status": 429, "headers": {"retry-after": "<floor(remaining s)>"}, "until_ms": 2900},
        {"status": 200}
    ]));
    assert_eq!(steps[0].until, Some(Span::from_millis(2_900)));
    assert_eq!(steps[0].times, Times::Always);
}

#[test]
fn a_coding_named_in_the_fields_is_applied_and_not_only_claimed() {
    let step = read(json!({
        "status": 429,
        "headers": {"content-encoding": "gzip", "retry-after": "2"},
        "body": {"error": {"type": "rate_limit_error"}}
    }))
    .expect("it is a step");
    assert!(step.conduct.gzip);
    let answer = step.conduct.answer.expect("it has an answer");
    assert_eq!(
        answer.fields,
        [("retry-after".to_owned(), Template::Text("2".to_owned()))]
    );
}

#[test]
fn a_mistake_is_named_with_the_words_that_would_do() {
    for (step, cause) in [
        (json!({"fault": "explode"}), "\"explode\" is no fault"),
        (
            json!({"fault": "per variant"}),
            "\"per variant\" is no fault",
        ),
        (
            json!({"status": 200, "times": "often"}),
            "\"often\" is no number of times",
        ),
        (json!({"status": 100}), "100 is no final status"),
        (
            json!({"status": 500, "effect": "perhaps"}),
            "\"perhaps\" is no effect",
        ),
        (
            json!({"status": 200, "when": "it rains"}),
            "\"it rains\" can't be read",
        ),
        (
            json!({"status": 200, "headers": {"x": "<soon>"}}),
            "the field x",
        ),
        (
            json!({"fault": "half_body", "ending": "bang"}),
            "\"bang\" is no ending",
        ),
        (json!({"stauts": 200}), "unknown field `stauts`"),
    ] {
        let error = read(step.clone()).expect_err(&step.to_string());
        assert!(error.cause.contains(cause), "{step}: {error}");
        assert!(!error.hint.is_empty());
    }
}

#[test]
fn an_upstream_names_the_answer_that_is_wrong() {
    let written = serde_json::from_value(json!([{"status": 200}, {"status": 0, "fault": "?"}]));
    let error = steps_of_upstream(written.expect("the keys are known")).expect_err("no fault");
    assert!(error.cause.starts_with("answer 2: "), "{error}");
}
