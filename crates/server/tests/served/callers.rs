//! Callers that speak strangely, say no more, or leave.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rategov_server::driver::{Cell, Driver};

use super::*;

#[tokio::test]
async fn a_request_whose_head_is_no_head_of_http_is_refused() {
    let mut world = World::new(Does::Says(CREATED)).await;
    for (head, code, detail) in [
        (
            "GET /raw/a HTTP/1.1\r\nhost: x\r\nHost: x\r\n",
            "bad_header",
            "more than once",
        ),
        ("GET /raw/a HTTP/1.1\r\n", "bad_header", "missing"),
        (
            "GET /raw/a HTTP/1.0\r\nhost: x\r\nhost: y\r\n",
            "bad_header",
            "more than once",
        ),
        (
            "GET /raw/a#b HTTP/1.1\r\nhost: x\r\n",
            "bad_target",
            "fragment",
        ),
        (
            "GET /raw/a?b=c#d HTTP/1.1\r\nhost: x\r\n",
            "bad_target",
            "fragment",
        ),
        (
            "GET /raw/a HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999999999999\r\n",
            "bad_framing",
            "where the body ends",
        ),
        (
            "POST /raw/a HTTP/1.0\r\nhost: x\r\ntransfer-encoding: chunked\r\n",
            "bad_framing",
            "where the body ends",
        ),
        (
            "GET /raw/a b HTTP/1.1\r\nhost: x\r\n",
            "bad_header",
            "first line",
        ),
        (
            "GET /raw/a HTTP/1.1\r\nhost: x\r\nx: \u{1}\r\n",
            "bad_header",
            "a byte that it can't",
        ),
    ] {
        let head = format!("{head}authorization: Bearer k\r\nconnection: close\r\n\r\n");
        let heard = hear(&mut world.send(&head).await).await;
        assert!(heard.contains(" 400 Bad Request\r\n"), "{head}{heard}");
        for part in [&format!("\"code\":\"{code}\""), detail] {
            assert!(heard.contains(part), "{part}: {head}{heard}");
        }
    }
    let without = "GET /raw/a HTTP/1.0\r\nauthorization: Bearer k\r\n\r\n";
    let heard = hear(&mut world.send(without).await).await;
    assert!(heard.contains(" 201 Created"), "{heard}");
    assert_eq!(world.arrivals.recv().await.as_deref(), Some("/a"));
    assert!(world.arrivals.try_recv().is_err(), "nothing else was sent");
    world.governor.shut_down().await;
}

#[tokio::test]
async fn a_caller_that_has_said_all_it_had_to_say_gets_its_answer() {
    let streamed = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                    Connection: close\r\n\r\ndata: one\n\n";
    let cases = [
        ("GET", "/raw/orders", CREATED),
        ("POST", "/raw/generate", streamed),
    ];
    for (method, target, says) in cases {
        for seconds in [0, 5] {
            let mut world = World::new(Does::Waits(says)).await;
            let mut open = world.call(method, target, "half").await;
            open.shutdown().await.unwrap();
            world.arrivals.recv().await.unwrap();
            // It is asked whether it is still there, and is.
            for _ in 0..seconds {
                pass(1).await;
            }
            world.may_say.add_permits(1);
            let heard = hear(&mut open).await;
            assert!(heard.contains(&says[..12]), "{seconds} s: {heard:?}");
            let body = says.rsplit("\r\n\r\n").next().unwrap();
            assert!(heard.contains(body.trim_end()), "{seconds} s: {heard:?}");
            world.governor.shut_down().await;
        }
    }
}

#[tokio::test]
async fn a_caller_that_leaves_while_it_waits_is_withdrawn() {
    for version in ["1.0", "1.1"] {
        let mut world = World::new(Does::Waits(CREATED)).await;
        let mut open = world.call("POST", "/raw/orders", "first").await;
        world.arrivals.recv().await.unwrap();
        let leaving =
            format!("GET /raw/orders HTTP/{version}\r\nhost: x\r\nauthorization: Bearer k\r\n\r\n");
        let leaving = world.send(&leaving).await;
        let waits = async |is_there: bool| {
            // A bound against hanging, not a measure.
            let until = Instant::now() + Duration::from_secs(30);
            let driver = &world.governor.gateway().0.driver;
            while driver
                .cells()
                .iter()
                .all(|cell| cell_waits(driver, cell) == 0)
                == is_there
            {
                assert!(Instant::now() < until, "HTTP/{version}");
                tokio::task::yield_now().await;
            }
        };
        waits(true).await;
        drop(leaving);
        waits(false).await;
        world.may_say.add_permits(1);
        assert!(hear(&mut open).await.contains(" 201 Created"));
        world.governor.shut_down().await;
        assert!(world.arrivals.try_recv().is_err(), "it was never sent");
    }
}

/// How many calls wait in an account.
fn cell_waits(driver: &Driver, cell: &Arc<Cell>) -> usize {
    driver
        .look(cell, |engine, _| Some(engine.waiting()))
        .unwrap_or(0)
}

#[tokio::test]
async fn a_caller_that_ends_in_the_middle_of_its_body_is_told() {
    let mut world = World::new(Does::Says(CREATED)).await;
    for framing in [
        "content-length: 10\r\n\r\nhalf",
        "transfer-encoding: chunked\r\n\r\n5\r\nab",
    ] {
        let head = "POST /raw/orders HTTP/1.1\r\nhost: x\r\nauthorization: Bearer k\r\n";
        let mut cut = world.send(&format!("{head}{framing}")).await;
        cut.shutdown().await.unwrap();
        let heard = hear(&mut cut).await;
        assert!(heard.contains("\"code\":\"body_cut\""), "{heard}");
    }
    assert!(world.arrivals.try_recv().is_err(), "nothing was sent");
    world.governor.shut_down().await;
}

#[tokio::test]
async fn a_caller_that_begins_in_http2_is_told_what_is_spoken_here() {
    let world = World::new(Does::Says(CREATED)).await;
    let opening = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for bytes in [opening.to_owned(), format!("{opening}\0\0\0\x04\0\0\0\0\0")] {
        let heard = hear(&mut world.send(&bytes).await).await;
        assert!(heard.starts_with("HTTP/1.1 400 "), "{heard:?}");
        assert!(heard.contains("\"detail\":\"HTTP/1.1 only: "), "{heard}");
        assert!(heard.contains("connection: close\r\n"), "{heard}");
    }
}
