//! Searches for an input of the target `tap` of which what must hold doesn't; what that
//! is stands beside the target in `crates/fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(
    // What is made once is made before the first input is timed.
    init: rategov_fuzz::check("tap", b""),
    |bytes: &[u8]| rategov_fuzz::check("tap", bytes)
);
