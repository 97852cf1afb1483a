//! Where secrets are, and the moment they are opened.
//!
//! A configuration never holds a secret, only its place: `env:NAME`, `file:PATH`,
//! or `pass-through` for the callers' own. The place is checked with the rest of
//! the configuration; the secret itself is read when the server starts, and a
//! missing one is a mistake with its line like any other. No message of this file
//! shows a value that isn't a place: someone will paste a key here.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rategov_core::id::{Agent, Credential};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use super::mistake::{Collector, Mistake, Mistakes};
use super::settings::{SecretRef, SecretSource, Settings};

/// Largest secret, in bytes.
const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// The shortest token that can't be guessed, in bytes.
const TOKEN_BYTES_GOOD: usize = 16;

/// Reads a place; `None` is the callers' own credential.
///
/// # Errors
/// The cause, and a hint on a line of its own.
pub(crate) fn parse(text: &str) -> Result<Option<SecretSource>, String> {
    match text.split_once(':') {
        None if text == "pass-through" => Ok(None),
        Some(("env", name)) if is_variable(name) => Ok(Some(SecretSource::Env(name.to_owned()))),
        Some(("env", _)) => Err("this is not the name of an environment variable\nhint: write `env:BILLING_API_KEY`".to_owned()),
        Some(("file", path)) if !path.is_empty() => Ok(Some(SecretSource::File(PathBuf::from(path)))),
        Some(("file", _)) => Err("a file needs its path\nhint: write `file:PATH`".to_owned()),
        Some(("vault", _)) => Err("the vault is not available in this version\nhint: use `env:NAME` or `file:PATH`".to_owned()),
        _ => Err("this is no place of a secret, and a secret itself doesn't belong into a configuration\nhint: write `env:NAME`, `file:PATH` or `pass-through`".to_owned()),
    }
}

fn is_variable(name: &str) -> bool {
    let first = name
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    first && name.len() <= 200 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The world outside, as far as secrets come from it.
pub trait Environment {
    /// The value of a variable; `None` if it is unset or not text.
    fn variable(&self, name: &str) -> Option<SecretString>;

    /// The text of a file, at most 64 KiB.
    ///
    /// # Errors
    /// The operating system's, or that it is too large or not text.
    fn file(&self, path: &Path) -> std::io::Result<SecretString>;
}

/// The process's own environment. Relative files are read from `folder`, which is
/// the configuration's.
#[derive(Clone, Debug)]
pub struct ProcessEnvironment {
    /// The configuration's folder.
    pub folder: PathBuf,
}

impl ProcessEnvironment {
    /// The environment of a configuration file; without one, of the current folder.
    pub fn beside(config: Option<&Path>) -> ProcessEnvironment {
        let parent = config
            .and_then(Path::parent)
            .filter(|parent| !parent.as_os_str().is_empty());
        let folder = parent.map_or_else(|| PathBuf::from("."), Path::to_owned);
        ProcessEnvironment { folder }
    }
}

impl Environment for ProcessEnvironment {
    fn variable(&self, name: &str) -> Option<SecretString> {
        std::env::var(name).ok().map(SecretString::from)
    }

    fn file(&self, path: &Path) -> std::io::Result<SecretString> {
        let file = std::fs::File::open(self.folder.join(path))?;
        let mut text = String::new();
        file.take(SECRET_BYTES_MAX + 1).read_to_string(&mut text)?;
        if text.len() as u64 > SECRET_BYTES_MAX {
            return Err(std::io::Error::other("it is larger than 64 KiB"));
        }
        Ok(SecretString::from(text))
    }
}

/// SHA-256 of an agent's token: what is kept of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// The digest of a token as it was presented.
    pub fn of(token: &[u8]) -> TokenDigest {
        TokenDigest(Sha256::digest(token).into())
    }

    /// Compares in a time that says nothing about where two digests differ.
    pub fn same(&self, other: &TokenDigest) -> bool {
        subtle::ConstantTimeEq::ct_eq(&self.0[..], &other.0[..]).into()
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest([redacted])")
    }
}

/// All secrets of a configuration, opened.
#[derive(Debug, Default)]
pub struct Keyring {
    credentials: BTreeMap<Credential, SecretString>,
    agents: BTreeMap<TokenDigest, Agent>,
}

/// What opening the secrets gave.
#[derive(Debug)]
pub struct Opened {
    /// The secrets.
    pub keyring: Keyring,
    /// Worth knowing, not wrong: a token that could be guessed.
    pub notices: Vec<Mistake>,
}

impl Keyring {
    /// Opens every secret that the settings name.
    ///
    /// # Errors
    /// All that are missing, empty, unreadable or shared by two agents, with their lines.
    pub fn open(
        file: &str,
        settings: &Settings,
        environment: &dyn Environment,
    ) -> Result<Opened, Mistakes> {
        let mut keyring = Keyring::default();
        let (mut wrong, mut notices) = (Collector::new(file), Collector::new(file));
        for account in settings.providers.values().flat_map(|it| &it.accounts) {
            for credential in &account.credentials {
                let Some(secret) = read(&credential.source, environment, &mut wrong) else {
                    continue;
                };
                if account.slot.value(secret.expose_secret()).is_err() {
                    wrong.add(credential.source.mark, format!("the value of {} can't travel in a header\nhint: it holds a line break or another control character", place(&credential.source)));
                }
                keyring
                    .credentials
                    .insert(credential.credential.clone(), secret);
            }
        }
        for (agent, settings) in &settings.agents {
            let Some(source) = &settings.token else {
                continue;
            };
            let Some(secret) = read(source, environment, &mut wrong) else {
                continue;
            };
            if secret.expose_secret().len() < TOKEN_BYTES_GOOD {
                notices.add(source.mark, format!("the token of agent `{agent}` is short enough to be guessed\nhint: `openssl rand -hex 32` makes a good one"));
            }
            let digest = TokenDigest::of(secret.expose_secret().as_bytes());
            if let Some(other) = keyring.agents.insert(digest, agent.clone()) {
                wrong.add(source.mark, format!("agents `{other}` and `{agent}` have the same token: nobody could tell them apart\nhint: give each its own"));
            }
        }
        match wrong.finish() {
            wrong if wrong.is_empty() => Ok(Opened {
                keyring,
                notices: notices.finish(),
            }),
            wrong => Err(Mistakes(wrong)),
        }
    }

    /// The secret of a credential.
    pub fn credential(&self, credential: &Credential) -> Option<&SecretString> {
        self.credentials.get(credential)
    }

    /// The agent whose token this is. Looked up by digest, and then compared in
    /// constant time: what an attacker can time is a digest they can't choose.
    pub fn agent(&self, token: &[u8]) -> Option<&Agent> {
        let digest = TokenDigest::of(token);
        let (known, agent) = self.agents.get_key_value(&digest)?;
        known.same(&digest).then_some(agent)
    }
}

fn place(source: &SecretRef) -> String {
    match &source.source {
        SecretSource::Env(name) => format!("`env:{name}`"),
        SecretSource::File(path) => format!(
            "`file:{}`",
            super::units::shown(&path.display().to_string())
        ),
    }
}

fn read(
    source: &SecretRef,
    environment: &dyn Environment,
    wrong: &mut Collector,
) -> Option<SecretString> {
    let secret = match &source.source {
        SecretSource::Env(name) => match environment.variable(name) {
            Some(secret) => secret,
            None => {
                wrong.add(source.mark, format!("the environment variable `{name}` is not set\nhint: set it before `rategov serve`, or use `file:PATH`"));
                return None;
            }
        },
        SecretSource::File(path) => match environment.file(path) {
            Ok(secret) => secret,
            Err(error) => {
                wrong.add(
                    source.mark,
                    format!("{} can't be read: {error}", place(source)),
                );
                return None;
            }
        },
    };
    // Editors and `echo` end a file with a line break that isn't part of the secret.
    let trimmed = SecretString::from(secret.expose_secret().trim_end_matches(['\r', '\n']));
    if trimmed.expose_secret().is_empty() {
        wrong.add(source.mark, format!("{} is empty", place(source)));
        return None;
    }
    Some(trimmed)
}
