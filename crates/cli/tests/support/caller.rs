//! A caller without an HTTP library, so that half an answer is seen as half an
//! answer and nothing is sent twice behind a test's back.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::wait::PATIENCE;

/// An answer that came whole.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    /// Its status.
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

/// Why no whole answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unheard {
    /// The connection could not be made, or ended first.
    Cut,
    /// It stands, and nothing comes.
    Silence,
}

impl Heard {
    /// A header of it.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }

    /// Its body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Its body as JSON; null if it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A request.
pub(crate) struct Call<'a> {
    pub(crate) method: &'a str,
    pub(crate) target: &'a str,
    pub(crate) fields: &'a [(&'a str, &'a str)],
    pub(crate) body: &'a str,
}

impl<'a> Call<'a> {
    /// A request without fields and body.
    pub(crate) fn get(target: &'a str) -> Call<'a> {
        Call {
            method: "GET",
            target,
            fields: &[],
            body: "",
        }
    }

    /// Sends it on a connection of its own and hears the answer to its end.
    pub(crate) async fn to(&self, address: SocketAddr) -> Result<Heard, Unheard> {
        self.start(address).await?.hear().await
    }

    /// Sends it, without waiting for the answer.
    pub(crate) async fn start(&self, address: SocketAddr) -> Result<Open, Unheard> {
        let mut stream = TcpStream::connect(address)
            .await
            .map_err(|_| Unheard::Cut)?;
        let Call {
            method,
            target,
            fields,
            body,
        } = self;
        let mut head = format!("{method} {target} HTTP/1.1\r\nhost: {address}\r\n");
        head.push_str("connection: close\r\ncontent-type: application/json\r\n");
        for (name, value) in *fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        stream
            .write_all(request.as_bytes())
            .await
            .map_err(|_| Unheard::Cut)?;
        Ok(Open(stream))
    }
}

/// A request whose answer is to come. Dropping it hangs up.
pub(crate) struct Open(TcpStream);

impl Open {
    /// Hears the answer to its end.
    pub(crate) async fn hear(mut self) -> Result<Heard, Unheard> {
        let mut bytes = Vec::new();
        let read = timeout(PATIENCE, self.0.read_to_end(&mut bytes)).await;
        // A reset after a whole answer has taken nothing away.
        read.map_err(|_| Unheard::Silence)?.ok();
        let end = bytes
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .ok_or(Unheard::Cut)?;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok())
            .ok_or(Unheard::Cut)?;
        let body = bytes.split_off(end + 4);
        let heard = Heard { status, head, body };
        let length = heard
            .header("content-length")
            .and_then(|value| value.parse::<usize>().ok());
        match length {
            Some(length) if heard.body.len() < length => Err(Unheard::Cut),
            _ => Ok(heard),
        }
    }
}
