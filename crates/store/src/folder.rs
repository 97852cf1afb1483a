//! The data folder: who may look into it, and that one process owns it.
//!
//! The folder has mode 0700 and its files 0600. The owner holds a lock that
//! the system releases with the process, however it ends; the lock's file
//! names the owner for whoever comes second.
//!
//! An open file outlives its name, and a database without a name is a journal that
//! the next start won't find. So the names are compared with what is open:
//!
//! ```text
//! open     journal.db is inode 7      writes go to inode 7
//! rm -rf   journal.db is nothing      writes still go to inode 7, and succeed
//! watch    nothing ≠ 7                the journal stops
//! start    no journal.db, a work.key  refused: this folder had a journal
//! ```

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::Error;

const LOCK: &str = "rategov.lock";
const DATABASE: &str = "journal.db";
const WORK_KEY: &str = "work.key";

/// What only a folder with a journal has: both are made after it.
const MADE_LATER: [&str; 2] = [WORK_KEY, "identity.key"];

/// The database and the files beside it that SQLite keeps open.
const OPEN_FILES: [&str; 3] = [DATABASE, "journal.db-wal", "journal.db-shm"];

/// A data folder.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

/// Ownership of a data folder, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Folder {
    /// Makes the folder if it isn't there and closes it to others.
    pub(crate) fn prepare(path: &Path) -> Result<Folder, Error> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(Error::file("can't create the data folder", path))?;
        let mode = std::fs::metadata(path)
            .map_err(Error::file("can't read the data folder", path))?
            .permissions()
            .mode();
        if mode & 0o077 != 0 {
            std::fs::set_permissions(path, Permissions::from_mode(0o700))
                .map_err(Error::file("can't close to others the data folder", path))?;
        }
        Ok(Folder {
            path: path.to_owned(),
        })
    }

    /// A folder that is there already, only to be read.
    pub(crate) fn existing(path: &Path) -> Folder {
        Folder {
            path: path.to_owned(),
        }
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    pub(crate) fn work_key(&self) -> PathBuf {
        self.path.join(WORK_KEY)
    }

    /// Whether the folder has had a journal before.
    pub(crate) fn is_used(&self) -> bool {
        MADE_LATER.iter().any(|name| self.path.join(name).exists())
    }

    /// Whether there is a database with something in it.
    fn has_database(&self) -> Result<bool, Error> {
        let path = self.database();
        match std::fs::metadata(&path) {
            Ok(metadata) => Ok(metadata.len() > 0),
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(false),
            Err(cause) => Err(Error::file("can't read", &path)(cause)),
        }
    }

    /// Refuses a folder whose journal is gone: taken for a new one, it would
    /// forget every key that was sent.
    pub(crate) fn check_not_emptied(&self) -> Result<(), Error> {
        if self.is_used() && !self.has_database()? {
            return Err(Error::JournalGone {
                path: self.database(),
            });
        }
        Ok(())
    }

    /// Remembers which files are open, once they are.
    pub(crate) fn watch(&self) -> Watch {
        let file = |name| {
            let path = self.path.join(name);
            let metadata = std::fs::metadata(&path).ok()?;
            Some((path, metadata.dev(), metadata.ino()))
        };
        Watch {
            files: OPEN_FILES.into_iter().filter_map(file).collect(),
            database: self.database(),
            size: 1,
        }
    }

    /// Takes ownership, or says who has it.
    pub(crate) fn lock(&self) -> Result<Lock, Error> {
        let path = self.path.join(LOCK);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(Error::file("can't open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::InUse {
                    folder: self.path.clone(),
                    owner: owner(&mut file),
                });
            }
            Err(TryLockError::Error(cause)) => {
                return Err(Error::file("can't lock", &path)(cause));
            }
        }
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| write!(file, "{}", std::process::id()))
            .map_err(Error::file("can't write", &path))?;
        Ok(Lock { _file: file })
    }

    /// Makes the database's file, so that it never has another mode than 0600;
    /// SQLite gives its side files the same.
    pub(crate) fn touch_database(&self) -> Result<(), Error> {
        let path = self.database();
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map(drop)
            .map_err(Error::file("can't create", &path))
    }

    /// Makes the folder's entries survive a loss of power.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        File::open(&self.path)
            .and_then(|folder| folder.sync_all())
            .map_err(Error::file("can't sync the data folder", &self.path))
    }
}

/// The files that are open, by name and identity.
#[derive(Debug)]
pub(crate) struct Watch {
    files: Vec<(PathBuf, u64, u64)>,
    database: PathBuf,
    /// The size of the database as last seen, in bytes; it never shrinks.
    size: u64,
}

/// What is no longer what was opened.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) path: PathBuf,
    /// The database is still there as it was: only a file beside it is lost.
    pub(crate) database_is_whole: bool,
}

impl Watch {
    /// The first file whose name is no longer that of what is open, or that was
    /// cut. Costs three calls of the system, some microseconds.
    ///
    /// What the system can't tell about a file is not held against it: whether it
    /// can be written is the next commit's to find out.
    pub(crate) fn lost(&mut self) -> Option<Lost> {
        // The database is the first of them.
        for (path, device, inode) in &self.files {
            let is_database = *path == self.database;
            let is_lost = match std::fs::metadata(path) {
                Ok(now) => {
                    let is_cut = is_database && now.len() < self.size;
                    if is_database {
                        self.size = now.len();
                    }
                    is_cut || (now.dev(), now.ino()) != (*device, *inode)
                }
                Err(cause) => matches!(
                    cause.kind(),
                    ErrorKind::NotFound
                        | ErrorKind::NotADirectory
                        | ErrorKind::StaleNetworkFileHandle
                ),
            };
            if is_lost {
                return Some(Lost {
                    path: path.clone(),
                    database_is_whole: !is_database,
                });
            }
        }
        None
    }
}

fn owner(lock: &mut File) -> String {
    let mut text = String::new();
    // A process number has at most ten digits; more is not ours to show.
    let read = lock.take(10).read_to_string(&mut text);
    match text.parse::<u32>() {
        Ok(process) if read.is_ok() => format!("process {process}"),
        _ => "another process".to_owned(),
    }
}
