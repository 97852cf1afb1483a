//! Whatever a provider answers, no queue stalls: the property of the fuzzer's target
//! `queue`, with answers made of what presets know and values that are very wrong.

use proptest::prelude::*;
use rategov_fuzz::scenario::{ANSWERS_MAX, How, Said, Scenario};
use rategov_fuzz::world::play;

/// The statuses by which providers say anything about limits, and any other.
fn status() -> impl Strategy<Value = u16> {
    let known = prop::sample::select(vec![200, 400, 401, 402, 403, 429, 500, 503, 529]);
    prop_oneof![4 => known, 1 => 100_u16..600]
}

/// A value of a field: of the right form, hostile, or anything.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let hostile = prop::sample::select(vec![
        "0",
        "-1",
        "1e308",
        "NaN",
        "18446744073709551615",
        "999999999999999",
        "99999999999999999999999999",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "9999-12-31T23:59:59Z",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "2540400h",
        "\"a\";r=0;t=999999999999999",
        "\"a\";q=1;w=31622400",
        "0;w=0",
        "1, 1;w=1",
    ]);
    prop_oneof![
        "[0-9]{1,4}".prop_map(String::into_bytes),
        hostile.prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..20),
        "(0|1|60|x){1000}".prop_map(String::into_bytes),
    ]
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let bodies = prop::sample::select(vec![
        "",
        "{\"error\":{\"message\":\"try again in 99999999999 hours\"}}",
        "{\"error\":{\"code\":\"insufficient_quota\",\"message\":\"resets at 9999-12-31T00:00:00Z\"}}",
        "{\"retry_after\":1e308}",
        "{\"message\":\"secondary rate limit\"}",
        "not json",
    ]);
    bodies.prop_map(|text| text.as_bytes().to_vec())
}

prop_compose! {
    fn said()(
        how in prop::sample::select(How::ALL.to_vec()),
        status in status(),
        fields in prop::collection::vec((any::<prop::sample::Index>(), value()), 0..6),
        body in body(),
    ) -> (How, u16, Vec<(prop::sample::Index, Vec<u8>)>, Vec<u8>) {
        (how, status, fields, body)
    }
}

prop_compose! {
    fn scenario()(
        preset in any::<u8>(),
        rules in 0_u8..16,
        said in prop::collection::vec(said(), 1..ANSWERS_MAX),
    ) -> Scenario {
        let mut scenario = Scenario { preset, rules, answers: Vec::new() };
        let known = scenario.fields();
        scenario.answers = said
            .into_iter()
            .map(|(how, status, fields, body)| Said {
                how,
                status,
                fields: fields.into_iter().map(|(at, value)| (at.get(&known).clone(), value)).collect(),
                body,
            })
            .collect();
        scenario
    }
}

proptest! {
    // Each case plays more than a day.
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_answer_stalls_a_queue(scenario in scenario()) {
        play(&scenario);
    }
}
