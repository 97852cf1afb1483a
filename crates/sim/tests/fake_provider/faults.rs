//! Each scripted fault over a real socket: the bytes that arrive, how the
//! connection ends, and what the provider's own ledger says.

use crate::support::{Caller, End, ledger, push, request, soon, start, start_with, status};
use serde_json::{Value, json};

const CREATE: &str = r#"{"external_ref":"op-1"}"#;

fn create() -> String {
    request("POST", "/records", &[("idempotency-key", "k1")], CREATE)
}

/// One create under a fault that ends the connection: the end of what is read,
/// how the connection ends, and how many effects there were.
async fn check(step: Value, tail: &str, end: End, effects: u64) -> String {
    let word = step.to_string();
    let running = start_with(step).await;
    let mut caller = Caller::connect(&running).await;
    caller.write(create()).await;
    let (text, ended) = caller.read_to_end().await;
    assert!(text.ends_with(tail), "{word}: {text:?}");
    assert_eq!(ended, end, "{word}");
    let ledger = ledger(&running);
    assert_eq!(ledger["totals"]["effects"], effects, "{word}");
    assert_eq!(ledger["totals"]["faulted"], 1, "{word}");
    assert_eq!(ledger["arrivals"][0]["ended"], "cut", "{word}");
    assert!(running.handle.script_left().is_empty(), "{word}");
    text
}

#[tokio::test]
async fn an_answer_is_lost_before_or_after_the_effect_by_close_or_by_reset() {
    for (fault, end, effects) in [
        ("close_before_effect", End::Fin, 0),
        ("close_after_effect", End::Fin, 1),
        ("reset_before_effect", End::Rst, 0),
        ("reset_after_effect", End::Rst, 1),
    ] {
        let text = check(json!({"fault": fault}), "", end, effects).await;
        assert_eq!(text, "", "{fault}: not one byte");
    }
}

#[tokio::test]
async fn half_a_body_looks_unfinished_but_where_the_end_is_the_close() {
    let halves = [("fin", End::Fin), ("rst", End::Rst)];
    for (ending, end) in halves {
        let fault = |word: &str| json!({"fault": word, "ending": ending});
        let text = check(fault("half_body"), "", end, 1).await;
        let (head, body) = text.split_once("\r\n\r\n").expect("a whole head");
        assert_eq!(status(head), 201);
        let length: usize = crate::support::header(head, "content-length")
            .expect("a length")
            .parse()
            .expect("a number");
        assert_eq!(body.len(), length / 2);

        let text = check(fault("half_body_chunked"), "\r\n", end, 1).await;
        assert!(text.contains("transfer-encoding: chunked") && !text.ends_with("0\r\n\r\n"));

        let text = check(fault("half_body_until_close"), "", end, 1).await;
        assert!(!text.contains("content-length") && text.contains("connection: close"));
    }
}

#[tokio::test]
async fn an_interim_head_or_garbage_is_all_that_comes() {
    let interim = "HTTP/1.1 102 Processing\r\n\r\n";
    let text = check(json!({"fault": "interim_only"}), interim, End::Fin, 1).await;
    assert_eq!(text, interim);
    let skipped = json!({"fault": "interim_only", "effect": "skipped", "ending": "rst"});
    check(skipped, interim, End::Rst, 0).await;
    let text = check(
        json!({"fault": "malformed"}),
        "not HTTP\r\n\r\n",
        End::Fin,
        1,
    )
    .await;
    assert!(!text.starts_with("HTTP/"));
}

#[tokio::test]
async fn silence_says_nothing_until_the_caller_leaves() {
    for (fault, effects) in [("silence_before_effect", 0), ("silence_after_effect", 1)] {
        let running = start_with(json!({"fault": fault})).await;
        let mut caller = Caller::connect(&running).await;
        caller.write(create()).await;
        soon(running.handle.arrivals(1)).await;
        assert!(caller.is_silent(), "{fault}");
        assert_eq!(ledger(&running)["totals"]["effects"], effects, "{fault}");
        assert_eq!(ledger(&running)["arrivals"][0]["ended"], Value::Null);
        drop(caller);
        soon(
            running
                .handle
                .until(|provider, _| provider.in_flight() == 0),
        )
        .await;
        assert_eq!(
            ledger(&running)["arrivals"][0]["ended"],
            "caller_gone",
            "{fault}"
        );
    }
}

/// One create that is answered whole: the status, a field, and the effects.
async fn answered(step: Value, expected: u16, field: (&str, Option<&str>), effects: u64) -> Value {
    let word = step.to_string();
    let running = start_with(step).await;
    let mut caller = Caller::connect(&running).await;
    caller.write(create()).await;
    let (head, body) = caller.answer().await;
    assert_eq!(status(&head), expected, "{word}");
    assert_eq!(crate::support::header(&head, field.0), field.1, "{word}");
    assert_eq!(ledger(&running)["totals"]["effects"], effects, "{word}");
    let (head, _) = caller.send("GET", "/records", "").await;
    assert_eq!(status(&head), 200, "{word}: the connection serves on");
    serde_json::from_slice(&body).unwrap_or(Value::Null)
}

#[tokio::test]
async fn an_error_status_says_nothing_about_the_effect() {
    let retry = ("retry-after", Some("2"));
    let overloaded = json!({"status": 503, "headers": {"Retry-After": "2"}});
    answered(overloaded, 503, retry, 0).await;
    answered(
        json!({"status": 529, "headers": {"Retry-After": "2"}}),
        529,
        retry,
        0,
    )
    .await;
    answered(json!({"status": 500}), 500, ("retry-after", None), 0).await;
    let hidden = json!({"status": 502, "effect": "applied", "body": "<html>bad gateway</html>"});
    answered(
        hidden,
        502,
        ("content-type", Some("text/plain; charset=utf-8")),
        1,
    )
    .await;
    let many = json!({"status": 429, "headers": {"x-a": ["1", "2"]}, "body": {"error": {}}});
    let body = answered(many, 429, ("x-a", Some("1")), 0).await;
    assert_eq!(body, json!({"error": {}}));
}

#[tokio::test]
async fn a_slow_body_arrives_whole() {
    let slow = json!({"fault": "slow_body", "pieces": 4, "pause_ms": 2});
    let body = answered(slow, 201, ("retry-after", None), 1).await;
    assert_eq!(body["id"], "rec_1");
}

#[tokio::test]
async fn a_dead_connection_is_found_out_only_by_using_it() {
    let running = start_with(json!({"fault": "close_after_answer"})).await;
    let mut caller = Caller::connect(&running).await;
    caller.write(create()).await;
    let (head, _) = caller.answer().await;
    assert_eq!(
        (status(&head), crate::support::header(&head, "connection")),
        (201, None)
    );
    caller.write(create()).await;
    let (text, _) = caller.read_to_end().await;
    assert_eq!(
        (text.as_str(), &ledger(&running)["totals"]["arrived"]),
        ("", &json!(1))
    );
}

#[tokio::test]
async fn an_upload_is_cut_after_so_many_bytes() {
    for (ending, end) in [("rst", End::Rst), ("fin", End::Fin)] {
        let running =
            start_with(json!({"fault": "cut_upload", "after": 10, "ending": ending})).await;
        let mut caller = Caller::connect(&running).await;
        let head = "POST /records HTTP/1.1\r\nhost: fake\r\ncontent-length: 100\r\n\r\n";
        caller.write(format!("{head}0123456789")).await;
        assert_eq!(caller.read_to_end().await, (String::new(), end));
        let ledger = ledger(&running);
        assert_eq!(ledger["arrivals"][0]["body_bytes"], 10);
        assert_eq!(ledger["totals"]["effects"], 0);
    }
}

fn ask(stream: bool) -> String {
    let body = json!({"model": "m", "max_tokens": 8, "messages": [], "stream": stream});
    request("POST", "/v1/messages", &[], &body.to_string())
}

/// The names of the events in a chunked stream.
fn names(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("event: "))
        .collect()
}

#[tokio::test]
async fn a_stream_is_cut_after_so_many_events() {
    for (ending, end) in [("fin", End::Fin), ("rst", End::Rst)] {
        let step = json!({"fault": "stream_cut", "after": 3, "ending": ending});
        let running = start_with(step).await;
        let mut caller = Caller::connect(&running).await;
        caller.write(ask(true)).await;
        let (text, ended) = caller.read_to_end().await;
        assert_eq!(
            names(&text),
            ["message_start", "content_block_start", "ping"]
        );
        assert!(ended == end && !text.ends_with("0\r\n\r\n"));
        assert_eq!(ledger(&running)["totals"]["generations"], 1);
    }
}

#[tokio::test]
async fn a_stream_reports_its_own_failure_and_ends_properly() {
    let running = start_with(json!({"fault": "error_event", "after": 2})).await;
    let mut caller = Caller::connect(&running).await;
    caller.write(ask(true)).await;
    let text = caller.read_until("0\r\n\r\n").await;
    assert_eq!(
        names(&text),
        ["message_start", "content_block_start", "error"]
    );
    assert!(text.contains(r#""type":"overloaded_error""#));
    let (head, _) = caller.send("GET", "/x", "").await;
    assert_eq!(status(&head), 200, "the connection serves on");
}

#[tokio::test]
async fn a_held_answer_comes_when_it_is_released_and_the_effect_is_there_before() {
    let running = start_with(json!({"hold": true})).await;
    let mut caller = Caller::connect(&running).await;
    caller.write(create()).await;
    soon(running.handle.effects(1)).await;
    let mut other = Caller::connect(&running).await;
    let (_, found) = other.send("GET", "/records?key=k1", "").await;
    assert_eq!(found["items"][0]["id"], "rec_1");
    assert!(caller.is_silent());
    // The hold begins when the call is played, which may be a moment later.
    let answered = async {
        loop {
            running.handle.release();
            if !caller.is_silent() {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    soon(answered).await;
    assert_eq!(ledger(&running)["arrivals"][0]["status"], 201);
}

#[tokio::test]
async fn connections_are_refused_and_then_taken_again_on_the_same_port() {
    let running = start(Default::default()).await;
    let refuse = |ms: u64| {
        let doors = serde_json::from_value(json!({ "refuse_ms": ms })).expect("doors");
        running.handle.change_doors(doors);
    };
    let addr = running.addr;
    let connects = |wanted: bool| async move {
        while tokio::net::TcpStream::connect(addr).await.is_ok() != wanted {
            tokio::task::yield_now().await;
        }
    };
    refuse(3_600_000);
    soon(connects(false)).await;
    refuse(5);
    soon(connects(true)).await;
    let mut caller = Caller::connect(&running).await;
    assert_eq!(status(&caller.send("GET", "/x", "").await.0), 200);
    assert_eq!(ledger(&running)["totals"]["arrived"], 1);
}

#[tokio::test]
async fn a_connection_is_reset_or_closed_as_it_is_accepted() {
    let running = start(Default::default()).await;
    let written = json!({"reset_at_accept": 1, "close_at_accept": 1});
    running
        .handle
        .change_doors(serde_json::from_value(written).expect("doors"));
    for end in [End::Rst, End::Fin] {
        let mut caller = Caller::connect(&running).await;
        assert_eq!(caller.read_to_end().await, (String::new(), end));
    }
    let mut caller = Caller::connect(&running).await;
    assert_eq!(status(&caller.send("GET", "/x", "").await.0), 200);
}

#[tokio::test]
async fn an_idle_connection_is_closed_without_a_word() {
    let running = start(Default::default()).await;
    let mut caller = Caller::connect(&running).await;
    assert_eq!(status(&caller.send("GET", "/x", "").await.0), 200);
    let doors = serde_json::from_value(json!({"close_idle_ms": 20})).expect("doors");
    running.handle.change_doors(doors);
    assert_eq!(caller.read_to_end().await, (String::new(), End::Fin));
}

#[tokio::test]
async fn the_second_create_is_met_and_the_others_pass() {
    let running = start(Default::default()).await;
    push(
        &running,
        json!({"calls": "POST /records", "skip": 1, "fault": "reset_after_effect"}),
    );
    let mut caller = Caller::connect(&running).await;
    for key in ["a", "b"] {
        caller
            .write(request(
                "POST",
                "/records",
                &[("idempotency-key", key)],
                "{}",
            ))
            .await;
        if key == "a" {
            assert_eq!(status(&caller.answer().await.0), 201);
        }
    }
    assert_eq!(caller.read_to_end().await, (String::new(), End::Rst));
    let mut caller = Caller::connect(&running).await;
    let (_, found) = caller.send("GET", "/records?key=b", "").await;
    assert_eq!(found["items"][0]["id"], "rec_2");
}
