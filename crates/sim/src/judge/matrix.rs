//! Which trials there are.

use rategov_core::time::Span;

use super::trial::{Demand, Happening, Knowledge, Shape, Size, Trial};
use super::work::Work;
use crate::provider::limit_fields::LimitFields;
use crate::provider::quota::{Charge, Refusals};

/// The spreads of the way, in milliseconds.
const JITTERS_MS: [u64; 4] = [0, 50, 200, 500];
/// The dialects in which headers tell a limit.
const TOLD: [LimitFields; 3] = [
    LimitFields::XRateLimit,
    LimitFields::OpenAi,
    LimitFields::Ietf,
];
/// The dialects whose resets are moments on the provider's clock.
const CLOCKED: [LimitFields; 2] = [LimitFields::Epoch, LimitFields::Anthropic];
/// Shares that somebody else takes, in percent.
const FOREIGN: [u64; 4] = [10, 20, 40, 60];
/// How much the lengths of answers vary, in percent of their mean.
const VARIATIONS: [u64; 2] = [100, 300];
/// How far the provider's clock is off, in seconds.
const SKEW: u64 = 90;

/// All trials, of one seed.
pub fn all(seed: u64) -> Vec<Trial> {
    let mut trials = Vec::new();
    for size in [Size::TEN_SECONDS, Size::MINUTE] {
        trials.extend(calm(size));
        trials.extend(eventful(size));
        trials.extend(skewed(size));
    }
    trials.extend(tokens());
    for trial in &mut trials {
        trial.seed = seed;
    }
    trials
}

/// A trial without anything special.
fn plain(shape: Shape, size: Size, knowledge: Knowledge) -> Trial {
    Trial {
        shape,
        size,
        work: Work::Calls,
        knowledge,
        refusals: Refusals::Free,
        demand: Demand::Saturated,
        jitter: Span::from_millis(50),
        happening: Happening::Nothing,
        seed: 1,
    }
}

/// Every shape × what is known × whether refusals count × demand × jitter.
pub fn calm(size: Size) -> Vec<Trial> {
    let mut trials = Vec::new();
    for shape in Shape::ALL {
        for knowledge in knowledge_of(shape) {
            for refusals in [Refusals::Free, Refusals::Counted] {
                for demand in [Demand::Saturated, Demand::OnOff] {
                    trials.extend(JITTERS_MS.iter().map(|ms| Trial {
                        refusals,
                        demand,
                        jitter: Span::from_millis(*ms),
                        ..plain(shape, size, knowledge)
                    }));
                }
            }
        }
    }
    trials
}

/// Every shape × what is known × what may happen. A declared limit that is
/// doubled is not among them: what an operator declared binds.
pub fn eventful(size: Size) -> Vec<Trial> {
    let mut happenings: Vec<Happening> = FOREIGN.map(Happening::Foreign).to_vec();
    happenings.extend([Happening::Halved, Happening::Doubled]);
    let mut known = vec![Knowledge::Declared, Knowledge::Hinted];
    known.extend(TOLD.map(Knowledge::Both));
    known.extend(TOLD.map(Knowledge::Told));
    let mut trials = Vec::new();
    for shape in Shape::ALL {
        for knowledge in &known {
            let declared = knowledge.declared(shape, size, Work::Calls.dimension());
            let is_declared = !declared.is_empty();
            for happening in &happenings {
                if !is_declared || *happening != Happening::Doubled {
                    trials.push(Trial {
                        happening: *happening,
                        ..plain(shape, size, *knowledge)
                    });
                }
            }
        }
    }
    trials
}

/// Every shape but the tiny bucket × how tokens are charged × how much they vary
/// × declared or told × demand × jitter.
pub fn tokens() -> Vec<Trial> {
    let mut trials = Vec::new();
    for shape in Shape::ALL.into_iter().filter(|s| *s != Shape::TinyBucket) {
        for (charge, variation) in Charge::ALL
            .into_iter()
            .flat_map(|c| VARIATIONS.map(|v| (c, v)))
        {
            for knowledge in [Knowledge::Declared, Knowledge::Told(LimitFields::OpenAi)] {
                for demand in [Demand::Saturated, Demand::OnOff] {
                    trials.extend([50, 500].map(|ms| Trial {
                        work: Work::Tokens { charge, variation },
                        demand,
                        jitter: Span::from_millis(ms),
                        ..plain(shape, Size::TOKENS, knowledge)
                    }));
                }
            }
        }
    }
    trials
}

/// Resets by a clock that is off.
pub fn skewed(size: Size) -> Vec<Trial> {
    let mut trials = Vec::new();
    for shape in [Shape::Fixed, Shape::SlidingLog, Shape::FullBucket] {
        for fields in CLOCKED {
            for happening in [
                Happening::Nothing,
                Happening::Late(SKEW),
                Happening::Early(SKEW),
            ] {
                trials.push(Trial {
                    happening,
                    ..plain(shape, size, Knowledge::Told(fields))
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
    [
        Knowledge::Declared,
        Knowledge::Both(LimitFields::XRateLimit),
    ]
    .into_iter()
    .chain(TOLD.map(Knowledge::Told))
    .chain([Knowledge::Hinted, Knowledge::Silent])
    .chain(wrong.map(Knowledge::Wrong))
    .collect()
}
