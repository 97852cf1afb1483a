//! TLS failures: never sent, and what needs a person told apart from weather.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rategov_core::action::outcome::NotSent;
use rategov_server::gateway::destination::{Destination, PlainHttp};
use rategov_server::gateway::detail::Detail;
use rategov_server::gateway::pool::PoolLimits;
use rategov_server::gateway::tls::TlsOptions;
use rategov_server::gateway::upstream::{Timeouts, Upstream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::support::*;

async fn call(port: u16, extra_ca: Option<PathBuf>, timeouts: &Timeouts) -> Got {
    let upstream = Upstream::new(PoolLimits::default(), &TlsOptions { extra_ca }).unwrap();
    let url = format!("https://127.0.0.1:{port}");
    let to = Destination::parse(&url, PlainHttp::LoopbackOnly).unwrap();
    let got = post(&upstream, &to, timeouts).await;
    assert_eq!(upstream.open_connections(), 0);
    got
}

/// A server whose certificate is what `identity` says; `trusted` gives it to the client.
async fn check_certificate(identity: Identity, trusted: bool, expected: Detail) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = TlsAcceptor::from(Arc::clone(&identity.config));
    let server = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        acceptor.accept(socket).await.map(drop)
    });
    // Something must be trusted, or the refusal would be "no roots" on a bare machine.
    let other = Identity::new(&["trusted.example"], 2099);
    let ca = if trusted {
        identity.ca.path()
    } else {
        other.ca.path()
    };
    let got = call(port, Some(ca.to_owned()), &timeouts()).await;
    assert_eq!(got, Got::NotSent(NotSent::Certificate, expected));
    assert!(
        server.await.unwrap().is_err(),
        "the server saw no completed handshake"
    );
}

#[tokio::test]
async fn a_certificate_that_is_not_accepted_is_configuration() {
    check_certificate(Identity::local(), false, Detail::CertificateUntrusted).await;
    // Under a trusted authority's name, but not by it.
    let forged = Identity::new(&["trusted.example", "127.0.0.1"], 2099);
    check_certificate(forged, false, Detail::CertificateUntrusted).await;
    let foreign = Identity::new(&["other.example"], 2099);
    check_certificate(foreign, true, Detail::CertificateForOtherName).await;
    let old = Identity::new(&["127.0.0.1"], 2001);
    check_certificate(old, true, Detail::CertificateExpired).await;
}

#[tokio::test]
async fn a_handshake_that_fails_is_weather() {
    let ca = Identity::local();
    for answer in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b""] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut hello = [0; 4096];
            let _ = socket.read(&mut hello).await;
            let _ = socket.write_all(answer).await;
        });
        let got = call(port, Some(ca.ca.path().to_owned()), &timeouts()).await;
        assert_eq!(
            got,
            Got::NotSent(NotSent::Tls, Detail::TlsFailed),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn a_handshake_that_never_ends_is_given_up() {
    let ca = Identity::local();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let patience = Timeouts {
        connect: Duration::from_millis(300),
        ..timeouts()
    };
    let got = call(port, Some(ca.ca.path().to_owned()), &patience).await;
    assert_eq!(got, Got::NotSent(NotSent::Tls, Detail::TlsTimedOut));
    drop(listener);
}
