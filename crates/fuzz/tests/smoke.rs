//! Every target over its seeds, and over inputs that are nearly seeds.
//!
//! The mutations come from fixed numbers, so that a failure here is one everywhere. A
//! search that looks for new paths is `cargo xtask fuzz`.

#![allow(clippy::unwrap_used)]

use std::panic::catch_unwind;

use rategov_fuzz::{TARGETS, Target};

/// Mutations of one target; fewer where one is a whole file, or a day of an engine.
const MUTATIONS: usize = 400;
const MUTATIONS_LONG: usize = 40;

/// SplitMix64 (public domain).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        self.next() as usize % end.max(1)
    }
}

/// One to four small changes: bytes put in, taken out, exchanged, repeated, or a part of
/// another seed.
fn mutated(seeds: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = seeds[numbers.below(seeds.len())].clone();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len());
        let length = numbers.below(8).min(bytes.len() - at);
        match numbers.below(6) {
            0 => drop(bytes.drain(at..at + length)),
            1 => bytes.insert(at, b"0129-+.,;:=\"%{}[]\n\r\t \x80\xff"[numbers.below(23)]),
            2 if !bytes.is_empty() => bytes[at] = numbers.next() as u8,
            3 => {
                let part = bytes[at..at + length].to_vec();
                drop(bytes.splice(at..at, part));
            }
            4 if !bytes.is_empty() => bytes[at] ^= 1 << numbers.below(8),
            _ => {
                let other = &seeds[numbers.below(seeds.len())];
                let from = numbers.below(other.len());
                let part = &other[from..other.len().min(from + 40)];
                drop(bytes.splice(at..at, part.iter().copied()));
            }
        }
    }
    bytes
}

#[track_caller]
fn check(target: &Target) {
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "{} has no seed", target.name);
    let count = match target.name {
        "queue" | "config" | "preset" => MUTATIONS_LONG,
        _ => MUTATIONS,
    };
    let mut numbers = Numbers(7);
    let inputs = (0..count).map(|_| mutated(&seeds, &mut numbers));
    let nothing = [Vec::new()];
    for input in nothing
        .into_iter()
        .chain(seeds.iter().cloned())
        .chain(inputs)
    {
        let held = catch_unwind(|| (target.check)(&input)).is_ok();
        let shown = input.escape_ascii();
        assert!(
            held,
            "{}: {}\n  input: \"{shown}\"",
            target.name, target.holds
        );
    }
}

/// One test a target, so that they run beside each other and a failure has a name.
macro_rules! each_target {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                check(rategov_fuzz::find(stringify!($name)).unwrap());
            }
        )*

        #[test]
        fn every_target_has_a_test_here() {
            let tested = [$(stringify!($name)),*];
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, tested);
        }
    };
}

each_target! {
    retry_after units ratelimit dialects answer error_body stream_opening stream_watch stored_head
    decode sizer tap canonical fingerprint body_paths templates lookup destination target
    to_provider to_caller raw_head asked doors config preset config_units names record leaf export
    verify queue
}

#[test]
fn every_target_has_its_program_in_the_folder_of_the_fuzzer() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz");
    let manifest = std::fs::read_to_string(format!("{folder}/Cargo.toml")).unwrap();
    for target in TARGETS {
        let name = target.name;
        assert!(
            manifest.contains(&format!("\nname = \"{name}\"\n")),
            "{name} is not in fuzz/Cargo.toml"
        );
        let program = std::fs::read_to_string(format!("{folder}/fuzz_targets/{name}.rs")).unwrap();
        assert!(
            program.contains(&format!("\"{name}\"")),
            "{name}.rs runs another target"
        );
    }
}
