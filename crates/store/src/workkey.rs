//! The work key: what a restart can open without a person.
//!
//! Payloads and results are sealed with XChaCha20-Poly1305 under a key that
//! lies beside the database in a file of its own (mode 0600), so that a backup
//! or a copy of the database alone gives away no body. Whoever can read the
//! whole folder can read them; that is what "unattended restart" costs.
//!
//! ```text
//! file    = "RGK1" key(32)
//! sealed  = ciphertext tag(16) nonce(24)
//! bound   = "rategov/work/1" kind(1) action(16)     the additional data
//! ```
//!
//! Nonces are random: with 24 bytes, 2⁸⁰ seals leave the chance of a repeat
//! below 2⁻³². The additional data ties a content to its action and its kind,
//! so that one row can't be read as another.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use rategov_audit::hash::ContentHash;
use rategov_core::id::ActionId;
use zeroize::Zeroizing;

use crate::error::Error;
use crate::folder::Folder;

const MAGIC: [u8; 4] = *b"RGK1";
const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;

/// Tells keys apart without telling anything about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyId(pub(crate) [u8; 8]);

/// What a sealed content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sealed {
    Payload,
    Result,
}

impl Sealed {
    fn code(self) -> u8 {
        match self {
            Sealed::Payload => 1,
            Sealed::Result => 2,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Sealed::Payload => "payload",
            Sealed::Result => "result",
        }
    }
}

/// The key under which payloads and results are sealed.
pub(crate) struct WorkKey {
    cipher: XChaCha20Poly1305,
    id: KeyId,
}

impl fmt::Debug for WorkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkKey({:02x?})", self.id.0)
    }
}

impl WorkKey {
    /// Reads the folder's key.
    ///
    /// # Errors
    /// If others can read the file, or it holds something else.
    pub(crate) fn load(path: &Path) -> Result<Option<WorkKey>, Error> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::file("can't open", path)(error)),
        };
        let mode = file
            .metadata()
            .map_err(Error::file("can't read", path))?
            .permissions()
            .mode();
        if mode & 0o077 != 0 {
            return Err(Error::Exposed {
                path: path.to_owned(),
                mode: mode & 0o777,
            });
        }
        let mut bytes = Zeroizing::new(Vec::with_capacity(64));
        Read::by_ref(&mut file)
            .take(64)
            .read_to_end(&mut bytes)
            .map_err(Error::file("can't read", path))?;
        let key = bytes
            .strip_prefix(&MAGIC)
            .and_then(|key| <&[u8; KEY_BYTES]>::try_from(key).ok());
        match key {
            Some(key) => Ok(Some(WorkKey::new(key))),
            None => Err(Error::WorkKey {
                path: path.to_owned(),
            }),
        }
    }

    /// Reads the folder's key, or makes one that survives a loss of power
    /// before anything is sealed under it.
    pub(crate) fn load_or_make(folder: &Folder) -> Result<WorkKey, Error> {
        let path = folder.work_key();
        if let Some(key) = WorkKey::load(&path)? {
            return Ok(key);
        }
        let mut bytes = Zeroizing::new([0; MAGIC.len() + KEY_BYTES]);
        bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
        fill_random(&mut bytes[MAGIC.len()..], &path)?;
        let fresh = path.with_extension("key.new");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&fresh)
            .map_err(Error::file("can't create", &fresh))?;
        file.write_all(&*bytes)
            .and_then(|()| file.sync_all())
            .map_err(Error::file("can't write", &fresh))?;
        std::fs::rename(&fresh, &path).map_err(Error::file("can't create", &path))?;
        folder.sync()?;
        WorkKey::load(&path)?.ok_or(Error::WorkKey { path })
    }

    fn new(key: &[u8; KEY_BYTES]) -> WorkKey {
        let tagged = Zeroizing::new([b"rategov/work-key-id/1".as_slice(), key].concat());
        let mut id = [0; 8];
        id.copy_from_slice(&ContentHash::of(&tagged).0[..8]);
        WorkKey {
            cipher: XChaCha20Poly1305::new(key.into()),
            id: KeyId(id),
        }
    }

    pub(crate) fn id(&self) -> KeyId {
        self.id
    }

    /// Seals a content in place: the buffer grows by 40 bytes.
    pub(crate) fn seal(
        &self,
        what: Sealed,
        action: ActionId,
        mut buffer: Vec<u8>,
    ) -> Result<Vec<u8>, Error> {
        let failed = |why| Error::Sealed {
            what: what.word(),
            why,
        };
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| failed("the system gives no random bytes"))?;
        buffer.reserve_exact(NONCE_BYTES + 16);
        self.cipher
            .encrypt_in_place(&XNonce::from(nonce), &bound(what, action), &mut buffer)
            .map_err(|_| failed("it is too long"))?;
        buffer.extend_from_slice(&nonce);
        Ok(buffer)
    }

    /// Opens what [`WorkKey::seal`] made, in place.
    pub(crate) fn open(
        &self,
        what: Sealed,
        action: ActionId,
        key: &[u8],
        mut sealed: Vec<u8>,
    ) -> Result<Vec<u8>, Error> {
        let failed = |why| Error::Sealed {
            what: what.word(),
            why,
        };
        if key != self.id.0 {
            return Err(failed("it was sealed under another work key"));
        }
        let at = sealed
            .len()
            .checked_sub(NONCE_BYTES)
            .ok_or_else(|| failed("it is too short"))?;
        let mut nonce = [0; NONCE_BYTES];
        nonce.copy_from_slice(&sealed[at..]);
        sealed.truncate(at);
        self.cipher
            .decrypt_in_place(&XNonce::from(nonce), &bound(what, action), &mut sealed)
            .map_err(|_| failed("it was changed or belongs to another action"))?;
        Ok(sealed)
    }
}

fn bound(what: Sealed, action: ActionId) -> Vec<u8> {
    [
        b"rategov/work/1".as_slice(),
        &[what.code()],
        &action.0.to_be_bytes(),
    ]
    .concat()
}

/// Fills a buffer from the system's source of randomness.
pub(crate) fn fill_random(buffer: &mut [u8], path: &Path) -> Result<(), Error> {
    getrandom::fill(buffer)
        .map_err(|error| Error::file("can't make", path)(std::io::Error::other(error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> WorkKey {
        WorkKey::new(&[7; KEY_BYTES])
    }

    const ACTION: ActionId = ActionId(5);

    #[test]
    fn what_is_sealed_opens_and_shows_nothing() {
        let sealed = key()
            .seal(Sealed::Payload, ACTION, b"amount=100".to_vec())
            .unwrap();
        assert!(!sealed.windows(6).any(|window| window == b"amount"));
        let opened = key()
            .open(Sealed::Payload, ACTION, &key().id().0, sealed)
            .unwrap();
        assert_eq!(opened, b"amount=100");
    }

    #[test]
    fn one_content_never_opens_as_another() {
        let sealed = key().seal(Sealed::Payload, ACTION, b"x".to_vec()).unwrap();
        let id = key().id().0;
        assert!(
            key()
                .open(Sealed::Result, ACTION, &id, sealed.clone())
                .is_err()
        );
        assert!(
            key()
                .open(Sealed::Payload, ActionId(6), &id, sealed.clone())
                .is_err()
        );
        let other = WorkKey::new(&[8; KEY_BYTES]);
        assert!(
            other
                .open(Sealed::Payload, ACTION, &id, sealed.clone())
                .is_err()
        );
        for n in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[n] ^= 1;
            assert!(
                key().open(Sealed::Payload, ACTION, &id, changed).is_err(),
                "byte {n}"
            );
            assert!(
                key()
                    .open(Sealed::Payload, ACTION, &id, sealed[..n].to_vec())
                    .is_err()
            );
        }
    }

    #[test]
    fn the_same_content_is_never_sealed_the_same_way() {
        let once = key().seal(Sealed::Payload, ACTION, b"x".to_vec()).unwrap();
        let twice = key().seal(Sealed::Payload, ACTION, b"x".to_vec()).unwrap();
        assert_ne!(once, twice);
    }
}
