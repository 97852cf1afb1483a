//! The repository's own files: what git tracks or would track.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::tools;

/// One text file. Binary files have no text, but a size.
#[derive(Clone, Debug)]
pub struct File {
    /// From the root, with `/`.
    pub path: String,
    /// The whole content; empty for a file that is no UTF-8.
    pub text: String,
    /// Its size in bytes.
    pub bytes: usize,
}

impl File {
    /// Whether it is Rust source.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether it is data that a test reads, or that a test tool keeps.
    pub fn is_test_data(&self) -> bool {
        self.path.contains("/tests/data/")
            || self.path.contains("/vectors/")
            || self.path.contains("proptest-regressions")
    }
}

/// All files, in the order of their paths.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    files: Vec<File>,
}

impl Tree {
    /// Reads the repository at `root`: tracked files and new ones that are not ignored.
    pub fn read(root: &Path) -> anyhow::Result<Tree> {
        let mut git = Command::new("git");
        git.current_dir(root);
        git.args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]);
        let listed =
            tools::read(&mut git).context("the files of the repository can't be listed")?;
        let mut files = Vec::new();
        for path in listed.split('\0').filter(|path| !path.is_empty()) {
            let place = root.join(path);
            // A file that was deleted but not yet committed is still listed.
            if !place.is_file() {
                continue;
            }
            let content = fs::read(&place).with_context(|| format!("{path} can't be read"))?;
            let bytes = content.len();
            let text = String::from_utf8(content).unwrap_or_default();
            files.push(File {
                path: path.to_owned(),
                text,
                bytes,
            });
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        Ok(Tree { files })
    }

    /// A tree of given texts, for tests.
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let file = |&(path, text): &(&str, &str)| File {
            path: path.to_owned(),
            text: text.to_owned(),
            bytes: text.len(),
        };
        Tree {
            files: files.iter().map(file).collect(),
        }
    }

    /// Every file.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// The files under a folder, which is given with its last `/`.
    pub fn under<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a File> {
        self.files
            .iter()
            .filter(move |file| file.path.starts_with(folder))
    }

    /// One file by its path.
    pub fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }
}
