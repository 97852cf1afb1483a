//! What a call will cost by its request, and what it did cost by its answer.
//!
//! ```text
//! request ─▶ Sizer ─▶ Sizing ─▶ core::estimate ─▶ reserved
//! answer  ─▶ Tap ───▶ Usage ──▶ core::estimate ─▶ settled
//! ```
//!
//! Both read bytes as they pass, through a decoded copy where they are compressed
//! ([`decode`]), for a few numbers at places that the preset names ([`rules`]). Neither
//! changes a byte, keeps content, or grows with what it reads. The decoder also
//! serves error bodies, so that there is one judgement about what can be read.

mod amount;
pub mod decode;
mod envelope;
mod frames;
pub mod places;
pub mod rules;
mod scan;
pub mod sizing;
mod sse;
pub mod tap;

use rategov_core::estimate::{Sizing, Usage};
use rategov_core::word::Class;

use crate::route::Rule;

pub use decode::Room;
pub use rules::MeterRules;
pub use sizing::Sizer;
pub use tap::Tap;

/// What calls to an endpoint use beside themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metered {
    /// Nothing that is known.
    Not,
    /// Whatever their answers report: tokens, the provider's units, money.
    Whole,
    /// The provider's own units alone, as a query of GraphQL does: of its text neither
    /// way anything is counted.
    Points,
}

impl Metered {
    /// Model inference is metered whatever class its caller asked for; any other call
    /// where the provider's answers are known to say what it cost.
    pub fn of(rule: &Rule, rules: &MeterRules) -> Metered {
        match rule.class {
            Class::Generation => Metered::Whole,
            _ if rules.tell_points() => Metered::Points,
            _ => Metered::Not,
        }
    }

    /// Whether nothing is.
    pub fn is_not(self) -> bool {
        self == Metered::Not
    }

    /// What a request says, without what is not counted here.
    fn sized(self, sizing: Sizing) -> Sizing {
        match self {
            Metered::Not | Metered::Whole => sizing,
            Metered::Points => Sizing {
                prompt_bytes: 0,
                input_counted: Some(0),
                most_output: Some(0),
                choices: 1,
                ..sizing
            },
        }
    }

    /// What an answer reports, without what is not counted here. One that reports its
    /// points reports all of it.
    pub fn used(self, usage: Usage) -> Usage {
        let nothing = usage.points.map(|_| 0);
        match self {
            Metered::Not | Metered::Whole => usage,
            Metered::Points => Usage {
                points: usage.points,
                input: nothing,
                output: nothing,
                seen: usage.seen,
                ..Usage::default()
            },
        }
    }
}
