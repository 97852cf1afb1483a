//! A world in virtual time around real sockets: the governor as it is served, a
//! fake provider, and callers, all in one thread.
//!
//! The runtime's time is paused, the governor's clock follows it
//! ([`Clock::of_timers`]), and time jumps from timer to timer. Between two jumps
//! the [`Usher`] sees to it that everything that can happen at this moment has
//! happened: nothing is on its way to the journal, no blocking task runs (the
//! runtime itself then refuses to go on), and neither provider nor callers have
//! seen anything new for many turns of the runtime. So a scenario of an hour takes
//! a second, and a machine under load changes nothing that is measured.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rategov_core::time::{Moment, WallTime};
use rategov_server::driver::{Clock, Driver};
use rategov_server::start::{self, Running};
use rategov_sim::fake_provider::{self, Handle, Options};
use rategov_sim::provider::config::Config;
use rategov_sim::provider::ledger::{Arrival, EffectKind};
use secrecy::ExposeSecret;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::caller::{self, Call, Ended, Seen};

/// Turns of the runtime without anything new after which a moment is over.
const QUIET_TURNS: u32 = 24;
/// How long a look at the journal's thread takes while it is behind.
const JOURNAL_GLANCE: Duration = Duration::from_micros(150);
/// When every scenario begins: 2026-01-01T00:00:00Z.
pub(crate) const WALL_AT_START: WallTime = WallTime::from_secs(1_767_225_600);

/// A running world.
pub(crate) struct World {
    /// The provider.
    pub(crate) provider: Handle,
    governor: Running,
    began: Instant,
    /// Counts what callers have seen.
    steps: Arc<AtomicU64>,
    log: Log,
    folder: PathBuf,
}

/// What the governor wrote to its log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// The text so far.
    pub(crate) fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Plays `script` in a world of its own and gives what it gives.
///
/// `configuration` makes the governor's from the provider's address; `provider`
/// is the provider's nature, its wall clock at the start included.
pub(crate) fn play<T, F: Future<Output = T>>(
    provider: Config,
    configuration: impl FnOnce(SocketAddr) -> String,
    script: impl FnOnce(Arc<World>) -> F,
) -> T {
    let usher = Arc::new(Usher::default());
    let door = Arc::clone(&usher);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .on_thread_park(move || door.before_a_park())
        .build()
        .expect("a runtime");
    let log = Log::default();
    let written = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || written.clone())
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    runtime.block_on(async {
        let folder = tempfile::tempdir().expect("a folder for the governor's data");
        let clock = fake_provider::Clock::StartsAt(provider.wall_at_start);
        let options = Options {
            clock,
            control: None,
            ..Options::new(provider)
        };
        let provider = fake_provider::serve(options).await.expect("a provider");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let governor = start::start(start::Options {
            config_text: Some(configuration(provider.addr)),
            data_folder: Some(folder.path().join("data")),
            agents: Some(any),
            operators: Some(any),
            // A boot clock that has run for a while, as on every real machine.
            clock: Some(Clock::of_timers(
                Moment::from_micros(3_600_000_000),
                WALL_AT_START,
            )),
            ..start::Options::default()
        });
        let governor = governor
            .await
            .unwrap_or_else(|cause| panic!("no start: {cause}"));
        let steps = Arc::new(AtomicU64::new(0));
        let (driver, handle) = (governor.gateway().0.driver.clone(), provider.handle.clone());
        let ushering = tokio::spawn(usher.serve(driver, handle, Arc::clone(&steps)));
        let world = World {
            provider: provider.handle.clone(),
            governor,
            began: Instant::now(),
            steps,
            log,
            folder: folder.path().to_owned(),
        };
        let given = script(Arc::new(world)).await;
        ushering.abort();
        provider.shutdown().await;
        given
    })
}

/// Keeps time from going on before a moment is over.
///
/// The runtime asks before it parks, which is when time jumps to the next timer.
/// It jumps once each time that the usher has found everything at rest; then the
/// usher is woken before the next jump, and looks again.
#[derive(Debug, Default)]
struct Usher {
    rest: Mutex<Option<Rest>>,
    look_again: Notify,
}

/// Everything was found at rest.
#[derive(Debug)]
struct Rest {
    /// At this moment.
    since: Instant,
    /// How often the runtime has parked since.
    parks: u32,
}

/// A park that follows a wake-up does not jump (that of the usher itself is the
/// last one), so the second park is the one that does.
const PARKS_TO_JUMP: u32 = 2;

impl Usher {
    fn before_a_park(&self) {
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = rest.as_mut() else { return };
        if known.since < Instant::now() || known.parks >= PARKS_TO_JUMP {
            *rest = None;
            self.look_again.notify_one();
        } else {
            known.parks += 1;
        }
    }

    fn is_at_rest(&self) {
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        *rest = Some(Rest {
            since: Instant::now(),
            parks: 0,
        });
    }

    async fn serve(self: Arc<Usher>, driver: Driver, provider: Handle, steps: Arc<AtomicU64>) {
        let seen = || {
            let (behind, handed_over) = driver.journal_behind();
            let (arrived, open) =
                provider.read(|it| (it.ledger().totals().arrived, it.in_flight()));
            (
                behind,
                [handed_over, arrived, open, steps.load(Ordering::Acquire)],
            )
        };
        loop {
            let (mut quiet, mut before) = (0, seen().1);
            while quiet < QUIET_TURNS {
                tokio::task::yield_now().await;
                let (behind, now) = seen();
                if behind > 0 {
                    // The journal's thread needs the processor, and time must not pass.
                    let glance = tokio::task::spawn_blocking(|| std::thread::sleep(JOURNAL_GLANCE));
                    let _ = glance.await;
                }
                quiet = if behind > 0 || now != before {
                    0
                } else {
                    quiet + 1
                };
                before = now;
            }
            self.is_at_rest();
            self.look_again.notified().await;
        }
    }
}

impl World {
    /// Milliseconds since the start of the scenario.
    pub(crate) fn now_ms(&self) -> f64 {
        self.began.elapsed().as_secs_f64() * 1_000.0
    }

    /// Waits until so many milliseconds have passed since the start.
    pub(crate) async fn at(&self, ms: u64) {
        tokio::time::sleep_until(self.instant(ms)).await;
    }

    /// The moment so many milliseconds after the start.
    pub(crate) fn instant(&self, ms: u64) -> Instant {
        self.began + Duration::from_millis(ms)
    }

    /// A call to the agents' listener, by client `client` as its call `index`.
    pub(crate) async fn call(&self, who: (usize, u64), call: Call) -> Seen {
        caller::make(
            self.governor.agents,
            call,
            who,
            self.began,
            Arc::clone(&self.steps),
        )
        .await
    }

    /// A call to the operators' listener.
    pub(crate) async fn operator(&self, method: &str, path: &str, body: Value) -> Seen {
        let token = self.governor.token.secret().expose_secret();
        let bytes = if body.is_null() {
            Bytes::new()
        } else {
            Bytes::from(body.to_string())
        };
        let call = Call {
            method: method.to_owned(),
            target: path.to_owned(),
            headers: vec![("authorization".to_owned(), format!("Bearer {token}"))],
            body: bytes,
            chunked: false,
            leaves_at: None,
        };
        let who = (usize::MAX, 0);
        caller::make(
            self.governor.operators,
            call,
            who,
            self.began,
            Arc::clone(&self.steps),
        )
        .await
    }

    /// The list `path` of the operators' API.
    ///
    /// # Panics
    /// If it isn't answered with 200.
    pub(crate) async fn look(&self, path: &str) -> Value {
        let seen = self
            .operator("GET", &format!("/api/v1/{path}"), Value::Null)
            .await;
        assert!(
            seen.status == 200 && seen.ended == Ended::Whole,
            "{path}: {}",
            seen.shown()
        );
        seen.json()
    }

    /// What arrived at the provider, with milliseconds since the start.
    pub(crate) fn arrivals(&self) -> Vec<(f64, Arrival)> {
        let ahead = self.provider.now();
        let now = self.now_ms();
        let ledger = self.provider.ledger();
        let ms = |at: Moment| now - ahead.since(at).as_secs_f64() * 1_000.0;
        ledger
            .arrivals()
            .map(|it| (ms(it.at), it.clone()))
            .collect()
    }

    /// Effects of writes that really happened.
    pub(crate) fn effects(&self) -> usize {
        let ledger = self.provider.ledger();
        ledger
            .effects()
            .filter(|effect| effect.kind != EffectKind::Generated)
            .count()
    }

    /// The bytes of every file in the data folder.
    pub(crate) fn files(&self) -> Vec<Vec<u8>> {
        let mut folders = vec![self.folder.clone()];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.path() {
                    path if path.is_dir() => folders.push(path),
                    path => files.extend(std::fs::read(path).ok()),
                }
            }
        }
        files
    }

    /// The governor's log so far.
    pub(crate) fn log(&self) -> String {
        self.log.text()
    }
}
