//! The fake provider over real sockets, seen by a caller that knows only bytes.

mod control;
mod faults;
mod serving;
mod support;
