//! What happened, as lines, and one number that stands for all of them.
//!
//! Two runs of a seed are the same if their numbers are. The lines are kept
//! only where somebody wants to read them, but for the last few.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};

use rategov_core::time::Moment;

/// Lines that are kept in any case, for whoever reads a failure.
const TAIL: usize = 60;

/// See the module.
#[derive(Debug, Default)]
pub struct Trace {
    hash: u64,
    lines: u64,
    line: String,
    tail: VecDeque<String>,
    aloud: bool,
}

impl Trace {
    /// An empty trace; `aloud` prints each line to stderr.
    pub fn new(aloud: bool) -> Trace {
        Trace {
            hash: 0xcbf2_9ce4_8422_2325,
            aloud,
            ..Trace::default()
        }
    }

    /// Something happened.
    pub fn note(&mut self, now: Moment, what: fmt::Arguments<'_>) {
        self.line.clear();
        let written = write!(self.line, "{:>12} {what}", now.as_micros());
        debug_assert!(written.is_ok(), "a String takes everything");
        // FNV-1a (Fowler, Noll, Vo; public domain).
        for byte in self.line.bytes().chain([b'\n']) {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.lines += 1;
        if self.aloud {
            eprintln!("{}", self.line);
        }
        if TAIL <= self.tail.len() {
            self.tail.pop_front();
        }
        self.tail.push_back(self.line.clone());
    }

    /// The number that stands for all lines.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// How many lines there were.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// The last lines.
    pub fn tail(&self) -> impl Iterator<Item = &str> {
        self.tail.iter().map(String::as_str)
    }
}
