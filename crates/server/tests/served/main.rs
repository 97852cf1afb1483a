//! The governor as it is served, before a provider of raw bytes: answers that end
//! with their connection, results that no key opens, and the end of a stop.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod answers;
mod callers;
mod hostile;
mod stops;
mod usage;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rategov_server::start::{self, Options, Running};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Semaphore, mpsc};

const CONFIGURATION: &str = "
hold: 60s
backoff: { base: 60s, cap: 60s, minimum: 30s }
shared_scope: { max_concurrent_requests: 1 }
providers:
  raw:
    base_url: http://PROVIDER
    response_timeout: 60s
    endpoints:
      - match: POST /orders
        class: uncertain_write
      - match: POST /generate
        class: generation
      - match: POST /keyed
        class: idempotent_write
        idempotency: { header: Idempotency-Key, lifetime: 24h }
";

/// What the provider does with a request.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// Says this, and closes.
    Says(&'static str),
    /// Says this, and then nothing more.
    Stalls(&'static str),
    /// Says this once it may.
    Waits(&'static str),
    /// Says the first of this, the rest once it may, and closes.
    Pauses(&'static str, &'static str),
    /// Is not there.
    Absent,
}

/// A governor before a provider that always does the same.
struct World {
    governor: Running,
    folder: TempDir,
    /// Paths that arrived at the provider.
    arrivals: mpsc::UnboundedReceiver<String>,
    /// Lets a provider go that waits.
    may_say: Arc<Semaphore>,
}

impl World {
    async fn new(does: Does) -> World {
        World::under(does, "").await
    }

    /// The same, with more in its configuration.
    async fn under(does: Does, more: &str) -> World {
        let may_say = Arc::new(Semaphore::new(0));
        let (provider, arrivals) = provider(does, Arc::clone(&may_say)).await;
        let folder = tempfile::tempdir().unwrap();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let governor = start::start(Options {
            config_text: Some(CONFIGURATION.replace("PROVIDER", &provider.to_string()) + more),
            data_folder: Some(folder.path().join("data")),
            agents: Some(any),
            operators: Some(any),
            ..Options::default()
        });
        let governor = governor.await.unwrap_or_else(|cause| panic!("{cause}"));
        World {
            governor,
            folder,
            arrivals,
            may_say,
        }
    }

    /// Sends these bytes and leaves what follows to be read.
    async fn send(&self, bytes: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.governor.agents).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        stream
    }

    /// Sends a call and leaves its answer to be read.
    async fn call(&self, method: &str, target: &str, key: &str) -> TcpStream {
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             authorization: Bearer k\r\nrategov-action: {key}\r\ncontent-length: 0\r\n\r\n"
        );
        self.send(&head).await
    }

    /// Sends a call and hears all of its answer.
    async fn hear(&self, method: &str, target: &str, key: &str) -> String {
        hear(&mut self.call(method, target, key).await).await
    }
}

async fn hear(stream: &mut TcpStream) -> String {
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).await.unwrap();
    String::from_utf8(heard).unwrap()
}

async fn provider(
    does: Does,
    may_say: Arc<Semaphore>,
) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = socket.local_addr().unwrap();
    let (arrived, arrivals) = mpsc::unbounded_channel();
    if let Does::Absent = does {
        // Its address is nobody else's, and nobody listens there.
        std::mem::forget(socket);
        return (address, arrivals);
    }
    let listener = socket.listen(1_024).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (arrived, may_say) = (arrived.clone(), Arc::clone(&may_say));
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await?);
                }
                let text = String::from_utf8_lossy(&head);
                let mut path = text.split(' ').nth(1).unwrap_or("").to_owned();
                if text.contains("content-length: 5\r\n") {
                    let mut body = [0; 5];
                    stream.read_exact(&mut body).await?;
                    path += &format!(" {}", String::from_utf8_lossy(&body));
                }
                if let Does::Pauses(first, rest) = does {
                    stream.write_all(first.as_bytes()).await?;
                    let _ = arrived.send(path);
                    may_say.acquire().await.unwrap().forget();
                    return stream.write_all(rest.as_bytes()).await;
                }
                let (Does::Says(words) | Does::Stalls(words) | Does::Waits(words)) = does else {
                    return Ok(());
                };
                if let Does::Waits(_) = does {
                    let _ = arrived.send(path.clone());
                    may_say.acquire().await.unwrap().forget();
                }
                stream.write_all(words.as_bytes()).await?;
                if !matches!(does, Does::Waits(_)) {
                    let _ = arrived.send(path);
                }
                if let Does::Stalls(_) = does {
                    std::future::pending::<()>().await;
                }
                std::io::Result::Ok(())
            });
        }
    });
    (address, arrivals)
}

const CREATED: &str = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n\
                       Content-Length: 9\r\n\r\n{\"id\":17}";

/// Stops a governor, and lets the time pass that open calls have.
async fn stopped_long_ago(governor: Running) -> tokio::task::JoinHandle<()> {
    let stopping = tokio::spawn(governor.shut_down());
    tokio::task::yield_now().await;
    pass(21).await;
    stopping
}

/// Lets time pass.
async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}
