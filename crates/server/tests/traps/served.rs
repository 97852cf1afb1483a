//! The governor as it is served, before a provider that says the same to everybody and
//! counts what arrives.
//!
//! Worked: a provider that refuses for ten minutes, and an SDK that repeats ten times:
//! eleven calls come to the governor, and one leaves it.

use std::net::SocketAddr;

use rategov_server::start::{self, Options, Running};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A governor before a provider that refuses everything alike.
pub(crate) struct World {
    governor: Running,
    _folder: tempfile::TempDir,
    arrivals: mpsc::UnboundedReceiver<()>,
}

impl World {
    pub(crate) async fn new(preset: &str, says: String) -> World {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let provider = listener.local_addr().unwrap();
        let (arrived, arrivals) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    match stream.read_u8().await {
                        Ok(byte) => head.push(byte),
                        Err(_) => break,
                    }
                }
                let _ = arrived.send(());
                let _ = stream.write_all(says.as_bytes()).await;
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let text = format!(
            "hold: 0s\nproviders:\n  it:\n    preset: {preset}\n    base_url: http://{provider}\n"
        );
        let governor = start::start(Options {
            config_text: Some(text),
            data_folder: Some(folder.path().join("data")),
            agents: Some(any),
            operators: Some(any),
            ..Options::default()
        })
        .await
        .unwrap_or_else(|cause| panic!("{cause}"));
        World {
            governor,
            _folder: folder,
            arrivals,
        }
    }

    /// One try of an SDK, and what it hears: the head and the body in one text.
    async fn call(&self, path: &str, repeat: usize) -> String {
        let mut stream = TcpStream::connect(self.governor.agents).await.unwrap();
        let head = format!(
            "GET /it{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer key-of-a-test\r\n\
             x-stainless-retry-count: {repeat}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).await.unwrap();
        heard
    }

    /// The SDK calls, and repeats at once so many times. Gives what it heard last,
    /// and how many calls arrived at the provider.
    pub(crate) async fn repeated(mut self, path: &str, repeats: usize) -> (Vec<String>, usize) {
        let mut heard = Vec::new();
        for repeat in 0..=repeats {
            heard.push(self.call(path, repeat).await);
        }
        self.governor.shut_down().await;
        let mut arrived = 0;
        while self.arrivals.try_recv().is_ok() {
            arrived += 1;
        }
        (heard, arrived)
    }
}

pub(crate) fn answer(status: &str, fields: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{fields}content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// Of a call and its repeats one arrives, and the last is refused here.
pub(crate) async fn once(preset: &str, path: &str, says: String, repeats: usize) {
    let world = World::new(preset, says).await;
    let (heard, arrived) = world.repeated(path, repeats).await;
    assert_eq!(arrived, 1, "{preset}: {}", heard.last().unwrap());
    let last = heard.last().unwrap();
    assert!(last.contains("rategov-source: governor"), "{last}");
    assert!(last.contains(" 429 "), "{last}");
}
