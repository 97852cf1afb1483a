//! The provider in the hands of tests: read it, script it, and wait until
//! something has really happened instead of sleeping.
//!
//! A handle is cheap to clone. Its clock is the provider's: microseconds since
//! the start. The lock is held for one step of the model, never over an await.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rategov_core::time::{Moment, Span};
use tokio::sync::watch;
use tokio::time::Instant;

use super::Options;
use crate::provider::config::Config;
use crate::provider::doors::WrittenDoors;
use crate::provider::fault::{Left, ScriptFull, Step, StepError, WrittenStep, steps_of_upstream};
use crate::provider::ledger::Ledger;
use crate::provider::quota::Rule;
use crate::provider::{Provider, Ticket, ledger::Finish};

#[derive(Debug)]
struct Shared {
    provider: Mutex<Provider>,
    start: Instant,
    /// Counts changes of the provider.
    changed: watch::Sender<u64>,
    /// Counts releases of held answers.
    released: watch::Sender<u64>,
    /// Counts changes of the doors.
    doors: watch::Sender<u64>,
}

/// A running provider.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Shared>);

impl Handle {
    pub(super) fn new(options: &Options) -> Handle {
        let config = Config {
            wall_at_start: options.clock.start(),
            ..options.config.clone()
        };
        Handle(Arc::new(Shared {
            provider: Mutex::new(Provider::new(config)),
            start: Instant::now(),
            changed: watch::Sender::new(0),
            released: watch::Sender::new(0),
            doors: watch::Sender::new(0),
        }))
    }

    /// The moment on the provider's clock.
    pub fn now(&self) -> Moment {
        self.moment(Instant::now())
    }

    /// Runs `f` on the provider at its present moment, alone.
    pub fn with<T>(&self, f: impl FnOnce(&mut Provider, Moment) -> T) -> T {
        let result = {
            let mut provider = self.lock();
            // The clock is read under the lock, so that moments never go back.
            f(&mut provider, self.now())
        };
        self.0.changed.send_modify(|n| *n = n.wrapping_add(1));
        result
    }

    /// Reads the provider.
    pub fn read<T>(&self, f: impl FnOnce(&Provider) -> T) -> T {
        f(&self.lock())
    }

    /// A copy of the ledger. Cost: proportional to what it lists.
    pub fn ledger(&self) -> Ledger {
        self.read(|provider| provider.ledger().clone())
    }

    /// Adds steps to the script; after them service is ordinary.
    ///
    /// # Errors
    /// If the script is full; then none is added.
    pub fn push_steps(&self, steps: Vec<Step>) -> Result<(), ScriptFull> {
        self.with(|provider, now| provider.push_steps(now, steps))
    }

    /// Adds the answers of a report's upstream; the last one repeats.
    ///
    /// # Errors
    /// If an answer can't be played, or the script is full; then none is added.
    pub fn push_upstream(&self, answers: Vec<WrittenStep>) -> Result<(), StepError> {
        let steps = steps_of_upstream(answers)?;
        self.push_steps(steps).map_err(|full| StepError {
            cause: full.to_string(),
            hint: "reset the script first".to_owned(),
        })
    }

    /// What of the script has not happened yet; empty once every fault was met.
    pub fn script_left(&self) -> Vec<Left> {
        self.read(Provider::script_left)
    }

    /// Changes what happens to connections, at once.
    pub fn change_doors(&self, written: WrittenDoors) {
        self.with(|provider, now| provider.change_doors(now, written));
        self.0.doors.send_modify(|n| *n = n.wrapping_add(1));
    }

    /// Lets every answer go that is held at this moment.
    pub fn release(&self) {
        self.0.released.send_modify(|n| *n = n.wrapping_add(1));
    }

    /// Replaces the limits; counting starts anew.
    pub fn set_quotas(&self, rules: Vec<Rule>) {
        self.with(|provider, _| provider.set_quotas(rules));
    }

    /// Changes the limits while they are in use: what was counted stays.
    pub fn amend_quotas(&self, rules: Vec<Rule>) {
        self.with(|provider, _| provider.amend_quotas(rules));
    }

    /// Forgets records, ledger, script, doors and used quota.
    pub fn reset(&self) {
        self.with(|provider, _| provider.reset());
        self.0.doors.send_modify(|n| *n = n.wrapping_add(1));
    }

    /// Waits until at least `n` requests have arrived in all.
    pub async fn arrivals(&self, n: u64) {
        self.until(|provider, _| provider.ledger().totals().arrived >= n)
            .await;
    }

    /// Waits until at least `n` effects have happened (of those still listed),
    /// generations included.
    pub async fn effects(&self, n: usize) {
        self.until(|provider, now| provider.ledger().effects_at(now) >= n)
            .await;
    }

    /// Waits until `holds` is true, looking after every change and whenever an
    /// effect that lies ahead comes due.
    pub async fn until(&self, mut holds: impl FnMut(&Provider, Moment) -> bool) {
        let mut changed = self.0.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let next = {
                let provider = self.lock();
                let now = self.now();
                if holds(&provider, now) {
                    return;
                }
                provider.ledger().next_effect_after(now)
            };
            // The sender lives as long as this handle, so it can't be closed.
            tokio::select! {
                _ = changed.changed() => {}
                () = self.sleep_until(next) => {}
            }
        }
    }

    pub(super) fn finish(&self, ticket: Ticket, how: Finish) {
        self.with(|provider, now| provider.finish(now, ticket, how));
    }

    pub(super) fn doors(&self) -> watch::Receiver<u64> {
        self.0.doors.subscribe()
    }

    pub(super) fn released(&self) -> watch::Receiver<u64> {
        self.0.released.subscribe()
    }

    /// Sleeps until a moment on the provider's clock; for ever without one.
    pub(super) async fn sleep_until(&self, at: Option<Moment>) {
        match at {
            Some(at) => tokio::time::sleep_until(self.instant(at)).await,
            None => std::future::pending().await,
        }
    }

    fn moment(&self, at: Instant) -> Moment {
        let since = at.saturating_duration_since(self.0.start).as_micros();
        Moment::START + Span::from_micros(u64::try_from(since).unwrap_or(u64::MAX))
    }

    fn instant(&self, at: Moment) -> Instant {
        let since = Duration::from_micros(at.as_micros());
        // Beyond any timer means later than any test runs.
        let year = Duration::from_secs(365 * 24 * 3_600);
        self.0.start + since.min(year)
    }

    fn lock(&self) -> MutexGuard<'_, Provider> {
        // A panic in a test's closure leaves the model as it was between two steps.
        self.0
            .provider
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
