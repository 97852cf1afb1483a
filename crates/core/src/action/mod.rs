//! One logical operation: what an attempt proved, what may follow, and when.
//!
//! The tables of the specification are tables here, to be read side by side
//! with it. The rooms, in the order in which an action meets them:
//!

pub mod backoff;
pub mod breaker;
pub mod budget;
pub mod canonical;
pub mod failure;
pub mod fingerprint;
pub mod key;
pub mod lookup;
pub mod machine;
pub mod outcome;
pub mod problem;
pub mod terminal;
