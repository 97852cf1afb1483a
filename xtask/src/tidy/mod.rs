//! Rules of the house that no compiler knows, checked on every run.
//!
//! Each rule is one file here and one function from the tracked files to
//! findings, so that it can be tested on a few lines of text. A rule that can't
//! hold everywhere yet has its exceptions in `xtask/tidy-exceptions.txt`, each
//! with a reason; a stale exception is a finding itself, so the list shrinks.

pub mod code;
pub mod dependencies;
pub mod documents;
pub mod exceptions;
pub mod hygiene;
pub mod links;
pub mod purity;
pub mod source;
pub mod tree;

use std::fmt;
use std::path::Path;

use anyhow::bail;

use exceptions::Exceptions;
use tree::Tree;

use crate::tools;

/// One thing that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, from the root of the repository.
    pub path: String,
    /// The line, counted from 1; `None` where it is the file as a whole.
    pub line: Option<usize>,
    /// The rule's word, as exceptions name it.
    pub rule: Rule,
    /// What is wrong, and what to do instead.
    pub what: String,
}

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A crate uses one it must not know.
    Direction,
    /// A Rust file opens without saying what it promises.
    Opening,
    /// A Rust file is too long.
    Length,
    /// A line is too wide.
    Width,
    /// Something unfinished.
    Unfinished,
    /// A test sleeps.
    Sleep,
    /// The core touches the world.
    Purity,
    /// A Markdown file has no first-level heading, or several.
    Heading,
    /// A link leads nowhere.
    Link,
    /// Error codes and their documents disagree.
    Codes,
    /// A configuration key is not explained.
    Keys,
    /// A path or host of one particular machine.
    Place,
    /// A file is too large.
    Size,
    /// An exception that nothing needs.
    Exception,
}

impl Rule {
    /// Its word in the list of exceptions.
    pub const fn word(self) -> &'static str {
        match self {
            Rule::Direction => "direction",
            Rule::Opening => "opening",
            Rule::Length => "length",
            Rule::Width => "width",
            Rule::Unfinished => "unfinished",
            Rule::Sleep => "sleep",
            Rule::Purity => "purity",
            Rule::Heading => "heading",
            Rule::Link => "link",
            Rule::Codes => "codes",
            Rule::Keys => "keys",
            Rule::Place => "place",
            Rule::Size => "size",
            Rule::Exception => "exception",
        }
    }
}

impl Finding {
    /// A finding about a whole file.
    pub fn file(rule: Rule, path: &str, what: impl Into<String>) -> Finding {
        Finding {
            path: path.to_owned(),
            line: None,
            rule,
            what: what.into(),
        }
    }

    /// A finding about a line, counted from 1.
    pub fn line(rule: Rule, path: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding {
            path: path.to_owned(),
            line: Some(line),
            rule,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: ", self.path)?,
            None => write!(f, "{}: ", self.path)?,
        }
        write!(f, "{} [{}]", self.what, self.rule.word())
    }
}

/// Checks the repository at `root` and prints what it finds to standard error.
pub fn run(root: &Path) -> anyhow::Result<()> {
    let tree = Tree::read(root)?;
    let mut findings = all(&tree);
    let packages = dependencies::packages(&tools::metadata(root)?)?;
    findings.extend(dependencies::check(&packages));
    findings.sort();
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        1 => bail!("one finding"),
        count => bail!("{count} findings"),
    }
}

/// Every rule that needs nothing but the files.
pub fn all(tree: &Tree) -> Vec<Finding> {
    let mut exceptions = Exceptions::of(tree);
    let mut findings = Vec::new();
    for file in tree.files() {
        if file.is_rust() {
            let code = code::Code::of(&file.text);
            findings.extend(source::check(file, &code, &mut exceptions));
            findings.extend(purity::check(file, &code));
        }
        findings.extend(hygiene::check(file));
    }
    findings.extend(documents::check(tree));
    findings.extend(links::check(tree));
    findings.extend(exceptions.stale());
    findings
}
