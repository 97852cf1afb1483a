//! One connection for one request: the write, the wait for the head, the stop.
//!
//! A [`Line`] is taken with [`super::upstream::Upstream::connect`]. Unused, it
//! goes back to the pool; used, it ends as an answer, or its wire is shut
//! before the verdict is formed, so that a verdict can't be overtaken by a
//! late write. The same shut comes from a [`Stopper`] and from dropping the
//! future of [`Line::send`].

use std::fmt;
use std::sync::Arc;

use http::{Request, StatusCode};
use rategov_core::action::outcome::Lost;
use tokio::time::{Instant, timeout_at};

use super::answer::{Answer, Reuse};
use super::counting::{Left, Mark, Traffic, Wire};
use super::detail::Detail;
use super::evidence::{self, Upload, Verdict};
use super::outgoing::Outgoing;
use super::pool::{Connection, Pool};
use super::upstream::{Sent, Timeouts};

/// A connection, ready for one request. Dropped unused, it is kept for the next.
pub struct Line {
    connection: Option<Connection>,
    pool: Pool,
    mark: Mark,
    provenance: Provenance,
}

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Connected for this request.
    Dialled,
    /// Kept from an earlier one.
    Kept,
}

/// Stops a request on its way, from anywhere.
#[derive(Clone)]
pub struct Stopper {
    wire: Arc<Wire>,
    mark: Mark,
}

impl Line {
    pub(super) fn new(connection: Connection, pool: Pool, provenance: Provenance) -> Line {
        // The hook is put in place by `send`; until then nothing can be written.
        let mark = connection.wire.mark();
        Line {
            connection: Some(connection),
            pool,
            mark,
            provenance,
        }
    }

    /// Whether the connection was dialled for this request.
    pub fn provenance(&self) -> Provenance {
        self.provenance
    }

    /// A handle that stops the request, also while [`Line::send`] runs elsewhere.
    pub fn stopper(&self) -> Stopper {
        let connection = self
            .connection
            .as_ref()
            .expect("a line has its connection until `send`");
        Stopper {
            wire: Arc::clone(&connection.wire),
            mark: self.mark,
        }
    }

    /// Writes the request and waits for the answer's head. `request` comes
    /// from [`super::headers::for_provider`].
    ///
    /// `on_first_byte` runs at most once, before the first write, on another
    /// task. Dropping the future shuts the wire before it returns: what
    /// [`Line::stopper`] then says stays true.
    pub async fn send(
        mut self,
        request: Request<Outgoing>,
        on_first_byte: impl FnOnce() + Send + 'static,
        timeouts: &Timeouts,
    ) -> Sent {
        let connection = self
            .connection
            .take()
            .expect("a line has its connection until `send`");
        let mut flight = InFlight {
            connection: Some(connection),
            mark: self.mark,
        };
        let method = request.method().clone();
        let uploaded = request.body().uploaded();
        let connection = flight.connection();
        connection.wire.arm(Box::new(on_first_byte));
        let wire = Arc::clone(&connection.wire);
        let mut answer = std::pin::pin!(connection.sender.try_send_request(request));

        let mut deadline = Instant::now() + timeouts.response;
        let result = loop {
            match timeout_at(deadline, answer.as_mut()).await {
                Ok(result) => break Some(result),
                Err(_) => {
                    let moved = wire.last_write() + timeouts.response;
                    if moved <= deadline {
                        break None;
                    }
                    deadline = moved;
                }
            }
        };
        match result {
            None => {
                let traffic = flight.stop();
                Sent::of(evidence::of_time_out(traffic), traffic.written, None)
            }
            Some(Ok(response)) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                let traffic = flight.stop();
                let verdict = Verdict::Lost(Lost::Malformed, Detail::UnaskedUpgrade);
                Sent::of(verdict, traffic.written, None)
            }
            Some(Ok(response)) => {
                let upload = if uploaded.is_whole() && !wire.is_deaf() {
                    Upload::Complete
                } else {
                    Upload::Partial
                };
                let connection = flight.land();
                let reuse = Reuse {
                    connection,
                    pool: self.pool.clone(),
                    uploaded,
                };
                let answer = Answer::new(&method, response, upload, timeouts.idle, reuse);
                Sent::Head(Box::new(answer))
            }
            Some(Err(mut failed)) => {
                let traffic = flight.stop();
                let upload = if uploaded.is_whole() {
                    Upload::Complete
                } else {
                    Upload::Partial
                };
                let given_back = failed.take_message();
                let verdict = evidence::of_send(&failed.into_error(), traffic, upload);
                let request = match traffic.left {
                    Left::Nothing => given_back.map(Box::new),
                    Left::Something => None,
                };
                Sent::of(verdict, traffic.written, request)
            }
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(unused) = self.connection.take() {
            self.pool.put_back(unused);
        }
    }
}

/// A connection with a request on it. However this ends but by an answer, the wire is shut.
struct InFlight {
    connection: Option<Connection>,
    mark: Mark,
}

impl InFlight {
    fn connection(&mut self) -> &mut Connection {
        self.connection
            .as_mut()
            .expect("the connection stays until it lands or stops")
    }

    fn stop(&mut self) -> Traffic {
        let mark = self.mark;
        self.connection().wire.stop(mark)
    }

    fn land(&mut self) -> Connection {
        self.connection
            .take()
            .expect("the connection stays until it lands or stops")
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            connection.wire.stop(self.mark);
        }
    }
}

impl Stopper {
    /// Stops the request for good and says what had left: certainly nothing
    /// (`NotSent::Withdrawn`) or perhaps something ([`Lost::CallerGone`]).
    /// After an answer's head it cuts the answer's body; after the answer's end
    /// it does nothing to whatever the connection carries then.
    pub fn stop(&self) -> Verdict {
        evidence::of_stop(self.wire.stop(self.mark))
    }
}

impl fmt::Debug for Stopper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stopper")
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line")
            .field("provenance", &self.provenance)
            .finish_non_exhaustive()
    }
}
