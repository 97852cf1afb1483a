//! The measured table of what a failure proves, row by row, with and without TLS.
//!
//! The rows are the HTTP/1.1 rows of the project's own measurements (the names
//! are theirs); what changed against them is that nothing is sent twice.

use rategov_core::action::outcome::{Lost, NotSent};
use rategov_server::gateway::destination::{Destination, PlainHttp};
use rategov_server::gateway::detail::Detail;
use rategov_server::gateway::evidence::BodyEnd;
use rategov_server::gateway::pool::PoolLimits;
use rategov_server::gateway::purpose::Purpose;
use rategov_server::gateway::tls::TlsOptions;
use rategov_server::gateway::upstream::{Sent, Timeouts, Upstream};
use std::time::Duration;

use crate::support::*;
use Step::*;

/// One call to one scripted connection; the server must have read one request.
async fn check(id: &str, script: &[Step], expected: Got) {
    for layer in BOTH {
        let server = Server::start(layer, vec![script.to_vec()]).await;
        let upstream = server.upstream(PoolLimits::default());
        let got = post(&upstream, &server.destination(), &timeouts()).await;
        assert_eq!(got, expected, "{id} {layer:?}");
        assert_eq!(
            (server.connections(), server.requests()),
            (1, 1),
            "{id} {layer:?}"
        );
    }
}

#[tokio::test]
async fn request_read_then_rst() {
    let lost = Got::Lost(Lost::Closed, Detail::Reset);
    check("request_read_then_rst", &[ReadRequest, Reset], lost).await;
}

#[tokio::test]
async fn request_processed_then_fin() {
    let lost = Got::Lost(Lost::Closed, Detail::Closed);
    check("request_processed_then_fin", &[ReadRequest, Fin], lost).await;
}

#[tokio::test]
async fn content_length_body_cut() {
    let say = Say("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
    let cut = Got::Head(200, BodyEnd::Cut(Detail::BodyCut), "half".into());
    check("content_length_body_cut", &[ReadRequest, say, Fin], cut).await;
}

#[tokio::test]
async fn chunked_body_rst() {
    let say = Say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n");
    let cut = Got::Head(200, BodyEnd::Cut(Detail::BodyReset), "hello".into());
    check("chunked_body_rst", &[ReadRequest, say, Reset], cut).await;
}

#[tokio::test]
async fn close_delimited_body_cut() {
    let say = Say("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"id\":");
    let end = Got::Head(200, BodyEnd::CloseDelimited, "{\"id\":".into());
    check("close_delimited_body_cut", &[ReadRequest, say, Fin], end).await;
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let say =
        Say("HTTP/1.1 307 Temporary Redirect\r\nlocation: /records\r\ncontent-length: 0\r\n\r\n");
    let answer = Got::Head(307, BodyEnd::Complete, String::new());
    check(
        "redirect_307_loop_default_policy",
        &[ReadRequest, say, Hang],
        answer,
    )
    .await;
}

#[tokio::test]
async fn no_answer() {
    for layer in BOTH {
        let server = Server::start(layer, vec![vec![ReadRequest, Hang]]).await;
        let upstream = server.upstream(PoolLimits::default());
        let patience = Timeouts {
            response: Duration::from_millis(60),
            ..timeouts()
        };
        let got = post(&upstream, &server.destination(), &patience).await;
        assert_eq!(
            got,
            Got::Lost(Lost::TimedOut, Detail::AnswerTimedOut),
            "{layer:?}"
        );
        assert_eq!((server.connections(), server.requests()), (1, 1));
        assert_eq!(
            upstream.open_connections(),
            0,
            "a timed-out connection is not kept"
        );
    }
}

#[tokio::test]
async fn connect_refused() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let upstream = Upstream::new(PoolLimits::default(), &TlsOptions::default()).unwrap();
    for scheme in ["http", "https"] {
        let url = format!("{scheme}://127.0.0.1:{port}");
        let to = Destination::parse(&url, PlainHttp::LoopbackOnly).unwrap();
        let got = post(&upstream, &to, &timeouts()).await;
        assert_eq!(
            got,
            Got::NotSent(NotSent::Connect, Detail::ConnectRefused),
            "{scheme}"
        );
        assert_eq!(upstream.open_connections(), 0);
    }
}

#[tokio::test]
async fn dns_failure() {
    let upstream = Upstream::new(PoolLimits::default(), &TlsOptions::default()).unwrap();
    let to = Destination::parse("https://nobody.invalid", PlainHttp::LoopbackOnly).unwrap();
    let patience = Timeouts {
        connect: Duration::from_secs(3),
        ..timeouts()
    };
    let got = post(&upstream, &to, &patience).await;
    // A machine without a name server learns it by time-out; both mean the same.
    assert!(matches!(got, Got::NotSent(NotSent::Dns, _)), "{got:?}");
}

#[tokio::test]
async fn fresh_conn_rst_at_accept() {
    for layer in BOTH {
        for ending in [Reset, Fin] {
            let mut server = Server::start(layer, vec![vec![ending]]).await;
            let upstream = server.upstream(PoolLimits::default());
            let to = server.destination();
            let line = upstream
                .connect(&to, Purpose::Write, &timeouts())
                .await
                .unwrap();
            server.until(Report::Done(0)).await;
            let request = request(http::Method::POST, &to, "hello").await;
            let began = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
            let seen = began.clone();
            let hook = move || seen.store(true, std::sync::atomic::Ordering::SeqCst);
            let sent = line.send(request, hook, &timeouts()).await;
            // A reset that arrives between the look and the write is still "nothing left".
            let Sent::NotSent { why, detail, .. } = sent else {
                panic!("{layer:?} {ending:?}: {sent:?}")
            };
            assert_eq!(why, NotSent::ConnectionClosed, "{layer:?} {ending:?}");
            assert_eq!(detail, Detail::ClosedBeforeWrite);
            assert_eq!(server.requests(), 0);
        }
    }
}

#[tokio::test]
async fn reused_conn_already_closed() {
    for layer in BOTH {
        for ending in [Fin, Reset, Vanish] {
            let scripts = vec![
                vec![ReadRequest, Say(OK), Wait, ending],
                vec![ReadRequest, Say(OK), Hang],
            ];
            let mut server = Server::start(layer, scripts).await;
            let upstream = server.upstream(PoolLimits::default());
            let to = server.destination();
            let answer = || Got::Head(200, BodyEnd::Complete, "ok".into());
            assert_eq!(post(&upstream, &to, &timeouts()).await, answer());
            server.proceed();
            server.until(Report::Done(0)).await;
            // The close is noticed before the write, so the new call dials.
            assert_eq!(
                post(&upstream, &to, &timeouts()).await,
                answer(),
                "{layer:?} {ending:?}"
            );
            assert_eq!(
                (server.connections(), server.requests()),
                (2, 2),
                "{layer:?} {ending:?}"
            );
        }
    }
}

#[tokio::test]
async fn reused_conn_processed_then_fin() {
    for layer in BOTH {
        let script = vec![ReadRequest, Say(OK), ReadRequest, Fin];
        let server = Server::start(layer, vec![script]).await;
        let upstream = server.upstream(PoolLimits::default());
        let to = server.destination();
        let first = post(&upstream, &to, &timeouts()).await;
        assert_eq!(first, Got::Head(200, BodyEnd::Complete, "ok".into()));
        let second = post(&upstream, &to, &timeouts()).await;
        assert_eq!(second, Got::Lost(Lost::Closed, Detail::Closed), "{layer:?}");
        assert_eq!(
            (server.connections(), server.requests()),
            (1, 2),
            "{layer:?}"
        );
    }
}
