//! The governor as it is served, before a provider of raw bytes: answers that end
//! with their connection, results that no key opens, and the end of a stop.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rategov_server::start::{self, Options, Running};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

const CONFIGURATION: &str = "
hold: 60s
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
";

/// What the provider does with a request.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// Says this, and closes.
    Says(&'static str),
    /// Says this, and then nothing more.
    Stalls(&'static str),
}

/// A governor before a provider that always does the same.
struct World {
    governor: Running,
    folder: TempDir,
    /// Paths that arrived at the provider.
    arrivals: mpsc::UnboundedReceiver<String>,
}

impl World {
    async fn new(does: Does) -> World {
        let (provider, arrivals) = provider(does).await;
        let folder = tempfile::tempdir().unwrap();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let governor = start::start(Options {
            config_text: Some(CONFIGURATION.replace("PROVIDER", &provider.to_string())),
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
        }
    }

    /// Sends a call and leaves its answer to be read.
    async fn call(&self, method: &str, target: &str, key: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.governor.agents).await.unwrap();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             authorization: Bearer k\r\nrategov-action: {key}\r\ncontent-length: 0\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
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

async fn provider(does: Does) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (arrived, arrivals) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let arrived = arrived.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await?);
                }
                let text = String::from_utf8_lossy(&head);
                let path = text.split(' ').nth(1).unwrap_or("").to_owned();
                let (Does::Says(words) | Does::Stalls(words)) = does;
                stream.write_all(words.as_bytes()).await?;
                let _ = arrived.send(path);
                if let Does::Stalls(_) = does {
                    std::future::pending::<()>().await;
                }
                std::io::Result::Ok(())
            });
        }
    });
    (address, arrivals)
}

async fn check_passed_on(status: &str) {
    let says = match status {
        "200 OK" => {
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nORDER 17"
        }
        _ => "HTTP/1.0 404 Not Found\r\nContent-Type: text/plain\r\n\r\nORDER 17",
    };
    let world = World::new(Does::Says(says)).await;
    for method in ["GET", "POST"] {
        let heard = world.hear(method, "/raw/orders", method).await;
        assert!(heard.contains(status), "{method}: {heard}");
        assert!(
            heard.contains("rategov-source: upstream"),
            "{method}: {heard}"
        );
        assert!(heard.contains("ORDER 17"), "{method}: {heard}");
    }
    if status == "200 OK" {
        let again = world.hear("POST", "/raw/orders", "POST").await;
        assert!(
            again.contains(status) && again.ends_with("ORDER 17"),
            "{again}"
        );
    }
    world.governor.shut_down().await;
}

#[tokio::test]
async fn an_answer_that_ends_with_its_connection_reaches_its_caller() {
    check_passed_on("200 OK").await;
    check_passed_on("404 Not Found").await;
}

const CREATED: &str = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n\
                       Content-Length: 9\r\n\r\n{\"id\":17}";

#[tokio::test]
async fn a_result_that_no_key_opens_is_lost_and_its_action_is_not() {
    let mut world = World::new(Does::Says(CREATED)).await;
    let first = world.hear("POST", "/raw/orders", "order-1").await;
    assert!(first.starts_with("HTTP/1.1 201"), "{first}");
    std::fs::remove_file(world.folder.path().join("data/work.key")).unwrap();

    let again = world.hear("POST", "/raw/orders", "order-1").await;
    assert!(again.starts_with("HTTP/1.1 424"), "{again}");
    for part in [
        "\"code\":\"result_lost\"",
        "\"sent\":true",
        "\"action\":\"",
        "rategov-action: ",
        "rategov-next: check_provider",
    ] {
        assert!(again.contains(part), "{part} in {again}");
    }
    let action = world.hear("GET", "/governor/v1/actions/order-1", "-").await;
    assert!(action.starts_with("HTTP/1.1 200"), "{action}");
    assert!(action.contains("\"state\":\"succeeded\""), "{action}");
    assert!(action.contains("\"next\":\"check_provider\""), "{action}");
    assert_eq!(world.arrivals.recv().await.as_deref(), Some("/orders"));
    assert!(world.arrivals.try_recv().is_err(), "it was sent once");
    world.governor.shut_down().await;
}

/// A stop whose time passes while a call is open.
async fn check_told(does: Does, method: &str, target: &str, told: &[&str]) {
    let mut world = World::new(does).await;
    let mut open = world.call(method, target, "open").await;
    world.arrivals.recv().await.unwrap();
    if let Does::Stalls(words) = does
        && !words.is_empty()
    {
        // The stream has begun for its caller.
        let mut first = [0; 12];
        open.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
    }
    let stopping = stopped_long_ago(world.governor).await;
    let heard = hear(&mut open).await;
    for part in told {
        assert!(heard.contains(part), "{part} in {heard:?}");
    }
    stopping.await.unwrap();
}

/// Stops a governor, and lets the time pass that open calls have.
async fn stopped_long_ago(governor: Running) -> tokio::task::JoinHandle<()> {
    let stopping = tokio::spawn(governor.shut_down());
    tokio::task::yield_now().await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(21)).await;
    tokio::time::resume();
    stopping
}

#[tokio::test]
async fn what_still_waits_at_the_end_of_a_stop_is_withdrawn() {
    let mut world = World::new(Does::Stalls("")).await;
    let mut open = world.call("POST", "/raw/orders", "first").await;
    world.arrivals.recv().await.unwrap();
    let mut waiting = world.call("POST", "/raw/orders?n=2", "second").await;
    // A bound against hanging, not a measure.
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let action = world.hear("GET", "/governor/v1/actions/second", "-").await;
        if action.contains("\"final\":false") {
            break;
        }
        assert!(Instant::now() < until, "it never waits: {action}");
    }
    let stopping = stopped_long_ago(world.governor).await;
    let (first, second) = (hear(&mut open).await, hear(&mut waiting).await);
    assert!(first.contains("\"code\":\"still_open\""), "{first}");
    for part in [
        "HTTP/1.1 503",
        "\"code\":\"shutting_down\"",
        "\"sent\":false",
        "retry-after: 5",
    ] {
        assert!(second.contains(part), "{part} in {second}");
    }
    stopping.await.unwrap();
    assert!(world.arrivals.try_recv().is_err(), "it was never sent");
}

#[tokio::test]
async fn whoever_waits_at_the_end_of_a_stop_is_told_what_is_open() {
    let write = [
        "HTTP/1.1 424",
        "\"code\":\"still_open\"",
        "\"sent\":true",
        "rategov-action: ",
    ];
    check_told(Does::Stalls(""), "POST", "/raw/orders", &write).await;
    let read = [
        "HTTP/1.1 424",
        "\"code\":\"interrupted\"",
        "rategov-action: ",
    ];
    check_told(Does::Stalls(""), "GET", "/raw/orders", &read).await;
    let begun = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                 Connection: close\r\n\r\ndata: one\n\n";
    let broken = ["data: one", "stream_broken"];
    check_told(Does::Stalls(begun), "POST", "/raw/generate", &broken).await;
}
