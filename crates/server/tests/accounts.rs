//! Accounts that only a caller's credential names: as many as there may be.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::net::SocketAddr;

use rategov_server::start::{self, Options};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A provider that says "nothing here" to everybody.
async fn provider() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4_096];
            let _ = stream.read(&mut head).await;
            let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(answer).await;
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
async fn a_credential_too_many_is_refused_and_known_ones_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = provider().await;
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "sk-ours\n").unwrap();
    let text = format!(
        "providers:\n  open:\n    base_url: http://{upstream}\n  ours:\n    base_url: http://{upstream}\n    accounts:\n      ops: {{ credential: \"file:{}\" }}\n",
        secret.display()
    );
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let running = start::start(Options {
        config_text: Some(text),
        data_folder: Some(folder.path().join("data")),
        agents: Some(any),
        operators: Some(any),
        accounts_max: Some(2),
        ..Options::default()
    })
    .await
    .unwrap();
    let agents = running.agents;
    for known in ["one", "two", "one"] {
        let heard = call(agents, "/open/x", known).await;
        assert!(heard.starts_with("HTTP/1.1 204"), "{known}: {heard}");
    }
    for stranger in ["three", "four"] {
        let heard = call(agents, "/open/x", stranger).await;
        assert!(heard.starts_with("HTTP/1.1 503"), "{stranger}: {heard}");
        assert!(heard.contains("\"too_many_accounts\""), "{heard}");
    }
    assert_eq!(running.gateway().0.driver.cells().len(), 2, "none was made");
    // What the operator named is not everybody's to use up.
    let heard = call(agents, "/ours/x", "whatever").await;
    assert!(heard.starts_with("HTTP/1.1 204"), "{heard}");
    let heard = call(agents, "/open/x", "two").await;
    assert!(heard.starts_with("HTTP/1.1 204"), "{heard}");
    running.shut_down().await;
}
