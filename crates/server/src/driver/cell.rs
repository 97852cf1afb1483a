//! One account's engine and the task that wakes it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rategov_core::engine::Engine;
use rategov_core::id::Account;
use rategov_core::time::Moment;
use tokio::sync::Notify;

/// One account.
pub struct Cell {
    /// Its name.
    pub account: Account,
    /// Which life of the engine this is; one that is made again has a higher number.
    pub generation: u32,
    pub(super) engine: Mutex<Engine>,
    /// When the engine wants to be woken.
    wake_at: AtomicU64,
    /// Until when the cell's task sleeps. It is woken early only for something
    /// earlier: the earliest timer of a busy engine is disarmed with nearly every
    /// call, and the task finds that out by itself when it wakes.
    sleeps_until: AtomicU64,
    changed: Notify,
    closed: tokio_util::sync::CancellationToken,
}

impl Cell {
    pub(super) fn new(generation: u32, engine: Engine) -> Cell {
        Cell {
            account: engine.account().clone(),
            generation,
            engine: Mutex::new(engine),
            wake_at: AtomicU64::new(Moment::NEVER.as_micros()),
            sleeps_until: AtomicU64::new(Moment::NEVER.as_micros()),
            changed: Notify::new(),
            closed: tokio_util::sync::CancellationToken::new(),
        }
    }

    /// Arms the cell's timer.
    pub(super) fn wake_at(&self, at: Moment) {
        // Both sides write their own value first and read the other's then, in one
        // order for all: one of them sees the other.
        self.wake_at.store(at.as_micros(), Ordering::SeqCst);
        if at.as_micros() < self.sleeps_until.load(Ordering::SeqCst) {
            self.changed.notify_one();
        }
    }

    /// Ends the cell's task; the engine is replaced by another.
    pub(super) fn close(&self) {
        self.closed.cancel();
    }

    /// Whether its engine has given way, or is about to give way, to another.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Waits until the engine has lost a commit and gives way to another.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Waits until the engine's time has come; `false` when the cell is closed.
    pub(super) async fn due(&self, clock: &super::Clock) -> bool {
        loop {
            let at = Moment::from_micros(self.wake_at.load(Ordering::SeqCst));
            if at <= clock.now() {
                return !self.closed.is_cancelled();
            }
            self.sleeps_until.store(at.as_micros(), Ordering::SeqCst);
            if self.wake_at.load(Ordering::SeqCst) < at.as_micros() {
                continue;
            }
            tokio::select! {
                () = self.closed.cancelled() => return false,
                () = self.changed.notified() => {}
                () = clock.sleep_until(at), if at < Moment::NEVER => {}
            }
        }
    }
}
