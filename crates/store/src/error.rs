//! Why the store can't be opened or read: each with a stable word, the cause
//! and what helps.

use std::io;
use std::path::{Path, PathBuf};

use rategov_audit::finding::Finding;

/// Why the store can't be opened or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process owns the data folder.
    #[error("the data folder {} is in use by {owner}", .folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// `process N` or `another process`.
        owner: String,
    },
    /// A file can't be made, read or written.
    #[error("{what} {}: {cause}", .path.display())]
    File {
        /// What was tried: `can't create`.
        what: &'static str,
        /// Which file or folder.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// Others may read a file that they must not.
    #[error("{} can be read by others (mode {mode:o})", .path.display())]
    Exposed {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The work key's file is not one.
    #[error("{} is not a work key", .path.display())]
    WorkKey {
        /// Which file.
        path: PathBuf,
    },
    /// The folder had a journal, and has none any more.
    #[error("{} is missing or empty beside keys of an earlier run: the journal was lost", .path.display())]
    JournalGone {
        /// Where the database should be.
        path: PathBuf,
    },
    /// The database was written by a later version of this program.
    #[error("the database has form {found}, this program knows forms up to {known}")]
    TooNew {
        /// What the database says.
        found: i64,
        /// The newest form known here.
        known: i64,
    },
    /// The end of the journal does not verify.
    #[error("the journal does not verify: {0}")]
    Tampered(Finding),
    /// A row can't be what this program wrote.
    #[error("the database holds an impossible {0}")]
    Corrupt(String),
    /// The database failed.
    #[error("the database failed: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A sealed content does not open.
    #[error("a sealed {what} does not open: {why}")]
    Sealed {
        /// What it is.
        what: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// An option is out of its bounds.
    #[error("option {0} is out of its bounds")]
    Option(&'static str),
}

impl Error {
    pub(crate) fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |cause| Error::File { what, path, cause }
    }

    /// Whether it is the work key that is missing, or is another's: what was sealed
    /// stays closed, and everything else can be read.
    pub fn is_about_a_key(&self) -> bool {
        matches!(
            self,
            Error::Sealed { .. } | Error::WorkKey { .. } | Error::Exposed { .. }
        )
    }

    /// The stable word.
    pub fn code(&self) -> &'static str {
        match self {
            Error::InUse { .. } => "store_in_use",
            Error::File { .. } => "store_file",
            Error::Exposed { .. } => "store_exposed",
            Error::WorkKey { .. } => "store_work_key",
            Error::JournalGone { .. } => "store_journal_gone",
            Error::TooNew { .. } => "store_too_new",
            Error::Tampered(_) => "store_tampered",
            Error::Corrupt(_) => "store_corrupt",
            Error::Sqlite(_) => "store_database",
            Error::Sealed { .. } => "store_sealed",
            Error::Option(_) => "store_option",
        }
    }

    /// What helps.
    pub fn hint(&self) -> String {
        match self {
            Error::InUse { .. } => {
                "stop the other governor, or give this one its own data folder".to_owned()
            }
            Error::File { path, .. } => {
                format!(
                    "see that the governor's user may read and write {}",
                    path.display()
                )
            }
            Error::Exposed { path, .. } => format!("chmod 600 {}", path.display()),
            Error::WorkKey { path } => {
                format!(
                    "restore {} from its backup, or move it away",
                    path.display()
                )
            }
            Error::JournalGone { path } => {
                format!(
                    "put {} back, with the -wal beside it if there is one; to begin anew without its history, name another data folder: writes that were sent before can then happen twice",
                    path.display()
                )
            }
            Error::TooNew { .. } => "run the version that wrote it, or a newer one".to_owned(),
            Error::Tampered(_) => {
                "keep a copy of the folder, then run `rategov audit verify` on it".to_owned()
            }
            Error::Corrupt(_) => "restore the data folder from its backup".to_owned(),
            Error::Sqlite(_) => "look at the disk and the system's log".to_owned(),
            Error::Sealed { .. } => "restore work.key from its backup".to_owned(),
            Error::Option(_) => "correct the configuration".to_owned(),
        }
    }
}
