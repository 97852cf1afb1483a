//! The judge of the claim "the ledger is right": the real engine against every
//! kind of limit, in virtual time, with the provider's own count as evidence.
//!
//! A [`Trial`] says what the provider enforces, what the governor knows of it,
//! how much is asked for, how unevenly calls travel, and what happens on the
//! way that nobody announces. [`judge`] plays it and counts at the provider:
//! refusals, and the share of the quota that was used over at least twenty
//! windows. [`bounds`] says what must hold, [`matrix`] lists the trials.
//!
//! ```text
//! callers ──submit──▶ engine ──grant──▶ dial ──way (20 ms + jitter)──▶ provider
//!    ▲                  ▲                                                 │ counts
//!    └──── answer ──────┴──────────── 20 ms ◀── work (50 to 150 ms) ──────┘
//! ```
//!
//! A refusal **event** is a refusal together with its echoes: the refusals of
//! calls that had left before the governor could have heard of the first.
//!
//! The governor's utilisation can't pass a ceiling that follows from the jitter
//! alone ([`bounds::ceiling`]); it is judged against that.

pub mod bounds;
mod count;
pub mod matrix;
mod play;
pub mod table;
pub mod trial;
pub mod work;

pub use count::Verdict;
pub use work::Work;

pub use trial::{Demand, Happening, Knowledge, Shape, Size, Trial};

/// Plays a trial: the same trial gives the same verdict on every machine.
pub fn judge(trial: &Trial) -> Verdict {
    play::Play::new(trial).run()
}
