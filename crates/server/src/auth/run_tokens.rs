//! Run tokens: who a program started by `rategov exec` is.
//!
//! `exec` asks the operators' API for a token and puts it into the base URLs of
//! the program it starts, `/run/{token}/{provider}/…`. Agent, task and priority
//! follow from the token, so that programs need to know nothing of the governor.
//! The registry keeps the token's digest only; a run ends when its program does.
//! Runs don't survive a restart: the programs they were made for talk to a
//! governor that is gone.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rategov_core::id::{Agent, Task};
use rategov_core::word::Priority;
use secrecy::SecretString;
use zeroize::Zeroizing;

use crate::config::secret::TokenDigest;

/// Most runs at a time.
pub const RUNS_MAX: usize = 10_000;

/// What a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its name in records and answers; says nothing about the token.
    pub id: RunId,
    /// Who calls.
    pub agent: Agent,
    /// On whose behalf; ends with the run.
    pub task: Option<Task>,
    /// The rank it gets, and can't exceed.
    pub priority: Option<Priority>,
}

/// What a run is asked to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRequest {
    /// Who calls.
    pub agent: Agent,
    /// On whose behalf.
    pub task: Option<Task>,
    /// The rank it should get.
    pub priority: Option<Priority>,
}

/// Names a run: a number that counts up while the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunId(pub u64);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run-{}", self.0)
    }
}

/// Why no run was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunRefusal {
    /// There are [`RUNS_MAX`] already.
    #[error("ten thousand programs are running already")]
    Full,
    /// Agents are configured, and this is none of them.
    #[error("there is no agent `{0}`")]
    UnknownAgent(Agent),
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes for a token")]
    NoRandomness,
}

/// All runs.
#[derive(Debug, Default)]
pub struct RunTokens {
    runs: Mutex<Runs>,
}

#[derive(Debug, Default)]
struct Runs {
    by_token: BTreeMap<TokenDigest, Run>,
    last: u64,
}

impl RunTokens {
    /// Makes a run and its token, which is given out once and can't be read again.
    ///
    /// # Errors
    /// If there are too many, or no randomness.
    pub fn start(&self, request: RunRequest) -> Result<(Run, SecretString), RunRefusal> {
        let token = random_token().ok_or(RunRefusal::NoRandomness)?;
        let digest = TokenDigest::of(secrecy::ExposeSecret::expose_secret(&token).as_bytes());
        let mut runs = self.lock();
        if runs.by_token.len() >= RUNS_MAX {
            return Err(RunRefusal::Full);
        }
        runs.last += 1;
        let RunRequest {
            agent,
            task,
            priority,
        } = request;
        let run = Run {
            id: RunId(runs.last),
            agent,
            task,
            priority,
        };
        runs.by_token.insert(digest, run.clone());
        Ok((run, token))
    }

    /// The run of a token. Cost: one hash and a look-up by digest.
    pub fn find(&self, token: &str) -> Option<Run> {
        let digest = TokenDigest::of(token.as_bytes());
        let runs = self.lock();
        let (known, run) = runs.by_token.get_key_value(&digest)?;
        known.same(&digest).then(|| run.clone())
    }

    /// Ends a run; its token is worth nothing afterwards. `None` if it has ended already.
    pub fn end(&self, id: RunId) -> Option<Run> {
        let mut runs = self.lock();
        let digest = *runs.by_token.iter().find(|(_, run)| run.id == id)?.0;
        runs.by_token.remove(&digest)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lock().by_token.len()
    }

    /// A panic elsewhere can't leave the map half changed: each change is one call.
    fn lock(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// 32 random bytes in base64url: 43 characters that need no encoding in a path.
pub(super) fn random_token() -> Option<SecretString> {
    let mut bytes = Zeroizing::new([0_u8; 32]);
    getrandom::fill(bytes.as_mut()).ok()?;
    Some(SecretString::from(URL_SAFE_NO_PAD.encode(bytes.as_ref())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    fn request() -> RunRequest {
        RunRequest {
            agent: Agent::new("sync-bot").unwrap(),
            task: Task::new("sync-482").ok(),
            priority: Some(Priority::Background),
        }
    }

    #[test]
    fn a_token_is_good_from_start_to_end() {
        let runs = RunTokens::default();
        let (run, token) = runs.start(request()).unwrap();
        assert_eq!(token.expose_secret().len(), 43);
        assert_eq!(runs.find(token.expose_secret()), Some(run.clone()));
        assert_eq!(runs.find("guess"), None);
        assert_eq!(runs.end(run.id), Some(run.clone()));
        assert_eq!(runs.end(run.id), None);
        assert_eq!(runs.find(token.expose_secret()), None);
    }

    #[test]
    fn no_two_tokens_are_the_same_and_none_is_shown() {
        let runs = RunTokens::default();
        let (first, one) = runs.start(request()).unwrap();
        let (second, two) = runs.start(request()).unwrap();
        assert_ne!(first.id, second.id);
        assert_ne!(one.expose_secret(), two.expose_secret());
        let shown = format!("{runs:?} {first:?} {one:?}");
        assert!(!shown.contains(one.expose_secret()), "{shown}");
        assert!(shown.contains("redacted"), "{shown}");
    }

    #[test]
    fn the_registry_is_bounded() {
        let runs = RunTokens::default();
        for _ in 0..RUNS_MAX {
            runs.start(request()).unwrap();
        }
        assert_eq!(runs.start(request()).unwrap_err(), RunRefusal::Full);
        runs.end(RunId(1)).unwrap();
        assert!(runs.start(request()).is_ok());
    }
}
