//! Kept connections: bounded, fresh, and never the cause of a second send.
//!
//! A provider may close an idle connection at any moment, and a request
//! written into that close is lost without a word. Four things keep this rare:
//! the freshest connection is taken first; an idle one is only taken while it
//! is young enough for the kind of call (a write demands [`PoolLimits::write_idle`],
//! because its loss costs a reconciliation); its task must have seen it go
//! idle; and a look at the socket (one system call) shows a close that the
//! task has not noticed yet. What remains is a race that only the network can
//! decide, and then the counters say what left: this file repeats nothing.
//!
//! | bound | at the bound |
//! |---|---|
//! | idle per origin | its oldest idle connection is closed |
//! | idle in all | the oldest idle connection is closed |
//! | open in all | the oldest idle connection is closed; if none is, the dial is refused |
//!
//! Cost: O(log origins) to take or return; O(origins) only at a full bound.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hyper::client::conn::http1::SendRequest;
use rategov_core::action::outcome::NotSent;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::counting::Wire;
use super::destination::Origin;
use super::detail::Detail;
use super::evidence::Verdict;
use super::outgoing::Outgoing;
use super::purpose::Purpose;

/// Bounds of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Longest that a connection stays idle before a read may still use it.
    pub read_idle: Duration,
    /// The same for a write.
    pub write_idle: Duration,
    /// Idle connections of one origin.
    pub idle_per_origin: usize,
    /// Idle connections in all.
    pub idle_max: usize,
    /// Connections in all, busy ones included.
    pub open_max: usize,
}

impl Default for PoolLimits {
    fn default() -> PoolLimits {
        PoolLimits {
            read_idle: Duration::from_secs(30),
            write_idle: Duration::from_secs(2),
            idle_per_origin: 64,
            idle_max: 512,
            open_max: 8_192,
        }
    }
}

/// One connection to a provider, busy or idle. Dropping it closes it.
pub(super) struct Connection {
    pub(super) sender: SendRequest<Outgoing>,
    pub(super) wire: Arc<Wire>,
    origin: Origin,
    /// When it last carried an answer's end, or was dialled.
    used: Instant,
    _task: Task,
    _open: OwnedSemaphorePermit,
}

/// The task that drives a connection; ends with it.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connection {
    /// A new connection whose `driver` moves its bytes.
    pub(super) fn new(
        origin: Origin,
        sender: SendRequest<Outgoing>,
        wire: Arc<Wire>,
        driver: impl Future<Output = ()> + Send + 'static,
        open: OwnedSemaphorePermit,
    ) -> Connection {
        Connection {
            sender,
            wire,
            origin,
            used: Instant::now(),
            _task: Task(tokio::spawn(driver)),
            _open: open,
        }
    }

    fn is_fit(&self) -> bool {
        self.sender.is_ready() && self.wire.is_quiet()
    }
}

/// The kept connections of all origins. Cheap to clone.
#[derive(Clone)]
pub(super) struct Pool(Arc<Shared>);

struct Shared {
    limits: PoolLimits,
    open: Arc<Semaphore>,
    idle: Mutex<Shelves>,
}

/// Idle connections by origin, each shelf oldest first.
#[derive(Default)]
struct Shelves {
    by_origin: BTreeMap<Origin, VecDeque<Connection>>,
    count: usize,
}

impl Pool {
    /// An empty pool and the task that closes what stays idle too long. Must
    /// be called inside a runtime.
    pub(super) fn new(limits: PoolLimits) -> Pool {
        let open = Arc::new(Semaphore::new(limits.open_max.min(Semaphore::MAX_PERMITS)));
        let shared = Arc::new(Shared {
            limits,
            open,
            idle: Mutex::default(),
        });
        // It holds no reference that would keep the pool alive.
        tokio::spawn(sweep(Arc::downgrade(&shared), limits.read_idle));
        Pool(shared)
    }

    /// The freshest fit connection to an origin, if one is young enough.
    pub(super) fn take(&self, origin: &Origin, purpose: Purpose) -> Option<Connection> {
        let young = match purpose {
            Purpose::Read => self.0.limits.read_idle,
            Purpose::Write => self.0.limits.write_idle,
        };
        let now = Instant::now();
        // Closed outside the lock.
        let mut unfit = Vec::new();
        let mut not_yet = VecDeque::new();
        let mut found = None;
        let mut shelves = self.0.lock();
        while let Some(idle) = shelves.pop_freshest(origin) {
            if now.duration_since(idle.used) >= young {
                not_yet.push_front(idle);
                break;
            }
            if idle.is_fit() {
                found = Some(idle);
                break;
            }
            // Its task may not have run since its last answer ended.
            if idle.sender.is_closed() || !idle.wire.is_quiet() {
                unfit.push(idle);
            } else {
                not_yet.push_front(idle);
            }
        }
        for idle in not_yet {
            shelves.push(idle);
        }
        drop(shelves);
        found
    }

    /// Keeps a connection whose last answer was read to its end.
    pub(super) fn put(&self, mut connection: Connection) {
        connection.used = Instant::now();
        self.put_back(connection);
    }

    /// Keeps a connection that was taken and not used: no fresher than it was.
    pub(super) fn put_back(&self, connection: Connection) {
        if connection.sender.is_closed() || connection.wire.is_deaf() {
            return;
        }
        let limits = &self.0.limits;
        let mut shelves = self.0.lock();
        shelves.push(connection);
        let over = shelves.trim(limits.idle_per_origin, limits.idle_max);
        drop(shelves);
        drop(over);
    }

    /// The right to open one more connection.
    pub(super) fn slot(&self) -> Result<OwnedSemaphorePermit, Verdict> {
        for _ in 0..2 {
            if let Ok(permit) = Arc::clone(&self.0.open).try_acquire_owned() {
                return Ok(permit);
            }
            let oldest = self.0.lock().pop_oldest();
            drop(oldest);
        }
        Err(Verdict::NotSent(
            NotSent::Connect,
            Detail::TooManyConnections,
        ))
    }

    /// Idle connections now.
    pub(super) fn idle(&self) -> usize {
        self.0.lock().count
    }

    /// Open connections now, busy ones included.
    pub(super) fn open(&self) -> usize {
        self.0.limits.open_max - self.0.open.available_permits()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Shelves> {
        // No call-back runs under the lock, so a poisoned one is still whole.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelves {
    fn push(&mut self, idle: Connection) {
        let shelf = self.by_origin.entry(idle.origin.clone()).or_default();
        // Nearly always the freshest; what comes back unused may be older.
        let at = shelf
            .iter()
            .rposition(|other| other.used <= idle.used)
            .map_or(0, |n| n + 1);
        shelf.insert(at, idle);
        self.count += 1;
    }

    fn pop_freshest(&mut self, origin: &Origin) -> Option<Connection> {
        self.pop(origin, VecDeque::pop_back)
    }

    fn pop_oldest(&mut self) -> Option<Connection> {
        let oldest = self
            .by_origin
            .iter()
            .min_by_key(|(_, shelf)| shelf.front().map(|i| i.used));
        let origin = oldest?.0.clone();
        self.pop(&origin, VecDeque::pop_front)
    }

    fn pop(
        &mut self,
        origin: &Origin,
        end: impl FnOnce(&mut VecDeque<Connection>) -> Option<Connection>,
    ) -> Option<Connection> {
        let shelf = self.by_origin.get_mut(origin)?;
        let idle = end(shelf)?;
        if shelf.is_empty() {
            self.by_origin.remove(origin);
        }
        self.count -= 1;
        Some(idle)
    }

    /// Takes out what is over the bounds after one push.
    fn trim(&mut self, per_origin: usize, in_all: usize) -> Vec<Connection> {
        let mut over = Vec::new();
        let full: Vec<Origin> = self
            .by_origin
            .iter()
            .filter(|(_, shelf)| shelf.len() > per_origin)
            .map(|(origin, _)| origin.clone())
            .collect();
        for origin in full {
            over.extend(self.pop(&origin, VecDeque::pop_front));
        }
        while self.count > in_all {
            over.extend(self.pop_oldest());
        }
        over
    }

    /// Takes out what became idle before `moment`, or was closed by its peer.
    fn expired(&mut self, moment: Instant) -> Vec<Connection> {
        let mut out = Vec::new();
        self.by_origin.retain(|_, shelf| {
            for idle in std::mem::take(shelf) {
                if idle.used < moment || idle.sender.is_closed() {
                    out.push(idle);
                } else {
                    shelf.push_back(idle);
                }
            }
            !shelf.is_empty()
        });
        self.count -= out.len();
        out
    }
}

/// Closes idle connections of age `idle`, until the pool is gone.
async fn sweep(pool: Weak<Shared>, idle: Duration) {
    let pause = (idle / 2).max(Duration::from_millis(100));
    loop {
        sleep(pause).await;
        let Some(shared) = pool.upgrade() else { return };
        if let Some(moment) = Instant::now().checked_sub(idle) {
            let old = shared.lock().expired(moment);
            drop(old);
        }
    }
}
