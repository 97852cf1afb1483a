//! Stopping a request, and the moment from which its quota counts.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use rategov_core::action::outcome::{Evidence, Lost, NotSent};
use rategov_server::gateway::detail::Detail;
use rategov_server::gateway::evidence::{BodyEnd, Verdict};
use rategov_server::gateway::pool::PoolLimits;
use rategov_server::gateway::purpose::Purpose;
use rategov_server::gateway::upstream::Sent;

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
async fn a_stop_that_comes_after_the_end_leaves_the_next_request_alone() {
    for layer in BOTH {
        let script = vec![ReadRequest, Say(OK), ReadRequest, Tell, Wait, Say(OK), Hang];
        let mut server = Server::start(layer, vec![script]).await;
        let upstream = server.upstream(PoolLimits::default());
        let to = server.destination();
        let line = upstream
            .connect(&to, Purpose::Read, &timeouts())
            .await
            .unwrap();
        let late = line.stopper();
        let first = request(http::Method::POST, &to, "hello").await;
        finish(line.send(first, || (), &timeouts()).await).await;
        let second = tokio::spawn(async move { post(&upstream, &to, &timeouts()).await });
        server.until(Report::Told(0)).await;
        assert_eq!(
            late.stop(),
            Verdict::Lost(Lost::CallerGone, Detail::CallerGone)
        );
        server.proceed();
        let answered = Got::Head(200, BodyEnd::Complete, "ok".into());
        assert_eq!(second.await.unwrap(), answered, "{layer:?}");
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

/// Stops requests between their hook and their first write, where it is
/// closest: whoever gets the wire first decides.
async fn check_race(layer: Layer, rounds: usize) {
    let mut server = Server::start(layer, vec![vec![ReadRequest, ReadRequest]; rounds]).await;
    let upstream = server.upstream(PoolLimits::default());
    let to = server.destination();
    let mut withdrawn = 0;
    for round in 0..rounds {
        let before = server.requests();
        let line = upstream
            .connect(&to, Purpose::Write, &timeouts())
            .await
            .unwrap();
        let stopper = line.stopper();
        let request = request(http::Method::POST, &to, "hello").await;
        let start = Arc::new(Barrier::new(2));
        let starts = Arc::clone(&start);
        let hook = move || {
            starts.wait();
            // Some rounds give the stop a lead, some don't.
            for _ in 0..(round % 10) * 2_000 {
                std::hint::spin_loop();
            }
        };
        let stop = tokio::task::spawn_blocking(move || {
            start.wait();
            stopper.stop()
        });
        let sent = line.send(request, hook, &timeouts()).await;
        let verdict = stop.await.unwrap();
        // The connection is closed, so the server knows all that it will ever know.
        server.until(Report::Done(round)).await;
        match verdict {
            Verdict::NotSent(NotSent::Withdrawn, _) => {
                assert_eq!(server.requests(), before, "round {round}: {sent:?}");
                assert!(
                    matches!(sent, Sent::NotSent { .. }),
                    "round {round}: {sent:?}"
                );
                withdrawn += 1;
            }
            Verdict::Lost(Lost::CallerGone, _) => {
                assert!(matches!(sent, Sent::Lost { .. }), "round {round}: {sent:?}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(
        withdrawn > 0,
        "no stop came before its write, so nothing was raced"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_that_races_the_write_never_calls_a_sent_request_unsent() {
    check_race(Layer::Plain, 300).await;
    check_race(Layer::Tls, 60).await;
}
