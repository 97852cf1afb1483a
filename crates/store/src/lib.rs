//! Journal and state of Rate Governor on SQLite.
//!
//! Each decision of an engine arrives as one [`entry::Entry`]. Its record and
//! the rows that it changes commit in the same transaction, so there is never
//! state without a record nor a record without its state; how a record changes
//! a row is the core's business and told in one place there. An acknowledgement
//! says that the record is as durable as it asked to be.
//!
//! - [`store`] opens a data folder and runs its one writer.
//! - [`queue`] is where records enter; it never waits.
//! - [`reader`] reads beside the writer, [`query`] searches.
//! - [`recover`] is what a restart finds; [`clock`] is how waits outlive a boot.
//! - [`codec`] is what is inside a record.
//! - [`fail`] kills the process at named points, for the tests.
//!
//! What is not here: decisions, and clocks. Times and the boot's id are handed
//! in by the caller.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod apply;
mod blocks;
pub mod clock;
pub mod codec;
mod db;
pub mod entry;
pub mod error;
pub mod fail;
mod folder;
mod hand;
mod migrate;
mod order;
mod plan;
pub mod query;
pub mod queue;
pub mod reader;
pub mod recover;
mod sealed;
pub mod store;
pub mod sweep;
mod tables;
mod transaction;
mod workkey;
pub mod writer;

pub use clock::{Now, Stamp, Stamped};
pub use entry::{Ack, Attachment, CommitFailed, Entry, Full, Payload, Source, StoredResult};
pub use error::Error;
pub use query::{ActionQuery, JournalQuery, JournalRow, Page};
pub use queue::{AckSink, AcksSink, Journal, JournalState, Run};
pub use reader::{Asked, Reader};
pub use recover::{Boot, Recovered};
pub use store::{Options, Store};
