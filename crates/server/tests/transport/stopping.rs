//! Stopping a request, and the moment from which its quota counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rategov_core::action::outcome::{Evidence, Lost, NotSent};
use rategov_server::gateway::evidence::{BodyEnd, Detail, Verdict};
use rategov_server::gateway::pool::{PoolLimits, Purpose};

use crate::support::*;
use Step::*;

#[tokio::test]
async fn a_request_stopped_before_its_first_byte_was_not_sent() {
    for layer in BOTH {
        let mut server = Server::start(layer, vec![vec![ReadRequest, Say(OK)]]).await;
        let upstream = server.upstream(PoolLimits::default());
        let to = server.destination();
        let line = upstream
            .connect(&to, Purpose::Write, &timeouts())
            .await
            .unwrap();
        let stopper = line.stopper();
        let withdrawn = Verdict::NotSent(NotSent::Withdrawn, Detail::Withdrawn);
        assert_eq!(stopper.stop(), withdrawn);
        let request = request(http::Method::POST, &to, "hello").await;
        let got = finish(line.send(request, || (), &timeouts()).await).await;
        assert_eq!(
            got,
            Got::NotSent(NotSent::ConnectionClosed, Detail::ClosedBeforeWrite)
        );
        assert_eq!(stopper.stop(), withdrawn, "stopping again says the same");
        server.until(Report::Done(0)).await;
        assert_eq!(server.requests(), 0, "{layer:?}");
    }
}

#[tokio::test]
async fn a_request_stopped_after_its_first_byte_is_lost() {
    for layer in BOTH {
        let mut server = Server::start(layer, vec![vec![ReadRequest, ReadRequest]]).await;
        let upstream = server.upstream(PoolLimits::default());
        let to = server.destination();
        let line = upstream
            .connect(&to, Purpose::Write, &timeouts())
            .await
            .unwrap();
        let stopper = line.stopper();
        let request = request(http::Method::POST, &to, "hello").await;
        let call = tokio::spawn(async move { line.send(request, || (), &timeouts()).await });
        server.until(Report::Requested(0)).await;
        let verdict = stopper.stop();
        assert_eq!(
            verdict,
            Verdict::Lost(Lost::CallerGone, Detail::CallerGone),
            "{layer:?}"
        );
        assert_eq!(verdict.evidence(), Evidence::Lost(Lost::CallerGone));
        let got = finish(call.await.unwrap()).await;
        assert!(matches!(got, Got::Lost(Lost::Closed, _)), "{got:?}");
        server.until(Report::Done(0)).await;
    }
}

#[tokio::test]
async fn a_dropped_send_writes_nothing_more() {
    for layer in BOTH {
        let mut server = Server::start(layer, vec![vec![ReadRequest, ReadRequest]]).await;
        let upstream = server.upstream(PoolLimits::default());
        let to = server.destination();
        let line = upstream
            .connect(&to, Purpose::Write, &timeouts())
            .await
            .unwrap();
        let stopper = line.stopper();
        let request = request(http::Method::POST, &to, "hello").await;
        {
            let patience = timeouts();
            let mut send = Box::pin(line.send(request, || (), &patience));
            tokio::select! {
                biased;
                _ = &mut send => panic!("nobody answers"),
                () = server.until(Report::Requested(0)) => {}
            }
        }
        assert_eq!(
            stopper.stop(),
            Verdict::Lost(Lost::CallerGone, Detail::CallerGone)
        );
        server.until(Report::Done(0)).await;
        assert_eq!(
            (server.requests(), upstream.open_connections()),
            (1, 0),
            "{layer:?}"
        );
    }
}

#[tokio::test]
async fn the_hook_runs_once_and_before_the_server_sees_anything() {
    for layer in BOTH {
        let script = vec![ReadRequest, Say(OK), ReadRequest, Say(OK), Hang];
        let server = Server::start(layer, vec![script]).await;
        let upstream = server.upstream(PoolLimits::default());
        let to = server.destination();
        let runs = Arc::new(AtomicUsize::new(0));
        for n in 0..2 {
            let line = upstream
                .connect(&to, Purpose::Read, &timeouts())
                .await
                .unwrap();
            assert_eq!(runs.load(Ordering::SeqCst), n, "a dial takes no quota");
            let (counter, seen) = (Arc::clone(&runs), Arc::clone(&server.seen));
            let hook = move || {
                counter.fetch_add(1, Ordering::SeqCst);
                assert_eq!(seen.requests.load(Ordering::SeqCst), n);
            };
            let request = request(http::Method::POST, &to, "hello").await;
            let got = finish(line.send(request, hook, &timeouts()).await).await;
            assert_eq!(got, Got::Head(200, BodyEnd::Complete, "ok".into()));
            assert_eq!(runs.load(Ordering::SeqCst), n + 1);
        }
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn a_hook_may_stop_its_own_request() {
    let server = Server::start(Layer::Plain, vec![vec![ReadRequest, Say(OK)]]).await;
    let upstream = server.upstream(PoolLimits::default());
    let to = server.destination();
    let line = upstream
        .connect(&to, Purpose::Write, &timeouts())
        .await
        .unwrap();
    let stopper = line.stopper();
    let hook = move || {
        assert_eq!(
            stopper.stop(),
            Verdict::NotSent(NotSent::Withdrawn, Detail::Withdrawn)
        );
    };
    let request = request(http::Method::POST, &to, "hello").await;
    let got = finish(line.send(request, hook, &timeouts()).await).await;
    assert_eq!(
        got,
        Got::NotSent(NotSent::ConnectionClosed, Detail::ClosedBeforeWrite)
    );
    assert_eq!(server.requests(), 0);
}
