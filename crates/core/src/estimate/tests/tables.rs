//! The worked tables of the module and of the ways of charging.

use super::super::*;
use crate::id::{Agent, Endpoint};

pub(super) fn kind(agent: &str, model: &str) -> Kind {
    Kind {
        agent: Agent::new(agent).unwrap(),
        model: Some(model.into()),
        endpoint: Endpoint::new("POST /v1/messages").unwrap(),
    }
}

pub(super) fn sizing(prompt_bytes: u64, most_output: Option<u64>) -> Sizing {
    Sizing {
        prompt_bytes,
        most_output,
        ..Sizing::default()
    }
}

pub(super) fn usage(input: u64, output: u64) -> Usage {
    Usage {
        input: Some(input),
        output: Some(output),
        seen: Seen::Whole,
        ..Usage::default()
    }
}

pub(super) fn all(rule: Charging) -> Charge {
    Charge {
        tokens: rule,
        input_tokens: rule,
        output_tokens: rule,
        ..Charge::default()
    }
}

/// An estimator that saw sixty calls of 0.25 tokens a byte in and about 300 out.
fn taught() -> Estimator {
    let mut estimator = Estimator::default();
    let sizing = sizing(4_000, Some(4_096));
    for n in 0..60 {
        let usage = usage(1_000, 290 + n % 20);
        estimator.settle(&kind("a", "m"), &sizing, &usage, &Charge::default());
    }
    estimator
}

fn tokens(cost: Cost) -> (u64, u64, u64) {
    (
        cost.of(Dimension::InputTokens),
        cost.of(Dimension::OutputTokens),
        cost.of(Dimension::Tokens),
    )
}

#[test]
fn the_worked_example_holds() {
    let mut estimator = taught();
    let call = sizing(8_000, Some(4_096));
    let near = |amount: u64, expected: u64| assert!(amount.abs_diff(expected) <= expected / 8);
    let (input, output, total) =
        tokens(estimator.reserve(&kind("a", "m"), &call, &all(Charging::Actual)));
    near(input, 2_000);
    near(output, 300);
    assert_eq!(total, input + output);
    for rule in [Charging::Most, Charging::MostThenRefund] {
        let (input, output, total) = tokens(estimator.reserve(&kind("a", "m"), &call, &all(rule)));
        assert_eq!((output, total), (4_096, input + 4_096));
    }
    for (rule, expected) in [
        (Charging::Actual, (1_950, 410, 2_360)),
        (Charging::MostThenRefund, (1_950, 410, 2_360)),
        (Charging::Most, (1_950, 4_096, 6_046)),
    ] {
        let used = usage(1_950, 410);
        let settled = estimator.settle(&kind("a", "m"), &call, &used, &all(rule));
        assert_eq!(
            (tokens(settled.cost), settled.basis),
            (expected, Basis::Reported)
        );
    }
}

#[test]
fn a_new_kind_is_taken_for_its_closest_relative() {
    let mut estimator = taught();
    let call = sizing(4_000, None);
    let output = |estimator: &Estimator, agent: &str, model: &str| {
        let cost = estimator.reserve(&kind(agent, model), &call, &Charge::default());
        cost.of(Dimension::OutputTokens)
    };
    let known = output(&estimator, "a", "m");
    assert_eq!(output(&estimator, "b", "m"), known, "another agent");
    assert_eq!(output(&estimator, "a", "other"), 256, "another model");
    let mut elsewhere = kind("b", "m");
    elsewhere.endpoint = Endpoint::new("POST /v1/complete").unwrap();
    let cost = estimator.reserve(&elsewhere, &call, &Charge::default());
    assert_eq!(cost.of(Dimension::OutputTokens), known, "another endpoint");
    for _ in 0..20 {
        let usage = usage(1_000, 9_000);
        estimator.settle(&kind("b", "m"), &call, &usage, &Charge::default());
    }
    assert_eq!(output(&estimator, "a", "m"), known);
    assert!(8_000 < output(&estimator, "b", "m"));
}

#[test]
fn the_declared_most_tells_more_where_agents_fit_it_to_the_call() {
    let mut estimator = Estimator::default();
    for n in 1..=60 {
        let most = 100 * n;
        let used = usage(1_000, most / 2);
        estimator.settle(
            &kind("a", "m"),
            &sizing(4_000, Some(most)),
            &used,
            &Charge::default(),
        );
    }
    let reserved = |most| {
        let call = sizing(4_000, Some(most));
        let cost = estimator.reserve(&kind("a", "m"), &call, &Charge::default());
        cost.of(Dimension::OutputTokens)
    };
    assert!(
        (450..=560).contains(&reserved(1_000)),
        "{}",
        reserved(1_000)
    );
    assert!(
        (1_800..=2_250).contains(&reserved(4_000)),
        "{}",
        reserved(4_000)
    );
}

#[test]
fn choices_multiply_the_output_and_cached_input_is_left_out_where_it_does_not_count() {
    let estimator = taught();
    let mut call = sizing(4_000, Some(4_096));
    call.choices = 3;
    let cost = estimator.reserve(&kind("a", "m"), &call, &Charge::default());
    assert!(
        (800..=1_000).contains(&cost.of(Dimension::OutputTokens)),
        "{cost:?}"
    );
    let cost = estimator.reserve(&kind("a", "m"), &call, &all(Charging::Most));
    assert_eq!(cost.of(Dimension::OutputTokens), 3 * 4_096);
    let excluded = Charge {
        cached_input: CachedInput::Excluded,
        ..Charge::default()
    };
    let mut used = usage(1_000, 50);
    (used.cached_input, used.total) = (Some(900), Some(1_050));
    let settled = estimator.settled(&kind("a", "m"), &call, &used, &excluded);
    assert_eq!(tokens(settled.cost), (100, 50, 150));
}

/// What a call costs whose answer reports only a part, after [`taught`].
fn check(usage: Usage, expected: (u64, u64, u64), basis: Basis) {
    let estimator = taught();
    let call = Sizing {
        input_counted: Some(1_000),
        ..sizing(4_000, Some(4_096))
    };
    let settled = estimator.settled(&kind("a", "m"), &call, &usage, &Charge::default());
    assert_eq!(
        (tokens(settled.cost), settled.basis),
        (expected, basis),
        "{usage:?}"
    );
}

#[test]
fn what_is_not_reported_is_taken_from_what_is_known() {
    let whole = Usage {
        seen: Seen::Whole,
        ..Usage::default()
    };
    let likely = taught()
        .reserve(&kind("a", "m"), &sizing(0, None), &Charge::default())
        .of(Dimension::OutputTokens);
    let total = Usage {
        total: Some(1_400),
        ..whole
    };
    check(total, (1_000, 400, 1_400), Basis::Estimated);
    let with_input = Usage {
        input: Some(900),
        ..total
    };
    check(with_input, (900, 500, 1_400), Basis::Reported);
    let output = Usage {
        output: Some(500),
        ..total
    };
    check(output, (900, 500, 1_400), Basis::Reported);
    let embedding = Usage {
        input: Some(900),
        ..whole
    };
    check(embedding, (900, 0, 900), Basis::Reported);
    let text = Usage {
        output_bytes: 800,
        ..whole
    };
    check(text, (1_000, 200, 1_200), Basis::Estimated);
    check(whole, (1_000, likely, 1_000 + likely), Basis::Estimated);
    // A stream that broke off after its beginning had reported one token.
    let part = Usage {
        input: Some(900),
        output: Some(1),
        output_bytes: 800,
        ..Usage::default()
    };
    check(part, (900, 200, 1_100), Basis::Estimated);
    check(
        Usage::default(),
        (1_000, likely, 1_000 + likely),
        Basis::Estimated,
    );
}

#[test]
fn a_ratio_of_text_is_learnt_and_a_guess_is_not() {
    let mut estimator = Estimator::default();
    let call = sizing(4_000, None);
    let mut used = usage(1_000, 500);
    used.output_bytes = 1_000;
    for _ in 0..20 {
        estimator.settle(&kind("a", "m"), &call, &used, &Charge::default());
    }
    let text = Usage {
        output_bytes: 3_000,
        seen: Seen::Whole,
        ..Usage::default()
    };
    let before = estimator.clone();
    let settled = estimator.settle(&kind("a", "m"), &call, &text, &Charge::default());
    assert_eq!(settled.cost.of(Dimension::OutputTokens), 1_500);
    assert_eq!(estimator, before);
}

#[test]
fn points_and_money_are_declared_reported_or_learnt() {
    let mut estimator = Estimator::default();
    let declared = Sizing {
        points: Some(7),
        spend: Some(20_000),
        requests: 2,
        ..Sizing::default()
    };
    let cost = estimator.reserve(&kind("a", "m"), &declared, &Charge::default());
    let of = |cost: Cost| {
        let amounts = [Dimension::Requests, Dimension::Points, Dimension::Spend];
        amounts.map(|dimension| cost.of(dimension))
    };
    assert_eq!(of(cost), [2, 7, 20_000]);
    let told = Usage {
        points: Some(5),
        spend: Some(30),
        ..Usage::default()
    };
    let settled = estimator.settled(&kind("a", "m"), &declared, &told, &Charge::default());
    assert_eq!(of(settled.cost), [2, 5, 30]);
    for _ in 0..20 {
        estimator.settle(
            &kind("a", "m"),
            &Sizing::default(),
            &told,
            &Charge::default(),
        );
    }
    let cost = estimator.reserve(&kind("a", "m"), &Sizing::default(), &Charge::default());
    assert_eq!(of(cost)[..2], [1, 5]);
}
