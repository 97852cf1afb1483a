//! The end of a stop: whoever still waits is told.

use std::time::{Duration, Instant};

use super::*;

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

#[tokio::test]
async fn a_body_that_is_still_on_its_way_at_the_end_of_a_stop_is_refused() {
    let mut world = World::new(Does::Says(CREATED)).await;
    let mut uploading = world
        .send(
            "POST /raw/orders HTTP/1.1\r\nhost: x\r\nauthorization: Bearer k\r\n\
             content-length: 10\r\nexpect: 100-continue\r\n\r\nhalf",
        )
        .await;
    // The governor asks for the body: it is being taken in.
    let mut interim = [0; 25];
    uploading.read_exact(&mut interim).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    let stopping = stopped_long_ago(world.governor).await;
    let heard = hear(&mut uploading).await;
    for part in [
        "HTTP/1.1 503",
        "\"code\":\"shutting_down\"",
        "\"sent\":false",
        "retry-after: 5",
    ] {
        assert!(heard.contains(part), "{part} in {heard:?}");
    }
    stopping.await.unwrap();
    assert!(world.arrivals.try_recv().is_err(), "it was never sent");
}
