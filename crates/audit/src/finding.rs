//! What a verifier can find, each with a stable word.
//!
//! The words are an interface: scripts and alerts match on them, so they never
//! change their meaning. Signed heads, retention and several nodes add words;
//! none of these goes away.

use std::fmt;

use crate::leaf::Seq;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $meaning:literal;)*) => {
        /// What is wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            /// The stable word.
            pub const fn word(self) -> &'static str {
                match self { $(Code::$variant => $word,)* }
            }

            /// One sentence for a person.
            pub const fn meaning(self) -> &'static str {
                match self { $(Code::$variant => $meaning,)* }
            }
        }
    };
}

codes! {
    /// The magic or the kind is another one.
    UnknownVersion = "unknown_version",
        "the record is of a version or kind that this verifier doesn't know";
    /// The bytes are no leaf.
    Malformed = "malformed",
        "the bytes are not a record of this format";
    /// The last record is not whole.
    CrashTail = "crash_tail",
        "the last record was cut off in the middle, as a crash or a broken copy leaves it";
    /// The first record is not the beginning of this log, or a later one claims to be.
    GenesisMismatch = "genesis_mismatch",
        "the log doesn't begin with the first record of the log it claims to be";
    /// The record belongs to another log.
    LogIdMismatch = "log_id_mismatch",
        "the record belongs to another log";
    /// The number jumps.
    SeqOrder = "seq_order",
        "records are missing here or out of order";
    /// The number was there before.
    SeqReuse = "seq_reuse",
        "a record with this number came before";
    /// Two different records continue the same record, or a remembered head is not this log's.
    Fork = "fork",
        "there are two histories: two different records have this place";
    /// The record doesn't follow the one before.
    ChainBreak = "chain_break",
        "the record before this one was changed, removed or put in";
    /// The time is before that of the record before.
    TimeOrder = "time_order",
        "the record carries an earlier time than the one before";
    /// The unit of retention or of key use goes back.
    EpochMismatch = "epoch_mismatch",
        "the record belongs to an earlier unit of retention than the one before";
    /// The content has another length.
    ContentLength = "ct_len_mismatch",
        "the content has another length than its record says";
    /// The content has another hash.
    ContentHash = "ct_hash_mismatch",
        "the content is not the one that was recorded";
    /// The log ends before a head that is remembered.
    Rollback = "rollback",
        "the log ends before a head that was remembered: it was cut short or an older copy put back";
    /// There is no record at all.
    Empty = "empty",
        "there is no record to verify";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The first thing that is wrong with a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub code: Code,
    /// Where: the place in the input, from 0. For a remembered head that the
    /// log doesn't reach, the place after the last record.
    pub position: u64,
    /// The number that the record there claims, if it could be read.
    pub seq: Option<Seq>,
    /// What was expected and what was found, in words.
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seq {
            Some(seq) => write!(f, "{}@{seq}", self.code)?,
            None => write!(f, "{} at position {}", self.code, self.position)?,
        }
        write!(f, ": {}", self.code.meaning())?;
        if !self.detail.is_empty() {
            write!(f, " ({})", self.detail)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_codes_share_a_word() {
        for code in Code::ALL {
            let same = Code::ALL.iter().filter(|other| other.word() == code.word());
            assert_eq!(same.count(), 1, "{code}");
        }
    }

    #[test]
    fn a_finding_reads_as_code_at_record() {
        let finding = Finding {
            code: Code::ContentHash,
            position: 7,
            seq: Some(Seq(7)),
            detail: String::new(),
        };
        assert_eq!(
            finding.to_string(),
            "ct_hash_mismatch@7: the content is not the one that was recorded"
        );
    }
}
