//! A caller without any HTTP library: what it writes and reads are bytes, and
//! it can tell an orderly end from a reset.

use std::io::ErrorKind;
use std::time::Duration;

use rategov_sim::fake_provider::{Options, Running, serve};
use rategov_sim::provider::config::Config;
use rategov_sim::provider::fault::{Step, WrittenStep};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Long enough for any machine; a test that needs it has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a connection looked when reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The other side closed it in order.
    Fin,
    /// The other side reset it.
    Rst,
}

/// Starts a provider on free ports.
pub(crate) async fn start(config: Config) -> Running {
    serve(Options::new(config))
        .await
        .unwrap_or_else(|e| panic!("{e}"))
}

/// Starts a provider with one step in its script.
pub(crate) async fn start_with(step: Value) -> Running {
    let running = start(Config {
        stream_pause: rategov_core::time::Span::ZERO,
        ..Config::default()
    })
    .await;
    push(&running, step);
    running
}

/// Adds a written step to the script.
pub(crate) fn push(running: &Running, step: Value) {
    let written: WrittenStep = serde_json::from_value(step).expect("the keys are known");
    let step: Step = written.step().unwrap_or_else(|e| panic!("{e}"));
    running
        .handle
        .push_steps(vec![step])
        .expect("a short script");
}

/// A connection as bytes.
pub(crate) struct Caller {
    stream: TcpStream,
    /// What was read and not taken yet.
    pub(crate) ahead: Vec<u8>,
}

impl Caller {
    pub(crate) async fn connect(running: &Running) -> Caller {
        let stream = TcpStream::connect(running.addr)
            .await
            .expect("somebody listens");
        Caller {
            stream,
            ahead: Vec::new(),
        }
    }

    /// Writes bytes; a provider that has gone already is no mistake.
    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    /// Reads to the end of the connection.
    pub(crate) async fn read_to_end(&mut self) -> (String, End) {
        let end = loop {
            match self.read_some().await {
                Ok(0) => break End::Fin,
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::ConnectionReset => break End::Rst,
                Err(e) => panic!("{e}"),
            }
        };
        (
            String::from_utf8_lossy(&std::mem::take(&mut self.ahead)).into_owned(),
            end,
        )
    }

    /// Reads until `mark` has arrived, and gives everything up to its end.
    pub(crate) async fn read_until(&mut self, mark: &str) -> String {
        loop {
            let found = self
                .ahead
                .windows(mark.len())
                .position(|w| w == mark.as_bytes());
            if let Some(at) = found {
                let taken: Vec<u8> = self.ahead.drain(..at + mark.len()).collect();
                return String::from_utf8_lossy(&taken).into_owned();
            }
            let n = self.read_some().await.expect("the connection stands");
            let so_far = String::from_utf8_lossy(&self.ahead).into_owned();
            assert!(n > 0, "the connection ended before {mark:?}: {so_far:?}");
        }
    }

    /// Reads one answer with a `content-length`: its head, and its body.
    pub(crate) async fn answer(&mut self) -> (String, Vec<u8>) {
        let head = self.read_until("\r\n\r\n").await;
        let length = header(&head, "content-length")
            .and_then(|v| v.parse().ok())
            .unwrap_or(0);
        while self.ahead.len() < length {
            assert!(
                self.read_some().await.expect("the connection stands") > 0,
                "{head}"
            );
        }
        (head, self.ahead.drain(..length).collect())
    }

    /// Sends a request with a body and reads the answer.
    pub(crate) async fn send(&mut self, method: &str, target: &str, body: &str) -> (String, Value) {
        self.write(request(method, target, &[], body)).await;
        let (head, body) = self.answer().await;
        (head, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// Whether not one byte more has arrived and the connection stands.
    pub(crate) fn is_silent(&mut self) -> bool {
        let read = self.stream.try_read_buf(&mut self.ahead);
        matches!(read, Err(e) if e.kind() == ErrorKind::WouldBlock) && self.ahead.is_empty()
    }

    async fn read_some(&mut self) -> std::io::Result<usize> {
        let read = self.stream.read_buf(&mut self.ahead);
        timeout(PATIENCE, read)
            .await
            .expect("an answer or an end in time")
    }
}

/// The bytes of a request with a length.
pub(crate) fn request(method: &str, target: &str, fields: &[(&str, &str)], body: &str) -> String {
    let fields: String = fields
        .iter()
        .map(|(n, v)| format!("{n}: {v}\r\n"))
        .collect();
    let length = body.len();
    format!(
        "{method} {target} HTTP/1.1\r\nhost: fake\r\n{fields}content-length: {length}\r\n\r\n{body}"
    )
}

/// The value of a field of a head.
pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(n, _)| n.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
}

/// The status of a head.
pub(crate) fn status(head: &str) -> u16 {
    head.split(' ')
        .nth(1)
        .and_then(|s| s.parse().ok())
        .unwrap_or(0)
}

/// The ledger as JSON.
pub(crate) fn ledger(running: &Running) -> Value {
    serde_json::to_value(running.handle.ledger()).expect("it is plain data")
}

/// Waits for something, at most as long as any machine could need.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("it happens in time")
}
