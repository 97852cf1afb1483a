//! Accounts that only a caller's credential names: as many as there may be.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rategov_core::time::{Moment, WallTime};
use rategov_server::driver::{Clock, Driver};
use rategov_server::start::{self, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A provider that says "nothing here" to everybody, and the first few times how much
/// of which quota is left.
async fn provider(times: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for n in 0.. {
            let Ok((mut stream, _)) = listener.accept().await else {
                return;
            };
            let mut head = [0; 4_096];
            let _ = stream.read(&mut head).await;
            let quota = match n < times {
                true => "ratelimit-limit: 10\r\nratelimit-remaining: 9\r\nratelimit-reset: 60\r\n",
                false => "",
            };
            let answer = format!("HTTP/1.1 204 No Content\r\n{quota}connection: close\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    address
}

/// What a call with a credential is answered.
async fn call(agents: SocketAddr, path: &str, credential: &str) -> String {
    let mut stream = TcpStream::connect(agents).await.unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {agents}\r\nauthorization: Bearer {credential}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_credential_too_many_is_refused_until_others_rest() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = provider(3).await;
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "sk-ours\n").unwrap();
    let text = format!(
        "providers:\n  open:\n    base_url: http://{upstream}\n  ours:\n    base_url: http://{upstream}\n    accounts:\n      ops: {{ credential: \"file:{}\" }}\n",
        secret.display()
    );
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let begin = (Moment::from_micros(1 << 40), WallTime::from_secs(1 << 30));
    let running = start::start(Options {
        config_text: Some(text),
        data_folder: Some(folder.path().join("data")),
        agents: Some(any),
        operators: Some(any),
        clock: Some(Clock::of_timers(begin.0, begin.1)),
        accounts_max: Some(2),
        ..Options::default()
    })
    .await
    .unwrap();
    let agents = running.agents;
    let driver = running.gateway().0.driver.clone();
    for known in ["one", "two", "one"] {
        let heard = call(agents, "/open/x", known).await;
        assert!(heard.starts_with("HTTP/1.1 204"), "{known}: {heard}");
    }
    // What was used of a quota must not be forgotten before its window is over.
    for stranger in ["three", "four"] {
        let heard = call(agents, "/open/x", stranger).await;
        assert!(heard.starts_with("HTTP/1.1 503"), "{stranger}: {heard}");
        assert!(heard.contains("\"too_many_accounts\""), "{heard}");
    }
    assert_eq!(driver.cells().len(), 2, "none was made");
    // What the operator named is not everybody's to use up.
    let heard = call(agents, "/ours/x", "whatever").await;
    assert!(heard.starts_with("HTTP/1.1 204"), "{heard}");
    let heard = call(agents, "/open/x", "two").await;
    assert!(heard.starts_with("HTTP/1.1 204"), "{heard}");

    settled(&driver).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(3_600)).await;
    tokio::time::resume();
    for stranger in ["three", "four", "five", "six"] {
        let heard = call(agents, "/open/x", stranger).await;
        assert!(heard.starts_with("HTTP/1.1 204"), "{stranger}: {heard}");
        settled(&driver).await;
        assert!(driver.cells().len() <= 3, "others were let go");
    }
    let limits = |driver: &Driver| -> Vec<u64> {
        let states = driver
            .cells()
            .iter()
            .flat_map(|cell| driver.look(cell, |engine, now| engine.scopes(now)))
            .collect::<Vec<_>>();
        states.iter().filter_map(|state| state.limit).collect()
    };
    assert_eq!(limits(&driver), [0_u64; 0], "those that learnt it rest");
    let heard = call(agents, "/open/x", "one").await;
    assert!(heard.starts_with("HTTP/1.1 204"), "{heard}");
    assert_eq!(limits(&driver), [10], "what was learnt came back with it");
    running.shut_down().await;
}

/// Waits until the journal has all that was recorded.
async fn settled(driver: &Driver) {
    // A bound against hanging, not a measure.
    let until = Instant::now() + Duration::from_secs(30);
    while driver.journal_behind().0 != 0 || driver.runners() != 0 {
        assert!(Instant::now() < until, "the journal never answers");
        tokio::task::yield_now().await;
    }
}
