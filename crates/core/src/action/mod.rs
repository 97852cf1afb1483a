//! One logical operation: what an attempt proved, what may follow, and when.
//!
//! The tables of the specification are tables here, to be read side by side
//! with it. The rooms, in the order in which an action meets them:
//!

pub mod outcome;
