//! A restart between two calls: what was true of a key, a credential or a scope
//! before it is true after it.

use serde_json::{Value, json};

use crate::support::caller::Call;
use crate::support::governor::Governor;
use crate::support::home::SECRET;
use crate::support::wait::Wait;
use crate::world::{World, Write, rests};

const ORDER: Write<'_> = Write {
    path: "/orders",
    operation: "order-1",
};

const INVITE: Write<'_> = Write {
    path: "/invites",
    operation: "invite-1",
};

/// Waits until an action is there and as it is wanted.
async fn until(governor: &Governor, key: &str, wanted: impl Fn(&Value) -> bool) {
    let wait = Wait::begin();
    loop {
        match governor.action(key).await {
            Ok(Some(action)) if wanted(&action) => return,
            _ => assert!(wait.pause().await, "{}", governor.log()),
        }
    }
}

#[tokio::test]
async fn a_key_that_was_cancelled_is_not_sent_after_a_restart() {
    let world = World::new().await;
    let refusal =
        json!({ "calls": "POST /orders", "status": 429, "headers": { "retry-after": "2" } });
    world.script(refusal);
    let governor = world.home.governor().up().await;
    let _refused = ORDER.start(&governor).await.unwrap();
    until(&governor, ORDER.operation, |order| {
        order["state"] == "waiting"
    })
    .await;
    let waits = INVITE.start(&governor).await.unwrap();
    until(&governor, INVITE.operation, |_| true).await;
    let cancel = Call {
        method: "DELETE",
        ..Call::get("/governor/v1/actions/invite-1")
    };
    assert_eq!(cancel.to(governor.agents).await.unwrap().status, 202);
    let told = waits.hear().await.unwrap();
    assert_eq!(
        (told.status, &told.json()["code"]),
        (410, &json!("cancelled"))
    );
    governor.killed().await;

    let governor = world.home.governor().up().await;
    let again = INVITE.send(&governor).await.unwrap();
    assert_eq!(
        (again.status, &again.json()["code"]),
        (410, &json!("cancelled"))
    );
    assert_eq!(world.effects_of(INVITE.operation), 0);
}

#[tokio::test]
async fn a_key_with_another_query_is_refused_before_and_after_a_restart() {
    let world = World::new().await;
    let mut governor = world.home.governor().up().await;
    assert_eq!(ORDER.send(&governor).await.unwrap().status, 200);
    let other = Call {
        method: "POST",
        target: "/fake/orders?of=another",
        fields: &[("idempotency-key", ORDER.operation)],
        body: &json!({ "external_ref": ORDER.operation }).to_string(),
    };
    for _life in 0..2 {
        let heard = other.to(governor.agents).await.unwrap();
        assert_eq!(
            (heard.status, &heard.json()["code"]),
            (422, &json!("key_reused"))
        );
        assert_eq!(ORDER.send(&governor).await.unwrap().status, 200);
        governor.killed().await;
        governor = world.home.governor().up().await;
    }
    assert_eq!(world.arrived(), 1);
}

#[tokio::test]
async fn a_key_that_comes_back_after_restarts_has_only_what_is_left_of_its_attempts() {
    let world = World::new().await;
    let text = std::fs::read_to_string(world.home.configuration()).unwrap();
    world
        .home
        .configure(&text.replace("hold: 20s", "hold: 50ms"));
    world.script(json!({
        "calls": "POST /orders", "status": 429, "headers": { "retry-after": "0.2" }, "times": "always",
    }));
    for _life in 0..6 {
        let governor = world.home.governor().up().await;
        let wait = Wait::begin();
        // While the scope is closed for longer than a caller is held, it is turned away.
        while ORDER.send(&governor).await.unwrap().json()["code"] == "hold_exceeded" {
            assert!(wait.pause().await, "{}", governor.log());
        }
        governor.killed().await;
    }
    assert_eq!(world.arrived(), 4, "its class allows four attempts");
}

/// Lets every caller bring its own credential.
fn without_accounts(world: &World) {
    let text = std::fs::read_to_string(world.home.configuration()).unwrap();
    let account = "    accounts:\n      ops: { credential: env:FAKE_KEY }\n";
    assert!(text.contains(account));
    let text = text.replace(account, "");
    world
        .home
        .configure(&text.replace("max_lookups: 8", "max_lookups: 2"));
}

/// A write with its caller's own credential; the governor dies while it is out.
async fn dies_with_its_callers_credential(world: &World, path: &str) {
    without_accounts(world);
    world.script(json!({ "calls": "POST *", "hold": true }));
    // What a stranger is told.
    world.script(json!({ "calls": "GET *", "status": 404, "times": "always", "body": {} }));
    let governor = world.home.governor().up().await;
    let write = Call {
        method: "POST",
        target: &format!("/fake{path}"),
        fields: &[
            ("authorization", "Bearer sk-own"),
            ("idempotency-key", "order-1"),
        ],
        body: &json!({ "external_ref": "order-1" }).to_string(),
    };
    let _open = write.start(governor.agents).await.unwrap();
    world.provider.handle.arrivals(1).await;
    governor.killed().await;
}

async fn nothing_is_sent_without_the_callers_credential(path: &str) {
    let world = World::new().await;
    dies_with_its_callers_credential(&world, path).await;
    let governor = world.home.governor().up().await;
    let action = rests(&governor, "order-1").await;
    assert_eq!(action["state"], "escalated", "{action}");
    assert_eq!(world.arrived(), 1, "{action}");
}

#[tokio::test]
async fn a_write_with_its_callers_credential_is_not_looked_up_by_a_stranger_after_a_restart() {
    nothing_is_sent_without_the_callers_credential("/records").await;
}

#[tokio::test]
async fn a_write_with_its_callers_credential_is_not_sent_by_a_stranger_after_a_restart() {
    nothing_is_sent_without_the_callers_credential("/orders").await;
}

#[tokio::test]
async fn a_repeat_that_joins_after_a_restart_is_told_that_the_write_was_sent() {
    let world = World::new().await;
    let text = std::fs::read_to_string(world.home.configuration()).unwrap();
    world
        .home
        .configure(&text.replace("max_lookups: 8", "max_lookups: 3"));
    world.script(json!({ "calls": "POST *", "hold": true }));
    world.script(json!({ "calls": "GET *", "status": 500, "times": "always" }));
    let governor = world.home.governor().up().await;
    let record = Write {
        path: "/records",
        operation: "record-1",
    };
    let _open = record.start(&governor).await.unwrap();
    world.provider.handle.arrivals(1).await;
    governor.killed().await;

    let governor = world.home.governor().up().await;
    let told = record.send(&governor).await.unwrap();
    let problem = told.json();
    assert_eq!(
        (told.status, &problem["code"]),
        (424, &json!("escalated")),
        "{problem}"
    );
    assert_eq!(
        (&problem["sent"], &problem["attempts"]),
        (&json!(true), &json!(1)),
        "{problem}"
    );
    assert_eq!(told.header("rategov-attempts"), Some("1"));
}

#[tokio::test]
async fn a_credential_that_a_provider_echoes_after_a_restart_is_told_to_nobody() {
    let world = World::new().await;
    world.script(json!({ "calls": "POST *", "hold": true }));
    let echo = json!({ "error": { "code": SECRET, "message": format!("no {SECRET}") } });
    world.script(json!({ "calls": "POST *", "status": 400, "body": echo, "times": "always" }));
    let governor = world.home.governor().up().await;
    let _open = ORDER.start(&governor).await.unwrap();
    world.provider.handle.arrivals(1).await;
    governor.killed().await;

    let governor = world.home.governor().up().await;
    let action = rests(&governor, ORDER.operation).await;
    assert_eq!(world.arrived(), 2, "{action}");
    let journal = governor
        .ask("/api/v1/journal")
        .await
        .unwrap()
        .json()
        .to_string();
    assert!(journal.contains("action_result"), "{journal}");
    assert!(!journal.contains(SECRET), "{journal}");
    assert!(!action.to_string().contains(SECRET), "{action}");
    assert!(!governor.log().contains(SECRET), "{}", governor.log());
    governor.killed().await;
    for file in std::fs::read_dir(world.home.data()).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap_or_default();
        let found = bytes
            .windows(SECRET.len())
            .any(|it| it == SECRET.as_bytes());
        assert!(!found, "{}", path.display());
    }
}

#[tokio::test]
async fn a_long_path_is_looked_up_whole_after_a_restart() {
    let world = World::new().await;
    let text = std::fs::read_to_string(world.home.configuration()).unwrap();
    let endpoint = "      - match: PUT /records/{id}
        class: idempotent_write
        reconcile: { request: \"GET /records/{id}\", found: $.id, authoritative: true, settle: 50ms, max_in_flight: 150ms, max_lookups: 1 }
";
    world.home.configure(&text.replace(
        "      - match: POST /invites",
        &format!("{endpoint}      - match: POST /invites"),
    ));
    let id = "r".repeat(700);
    world.script(json!({ "calls": "PUT *", "hold": true }));
    world.script(
        json!({ "calls": format!("GET /records/{id}"), "status": 200, "body": { "id": "rec_1" } }),
    );
    let governor = world.home.governor().up().await;
    let put = Call {
        method: "PUT",
        target: &format!("/fake/records/{id}"),
        fields: &[("rategov-action", "put-1")],
        body: "{}",
    };
    let _open = put.start(governor.agents).await.unwrap();
    world.provider.handle.arrivals(1).await;
    governor.killed().await;

    let governor = world.home.governor().up().await;
    let action = rests(&governor, "put-1").await;
    assert_eq!(action["state"], "succeeded", "{action}");
}
