//! The operator's token of this installation.
//!
//! Made at the first start: 32 random bytes in base64url, in the data folder,
//! readable by its owner only. The command line reads it there; `serve` shows it
//! once, in the login link.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

use super::run_tokens::random_token;
use crate::config::secret::TokenDigest;

/// The token's file in the data folder.
pub const TOKEN_FILE: &str = "operator-token";

/// The operator's token of this installation.
#[derive(Debug)]
pub struct OperatorToken {
    token: SecretString,
    digest: TokenDigest,
    path: PathBuf,
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum OperatorTokenError {
    /// The file can't be read or made.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's word.
        source: io::Error,
    },
    /// Others can read it.
    #[error(
        "{0}: others can read the operator's token\n  hint: `chmod 600` it; if it was there for long, delete it: a new one is made at the next start"
    )]
    Exposed(PathBuf),
    /// It isn't what this program wrote.
    #[error(
        "{0}: this is not an operator's token\n  hint: delete it; a new one is made at the next start"
    )]
    Malformed(PathBuf),
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes for the operator's token")]
    NoRandomness,
}

impl OperatorToken {
    /// Reads the token of a data folder, or makes it. Two processes that start at
    /// once get the same one: the file appears whole, and only once.
    ///
    /// # Errors
    /// See [`OperatorTokenError`].
    pub fn open_or_create(folder: &Path) -> Result<OperatorToken, OperatorTokenError> {
        let path = folder.join(TOKEN_FILE);
        let io_error = |source| OperatorTokenError::Io {
            path: path.clone(),
            source,
        };
        if !path.try_exists().map_err(io_error)? {
            let token = random_token().ok_or(OperatorTokenError::NoRandomness)?;
            match create(&path, &token) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => other.map_err(io_error)?,
            }
        }
        OperatorToken::open(folder)
    }

    /// Reads the token of a data folder, as the command line does.
    ///
    /// # Errors
    /// See [`OperatorTokenError`].
    pub fn open(folder: &Path) -> Result<OperatorToken, OperatorTokenError> {
        let path = folder.join(TOKEN_FILE);
        let io_error = |source| OperatorTokenError::Io {
            path: path.clone(),
            source,
        };
        let file = fs::File::open(&path).map_err(io_error)?;
        if is_exposed(&file.metadata().map_err(io_error)?) {
            return Err(OperatorTokenError::Exposed(path));
        }
        let mut text = String::new();
        file.take(256).read_to_string(&mut text).map_err(io_error)?;
        let token = SecretString::from(text.trim_end());
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if token.expose_secret().len() != 43 || !token.expose_secret().bytes().all(plain) {
            return Err(OperatorTokenError::Malformed(path));
        }
        let digest = TokenDigest::of(token.expose_secret().as_bytes());
        Ok(OperatorToken {
            token,
            digest,
            path,
        })
    }

    /// The token, for the login link and for the command line.
    pub fn secret(&self) -> &SecretString {
        &self.token
    }

    /// Whether this is the token; compared by digest, in constant time.
    pub(super) fn is(&self, presented: &[u8]) -> bool {
        self.digest.same(&TokenDigest::of(presented))
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Writes the token beside its place and links it there, which fails if one is there.
fn create(path: &Path, token: &SecretString) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}", std::process::id()));
    let unfinished = PathBuf::from(unfinished);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&unfinished)?;
    let written = file
        .write_all(format!("{}\n", token.expose_secret()).as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::hard_link(&unfinished, path));
    fs::remove_file(&unfinished)?;
    written
}

#[cfg(unix)]
fn is_exposed(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o077 != 0
}

#[cfg(not(unix))]
fn is_exposed(_: &fs::Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_made_once_and_readable_by_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let made = OperatorToken::open_or_create(folder.path()).unwrap();
        let again = OperatorToken::open_or_create(folder.path()).unwrap();
        assert_eq!(
            made.secret().expose_secret(),
            again.secret().expose_secret()
        );
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no unfinished file is left"
        );
        assert!(!format!("{made:?}").contains(made.secret().expose_secret()));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |mode| fs::set_permissions(made.path(), fs::Permissions::from_mode(mode));
            assert_eq!(
                fs::metadata(made.path()).unwrap().permissions().mode() & 0o777,
                0o600
            );
            mode(0o644).unwrap();
            let exposed = OperatorToken::open_or_create(folder.path());
            assert!(
                matches!(exposed, Err(OperatorTokenError::Exposed(_))),
                "{exposed:?}"
            );
            mode(0o600).unwrap();
        }
        fs::write(made.path(), "short\n").unwrap();
        let malformed = OperatorToken::open_or_create(folder.path());
        assert!(
            matches!(malformed, Err(OperatorTokenError::Malformed(_))),
            "{malformed:?}"
        );
    }
}
