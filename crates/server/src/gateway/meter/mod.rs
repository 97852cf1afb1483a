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

use rategov_core::word::Class;

use crate::route::Rule;

pub use decode::Room;
pub use rules::MeterRules;
pub use sizing::Sizer;
pub use tap::Tap;

/// Whether calls to an endpoint use more than themselves: model inference does,
/// whatever class its caller asked for.
pub fn is_metered(rule: &Rule) -> bool {
    rule.class == Class::Generation
}
