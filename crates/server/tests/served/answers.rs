//! Answers, and what is said of their actions later.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rategov_core::engine::Decision;
use rategov_core::id::Operator;
use rategov_core::word::Choice;
use rategov_server::driver::Cell;

use super::*;

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

#[tokio::test]
async fn what_never_got_through_was_not_sent() {
    let world = World::new(Does::Absent).await;
    let heard = world.hear("POST", "/raw/orders", "order-1").await;
    assert!(heard.contains("\"upstream_unreachable\""), "{heard}");
    for target in ["order-1", "order-1/result"] {
        let target = format!("/governor/v1/actions/{target}");
        let heard = world.hear("GET", &target, "-").await;
        assert!(heard.contains("\"sent\":false"), "{target}: {heard}");
    }
    let mut waiting = world.call("POST", "/raw/keyed", "keyed").await;
    // A bound against hanging, not a measure.
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let action = world.hear("GET", "/governor/v1/actions/keyed", "-").await;
        if action.contains("\"attempts\":1") && action.contains("\"state\":\"waiting\"") {
            break;
        }
        assert!(Instant::now() < until, "it never waits: {action}");
    }
    let stopping = stopped_long_ago(world.governor).await;
    let heard = hear(&mut waiting).await;
    for part in ["HTTP/1.1 503", "\"shutting_down\"", "\"sent\":false"] {
        assert!(heard.contains(part), "{part} in {heard}");
    }
    stopping.await.unwrap();
}

#[tokio::test]
async fn an_action_names_the_same_next_step_as_its_answer() {
    for (status, fields, error, next) in [
        (429, "", "Request too large for this model", "change_call"),
        (429, "Retry-After: 7200\r\n", "slow down", "send_later"),
        (
            403,
            "Retry-After: 7200\r\n",
            "secondary rate limit",
            "send_later",
        ),
        (413, "", "too large", "change_call"),
        (402, "", "pay", "ask_operator"),
        (401, "", "who", "ask_operator"),
        (400, "", "API key expired", "ask_operator"),
        (422, "", "what", "change_call"),
    ] {
        let body = format!("{{\"error\":{{\"message\":\"{error}\"}}}}");
        let says = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{fields}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let world = World::new(Does::Says(says.leak())).await;
        let heard = world.hear("GET", "/raw/orders", "-").await;
        let step = format!("rategov-next: {next}\r\n");
        assert!(heard.contains(&step), "{status} {error}: {heard}");
        let field = "rategov-action: ";
        let id = &heard[heard.find(field).unwrap() + field.len()..];
        let target = format!("/governor/v1/actions/{}", id.lines().next().unwrap());
        // A bound against hanging, not a measure.
        let until = Instant::now() + Duration::from_secs(30);
        let action = loop {
            let action = world.hear("GET", &target, "-").await;
            if action.contains("\"final\":true") {
                break action;
            }
            assert!(Instant::now() < until, "it never ends: {action}");
        };
        let step = format!("\"next\":\"{next}\"");
        assert!(action.contains(&step), "{status} {error}: {action}");
        world.governor.shut_down().await;
    }
}

#[tokio::test]
async fn a_body_whose_write_is_asked_about_takes_no_room() {
    let once = "request_classes:
  idempotent_write: { max_attempts: 1, max_wait_seconds: 0, retry_statuses: [] }
";
    let mut world = World::under(Does::Says(""), once).await;
    let budget = world.governor.gateway().0.budget.clone();
    let driver = world.governor.gateway().0.driver.clone();
    let head = "POST /raw/keyed HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
                authorization: Bearer k\r\ncontent-length: 5\r\n\r\norder";
    let heard = hear(&mut world.send(head).await).await;
    assert!(heard.contains("\"code\":\"escalated\""), "{heard}");
    assert_eq!(budget.memory_used(), 0);
    assert_eq!(driver.runners(), 1, "it waits for the answer");
    assert_eq!(world.arrivals.recv().await.as_deref(), Some("/keyed order"));

    // Its bytes are there again when a person lets it be sent.
    let asked =
        |cell: &Arc<Cell>| driver.look(cell, |engine, _| engine.escalations().next().cloned());
    let question = driver.cells().iter().find_map(asked).unwrap();
    let decision = Decision {
        choice: Choice::RetrySameKey,
        by: Operator::new("ana").unwrap(),
        note: None,
        version: Some(question.version),
        typed: None,
    };
    assert!(driver.decide(question.escalation, decision).is_ok());
    assert_eq!(world.arrivals.recv().await.as_deref(), Some("/keyed order"));
    world.governor.shut_down().await;
}

#[tokio::test]
async fn a_body_that_streamed_away_takes_no_room_while_its_write_is_asked_about() {
    let world = World::under(Does::Says(""), "max_replay_body: 4B\n").await;
    let budget = world.governor.gateway().0.budget.clone();
    let head = "POST /raw/orders HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
                authorization: Bearer k\r\ncontent-length: 5\r\n\r\norder";
    let heard = hear(&mut world.send(head).await).await;
    assert!(heard.contains("\"code\":\"escalated\""), "{heard}");
    assert_eq!(budget.memory_used(), 0);
    world.governor.shut_down().await;
}

#[tokio::test]
async fn trailers_follow_an_object_that_was_read_before_it_was_passed_on() {
    const SAYS: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntrailer: x-sum\r\n\
        transfer-encoding: chunked\r\nconnection: close\r\n\r\n7\r\n{\"a\":1}\r\n0\r\nx-sum: 7\r\n\r\n";
    let world = World::new(Does::Says(SAYS)).await;
    let head = "GET /raw/a HTTP/1.1\r\nhost: x\r\nconnection: close\r\nte: trailers\r\n\
                authorization: Bearer k\r\n\r\n";
    let heard = hear(&mut world.send(head).await).await;
    assert!(
        heard.ends_with("{\"a\":1}\r\n0\r\nx-sum: 7\r\n\r\n"),
        "{heard}"
    );
    world.governor.shut_down().await;
}
