//! The callers: one call, one connection, no retry, and a note of when each
//! part of the answer came.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// `POST`.
    pub(crate) method: String,
    /// Path and query as they are sent.
    pub(crate) target: String,
    /// Its headers.
    pub(crate) headers: Vec<(String, String)>,
    /// Its body.
    pub(crate) body: Bytes,
    /// Whether the body travels in chunks.
    pub(crate) chunked: bool,
    /// When its caller hangs up, if it does.
    pub(crate) leaves_at: Option<Instant>,
}

/// How a call ended for its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The whole answer came.
    Whole,
    /// The caller hung up.
    Left,
    /// The connection broke, before the answer or inside it.
    Broken(String),
}

/// What a caller saw. Moments are milliseconds from the start of the scenario.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Which of the report's clients made it.
    pub(crate) client: usize,
    /// Which of that client's calls it is.
    pub(crate) index: u64,
    /// When it was made.
    pub(crate) sent_ms: f64,
    /// When the head came.
    pub(crate) head_ms: Option<f64>,
    /// When each piece of the body came.
    pub(crate) pieces_ms: Vec<f64>,
    /// When it ended.
    pub(crate) ended_ms: f64,
    /// The status.
    pub(crate) status: u16,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The body, as far as it came.
    pub(crate) body: Vec<u8>,
    /// How it ended.
    pub(crate) ended: Ended,
}

impl Seen {
    /// A header as text; empty if it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// The body as JSON; null if it is none.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Whether the answer is the governor's own.
    pub(crate) fn is_governors(&self) -> bool {
        self.header("rategov-source") == "governor"
    }

    /// The code of the governor's own answer; empty for others.
    pub(crate) fn code(&self) -> String {
        if self.is_governors() {
            self.json()["code"].as_str().unwrap_or_default().to_owned()
        } else {
            String::new()
        }
    }

    /// What is shown when something is wrong with it.
    pub(crate) fn shown(&self) -> String {
        let body: String = String::from_utf8_lossy(&self.body)
            .chars()
            .take(160)
            .collect();
        format!(
            "client {} call {}: {:.0}–{:.0} ms, {:?}, {} {} {body}",
            self.client + 1,
            self.index + 1,
            self.sent_ms,
            self.ended_ms,
            self.ended,
            self.status,
            self.header("rategov-source"),
        )
    }
}

/// Makes a call. `steps` counts what the caller sees, so that the time knows
/// that something is going on.
pub(crate) async fn make(
    at: SocketAddr,
    call: Call,
    (client, index): (usize, u64),
    began: Instant,
    steps: Arc<AtomicU64>,
) -> Seen {
    let ms = |at: Instant| at.saturating_duration_since(began).as_secs_f64() * 1_000.0;
    let mut seen = Seen {
        client,
        index,
        sent_ms: ms(Instant::now()),
        head_ms: None,
        pieces_ms: Vec::new(),
        ended_ms: 0.0,
        status: 0,
        headers: HeaderMap::new(),
        body: Vec::new(),
        ended: Ended::Left,
    };
    let leaves_at = call.leaves_at;
    let exchange = exchange(at, call, &mut seen, &ms, &steps);
    let never = Instant::now() + Duration::from_secs(365 * 24 * 3_600);
    let ended = tokio::time::timeout_at(leaves_at.unwrap_or(never), exchange).await;
    seen.ended = match ended {
        Ok(Ok(())) => Ended::Whole,
        Ok(Err(cause)) => Ended::Broken(cause),
        Err(_) => Ended::Left,
    };
    seen.ended_ms = ms(Instant::now());
    steps.fetch_add(1, Ordering::AcqRel);
    seen
}

async fn exchange(
    at: SocketAddr,
    call: Call,
    seen: &mut Seen,
    ms: &impl Fn(Instant) -> f64,
    steps: &AtomicU64,
) -> Result<(), String> {
    let broken = |cause: &dyn std::fmt::Display| cause.to_string();
    let stream = TcpStream::connect(at).await.map_err(|e| broken(&e))?;
    stream.set_nodelay(true).map_err(|e| broken(&e))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| broken(&e))?;
    // Aborted when the call is dropped, which closes the connection.
    let _driving = AbortOnDrop(tokio::spawn(async move {
        let _ = connection.await;
    }));
    let mut request = Request::builder()
        .method(call.method.as_str())
        .uri(&call.target);
    request = request.header("host", at.to_string());
    for (name, value) in &call.headers {
        request = request.header(name, value);
    }
    // Said outright, since the length of a body in hand would be announced else.
    if call.chunked {
        request = request.header("transfer-encoding", "chunked");
    }
    let request = request.body(Full::new(call.body)).map_err(|e| broken(&e))?;
    let answer = sender.send_request(request).await.map_err(|e| broken(&e))?;
    seen.head_ms = Some(ms(Instant::now()));
    seen.status = answer.status().as_u16();
    seen.headers = answer.headers().clone();
    steps.fetch_add(1, Ordering::AcqRel);
    let mut body = answer.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| broken(&e))?;
        steps.fetch_add(1, Ordering::AcqRel);
        if let Some(data) = frame.data_ref() {
            seen.body.extend_from_slice(data);
            seen.pieces_ms.push(ms(Instant::now()));
        }
    }
    Ok(())
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
