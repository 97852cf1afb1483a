//! Gateway, agent interface and operator interface of Rate Governor.
//!
//! Sockets, tasks and templates are here; decisions are not. A call comes in
//! through [`gateway`], is identified by [`auth`], gets its meaning from
//! [`route`], and is handed to the engine of its account by [`driver`], the only
//! owner of engines. [`config`] turns what an operator wrote into what is meant.

pub mod agents;
pub mod audit_text;
pub mod auth;
pub mod config;
mod departure;
pub mod documents;
#[doc(hidden)]
pub mod doors;
pub mod driver;
pub mod fail;
pub mod gateway;
mod key_file;
mod listen;
mod listeners;
pub mod operators;
mod raw_head;
pub mod route;
pub mod start;
pub mod wire;
