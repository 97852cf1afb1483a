//! What holds for every call, report and history.

use proptest::prelude::*;

use super::super::*;
use super::tables::kind;

fn amount() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(prop_oneof![0u64..5_000, any::<u64>()])
}

prop_compose! {
    fn sizings()(
        prompt_bytes in prop_oneof![0u64..100_000, any::<u64>()],
        most_output in amount(),
        choices in prop_oneof![0u64..4, any::<u64>()],
        declared in prop::array::uniform4(amount()),
    ) -> Sizing {
        let [input_counted, tokens, points, spend] = declared;
        Sizing { requests: 1, prompt_bytes, input_counted, most_output, choices, tokens, points, spend }
    }
}

prop_compose! {
    fn usages()(
        amounts in prop::array::uniform6(amount()),
        output_bytes in prop_oneof![0u64..10_000, any::<u64>()],
        whole in any::<bool>(),
    ) -> Usage {
        let [input, cached_input, output, total, points, spend] = amounts;
        let seen = if whole { Seen::Whole } else { Seen::Part };
        Usage { input, cached_input, output, total, points, spend, output_bytes, seen }
    }
}

fn rule() -> impl Strategy<Value = Charging> {
    prop_oneof![
        Just(Charging::Actual),
        Just(Charging::Most),
        Just(Charging::MostThenRefund)
    ]
}

prop_compose! {
    fn charges()(rules in prop::array::uniform5(rule()), excluded in any::<bool>(), most_undeclared in amount()) -> Charge {
        let [tokens, input_tokens, output_tokens, points, spend] = rules;
        let cached_input = if excluded { CachedInput::Excluded } else { CachedInput::Counted };
        Charge { tokens, input_tokens, output_tokens, points, spend, cached_input, rejects: Rejects::Free, most_undeclared }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_call_and_no_report_breaks_the_estimator_and_its_rows_bring_it_back(
        calls in prop::collection::vec((sizings(), usages(), charges(), 0u8..4), 1..60),
    ) {
        let mut estimator = Estimator::default();
        let mut pool = Pool::default();
        for (sizing, usage, charge, agent) in &calls {
            let kind = kind(&format!("agent-{agent}"), "m");
            let estimate = estimator.estimate(&kind, sizing, charge);
            pool.add(&estimate);
            let settled = estimator.settle(&kind, sizing, usage, charge);
            prop_assert_eq!(settled.cost.of(Dimension::Requests), 1);
            if charge.output_tokens == Charging::Actual && let Some(most) = sizing.most_output {
                let most = most.saturating_mul(sizing.choices.max(1));
                prop_assert!(estimate.cost.of(Dimension::OutputTokens) <= most);
            }
        }
        prop_assert_eq!(pool.calls(), calls.len() as u64);
        let restored = Estimator::restored(estimator.rows());
        prop_assert_eq!(restored.rows().collect::<Vec<_>>(), estimator.rows().collect::<Vec<_>>());
    }
}

#[test]
fn kinds_are_bounded_and_the_one_that_was_told_nothing_for_longest_goes() {
    let mut estimator = Estimator::default();
    let used = super::tables::usage(100, 900);
    let call = Sizing {
        prompt_bytes: 400,
        ..Sizing::default()
    };
    for _ in 0..10 {
        estimator.settle(&kind("first", "m"), &call, &used, &Charge::default());
    }
    for n in 0..2 * kinds::KINDS_MAX {
        let other = kind("other", &format!("model-{n}"));
        estimator.settle(&other, &call, &used, &Charge::default());
    }
    let levels: std::collections::BTreeSet<Level> = estimator.rows().map(|row| row.level).collect();
    assert_eq!(levels.len(), kinds::KINDS_MAX);
    let forgotten = estimator.reserve(&kind("first", "m"), &call, &Charge::default());
    assert_eq!(forgotten.of(Dimension::OutputTokens), 256);
}
