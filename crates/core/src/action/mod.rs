//! One logical operation: what an attempt proved, what may follow, and when.
//!
//! The tables of the specification are tables here, to be read side by side
//! with it. The rooms, in the order in which an action meets them:
//!
//! | room | question |
//! |---|---|
//! | [`machine`] | where is the action in its life, and what can happen to it there? |
//! | [`outcome`] | what did an attempt prove about its effect? |
//! | [`decide`], [`next`] | what follows it? |
//! | [`repeat`], [`backoff`], [`budget`], [`key`] | does one more send fit, and when? |
//! | [`lookup`] | what does a look-up at the provider prove? |
//! | [`choices`] | what may a person decide, and what follows? |
//! | [`failure`], [`breaker`] | has this path failed identically too often? |
//! | [`fingerprint`], [`canonical`] | are two calls the same? |
//! | [`problem`], [`next_step`] | what is the agent told at the end? |
//!
//! Nothing here keeps an action: the engine does, and asks.

pub mod backoff;
pub mod breaker;
pub mod budget;
pub mod canonical;
pub mod choices;
pub mod decide;
pub mod failure;
pub mod fingerprint;
pub mod key;
pub mod lookup;
pub mod machine;
pub mod next;
pub mod next_step;
pub mod outcome;
pub mod problem;
pub mod repeat;
