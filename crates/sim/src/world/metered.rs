//! A limit on tokens that some accounts of a world have beside their limit on
//! calls: charged in one of the three ways, and declared or not.

use rategov_core::cost::Dimension;
use rategov_core::estimate::{Charge, Charging};
use rategov_core::policy::{Quota, WindowKind};
use rategov_core::time::Span;

use super::random::Random;
use crate::provider::quota::Rule;

/// Tokens a window: four or five generations.
const LIMIT: u64 = 250;
const WINDOW_SECS: u64 = 5;

/// What a provider limits, what of it is declared, and how it charges.
pub(super) struct Metered {
    pub(super) rule: Rule,
    pub(super) declared: Option<Quota>,
    pub(super) charge: Charge,
}

/// The limit of a site; most have none.
pub(super) fn limit(seed: u64) -> Option<Metered> {
    let random = &mut Random::new(seed, "tokens");
    if !random.happens(400) {
        return None;
    }
    let (word, charging) = *random.pick(&[
        ("actual", Charging::Actual),
        ("most", Charging::Most),
        ("most-then-refund", Charging::MostThenRefund),
    ]);
    let rule = format!("sliding:{LIMIT}/{WINDOW_SECS}s,of=tokens,charge={word}");
    let declared = random.happens(600).then_some(Quota {
        dimension: Dimension::Tokens,
        limit: LIMIT,
        window: Span::from_secs(WINDOW_SECS),
        kind: WindowKind::Sliding,
    });
    Some(Metered {
        rule: rule.parse().ok()?,
        charge: Charge {
            tokens: charging,
            ..Charge::default()
        },
        declared,
    })
}
