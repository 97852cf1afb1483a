//! Operators: the token of this installation, and requests that really come from them.
//!
//! The token is made at the first start: 32 random bytes in base64url, in the data
//! folder, readable by its owner only. It decides together with `Host` and
//! `Origin`: the listener is on loopback, where every program of this machine and,
//! through DNS rebinding, every web page can knock. An agent must not approve
//! itself (R-VAULT-4).

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use http::{HeaderMap, header};
use rategov_core::id::Operator;
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
    #[error("{0}: others can read the operator's token\n  hint: `chmod 600` it; if it was there for long, delete it: a new one is made at the next start")]
    Exposed(PathBuf),
    /// It isn't what this program wrote.
    #[error("{0}: this is not an operator's token\n  hint: delete it; a new one is made at the next start")]
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
        let io_error = |source| OperatorTokenError::Io { path: path.clone(), source };
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
        let io_error = |source| OperatorTokenError::Io { path: path.clone(), source };
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
        Ok(OperatorToken { token, digest, path })
    }

    /// The token, for the login link and for the command line.
    pub fn secret(&self) -> &SecretString {
        &self.token
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

/// An operator, proved. What needs an operator's authority takes this value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorCaller {
    operator: Operator,
}

impl OperatorCaller {
    /// Who it is, for the journal.
    pub fn operator(&self) -> &Operator {
        &self.operator
    }
}

/// Why a request isn't an operator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperatorRefusal {
    /// `Host` names another machine: perhaps a page that rebinds DNS.
    #[error("the request is for another host")]
    Host,
    /// `Origin` is another site's.
    #[error("the request comes from another site")]
    Origin,
    /// There is no token.
    #[error("an operator's token is needed")]
    TokenMissing,
    /// It isn't the token.
    #[error("this is not the operator's token")]
    TokenWrong,
}

impl OperatorRefusal {
    /// The status of the answer.
    pub const fn status(self) -> u16 {
        match self {
            OperatorRefusal::Host => 421,
            OperatorRefusal::Origin => 403,
            OperatorRefusal::TokenMissing | OperatorRefusal::TokenWrong => 401,
        }
    }

    /// What to do about it.
    pub const fn hint(self) -> &'static str {
        match self {
            OperatorRefusal::Host => "add the name to `listen.operator_hosts`",
            OperatorRefusal::Origin => "open the dashboard under its own address",
            OperatorRefusal::TokenMissing | OperatorRefusal::TokenWrong => {
                "send `Authorization: Bearer` with the content of `operator-token` in the data folder"
            }
        }
    }
}

/// The names under which operators may reach their listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorDoor {
    hosts: BTreeSet<String>,
}

impl OperatorDoor {
    /// The door of a listener: its own address, the names of this machine on
    /// loopback, and the configured names with and without the port.
    pub fn new(listener: SocketAddr, configured: &BTreeSet<String>) -> OperatorDoor {
        let port = listener.port();
        let mut hosts: BTreeSet<String> = BTreeSet::from([listener.to_string()]);
        for name in ["localhost", "127.0.0.1", "[::1]"] {
            hosts.insert(format!("{name}:{port}"));
        }
        for name in configured {
            hosts.extend([name.clone(), format!("{name}:{port}")]);
        }
        OperatorDoor { hosts }
    }

    /// Proves an operator: `Host`, `Origin` and token, in this order.
    ///
    /// # Errors
    /// See [`OperatorRefusal`].
    pub fn identify(
        &self,
        headers: &HeaderMap,
        token: &OperatorToken,
    ) -> Result<OperatorCaller, OperatorRefusal> {
        self.check(headers)?;
        let text = headers.get(header::AUTHORIZATION).ok_or(OperatorRefusal::TokenMissing)?;
        let presented = super::bearer(text.as_bytes()).ok_or(OperatorRefusal::TokenMissing)?;
        if !token.digest.same(&TokenDigest::of(presented)) {
            return Err(OperatorRefusal::TokenWrong);
        }
        let operator = Operator::new("operator").expect("eight letters are a name");
        Ok(OperatorCaller { operator })
    }

    /// Whether a request really is for this listener, and from no other site. Also
    /// for what needs no token.
    ///
    /// # Errors
    /// [`OperatorRefusal::Host`] or [`OperatorRefusal::Origin`].
    pub fn check(&self, headers: &HeaderMap) -> Result<(), OperatorRefusal> {
        let one = |name: header::HeaderName| {
            let mut values = headers.get_all(name).iter();
            match (values.next(), values.next()) {
                (None, _) => Ok(None),
                (Some(value), None) => value.to_str().map(Some).map_err(drop),
                (Some(_), Some(_)) => Err(()),
            }
        };
        let host = one(header::HOST).map_err(|()| OperatorRefusal::Host)?;
        if !host.is_some_and(|host| self.hosts.contains(&host.to_ascii_lowercase())) {
            return Err(OperatorRefusal::Host);
        }
        if let Some(origin) = one(header::ORIGIN).map_err(|()| OperatorRefusal::Origin)? {
            let origin = origin.to_ascii_lowercase();
            let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            if !host.is_some_and(|host| self.hosts.contains(host)) {
                return Err(OperatorRefusal::Origin);
            }
        }
        match headers.get("sec-fetch-site").map(|value| value.as_bytes()) {
            None | Some(b"same-origin" | b"none") => Ok(()),
            Some(_) => Err(OperatorRefusal::Origin),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door() -> OperatorDoor {
        let configured = BTreeSet::from(["governor.example.com".to_owned()]);
        OperatorDoor::new("127.0.0.1:7879".parse().unwrap(), &configured)
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[track_caller]
    fn check(pairs: &[(&'static str, &str)], expected: Result<(), OperatorRefusal>) {
        assert_eq!(door().check(&headers(pairs)), expected, "{pairs:?}");
    }

    #[test]
    fn only_a_request_for_this_host_and_from_no_other_site_is_heard() {
        let (host, other) = (("host", "127.0.0.1:7879"), ("host", "evil.example:7879"));
        check(&[host], Ok(()));
        check(&[("host", "LOCALHOST:7879")], Ok(()));
        check(&[("host", "governor.example.com")], Ok(()));
        check(&[], Err(OperatorRefusal::Host));
        check(&[other], Err(OperatorRefusal::Host));
        check(&[("host", "127.0.0.1:7878")], Err(OperatorRefusal::Host));
        check(&[("host", "127.0.0.1")], Err(OperatorRefusal::Host));
        check(&[host, other], Err(OperatorRefusal::Host));
        check(&[host, ("origin", "http://127.0.0.1:7879")], Ok(()));
        check(&[host, ("origin", "null")], Err(OperatorRefusal::Origin));
        check(&[host, ("origin", "http://evil.example")], Err(OperatorRefusal::Origin));
        check(&[host, ("origin", "http://127.0.0.1:7878")], Err(OperatorRefusal::Origin));
        check(&[host, ("sec-fetch-site", "same-origin")], Ok(()));
        check(&[host, ("sec-fetch-site", "cross-site")], Err(OperatorRefusal::Origin));
        check(&[host, ("sec-fetch-site", "same-site")], Err(OperatorRefusal::Origin));
    }

    #[test]
    fn the_token_is_made_once_and_readable_by_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let made = OperatorToken::open_or_create(folder.path()).unwrap();
        let again = OperatorToken::open_or_create(folder.path()).unwrap();
        assert_eq!(made.secret().expose_secret(), again.secret().expose_secret());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no unfinished file is left");
        assert!(!format!("{made:?}").contains(made.secret().expose_secret()));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |mode| fs::set_permissions(made.path(), fs::Permissions::from_mode(mode));
            assert_eq!(fs::metadata(made.path()).unwrap().permissions().mode() & 0o777, 0o600);
            mode(0o644).unwrap();
            let exposed = OperatorToken::open_or_create(folder.path());
            assert!(matches!(exposed, Err(OperatorTokenError::Exposed(_))), "{exposed:?}");
            mode(0o600).unwrap();
        }
        fs::write(made.path(), "short\n").unwrap();
        let malformed = OperatorToken::open_or_create(folder.path());
        assert!(matches!(malformed, Err(OperatorTokenError::Malformed(_))), "{malformed:?}");
    }

    #[test]
    fn only_the_token_proves_an_operator() {
        let folder = tempfile::tempdir().unwrap();
        let token = OperatorToken::open_or_create(folder.path()).unwrap();
        let identify = |value: &str| {
            let pairs = [("host", "localhost:7879"), ("authorization", value)];
            door().identify(&headers(&pairs), &token).map(|caller| caller.operator().to_string())
        };
        let secret = token.secret().expose_secret();
        assert_eq!(identify(&format!("Bearer {secret}")), Ok("operator".to_owned()));
        assert_eq!(identify(&format!("bearer  {secret}")), Ok("operator".to_owned()));
        assert_eq!(identify(&format!("Bearer {secret}x")), Err(OperatorRefusal::TokenWrong));
        assert_eq!(identify(secret), Err(OperatorRefusal::TokenMissing));
        assert_eq!(identify("Bearer "), Err(OperatorRefusal::TokenMissing));
        let without = headers(&[("host", "localhost:7879")]);
        assert_eq!(door().identify(&without, &token), Err(OperatorRefusal::TokenMissing));
    }
}
