//! Sends one request to a provider, once, and says what is proved.
//!
//! ```text
//! connect ──────────────► Line ── send ──────────────► Sent
//!   kept or dialled        │        first byte ► hook    ├ NotSent  no byte left
//!   no quota taken yet     │                             ├ Lost     bytes left, no head came
//!                          └ Stopper                     └ Head     an answer; its body has its own end
//! ```
//!
//! The two steps are apart because a dial and a TLS handshake take time but no
//! quota: the caller's `on_first_byte` runs just before the first byte may be
//! written, on the connection's own task, and the quota's window starts there.
//! If it never ran, nothing was written.
//!
//! One call of [`Line::send`] writes the request at most once. A request that
//! hyper hands back unserialised (a kept connection died first) is returned
//! inside [`Sent::NotSent`], whole, and not sent again here: the engine counts
//! and decides. hyper's connection interface follows no redirect, decodes no
//! body, and adds no field to a head whose framing is set.
//!
//! Time-outs: [`Timeouts::connect`] covers name, TCP and TLS together;
//! [`Timeouts::response`] runs from the last byte that was written, so a long
//! upload that moves is not cut; [`Timeouts::idle`] runs between two frames of
//! the answer's body. There is none over all.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rategov_core::action::outcome::{Evidence, Lost, NotSent};

use super::answer::Answer;
use super::destination::Destination;
use super::detail::Detail;
use super::dial::dial;
use super::evidence::Verdict;
pub use super::line::{Line, Provenance, Stopper};
use super::outgoing::Outgoing;
use super::pool::{Connection, Pool, PoolLimits};
use super::purpose::Purpose;
use super::tls::{Tls, TlsError, TlsOptions};

/// Most fields in an answer's head. The HTTP library's own bound is 100, which
/// a provider behind two networks of proxies can exceed.
const ANSWER_FIELDS_MAX: usize = 256;

/// How long each step may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Name, TCP and TLS together.
    pub connect: Duration,
    /// From the last byte written to the answer's head.
    pub response: Duration,
    /// Between two frames of the answer's body.
    pub idle: Duration,
}

impl Default for Timeouts {
    /// The official SDKs wait ten minutes; the governor is not stricter.
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(10),
            response: Duration::from_secs(600),
            idle: Duration::from_secs(600),
        }
    }
}

/// The way to all providers.
pub struct Upstream {
    pool: Pool,
    tls: Tls,
}

/// What came of a send.
#[derive(Debug)]
pub enum Sent {
    /// Certainly no byte left.
    NotSent {
        /// Why.
        why: NotSent,
        /// For people and records.
        detail: Detail,
        /// The request, if it was never begun: a body that streams is still whole.
        request: Option<Box<Request<Outgoing>>>,
    },
    /// Bytes left, and no complete head came back.
    Lost {
        /// Why.
        why: Lost,
        /// For people and records.
        detail: Detail,
        /// Bytes of the request, head included, that were handed to the connection.
        bytes_written: u64,
    },
    /// The provider answers.
    Head(Box<Answer>),
}

impl Upstream {
    /// Must be called inside a runtime.
    ///
    /// # Errors
    /// The extra authorities can't be read.
    pub fn new(limits: PoolLimits, tls: &TlsOptions) -> Result<Upstream, TlsError> {
        Ok(Upstream {
            pool: Pool::new(limits),
            tls: Tls::new(tls)?,
        })
    }

    /// A kept connection that is fresh enough for `purpose`, or a new one.
    /// Dropping the future sends nothing.
    ///
    /// # Errors
    /// Always [`Verdict::NotSent`].
    pub async fn connect(
        &self,
        destination: &Destination,
        purpose: Purpose,
        timeouts: &Timeouts,
    ) -> Result<Line, Verdict> {
        let (connection, provenance) = match self.pool.take(destination.origin(), purpose) {
            Some(kept) => (kept, Provenance::Kept),
            None => (self.open(destination, timeouts).await?, Provenance::Dialled),
        };
        Ok(Line::new(connection, self.pool.clone(), provenance))
    }

    /// Both steps in one, for a call that nobody stops from outside. Dropping
    /// the future stops the request, but what it had done is then not told.
    pub async fn send(
        &self,
        destination: &Destination,
        purpose: Purpose,
        request: Request<Outgoing>,
        on_first_byte: impl FnOnce() + Send + 'static,
        timeouts: &Timeouts,
    ) -> Sent {
        match self.connect(destination, purpose, timeouts).await {
            Ok(line) => line.send(request, on_first_byte, timeouts).await,
            Err(verdict) => Sent::of(verdict, 0, Some(Box::new(request))),
        }
    }

    /// Idle connections now.
    pub fn idle_connections(&self) -> usize {
        self.pool.idle()
    }

    /// Open connections now, busy ones included.
    pub fn open_connections(&self) -> usize {
        self.pool.open()
    }

    async fn open(
        &self,
        destination: &Destination,
        timeouts: &Timeouts,
    ) -> Result<Connection, Verdict> {
        let slot = self.pool.slot()?;
        let (stream, wire) = dial(destination, &self.tls, timeouts.connect).await?;
        let (sender, driver) = http1::Builder::new()
            .preserve_header_case(true)
            .max_headers(ANSWER_FIELDS_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|_| Verdict::NotSent(NotSent::ConnectionClosed, Detail::ClosedBeforeWrite))?;
        let driven = Arc::clone(&wire);
        let driver = async move {
            // Its errors reach the request; an idle connection's end is no event.
            let _ = driver.await;
            driven.close();
        };
        Ok(Connection::new(
            destination.origin().clone(),
            sender,
            wire,
            driver,
            slot,
        ))
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("idle", &self.pool.idle())
            .finish_non_exhaustive()
    }
}

impl Sent {
    pub(super) fn of(
        verdict: Verdict,
        written: u64,
        request: Option<Box<Request<Outgoing>>>,
    ) -> Sent {
        match verdict {
            Verdict::NotSent(why, detail) => Sent::NotSent {
                why,
                detail,
                request,
            },
            Verdict::Lost(why, detail) => Sent::Lost {
                why,
                detail,
                bytes_written: written,
            },
        }
    }

    /// The core's form of a failure; `None` for an answer, whose evidence needs
    /// its facts (`evidence::answered`).
    pub fn failure(&self) -> Option<Evidence> {
        match self {
            Sent::NotSent { why, .. } => Some(Evidence::NotSent(*why)),
            Sent::Lost { why, .. } => Some(Evidence::Lost(*why)),
            Sent::Head(_) => None,
        }
    }
}
