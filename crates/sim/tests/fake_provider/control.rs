//! The control API as another process uses it.

use crate::support::{Caller, header, request, start, status};
use rategov_sim::fake_provider::Running;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One control call on a connection of its own.
async fn control(running: &Running, method: &str, target: &str, body: &str) -> (u16, Value) {
    let addr = running.control_addr.expect("there is control");
    let mut stream = TcpStream::connect(addr).await.expect("it listens");
    let target = format!("/__control/{target}");
    let bytes = request(method, &target, &[("connection", "close")], body);
    stream.write_all(bytes.as_bytes()).await.expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("it answers");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let kind = header(head, "content-type").expect("a type");
    assert_eq!(
        kind == "application/problem+json",
        status(head) >= 400,
        "{head}"
    );
    (status(head), serde_json::from_str(body).expect("JSON"))
}

#[tokio::test]
async fn a_script_is_pushed_met_and_proved_to_be_met() {
    let running = start(Default::default()).await;
    let script =
        json!({"steps": [{"calls": "GET /a", "status": 503}, {"status": 429, "times": 2}]});
    let (code, answer) = control(&running, "POST", "script", &script.to_string()).await;
    assert_eq!((code, answer), (200, json!({"steps": 2})));
    let (_, open) = control(&running, "GET", "completed", "").await;
    assert_eq!(
        (&open["completed"], open["left"].as_array().map(Vec::len)),
        (&false.into(), Some(2))
    );
    let mut caller = Caller::connect(&running).await;
    for expected in [503, 429, 429, 200] {
        assert_eq!(status(&caller.send("GET", "/a", "").await.0), expected);
    }
    let (_, done) = control(&running, "GET", "completed", "").await;
    assert_eq!(done, json!({"completed": true, "left": []}));
}

#[tokio::test]
async fn an_upstream_repeats_its_last_answer_until_the_script_is_cleared() {
    let running = start(Default::default()).await;
    let upstream = json!({"upstream": [{"status": 429}, {"status": 503}]});
    control(&running, "POST", "script", &upstream.to_string()).await;
    let mut caller = Caller::connect(&running).await;
    for expected in [429, 503, 503] {
        assert_eq!(status(&caller.send("GET", "/a", "").await.0), expected);
    }
    control(&running, "POST", "script", r#"{"clear": true}"#).await;
    assert_eq!(status(&caller.send("GET", "/a", "").await.0), 200);
}

#[tokio::test]
async fn the_ledger_waits_for_what_is_to_happen() {
    let running = start(Default::default()).await;
    let (_, early) = control(&running, "GET", "ledger?arrivals=1&wait_ms=1", "").await;
    assert_eq!(early["totals"]["arrived"], 0, "it is not reached in time");
    let waiting = control(
        &running,
        "GET",
        "ledger?arrivals=2&effects=1&wait_ms=30000",
        "",
    );
    let calling = async {
        let mut caller = Caller::connect(&running).await;
        caller.send("GET", "/a", "").await;
        caller
            .write(request(
                "POST",
                "/records",
                &[("Idempotency-Key", "k")],
                "{}",
            ))
            .await;
        caller.answer().await
    };
    let ((code, ledger), _) = tokio::join!(waiting, calling);
    assert_eq!((code, &ledger["totals"]["arrived"]), (200, &json!(2)));
    assert_eq!(ledger["effects_by_key"]["k"], 1);
    assert!(ledger["now_us"].as_u64() >= ledger["effects"][0]["at_us"].as_u64());
    let (_, later) = control(&running, "GET", "ledger?since=1", "").await;
    let numbers: Vec<_> = later["arrivals"]
        .as_array()
        .expect("a list")
        .iter()
        .collect();
    assert_eq!((numbers.len(), &numbers[0]["no"]), (1, &json!(2)));
}

#[tokio::test]
async fn limits_are_replaced_and_everything_is_forgotten_on_demand() {
    let running = start(Default::default()).await;
    let quotas = json!({"quotas": ["sliding:1/1h"]}).to_string();
    assert_eq!(control(&running, "POST", "quota", &quotas).await.0, 200);
    let mut caller = Caller::connect(&running).await;
    for expected in [200, 429] {
        assert_eq!(status(&caller.send("POST", "/a", "{}").await.0), expected);
    }
    assert_eq!(control(&running, "POST", "reset", "").await.0, 200);
    assert_eq!(
        status(&caller.send("GET", "/a", "").await.0),
        200,
        "the quota is whole again"
    );
    assert_eq!(
        status(&caller.send("GET", "/a", "").await.0),
        429,
        "and still there"
    );
    let (_, ledger) = control(&running, "GET", "ledger", "").await;
    assert_eq!(
        (&ledger["totals"]["arrived"], &ledger["totals"]["effects"]),
        (&json!(2), &json!(0))
    );
}

#[tokio::test]
async fn a_limit_that_is_changed_in_use_remembers_what_was_counted() {
    let running = start(Default::default()).await;
    let change = async |rule: &str, keep: bool| {
        let quotas = json!({"quotas": [rule], "keep": keep}).to_string();
        control(&running, "POST", "quota", &quotas).await.0
    };
    assert_eq!(change("sliding:4/1h", false).await, 200);
    let mut caller = Caller::connect(&running).await;
    let mut next = async || status(&caller.send("GET", "/a", "").await.0);
    assert_eq!([next().await, next().await], [200, 200]);
    assert_eq!(change("sliding:2/1h", true).await, 200);
    assert_eq!(next().await, 429, "half of four is used up");
    assert_eq!(change("sliding:3/1h", true).await, 200);
    assert_eq!([next().await, next().await], [200, 429]);
    assert_eq!(change("sliding:3/1h", false).await, 200);
    assert_eq!(next().await, 200, "without `keep` it counts anew");
}

#[tokio::test]
async fn connections_are_scripted_too() {
    let running = start(Default::default()).await;
    let script = json!({"connections": {"reset_at_accept": 1}}).to_string();
    assert_eq!(control(&running, "POST", "script", &script).await.0, 200);
    let (_, open) = control(&running, "GET", "completed", "").await;
    assert_eq!(open["completed"], false);
    let mut caller = Caller::connect(&running).await;
    assert_eq!(caller.read_to_end().await.1, crate::support::End::Rst);
    let (_, done) = control(&running, "GET", "completed", "").await;
    assert_eq!(done["completed"], true);
}

#[tokio::test]
async fn a_mistake_is_answered_with_its_cause_and_a_hint_and_changes_nothing() {
    let running = start(Default::default()).await;
    for (target, body, code, cause) in [
        (
            "script",
            r#"{"stepps": []}"#,
            "unreadable_body",
            "unknown field `stepps`",
        ),
        (
            "script",
            r#"{"steps": [{"status": 200}, {"fault": "boom"}]}"#,
            "unplayable_script",
            "step 2: \"boom\"",
        ),
        (
            "script",
            r#"{"upstream": [{"when": "?"}]}"#,
            "unplayable_script",
            "answer 1: ",
        ),
        (
            "quota",
            r#"{"quotas": ["sliding:60"]}"#,
            "unreadable_quota",
            "\"60\" names no window",
        ),
        ("nothing", "", "no_such_call", "POST /__control/nothing"),
    ] {
        let (status, problem) = control(&running, "POST", target, body).await;
        assert!(status == 400 || status == 404);
        assert_eq!(problem["code"], code, "{problem}");
        let title = problem["title"].as_str().expect("a title");
        assert!(title.contains(cause), "{title}");
        assert!(!problem["detail"].as_str().expect("a hint").is_empty());
    }
    let (_, problem) = control(&running, "GET", "ledger?since=x", "").await;
    assert_eq!(problem["code"], "unreadable_query");
    assert_eq!(
        control(&running, "GET", "completed", "").await.1["completed"],
        true
    );
}
