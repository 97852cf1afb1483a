//! No answer stalls a queue.

use crate::Target;
use crate::scenario::{Scenario, seeds};
use crate::world::play;

/// Hostile answers to a real engine; see [`crate::world`].
pub(super) const QUEUE: Target = Target {
    name: "queue",
    holds: "after whatever answers, everything that waits goes on by itself, or a person has been asked",
    check: |bytes| play(&Scenario::of(bytes)),
    seeds,
};
