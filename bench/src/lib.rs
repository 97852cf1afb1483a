//! Measurements of Rate Governor that anybody can repeat on their own machine.
//!
//! - [`engine`] counts whole cycles of the engine, ask to settle, with a full
//!   queue behind them; virtual time, one thread, no I/O.
//! - [`gateway`] drives the real binary beside other proxies, in one run and in
//!   turns, and reads what each cost from the operating system.
//!
//! Nothing here asserts a time: a slow machine gives small numbers, not a
//! failure. `cargo xtask bench` runs both and writes `docs/benchmarks.md`.

pub mod engine;
pub mod gateway;
pub mod machine;
pub mod report;
pub mod sample;
