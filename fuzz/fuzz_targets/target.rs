//! Searches for an input of the target `target` of which what must hold doesn't; what that
//! is stands beside the target in `crates/fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rategov_fuzz::check("target", bytes));
