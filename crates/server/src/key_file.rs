//! Keys of this installation: 32 random bytes that stay the same over restarts and
//! a loss of power, in a file that nobody else can read.
//!
//! Accounts that are known by their credential are named under such a key, and open
//! writes are found by what was computed under one: a key that is lost renames the
//! accounts, and one that others can read lets them test guesses.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use zeroize::Zeroizing;

const KEY_BYTES: usize = 32;

/// Reads a key, or makes it. What was made is on the disk when this returns.
///
/// # Errors
/// If others can read the file, it holds something else, or the disk fails.
pub(crate) fn open_or_make(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    match File::open(path) {
        Ok(file) => read(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(path),
        Err(error) => Err(error),
    }
}

fn read(file: File) -> io::Result<[u8; KEY_BYTES]> {
    let mode = file.metadata()?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(io::Error::other(format!(
            "others can read it (mode {mode:03o})\nhint: chmod 600"
        )));
    }
    // One more than there may be, to see whether there is more.
    let mut bytes = Zeroizing::new(Vec::with_capacity(KEY_BYTES + 1));
    file.take(KEY_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    bytes
        .as_slice()
        .try_into()
        .map_err(|_| io::Error::other("it is not a key: it does not have 32 bytes"))
}

fn make(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(|_| io::Error::other("no randomness"))?;
    // Written beside and moved into place: a crash leaves no half key.
    let beside = path.with_extension("new");
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(&beside)?;
    file.write_all(&key)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    // The name is the folder's content: without this a loss of power can take it back.
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity.key");
        let made = open_or_make(&path).unwrap();
        assert_eq!(open_or_make(&path).unwrap(), made);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let other = open_or_make(&folder.path().join("fingerprint.key")).unwrap();
        assert_ne!(made, other);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_key_that_others_can_read_or_that_is_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity.key");
        open_or_make(&path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let refused = open_or_make(&path).unwrap_err().to_string();
        assert!(
            refused.contains("mode 640") && refused.contains("chmod 600"),
            "{refused}"
        );
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        for wrong in [&b"short"[..], &[7; 33]] {
            std::fs::write(&path, wrong).unwrap();
            assert!(open_or_make(&path).is_err(), "{} bytes", wrong.len());
        }
    }

    #[test]
    fn what_a_crash_left_beside_is_no_obstacle() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity.key");
        std::fs::write(path.with_extension("new"), b"half").unwrap();
        let made = open_or_make(&path).unwrap();
        assert_eq!(open_or_make(&path).unwrap(), made);
    }
}
