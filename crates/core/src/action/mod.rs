//! One logical operation: what an attempt proved, what may follow, and when.
//!
//! The tables of the specification are tables here, to be read side by side
//! with it: [`outcome`] says what a failure proves, [`decide`] what follows.

pub mod outcome;
