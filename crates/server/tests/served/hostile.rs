//! The JSON interfaces under requests that nobody would make: each is answered as a
//! request that can't be meant, whatever stands in it, and nothing of it is repeated.

use super::*;

/// No name, because of its line break, and so nothing that an answer may show.
const SECRET: &str = "sk-canary\n0123456789abcdef";

/// What a body may be that isn't what was asked for.
fn bodies() -> Vec<Vec<u8>> {
    let mut bodies: Vec<Vec<u8>> = [
        "",
        "null",
        "[]",
        "{}",
        "-1e308",
        "\"sk-canary 0123456789abcdef",
        "{\"choice\":",
        "{\"scope\":{},\"task\":[],\"agent\":7,\"choice\":true,\"version\":-1}",
        "{\"version\":18446744073709551616,\"choice\":\"cancel\"}",
        "{\"choice\":\"cancel\",\"version\":4294967296}",
        "{\"scope\":\"account:\u{1b}[31m\",\"task\":\"\",\"agent\":\"\"}",
        "\u{feff}{}",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    bodies.push(b"{\"task\":\"\xff\xfe\"}".to_vec());
    bodies.push([&b"["[..]; 5_000].concat());
    bodies.push(vec![b' '; (64 << 10) + 1]);
    for key in [
        "scope", "account", "task", "agent", "choice", "priority", "note", "confirm",
    ] {
        bodies.push(serde_json::json!({ key: SECRET }).to_string().into_bytes());
        let long = "x".repeat(5_000);
        bodies.push(serde_json::json!({ key: long }).to_string().into_bytes());
    }
    bodies
}

impl World {
    /// What the operators' interface answers.
    async fn operate(&self, method: &str, target: &str, body: &[u8]) -> String {
        let token = self.folder.path().join("data/operator-token");
        let token = std::fs::read_to_string(token).unwrap();
        let address = self.governor.operators;
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
             authorization: Bearer {}\r\ncontent-length: {}\r\n\r\n",
            token.trim(),
            body.len()
        );
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        // A body that is too long is answered before it has arrived.
        let _ = stream.write_all(body).await;
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard).await;
        String::from_utf8(heard).unwrap()
    }
}

#[track_caller]
fn check(what: &str, heard: &str, expected: &[&str]) {
    let (head, body) = heard.split_once("\r\n\r\n").unwrap_or((heard, ""));
    let status = head.get(9..12).unwrap_or("none");
    assert!(expected.contains(&status), "{what}: {heard}");
    assert!(
        serde_json::from_str::<serde_json::Value>(body).is_ok(),
        "{what}: {heard}"
    );
    assert!(
        !heard.contains("sk-canary") && !heard.contains('\u{1b}'),
        "{what}: {heard}"
    );
}

#[tokio::test]
async fn a_body_that_cannot_be_meant_is_a_mistake_of_its_sender() {
    let world = World::new(Does::Absent).await;
    let unknown = "00000000-0000-0000-0000-000000000007";
    let decide = format!("/api/v1/escalations/{unknown}/decide");
    let cancel = format!("/api/v1/actions/{unknown}/cancel");
    for target in [
        "/api/v1/scopes/resume",
        "/api/v1/tasks/cancel",
        &decide,
        &cancel,
    ] {
        for body in bodies() {
            let shown = body[..body.len().min(80)].escape_ascii();
            let heard = world.operate("POST", target, &body).await;
            check(&format!("{target} {shown}"), &heard, &["400", "404", "409"]);
        }
    }
    for body in bodies() {
        // A run needs nothing but a name, which is never the secret.
        let heard = world.operate("POST", "/api/v1/runs", &body).await;
        check(
            &format!("runs {}", body.escape_ascii()),
            &heard,
            &["400", "409"],
        );
    }
    world.governor.shut_down().await;
}

#[tokio::test]
async fn a_path_or_query_that_cannot_be_meant_is_a_mistake_of_its_sender() {
    let world = World::new(Does::Absent).await;
    let odd = [
        "actions?state=%ff%00",
        "actions?state=succeeded,,",
        "actions?limit=-1",
        "actions?limit=18446744073709551616",
        "actions?task=sk-canary%0a&agent=%1b",
        "actions/%2e%2e%2f%00",
        "actions/sk-canary%0a0123",
        "escalations/sk-canary%0a",
        "escalations?limit=NaN",
        "journal?action=%f0%28%8c&event=%00",
        "journal?limit=1e3",
        "queue?limit=99999999999999999999",
        "nowhere/%%%",
    ];
    for target in odd {
        let heard = world
            .operate("GET", &format!("/api/v1/{target}"), b"")
            .await;
        check(target, &heard, &["400", "404"]);
    }
    for target in ["runs/run-", "runs/run-99999999999999999999", "runs/%00"] {
        let heard = world
            .operate("DELETE", &format!("/api/v1/{target}"), b"")
            .await;
        check(target, &heard, &["404"]);
    }
    for target in [
        "actions/%ff%00",
        "tasks/%1b",
        "actions/sk-canary%0a",
        "scopes/x",
        "%00",
    ] {
        let heard = world
            .hear("GET", &format!("/governor/v1/{target}"), "k")
            .await;
        check(target, &heard, &["400", "404"]);
    }
    world.governor.shut_down().await;
}
