//! The data folder: who may look into it, and that one process owns it.
//!
//! The folder has mode 0700 and its files 0600. The owner holds a lock that
//! the system releases with the process, however it ends; the lock's file
//! names the owner for whoever comes second.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::Error;

const LOCK: &str = "rategov.lock";
const DATABASE: &str = "journal.db";
const WORK_KEY: &str = "work.key";

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

fn owner(lock: &mut File) -> String {
    let mut text = String::new();
    // A process number has at most ten digits; more is not ours to show.
    let read = lock.take(10).read_to_string(&mut text);
    match text.parse::<u32>() {
        Ok(process) if read.is_ok() => format!("process {process}"),
        _ => "another process".to_owned(),
    }
}
