//! What is wrong with a configuration, said so that it can be put right.
//!
//! Every mistake names its file, line and column, its cause, and where one is
//! known a hint. Values are shown only where they can't be a secret: a
//! credential that was pasted where `env:NAME` belongs must not end up in a
//! terminal's scrollback or in a log.

use std::fmt;
use std::sync::Arc;

/// Most mistakes that one reading reports; a file with more is not a
/// configuration.
pub(crate) const MISTAKES_MAX: usize = 100;

/// A place in a file, both counted from 1. Line 0 means the file as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Line.
    pub line: u32,
    /// Column, in characters.
    pub column: u32,
}

/// One mistake, or one thing worth knowing, at its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file as it was named by the caller.
    pub file: Arc<str>,
    /// Where in it.
    pub mark: Mark,
    /// Lower case, no full stop.
    pub cause: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for Mistake {
    /// `rategov.yaml:12:5: cause`, and `  hint: …` on a line of its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mark.line {
            0 => write!(f, "{}: {}", self.file, self.cause)?,
            line => write!(
                f,
                "{}:{line}:{}: {}",
                self.file, self.mark.column, self.cause
            )?,
        }
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Everything that one reading found wrong, in the order of the file. Never empty
/// where it is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes(pub Vec<Mistake>);

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{mistake}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}

/// Gathers mistakes of one file.
#[derive(Debug)]
pub(crate) struct Collector {
    file: Arc<str>,
    found: Vec<Mistake>,
}

impl Collector {
    pub(crate) fn new(file: &str) -> Collector {
        Collector {
            // Whole, however long: it is where the reader has to go.
            file: file.replace(char::is_control, "?").into(),
            found: Vec::new(),
        }
    }

    /// Adds a mistake, whose text may carry its hint after `\nhint: `.
    pub(crate) fn add(&mut self, mark: Mark, text: impl Into<String>) {
        if self.found.len() >= MISTAKES_MAX {
            return;
        }
        let text = text.into();
        let (cause, hint) = match text.split_once("\nhint: ") {
            Some((cause, hint)) => (cause.to_owned(), Some(hint.to_owned())),
            None => (text, None),
        };
        let mistake = Mistake {
            file: Arc::clone(&self.file),
            mark,
            cause,
            hint,
        };
        if !self.found.contains(&mistake) {
            self.found.push(mistake);
        }
    }

    /// What was found, in the order of the file.
    pub(crate) fn finish(mut self) -> Vec<Mistake> {
        self.found.sort_by_key(|mistake| mistake.mark);
        self.found
    }
}

/// The hint for a word that is not known: the nearest known one if it is near,
/// else the list.
pub(crate) fn meant<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<String> {
    if let Some(near) = nearest(word, known.clone()) {
        return Some(format!("did you mean `{near}`?"));
    }
    let list: Vec<String> = known.into_iter().map(|word| format!("`{word}`")).collect();
    match list.len() {
        0 => None,
        1..=16 => Some(format!("known here: {}", list.join(", "))),
        _ => Some("`examples/rategov.yaml` explains every key".to_owned()),
    }
}

/// The known word with the smallest edit distance, if that is at most a third of
/// the word's length (and at least one slip is always forgiven).
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const WORD_CHARS_MAX: usize = 64;
    if word.chars().count() > WORD_CHARS_MAX {
        return None;
    }
    let allowed = (word.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The optimal-string-alignment distance: insertions, deletions, substitutions
/// and swaps of neighbours count one each.
///
/// Worked: `max_attemps` → `max_attempts` is one insertion, 1; `tiemout` →
/// `timeout` is one swap, 1 (plain Levenshtein would say 2). Source: R. A. Wagner
/// and R. Lowrance, "An Extension of the String-to-String Correction Problem",
/// J. ACM 22(2), 1975. Cost: O(a·b) time, three rows of space.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let substitution = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1)
                .min(row[j - 1] + 1)
                .min(last[j - 1] + substitution);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_forgives_slips_and_not_other_words() {
        let known = [
            "max_attempts",
            "max_wait_seconds",
            "retry_statuses",
            "timeout",
        ];
        assert_eq!(nearest("max_attemps", known), Some("max_attempts"));
        assert_eq!(nearest("tiemout", known), Some("timeout"));
        assert_eq!(nearest("retries", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest(&"x".repeat(10_000), known), None);
    }

    #[test]
    fn a_swap_of_neighbours_is_one_slip() {
        assert_eq!(distance("tiemout", "timeout"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
