//! The tamper-evident log format of Rate Governor and its offline verifier.
//!
//! A log is a sequence of *leaves*: small binary headers, each of which names
//! the hash of the one before it and the hash of its own *content*. The content
//! (the record that people care about) lies beside the leaf, so that it can be
//! encrypted, pruned or made unreadable for ever while the chain of leaves
//! still verifies.
//!
//! ```text
//!   leaf 0 (genesis)        leaf 1                     leaf 2
//!   prev_leaf = 00…00  <--  prev_leaf = H(leaf 0)  <-- prev_leaf = H(leaf 1)
//!   origin                  ct_hash = SHA-256(c1)      ct_hash = SHA-256(c2)
//!                                      |                          |
//!                           content c1                 content c2
//! ```
//!
//! - [`leaf`] is the layout, byte for byte, and [`kind`] what a leaf is for;
//!   [`clear`] has the few bodies that are part of a leaf because a verifier
//!   must read them without any key.
//! - [`chain`] appends; there is one writer to a log.
//! - [`verify`] walks a log without keys, network, clock or database and names
//!   the first bad record by a stable [`finding::Code`].
//! - [`export`] is the same bytes as lines of JSON.
//!
//! What this cannot see: a log cut short at a record's boundary, or an older
//! copy put in its place, looks like a younger log. Only a head remembered
//! elsewhere ([`report::Head`]) shows it, and every report without one says
//! `not anchored`.
//!
//! Nothing here is serialised by a library: what is hashed is what is stored.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod base64;
pub mod chain;
pub mod clear;
pub mod export;
pub mod finding;
pub mod hash;
pub mod kind;
pub mod leaf;
pub mod report;
pub mod verify;
