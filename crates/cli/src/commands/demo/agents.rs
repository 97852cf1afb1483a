//! The agents of the demo: each polite on its own.
//!
//! Interactive agents make a call every 1.5 s whatever becomes of the last one
//! (people don't wait to click). Background agents have a fixed pile of calls
//! and keep four in flight. What a refused call does next is its [`Manners`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::http;

/// Between two calls of an interactive agent.
const INTERACTIVE_EVERY: Duration = Duration::from_millis(1_500);
/// Calls that a background agent keeps in flight.
const IN_FLIGHT: usize = 4;
/// Attempts of a call that retries on its own, as generous SDK settings have it.
const ATTEMPTS_MAX: u32 = 10;
/// First step and cap of the agents' own backoff.
const BACKOFF_BASE: Duration = Duration::from_secs(1);
const BACKOFF_CAP: Duration = Duration::from_secs(60);

/// What an agent does when it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manners {
    /// Exponential backoff with full jitter, without looking at the answer.
    FullJitter,
    /// Waits as long as `Retry-After` says.
    RetryAfter,
    /// Nothing: the governor retries.
    Governed,
}

/// One experiment's cast.
#[derive(Clone, Debug)]
pub(super) struct Cast {
    pub(super) interactive: u32,
    pub(super) background: u32,
    /// Calls of each background agent.
    pub(super) calls: u32,
    pub(super) manners: Manners,
    pub(super) target: SocketAddr,
    /// Path in front of `/items/…`.
    pub(super) prefix: &'static str,
    pub(super) seed: u64,
    /// Nothing goes on after this.
    pub(super) time_max: Duration,
}

/// One finished call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) agent: String,
    pub(super) interactive: bool,
    /// Its path at the provider, unique.
    pub(super) path: String,
    pub(super) started: Instant,
    pub(super) ended: Instant,
    pub(super) succeeded: bool,
}

/// What an experiment brought.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) calls: Vec<Call>,
    /// When the last background call was done, or the time was over.
    pub(super) background_done: Instant,
    /// Background calls that were not done by then.
    pub(super) unfinished: usize,
}

/// How far an experiment is.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) done: AtomicUsize,
}

/// Plays one experiment in real time.
pub(super) async fn play(cast: Cast, progress: Arc<Progress>) -> Played {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let end = Instant::now() + cast.time_max;
    let cast = Arc::new(cast);

    let mut background = JoinSet::new();
    for number in 0..cast.background {
        let (cast, calls, progress) =
            (Arc::clone(&cast), Arc::clone(&calls), Arc::clone(&progress));
        background.spawn(async move {
            let seats = Arc::new(Semaphore::new(IN_FLIGHT));
            let mut pile = JoinSet::new();
            for call in 0..cast.calls {
                let Ok(seat) = Arc::clone(&seats).acquire_owned().await else {
                    return;
                };
                let (cast, calls, progress) =
                    (Arc::clone(&cast), Arc::clone(&calls), Arc::clone(&progress));
                pile.spawn(async move {
                    let _seat = seat;
                    let done = make(&cast, Role::Background(number), call, end).await;
                    progress.done.fetch_add(1, Ordering::Relaxed);
                    calls.lock().await.push(done);
                });
            }
            while pile.join_next().await.is_some() {}
        });
    }

    let mut interactive = JoinSet::new();
    for number in 0..cast.interactive {
        let (cast, calls) = (Arc::clone(&cast), Arc::clone(&calls));
        interactive.spawn(async move {
            // Agents don't start in step.
            let offset = INTERACTIVE_EVERY * number / cast.interactive.max(1);
            let mut tick = tokio::time::interval_at(Instant::now() + offset, INTERACTIVE_EVERY);
            let mut pending = JoinSet::new();
            for call in 0.. {
                tick.tick().await;
                let (cast, calls) = (Arc::clone(&cast), Arc::clone(&calls));
                pending.spawn(async move {
                    let done = make(&cast, Role::Interactive(number), call, end).await;
                    calls.lock().await.push(done);
                });
            }
        });
    }

    let in_time = tokio::time::timeout_at(end, async {
        while background.join_next().await.is_some() {}
    });
    let _ = in_time.await;
    let background_done = Instant::now();
    background.abort_all();
    interactive.abort_all();
    let calls = std::mem::take(&mut *calls.lock().await);
    let made = calls.iter().filter(|call| !call.interactive).count();
    let wanted = (cast.background * cast.calls) as usize;
    Played {
        calls,
        background_done,
        unfinished: wanted.saturating_sub(made),
    }
}

#[derive(Clone, Copy)]
enum Role {
    Interactive(u32),
    Background(u32),
}

/// One call with its agent's manners.
async fn make(cast: &Cast, role: Role, number: u32, end: Instant) -> Call {
    let (agent, interactive, priority) = match role {
        Role::Interactive(agent) => (format!("person-{agent}"), true, "interactive"),
        Role::Background(agent) => (format!("batch-{agent}"), false, "background"),
    };
    let path = format!("/items/{agent}-{number}");
    let started = Instant::now();
    let target = format!("{}{path}", cast.prefix);
    let mut random = Random::new(cast.seed, &path);
    let mut succeeded = false;
    for attempt in 1..=ATTEMPTS_MAX {
        let answer = http::get(cast.target, &target, &agent, priority).await;
        let (retry, hint) = match answer {
            Ok(answer) if answer.status < 400 => {
                succeeded = true;
                break;
            }
            Ok(answer) => (
                answer.status == 429 || answer.status >= 500,
                answer.retry_after,
            ),
            Err(_) => (true, None),
        };
        if !retry || cast.manners == Manners::Governed {
            break;
        }
        let step = BACKOFF_BASE
            .saturating_mul(1 << attempt.min(16))
            .min(BACKOFF_CAP);
        let jitter = step.mul_f64(random.next());
        let wait = match (cast.manners, hint) {
            (Manners::RetryAfter, Some(hint)) => hint,
            _ => jitter,
        };
        if end < Instant::now() + wait {
            break;
        }
        tokio::time::sleep(wait).await;
    }
    Call {
        agent,
        interactive,
        path,
        started,
        ended: Instant::now(),
        succeeded,
    }
}

/// A small generator (SplitMix64), so that a seed gives the same jitter.
struct Random(u64);

impl Random {
    fn new(seed: u64, path: &str) -> Random {
        let hash = path.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Random(seed ^ hash)
    }

    /// A number in [0, 1).
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
