//! Which connections are kept, which are taken, and that none sends twice.

use std::time::Duration;

use rategov_core::action::outcome::NotSent;
use rategov_server::gateway::detail::Detail;
use rategov_server::gateway::evidence::{BodyEnd, Verdict};
use rategov_server::gateway::line::Provenance;
use rategov_server::gateway::pool::PoolLimits;
use rategov_server::gateway::purpose::Purpose;
use rategov_server::gateway::upstream::{Sent, Upstream};

use crate::support::*;
use Step::*;

const OK_1_0: &str = "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok";
const OK_CLOSE: &str = "HTTP/1.1 200 OK\r\nconnection: Close\r\ncontent-length: 2\r\n\r\nok";
const EMPTY: &str = "HTTP/1.1 204 No Content\r\n\r\n";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";

async fn call(upstream: &Upstream, server: &Server) -> u16 {
    match post(upstream, &server.destination(), &timeouts()).await {
        Got::Head(status, BodyEnd::Complete, _) => status,
        other => panic!("{other:?}"),
    }
}

/// Two calls in a row, and how many connections they took.
async fn check_kept(first: &'static str, connections: usize) {
    for layer in BOTH {
        let scripts = vec![
            vec![ReadRequest, Say(first), ReadRequest, Say(OK), Hang],
            vec![ReadRequest, Say(OK), Hang],
        ];
        let server = Server::start(layer, scripts).await;
        let upstream = server.upstream(PoolLimits::default());
        call(&upstream, &server).await;
        assert_eq!(call(&upstream, &server).await, 200);
        assert_eq!(server.connections(), connections, "{first:?} {layer:?}");
        assert_eq!(server.requests(), 2, "{first:?} {layer:?}");
    }
}

#[tokio::test]
async fn a_connection_is_kept_after_a_proper_end() {
    check_kept(OK, 1).await;
    check_kept(EMPTY, 1).await;
    check_kept(CHUNKED, 1).await;
}

#[tokio::test]
async fn a_connection_that_announces_its_close_or_speaks_http_1_0_is_not_kept() {
    check_kept(OK_CLOSE, 2).await;
    check_kept(OK_1_0, 2).await;
}

#[tokio::test]
async fn a_write_demands_a_fresher_connection_than_a_read() {
    let scripts = vec![
        vec![ReadRequest, Say(OK), ReadRequest, Say(OK), Hang],
        vec![ReadRequest, Say(OK), Hang],
    ];
    let server = Server::start(Layer::Plain, scripts).await;
    let limits = PoolLimits {
        write_idle: Duration::ZERO,
        ..PoolLimits::default()
    };
    let upstream = server.upstream(limits);
    let to = server.destination();
    assert_eq!(call(&upstream, &server).await, 200);
    // Held while the next line is taken, so that the two can be told apart.
    let write = upstream
        .connect(&to, Purpose::Write, &timeouts())
        .await
        .unwrap();
    assert_eq!(write.provenance(), Provenance::Dialled);
    let read = upstream
        .connect(&to, Purpose::Read, &timeouts())
        .await
        .unwrap();
    assert_eq!(read.provenance(), Provenance::Kept);
    drop((write, read));
    assert_eq!(upstream.idle_connections(), 2, "an unused line goes back");
}

#[tokio::test]
async fn a_line_that_was_taken_and_not_used_gets_no_fresher() {
    let used = vec![ReadRequest, Say(OK), ReadRequest, Say(OK), Hang];
    let server = Server::start(Layer::Plain, vec![used, vec![Hang]]).await;
    let upstream = server.upstream(PoolLimits::default());
    let to = server.destination();
    for _ in 0..2 {
        // Each use makes it fresh again.
        assert_eq!(call(&upstream, &server).await, 200);
        pass(Duration::from_millis(1_500)).await;
    }
    let unused = upstream
        .connect(&to, Purpose::Write, &timeouts())
        .await
        .unwrap();
    assert_eq!(unused.provenance(), Provenance::Kept);
    drop(unused);
    pass(Duration::from_millis(1_500)).await;
    let write = upstream
        .connect(&to, Purpose::Write, &timeouts())
        .await
        .unwrap();
    assert_eq!(write.provenance(), Provenance::Dialled);
    let read = upstream
        .connect(&to, Purpose::Read, &timeouts())
        .await
        .unwrap();
    assert_eq!(read.provenance(), Provenance::Kept);
}

#[tokio::test]
async fn what_stays_idle_too_long_is_closed() {
    let mut server =
        Server::start(Layer::Plain, vec![vec![ReadRequest, Say(OK), ReadRequest]]).await;
    let upstream = server.upstream(PoolLimits::default());
    assert_eq!(call(&upstream, &server).await, 200);
    assert_eq!(
        (upstream.open_connections(), upstream.idle_connections()),
        (1, 1)
    );
    pass(Duration::from_secs(50)).await;
    // The server's second read ends because the connection does.
    server.until(Report::Done(0)).await;
    assert_eq!(
        (upstream.open_connections(), upstream.idle_connections()),
        (0, 0)
    );
}

#[tokio::test]
async fn bytes_that_nobody_asked_for_make_a_connection_unfit() {
    for layer in BOTH {
        let unasked = Say("HTTP/1.1 408 Request Timeout\r\n\r\n");
        let scripts = vec![
            vec![ReadRequest, Say(OK), Wait, unasked, Tell, Hang],
            vec![ReadRequest, Say(OK), Hang],
        ];
        let mut server = Server::start(layer, scripts).await;
        let upstream = server.upstream(PoolLimits::default());
        assert_eq!(call(&upstream, &server).await, 200);
        server.proceed();
        server.until(Report::Told(0)).await;
        assert_eq!(call(&upstream, &server).await, 200, "{layer:?}");
        assert_eq!(server.requests(), 2, "{layer:?}");
    }
}

#[tokio::test]
async fn idle_connections_are_bounded_per_origin_and_in_all() {
    let one = Server::start(Layer::Plain, vec![vec![Hang]; 3]).await;
    let two = Server::start(Layer::Plain, vec![vec![Hang]; 3]).await;
    let limits = PoolLimits {
        idle_per_origin: 2,
        idle_max: 3,
        ..PoolLimits::default()
    };
    let upstream = one.upstream(limits);
    let mut lines = Vec::new();
    for server in [&one, &one, &one, &two, &two] {
        let to = server.destination();
        lines.push(
            upstream
                .connect(&to, Purpose::Read, &timeouts())
                .await
                .unwrap(),
        );
    }
    assert_eq!(upstream.open_connections(), 5);
    let mut idle = Vec::new();
    for line in lines {
        drop(line);
        idle.push(upstream.idle_connections());
    }
    assert_eq!(idle, [1, 2, 2, 3, 3]);
    assert_eq!(upstream.open_connections(), 3);
}

#[tokio::test]
async fn a_full_house_gives_up_an_idle_connection_or_refuses() {
    let one = Server::start(Layer::Plain, vec![vec![Hang]; 3]).await;
    let two = Server::start(Layer::Plain, vec![vec![Hang]; 3]).await;
    let upstream = one.upstream(PoolLimits {
        open_max: 1,
        ..PoolLimits::default()
    });
    let line = upstream
        .connect(&one.destination(), Purpose::Read, &timeouts())
        .await
        .unwrap();
    let refused = upstream
        .connect(&two.destination(), Purpose::Read, &timeouts())
        .await;
    assert_eq!(
        refused.map(drop),
        Err(Verdict::NotSent(
            NotSent::Connect,
            Detail::TooManyConnections
        ))
    );
    assert_eq!(two.connections(), 0);
    drop(line);
    let line = upstream
        .connect(&two.destination(), Purpose::Read, &timeouts())
        .await
        .unwrap();
    assert_eq!(line.provenance(), Provenance::Dialled);
    assert_eq!(
        (upstream.open_connections(), upstream.idle_connections()),
        (1, 0)
    );
}

#[tokio::test]
async fn a_burst_on_connections_that_close_loses_none_unseen() {
    // Each connection answers once and closes under the next request's nose.
    let scripts = vec![vec![ReadRequest, Say(OK), Fin]; 400];
    let server = Server::start(Layer::Plain, scripts).await;
    let upstream = std::sync::Arc::new(server.upstream(PoolLimits::default()));
    let to = server.destination();
    let (mut answered, mut not_sent, mut lost) = (0, 0, 0);
    for _ in 0..5 {
        let mut burst = tokio::task::JoinSet::new();
        for _ in 0..60 {
            let (upstream, to) = (upstream.clone(), to.clone());
            burst.spawn(async move {
                let request = request(http::Method::POST, &to, "hello").await;
                upstream
                    .send(&to, Purpose::Write, request, || (), &timeouts())
                    .await
            });
        }
        while let Some(sent) = burst.join_next().await {
            match sent.unwrap() {
                sent @ Sent::Head(_) => {
                    finish(sent).await;
                    answered += 1;
                }
                Sent::NotSent { request, .. } => {
                    assert!(
                        request.is_some(),
                        "a request that was never begun comes back"
                    );
                    not_sent += 1;
                }
                Sent::Lost { .. } => lost += 1,
            }
        }
    }
    assert_eq!(answered + not_sent + lost, 300);
    // Every request that the server read was answered: none was read twice,
    // and none of those that are reported as not sent was read.
    assert_eq!(server.requests(), answered);
    assert!(answered > 0);
}
