//! What a walk found out, and the verdict in one word.
//!
//! A report never says more than was checked: without a head remembered
//! elsewhere it says `not anchored`, contents that are not there are counted
//! and named, and contents stored in clear are counted too.

use std::fmt;

use crate::finding::{Code, Finding};
use crate::hash::{LeafHash, LogId};
use crate::kind::Kind;
use crate::leaf::{Leaf, Seq, UnixMs};

/// Ranges of records without content that a report names; more are only counted.
pub const PRUNED_RANGES_MAX: usize = 64;

/// The end of a log as somebody remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Records up to here, at least 1.
    pub size: u64,
    /// The hash of the last of them.
    pub hash: LeafHash,
}

/// In one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong with what is there.
    Intact,
    /// Something was changed.
    Tampered,
    /// All is well up to a last record that is not whole.
    Incomplete,
    /// There was nothing to verify.
    Unverifiable,
}

impl Verdict {
    /// The word that people see.
    pub const fn word(self) -> &'static str {
        match self {
            Verdict::Intact => "intact",
            Verdict::Tampered => "tampered",
            Verdict::Incomplete => "incomplete",
            Verdict::Unverifiable => "unverifiable",
        }
    }

    /// The exit code of `rategov audit verify`.
    pub const fn exit_code(self) -> u8 {
        match self {
            Verdict::Intact => 0,
            Verdict::Tampered => 1,
            Verdict::Incomplete => 2,
            Verdict::Unverifiable => 3,
        }
    }
}

/// What a walk found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The log, if a record could be read.
    pub log_id: Option<LogId>,
    /// Good records before the finding, or all of them.
    pub records: u64,
    /// The end of the good records.
    pub head: Option<Head>,
    /// The largest remembered head that the log agrees with.
    pub anchored_to: Option<u64>,
    /// Records whose content is stored in clear.
    pub in_clear: u64,
    /// Records whose content is not there.
    pub pruned: u64,
    /// Which those are: first and last of each run, at most [`PRUNED_RANGES_MAX`].
    pub pruned_ranges: Vec<(Seq, Seq)>,
    /// Times of the first and the last good record.
    pub period: Option<(UnixMs, UnixMs)>,
    /// The first thing that is wrong.
    pub finding: Option<Finding>,
}

impl Report {
    /// The report in one word.
    pub fn verdict(&self) -> Verdict {
        match &self.finding {
            None => Verdict::Intact,
            Some(finding) => match finding.code {
                Code::CrashTail => Verdict::Incomplete,
                Code::Empty => Verdict::Unverifiable,
                _ => Verdict::Tampered,
            },
        }
    }

    /// Counts a record that was found good.
    pub(crate) fn count(&mut self, leaf: &Leaf, head: Head, has_content: bool) {
        self.log_id = Some(leaf.log_id);
        self.records += 1;
        self.head = Some(head);
        let first = self.period.map_or(leaf.ts, |(first, _)| first);
        self.period = Some((first, leaf.ts));
        if !has_content {
            self.count_pruned(leaf.seq);
        } else if leaf.kind == Kind::Sealed && leaf.is_in_clear() {
            self.in_clear += 1;
        }
    }

    fn count_pruned(&mut self, seq: Seq) {
        self.pruned += 1;
        let last = self.pruned_ranges.last().map(|(_, last)| last.0);
        if last.is_some_and(|last| last + 1 == seq.0) {
            if let Some((_, last)) = self.pruned_ranges.last_mut() {
                *last = seq;
            }
        } else if self.pruned_ranges.len() < PRUNED_RANGES_MAX {
            self.pruned_ranges.push((seq, seq));
        }
    }
}

impl fmt::Display for Report {
    /// A few lines for a person.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} records verified",
            self.verdict().word(),
            self.records
        )?;
        if let Some(log_id) = self.log_id {
            writeln!(f, "log: {log_id}")?;
        }
        if let Some(head) = self.head {
            writeln!(f, "head: {} {}", head.size, head.hash)?;
        }
        match self.anchored_to {
            Some(size) => writeln!(f, "anchored: up to record {size}")?,
            None => writeln!(
                f,
                "not anchored: a log cut short or an older copy looks the same"
            )?,
        }
        if self.in_clear > 0 {
            writeln!(f, "stored in clear: {} records", self.in_clear)?;
        }
        if self.pruned > 0 {
            writeln!(f, "without content: {} records", self.pruned)?;
        }
        match &self.finding {
            Some(finding) => writeln!(f, "finding: {finding}"),
            None => Ok(()),
        }
    }
}
