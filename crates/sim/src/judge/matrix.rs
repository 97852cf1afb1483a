//! Which trials there are.

use rategov_core::time::Span;

use super::trial::{Demand, Happening, Knowledge, Shape, Size, Trial};
use crate::provider::limit_fields::LimitFields;
use crate::provider::quota::Refusals;

/// The spreads of the way, in milliseconds.
const JITTERS_MS: [u64; 4] = [0, 50, 200, 500];
/// The dialects in which headers tell a limit.
const TOLD: [LimitFields; 3] = [
    LimitFields::XRateLimit,
    LimitFields::OpenAi,
    LimitFields::Ietf,
];
/// Shares that somebody else takes, in percent.
const FOREIGN: [u64; 4] = [10, 20, 40, 60];

/// All trials.
pub fn all() -> Vec<Trial> {
    let sizes = [Size::TEN_SECONDS, Size::MINUTE];
    let calm = sizes.into_iter().flat_map(calm);
    calm.chain(sizes.into_iter().flat_map(eventful)).collect()
}

/// Every shape × what is known × whether refusals count × demand × jitter.
pub fn calm(size: Size) -> Vec<Trial> {
    let mut trials = Vec::new();
    for shape in Shape::ALL {
        for knowledge in knowledge_of(shape) {
            for refusals in [Refusals::Free, Refusals::Counted] {
                for demand in [Demand::Saturated, Demand::OnOff] {
                    trials.extend(JITTERS_MS.iter().map(|ms| Trial {
                        shape,
                        size,
                        knowledge,
                        refusals,
                        demand,
                        jitter: Span::from_millis(*ms),
                        happening: Happening::Nothing,
                        seed: 1,
                    }));
                }
            }
        }
    }
    trials
}

/// Every shape × declared or told × what may happen.
pub fn eventful(size: Size) -> Vec<Trial> {
    let happenings: Vec<Happening> = FOREIGN
        .iter()
        .map(|percent| Happening::Foreign(*percent))
        .chain([Happening::Halved, Happening::Doubled])
        .collect();
    let mut trials = Vec::new();
    for shape in Shape::ALL {
        let told = TOLD.map(Knowledge::Told);
        let known = [Knowledge::Declared, Knowledge::Hinted].into_iter();
        for knowledge in known.chain(told) {
            for happening in &happenings {
                trials.push(Trial {
                    shape,
                    size,
                    knowledge,
                    refusals: Refusals::Free,
                    demand: Demand::Saturated,
                    jitter: Span::from_millis(50),
                    happening: *happening,
                    seed: 1,
                });
            }
        }
    }
    trials
}

fn knowledge_of(shape: Shape) -> Vec<Knowledge> {
    let wrong = match shape {
        Shape::SlidingLog => [Shape::FullBucket, Shape::SlidingCounter],
        Shape::Fixed => [Shape::SlidingLog, Shape::SmallBucket],
        _ => [Shape::SlidingLog, Shape::FullBucket],
    };
    let wrong = wrong.into_iter().filter(|other| *other != shape);
    [Knowledge::Declared]
        .into_iter()
        .chain(TOLD.map(Knowledge::Told))
        .chain([Knowledge::Hinted, Knowledge::Silent])
        .chain(wrong.map(Knowledge::Wrong))
        .collect()
}
