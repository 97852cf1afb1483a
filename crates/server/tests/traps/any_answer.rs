//! Whatever a provider sends: every preset, fields and places that it knows, and
//! values that are nearly right.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rategov_core::observe::{MALFORMED_MAX, Meaning, READINGS_MAX};
use rategov_server::config::presets::Presets;
use rategov_server::config::speech::Speech;
use rategov_server::gateway::reading::Tongue;
use rategov_server::gateway::understand::understand;

use super::WRONG_CLOCK;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_answer_of_any_provider_is_read_without_a_panic_and_bounded(
        at in 0usize..1_000,
        status in 100u16..600,
        fields in prop::collection::vec((any::<prop::sample::Index>(),
            "(-?[0-9]{1,20}(\\.[0-9]{1,9})?[smhd%]?|[a-z]{1,9}=[0-9/]{1,9}; [a-z]{1,9}=.{0,9}|\"[a-z]{1,9}\";[rtqw]=-?[0-9]{1,3}|.{0,40})"), 0..30),
        body in "(\\[?\\{\"(error|errors|extensions|data|responses)\":[\\[{]?\\{?(\"[a-z_]{1,9}\":(\"[^\"]{0,20}\"|[0-9.]{1,9}|null|\\[\\]),?){0,4}\\}{0,2}\\]?\\}?|(data|event): .{0,40}\n\n|.{0,60})",
    ) {
        let presets: Vec<&str> = Presets::built_in().names().collect();
        let speech = Speech::of(presets[at % presets.len()], None);
        let known = speech.dialect.fields().iter().map(|rule| rule.place.label());
        let names: Vec<&str> = known.chain(["retry-after", "date", "age"]).collect();
        let headers: Vec<(&str, &[u8])> = fields
            .iter()
            .map(|(name, value)| (*name.get(&names), value.as_bytes()))
            .collect();
        let tongue = Tongue {
            dialect: &speech.dialect,
            rules: &speech.errors,
            hidden: &[],
            arrived: WRONG_CLOCK,
        };
        let facts = understand(status, &headers, body.as_bytes(), tongue);
        prop_assert!(facts.readings.len() + facts.asides().limits.len() <= READINGS_MAX);
        prop_assert!(facts.malformed.len() <= MALFORMED_MAX);
        let unique: BTreeSet<&String> = facts.malformed.iter().collect();
        prop_assert_eq!(unique.len(), facts.malformed.len(), "each is named once");
        prop_assert!(facts.readings.iter().all(|reading| reading.label().len() <= 100));
        // A refusal is never taken for all being well, and a success never for a wait.
        prop_assert_eq!(status >= 400 && facts.meaning == Meaning::Ok, false);
    }
}
